"""Clients whose broker answers nonsense: a named error at most, no hang, nothing lost, nothing twice.

BOWSTRING_ALL_WAYS=1 tries every way to spoil an answer (over a minute); otherwise one of each kind.
"""

import asyncio
import os
import time

import pytest

from bowstring import aio
from bowstring.clients.admin.admin import Admin
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.errors import ClientError
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import TopicPartition
from bowstring.clients.share.consumer import ShareConsumer
from tests.support.waiting import HANG_S, pause
from tests.system.bad_input.meddler import WAYS, Meddler

ONE_OF_EACH_KIND = [
    "garbage",
    "twice",
    "a huge length",
    "closed in the middle",
    "silence",
    "in pieces",
]
TRIED = WAYS if os.environ.get("BOWSTRING_ALL_WAYS") else ONE_OF_EACH_KIND
COUNT = 60
PATIENCE_S = HANG_S
PATIENCE_MS = int(PATIENCE_S * 1000)
TIMES = {"request_timeout_ms": 200}
# Of a member whose JoinGroup is lost the coordinator waits until its session is over: no client's doing.
BUT_JOINING = {0, 1, 2, 3, 8, 9, 10, 12, 13, 14, 18, 19, 22, 60, 68}
EACH_CONSUMER = {1, 2, 3, 8, 9, 10, 18}
OF_THE_PROTOCOL = {"classic": 14, "consumer": 68}


@pytest.fixture(scope="module")
def broker(bowstring_broker):
    return bowstring_broker.bootstrap_servers


@pytest.fixture(scope="module")
def admin(broker):
    with Admin(broker) as made:
        yield made


@pytest.fixture
def topic(admin, request):
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    admin.create_topic(name, 1)
    yield name
    admin.delete_topics([name])


def stored(broker, topic):
    """The values in the log."""
    with Consumer(broker) as consumer:
        end = consumer.end_offsets([(topic, 0)])[TopicPartition(topic, 0)]
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 0)
        values = []
        while consumer.position((topic, 0)) < end:
            values += [int(record.value) for record in consumer.poll()]
    return values


@pytest.mark.parametrize("way", TRIED)
def test_producer(broker, topic, way):
    started = time.monotonic()
    with Meddler(broker, way) as meddler:
        settings = {"linger_ms": 0, "max_block_ms": PATIENCE_MS, "delivery_timeout_ms": PATIENCE_MS, **TIMES}
        with Producer(meddler.bootstrap, **settings) as producer:
            sent, failed = [], []
            for value in range(COUNT):
                try:
                    sent.append((value, producer.send(topic, str(value))))
                except ClientError as error:
                    failed.append((value, error))
                pause(0.001, "the pace of the load")
            producer.flush(PATIENCE_S)
            acknowledged = []
            for value, future in sent:
                found = future.exception(0)
                assert found is None or isinstance(found, ClientError), repr(found)
                if found is None:
                    acknowledged.append(value)
            assert producer.send(topic, str(COUNT)).result(PATIENCE_S), "it works again"
    assert time.monotonic() - started < PATIENCE_S
    found = stored(broker, topic)
    assert found == sorted(set(found))
    assert set(acknowledged) <= set(found)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("way", TRIED)
def test_consumer(broker, topic, way, protocol):
    with Producer(broker) as producer:
        for value in range(COUNT):
            producer.send(topic, str(value))
    started = time.monotonic()
    errors = []
    with Meddler(broker, way, BUT_JOINING) as meddler:
        consumer = Consumer(
            meddler.bootstrap,
            group_id=topic,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            max_poll_records=10,
            default_timeout_ms=PATIENCE_MS,
            fetch_max_wait_ms=50,
            **TIMES,
        )
        consumer.subscribe([topic])
        values = []
        while len(values) < COUNT:
            assert time.monotonic() - started < PATIENCE_S, errors
            try:
                values += [int(record.value) for record in consumer.poll(timeout=0.2)]
                if values:
                    consumer.commit()
            except ClientError as error:
                errors.append(error)
        try:
            consumer.close()
        except ClientError as error:
            errors.append(error)
    assert values == list(range(COUNT))
    assert {*EACH_CONSUMER, OF_THE_PROTOCOL[protocol]} <= set(meddler.spoiled)
    assert len(errors) <= len(meddler.spoiled), errors


@pytest.mark.parametrize("way", TRIED)
def test_share_consumer(admin, broker, topic, way):
    """Each record comes; again only where an answer was spoiled."""
    with Producer(broker) as producer:
        for value in range(COUNT):
            producer.send(topic, str(value))
    admin.alter_configs("group", topic, set={"share.auto.offset.reset": "earliest"})
    started = time.monotonic()
    errors = []
    with Meddler(broker, way, {0, 1, 2, 3, 10, 18, 76, 78, 79}) as meddler:
        consumer = ShareConsumer(
            meddler.bootstrap, group_id=topic, max_poll_records=10, fetch_max_wait_ms=50, **TIMES
        )
        consumer.subscribe(topic)
        values = []
        while len(set(values)) < COUNT:
            assert time.monotonic() - started < PATIENCE_S, errors
            try:
                values += [int(record.value) for record in consumer.poll(timeout=0.2)]
            except ClientError as error:
                errors.append(error)
        try:
            consumer.close()
        except ClientError as error:
            errors.append(error)
    assert sorted(set(values)) == list(range(COUNT))
    assert {3, 10, 18, 76, 78} <= set(meddler.spoiled)
    assert len(errors) <= len(meddler.spoiled), errors


@pytest.mark.parametrize("way", TRIED)
def test_admin(broker, way):
    """Each call gives its answer or a named error, in time; the next one works."""
    name = "admin-" + "".join(c if c.isalnum() else "-" for c in way)
    errors = []
    with Meddler(broker, way) as meddler, Admin(meddler.bootstrap, timeout_ms=400) as admin:

        def ask(call):
            while True:
                try:
                    return call()
                except ClientError as error:
                    errors.append(error)
                    assert time.monotonic() - started < PATIENCE_S, errors
                    pause(0.1, "a peer that spoke nonsense is left alone for a moment")

        started = time.monotonic()
        assert ask(lambda: admin.describe_cluster().brokers)
        assert isinstance(ask(admin.topics), dict)
        assert "sound" not in ask(admin.list_groups)
        ask(lambda: name in admin.topics() or admin.create_topic(name, 1))
        assert ask(lambda: admin.end_offsets([TopicPartition(name, 0)])) == {TopicPartition(name, 0): 0}
        ask(lambda: name not in admin.topics() or admin.delete_topics([name]))
        assert time.monotonic() - started < PATIENCE_S
        assert {2, 3, 18, 60} <= set(meddler.spoiled)


@pytest.mark.parametrize("way", ["garbage", "silence"])
def test_asyncio(broker, topic, way):
    async def main():
        with Meddler(broker, way, BUT_JOINING) as meddler:
            async with aio.Producer(
                meddler.bootstrap, linger_ms=0, delivery_timeout_ms=PATIENCE_MS, **TIMES
            ) as producer:
                sent = [producer.send(topic, str(value)) for value in range(COUNT)]
                assert [metadata.offset for metadata in await asyncio.gather(*sent)] == list(range(COUNT))
            async with aio.Consumer(meddler.bootstrap, auto_offset_reset="earliest", **TIMES) as consumer:
                await consumer.assign([(topic, 0)])
                values = []
                while len(values) < COUNT:
                    try:
                        values += [int(record.value) for record in await consumer.poll(timeout=0.2)]
                    except ClientError:
                        assert meddler.spoiled
            assert values == list(range(COUNT))

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))
