"""Which partitions without a leader a node takes up."""

import pytest

from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.metadata.leaderless_partitions import elect
from bowstring.protocol.records.cluster_metadata.topics import PartitionRecord, TopicRecord

ID = bytes(range(16))


def after_election(**fields):
    image = ClusterImage()
    facts = {"replicas": [1], "isr": [1], "leader": -1, "leader_epoch": 3, "partition_epoch": 5}
    image.apply(TopicRecord(name="t", topic_id=ID))
    image.apply(PartitionRecord(partition_id=0, topic_id=ID, **(facts | fields)))
    image.apply_all(elect(image, 1))
    return image.topics["t"].partitions[0]


def test_a_cleanly_stopped_one():
    partition = after_election()
    assert (partition.leader, partition.leader_epoch, partition.in_sync) == (1, 4, (1,))


@pytest.mark.parametrize(
    "fields",
    [
        {"isr": [], "eligible_leader_replicas": [1]},
        {"isr": [], "last_known_elr": [1]},
        {"isr": []},
        {"isr": [], "replicas": [2, 1], "eligible_leader_replicas": [1]},
    ],
)
def test_one_whose_broker_was_killed(fields):
    partition = after_election(**fields)
    assert (partition.leader, partition.leader_epoch, partition.in_sync) == (1, 4, (1,))
    assert (partition.eligible_leaders, partition.last_known_leaders) == ((), ())


@pytest.mark.parametrize(
    "fields",
    [
        {"leader": 1},
        {"leader": 2, "replicas": [1, 2], "isr": [1, 2]},
        {"replicas": [1, 2], "isr": [2]},
        {"replicas": [1, 2], "isr": [], "eligible_leader_replicas": [2]},
        {"replicas": [1, 2], "isr": [], "last_known_elr": [2]},
    ],
)
def test_others_are_left_alone(fields):
    assert after_election(**fields).leader_epoch == 3


def test_an_unclean_leader_is_recovered():
    assert after_election(leader_recovery_state=1).leader_recovery_state == 0
