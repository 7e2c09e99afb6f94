"""Heartbeats that the reactor answers: the same answers, and none after anything has changed."""

import pytest

from bowstring.protocol import encode, encode_request
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from bowstring.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.protocol.messages.heartbeat import HeartbeatRequest
from bowstring.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from bowstring.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from bowstring.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from bowstring.protocol.records.consumer_protocol import ConsumerProtocolSubscription
from tests.support.waiting import wait_until

SUBSCRIPTION = b"\x00\x01" + encode(ConsumerProtocolSubscription(topics=["t"]), 1)
SESSION_MS = 6_000


def answered_by_reactors(served, api="heartbeat"):
    return served.engine.plane.counters()[api]["requests"]


def find_coordinator(served):
    """Lets the coordinator's topic be created."""
    answer = served.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 6)
    assert answer.coordinators[0].error_code == 0


class Classic:
    """A member that is alone in its classic group."""

    def __init__(self, served, group="g"):
        self.served, self.group = served, group
        self.member_id = ""
        find_coordinator(served)
        while (answer := self._join()).error_code:
            assert Errors.of(answer.error_code) is Errors.MEMBER_ID_REQUIRED
            self.member_id = answer.member_id
        self.generation = answer.generation_id
        sync = SyncGroupRequest(
            group_id=group,
            generation_id=self.generation,
            member_id=self.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=self.member_id, assignment=b"")],
        )
        assert served.ask(sync, 3).error_code == 0

    def _join(self):
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        )
        return self.served.ask(request, 5)

    def beat(self, **fields):
        values = {"group_id": self.group, "generation_id": self.generation, "member_id": self.member_id}
        return Errors.of(self.served.ask(HeartbeatRequest(**values | fields), 4).error_code)

    def leave(self):
        leaving = LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(member_id=self.member_id)])
        assert self.served.ask(leaving, 4).error_code == 0


def test_the_reactor_answers_from_the_second_on(served):
    member = Classic(served)
    for _ in range(5):
        assert member.beat() is Errors.NONE
    assert answered_by_reactors(served) >= 3


def test_another_request_is_not_answered_alike(served):
    member = Classic(served)
    for _ in range(3):
        assert member.beat() is Errors.NONE
        assert member.beat(generation_id=member.generation + 1) is Errors.ILLEGAL_GENERATION
        assert member.beat(member_id="other") is Errors.UNKNOWN_MEMBER_ID
        assert member.beat(group_id="other") is Errors.UNKNOWN_MEMBER_ID


def test_a_member_that_has_left_is_unknown(served):
    member = Classic(served)
    for _ in range(3):
        assert member.beat() is Errors.NONE
    before = answered_by_reactors(served)
    member.leave()
    for _ in range(2):
        assert member.beat() is Errors.UNKNOWN_MEMBER_ID
    assert answered_by_reactors(served) == before


def test_a_rebalance_is_seen_by_the_next(served):
    member = Classic(served)
    for _ in range(3):
        assert member.beat() is Errors.NONE
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
    )
    data = encode_request(request, 3, 1, "another")  # its answer waits for the first member
    served.connect().send(data)
    wait_until(lambda: member.beat() is Errors.REBALANCE_IN_PROGRESS)


@pytest.mark.parametrize("change", ["a topic", "a member"])
def test_a_consumer_group(served, change):
    served.create_topic("t", 4)
    find_coordinator(served)

    def beat(member_id, epoch, **fields):
        request = ConsumerGroupHeartbeatRequest(
            group_id="c", member_id=member_id, member_epoch=epoch, **fields
        )
        answer = served.ask(request, 1)
        assert answer.error_code == 0, answer
        return answer

    joining = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t", "u"], "topic_partitions": []}
    epoch = beat("m", 0, **joining).member_epoch
    for _ in range(4):
        assert beat("m", epoch).member_epoch == epoch
    assert answered_by_reactors(served, "consumer_group_heartbeat") >= 2
    if change == "a topic":
        served.create_topic("u", 2)
    else:
        beat("n", 0, **joining)
    wait_until(lambda: (answer := beat("m", epoch)).member_epoch > epoch or answer.assignment is not None)


def test_connections_come_and_go(served):
    """The lease is its connection's: another one begins without, and ends the first."""
    member = Classic(served)
    request = HeartbeatRequest(group_id="g", generation_id=member.generation, member_id=member.member_id)
    for _ in range(3):
        connection = served.connect()
        for _ in range(3):
            assert connection.ask(request, 4).error_code == 0
            assert member.beat() is Errors.NONE
        connection.close()
    groups = served.engine.coordination.groups
    assert groups.shard_of("g").members_of("g") == {member.member_id}


def test_a_coordinator_that_ends_answers_no_more(served):
    member = Classic(served)
    for _ in range(3):
        assert member.beat() is Errors.NONE
    deleted = DeleteTopicsRequest(topics=[DeleteTopicState(name="__consumer_offsets")], timeout_ms=30_000)
    assert served.ask(deleted).responses[0].error_code == 0
    assert member.beat() is Errors.NOT_COORDINATOR
