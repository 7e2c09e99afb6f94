"""Loads of one small request after the other on each of some connections, as quickly as the broker answers.

Frames are encoded before, and answers compared with one that was decoded, so that the load is not the limit.
"""

from __future__ import annotations

import itertools
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from bench.coordinators.figures import Span, latencies_ms
from bench.coordinators.loads import (
    COMMIT_VERSION,
    FETCH_VERSION,
    JOIN_SECONDS,
    TRANSACTION,
    Order,
    find_coordinator,
)
from bench.coordinators.loop import RECEIVE_BYTES, SILENCE_SECONDS, Loop, answer_of, frame_of
from bench.peers.wire import WireError
from bowstring._native.protocol.message_codec import encode
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from bowstring.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.protocol.messages.heartbeat import HeartbeatRequest
from bowstring.protocol.messages.init_producer_id import InitProducerIdRequest
from bowstring.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from bowstring.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from bowstring.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from bowstring.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bowstring.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from bowstring.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from bowstring.protocol.records.consumer_protocol import ConsumerProtocolSubscription
from bowstring.protocol.schema import Request

# Versions of Kafka 4.4's clients.
FIND_VERSION, METADATA_VERSION, LIST_VERSION, JOIN_VERSION, HEARTBEAT_VERSION = 6, 13, 10, 9, 4
SYNC_VERSION, CREATE_VERSION, DELETE_VERSION, INIT_VERSION = 5, 7, 6, 5
LATEST = -1
MARK = 0x11223344
# Length, correlation id, tags, throttle time, error code: before the generation in JoinGroup's answer.
GENERATION_AT = 15
CREATED_AT_ONCE = 8
RETRY_S = 0.05


class Conversation(Protocol):
    """The requests of one connection.

    Attributes:
        counted: Answers that count.
    """

    counted: int

    def frame(self) -> bytes:
        """Returns the next request, with its length."""

    def answered(self, answer: bytes) -> bool:
        """Takes an answer, with its length; returns whether its time counts.

        Raises:
            WireError: It has an error.
        """


class Same:
    """The same request again and again, whose answer stays the same or has no error either."""

    def __init__(self, request: Request, version: int):
        self._kind, self._version = type(request), version
        self._frame = frame_of(request, version)
        self._steady = b""
        self.counted = 0

    def frame(self) -> bytes:
        """Returns it."""
        return self._frame

    def answered(self, answer: bytes) -> bool:
        """Compares an answer with the last one, and looks for errors in a new one."""
        if answer != self._steady:
            refuse_errors(answer_of(self._kind, self._version, answer[4:]))
            self._steady = answer
        self.counted += 1
        return True


class Rejoins:
    """JoinGroup and SyncGroup of a member that is alone in its group: each join begins a generation."""

    def __init__(self, group: str, topic: str, member_id: str):
        subscription = b"\x00\x01" + encode(ConsumerProtocolSubscription(topics=[topic]), 1)
        self.request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
        )
        self._join = frame_of(self.request, JOIN_VERSION)
        sync = SyncGroupRequest(
            group_id=group,
            generation_id=MARK,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"")],
        )
        self._sync = frame_of(sync, SYNC_VERSION).split(struct.pack(">i", MARK))
        self._steady = b""
        self._generation = b""
        self.counted = 0

    def frame(self) -> bytes:
        """Returns JoinGroup, and after its answer SyncGroup."""
        return self._generation.join(self._sync) if self._generation else self._join

    def answered(self, answer: bytes) -> bool:
        """Counts answers of JoinGroup."""
        if self._generation:
            self._generation = b""
            if answer != self._steady:
                refuse_errors(answer_of(SyncGroupRequest, SYNC_VERSION, answer[4:]))
                self._steady = answer
            return False
        if answer[GENERATION_AT - 2 : GENERATION_AT] != b"\0\0":
            refuse_errors(answer_of(JoinGroupRequest, JOIN_VERSION, answer[4:]))
        self._generation = answer[GENERATION_AT : GENERATION_AT + 4]
        self.counted += 1
        return True


class Creations:
    """Creates one topic of one partition after the other."""

    def __init__(self, prefix: str):
        self._prefix = prefix
        self._numbers = itertools.count()
        self.names: list[str] = []
        self.counted = 0

    def frame(self) -> bytes:
        """Returns CreateTopics of a new name."""
        self.names.append(f"{self._prefix}-{next(self._numbers)}")
        topic = CreatableTopic(name=self.names[-1], num_partitions=1, replication_factor=1)
        return frame_of(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CREATE_VERSION)

    def answered(self, answer: bytes) -> bool:
        """Looks for an error."""
        refuse_errors(answer_of(CreateTopicsRequest, CREATE_VERSION, answer[4:]))
        self.counted += 1
        return True


class Bumps:
    """InitProducerId of one transactional id again and again: each answer has the next epoch."""

    def __init__(self, name: str):
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        self._frame = frame_of(request, INIT_VERSION)
        self._last = (-1, -1)
        self.counted = 0

    def frame(self) -> bytes:
        """Returns the request, which is always the same."""
        return self._frame

    def answered(self, answer: bytes) -> bool:
        """Looks for an error, and whether the epoch has risen."""
        found = answer_of(InitProducerIdRequest, INIT_VERSION, answer[4:])
        refuse_errors(found)
        now = (found.producer_id, found.producer_epoch)
        if now == self._last or (now[0] == self._last[0] and now[1] != self._last[1] + 1):
            raise WireError(f"epoch {now[1]} of producer {now[0]} follows {self._last[1]} of {self._last[0]}")
        self._last = now
        self.counted += 1
        return True


def refuse_errors(value: Any) -> None:
    """Looks for error codes in an answer, at any depth.

    Raises:
        WireError: One is not NONE.
    """
    if isinstance(value, list):
        for each in value:
            refuse_errors(each)
    elif slots := getattr(type(value), "__slots__", ()):
        if code := getattr(value, "error_code", 0):
            raise WireError(f"{type(value).__name__} has {Errors.of(code).name}")
        for name in slots:
            refuse_errors(getattr(value, name))


def converse(
    bootstrap: str, conversations: Sequence[Conversation], seconds: float, warm_seconds: float, pid: int
) -> dict[str, float]:
    """Runs conversations side by side, each on a connection with one request in flight."""
    host, port = bootstrap.rsplit(":", 1)
    with select.epoll() as poller:
        held: dict[int, list[Any]] = {}
        for each in conversations:
            connected = socket.create_connection((host, int(port)), timeout=SILENCE_SECONDS)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            poller.register(connected, select.EPOLLIN)
            held[connected.fileno()] = [connected, each, b"", 0.0]
        try:
            for one in held.values():
                _send(one)
            _answer_for(warm_seconds, poller, held)
            for each in conversations:
                each.counted = 0
            span = Span(pid)
            latencies = _answer_for(seconds, poller, held)
            figures = span.figures()
        finally:
            for one in held.values():
                one[0].close()
    count = sum(each.counted for each in conversations)
    return {
        "per_second": count / figures["seconds"],
        "per_cpu_second": count / max(figures["cpu_seconds"], 0.01),
        **latencies_ms(latencies),
        "load_cpu_percent": 100 * figures["load_cpu_seconds"] / figures["seconds"],
    }


def _send(one: list[Any]) -> None:
    one[3] = time.monotonic()
    one[0].sendall(one[1].frame())


def _answer_for(seconds: float, poller: select.epoll, held: dict[int, list[Any]]) -> list[float]:
    latencies: list[float] = []
    now = time.monotonic()
    until = now + seconds
    silent = now + SILENCE_SECONDS
    while now < until:
        found = poller.poll(0.1, 1024)
        now = time.monotonic()
        if not found and now > silent:
            raise TimeoutError(f"no answer within {SILENCE_SECONDS:.0f} s")
        for descriptor, _ in found:
            one = held[descriptor]
            data = one[0].recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionError("the broker closed a connection")
            if one[2]:
                data = one[2] + data
            if len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
                one[2] = data
                continue
            one[2] = b""
            silent = now + SILENCE_SECONDS
            if one[1].answered(data):
                latencies.append(now - one[3])
            _send(one)
    return latencies


# ---------------------------------------------------------------- what is asked


def _storm(order: Order, conversations: Sequence[Conversation]) -> dict[str, float]:
    return converse(
        order.bootstrap, conversations, order.numbers["seconds"], order.numbers["warm_seconds"], order.pid
    )


def offset_fetches(order: Order) -> dict[str, float]:
    """OffsetFetch of one partition, from groups that have committed."""
    conversations = []
    with Loop(order.bootstrap) as loop:
        wire = loop.connect()
        for group in _groups(order):
            find_coordinator(loop, wire, group)
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
            topic = OffsetCommitRequestTopic(name=order.topic, partitions=[partition])
            _until_accepted(loop, wire, OffsetCommitRequest(group_id=group, topics=[topic]), COMMIT_VERSION)
            wanted = OffsetFetchRequestTopics(name=order.topic, partition_indexes=[0])
            asked = OffsetFetchRequestGroup(group_id=group, topics=[wanted])
            conversations.append(Same(OffsetFetchRequest(groups=[asked]), FETCH_VERSION))
    return _storm(order, conversations)


def coordinator_lookups(order: Order) -> dict[str, float]:
    """FindCoordinator of one group each."""
    conversations = []
    with Loop(order.bootstrap) as loop:
        wire = loop.connect()
        for group in _groups(order):
            find_coordinator(loop, wire, group)
            conversations.append(Same(FindCoordinatorRequest(coordinator_keys=[group]), FIND_VERSION))
    return _storm(order, conversations)


def metadata_of_topics(order: Order) -> dict[str, float]:
    """Metadata of `topics` topics by name, with six partitions each."""
    names = [f"{order.topic}-{number}" for number in range(order.count("topics"))]
    with Loop(order.bootstrap) as loop:
        wire = loop.connect()
        created = [CreatableTopic(name=each, num_partitions=6, replication_factor=1) for each in names]
        refuse_errors(
            loop.asked(wire, CreateTopicsRequest(topics=created, timeout_ms=60_000), CREATE_VERSION)
        )
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name=each) for each in names])
        wanted.allow_auto_topic_creation = False
        _until_accepted(loop, wire, wanted, METADATA_VERSION)
        figures = _storm(order, [Same(wanted, METADATA_VERSION) for _ in range(order.count("connections"))])
        _delete(order, names)
    return figures


def offset_listings(order: Order) -> dict[str, float]:
    """ListOffsets of the end of one partition."""
    wanted = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    topic = ListOffsetsTopic(name=order.topic, partitions=[wanted])
    request = ListOffsetsRequest(replica_id=-1, topics=[topic])
    return _storm(order, [Same(request, LIST_VERSION) for _ in range(order.count("connections"))])


def session_heartbeats(order: Order) -> dict[str, float]:
    """Heartbeat of members that are alone in their classic groups."""
    conversations = []
    with Loop(order.bootstrap) as loop:
        wire = loop.connect()
        for group in _groups(order):
            find_coordinator(loop, wire, group)
            member_id, generation = joined(loop, wire, group, order.topic)
            synced(loop, wire, group, member_id, generation)
            request = HeartbeatRequest(group_id=group, member_id=member_id, generation_id=generation)
            conversations.append(Same(request, HEARTBEAT_VERSION))
    return _storm(order, conversations)


def rejoins(order: Order) -> dict[str, float]:
    """JoinGroup of members that are alone in their groups, and SyncGroup between two of them."""
    conversations = []
    with Loop(order.bootstrap) as loop:
        wire = loop.connect()
        for group in _groups(order):
            find_coordinator(loop, wire, group)
            conversations.append(Rejoins(group, order.topic, joined(loop, wire, group, order.topic)[0]))
    return _storm(order, conversations)


def topic_creations(order: Order) -> dict[str, float]:
    """CreateTopics of one topic of one partition, from `CREATED_AT_ONCE` connections."""
    conversations = [Creations(f"{order.topic}-{number}") for number in range(CREATED_AT_ONCE)]
    figures = _storm(order, conversations)
    _delete(order, [name for each in conversations for name in each.names])
    return figures


def epoch_bumps(order: Order) -> dict[str, float]:
    """InitProducerId that raises the epoch, each connection with its own transactional id."""
    names = [f"{order.topic}-bumps-{number}" for number in range(order.count("connections"))]
    with Loop(order.bootstrap) as loop:
        wire = loop.connect()
        for name in names:
            find_coordinator(loop, wire, name, TRANSACTION)
            first = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
            _until_accepted(loop, wire, first, INIT_VERSION)
    return _storm(order, [Bumps(name) for name in names])


def _groups(order: Order) -> list[str]:
    return [f"{order.topic}-storm-{number}" for number in range(order.count("connections"))]


def joined(loop: Loop, wire: Any, group: str, topic: str) -> tuple[str, int]:
    """Joins an empty group; returns the member's id and the generation."""
    member_id = ""
    deadline = time.monotonic() + JOIN_SECONDS
    while time.monotonic() < deadline:
        answer: Any = loop.asked(wire, Rejoins(group, topic, member_id).request, JOIN_VERSION)
        if answer.error_code == Errors.NONE.code:
            return member_id, answer.generation_id
        if answer.error_code == Errors.MEMBER_ID_REQUIRED.code:
            member_id = answer.member_id
        else:
            loop.run_for(RETRY_S)
    raise TimeoutError(f"{group} could not be joined within {JOIN_SECONDS:.0f} s")


def synced(loop: Loop, wire: Any, group: str, member_id: str, generation: int) -> None:
    """Ends the rebalance of a member that is alone in its group, and assigns nothing."""
    request = SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"")],
    )
    refuse_errors(loop.asked(wire, request, SYNC_VERSION))


def _until_accepted(loop: Loop, wire: Any, request: Request, version: int) -> None:
    deadline = time.monotonic() + SILENCE_SECONDS
    while True:
        try:
            return refuse_errors(loop.asked(wire, request, version))
        except WireError:
            if time.monotonic() > deadline:
                raise
            loop.run_for(RETRY_S)


def _delete(order: Order, names: Sequence[str]) -> None:
    with Loop(order.bootstrap) as loop:
        wire = loop.connect()
        for first in range(0, len(names), 500):
            some = [DeleteTopicState(name=each) for each in names[first : first + 500]]
            loop.asked(wire, DeleteTopicsRequest(topics=some, timeout_ms=60_000), DELETE_VERSION)


STORMS: dict[str, Callable[[Order], dict[str, float]]] = {
    "offset-fetches": offset_fetches,
    "coordinator-lookups": coordinator_lookups,
    "metadata-of-topics": metadata_of_topics,
    "offset-listings": offset_listings,
    "rejoins": rejoins,
    "session-heartbeats": session_heartbeats,
    "topic-creations": topic_creations,
    "epoch-bumps": epoch_bumps,
}
