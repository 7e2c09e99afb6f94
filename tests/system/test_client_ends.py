"""Clients that end without close(): in a fork, at the interpreter's exit during work, unreferenced."""

import os
import subprocess
import sys
import textwrap

import pytest

from bowstring.clients.admin.admin import Admin
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.errors import ForkedError
from bowstring.clients.producer.producer import Producer
from tests.support.waiting import HANG_S

PATIENCE_S = HANG_S


@pytest.fixture(scope="module")
def where(bowstring_broker):
    where = bowstring_broker.bootstrap_servers
    with Consumer(where, group_id="first") as consumer:  # a coordinator that has yet to load logs a line
        consumer.committed([])
    return where


def in_child(check):
    """Runs `check` in a forked child, which exits as programs do; returns its exit code."""
    child = os.fork()
    if child == 0:
        try:
            check()
            code = 0
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            code = 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_fork_leaves_the_parents_clients_alone(where, bowstring_topic):
    with (
        Producer(where) as producer,
        Admin(where) as admin,
        Consumer(where, group_id="forked", auto_offset_reset="earliest") as consumer,
    ):
        consumer.subscribe([bowstring_topic])
        producer.send(bowstring_topic, b"0").result(PATIENCE_S)
        assert [each.value for each in consumer.poll(timeout=PATIENCE_S)] == [b"0"]
        admin.topics()

        def check():
            for use in (
                lambda: consumer.poll(timeout=1),
                lambda: consumer.commit(),
                lambda: admin.topics(),
                lambda: producer.send(bowstring_topic, b"from the child"),
            ):
                with pytest.raises(ForkedError, match="create another one in the child"):
                    use()
            consumer.close()
            admin.close()
            producer.close()
            with Producer(where) as own:
                own.send(bowstring_topic, b"1").result(PATIENCE_S)

        for _ in range(3):
            pending = producer.send(bowstring_topic, b"under way")
            assert in_child(check) == 0
            assert pending.result(PATIENCE_S)
        values = []
        while len(values) < 6:
            values += [each.value for each in consumer.poll(timeout=PATIENCE_S)]
        assert sorted(values) == [b"1"] * 3 + [b"under way"] * 3
        assert bowstring_topic in admin.topics()
        consumer.commit()


def run(source, where, topic):
    """Runs a program; returns its output and its exit code."""
    program = textwrap.dedent(source)
    done = subprocess.run(
        [sys.executable, "-c", program, where, topic],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.stdout, done.stderr, done.returncode


HEAD = (
    "import sys, threading, asyncio, bowstring; where, topic = sys.argv[1:]\n"
    "from tests.support.waiting import FOR_EVER_MS, FOR_EVER_S, pause, pause_async\n"
)


def values_in(where, topic):
    with Consumer(where) as consumer:
        end = consumer.end_offsets([(topic, 0)])[(topic, 0)]
    return end


def test_the_interpreters_end_delivers_what_waits(where, bowstring_topic):
    source = (
        HEAD
        + "p = bowstring.Producer(where, linger_ms=FOR_EVER_MS, delivery_timeout_ms=2 * FOR_EVER_MS)\nfor i in range(1000): p.send(topic, str(i))"
    )
    out, errors, code = run(source, where, bowstring_topic)
    assert (out, errors, code) == ("", "", 0)
    assert values_in(where, bowstring_topic) == 1000


def test_the_interpreters_end_says_what_could_not_be_delivered(where, bowstring_topic):
    source = HEAD + (
        "p = bowstring.Producer('127.0.0.1:1', delivery_timeout_ms=800, max_block_ms=200)\n"
        "try: p.send(topic, b'v')\n"
        "except bowstring.ClientError as e: print(type(e).__name__)\n"
    )
    out, errors, code = run(source, where, bowstring_topic)
    assert (out.strip(), code) == ("NoBrokerError", 0)
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    "body",
    [
        # In the middle of a poll, on a thread that does not end.
        "c = bowstring.Consumer(where, group_id='g')\nc.subscribe([topic])\n"
        "threading.Thread(target=lambda: c.poll(timeout=FOR_EVER_S), daemon=True).start()\n"
        "pause(0.3, 'it has begun to wait, or not')",
        # Unreferenced and open.
        "c = bowstring.Consumer(where, group_id='g2')\nc.subscribe([topic])\nc.poll(timeout=0.3)\n"
        "a = bowstring.Admin(where)\na.topics()",
        # An event loop that ends in the middle of everything.
        "async def main():\n"
        "    late = {'linger_ms': FOR_EVER_MS, 'delivery_timeout_ms': 2 * FOR_EVER_MS}\n"
        "    p, c = bowstring.aio.Producer(where, **late), bowstring.aio.Consumer(where)\n"
        "    await c.assign([(topic, 0)])\n"
        "    asyncio.create_task(c.poll(timeout=FOR_EVER_S))\n"
        "    await p.partitions_for(topic)\n"
        "    p.send(topic, b'v')\n"
        "    await pause_async(0.3, 'it has begun to wait, or not')\n"
        "asyncio.run(main())",
    ],
    ids=["polling", "forgotten", "asyncio"],
)
def test_the_interpreters_end_is_prompt_and_quiet(where, bowstring_topic, body):
    out, errors, code = run(HEAD + body, where, bowstring_topic)
    assert (out, errors, code) == ("", "", 0)
    assert values_in(where, bowstring_topic) == ("linger" in body)
