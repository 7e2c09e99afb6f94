"""Share consumers with formats: objects, records that do not decode, and polls of few records."""

import asyncio
import itertools
import time
from types import SimpleNamespace

import pyarrow as pa
import pytest

import bowstring
from bowstring.clients.share import reading
from tests.support.waiting import HANG_S, wait_until

ORDERS = bowstring.Json(pa.schema({"id": pa.int64()}))
VALUES = [b"x", b'{"id":1}', b"y", b"z", None, b'{"id":2}', b"end"]
GOOD = [(1, "k", {"id": 1}), (4, "k", None), (5, "k", {"id": 2})]
QUIET_S = 0.2
numbers = itertools.count()


@pytest.fixture(scope="module")
def servers():
    with bowstring.Broker() as broker, bowstring.Producer(broker.bootstrap_servers) as producer:
        for value in VALUES:
            producer.send("orders", value, key=b"k", partition=0)
        for i in range(20):
            producer.send("many", b'{"id":%d}' % i if i != 7 else b"x", partition=0)
        producer.flush()
        yield broker.bootstrap_servers


@pytest.fixture
def group(servers):
    name = f"group {next(numbers)}"
    with bowstring.Admin(servers) as admin:
        admin.alter_configs("group", name, set={"share.auto.offset.reset": "earliest"})
    return name


def reader(servers, group, topic="orders", **settings):
    settings = {"value": ORDERS, "key": "text", **settings}
    consumer = bowstring.ShareConsumer(servers, group_id=group, **settings)
    consumer.subscribe(topic)
    return consumer


def kept(records):
    return [(record.offset, record.key, record.value) for record in records]


def test_polls_give_objects_and_skipped_records_are_rejected(servers, group):
    with reader(servers, group, on_undecodable="skip") as consumer:
        assert kept(consumer.poll(HANG_S)) == GOOD
        assert consumer.undecodable_counts() == {"skipped": 4, "dead_lettered": 0}
    with reader(servers, group, value=None) as consumer:
        assert consumer.poll(QUIET_S) == [], "all are accepted or rejected"


def test_a_dead_letter_topic_has_them_before_they_are_accepted(servers, group):
    outcomes = []
    with bowstring.Producer(servers) as producer:
        letters = bowstring.DeadLetter("orders.bad", producer)
        settings = {"on_undecodable": letters, "on_acknowledged": outcomes.append}
        with reader(servers, group, **settings) as consumer:
            assert kept(consumer.poll(HANG_S)) == GOOD
            assert consumer.undecodable_counts() == {"skipped": 0, "dead_lettered": 4}
        assert sum(last - first + 1 for each in outcomes for first, last in each.offsets) == len(VALUES)
    rows = bowstring.read("orders.bad", bootstrap_servers=servers, columns=["value"]).to_pylist()
    assert [row["value"] for row in rows] == [b"x", b"y", b"z", b"end"]


def test_records_are_released_if_their_topic_refuses_them(servers, group):
    with bowstring.Producer(servers) as closed:
        pass
    letters = bowstring.DeadLetter("bad", closed)
    with reader(servers, group, on_undecodable=letters) as consumer:
        assert kept(consumer.poll(HANG_S)) == GOOD
        with pytest.raises(bowstring.ClosedError):
            consumer.poll(HANG_S)
    with reader(servers, group, value=None) as consumer:
        found = []
        wait_until(lambda: found.extend(consumer.poll(QUIET_S)) or len(found) >= 4)
        assert [(each.offset, each.delivery_count > 1) for each in found] == [
            (offset, True) for offset in (0, 2, 3, 6)
        ]


def test_an_interrupt_while_a_dead_letter_is_sent_loses_nothing(servers, group):
    class Interrupted:
        topic = "bad"

        def send_record(self, record, reason):
            raise KeyboardInterrupt

    with reader(servers, group, on_undecodable=Interrupted()) as consumer:
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(HANG_S)
        assert consumer.commit_sync() == {}, "nothing is accepted"


def test_the_default_raises_and_releases(servers, group):
    with reader(servers, group) as consumer:
        assert kept(consumer.poll(HANG_S)) == GOOD
        for offset in (0, 2, 3, 6):
            with pytest.raises(bowstring.UndecodableRecordError) as caught:
                consumer.poll(HANG_S)
            assert (caught.value.record.offset, caught.value.record.key) == (offset, b"k")
        assert "share.delivery.count.limit" in str(caught.value) and "seek" not in str(caught.value)
        with pytest.raises(bowstring.UndecodableRecordError) as caught:
            consumer.poll(HANG_S)
        assert caught.value.record.offset == 0 and caught.value.record.delivery_count == 2


def test_explicit_mode_may_reject_what_was_raised(servers, group):
    with reader(servers, group, acknowledgement_mode="explicit") as consumer:
        consumer.accept(consumer.poll(HANG_S))
        for _ in range(4):
            with pytest.raises(bowstring.UndecodableRecordError) as caught:
                consumer.poll(HANG_S)
            consumer.reject(caught.value.record)
        assert consumer.poll(QUIET_S) == []


def test_few_records_at_once(servers, group):
    with reader(servers, group, "many", on_undecodable="skip") as consumer:
        found, sizes = [], []
        while len(found) < 12:
            records = consumer.poll(HANG_S, max_records=5)
            sizes.append(len(records))
            found += records
            if len(found) == 5:
                assert consumer.commit_sync() == {bowstring.TopicPartition("many", 0): None}
        assert sizes == [5, 5, 5]
        batch = consumer.poll_arrow(HANG_S)
        assert batch.column("offset").to_pylist() == [16, 17, 18, 19]
    assert [record.offset for record in found] == [i for i in range(16) if i != 7]
    with reader(servers, group, "many") as consumer:
        assert consumer.poll(QUIET_S) == []


def test_records_that_were_not_returned_go_to_others(servers, group):
    with reader(servers, group, "many", on_undecodable="skip") as consumer:
        assert len(consumer.poll(HANG_S, max_records=3)) == 3
    with reader(servers, group, "many", on_undecodable="skip") as consumer:
        assert [record.offset for record in consumer.poll(HANG_S)] == [i for i in range(3, 20) if i != 7]


def test_records_whose_lock_has_ended_are_not_returned(servers, group, monkeypatch):
    calls = itertools.count()

    def monotonic():
        return time.monotonic() + (3600 if next(calls) else 0)

    with reader(servers, group, "many", on_undecodable="skip") as consumer:
        assert len(consumer.poll(HANG_S, max_records=3)) == 3
        monkeypatch.setattr(reading, "time", SimpleNamespace(monotonic=monotonic))
        assert consumer.poll(QUIET_S, max_records=3) == [], "the group gives them to others"
    monkeypatch.undo()
    with reader(servers, group, "many", on_undecodable="skip") as consumer:
        assert consumer.poll(HANG_S)[0].offset == 3


def test_columns_are_typed(servers, group):
    with reader(servers, group) as consumer:
        batch = consumer.poll_arrow(HANG_S)
        assert batch.column("value").to_pylist()[:2] == [None, {"id": 1}]
        assert batch.column("value_error").null_count == 3
        consumer.give_back()
    strict = bowstring.Json(ORDERS.schema, on_error="raise")
    refused = pytest.raises(bowstring.ValueDecodeError, match="orders, partition 0, offset 0")
    with reader(servers, group, value=strict) as consumer, refused:
        consumer.poll_arrow(HANG_S)


def test_asyncio(servers, group):
    async def run():
        consumer = bowstring.aio.ShareConsumer(
            servers, group_id=group, value=ORDERS, key="text", on_undecodable="skip"
        )
        async with consumer:
            await consumer.subscribe("orders")
            first = await consumer.poll(HANG_S, max_records=2)
            return kept(first + await consumer.poll(HANG_S)), consumer.undecodable_counts()["skipped"]

    assert asyncio.run(run()) == (GOOD, 4)
