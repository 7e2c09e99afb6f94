"""A broker is killed and restarted under the Python producer: records are stored once, in order, in place.

BOWSTRING_KILLS sets another number of kills, BOWSTRING_SEED other moments.
"""

import os
import random
import signal
import threading
from typing import Any

import pyarrow as pa
import pytest

import bowstring
from bowstring.clients.errors import ClientError
from bowstring.clients.records import TopicPartition
from tests.support.serving import Process, steady_port
from tests.support.waiting import FOR_EVER_MS, HANG_S

KILLS = int(os.environ.get("BOWSTRING_KILLS", "6"))
SEED = int(os.environ.get("BOWSTRING_SEED", "1"))
TOPIC, PARTITIONS, THREADS = "events", 3, 3


class Work:
    """Threads that send numbers in every available way until `stop`."""

    def __init__(self, producer: bowstring.Producer) -> None:
        self.producer = producer
        self.stopping = threading.Event()
        self.sent: list[tuple[Any, int, list[bytes]]] = []  # future, partition, values
        self.problems: list[Exception] = []
        self.threads = [threading.Thread(target=self.work, args=(number,)) for number in range(THREADS)]
        for thread in self.threads:
            thread.start()

    def work(self, number: int) -> None:
        """The work of one thread."""
        chance, at = random.Random(SEED * 100 + number), 0
        try:
            while not self.stopping.is_set():
                count = 1 if chance.random() < 0.95 else chance.randrange(1, 200)
                values = [b"%d:%d:" % (number, at + i) + b"." * chance.randrange(200) for i in range(count)]
                at += count
                partition = chance.randrange(PARTITIONS)
                if count == 1:
                    future: Any = self.producer.send(TOPIC, values[0], partition=partition)
                else:
                    table = pa.table({"value": values, "partition": [partition] * count})
                    future = self.producer.send_arrow(TOPIC, table)
                self.sent.append((future, partition, values))
                if chance.random() < 0.01:
                    self.producer.flush(HANG_S)
                self.stopping.wait(0.0005)
        except ClientError as problem:
            self.problems.append(problem)

    def stop(self) -> None:
        """Ends the threads."""
        self.stopping.set()
        for thread in self.threads:
            thread.join(HANG_S)
            assert not thread.is_alive(), "a caller hangs"
        assert not self.problems, self.problems[0]


def stored(address: str) -> list[list[bytes]]:
    """The values of each partition."""
    with bowstring.Consumer(address, auto_offset_reset="earliest") as consumer:
        places = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        found: list[list[bytes]] = [[] for _ in places]
        while sum(map(len, found)) < sum(ends.values()):
            for record in consumer.poll(timeout=HANG_S):
                assert record.offset == len(found[record.partition]), "offsets have a gap"
                found[record.partition].append(record.value)
    return found


def in_order(values: list[bytes]) -> bool:
    """Whether each thread's numbers rise, each once, as they were sent."""
    last = [-1] * THREADS
    for value in values:
        thread, number = map(int, value.split(b":")[:2])
        if number <= last[thread]:
            return False
        last[thread] = number
    return True


@pytest.mark.timeout(600 + 30 * KILLS)
@pytest.mark.parametrize("linger_ms", [0, 2])
def test_killed_under_load(tmp_path, linger_ms):
    chance = random.Random(SEED + linger_ms)
    port = steady_port()
    arguments = ["--data", str(tmp_path / "data"), "--host", "127.0.0.1", "--port", str(port)]
    arguments += ["--set", f"num.partitions={PARTITIONS}"]

    def start() -> Process:
        process = Process(*arguments)
        threading.Thread(target=process.process.stderr.read, daemon=True).start()
        return process

    broker = start()
    address = f"127.0.0.1:{port}"
    try:
        settings = {
            "delivery_timeout_ms": FOR_EVER_MS,
            "max_block_ms": FOR_EVER_MS,
            "retry_backoff_max_ms": 50,
        }
        with bowstring.Producer(address, linger_ms=linger_ms, batch_size=2_000, **settings) as producer:
            work = Work(producer)
            for _ in range(KILLS):
                work.stopping.wait(chance.uniform(0.1, 0.6))
                broker.stop(signal.SIGKILL)
                broker = start()
            work.stop()
            producer.flush(HANG_S)
            assert producer.accumulator.buffered_bytes == 0
        found = stored(address)
        for future, partition, values in work.sent:
            told = future.result(0)
            offset = told[0].offset if isinstance(told, list) else told.offset
            assert found[partition][offset] == values[0], (partition, offset, values[0])
        assert sum(map(len, found)) == sum(len(values) for _, _, values in work.sent)
        assert all(map(in_order, found))
    finally:
        if broker.process.poll() is None:
            broker.stop(signal.SIGTERM)
