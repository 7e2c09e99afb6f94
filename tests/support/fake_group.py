"""A fake broker that also coordinates a group of one member, and answers when a test lets it."""

import threading
import time

from bowstring.clients.group.protocol import encode_assignment
from bowstring.clients.records import TopicPartition
from bowstring.protocol.errors import Error
from bowstring.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from bowstring.protocol.messages.fetch import FetchRequest, FetchResponse
from bowstring.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from bowstring.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from bowstring.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from bowstring.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from bowstring.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from bowstring.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from bowstring.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from bowstring.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support.fake_broker import FakeBroker
from tests.support.waiting import HANG_S

PATIENCE_S = HANG_S
CONSUMER_HEARTBEAT_KEY = ConsumerGroupHeartbeatRequest.api_key
MEMBER = "the-member"


def poll_until(consumer, condition):
    """Polls until the condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        consumer.poll(timeout=0.02)


class Gate:
    """Delays requests until the test opens it."""

    def __init__(self):
        self.reached = threading.Event()
        self.open = threading.Event()

    def hold(self):
        self.reached.set()
        assert self.open.wait(PATIENCE_S)


class FakeGroup(FakeBroker):
    """`answers[request class]` is a list of what the next requests of that class are answered with, the last
    one for all that follow: a value (offset, or error code), or a Gate and then a value."""

    def __init__(self, **options):
        super().__init__(**options)
        self.generation = 0
        self.answers = {}
        self.handlers |= {
            FindCoordinatorRequest: self.find_coordinator,
            JoinGroupRequest: self.join,
            SyncGroupRequest: self.sync,
            HeartbeatRequest: lambda *_: HeartbeatResponse(error_code=self.next(HeartbeatRequest, 0)),
            LeaveGroupRequest: lambda *_: LeaveGroupResponse(),
            OffsetFetchRequest: self.offset_fetch,
            OffsetCommitRequest: self.offset_commit,
            ListOffsetsRequest: self.list_offsets,
            FetchRequest: lambda *_: FetchResponse(),
        }

    def api_versions(self, version, request):
        """A broker with classic groups only."""
        answer = super().api_versions(version, request)
        answer.api_keys = [each for each in answer.api_keys if each.api_key != CONSUMER_HEARTBEAT_KEY]
        return answer

    def next(self, kind, default):
        with self.lock:
            planned = self.answers.get(kind, [default])
            found = planned.pop(0) if len(planned) > 1 else planned[0]
        if isinstance(found, Gate):
            found.hold()
            return self.next(kind, default)
        return found

    def find_coordinator(self, version, request):
        where = Coordinator(key=request.coordinator_keys[0], node_id=1, host=self.host, port=self.port)
        return FindCoordinatorResponse(coordinators=[where])

    def join(self, version, request):
        code = self.next(JoinGroupRequest, 0)
        self.generation += 1
        chosen = request.protocols[0]
        members = [JoinGroupResponseMember(member_id=MEMBER, metadata=chosen.metadata)]
        return JoinGroupResponse(
            error_code=code,
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=chosen.name,
            leader=MEMBER,
            member_id=MEMBER,
            members=members,
        )

    def sync(self, version, request):
        return SyncGroupResponse(
            protocol_type="consumer",
            protocol_name=request.protocol_name,
            assignment=request.assignments[0].assignment
            if request.assignments
            else encode_assignment([TopicPartition("t", 0)]),
        )

    def offset_fetch(self, version, request):
        offset = self.next(OffsetFetchRequest, 0)
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(partition_index=number, committed_offset=offset)
                    for number in topic.partition_indexes
                ],
            )
            for topic in request.groups[0].topics
        ]
        group = OffsetFetchResponseGroup(group_id=request.groups[0].group_id, topics=topics)
        return OffsetFetchResponse(groups=[group])

    def offset_commit(self, version, request):
        code = self.next(OffsetCommitRequest, 0)
        topics = [
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return OffsetCommitResponse(topics=topics)

    def list_offsets(self, version, request):
        found = self.next(ListOffsetsRequest, 0)
        error, offset = (found.code, -1) if isinstance(found, Error) else (0, found)
        topics = [
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=part.partition_index, error_code=error, offset=offset
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return ListOffsetsResponse(topics=topics)
