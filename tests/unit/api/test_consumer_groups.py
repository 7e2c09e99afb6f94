"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: early refusals, and one whole life."""

import pytest

from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from bowstring.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.served_broker import Served

JOIN = {
    "group_id": "g",
    "member_id": "m",
    "member_epoch": 0,
    "rebalance_timeout_ms": 1000,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}


def beat(served, version=1, **fields):
    return served.ask(ConsumerGroupHeartbeatRequest(**fields), version)


@pytest.mark.parametrize(
    ("version", "fields", "error"),
    [
        (1, {"member_id": ""}, Errors.INVALID_REQUEST),
        (0, {"member_id": "", "member_epoch": 1}, Errors.INVALID_REQUEST),
        (1, {"group_id": " "}, Errors.INVALID_REQUEST),
        (1, {"instance_id": ""}, Errors.INVALID_REQUEST),
        (1, {"rack_id": ""}, Errors.INVALID_REQUEST),
        (1, {"rebalance_timeout_ms": -1}, Errors.INVALID_REQUEST),
        (1, {"topic_partitions": None}, Errors.INVALID_REQUEST),
        (1, {"topic_partitions": [TopicPartitions(topic_id=bytes(16))]}, Errors.INVALID_REQUEST),
        (1, {"subscribed_topic_names": None}, Errors.INVALID_REQUEST),
        (1, {"member_epoch": -2}, Errors.INVALID_REQUEST),
        (1, {"member_epoch": -3}, Errors.INVALID_REQUEST),
        (1, {"server_assignor": "none"}, Errors.UNSUPPORTED_ASSIGNOR),
        (1, {"member_epoch": 1}, Errors.GROUP_ID_NOT_FOUND),
        (1, {"member_epoch": -1}, Errors.GROUP_ID_NOT_FOUND),
    ],
)
def test_refused(served, version, fields, error):
    served.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    answer = beat(served, version, **{**JOIN, **fields})
    assert answer.error_code == error.code
    assert answer.error_message


def test_a_life(served):
    served.create_topic("t", partitions=2)
    served.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    joined = beat(served, 0, **{**JOIN, "member_id": ""})
    assert (joined.error_code, joined.member_epoch) == (0, 2)
    assert joined.member_id
    (topic,) = joined.assignment.topic_partitions
    assert topic.partitions == [0, 1]
    me = {"group_id": "g", "member_id": joined.member_id}
    assert beat(served, **me, member_epoch=2).assignment is None
    request = ConsumerGroupDescribeRequest(group_ids=["g", "none", ""], include_authorized_operations=True)
    group, none, empty = served.ask(request, 1).groups
    assert (group.group_state, group.group_epoch, group.assignor_name) == ("Stable", 2, "uniform")
    (member,) = group.members
    assert member.member_type == 1
    assert member.assignment.topic_partitions[0].topic_name == "t"
    assert member.target_assignment.topic_partitions[0].partitions == [0, 1]
    assert (none.error_code, empty.error_code) == (
        Errors.GROUP_ID_NOT_FOUND.code,
        Errors.INVALID_GROUP_ID.code,
    )
    assert beat(served, **me, member_epoch=-1).member_epoch == -1
    assert served.ask(request, 1).groups[0].group_state == "Empty"


def test_many_topics_and_partitions(served):
    """Large requests are taken in slices; those beyond any append or member are refused."""
    served.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    names = [f"{'t' * 40}{number}" for number in range(20_000)]
    assert beat(served, **{**JOIN, "subscribed_topic_names": names[:10_000] * 2}).error_code == 0
    refused = beat(served, **{**JOIN, "subscribed_topic_names": names * 2, "member_id": "n"})
    assert refused.error_code == Errors.UNKNOWN_SERVER_ERROR.code
    me = {"group_id": "g", "member_id": "m", "member_epoch": 2}
    many = TopicPartitions(topic_id=bytes(16), partitions=list(range(150_000)))
    assert beat(served, **me, topic_partitions=[many]).error_code == 0
    assert beat(served, **me, topic_partitions=[many, many]).error_code == Errors.INVALID_REQUEST.code


def test_a_large_group_is_described(served):
    served.create_topic("t", partitions=3)
    served.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    for number in range(110):
        assert beat(served, **{**JOIN, "member_id": f"m{number}"}).error_code == 0
    (group,) = served.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert len(group.members) == 110


def test_a_broker_may_do_without_the_protocol(tmp_path):
    served = Served(tmp_path, group_coordinator_rebalance_protocols="classic")
    try:
        answer = beat(served, **JOIN)
        assert answer.error_code == Errors.UNSUPPORTED_VERSION.code
        assert "group.protocol=classic" in answer.error_message
        (group,) = served.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
        assert group.error_code == Errors.UNSUPPORTED_VERSION.code
    finally:
        served.stop()
