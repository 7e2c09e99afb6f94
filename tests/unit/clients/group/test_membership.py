"""Memberships of KIP-848 and KIP-932 as pure state: what heartbeats contain, and what answers mean."""

import pytest

from bowstring.clients.group.membership import ConsumerMembership, Phase, Refusal, ShareMembership
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

TOPIC = bytes(15) + b"\1"


def member(**options):
    return ConsumerMembership("g", "me", rebalance_timeout_ms=300_000, **options)


def answer(epoch=1, places=None, interval_ms=5000, **fields):
    assignment = None
    if places is not None:
        assignment = Assignment(topic_partitions=[TopicPartitions(topic_id=TOPIC, partitions=places)])
    return ConsumerGroupHeartbeatResponse(
        member_id="me",
        member_epoch=epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=assignment,
        **fields,
    )


def refusal(error):
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message="because")


def joined(**options):
    one = member(**options)
    one.subscribe(["t"])
    one.request()
    one.answered(answer(3, [0, 1]), 10.0)
    return one


def test_the_first_heartbeat_tells_everything():
    one = member(server_assignor="range", group_instance_id="i", rack="r")
    assert one.due_at is None
    one.subscribe(["b", "a"])
    assert one.due_at == 0.0
    told = one.request()(1)
    assert (told.member_id, told.member_epoch, told.instance_id, told.rack_id) == ("me", 0, "i", "r")
    assert (told.subscribed_topic_names, told.topic_partitions) == (["a", "b"], [])
    assert (told.rebalance_timeout_ms, told.server_assignor) == (300_000, "range")
    assert told.subscribed_topic_regex is None


def test_later_heartbeats_tell_changes_only():
    one = joined()
    assert (one.phase, one.epoch, one.due_at) == (Phase.MEMBER, 3, 15.0)
    assert one.target == {(TOPIC, 0), (TOPIC, 1)}
    one.settle(one.target)
    assert one.due_at == 0.0
    told = one.request()(1)
    assert told.topic_partitions == [TopicPartitions(topic_id=TOPIC, partitions=[0, 1])]
    assert told.subscribed_topic_names is None
    one.answered(answer(3), 20.0)
    assert one.due_at == 25.0
    told = one.request()(1)
    assert (told.topic_partitions, told.subscribed_topic_names, told.rebalance_timeout_ms) == (None, None, -1)
    one.answered(answer(4), 25.0)
    one.subscribe(["t"])
    assert one.due_at == 30.0
    one.subscribe(["t", "u"])
    assert one.due_at == 0.0
    told = one.request()(1)
    assert (told.member_epoch, told.subscribed_topic_names, told.topic_partitions) == (4, ["t", "u"], None)


def test_a_change_during_a_request_is_told_next():
    one = joined()
    one.request()
    one.settle([(TOPIC, 0)])
    one.answered(answer(3), 20.0)
    assert one.due_at == 20.0
    assert one.request()(1).topic_partitions == [TopicPartitions(topic_id=TOPIC, partitions=[0])]


def test_an_expression_is_taken_back_by_an_empty_one():
    one = member()
    one.subscribe([], "a.*")
    told = one.request()(1)
    assert (told.subscribed_topic_regex, told.subscribed_topic_names) == ("a.*", [])
    one.answered(answer(), 0.0)
    assert one.request()(1).subscribed_topic_regex is None
    one.subscribe(["t"])
    told = one.request()(1)
    assert (told.subscribed_topic_regex, told.subscribed_topic_names) == ("", ["t"])


def test_all_is_told_again_when_an_answer_is_missing():
    one = joined()
    one.settle(one.target)
    one.request()
    one.failed(20.0)
    assert one.due_at == pytest.approx(20.1)
    told = one.request()(1)
    assert (told.member_epoch, told.subscribed_topic_names) == (3, ["t"])
    assert told.topic_partitions == [TopicPartitions(topic_id=TOPIC, partitions=[0, 1])]
    for _ in range(20):
        one.failed(30.0)
    assert one.due_at == 31.0


@pytest.mark.parametrize("error", [Errors.FENCED_MEMBER_EPOCH, Errors.UNKNOWN_MEMBER_ID])
def test_a_removed_member_joins_again_when_its_partitions_are_given_up(error):
    one = joined()
    one.answered(refusal(error), 20.0)
    assert (one.phase, one.due_at, one.target) == (Phase.LOST, None, None)
    one.release()
    told = one.request()(1)
    assert (told.member_id, told.member_epoch, told.topic_partitions) == ("me", 0, [])


@pytest.mark.parametrize("error", [Errors.NOT_COORDINATOR, Errors.COORDINATOR_NOT_AVAILABLE])
def test_another_coordinator_is_looked_for(error):
    one = joined()
    assert one.answered(refusal(error), 20.0)
    assert (one.phase, one.epoch) == (Phase.MEMBER, 3)
    assert not one.answered(refusal(Errors.COORDINATOR_LOAD_IN_PROGRESS), 20.0)
    assert one.due_at > 20.0


@pytest.mark.parametrize(
    "error",
    [
        Errors.UNRELEASED_INSTANCE_ID,
        Errors.FENCED_INSTANCE_ID,
        Errors.UNSUPPORTED_ASSIGNOR,
        Errors.INVALID_REGULAR_EXPRESSION,
        Errors.GROUP_MAX_SIZE_REACHED,
        Errors.GROUP_AUTHORIZATION_FAILED,
        Errors.UNSUPPORTED_VERSION,
    ],
)
def test_errors_that_waiting_cannot_solve_are_raised(error):
    one = member()
    one.subscribe(["t"])
    one.request()
    one.answered(refusal(error), 0.0)
    assert (one.phase, one.due_at) == (Phase.FAILED, None)
    assert one.refusal == Refusal(error.code, "because", False)
    one.subscribe(["t"])
    assert one.phase is Phase.FAILED, "the error is raised first"
    one.refusal = None
    one.subscribe(["t"])
    assert (one.phase, one.epoch) == (Phase.JOINING, 0)
    assert one.due_at > 0.0, "polls in a loop do not flood the coordinator"


def test_access_to_a_topic_is_asked_for_again():
    one = joined()
    one.answered(refusal(Errors.TOPIC_AUTHORIZATION_FAILED), 20.0)
    assert one.refusal == Refusal(Errors.TOPIC_AUTHORIZATION_FAILED.code, "because", True)
    assert one.phase is Phase.MEMBER and one.due_at > 20.0


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_leaving(instance, epoch):
    one = joined(group_instance_id=instance)
    assert one.leave()
    told = one.request()(1)
    assert (told.member_epoch, told.instance_id, told.topic_partitions) == (epoch, instance, None)
    one.answered(answer(epoch), 0.0)
    assert (one.phase, one.epoch, one.due_at) == (Phase.OUTSIDE, -1, None)
    one.subscribe(["t"])
    assert one.request()(1).member_epoch == 0
    assert not member().leave()


@pytest.mark.parametrize("ended", ["answered", "failed"])
def test_leaving_while_a_heartbeat_is_on_its_way(ended):
    one = joined(group_instance_id="i")
    one.request()
    assert one.leave()
    if ended == "answered":
        assert not one.answered(answer(3), 20.0)
    else:
        one.failed(20.0)
    assert (one.phase, one.due_at) == (Phase.LEAVING, 0.0)
    assert one.request()(1).member_epoch == -2
    one.answered(answer(-2), 20.0)
    assert (one.phase, one.due_at) == (Phase.OUTSIDE, None)


@pytest.mark.parametrize("ended", ["answered", "failed"])
def test_joining_while_the_leave_is_on_its_way(ended):
    one = joined()
    one.expire()
    assert one.request()(1).member_epoch == -1
    one.release()
    if ended == "answered":
        assert not one.answered(answer(-1), 20.0)
    else:
        one.failed(20.0)
    assert (one.phase, one.epoch, one.due_at) == (Phase.JOINING, 0, 0.0)
    assert one.request()(1).member_epoch == 0


def test_a_member_that_is_not_polled_leaves_and_waits():
    one = joined()
    one.expire()
    assert one.phase is Phase.LOST and one.due_at == 0.0
    assert one.request()(1).member_epoch == -1
    one.answered(answer(-1), 0.0)
    assert one.due_at is None
    one.release()
    assert one.request()(1).member_epoch == 0


def test_members_of_share_groups_tell_no_partitions():
    one = ShareMembership("g", "me", rack="r")
    one.subscribe(["t"])
    told = one.request()(1)
    assert (told.member_epoch, told.subscribed_topic_names, told.rack_id) == (0, ["t"], "r")
    one.answered(answer(1, [2]), 0.0)
    assert one.target == {(TOPIC, 2)}
    told = one.request()(1)
    assert (told.member_epoch, told.subscribed_topic_names) == (1, None)
    one.leave()
    assert one.request()(1).member_epoch == -1
