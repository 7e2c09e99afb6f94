"""Brokers report which directory holds which replica."""

import pytest

from bowstring.engine.controller.alter_partition import alter_partition
from bowstring.engine.controller.directories import assign_replicas
from bowstring.engine.metadata.directory_ids import LOST
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from tests.support.controller import TOPIC_ID, ControllerCluster, directory


def assign(cluster: ControllerCluster, broker: int, target: bytes, *indexes: int, topic_id: bytes = TOPIC_ID):
    request = AssignReplicasToDirsRequest(
        broker_id=broker,
        broker_epoch=cluster.epoch(broker),
        directories=[
            AssignReplicasToDirsRequestDirectoryData(
                id=target,
                topics=[
                    AssignReplicasToDirsRequestTopicData(
                        topic_id=topic_id,
                        partitions=[
                            AssignReplicasToDirsRequestPartitionData(partition_index=each) for each in indexes
                        ],
                    )
                ],
            )
        ],
    )
    answer = cluster.decide(assign_replicas(cluster.state, request))
    return [Errors.of(each.error_code) for each in answer.directories[0].topics[0].partitions]


def alter_isr(cluster: ControllerCluster, isr: list[int]) -> Error:
    """Requests another ISR as the leader."""
    answer = cluster.decide(alter_partition(cluster.state, cluster.isr_request(isr), 3))
    return Errors.of(answer.topics[0].partitions[0].error_code)


def test_a_replica_is_in_the_directory_that_its_broker_names():
    cluster = ControllerCluster(3)
    cluster.add_topic([1, 2], [2, 3], directories=[bytes(15) + b"\x01"] * 2)
    assert assign(cluster, 1, directory(1), 0, 1, 5) == [
        Errors.NONE,
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert cluster.partition().directories == (directory(1), bytes(15) + b"\x01")
    assert cluster.partition().leader_epoch == 0
    before = len(cluster.log)
    assert assign(cluster, 1, directory(1), 0) == [Errors.NONE]
    assert len(cluster.log) == before
    assert assign(cluster, 1, directory(1), 0, topic_id=b"x" * 16) == [Errors.UNKNOWN_TOPIC_ID]


def test_a_replica_in_a_directory_that_is_offline_leaves_the_isr():
    cluster = ControllerCluster(2)
    cluster.add_topic([1, 2])
    assert assign(cluster, 1, b"gone" * 4, 0) == [Errors.NONE]
    partition = cluster.partition()
    assert (partition.leader, partition.in_sync) == (2, (2,))
    assert partition.directories[0] == b"gone" * 4


def test_a_replica_joins_the_isr_once_its_directory_is_online_again():
    cluster = ControllerCluster(2)
    cluster.add_topic([1, 2])
    assign(cluster, 1, LOST, 0)
    assert cluster.partition().in_sync == (2,)
    assert alter_isr(cluster, [2, 1]) == Errors.INELIGIBLE_REPLICA
    assign(cluster, 1, directory(1), 0)
    assert alter_isr(cluster, [2, 1]) == Errors.NONE
    assert cluster.partition().in_sync == (2, 1)


def test_the_last_replica_leads_again_once_its_directory_is_online_again():
    """Nothing else would elect it: the broker was active all the time."""
    cluster = ControllerCluster(2)
    cluster.add_topic([1])
    assign(cluster, 1, LOST, 0)
    assert cluster.partition().leader == -1
    assign(cluster, 1, b"gone" * 4, 0)
    assert cluster.partition().leader == -1
    assign(cluster, 1, directory(1), 0)
    assert (cluster.partition().leader, cluster.partition().in_sync) == (1, (1,))


def test_who_may_not():
    cluster = ControllerCluster(1)
    cluster.add_topic([1])
    with pytest.raises(KafkaError) as caught:
        assign(cluster, 9, directory(9), 0)
    assert caught.value.error is Errors.STALE_BROKER_EPOCH
    old = ControllerCluster(1, level=16)
    with pytest.raises(KafkaError) as caught:
        assign(old, 1, directory(1), 0)
    assert caught.value.error is Errors.UNSUPPORTED_VERSION
