"""Leaders change the ISR of their partitions; every error of AlterPartition."""

import pytest

from bowstring.engine.controller.alter_partition import alter_partition
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.alter_partition import BrokerState
from tests.support.controller import ControllerCluster


@pytest.fixture(name="cluster")
def a_cluster() -> ControllerCluster:
    cluster = ControllerCluster(4)
    cluster.add_topic([1, 2, 3], [2, 3, 1])
    return cluster


def ask(cluster: ControllerCluster, isr, version: int = 3, **fields):
    """Sends AlterPartition as the leader; returns the partition's result."""
    request = cluster.isr_request(isr, **fields)
    return cluster.decide(alter_partition(cluster.state, request, version)).topics[0].partitions[0]


def test_an_isr_shrinks_and_grows(cluster):
    result = ask(cluster, [1, 2])
    assert (result.error_code, list(result.isr), result.leader_id) == (0, [1, 2], 1)
    assert (result.leader_epoch, result.partition_epoch) == (0, 1)
    assert cluster.partition().in_sync == (1, 2)
    result = ask(cluster, [1, 2, 3])
    assert (result.error_code, result.partition_epoch) == (0, 2)


def test_an_isr_that_is_as_wanted_changes_nothing(cluster):
    before = len(cluster.log)
    result = ask(cluster, [1, 2, 3])
    assert (result.error_code, result.partition_epoch, len(cluster.log)) == (0, 0, before)


def test_version_2_has_no_epochs(cluster):
    result = ask(cluster, [], version=2, new_isr=[1, 3], new_isr_with_epochs=[])
    assert (result.error_code, list(result.isr)) == (0, [1, 3])


@pytest.mark.parametrize(
    "isr, fields, error",
    [
        ([1, 2], {"leader_epoch": 1}, Errors.NOT_CONTROLLER),
        ([1, 2], {"partition_epoch": 6}, Errors.NOT_CONTROLLER),
        ([1, 2], {"leader_epoch": -1}, Errors.FENCED_LEADER_EPOCH),
        ([1, 2], {"partition_epoch": -1}, Errors.INVALID_UPDATE_VERSION),
        ([1, 2], {"sender": 2}, Errors.INVALID_REQUEST),
        ([2, 3], {}, Errors.INVALID_REQUEST),
        ([1, 4], {}, Errors.INVALID_REQUEST),
        ([1, 1], {}, Errors.INVALID_REQUEST),
        ([1, 2], {"leader_recovery_state": 1}, Errors.INVALID_REQUEST),
        ([1], {"leader_recovery_state": 1}, Errors.INVALID_REQUEST),
        ([1], {"leader_recovery_state": 2}, Errors.INVALID_REQUEST),
        ([1, 2], {"partition_index": 7}, Errors.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_is_refused(cluster, isr, fields, error):
    before = len(cluster.log)
    assert ask(cluster, isr, **fields).error_code == error.code
    assert len(cluster.log) == before


def test_an_unknown_topic_and_a_stale_broker(cluster):
    request = cluster.isr_request([1])
    request.topics[0].topic_id = b"x" * 16
    result = cluster.decide(alter_partition(cluster.state, request, 3)).topics[0].partitions[0]
    assert result.error_code == Errors.UNKNOWN_TOPIC_ID.code
    request.broker_epoch = 99
    with pytest.raises(KafkaError) as caught:
        alter_partition(cluster.state, request, 3)
    assert caught.value.error is Errors.STALE_BROKER_EPOCH


def test_fenced_stopping_and_restarted_replicas_are_ineligible(cluster):
    cluster.fence(3)
    assert ask(cluster, [1, 2, 3]).error_code == Errors.INELIGIBLE_REPLICA.code
    cluster.heartbeat(3)
    isr = [BrokerState(broker_id=each, broker_epoch=-1) for each in (1, 2, 3)]
    isr[2].broker_epoch = 99
    assert ask(cluster, [], new_isr_with_epochs=isr).error_code == Errors.INELIGIBLE_REPLICA.code
    isr[2].broker_epoch = -1
    assert ask(cluster, [], new_isr_with_epochs=isr).error_code == 0
    cluster.heartbeat(2, want_shut_down=True)
    assert cluster.state.image.brokers[2].in_controlled_shutdown
    assert ask(cluster, [1, 2]).error_code == Errors.INELIGIBLE_REPLICA.code


def test_a_leader_recovers_before_others_join(cluster):
    cluster.add_topic([1, 2], name="u", topic_id=b"U" * 16, isr=[1], leader_recovery_state=1)
    request = cluster.isr_request([1, 2], leader_recovery_state=1)
    request.topics[0].topic_id = b"U" * 16
    answer = cluster.decide(alter_partition(cluster.state, request, 3))
    assert answer.topics[0].partitions[0].error_code == Errors.INVALID_REQUEST.code
    request.topics[0].partitions[0].leader_recovery_state = 0
    answer = cluster.decide(alter_partition(cluster.state, request, 3))
    assert answer.topics[0].partitions[0].error_code == 0
    assert cluster.partition(0, "u").leader_recovery_state == 0


def test_the_end_of_a_reassignment_may_elect_another_leader():
    cluster = ControllerCluster(3)
    cluster.add_topic([2, 1], leader=1, isr=[1], adding_replicas=[2], removing_replicas=[1])
    result = ask(cluster, [1, 2])
    assert result.error_code == Errors.NEW_LEADER_ELECTED.code
    partition = cluster.partition()
    assert (partition.replicas, partition.in_sync, partition.leader) == ((2,), (2,), 2)
    assert (partition.adding, partition.removing) == ((), ())
