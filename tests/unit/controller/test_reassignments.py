"""Reassignments from their start to their end, and back."""

import pytest

from bowstring.engine.controller.alter_partition import alter_partition
from bowstring.engine.controller.reassignments import alter_reassignments, list_reassignments
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from bowstring.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.support.controller import ControllerCluster


def reassign(cluster: ControllerCluster, replicas, index: int = 0, topic: str = "t", may_resize: bool = True):
    """Requests a reassignment; returns the error."""
    wanted = ReassignablePartition(partition_index=index, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=may_resize,
        topics=[ReassignableTopic(name=topic, partitions=[wanted])],
    )
    answer = cluster.decide(alter_reassignments(cluster.state, request))
    return Errors.of(answer.responses[0].partitions[0].error_code)


def join(cluster: ControllerCluster, *isr: int) -> None:
    decision = alter_partition(cluster.state, cluster.isr_request(isr), 3)
    cluster.decide(decision)


def listed(cluster: ControllerCluster, **topics) -> dict:
    wanted = [ListPartitionReassignmentsTopics(name=name, partition_indexes=i) for name, i in topics.items()]
    request = ListPartitionReassignmentsRequest(topics=wanted or None)
    answer = cluster.decide(list_reassignments(cluster.state, request))
    return {
        (topic.name, each.partition_index): (
            list(each.replicas),
            list(each.adding_replicas),
            list(each.removing_replicas),
        )
        for topic in answer.topics
        for each in topic.partitions
    }


@pytest.fixture(name="cluster")
def a_cluster() -> ControllerCluster:
    cluster = ControllerCluster(6)
    cluster.add_topic([1, 2, 3], [2, 3, 1])
    return cluster


def test_new_replicas_join_before_old_ones_go(cluster):
    assert reassign(cluster, [4, 5, 1]) is Errors.NONE
    partition = cluster.partition()
    assert (partition.replicas, partition.adding, partition.removing) == ((4, 5, 1, 2, 3), (4, 5), (2, 3))
    assert (partition.leader, partition.in_sync, partition.leader_epoch) == (1, (1, 2, 3), 0)
    assert listed(cluster) == {("t", 0): ([4, 5, 1, 2, 3], [4, 5], [2, 3])}
    assert listed(cluster, t=[1]) == {}
    assert listed(cluster, t=[0, 1], gone=[0]) == listed(cluster)
    join(cluster, 1, 2, 3, 4)
    assert listed(cluster)
    join(cluster, 1, 2, 3, 4, 5)
    partition = cluster.partition()
    assert (partition.replicas, partition.in_sync, partition.leader) == ((4, 5, 1), (1, 4, 5), 1)
    assert (partition.leader_epoch, listed(cluster)) == (1, {})


def test_another_order_is_done_at_once(cluster):
    assert reassign(cluster, [3, 2, 1]) is Errors.NONE
    partition = cluster.partition()
    assert (partition.replicas, partition.leader, partition.leader_epoch) == ((3, 2, 1), 1, 0)


def test_a_smaller_replication_factor_waits_for_all_that_stay(cluster):
    join(cluster, 1, 2)
    assert reassign(cluster, [2, 3]) is Errors.NONE
    assert cluster.partition().removing == (1,)
    join(cluster, 1, 2, 3)
    partition = cluster.partition()
    assert (partition.replicas, partition.in_sync, partition.leader) == ((2, 3), (2, 3), 2)


def test_a_larger_replication_factor(cluster):
    assert reassign(cluster, [1, 2, 3, 4]) is Errors.NONE
    join(cluster, 1, 2, 3, 4)
    assert (cluster.partition().replicas, cluster.partition().adding) == ((1, 2, 3, 4), ())
    assert reassign(cluster, [1, 2], may_resize=False) is Errors.INVALID_REPLICATION_FACTOR
    assert reassign(cluster, [1, 2, 5, 6], may_resize=False) is Errors.NONE
    assert reassign(cluster, [1, 2, 5, 3], may_resize=False) is Errors.NONE


def test_a_reassignment_is_cancelled(cluster):
    assert reassign(cluster, None) is Errors.NO_REASSIGNMENT_IN_PROGRESS
    reassign(cluster, [4, 5, 6])
    join(cluster, 1, 2, 4)
    assert reassign(cluster, None) is Errors.NONE
    partition = cluster.partition()
    assert (partition.replicas, partition.in_sync, partition.leader) == ((1, 2, 3), (1, 2), 1)
    assert (partition.adding, partition.removing, partition.leader_epoch) == ((), (), 1)


def test_a_cancellation_that_would_lose_records_needs_leave():
    cluster = ControllerCluster(3)
    cluster.add_topic([2, 1], leader=2, isr=[2], adding_replicas=[2], removing_replicas=[1])
    assert reassign(cluster, None) is Errors.INVALID_REPLICA_ASSIGNMENT
    cluster.set_config("unclean.leader.election.enable", "true")
    assert reassign(cluster, None) is Errors.NONE
    partition = cluster.partition()
    assert (partition.replicas, partition.in_sync, partition.leader) == ((1,), (1,), 1)


def test_another_reassignment_replaces_the_first(cluster):
    reassign(cluster, [4, 5, 6])
    assert reassign(cluster, [1, 2, 4]) is Errors.NONE
    partition = cluster.partition()
    assert (partition.replicas, partition.adding) == ((1, 2, 4, 3, 5, 6), (4,))
    assert partition.removing == (3, 5, 6)
    join(cluster, 1, 2, 3, 4)
    partition = cluster.partition()
    assert (partition.replicas, partition.in_sync) == ((1, 2, 4), (1, 2, 4))


@pytest.mark.parametrize(
    "replicas, where, error",
    [
        ([], {}, Errors.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], {}, Errors.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], {}, Errors.INVALID_REPLICA_ASSIGNMENT),
        ([1], {"topic": "gone"}, Errors.UNKNOWN_TOPIC_OR_PARTITION),
        ([1], {"index": 2}, Errors.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_is_refused(cluster, replicas, where, error):
    before = len(cluster.log)
    assert reassign(cluster, replicas, **where) is error
    assert len(cluster.log) == before


def test_a_fenced_leader_that_is_to_go_ends_a_reassignment(cluster):
    reassign(cluster, [4, 2, 3])
    join(cluster, 1, 2, 3)
    cluster.fence(1)
    assert cluster.partition().leader == 2
    join(cluster, 2, 3, 4)
    assert cluster.partition().replicas == (4, 2, 3)
