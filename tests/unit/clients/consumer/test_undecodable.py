"""Records that do not decode: raised, skipped and counted, or in a dead-letter topic before the position moves."""

import asyncio
import contextlib
import logging
import threading

import pyarrow as pa
import pytest

import bowstring
from bowstring import TopicPartition
from tests.support.waiting import HANG_S

ORDERS = bowstring.Json(pa.schema({"id": pa.int64()}))
PARTITION = TopicPartition("orders", 0)
VALUES = [b"x", b'{"id":1}', b"y", b"z", None, b'{"id":2}', b"end"]


@pytest.fixture(scope="module")
def servers():
    with bowstring.Broker() as broker, bowstring.Producer(broker.bootstrap_servers) as producer:
        for value in VALUES:
            producer.send(
                "orders", value, key=b"k", headers={"h": b"1"}, timestamp=1_700_000_000_000, partition=0
            )
        producer.flush()
        yield broker.bootstrap_servers


def reader(servers, policy, **settings):
    settings = {"auto_offset_reset": "earliest", "key": bowstring.Text(), "value": ORDERS, **settings}
    consumer = bowstring.Consumer(servers, on_undecodable=policy, **settings)
    consumer.assign([PARTITION])
    return consumer


def read(consumer, count):
    records = []
    while len(records) < count:
        records += consumer.poll(HANG_S)
    return [(record.offset, record.key, record.value) for record in records]


GOOD = [(1, "k", {"id": 1}), (4, "k", None), (5, "k", {"id": 2})]


def test_they_are_skipped_counted_and_logged_once(servers, caplog):
    with reader(servers, "skip") as consumer, caplog.at_level(logging.WARNING, "bowstring.consumer"):
        assert read(consumer, 3) == GOOD
        assert consumer.poll(0) == [] and consumer.positions() == {PARTITION: len(VALUES)}
        assert consumer.undecodable_counts() == {"skipped": 4, "dead_lettered": 0}
    lines = [record.message for record in caplog.records if "do not decode" in record.message]
    assert len(lines) == 1 and lines[0].startswith(
        "1 records that do not decode were skipped; the last is orders-0, offset 0, value: at byte 0"
    )


def test_iteration_skips_them(servers):
    with reader(servers, "skip") as consumer:
        found = []
        for record in consumer:
            found.append(record.offset)
            if record.offset == 5:
                break
        assert found == [1, 4, 5]


def test_a_dead_letter_topic_has_them_as_they_were(servers):
    with bowstring.Producer(servers) as producer:
        with reader(servers, bowstring.DeadLetter("orders.bad", producer)) as consumer:
            assert read(consumer, 3) == GOOD
            consumer.poll(0)
            assert consumer.undecodable_counts() == {"skipped": 0, "dead_lettered": 4}
        rows = bowstring.read("orders.bad", bootstrap_servers=servers).to_pylist()
    assert [(row["key"], row["value"]) for row in rows] == [
        (b"k", b"x"),
        (b"k", b"y"),
        (b"k", b"z"),
        (b"k", b"end"),
    ]
    headers = [(each["key"], each["value"]) for each in rows[1]["headers"]]
    assert (
        headers[0] == ("h", b"1")
        and headers[1][0] == "__error"
        and headers[1][1].startswith(b"value: at byte 0")
    )
    assert headers[2:] == [("__topic", b"orders"), ("__partition", b"0"), ("__offset", b"2")]


def test_the_position_stays_where_the_topic_does_not_take_them(servers):
    class Refused:
        topic = "bad"
        refuses = True

        def send_record(self, record, reason):
            return self

        def result(self):
            if self.refuses:
                raise bowstring.BufferFullError("full")

    letters = Refused()
    with reader(servers, letters) as consumer:
        for _ in range(2):
            with pytest.raises(bowstring.BufferFullError):
                consumer.poll(HANG_S)
            assert consumer.positions() == {PARTITION: 0}
        letters.refuses = False
        assert read(consumer, 3) == GOOD


def test_the_default_raises_with_the_bytes_of_both(servers):
    with reader(servers, "raise") as consumer, pytest.raises(bowstring.UndecodableRecordError) as caught:
        consumer.poll(HANG_S)
    assert (caught.value.record.key, caught.value.record.value) == (b"k", b"x")


def test_the_policy_is_checked():
    with pytest.raises(bowstring.ConfigError, match="on_undecodable is 'drop', it must be"):
        bowstring.Consumer("localhost:1", on_undecodable="drop")


def test_names_of_formats_need_no_schema(servers):
    with reader(servers, "skip", key="text", value="json") as consumer:
        assert read(consumer, 3) == GOOD
    texts = bowstring.read("orders", value="text", columns=["value"], bootstrap_servers=servers)
    assert texts.column("value").to_pylist()[:2] == ["x", '{"id":1}']
    with pytest.raises(bowstring.ConfigError, match="value is 'xml', it must be"):
        bowstring.Consumer("localhost:1", value="xml")


@pytest.mark.parametrize("package", [bowstring, bowstring.aio])
def test_the_asyncio_consumer_sends_dead_letters_by_either_producer(servers, package):
    topic = f"async.{package.__name__}"

    async def run():
        async with contextlib.AsyncExitStack() as stack:
            producer = package.Producer(servers)
            enter = stack.enter_context if package is bowstring else stack.enter_async_context
            entered = enter(producer)
            if package is not bowstring:
                await entered
            consumer = bowstring.aio.Consumer(
                servers,
                value=ORDERS,
                key="text",
                auto_offset_reset="earliest",
                on_undecodable=bowstring.DeadLetter(topic, producer),
            )
            await stack.enter_async_context(consumer)
            await consumer.assign([PARTITION])
            found = []
            while len(found) < 3:
                found += await consumer.poll(HANG_S)
            await consumer.poll(0)
            assert await consumer.position(PARTITION) == len(VALUES)
            assert consumer.undecodable_counts() == {"skipped": 0, "dead_lettered": 4}
            return [(record.offset, record.key, record.value) for record in found]

    assert asyncio.run(run()) == GOOD
    rows = bowstring.read(topic, bootstrap_servers=servers, columns=["value"]).to_pylist()
    assert [row["value"] for row in rows] == [b"x", b"y", b"z", b"end"]


def test_the_loop_goes_on_while_a_dead_letter_topic_takes_a_record(servers):
    class Slow:
        topic = "slow"
        taken = threading.Event()

        def send_record(self, record, reason):
            return self

        def result(self):
            assert self.taken.wait(HANG_S), "the loop does not run"

    async def run():
        letters = Slow()
        settings = {"value": ORDERS, "auto_offset_reset": "earliest", "on_undecodable": letters}
        async with bowstring.aio.Consumer(servers, **settings) as consumer:
            await consumer.assign([PARTITION])
            polled = asyncio.ensure_future(consumer.poll(HANG_S))
            await asyncio.sleep(0)
            letters.taken.set()
            return [record.offset for record in await polled]

    assert asyncio.run(run())[0] == 1
