"""An answer counts only for the assignment, the seek and the generation of its request."""

import contextlib

import pytest

from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.errors import CommitFailedError
from bowstring.clients.records import TopicPartition
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from bowstring.protocol.messages.heartbeat import HeartbeatRequest
from bowstring.protocol.messages.join_group import JoinGroupRequest
from bowstring.protocol.messages.leave_group import LeaveGroupRequest
from bowstring.protocol.messages.list_offsets import ListOffsetsRequest
from bowstring.protocol.messages.offset_commit import OffsetCommitRequest
from bowstring.protocol.messages.offset_fetch import OffsetFetchRequest
from bowstring.protocol.messages.sync_group import SyncGroupRequest
from tests.support.fake_broker import TOPIC_ID
from tests.support.fake_group import MEMBER, FakeGroup, Gate, poll_until
from tests.support.waiting import wait_until

P = TopicPartition("t", 0)


@pytest.fixture
def broker():
    with FakeGroup() as made:
        yield made


@pytest.fixture
def consumer_of(broker):
    made = []

    def make(**options):
        consumer = Consumer(
            broker.bootstrap, **{"auto_offset_reset": "none", "enable_auto_commit": False, **options}
        )
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        consumer.close()


def assign_anew(consumer):
    consumer.assign([])
    consumer.assign([P])


def test_committed_offsets_of_an_earlier_assignment(broker, consumer_of):
    gate = Gate()
    broker.answers[OffsetFetchRequest] = [gate, 100, 5]
    consumer = consumer_of(group_id="g")
    consumer.assign([P])
    poll_until(consumer, gate.reached.is_set)
    assign_anew(consumer)
    consumer.poll(timeout=0)
    gate.open.set()
    assert consumer.position(P) == 5


def test_a_refusal_of_committed_offsets_for_an_earlier_assignment(broker, consumer_of):
    """As with auto_offset_reset="none": nothing is stored for the earlier assignment."""
    gate = Gate()
    broker.answers[OffsetFetchRequest] = [gate, -1, 5]
    consumer = consumer_of(group_id="g")
    consumer.assign([P])
    poll_until(consumer, gate.reached.is_set)
    assign_anew(consumer)
    consumer.poll(timeout=0)
    gate.open.set()
    assert consumer.position(P) == 5


def test_an_end_looked_up_for_an_earlier_seek(broker, consumer_of):
    gate = Gate()
    broker.answers[ListOffsetsRequest] = [gate, 10, 20]
    consumer = consumer_of()
    consumer.assign([P])
    consumer.seek_to_end(P)
    poll_until(consumer, gate.reached.is_set)
    consumer.seek(P, 3)
    consumer.seek_to_end(P)
    consumer.poll(timeout=0)
    gate.open.set()
    assert consumer.position(P) == 20


def test_an_end_that_a_new_leader_does_not_know_yet(broker, consumer_of):
    """KIP-207."""
    broker.answers[ListOffsetsRequest] = [Errors.OFFSET_NOT_AVAILABLE, Errors.LEADER_NOT_AVAILABLE, 20]
    consumer = consumer_of()
    consumer.assign([P])
    consumer.seek_to_end(P)
    assert consumer.position(P) == 20
    broker.answers[ListOffsetsRequest] = [Errors.OFFSET_NOT_AVAILABLE, 30]
    assert consumer.end_offsets([P]) == {P: 30}


def test_an_end_looked_up_for_an_earlier_assignment(broker, consumer_of):
    gate = Gate()
    broker.answers[ListOffsetsRequest] = [gate, 10, 20]
    consumer = consumer_of(auto_offset_reset="latest")
    consumer.assign([P])
    poll_until(consumer, gate.reached.is_set)
    assign_anew(consumer)
    consumer.poll(timeout=0)
    gate.open.set()
    assert consumer.position(P) == 20


def test_a_fetch_refused_for_an_earlier_assignment(broker, consumer_of):
    gate = Gate()
    asked = []

    def fetch(version, request):
        asked.append(request)
        if len(asked) > 1:
            return FetchResponse()
        gate.hold()
        part = PartitionData(partition_index=0, error_code=Errors.OFFSET_OUT_OF_RANGE.code)
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[part])])

    broker.handlers[FetchRequest] = fetch
    consumer = consumer_of()
    consumer.assign([P])
    consumer.seek(P, 7)
    poll_until(consumer, gate.reached.is_set)
    assign_anew(consumer)
    consumer.seek(P, 7)
    gate.open.set()
    poll_until(consumer, lambda: len(asked) > 2)  # and raises nothing
    assert consumer.position(P) == 7


def test_a_commit_refused_while_the_member_joins_anew(broker, consumer_of):
    """ILLEGAL_GENERATION then refers to the generation that the member itself has left."""
    gate = Gate()
    lost, outcomes = [], []
    consumer = consumer_of(group_id="g", heartbeat_interval_ms=20)
    consumer.subscribe(["t"], on_lost=lost.append)
    poll_until(consumer, consumer.assignment)
    broker.answers[OffsetCommitRequest] = [gate, Errors.ILLEGAL_GENERATION.code]
    consumer.commit({P: 5}, asynchronous=True, on_commit=lambda _, error: outcomes.append(error))
    broker.answers[HeartbeatRequest] = [Errors.REBALANCE_IN_PROGRESS.code, 0]
    poll_until(consumer, lambda: not consumer.assignment())  # it joins again
    gate.open.set()
    poll_until(consumer, consumer.assignment)
    assert isinstance(outcomes[0], CommitFailedError) and lost == []
    assert [request.member_id for request in broker.seen(JoinGroupRequest)] == ["", MEMBER]


def test_a_commit_refused_of_a_member_that_stands(broker, consumer_of):
    lost = []
    consumer = consumer_of(group_id="g")
    consumer.subscribe(["t"], on_lost=lost.append)
    poll_until(consumer, consumer.assignment)
    broker.answers[OffsetCommitRequest] = [Errors.ILLEGAL_GENERATION.code]
    with contextlib.suppress(CommitFailedError):
        consumer.commit({P: 5})
    poll_until(consumer, lambda: lost and consumer.assignment())
    assert len(broker.seen(JoinGroupRequest)) == 2


def test_a_group_left_while_joining(broker, consumer_of):
    """The answer does not make it a waiting member, nor assign topics of the earlier subscription."""
    gate = Gate()
    broker.answers[JoinGroupRequest] = [gate, 0]
    consumer = consumer_of(group_id="g")
    consumer.subscribe(["t"])
    poll_until(consumer, gate.reached.is_set)
    consumer.unsubscribe()
    gate.open.set()
    wait_until(lambda: consumer.end_offsets([P]) and broker.seen(LeaveGroupRequest))
    assert broker.seen(LeaveGroupRequest)[0].members[0].member_id == MEMBER
    assert not broker.seen(SyncGroupRequest) and not consumer.assignment()
    consumer.subscribe(["other"])
    poll_until(consumer, consumer.assignment)
    assert consumer.assignment() == {TopicPartition("other", 0)}
