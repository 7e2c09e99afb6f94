"""Many threads, one producer, little room: nothing is lost, doubled or out of order, and all of it is counted."""

import threading

import pytest

from bowstring.clients.errors import ClientError
from bowstring.clients.producer.producer import Producer
from tests.support.fake_broker import FakeBroker
from tests.support.produced_batches import Store
from tests.support.waiting import HANG_S


@pytest.mark.parametrize("linger_ms", [1, 0])
@pytest.mark.parametrize("trouble", [0.0, 0.2])
def test_every_record_once_and_in_order(trouble, linger_ms):
    threads, each = 6, 1500
    with FakeBroker(partitions=3) as broker:
        store = Store(broker, 7, trouble)
        producer = Producer(
            broker.bootstrap, batch_size=2000, buffer_memory=30_000, linger_ms=linger_ms, retry_backoff_ms=1
        )
        done = []

        def work(number):
            for i in range(each):
                size = (i * 7919) % 90
                producer.send("t", b"%d " % i + b"x" * size, b"%d" % number, on_delivery=done.append)

        workers = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(HANG_S)
        producer.flush(HANG_S)
        metrics = producer.metrics()
        assert producer.accumulator.buffered_bytes == 0 and not producer.accumulator.unfinished
        producer.close()
    assert len(done) == threads * each and all(future.exception(0) is None for future in done)
    by_key = {}
    for found in store.records().values():
        for record in found:
            by_key.setdefault(record.key, []).append(int(record.value.split()[0]))
    assert by_key == {b"%d" % n: list(range(each)) for n in range(threads)}
    assert metrics["record-send-total"] == threads * each and metrics["record-error-total"] == 0
    assert metrics["buffer-available-bytes"] == 30_000 and metrics["request-latency-avg"] > 0
    assert (metrics["record-retry-total"] > 0) == (trouble > 0)


def test_closing_while_threads_send():
    with FakeBroker() as broker:
        Store(broker, 1, 0.0)
        producer = Producer(broker.bootstrap, linger_ms=0, batch_size=500)
        futures = []

        def work():
            try:
                while True:
                    futures.append(producer.send("t", b"x" * 50))
            except ClientError:
                return

        workers = [threading.Thread(target=work) for _ in range(3)]
        for worker in workers:
            worker.start()
        while len(futures) < 200:
            pass
        producer.close(HANG_S)
        for worker in workers:
            worker.join(HANG_S)
    assert all(future.done() for future in futures)
    assert all(future.exception(0) is None for future in futures), "what was taken is sent before the end"
