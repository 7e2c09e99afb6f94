"""Callbacks run in the sender's thread: whatever they do, the thread continues, and no caller hangs."""

import os
import threading

import pytest

from bowstring.clients.errors import BufferFullError, ClientError, ClosedError, ForkedError
from bowstring.clients.producer.producer import Producer
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.init_producer_id import InitProducerIdRequest
from bowstring.protocol.messages.metadata import MetadataRequest
from bowstring.protocol.messages.produce import ProduceRequest
from tests.support.fake_broker import SILENCE, FakeBroker, batches_of, produced
from tests.support.known_topic import await_topic
from tests.support.produced_batches import Store, identity
from tests.support.waiting import FOR_EVER_MS, HANG_S, wait_until


@pytest.fixture
def broker():
    with FakeBroker(partitions=3) as made:
        Store(made, 1, 0.0)
        yield made


def raised_by(action):
    try:
        action()
    except BaseException as error:
        return error
    return None


class Seen:
    """What an action in a callback raised."""

    def __init__(self, action):
        self.action, self.done, self.error = action, threading.Event(), None

    def __call__(self, _):
        self.error = raised_by(self.action)
        self.done.set()

    def result(self):
        assert self.done.wait(HANG_S), "the callback hangs"
        return self.error


def asleep_with(broker, **settings):
    """A producer that has its topic's metadata and is idle."""
    producer = Producer(broker.bootstrap, **{"linger_ms": 0, **settings})
    producer.send("t", b"first", partition=0).result(HANG_S)
    return producer


@pytest.mark.parametrize("problem", [SystemExit, KeyboardInterrupt, RuntimeError])
def test_a_callback_that_ends_its_thread(broker, caplog, problem):
    def fail(_):
        raise problem

    with Producer(broker.bootstrap, linger_ms=20) as producer:
        futures = [producer.send("t", b"x", partition=number % 3, on_delivery=fail) for number in range(6)]
        for future in futures:
            assert future.exception(HANG_S) is None
        assert producer.send("t", b"y").exception(HANG_S) is None
    assert problem.__name__ in caplog.text


def test_flush_in_a_callback(broker):
    producer = asleep_with(broker, request_timeout_ms=FOR_EVER_MS, delivery_timeout_ms=2 * FOR_EVER_MS)
    released = threading.Event()
    store = broker.handlers[ProduceRequest]

    def one_after_the_other(version, request):
        if request.topic_data[0].partition_data[0].index == 1:
            released.wait(HANG_S)
        return store(version, request)

    broker.handlers[ProduceRequest] = one_after_the_other
    seen = Seen(producer.flush)
    both = threading.Event()

    def after_both(future):
        both.wait(HANG_S)
        seen(future)

    producer.send("t", b"x", partition=0, on_delivery=after_both)
    producer.send("t", b"x", partition=1)
    both.set()
    assert isinstance(seen.result(), ClientError) and "flush() in a callback" in str(seen.error)
    released.set()
    producer.close()


def test_close_in_a_callback(broker):
    producer = asleep_with(broker)
    seen = Seen(producer.close)
    producer.send("t", b"x", partition=0, on_delivery=seen)
    assert seen.result() is None
    producer.close(HANG_S)
    assert not producer._sender.thread.is_alive(), "close() returns before the thread has ended"
    with pytest.raises(ClosedError):
        producer.send("t", b"x")


def test_no_room_in_a_callback(broker):
    producer = asleep_with(broker, buffer_memory=2_000, max_block_ms=FOR_EVER_MS)
    seen = Seen(lambda: [producer.send("t", b"x" * 500, partition=1) for _ in range(10)])
    producer.send("t", b"x", partition=0, on_delivery=seen)
    assert isinstance(seen.result(), BufferFullError) and "callback" in str(seen.error)
    producer.close()


def test_a_callback_has_the_room_of_its_record(broker):
    producer = asleep_with(broker, buffer_memory=1_000)
    seen = Seen(lambda: producer.send("t", b"x" * 800, partition=0))
    producer.send("t", b"x" * 800, partition=0, on_delivery=seen)
    assert seen.result() is None
    producer.close()


def test_a_topic_that_a_callback_does_not_know(broker):
    producer = asleep_with(broker, max_block_ms=FOR_EVER_MS)
    seen = Seen(lambda: producer.send("new", b"x"))
    producer.send("t", b"x", partition=0, on_delivery=seen)
    assert isinstance(seen.result(), ClientError) and "partitions_for" in str(seen.error)
    assert producer.accumulator.waiters == 0
    producer.close()


def test_who_is_interrupted_does_not_wait_any_more(broker, monkeypatch):
    producer = asleep_with(broker)

    def interrupted(timeout):
        raise KeyboardInterrupt

    monkeypatch.setattr(producer._sender.changed, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        producer.send("new", b"x")
    assert producer.metrics()["waiting-threads"] == 0
    monkeypatch.undo()
    producer.close()


def test_a_signal_handler_may_wait_where_its_thread_waits(broker):
    producer = asleep_with(broker)
    done = threading.Event()

    def handler_and_what_it_interrupts():
        with producer._sender.lock:
            producer.partitions_for("new")
        done.set()

    threading.Thread(target=handler_and_what_it_interrupts, daemon=True).start()
    assert done.wait(HANG_S), "they wait for each other"
    producer.close()


@pytest.mark.parametrize("partitioner", ["default", "random", "round_robin"])
@pytest.mark.parametrize("key", [None, b"key"])
def test_a_topic_without_partitions(partitioner, key):
    with FakeBroker(partitions=0) as broker:
        with Producer(broker.bootstrap, partitioner=partitioner, max_block_ms=200) as producer:
            wait_until(  # no broker at first
                lambda: "it has no partitions" in str(raised_by(lambda: producer.send("t", b"x", key))),
                "nobody says why",
            )
        Store(broker, 1, 0.0)
        asked, futures = len(broker.seen(MetadataRequest)), []
        with Producer(broker.bootstrap, partitioner=partitioner) as producer:
            caller = threading.Thread(target=lambda: futures.append(producer.send("t", b"x", key)))
            caller.start()
            wait_until(lambda: len(broker.seen(MetadataRequest)) > asked + 2, "it does not ask again")
            broker.partitions = 2
            caller.join(HANG_S)
            assert futures[0].exception(HANG_S) is None


def test_memory_of_what_nobody_acknowledges_is_bounded():
    """With acks=0, records count until they are written to the socket."""
    read_on, taken = threading.Event(), []

    def read_slowly(version, request):
        read_on.wait(HANG_S)
        taken.extend(identity(bytes(batch))[3] for batch in batches_of(request))
        return SILENCE

    with FakeBroker() as broker:
        broker.handlers[ProduceRequest] = read_slowly
        producer = Producer(broker.bootstrap, acks=0, buffer_memory=2_000_000, max_block_ms=300)
        sent = 0
        await_topic(producer, "t")
        with pytest.raises(BufferFullError):
            for _ in range(200):
                producer.send("t", bytes(900_000))
                sent += 1
        held = sum(len(piece) for each in producer._sender.client._connections.values() for piece in each.out)
        assert held <= 2_100_000
        read_on.set()
        producer.close()
        wait_until(lambda: sum(taken) == sent, "close() leaves records behind")


def test_a_fork_tells_about_divided_batches(broker):
    refused = threading.Event()

    def too_large(version, request):
        if identity(batches_of(request)[0])[3] > 1:
            return produced(request, error=Errors.MESSAGE_TOO_LARGE.code)
        refused.set()
        return SILENCE

    producer = asleep_with(broker, linger_ms=50)
    broker.handlers[ProduceRequest] = too_large
    futures = [producer.send("t", b"x", partition=0) for _ in range(2)]
    assert refused.wait(HANG_S)
    child = os.fork()
    if child == 0:
        told = [isinstance(raised_by(lambda f=future: f.result(HANG_S)), ForkedError) for future in futures]
        os._exit(0 if all(told) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    producer.close(0)


def test_closing_while_a_producer_id_is_asked_for():
    with FakeBroker() as broker:
        broker.handlers[InitProducerIdRequest] = lambda version, request: SILENCE
        producer = Producer(broker.bootstrap)
        future = producer.send("t", b"x")
        wait_until(lambda: broker.seen(InitProducerIdRequest), "no id is asked for")
        producer.close(0)
        assert isinstance(future.exception(HANG_S), ClosedError)
        with pytest.raises(ClosedError):
            producer.send("t", b"x")


def test_an_answer_that_leaves_a_batch_out_is_asked_for_again(broker):
    store, left_out = broker.handlers[ProduceRequest], []

    def leave_out(version, request):
        answer = store(version, request)
        if not left_out:
            left_out.append(answer.responses.pop())
        return answer

    producer = asleep_with(broker, retry_backoff_ms=1)
    broker.handlers[ProduceRequest] = leave_out
    assert producer.send("t", b"x", partition=0).exception(HANG_S) is None
    assert left_out
    producer.close()
