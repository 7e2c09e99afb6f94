"""Impossible calls of clients: a named error that says what to do, in time, and the client still works."""

import asyncio
import contextlib
import threading
import time

import pyarrow as pa
import pytest

from bowstring import aio
from bowstring.clients.admin.admin import Admin
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.errors import (
    BrokerError,
    BufferFullError,
    ClientError,
    ClientTimeoutError,
    ClosedError,
    ConfigError,
    NoBrokerError,
    NoOffsetError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    TopicExistsError,
    UnknownTopicError,
)
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import TopicPartition
from tests.support.known_topic import await_topic
from tests.support.waiting import FOR_EVER_S, HANG_S, error_in_time, wait_until

NOWHERE = "127.0.0.1:1"
PATIENCE_S = HANG_S


@pytest.fixture(scope="module")
def where(bowstring_broker):
    return bowstring_broker.bootstrap_servers


@pytest.fixture(scope="module")
def open_clients(where):
    with Producer(where, allow_auto_create=False) as producer, Admin(where) as admin:
        admin.create_topic("there", 1)
        admin.create_topic("small", 1, configs={"max.message.bytes": "500"})
        with Consumer(where, group_id="askers", allow_auto_create=False) as consumer:
            consumer.assign([("there", 0)])
            consumer.seek(("there", 0), 0)
            yield producer, consumer, admin


def raise_in_time(call, kind, words=""):
    raise error_in_time(call, kind, words)


NO = TopicPartition("there-is-none", 0)
CASES = [
    # the case, the call of a client (p, c, a), the error, words of its message
    ("value of no kind", lambda p, c, a: p.send("there", 5), ConfigError, ["value", "int", "bytes"]),
    ("key of no kind", lambda p, c, a: p.send("there", b"", key=1.5), ConfigError, ["key", "float"]),
    (
        "header of no kind",
        lambda p, c, a: p.send("there", b"", headers={"h": 1}),
        ConfigError,
        ["header 'h'"],
    ),
    ("topic of no kind", lambda p, c, a: p.send(None, b""), ConfigError, ["topic", "None"]),
    ("partition that is not", lambda p, c, a: p.send("there", b"", partition=9), ConfigError, ["0 to 0"]),
    ("topic that is not", lambda p, c, a: p.send(NO.topic, b""), UnknownTopicError, ["topics create"]),
    ("impossible name", lambda p, c, a: p.send("a/b", b""), UnknownTopicError, ["a/b"]),
    ("too large", lambda p, c, a: p.send("there", bytes(2 << 20)), RecordTooLargeError, ["max_request_size"]),
    (
        "too large for the topic",
        lambda p, c, a: p.send("small", bytes(900)).result(PATIENCE_S),
        RecordTooLargeError,
        ["max.message.bytes"],
    ),
    (
        "columns that are not records",
        lambda p, c, a: p.send_arrow("there", pa.table({"x": [1]})),
        ConfigError,
        ["value"],
    ),
    (
        "columns of wrong types",
        lambda p, c, a: p.send_arrow("there", pa.table({"value": [1.5]})),
        ConfigError,
        ["value", "float64"],
    ),
    ("no table at all", lambda p, c, a: p.send_arrow("there", 5), ConfigError, ["int"]),
    ("unassigned", lambda p, c, a: c.seek(("there", 3), 0), ConfigError, ["there-3", "not assigned"]),
    ("negative offset", lambda p, c, a: c.seek(("there", 0), -5), ConfigError, ["seek_to_beginning"]),
    ("subscribing to nothing", lambda p, c, a: c.subscribe(), ConfigError, ["topics or a pattern"]),
    ("pattern that is none", lambda p, c, a: c.subscribe(pattern="("), ConfigError, ["pattern", "("]),
    ("column that is none", lambda p, c, a: c.poll_arrow(columns=["size"]), ConfigError, ["size", "offset"]),
    (
        "commit where nothing is",
        lambda p, c, a: raise_in_time(lambda s: c.commit({NO: 1}, timeout=s), ClientError, NO.topic),
        (BrokerError, ClientTimeoutError),
        ["there-is-none"],
    ),
    (
        "ends of nothing",
        lambda p, c, a: raise_in_time(lambda s: c.end_offsets([NO], s), UnknownTopicError),
        UnknownTopicError,
        ["there-is-none"],
    ),
    (
        "ends of no partition",
        lambda p, c, a: raise_in_time(lambda s: c.end_offsets([("there", 8)], s), UnknownTopicError),
        UnknownTopicError,
        ["0 to 0"],
    ),
    ("topic twice", lambda p, c, a: a.create_topic("there"), TopicExistsError, ["there"]),
    ("no such config", lambda p, c, a: a.create_topic("t", configs={"x.y": "1"}), BrokerError, ["x.y"]),
    ("too many replicas", lambda p, c, a: a.create_topic("t", 1, 9), BrokerError, ["brokers"]),
    ("deleting nothing", lambda p, c, a: a.delete_topics([NO.topic]), UnknownTopicError, [NO.topic]),
    ("fewer partitions", lambda p, c, a: a.create_partitions({"there": 1}), BrokerError, ["there"]),
    ("no such group", lambda p, c, a: a.describe_group("nobody"), BrokerError, ["nobody"]),
    ("no such kind", lambda p, c, a: a.describe_configs("table", "x"), ConfigError, ["topic, broker"]),
    ("no such broker", lambda p, c, a: a.describe_configs("broker", "77"), ConfigError, ["77"]),
    (
        "deleting records that are not",
        lambda p, c, a: a.delete_records({TopicPartition("there", 0): 10**9}),
        OffsetOutOfRangeError,
        ["there-0"],
    ),
]


@pytest.mark.parametrize(("ask", "error", "words"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_a_named_error_says_what_to_do(open_clients, ask, error, words):
    started = time.monotonic()
    with pytest.raises(ClientError) as raised:
        ask(*open_clients)
    assert isinstance(raised.value, error), repr(raised.value)
    for word in words:
        assert word in str(raised.value), str(raised.value)
    assert time.monotonic() - started < PATIENCE_S
    producer, consumer, admin = open_clients
    assert producer.send("there", None, key=None).result(PATIENCE_S), "and on it goes"
    assert consumer.poll(timeout=HANG_S)
    assert "there" in admin.topics()


def test_nobody_there():
    with (
        Producer(NOWHERE, max_block_ms=200) as producer,
        Admin(NOWHERE, timeout_ms=200) as admin,
        Consumer(NOWHERE, group_id="g", default_timeout_ms=200) as consumer,
    ):
        consumer.subscribe(["t"])
        assert consumer.poll(timeout=0.1) == []
        for ask in (
            lambda: producer.send("t", b"v"),
            lambda: producer.send_arrow("t", pa.table({"value": [b"v"]})),
            lambda: consumer.partitions_for("t"),
            lambda: consumer.commit({("t", 0): 1}),
            lambda: consumer.committed([("t", 0)]),
            lambda: consumer.offsets_for_times({("t", 0): 1}),
            lambda: admin.topics(),
            lambda: admin.create_topic("t"),
            lambda: admin.list_groups(),
            lambda: admin.group_lag("g"),
        ):
            # The client may not have connected yet.
            error = error_in_time(lambda _, ask=ask: ask(), NoBrokerError, "Connection refused")
            assert "Check that one is running" in str(error)


def test_closed_clients_say_so(where):
    producer, consumer, admin = Producer(where), Consumer(where, group_id="g"), Admin(where)
    consumer.assign([("there", 0)])
    for client in (producer, consumer, admin):
        client.close()
        client.close()
    partition = TopicPartition("there", 0)
    for ask in (
        lambda: producer.send("there", b"v"),
        lambda: producer.send_columns("there", 0, [b"v"]),
        lambda: producer.send_arrow("there", pa.table({"value": [b"v"]})),
        lambda: producer.partitions_for("never-seen"),
        lambda: consumer.poll(),
        lambda: consumer.poll_batches(),
        lambda: consumer.poll_arrow(),
        lambda: consumer.subscribe(["t"]),
        lambda: consumer.assign([partition]),
        lambda: consumer.unsubscribe(),
        lambda: consumer.seek(partition, 1),
        lambda: consumer.seek_to_end(partition),
        lambda: consumer.pause(partition),
        lambda: consumer.position(partition),
        lambda: consumer.commit(),
        lambda: consumer.committed([partition]),
        lambda: consumer.end_offsets([partition]),
        lambda: admin.topics(),
        lambda: admin.create_topic("x"),
        lambda: admin.list_groups(),
    ):
        with pytest.raises(ClosedError, match="closed"):
            ask()
    assert list(consumer) == []


def test_two_threads_in_one_consumer(where):
    with Consumer(where) as consumer:
        consumer.assign([("there", 0)])

        def poll():
            while True:
                with contextlib.suppress(ClientError):  # the test's own poll came in between
                    return consumer.poll(timeout=FOR_EVER_S)

        def is_refused():
            try:
                consumer.poll(timeout=0)
            except ClientError as error:
                return "another thread" in str(error)
            return False

        thread = threading.Thread(target=poll)
        thread.start()
        wait_until(is_refused, "two threads poll at once")
        consumer.wakeup()
        thread.join()


def test_positions_that_are_not_in_the_log(where):
    with Admin(where) as admin, Producer(where) as producer:
        admin.create_topic("short", 1)
        for i in range(5):
            producer.send("short", str(i)).result(PATIENCE_S)
        admin.delete_records({TopicPartition("short", 0): 2})
    for policy, at, expected in (("earliest", 0, 2), ("earliest", 99, 2), ("latest", 99, 5)):
        with Consumer(where, auto_offset_reset=policy) as consumer:
            consumer.assign([("short", 0)])
            consumer.seek(("short", 0), at)
            deadline = time.monotonic() + PATIENCE_S
            while consumer.positions()[TopicPartition("short", 0)] == at and time.monotonic() < deadline:
                records = consumer.poll(timeout=0.05)
                if records:
                    assert records[0].offset == expected
                if consumer.positions() == {}:
                    assert consumer.position(("short", 0), PATIENCE_S) == expected
                    break
    for read in (lambda: consumer.poll(timeout=HANG_S), lambda: consumer.poll_arrow(timeout=HANG_S)):
        with Consumer(where, auto_offset_reset="none") as consumer:
            consumer.assign([("short", 0)])
            consumer.seek(("short", 0), 99)
            with pytest.raises(OffsetOutOfRangeError, match="seek"):
                read()
            consumer.seek(("short", 0), 4)
            assert consumer.poll(timeout=PATIENCE_S)[0].offset == 4
    with Consumer(where, auto_offset_reset="none") as consumer:
        consumer.assign([("short", 0)])
        with pytest.raises(NoOffsetError, match="seek"):
            consumer.poll(timeout=HANG_S)


def test_a_topic_that_vanishes_and_comes_back(where):
    with (
        Admin(where) as admin,
        Producer(where) as patient,
        Producer(where, allow_auto_create=False, delivery_timeout_ms=6_000) as producer,
        Consumer(where, auto_offset_reset="earliest", allow_auto_create=False) as consumer,
    ):
        admin.create_topic("fleeting", 1)
        for i in range(3):
            patient.send("fleeting", str(i)).result(PATIENCE_S)
        patient.close()
        producer.find_topic("fleeting")
        consumer.assign([("fleeting", 0)])
        assert consumer.poll(timeout=PATIENCE_S)
        admin.delete_topics(["fleeting"])
        started = time.monotonic()
        with pytest.raises((UnknownTopicError, ClientTimeoutError), match="fleeting"):
            producer.send("fleeting", b"lost").result(PATIENCE_S)
        assert consumer.poll(timeout=0.2) == []
        assert time.monotonic() - started < HANG_S
        admin.create_topic("fleeting", 1)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                producer.send("fleeting", b"again").result(PATIENCE_S)
                break
            except ClientError:
                continue
        values = []
        while not values and time.monotonic() < deadline:
            values = [record.value for record in consumer.poll(timeout=0.2)]
        assert values == [b"again"], "the position was in the topic that is gone"


def test_a_full_buffer(where):
    """The broker is gone; waiting records fail in time, records without room at once."""
    with Producer(
        where, buffer_memory=50_000, max_block_ms=200, linger_ms=10_000, batch_size=100_000
    ) as producer:
        await_topic(producer, "there")
        producer.send("there", b"known")
        producer.flush(PATIENCE_S)
        producer._sender.cluster.brokers = {}
        producer._sender.cluster.version += 1
        producer._sender.cluster.bootstrap = [producer._sender.cluster.bootstrap[0]._replace(port=1)]
        producer._sender.cluster.maintain = lambda: 1.0
        futures = [producer.send("there", bytes(1000)) for _ in range(40)]
        started = time.monotonic()
        with pytest.raises(BufferFullError, match="raise buffer_memory"):
            for _ in range(40):
                futures.append(producer.send("there", bytes(1000)))
        assert time.monotonic() - started < HANG_S
        producer.close(0.2)
        assert all(isinstance(future.exception(HANG_S), ClosedError) for future in futures)


def test_asyncio_clients_say_the_same(where):
    async def main():
        producer, consumer = aio.Producer(where), aio.Consumer(where)
        with pytest.raises(ConfigError, match="value"):
            await producer.send("there", object())
        with pytest.raises(ConfigError, match="not assigned"):
            await consumer.seek(("there", 0), 1)
        await consumer.assign([("there", 0)])
        with pytest.raises(ConfigError, match="size"):
            await consumer.poll_arrow(columns=["size"], timeout=0)
        await producer.close()
        await consumer.close()
        for ask in (lambda: producer.send("there", b""), consumer.poll, consumer.poll_arrow, consumer.commit):
            with pytest.raises(ClosedError, match="closed"):
                await ask()

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))
