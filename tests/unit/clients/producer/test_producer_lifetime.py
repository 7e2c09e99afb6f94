"""Forks, the interpreter's end, and producers that are forgotten: every record is delivered or reported."""

import os
import subprocess
import sys
import textwrap

import pytest

from bowstring.clients.errors import ClosedError, ForkedError
from bowstring.clients.producer.producer import Producer
from bowstring.protocol.messages.produce import ProduceRequest
from tests.support.fake_broker import SILENCE, FakeBroker
from tests.support.produced_batches import Log
from tests.support.waiting import FOR_EVER_MS, HANG_S, wait_until


@pytest.fixture
def broker():
    with FakeBroker() as made:
        yield made


def run(code, *arguments):
    """A Python process; its status and what it wrote to stderr."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    return done.returncode, done.stderr


def test_at_exit_what_waits_is_sent(broker):
    log = Log(broker)
    status, said = run(
        """
        import sys, bowstring
        producer = bowstring.Producer(sys.argv[1], linger_ms=60_000)
        for i in range(1000):
            producer.send("t", b"%d" % i)
        """,
        broker.bootstrap,
    )
    assert (status, said) == (0, "")
    assert sum(int.from_bytes(batch[57:61], "big") for batch in log.stored) == 1000


def test_at_exit_what_is_lost_is_said(broker):
    broker.handlers[ProduceRequest] = lambda version, request: SILENCE
    code = """
        import sys, bowstring
        producer = bowstring.Producer(sys.argv[1], delivery_timeout_ms=300, request_timeout_ms=200)
        for i in range(7):
            producer.send("t", b"x")
        """

    def is_said():  # a slow process loses some of them, and logs that, before its end
        status, said = run(code, broker.bootstrap)
        assert status == 0
        return "7 records were not delivered before the end" in said

    wait_until(is_said)


def test_a_fork_gets_a_named_error_and_leaves_the_parents_connection_alone(broker):
    log = Log(broker)
    with Producer(broker.bootstrap, linger_ms=FOR_EVER_MS, delivery_timeout_ms=2 * FOR_EVER_MS) as producer:
        producer.send("t", b"before")
        producer.flush(HANG_S)
        waiting = producer.send("t", b"waiting")
        child = os.fork()
        if child == 0:
            try:
                problems = []
                for use in (
                    lambda: producer.send("t", b"from the child"),
                    lambda: producer.send("new topic", b"from the child"),
                    lambda: waiting.result(HANG_S),
                    lambda: producer.send_columns("t", 0, [b"x"]),
                ):
                    try:
                        use()
                        problems.append("no error")
                    except ForkedError:
                        pass
                producer.flush(1)
                producer.close(1)
                with Producer(broker.bootstrap) as own:
                    own.send("t", b"the child's own").result(HANG_S)
                os._exit(len(problems))
            finally:
                os._exit(77)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        producer.flush(HANG_S)
        waiting.result(HANG_S)
        producer.send("t", b"after")
    values = [
        value for batch in log.stored for value in (b"before", b"waiting", b"own", b"after") if value in batch
    ]
    assert sorted(values) == [b"after", b"before", b"own", b"waiting"]


def test_many_forks_while_sending(broker):
    Log(broker)
    with Producer(broker.bootstrap, linger_ms=0) as producer:
        children = []
        for i in range(10):
            for _ in range(50):
                producer.send("t", b"%d" % i)
            child = os.fork()
            if child == 0:
                os._exit(0)
            children.append(child)
        producer.flush(HANG_S)
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 10


def test_the_last_reference_lives_in_a_callback(broker):
    Log(broker)
    seen = []

    def use():
        producer = Producer(broker.bootstrap, linger_ms=0)
        thread = producer._sender.thread
        producer.send("t", b"x", on_delivery=lambda future, kept=producer: seen.append(kept is not None))
        del producer
        return thread

    thread = use()
    thread.join(HANG_S)
    wait_until(lambda: seen)
    assert seen == [True] and not thread.is_alive()


def test_a_closed_producer_says_so(broker):
    producer = Producer(broker.bootstrap)
    producer.close()
    producer.close()
    producer.flush()
    for use in (
        lambda: producer.send("t", b"x"),
        lambda: producer.send_columns("t", 0, [b"x"]),
        lambda: producer.partitions_for("t"),
    ):
        with pytest.raises(ClosedError):
            use()
