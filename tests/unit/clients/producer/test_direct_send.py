"""With linger 0, callers send by themselves; whatever happens in between, nothing is lost."""

import contextlib
import signal
import sys
import threading
import time

import pytest

from bowstring.clients.errors import UnsupportedApiError
from bowstring.clients.net import frames as wire
from bowstring.clients.producer.producer import Producer
from bowstring.protocol.messages.produce import ProduceRequest
from tests.support.fake_broker import CLOSE, FakeBroker
from tests.support.produced_batches import Store
from tests.support.waiting import HANG_S, pause, wait_until

MANY = 100_000


def one_after_the_other(producer, count):
    for number in range(count):
        producer.send("t", b"%d" % number).result(HANG_S)


def asleep(producer):
    """Waits until the sender's thread sleeps and nothing is on its way: the next record is its caller's to send."""
    wait_until(lambda: producer.loop.asleep and not producer.accumulator.unfinished)


@pytest.mark.parametrize("acks", [1, "all"])
def test_the_caller_sends(acks):
    with FakeBroker() as broker:
        store = Store(broker, 1, 0.0)
        with Producer(broker.bootstrap, acks=acks, linger_ms=0) as producer:
            one_after_the_other(producer, 3)
            before, count = producer.loop.sent_by_callers, 3
            # A wake-up that comes late on a busy machine leaves a record to the sender's thread.
            while producer.loop.sent_by_callers - before < 16:
                assert count < 1_000, "callers send nothing"
                asleep(producer)
                told = producer.send("t", b"%d" % count, headers=[("h", b"1")]).result(HANG_S)
                assert told.partition == 0
                count += 1
            metrics = producer.metrics()
    assert metrics["record-send-total"] == count and metrics["requests-in-flight"] == 0
    if acks == "all":
        assert [record.value for record in store.records()[0]] == [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("setting", [{"linger_ms": 1}, {"acks": 0}, {"compression": "lz4"}], ids=str)
def test_what_the_sender_does_itself(setting):
    with FakeBroker() as broker, Producer(broker.bootstrap, **{"linger_ms": 0, **setting}) as producer:
        assert not producer.accumulator.callers_send


def test_a_request_that_is_never_answered_is_sent_again_in_time():
    with FakeBroker() as broker:
        store = Store(broker, 1, 0.0)
        with Producer(broker.bootstrap, linger_ms=0, request_timeout_ms=300, retry_backoff_ms=1) as producer:
            one_after_the_other(producer, 3)
            silent = threading.Event()

            def wait(version, request):
                if silent.is_set():
                    return store.produce(version, request)
                silent.set()
                pause(1, "the answer is late")
                return CLOSE

            broker.handlers[ProduceRequest] = wait
            asleep(producer)
            producer.send("t", b"3").result(HANG_S)
    assert [record.value for record in store.records()[0]] == [b"0", b"1", b"2", b"3"]


def test_a_record_that_must_wait_fails_in_time():
    released = threading.Event()
    with FakeBroker() as broker:
        store = Store(broker, 1, 0.0)
        producer = Producer(broker.bootstrap, acks=1, linger_ms=0, max_in_flight=1, delivery_timeout_ms=400)
        for _ in range(3):
            wait_until(lambda: producer.send("t", b"in time").exception(HANG_S) is None)

        def wait(version, request):
            released.wait(HANG_S)
            return store.produce(version, request)

        broker.handlers[ProduceRequest] = wait
        asleep(producer)
        producer.send("t", b"first")
        error = producer.send("t", b"second").exception(HANG_S)
        assert "400" in str(error) or "0.4 s" in str(error)
        released.set()
        producer.close()


def test_a_broker_without_a_version_of_produce(monkeypatch):
    choose = wire.choose_version

    def refuse(api, versions):
        if api is ProduceRequest:
            raise UnsupportedApiError("the broker does not offer Produce")
        return choose(api, versions)

    monkeypatch.setattr(wire, "choose_version", refuse)
    with FakeBroker() as broker, Producer(broker.bootstrap, acks=1, linger_ms=0) as producer:
        for _ in range(2):
            producer.partitions_for("t")
            with pytest.raises(UnsupportedApiError):
                producer.send("t", b"x").result(HANG_S)


def test_a_stack_that_is_full_when_a_record_is_taken():
    """It cannot be sent from here: the sender does that, and continues with those after it."""
    with FakeBroker() as broker:
        store = Store(broker, 1, 0.0)
        with Producer(broker.bootstrap, linger_ms=0) as producer:
            one_after_the_other(producer, 3)
            taken = []

            def deeper(left):
                if left:
                    return deeper(left - 1)
                taken.append(producer.send("t", b"%d" % (3 + len(taken))))
                return None

            limit = sys.getrecursionlimit()
            for depth in range(limit - 120, limit):
                asleep(producer)
                with contextlib.suppress(RecursionError):
                    deeper(depth)
            for future in taken:
                future.result(HANG_S)
            producer.send("t", b"%d" % (3 + len(taken))).result(HANG_S)
    values = [int(record.value) for record in store.records()[0]]
    assert values == list(range(3 + len(taken) + 1))


def test_sockets_that_are_full():
    with FakeBroker() as broker:
        store = Store(broker, 1, 0.0)
        with Producer(broker.bootstrap, linger_ms=0, buffer_memory=64 << 20) as producer:
            one_after_the_other(producer, 3)

            def slow(version, request):
                pause(0.05, "a slow broker")
                return store.produce(version, request)

            broker.handlers[ProduceRequest] = slow
            futures = [producer.send("t", bytes([number]) * 900_000) for number in range(20)]
            assert [future.result(HANG_S).offset for future in futures]
    assert [record.value[0] for record in store.records()[0]][3:] == list(range(20))


class Alarms:
    """Runs `action` in the main thread half a millisecond after it is armed, wherever it is then."""

    def __init__(self, action):
        self._action = action

    def __enter__(self):
        self._timer = signal.setitimer(signal.ITIMER_REAL, 0)  # of pytest's time limit
        self._before = signal.signal(signal.SIGALRM, lambda *_: self._action())
        return self

    def arm(self):
        signal.setitimer(signal.ITIMER_REAL, 0.0005)

    def disarm(self):
        signal.setitimer(signal.ITIMER_REAL, 0)

    def __exit__(self, *_):
        self.disarm()
        signal.signal(signal.SIGALRM, self._before)
        signal.setitimer(signal.ITIMER_REAL, *self._timer)


def test_a_signal_handler_that_flushes():
    with FakeBroker() as broker:
        store = Store(broker, 1, 0.0)
        with Producer(broker.bootstrap, linger_ms=0) as producer:
            one_after_the_other(producer, 3)
            sent = 3

            def flush():
                producer.flush(HANG_S)
                alarms.arm()  # only now: never within itself

            with Alarms(flush) as alarms:
                alarms.arm()
                ends = time.monotonic() + 2
                while time.monotonic() < ends:
                    producer.send("t", b"%d" % sent)
                    sent += 1
    assert [record.value for record in store.records()[0]] == [b"%d" % number for number in range(sent)]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, TimeoutError])
def test_a_signal_handler_that_raises(kind):
    def interrupt():
        raise kind

    accepted, refused = [], []
    with FakeBroker(partitions=2) as broker:
        store = Store(broker, 1, 0.0)
        with Producer(broker.bootstrap, linger_ms=0) as producer:
            one_after_the_other(producer, 3)
            number, ends = 0, time.monotonic() + 2
            with Alarms(interrupt) as alarms:
                while time.monotonic() < ends or not refused:
                    try:
                        alarms.arm()
                        while (
                            time.monotonic() < ends or not refused
                        ) and number < MANY:  # finalizers lose exceptions
                            number += 1
                            accepted.append(producer.send("t", b"n%d" % number, b"key"))
                            if not number % 7:
                                pause(0.0003, "the pace of a load")
                        alarms.disarm()
                        break
                    except kind:
                        refused.append(number)
            assert refused
            for future in accepted:
                future.result(HANG_S)
    values = [record.value for index in store.records().values() for record in index]
    numbers = [int(value[1:]) for value in values if value.startswith(b"n")]
    assert numbers == sorted(set(numbers))  # once each, in order
    assert len(numbers) >= len(accepted) and set(range(1, number + 1)) - set(numbers) <= set(refused)


def test_a_callback_that_sends():
    with FakeBroker() as broker:
        store = Store(broker, 1, 0.0)
        done = threading.Event()
        with Producer(broker.bootstrap, linger_ms=0) as producer:

            def on_delivery(future):
                number = int(store.records()[0][-1].value) + 1
                if number < 50:
                    producer.send("t", b"%d" % number, on_delivery=on_delivery)
                else:
                    done.set()

            producer.send("t", b"0", on_delivery=on_delivery)
            assert done.wait(HANG_S)
    assert len(store.records()[0]) == 50


def test_a_forked_child_is_told(tmp_path):
    import os

    from bowstring.clients.errors import ForkedError

    with FakeBroker() as broker:
        Store(broker, 1, 0.0)
        with Producer(broker.bootstrap, linger_ms=0) as producer:
            one_after_the_other(producer, 3)
            child = os.fork()
            if child == 0:
                try:
                    producer.send("t", b"child")
                except ForkedError:
                    os._exit(7)
                os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
            one_after_the_other(producer, 3)
