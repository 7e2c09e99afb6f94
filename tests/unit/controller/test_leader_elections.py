"""Elections by request, and those that the controller makes on its own."""

import pytest

from bowstring.engine.controller import leader_elections
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.support.controller import ControllerCluster

PREFERRED, UNCLEAN = 0, 1


def elect(cluster: ControllerCluster, kind: int, **topics) -> dict:
    wanted = [TopicPartitions(topic=name, partitions=each) for name, each in topics.items()]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=wanted or None)
    answer = cluster.decide(leader_elections.elect_leaders(cluster.state, request))
    return {
        (result.topic, each.partition_id): Errors.of(each.error_code)
        for result in answer.replica_election_results
        for each in result.partition_result
    }


def test_preferred_leaders_by_request():
    cluster = ControllerCluster(3)
    cluster.add_topic([1, 2], [2, 3], leader=2)
    cluster.add_topic([1, 2], name="u", topic_id=b"U" * 16, leader=2, isr=[2])
    assert elect(cluster, PREFERRED, t=[0, 1, 2], u=[0], gone=[0]) == {
        ("t", 0): Errors.NONE,
        ("t", 1): Errors.ELECTION_NOT_NEEDED,
        ("t", 2): Errors.UNKNOWN_TOPIC_OR_PARTITION,
        ("u", 0): Errors.PREFERRED_LEADER_NOT_AVAILABLE,
        ("gone", 0): Errors.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert (cluster.partition().leader, cluster.partition().leader_epoch) == (1, 1)
    assert (cluster.state.counters.elections, cluster.state.counters.unclean) == (1, 0)


def test_an_election_of_all_tells_only_of_those_that_needed_one():
    cluster = ControllerCluster(3)
    cluster.add_topic([1, 2], [2, 3], leader=2)
    assert elect(cluster, PREFERRED) == {("t", 0): Errors.NONE}


def test_unclean_leaders_by_request():
    cluster = ControllerCluster(3)
    cluster.add_topic([1, 2], [1], [2, 1], isr=[1], leader=1)
    cluster.fence(1)
    assert elect(cluster, UNCLEAN, t=[0, 1]) == {
        ("t", 0): Errors.NONE,
        ("t", 1): Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    }
    assert (cluster.partition().leader, cluster.partition().in_sync) == (2, (2,))
    assert cluster.state.counters.unclean == 1
    assert elect(cluster, UNCLEAN, t=[0]) == {("t", 0): Errors.ELECTION_NOT_NEEDED}


def test_unknown_kinds_are_refused():
    cluster = ControllerCluster(1)
    with pytest.raises(KafkaError) as caught:
        elect(cluster, 7)
    assert caught.value.error is Errors.INVALID_REQUEST


def test_partitions_go_back_to_their_preferred_leaders():
    cluster = ControllerCluster(3)
    cluster.add_topic([1, 2, 3], [2, 1, 3])
    cluster.fence(1)
    assert leader_elections.balance(cluster.state) is None
    cluster.heartbeat(1)
    assert leader_elections.balance(cluster.state) is None  # it is not in sync yet
    cluster.add_topic([1, 2], name="u", topic_id=b"U" * 16, leader=2)
    assert cluster.decide(leader_elections.balance(cluster.state)) is False
    assert cluster.partition(0, "u").leader == 1
    assert leader_elections.balance(cluster.state) is None


def test_balancing_goes_on_after_a_thousand():
    cluster = ControllerCluster(2)
    cluster.add_topic(*[[1, 2]] * 1001, leader=2)
    assert cluster.decide(leader_elections.balance(cluster.state)) is True
    assert cluster.decide(leader_elections.balance(cluster.state)) is False
    assert leader_elections.balance(cluster.state) is None


def test_unclean_leaders_in_time_where_allowed():
    cluster = ControllerCluster(2)
    cluster.add_topic([1, 2], isr=[1])
    cluster.fence(1)
    assert leader_elections.elect_unclean(cluster.state) is None
    cluster.set_config("unclean.leader.election.enable", "true")
    cluster.decide(leader_elections.elect_unclean(cluster.state))
    assert cluster.partition().leader == 2
