"""Fetches ahead of the reader: one request in flight per broker, in incremental sessions (KIP-227)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bowstring._native.aborted import Aborted
from bowstring._native.fetch_answer import FetchAnswer, FetchedPartition
from bowstring.clients import batches
from bowstring.clients.cluster import Cluster
from bowstring.clients.connection import Pending
from bowstring.clients.errors import ClientError, CorruptBatchError, NoOffsetError, broker_error
from bowstring.clients.fetch_config import FetchConfig
from bowstring.clients.fetch_frames import AskedTopic, FetchFrame, ForgottenTopic
from bowstring.clients.network import NetworkClient
from bowstring.clients.offsets import list_offsets_request
from bowstring.clients.positions import RESET_TIMESTAMPS, Chunk, PartitionState, Positions
from bowstring.clients.records import Node, TopicPartition
from bowstring.engine.errors import Errors
from bowstring.engine.protocol.messages.fetch import FetchRequest
from bowstring.engine.protocol.messages.list_offsets import ListOffsetsRequest

if TYPE_CHECKING:
    from bowstring.clients.local_fetch import LocalFetch

RETRY_PAUSE_S = 0.1
MISSING_TOPIC_S = 5.0

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
    """What one broker remembers of our fetches, so that a request names only what changed."""

    def __init__(self) -> None:
        self.id = 0
        self.epoch = 0
        self.asked: dict[TopicPartition, Asked] = {}
        self.names: dict[bytes, str] = {}

    def restart(self) -> None:
        """The next request is a full one that replaces whatever the broker remembers."""
        self.epoch = 0
        self.asked = {}

    def advance(self, session_id: int) -> None:
        """After an answer: the broker gave `session_id`, 0 when it keeps no session."""
        self.id = session_id
        self.epoch = 0 if session_id == 0 else (self.epoch % 0x7FFFFFFF) + 1
        if session_id == 0:
            self.asked = {}

    def changes(
        self, wanted: dict[TopicPartition, Asked]
    ) -> tuple[dict[TopicPartition, Asked], list[TopicPartition]]:
        """What has to be named, and what the broker shall forget."""
        if self.epoch == 0:
            return wanted, []
        changed = {p: asked for p, asked in wanted.items() if self.asked.get(p) != asked}
        return changed, [p for p in self.asked if p not in wanted]


class Fetcher:
    """Owned by the consumer's thread: `start` sends what can be asked for, answers arrive during polls."""

    def __init__(self, client: NetworkClient, cluster: Cluster, positions: Positions, config: FetchConfig):
        self.client = client
        self.cluster = cluster
        self.positions = positions
        self._config = config
        self._sessions: dict[int, FetchSession] = {}
        self._busy: set[int] = set()
        self._looking_up: set[TopicPartition] = set()
        self._retry_at = 0.0
        self._missing_since: dict[str, float] = {}
        self.group_assigns = False
        self._local: LocalFetch | None = None
        if config.local:
            from bowstring.clients.local_fetch import LocalFetch

            self._local = LocalFetch(cluster, local=config.local, read_committed=config.read_committed)
        self.only_asked = False
        """Whether no answer can have come since the last `start`."""
        self.error: ClientError | None = None
        """What the next poll has to raise."""

    # ------------------------------------------------------------ asking

    def start(self) -> float:
        """Sends fetches to idle brokers and looks up unknown positions; seconds until more is due."""
        now = time.monotonic()
        self.only_asked = False
        if now < self._retry_at:
            return self._retry_at - now
        wanted: dict[Node, dict[TopicPartition, Asked]] = {}
        assigned = self.positions.items()
        room = self._room(assigned)
        unknown = False
        for partition, state in assigned:
            if state.position is None:
                unknown = unknown or state.reset_timestamp is not None
                continue
            if state.paused or (state.chunks and state.buffered_bytes >= room):
                continue
            if state.fetch_offset >= state.end_offset:
                continue
            node = self.cluster.leader(*partition)
            if node is None:
                self.cluster.want(partition.topic)
                self.cluster.invalidate()
                self._note_missing(partition, now)
                self._pause()
                continue
            if self._local is not None and self._filled(self._local, node, partition, state):
                continue
            if node.id in self._busy:
                continue
            state.leader_epoch = self.cluster.leader_epoch(*partition)
            asked = (state.fetch_offset, state.leader_epoch, self.cluster.topic_id(partition.topic))
            wanted.setdefault(node, {})[partition] = asked
        if unknown:
            self._look_up_positions()
        for node, partitions in wanted.items():
            self._fetch(node, partitions)
        self.only_asked = bool(wanted) and self._busy == {node.id for node in wanted}
        if self.error is not None:
            return 0.0
        return 3600.0 if now >= self._retry_at else self._retry_at - now

    def _room(self, assigned: list[tuple[TopicPartition, PartitionState]]) -> int:
        """What a partition may have waiting and still be asked for more; one that has nothing always is."""
        waiting = sum([state.buffered_bytes for _, state in assigned])
        return self._config.partition_max_bytes if waiting < self._config.prefetch_max_bytes else 0

    def _note_missing(self, partition: TopicPartition, now: float) -> None:
        """A topic that is unknown for a while is an error if the caller named it; a group lets go of it."""
        code = self.cluster.topic_errors.get(partition.topic)
        if code not in _TOPIC_ERRORS:
            self._missing_since.pop(partition.topic, None)
        elif now - self._missing_since.setdefault(partition.topic, now) >= MISSING_TOPIC_S:
            self._missing_since[partition.topic] = now
            if not self.group_assigns:
                self.error = broker_error(code, f"reading {partition}")

    def _filled(
        self, local: LocalFetch, node: Node, partition: TopicPartition, state: PartitionState
    ) -> bool:
        """Whether the records came out of the broker's files, so that it need not be asked for them."""
        local.keep(set(self.positions))
        try:
            return local.fill(node, partition, state)
        except ClientError as error:
            self.error = error
            return True  # nor is it asked for them when they must come out of files

    def close(self) -> None:
        """Lets go of mapped files."""
        if self._local is not None:
            self._local.close()

    def _pause(self) -> None:
        self._retry_at = time.monotonic() + RETRY_PAUSE_S

    def _fetch(self, node: Node, wanted: dict[TopicPartition, Asked]) -> None:
        if self.client.backing_off(node):
            self.cluster.invalidate()
            self._pause()
            return
        session = self._sessions.setdefault(node.id, FetchSession())
        named, forgotten = session.changes(wanted)
        session.asked = dict(wanted)
        self._busy.add(node.id)
        self.client.send(
            node,
            FetchRequest,
            lambda _: self._request(session, named, forgotten),
            timeout_s=self.client.request_timeout_s + self._config.max_wait_ms / 1000,
            callback=lambda pending: self._answered(pending, session, wanted),
        )

    def _request(
        self, session: FetchSession, named: dict[TopicPartition, Asked], forgotten: list[TopicPartition]
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
        return FetchFrame(self._config, session.id, session.epoch, asked, gone)

    # ------------------------------------------------------------ answers

    def _answered(self, pending: Pending, session: FetchSession, wanted: dict[TopicPartition, Asked]) -> None:
        self._busy.discard(pending.node.id)
        if pending.error is not None:
            session.restart()
            if not pending.error.retriable:
                self.error = pending.error
            self.cluster.invalidate()
            self._pause()
            return
        response: FetchAnswer = pending.response
        if response.error_code:
            session.id = 0 if response.error_code in _SESSION_ERRORS else session.id
            session.restart()
            if response.error_code not in _SESSION_ERRORS:
                self.cluster.invalidate()
                self._pause()
            return
        session.advance(response.session_id)
        for part in response.partitions:
            name = part.topic or session.names.get(part.topic_id)
            if name is not None:
                partition = TopicPartition(name, part.partition)
                self._take(partition, part, wanted.get(partition) or session.asked.get(partition))

    def _take(self, partition: TopicPartition, part: FetchedPartition, asked: Asked | None) -> None:
        state = self.positions.get(partition)
        if state is None or asked is None or state.position is None or state.fetch_offset != asked[0]:
            return  # revoked or sought elsewhere while the request was on its way
        if part.error_code:
            self._refused(partition, part.error_code, asked[0])
            return
        state.high_watermark = part.high_watermark
        state.last_stable_offset = part.last_stable_offset
        state.log_start_offset = part.log_start_offset
        if not part.records:
            return
        data = part.records
        try:  # CRCs are computed when the batches are decoded, which brings them into the cache once
            size, next_offset, record_count = batches.scan(data, False, partition)
        except CorruptBatchError as error:
            self.error = error
            return
        aborted = None
        if self._config.read_committed and part.aborted:
            aborted = Aborted(part.aborted)
        state.buffer(Chunk(data[:size], asked[0], next_offset, record_count, aborted))

    def _refused(self, partition: TopicPartition, code: int, offset: int) -> None:
        state = self.positions[partition]
        if code == Errors.OFFSET_OUT_OF_RANGE.code:
            if self._config.reset_policy == "none":
                self.error = broker_error(
                    code,
                    f"reading {partition}",
                    f"offset {offset} is not in the log; seek() or set auto_offset_reset",
                )
            elif not state.has_buffered:
                state.reset(RESET_TIMESTAMPS[self._config.reset_policy])
            return
        if code in _LEADER_ERRORS:
            self.cluster.invalidate()
            self._pause()
            return
        error = broker_error(code, f"reading {partition} at offset {offset}")
        if error.retriable:
            self._pause()
        else:
            self.error = error

    # ------------------------------------------------------------ positions

    def without_position(self) -> list[TopicPartition]:
        """Partitions nobody has said where to begin in."""
        return [
            partition
            for partition, state in self.positions.items()
            if state.position is None and state.reset_timestamp is None
        ]

    def reset_by_policy(self, partition: TopicPartition) -> None:
        """A partition without a committed offset starts where auto_offset_reset says."""
        timestamp = RESET_TIMESTAMPS.get(self._config.reset_policy)
        if timestamp is None:
            self.error = NoOffsetError(partition)
        else:
            self.positions[partition].reset(timestamp)

    def _look_up_positions(self) -> None:
        by_leader: dict[Node, dict[TopicPartition, int]] = {}
        for partition, state in self.positions.items():
            if state.reset_timestamp is None or partition in self._looking_up:
                continue
            node = self.cluster.leader(*partition)
            if node is None or self.client.backing_off(node):
                self.cluster.want(partition.topic)
                self.cluster.invalidate()
                self._pause()
                continue
            by_leader.setdefault(node, {})[partition] = state.reset_timestamp
        for node, timestamps in by_leader.items():
            self._looking_up |= timestamps.keys()
            self.client.send(
                node,
                ListOffsetsRequest,
                list_offsets_request(timestamps, self._config.read_committed),
                callback=lambda pending, asked=timestamps: self._looked_up(pending, asked),  # type: ignore[misc]
            )

    def _looked_up(self, pending: Pending, asked: dict[TopicPartition, int]) -> None:
        self._looking_up -= asked.keys()
        if pending.error is not None:
            if not pending.error.retriable:
                self.error = pending.error
            self.cluster.invalidate()
            self._pause()
            return
        for topic in pending.response.topics:
            for part in topic.partitions:
                partition = TopicPartition(topic.name, part.partition_index)
                state = self.positions.get(partition)
                if part.error_code in _LEADER_ERRORS:
                    self.cluster.invalidate()
                    self._pause()
                elif part.error_code:
                    self.error = broker_error(part.error_code, f"looking up offsets of {partition}")
                elif state is not None and state.reset_timestamp == asked.get(partition):
                    state.seek(part.offset)
