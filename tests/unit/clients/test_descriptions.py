"""What consoles show of clients, futures and brokers, and what `bowstring` offers by name."""

import asyncio
import inspect

import pytest

import bowstring
from bowstring.clients import errors
from bowstring.clients.producer.batches import BatchesFuture, ProduceBatch
from bowstring.clients.records import TopicPartition
from tests.support.waiting import HANG_S

NOWHERE = "127.0.0.1:1"


def test_clients_say_what_they_are_and_ask_no_broker():
    with bowstring.Producer(NOWHERE) as producer, bowstring.Admin(f"{NOWHERE},b:2,c:3,d:4") as admin:
        assert repr(producer) == f"<Producer of {NOWHERE}>"
        assert repr(admin) == f"<Admin of {NOWHERE},b:2,c:3 and 1 more>"
    assert repr(producer) == f"<Producer of {NOWHERE}, closed>"
    assert repr(admin).endswith(", closed>")
    with bowstring.Producer(NOWHERE, transactional_id="bank") as producer:
        assert repr(producer) == f"<Producer of {NOWHERE}, transactional_id bank>"
    with bowstring.Consumer(NOWHERE) as consumer:
        assert repr(consumer) == f"<Consumer of {NOWHERE}>"
        consumer.assign([("t", 0), ("t", 1)])
        assert repr(consumer) == f"<Consumer of {NOWHERE}, topics t>"
    assert repr(consumer) == f"<Consumer of {NOWHERE}, topics t, closed>"
    with bowstring.ShareConsumer(NOWHERE, group_id="jobs") as shared:
        shared.subscribe(["b", "a"])
        assert repr(shared) == f"<ShareConsumer of {NOWHERE}, group jobs, topics a,b>"


def test_a_member_of_a_group_says_so(bootstrap):
    with bowstring.Consumer(bootstrap, group_id="readers-shown") as consumer:
        consumer.subscribe("shown")
        assert repr(consumer) == f"<Consumer of {bootstrap}, group readers-shown, topics shown>"


@pytest.mark.parametrize("name", ["Producer", "Consumer", "Admin", "ShareConsumer", "Broker", "Cluster"])
def test_what_is_not_made_to_the_end_has_a_description(name):
    for package in (bowstring, bowstring.aio):
        kind = getattr(package, name, None)
        if kind is not None:
            assert name in repr(kind.__new__(kind))


def test_clients_for_asyncio():
    async def shown():
        kinds = (bowstring.aio.Producer, bowstring.aio.Admin, bowstring.aio.Consumer)
        made = [kind(NOWHERE) for kind in kinds]
        try:
            return [repr(each) for each in made]
        finally:
            for each in made:
                await each.close()

    assert asyncio.run(shown()) == [
        f"<aio.{name} of {NOWHERE}>" for name in ("Producer", "Admin", "Consumer")
    ]


def test_futures_say_how_far_they_are(bootstrap, new_topic):
    topic = new_topic(1)
    with bowstring.Producer(bootstrap) as producer:
        sent, rows = producer.send(topic, b"x"), producer.send_columns(topic, 0, [b"y", b"z"])
        sent.result(HANG_S)
        rows.result(HANG_S)
        assert repr(sent) == f"<RecordFuture of {topic}-0 offset 0>"
        assert repr(rows) == "<BatchesFuture of 2 records in 1 batches, sent>"
    batch = ProduceBatch(TopicPartition("t", 0), 1.0)
    lost = BatchesFuture([batch])
    assert repr(lost) == "<BatchesFuture of 0 records in 1 batches, pending>"
    batch.finish(errors.ClientError("gone"))
    assert repr(lost) == "<BatchesFuture of 0 records in 1 batches, failed: gone>"
    with bowstring.Producer(bootstrap, linger_ms=3_000_000, delivery_timeout_ms=3_600_000) as producer:
        waits = producer.send(topic, b"x")
        assert repr(waits) == f"<RecordFuture for {topic}-0, pending>"


def test_brokers():
    broker = bowstring.Broker()
    assert repr(broker) == "<Broker, not running>"
    with broker:
        assert repr(broker) == f"<Broker at {broker.bootstrap_servers}, data in {broker.data_dir}>"
    assert repr(broker) == "<Broker, not running>"
    assert repr(bowstring.Cluster(3)) == "<Cluster of nodes 1, 2, 3, not running>"


def test_errors_are_at_the_top_and_nothing_else_is():
    found = {
        name
        for name, each in inspect.getmembers(errors, inspect.isclass)
        if each.__module__ == errors.__name__
    }
    assert {name for name in found if name.endswith("Error")} <= set(bowstring.__all__)
    for name in bowstring.__all__:
        assert getattr(bowstring, name) is not None
    assert bowstring.NoBrokerError is errors.NoBrokerError
    assert {name for name in dir(bowstring) if not name.startswith("__")} == set(bowstring.__all__) - {
        "__version__"
    }
