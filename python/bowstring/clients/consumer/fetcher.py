"""Fetches ahead of the reader: one request in flight per broker, in incremental sessions (KIP-227)."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from bowstring._native.client.fetch_codec import FetchAnswer, FetchedPartition
from bowstring._native.record.decode import Aborted
from bowstring.clients.consumer import record_batches
from bowstring.clients.consumer.fetch_config import FetchConfig
from bowstring.clients.consumer.partition_state import (
    Chunk,
    Epochs,
    PartitionState,
    Positions,
    ReadReplica,
)
from bowstring.clients.consumer.position_resets import PositionResets
from bowstring.clients.consumer.requests import AskedTopic, FetchFrame, ForgottenTopic
from bowstring.clients.errors import ClientError, CorruptBatchError, broker_error
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.connection import Pending
from bowstring.clients.net.metadata import ClusterMetadata
from bowstring.clients.records import Node, TopicPartition
from bowstring.clients.troubles import GRACE_S, topic_name
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.fetch import FetchRequest

if TYPE_CHECKING:
    from bowstring.clients.consumer.local_fetch import LocalFetch

RETRY_PAUSE_S = 0.1
IDLE_S = 3600.0
MISSING_TOPIC_S = 5.0
# Partitions that were read to their end are polled this often while other partitions have waiting records.
NEWS_PAUSE_S = 0.05

_LEADER_ERRORS = (
    Errors.NOT_LEADER_OR_FOLLOWER.code,
    Errors.FENCED_LEADER_EPOCH.code,
    Errors.UNKNOWN_LEADER_EPOCH.code,
    Errors.UNKNOWN_TOPIC_OR_PARTITION.code,
    Errors.UNKNOWN_TOPIC_ID.code,
    Errors.INCONSISTENT_TOPIC_ID.code,
    Errors.KAFKA_STORAGE_ERROR.code,
    Errors.REPLICA_NOT_AVAILABLE.code,
    Errors.OFFSET_NOT_AVAILABLE.code,
    Errors.LEADER_NOT_AVAILABLE.code,
)
_TOPIC_ERRORS = (Errors.UNKNOWN_TOPIC_OR_PARTITION.code, Errors.UNKNOWN_TOPIC_ID.code)
_SESSION_ERRORS = (
    Errors.FETCH_SESSION_ID_NOT_FOUND.code,
    Errors.INVALID_FETCH_SESSION_EPOCH.code,
    Errors.FETCH_SESSION_TOPIC_ID_ERROR.code,
)


Asked = tuple[int, int, bytes]  # fetch offset, leader epoch, topic id


class FetchSession:
    """The state that one broker keeps about our fetches, so that a request names only changes."""

    def __init__(self) -> None:
        self.id = 0
        self.epoch = 0
        self.asked: dict[TopicPartition, Asked] = {}
        self.names: dict[bytes, str] = {}

    def restart(self) -> None:
        """Makes the next request a full one that replaces the broker's session."""
        self.epoch = 0
        self.asked = {}

    def advance(self, session_id: int) -> None:
        """Continues the session after an answer; `session_id` is 0 when the broker keeps no session."""
        self.id = session_id
        self.epoch = 0 if session_id == 0 else (self.epoch % 0x7FFFFFFF) + 1
        if session_id == 0:
            self.asked = {}

    def changes(
        self, wanted: dict[TopicPartition, Asked]
    ) -> tuple[dict[TopicPartition, Asked], list[TopicPartition]]:
        """Returns the partitions to name and those that the broker must forget."""
        if self.epoch == 0:
            return wanted, []
        changed = {p: asked for p, asked in wanted.items() if self.asked.get(p) != asked}
        return changed, [p for p in self.asked if p not in wanted]


class Fetcher(PositionResets):
    """Owned by the consumer's thread: `start` sends requests; answers arrive during polls."""

    def __init__(
        self, client: NetworkClient, cluster: ClusterMetadata, positions: Positions, config: FetchConfig
    ):
        self.client = client
        self.troubles = client.troubles
        self.cluster = cluster
        self.positions = positions
        self._config = config
        self._sessions: dict[int, FetchSession] = {}
        self._busy: set[int] = set()
        self._news_at: dict[int, float] = {}
        self._retry_at: dict[int, float] = {}  # by broker
        self._due_at = 0.0
        self._missing_since: dict[str, float] = {}
        self._refused_in: dict[str, int] = {}
        self.group_assigns = False
        self._local: LocalFetch | None = None
        if config.local:
            from bowstring.clients.consumer.local_fetch import LocalFetch

            self._local = LocalFetch(cluster, local=config.local, read_committed=config.read_committed)
        self.only_asked = False
        """Whether no answer can have come since the last `start`."""
        self.error: ClientError | None = None
        """The error that the next poll must raise."""

    # ------------------------------------------------------------ requests

    def start(self) -> float:
        """Sends fetches to idle brokers and looks up unknown positions; returns seconds until more is due."""
        now = time.monotonic()
        self.only_asked = False
        self._due_at = now + IDLE_S
        wanted: dict[Node, dict[TopicPartition, PartitionState]] = {}
        supplied: set[int] = set()  # leaders of partitions that need no fetch now
        assigned = self.positions.items()
        room = self._room(assigned)
        unknown = False
        for partition, state in assigned:
            if state.position is None:
                unknown = unknown or state.reset_timestamp is not None
                continue
            if state.paused or state.fetch_offset >= state.end_offset:
                continue
            if state.retry_at and self._waits(state, now):
                continue
            if state.replica is None:
                node = self.cluster.leader(*partition)
            else:
                node = self._read_replica(partition, state, state.replica, now)
            if state.chunks and state.buffered_bytes >= room:
                supplied.add(node.id if node is not None else -1)
            elif node is None:
                self._await_leader(partition, state, now)
            elif self._local is not None and self._filled(self._local, node, partition, state):
                continue
            elif node.id not in self._busy:
                wanted.setdefault(node, {})[partition] = state
        if unknown:
            self._look_up_positions()
        sent = {node.id for node, states in wanted.items() if self._fetch(node, states, node.id in supplied)}
        self.only_asked = bool(sent) and self._busy == sent
        if self.error is not None:
            return 0.0
        return max(0.0, self._due_at - now)

    def _waits(self, state: PartitionState, now: float) -> bool:
        """Whether the partition had an error a moment ago, and metadata has brought nothing since."""
        if now >= state.retry_at or self.cluster.version != state.retry_version:
            state.retry_at = 0.0
            return False
        self._due_at = min(self._due_at, state.retry_at)
        return True

    def _read_replica(
        self, partition: TopicPartition, state: PartitionState, replica: ReadReplica, now: float
    ) -> Node | None:
        """Returns the replica that the leader named (KIP-392), or the leader when it must choose again."""
        if now < replica.until and replica.leader_epoch == self.cluster.leader_epoch(*partition):
            node = self.cluster.replica(*partition, replica.broker_id)
            if node is not None and not self.client.backing_off(node):
                return node
            self.cluster.invalidate()
        state.replica = None
        return self.cluster.leader(*partition)

    def _await_leader(self, partition: TopicPartition, state: PartitionState, now: float) -> None:
        self.cluster.want(partition.topic)
        self.cluster.invalidate()
        info = self.cluster.topics.get(partition.topic)
        if info is not None and partition.partition not in info.partitions:
            code = Errors.UNKNOWN_TOPIC_OR_PARTITION.code
            there = f"the topic has partitions 0 to {len(info.partitions) - 1}"
            error = broker_error(code, f"reading {partition}", there)
            self.troubles.note(f"partition {partition}", error, grace_s=GRACE_S)
        self._note_missing(partition, now)
        self._pause(state)

    def _room(self, assigned: list[tuple[TopicPartition, PartitionState]]) -> int:
        """Returns how many waiting bytes a partition may have and still be fetched; one without waiting
        records always is.
        """
        waiting = sum([state.buffered_bytes for _, state in assigned])
        return self._config.partition_max_bytes if waiting < self._config.prefetch_max_bytes else 0

    def _note_missing(self, partition: TopicPartition, now: float) -> None:
        """Reports a topic that is missing for some time as an error if the caller named it; a group drops
        it.
        """
        code = self.cluster.topic_errors.get(partition.topic)
        if code not in _TOPIC_ERRORS:
            self._missing_since.pop(partition.topic, None)
            self.refuse_topic(partition.topic)
        elif now - self._missing_since.setdefault(partition.topic, now) >= MISSING_TOPIC_S:
            self._missing_since[partition.topic] = now
            if not self.group_assigns:
                self.error = broker_error(code, f"reading {partition}")

    def refuse_topic(self, topic: str) -> None:
        """Raises an error that waiting cannot solve, such as TOPIC_AUTHORIZATION_FAILED, once each time
        brokers report it.
        """
        code = self.cluster.topic_errors.get(topic, 0)
        if code and not Errors.of(code).retriable and self._refused_in.get(topic) != self.cluster.version:
            self._refused_in[topic] = self.cluster.version
            self.error = broker_error(code, topic_name(topic))

    def _filled(
        self, local: LocalFetch, node: Node, partition: TopicPartition, state: PartitionState
    ) -> bool:
        """Returns whether the broker's files provide the records, so that no fetch is needed."""
        local.keep(set(self.positions))
        try:
            return local.fill(node, partition, state)
        except ClientError as error:
            self.error = error
            return True  # local reads are required, so do not fetch over TCP

    def close(self) -> None:
        """Closes mapped files."""
        if self._local is not None:
            self._local.close()

    def _pause(self, *states: PartitionState) -> None:
        """Requests nothing of these partitions for a moment, unless metadata arrives first."""
        retry_at = time.monotonic() + RETRY_PAUSE_S
        self._due_at = min(self._due_at, retry_at)
        for state in states:
            state.retry_at = retry_at
            state.retry_version = self.cluster.version

    def _pause_broker(self, node: Node) -> None:
        self._retry_at[node.id] = time.monotonic() + RETRY_PAUSE_S

    def _fetch(self, node: Node, states: dict[TopicPartition, PartitionState], supplied: bool) -> bool:
        """Returns whether a request was sent.

        A request that waits at the broker for new records must not delay partitions of the same broker that
        soon need more. With `supplied` ones it therefore requests only existing records, and polls for new
        ones rarely.
        """
        now = time.monotonic()
        if self.client.backing_off(node):
            self.cluster.invalidate()
            self._pause(*states.values())
            return False
        if (retry_at := self._retry_at.get(node.id, 0.0)) > now:
            self._due_at = min(self._due_at, retry_at)
            return False
        if supplied and all(self._is_at_end(state) for state in states.values()):
            if now < self._news_at.get(node.id, 0.0):
                return False
            self._news_at[node.id] = now + NEWS_PAUSE_S
        max_wait_ms = 0 if supplied else self._config.max_wait_ms
        wanted: dict[TopicPartition, Asked] = {}
        for partition, state in states.items():
            state.leader_epoch = self.cluster.leader_epoch(*partition)
            topic_id = self.cluster.topic_id(partition.topic)
            wanted[partition] = (state.fetch_offset, state.leader_epoch, topic_id)
        epochs = self.positions.epochs(wanted)
        session = self._sessions.setdefault(node.id, FetchSession())
        named, forgotten = session.changes(wanted)
        session.asked = wanted
        self._busy.add(node.id)
        self.client.send(
            node,
            FetchRequest,
            lambda _: self._request(session, named, forgotten, max_wait_ms),
            timeout_s=self.client.request_timeout_s + max_wait_ms / 1000,
            callback=lambda pending: self._answered(pending, session, wanted, epochs),
        )
        return True

    def _is_at_end(self, state: PartitionState) -> bool:
        end = state.last_stable_offset if self._config.read_committed else state.high_watermark
        return 0 <= end <= state.fetch_offset

    def _request(
        self,
        session: FetchSession,
        named: dict[TopicPartition, Asked],
        forgotten: list[TopicPartition],
        max_wait_ms: int,
    ) -> FetchFrame:
        asked: dict[str, AskedTopic] = {}
        for (topic, partition), (offset, epoch, topic_id) in named.items():
            if topic not in asked:
                session.names[topic_id] = topic
                asked[topic] = AskedTopic(topic_id, [])
            asked[topic].partitions.append((partition, offset, epoch))
        gone: dict[str, ForgottenTopic] = {}
        for topic, partition in forgotten:
            if topic not in gone:
                gone[topic] = ForgottenTopic(self.cluster.topic_id(topic), [])
            gone[topic].partitions.append(partition)
        return FetchFrame(self._config, session.id, session.epoch, asked, gone, max_wait_ms=max_wait_ms)

    # ------------------------------------------------------------ answers

    def _answered(
        self, pending: Pending, session: FetchSession, wanted: dict[TopicPartition, Asked], epochs: Epochs
    ) -> None:
        self._busy.discard(pending.node.id)
        if pending.error is not None:
            session.restart()
            if not pending.error.retriable:
                self.error = pending.error
            self.cluster.invalidate()
            self._pause(*self._to_leaders(wanted))
            return
        response: FetchAnswer = pending.response
        if response.error_code:
            session.id = 0 if response.error_code in _SESSION_ERRORS else session.id
            session.restart()
            if response.error_code not in _SESSION_ERRORS:
                error = broker_error(response.error_code, f"fetching from {pending.node}")
                self.troubles.note(f"fetches from {pending.node}", error, grace_s=GRACE_S)
                self.cluster.invalidate()
                self._pause_broker(pending.node)
                self._to_leaders(wanted)
            return
        if self.troubles.active:
            self.troubles.over(f"fetches from {pending.node}")
        session.advance(response.session_id)
        endpoints = {each[0]: Node(*each) for each in response.endpoints}
        for part in response.partitions:
            name = part.topic or session.names.get(part.topic_id)
            if name is not None:
                partition = TopicPartition(name, part.partition)
                if part.leader is not None:
                    self.cluster.learn_leader(partition, *part.leader, endpoints)
                if partition in wanted:
                    self._take(partition, part, wanted[partition], epochs[partition])

    def _to_leaders(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        """Lets the next fetches of these partitions go to their leaders; returns the states."""
        states = [state for each in partitions if (state := self.positions.get(each)) is not None]
        for state in states:
            state.replica = None
        return states

    def _take(self, partition: TopicPartition, part: FetchedPartition, asked: Asked, epoch: int) -> None:
        offset = asked[0]
        state = self.positions.get(partition)
        if state is None or state.epoch != epoch or state.fetch_offset != offset:
            return  # revoked, reassigned or sought while the request was in flight
        if part.error_code:
            self._refused(partition, state, part.error_code, asked)
            return
        if self.troubles.active:
            self.troubles.over(f"partition {partition}")
        state.high_watermark = part.high_watermark
        state.last_stable_offset = part.last_stable_offset
        state.log_start_offset = part.log_start_offset
        if part.preferred_replica >= 0:
            until = time.monotonic() + self._config.replica_max_age_s
            state.replica = ReadReplica(part.preferred_replica, state.leader_epoch, until)
        if not part.records:
            return
        data = part.records
        try:  # CRCs are checked during decoding, so that the data is brought into the cache once
            size, next_offset, record_count = record_batches.scan(data, partition, offset)
        except CorruptBatchError as error:
            self.error = error
            return
        aborted = None
        if self._config.read_committed and part.aborted:
            aborted = Aborted(part.aborted)
        state.buffer(Chunk(data[:size], offset, next_offset, record_count, aborted))

    def _refused(self, partition: TopicPartition, state: PartitionState, code: int, asked: Asked) -> None:
        offset, leader_epoch, _ = asked
        if code == Errors.OFFSET_OUT_OF_RANGE.code:
            self._reset_out_of_range(partition, state, offset)
            return
        error = broker_error(code, f"reading {partition} at offset {offset}")
        if self._is_about_leader(code):
            self._later(partition, state, error)
            if self.cluster.leader_epoch(*partition) > leader_epoch:
                state.retry_at = 0.0  # the answer, or metadata, has named another leader
        elif error.retriable:
            self.troubles.note(f"partition {partition}", error, grace_s=GRACE_S)
            self._pause(state)
        else:
            self.error = error

    def _is_about_leader(self, code: int) -> bool:
        """Whether an error means that another broker leads the partition, or that its leader is not ready."""
        return code in _LEADER_ERRORS

    def _later(self, partition: TopicPartition, state: PartitionState, error: ClientError) -> None:
        """Handles a partition whose leader has changed or is about to change."""
        self.troubles.note(f"partition {partition}", error, grace_s=GRACE_S)
        self.cluster.invalidate()
        state.replica = None
        self._pause(state)
