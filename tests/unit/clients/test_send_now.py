"""With linger 0 the caller's thread sends; interrupts in the middle of that lose nothing and double nothing."""

import threading
import time

import pytest

from bowstring.clients.connection import Connection
from bowstring.clients.network import NetworkClient
from bowstring.clients.producer import Producer
from bowstring.clients.sender import Sender
from bowstring.engine.protocol.messages.produce import ProduceRequest
from tests.unit.clients.fake_broker import CLOSE, FakeBroker, produced
from tests.unit.clients.test_producer_threads import Store


def one_after_the_other(producer, count):
    for number in range(count):
        producer.send("t", b"%d" % number).result(10)


def sleeping(producer):
    """Waits until the sender's thread sleeps and nothing is on its way: the next record is its caller's to send."""
    turn = producer._sender._turn
    deadline = time.monotonic() + 5
    while (turn.locked() or producer.accumulator.unfinished) and time.monotonic() < deadline:
        time.sleep(0.001)


@pytest.mark.parametrize("acks", [1, "all"])
def test_the_caller_sends(monkeypatch, acks):
    callers = []
    flush = Connection.flush

    def noted(self):
        callers.append(threading.current_thread())
        flush(self)

    with FakeBroker() as broker:
        Store(broker, 1, 0.0)
        with Producer(broker.bootstrap, acks=acks, linger_ms=0) as producer:
            one_after_the_other(producer, 3)
            monkeypatch.setattr(Connection, "flush", noted)
            for number in range(10):
                sleeping(producer)
                producer.send("t", b"%d" % number).result(10)
    assert callers.count(threading.current_thread()) >= 8


def test_who_lingers_leaves_it_to_the_sender(monkeypatch):
    with FakeBroker() as broker:
        broker.handlers[ProduceRequest] = lambda version, request: produced(request)
        monkeypatch.setattr(Sender, "send_now", lambda self: pytest.fail("sent by the caller"))
        with Producer(broker.bootstrap, linger_ms=1) as producer:
            one_after_the_other(producer, 3)


def test_a_sender_that_sleeps_for_long_hears_of_a_request_that_is_never_answered():
    with FakeBroker() as broker:
        store = Store(broker, 1, 0.0)
        with Producer(broker.bootstrap, linger_ms=0, request_timeout_ms=300, retry_backoff_ms=1) as producer:
            one_after_the_other(producer, 2)
            silent = threading.Event()

            def wait(version, request):
                if silent.is_set():
                    return store.produce(version, request)
                silent.set()
                time.sleep(1)
                return CLOSE

            broker.handlers[ProduceRequest] = wait
            sleeping(producer)
            producer.send("t", b"2").result(5)
    assert [record.value for record in store.records()[0]] == [b"0", b"1", b"2"]


class Interrupt:
    """Raises KeyboardInterrupt in the main thread when a function is called for the n-th time, before or after it."""

    def __init__(self, monkeypatch, owner, name, after):
        self.left = -1
        original = getattr(owner, name)

        def hook(*args, **kwargs):
            hit = threading.current_thread() is threading.main_thread() and self.left == 0
            if self.left >= 0 and threading.current_thread() is threading.main_thread():
                self.left -= 1
            if hit and not after:
                raise KeyboardInterrupt
            found = original(*args, **kwargs)
            if hit:
                raise KeyboardInterrupt
            return found

        monkeypatch.setattr(owner, name, hook)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Sender, "_send_until_none_is_due"),
        (Sender, "_transmit"),
        (Sender, "_request"),
        (NetworkClient, "send"),
        (NetworkClient, "uncork"),
        (Connection, "send"),
        (Connection, "flush"),
    ],
    ids=lambda given: given if isinstance(given, str) else given.__name__,
)
def test_an_interrupt_in_the_middle(monkeypatch, owner, name, after):
    interrupt = Interrupt(monkeypatch, owner, name, after)
    interrupted = 0
    with FakeBroker(partitions=2) as broker:
        store = Store(broker, 1, 0.0)
        with Producer(broker.bootstrap, linger_ms=0, retry_backoff_ms=1) as producer:
            one_after_the_other(producer, 2)
            for number in range(2, 30):
                if number % 3 == 0:
                    sleeping(producer)
                    interrupt.left = 0
                try:
                    producer.send("t", b"%d" % number, b"key")
                except KeyboardInterrupt:
                    interrupted += 1
            interrupt.left = -1
            producer.flush(10)
    assert interrupted >= 3
    values = [record.value for index in store.records().values() for record in index]
    assert sorted(values, key=int) == [b"%d" % number for number in range(30)]


def test_a_bug_while_the_caller_sends_is_told(monkeypatch):
    with FakeBroker() as broker:
        broker.handlers[ProduceRequest] = lambda version, request: produced(request)
        producer = Producer(broker.bootstrap, linger_ms=0)
        one_after_the_other(producer, 2)
        sleeping(producer)
        thrown = []
        monkeypatch.setattr(threading, "excepthook", lambda told: thrown.append(told.exc_type))
        monkeypatch.setattr(Sender, "_transmit", lambda *_: 1 // 0)
        future = producer.send("t", b"lost")
        with pytest.raises(ZeroDivisionError):
            future.result(5)
        producer.close()
    assert thrown == [ZeroDivisionError]
