"""How a cluster is, out of what brokers say."""

import pytest

from bowstring.cli.cluster_status import ClusterStatus
from bowstring.clients.admin.results import BrokerDescription, QuorumDescription, QuorumReplica
from bowstring.clients.records import PartitionInfo, TopicInfo, TopicPartition
from bowstring.operations.partition_state import (
    AT_MIN_ISR,
    OFFLINE,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    state_of,
)


def partition(number, leader, replicas, isr):
    return PartitionInfo(number, leader, 0, tuple(replicas), tuple(isr), ())


@pytest.mark.parametrize(
    ("leader", "replicas", "isr", "min_isr", "state"),
    [
        (1, (1, 2, 3), (1, 2, 3), 2, None),
        (1, (1, 2, 3), (1, 2, 3), 3, None),  # it has all that it can have
        (1, (1,), (1,), 1, None),
        (1, (1,), (1,), 2, None),  # never more than there are replicas
        (1, (1, 2, 3), (1, 2), 1, UNDER_REPLICATED),
        (1, (1, 2, 3), (1, 2), 2, AT_MIN_ISR),
        (1, (1, 2, 3), (1,), 2, UNDER_MIN_ISR),
        (-1, (1, 2, 3), (1,), 1, OFFLINE),
        (-1, (1,), (1,), 1, OFFLINE),
    ],
)
def test_state_of_a_partition(leader, replicas, isr, min_isr, state):
    assert state_of(partition(0, leader, replicas, isr), min_isr) == state


def status(quorum=None):
    topic = TopicInfo(
        "t",
        bytes(16),
        False,
        {
            0: partition(0, 1, (1, 2), (1,)),
            1: partition(1, -1, (2,), (2,)),
            2: partition(2, 1, (1, 2), (1, 2)),
        },
    )
    brokers = [BrokerDescription(1, "a", 9092, "r1", False), BrokerDescription(2, "b", 9092, None, True)]
    ends = {TopicPartition("t", 0): {1: 10, 2: 7}, TopicPartition("t", 2): {1: 5}}
    return ClusterStatus("id", brokers, quorum, {"t": topic}, {"t": 1}, ends)


def test_partitions_in_trouble_come_worst_first():
    found = status().as_json()
    assert [(each["partition"], each["state"], each["lag"]) for each in found["troubled"]] == [
        (1, OFFLINE, {}),
        (0, AT_MIN_ISR, {2: 3}),
    ]
    assert (found["offline"], found["at_min_isr"], found["under_min_isr"], found["under_replicated"]) == (
        1,
        1,
        0,
        0,
    )
    assert found["troubled"][0]["leader"] is None and found["quorum"] is None


def test_nodes_have_their_parts_of_partitions_and_quorum():
    voters = [QuorumReplica(1, bytes(16), 100, -1, -1), QuorumReplica(101, bytes(16), 90, -1, -1)]
    observers = [QuorumReplica(2, bytes(16), 60, -1, -1)]
    quorum = QuorumDescription(1, 4, 90, voters, observers, {101: [("CONTROLLER", "c", 9093)]})
    one, two, other = status(quorum).nodes()
    assert (one["roles"], one["quorum"], one["leaders"], one["replicas"], one["in_sync"], one["lag"]) == (
        ["broker", "controller"],
        "leader",
        2,
        2,
        2,
        0,
    )
    assert (two["fenced"], two["quorum"], two["metadata_lag"], two["lag"]) == (True, "observer", 40, 3)
    assert (other["address"], other["roles"], other["quorum"], other["metadata_lag"]) == (
        "c:9093",
        ["controller"],
        "voter",
        10,
    )
