"""Records without a key go to leaders in the producer's rack, while there are any (KIP-1123)."""

import pytest

from bowstring.clients.errors import ConfigError
from bowstring.clients.producer.producer import Producer
from bowstring.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from bowstring.protocol.messages.produce import ProduceRequest
from tests.support.fake_broker import TOPIC_ID, FakeBroker, produced
from tests.support.waiting import HANG_S

LEADERS = [1, 2, 1, 2, -1]
"""Of the partitions; broker 1 is in rack a, 2 in rack b, and the last has none."""


@pytest.fixture
def broker():
    with FakeBroker() as made:
        made.racks = {1: "a", 2: "b"}
        made.handlers[MetadataRequest] = lambda version, request: metadata(made)
        made.handlers[ProduceRequest] = lambda version, request: produced(request)
        yield made


def metadata(broker):
    brokers = [
        MetadataResponseBroker(node_id=number, host=broker.host, port=broker.port, rack=rack)
        for number, rack in broker.racks.items()
    ]
    partitions = [
        MetadataResponsePartition(partition_index=at, leader_id=leader, replica_nodes=[1], isr_nodes=[1])
        for at, leader in enumerate(LEADERS)
    ]
    topics = [MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=partitions)]
    return MetadataResponse(brokers=brokers, controller_id=1, cluster_id="fake", topics=topics)


def used(broker, **options):
    """Returns the partitions of 100 records, each of which is as large as a batch."""
    with Producer(broker.bootstrap, batch_size=1, **options) as producer:
        sent = [producer.send("t", b"v" * 20) for _ in range(100)]
        return {each.result(HANG_S).partition for each in sent}


def test_leaders_in_the_same_rack_get_the_records(broker):
    assert used(broker, partitioner_rack_aware=True, client_rack="b") == {1, 3}
    assert used(broker, partitioner_rack_aware=True, client_rack="a", partitioner="uniform_sticky") == {0, 2}


def test_other_leaders_get_them_when_none_is_in_the_rack(broker):
    assert used(broker, partitioner_rack_aware=True, client_rack="z") == {0, 1, 2, 3}
    broker.racks = {1: None, 2: None}
    assert used(broker, partitioner_rack_aware=True, client_rack="b") == {0, 1, 2, 3}


def test_a_rack_alone_chooses_nothing(broker):
    assert used(broker, client_rack="b") == {0, 1, 2, 3}


def test_other_partitioners_take_no_account_of_racks(broker):
    seen = []

    def first(key, partitions, available):
        seen.append(available)
        return 0

    rack = {"partitioner_rack_aware": True, "client_rack": "b"}
    assert used(broker, partitioner=first, **rack) == {0}
    assert seen[0] == [0, 1, 2, 3]
    assert used(broker, partitioner="round_robin", **rack) == {0, 1, 2, 3}


def test_the_place_follows_the_brokers(broker):
    rack = {"partitioner_rack_aware": True, "client_rack": "b", "metadata_max_age_ms": 1}
    with Producer(broker.bootstrap, batch_size=1, **rack) as producer:
        assert producer.send("t", b"v").result(HANG_S).partition in {1, 3}
        broker.racks = {1: "b", 2: "a"}
        while producer.send("t", b"v").result(HANG_S).partition not in {0, 2}:
            pass


def test_a_rack_is_needed(broker):
    with pytest.raises(ConfigError, match="partitioner_rack_aware needs client_rack"):
        Producer(broker.bootstrap, partitioner_rack_aware=True)
    with pytest.raises(ConfigError, match="partitioner_rack_aware needs client_rack"):
        Producer({"bootstrap.servers": broker.bootstrap, "partitioner.rack.aware": "true", "client.rack": ""})
