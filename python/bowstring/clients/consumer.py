"""Consumer: records out of partitions, alone or sharing them with the other members of a group."""

from __future__ import annotations

import re
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import NamedTuple, Self

from bowstring.clients import batches
from bowstring.clients.assignors import ASSIGNORS
from bowstring.clients.cluster import Cluster, parse_bootstrap
from bowstring.clients.connection import Pending
from bowstring.clients.errors import ClientError, ClientTimeoutError, ConfigError, NoBrokerError
from bowstring.clients.fetcher import FetchConfig, Fetcher
from bowstring.clients.group import GroupConfig, GroupEvents, GroupMember
from bowstring.clients.heartbeat import Heartbeat
from bowstring.clients.network import NetworkClient
from bowstring.clients.offset_queries import committed_offsets, list_offsets
from bowstring.clients.offsets import fetch_request, fetched_offsets
from bowstring.clients.ownership import OneThread
from bowstring.clients.positions import RESET_TIMESTAMPS, PartitionState, Positions
from bowstring.clients.records import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Record,
    TopicPartition,
)
from bowstring.engine.protocol.messages.offset_fetch import OffsetFetchRequest

Listener = Callable[[list[TopicPartition]], object]

ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
CLOSE_COMMIT_TIMEOUT_S = 5.0


class RawBatches(NamedTuple):
    """Record batches as fetched: not decompressed, not decoded.

    The first batch may hold records below `offset`, and `record_count` counts them.
    """

    topic: str
    partition: int
    offset: int
    next_offset: int
    record_count: int
    data: memoryview


class Consumer:
    """Reads records; used by one thread at a time.

    Either `subscribe` (a group shares the topics' partitions and remembers how far it read) or `assign`
    (the caller says which partitions). Fetches run ahead of `poll` by up to two answers per partition.

    Args:
        bootstrap_servers: `host:port,host:port`, or a list of them.
        group_id: needed to subscribe and to commit.
        group_instance_id: makes this a static member (KIP-345).
        client_id: name that brokers log.
        auto_offset_reset: where to begin without a committed offset: "latest", "earliest", or "none", which
            makes `poll` raise.
        enable_auto_commit: commits what was handed out every auto_commit_interval_ms and on close.
        assignors: names out of "range" and "cooperative-sticky", in order of preference.
        max_poll_interval_ms: longest time between polls before the group gives the partitions to others.
        max_poll_records: most records of one `poll`.
        isolation_level: "read_uncommitted", or "read_committed" to skip aborted transactions (KIP-98).
        default_timeout_ms: how long calls without a timeout of their own wait for brokers.

    Raises:
        ConfigError: an argument makes no sense.

    Example:
        >>> with Consumer("localhost:9092", group_id="readers", auto_offset_reset="earliest") as consumer:
        ...     consumer.subscribe(["greetings"])
        ...     for record in consumer.poll(timeout=5):
        ...         print(record.key, record.value)
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "localhost:9092",
        *,
        group_id: str | None = None,
        group_instance_id: str | None = None,
        client_id: str = "bowstring-consumer",
        auto_offset_reset: str = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        assignors: Iterable[str] = ("range", "cooperative-sticky"),
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        max_poll_interval_ms: int = 300_000,
        max_poll_records: int = 500,
        fetch_min_bytes: int = 1,
        fetch_max_bytes: int = 52_428_800,
        max_partition_fetch_bytes: int = 1_048_576,
        fetch_max_wait_ms: int = 500,
        isolation_level: str = "read_uncommitted",
        check_crcs: bool = True,
        request_timeout_ms: int = 30_000,
        default_timeout_ms: int = 60_000,
        metadata_max_age_ms: int = 300_000,
        allow_auto_create: bool = True,
    ):
        if auto_offset_reset not in (*RESET_TIMESTAMPS, "none"):
            raise ConfigError(
                f'auto_offset_reset is {auto_offset_reset!r}, it must be "earliest", "latest" or "none"'
            )
        if isolation_level not in ISOLATION_LEVELS:
            raise ConfigError(f"isolation_level is {isolation_level!r}, it must be one of {ISOLATION_LEVELS}")
        unknown = [name for name in assignors if name not in ASSIGNORS]
        if unknown:
            raise ConfigError(f"assignor {unknown[0]!r} is unknown, there are {', '.join(ASSIGNORS)}")
        self._read_committed = isolation_level == "read_committed"
        self._max_poll_records = max_poll_records
        self._timeout_s = default_timeout_ms / 1000
        self._client = NetworkClient(client_id, request_timeout_ms=request_timeout_ms)
        self._cluster = Cluster(
            self._client,
            parse_bootstrap(bootstrap_servers),
            metadata_max_age_ms=metadata_max_age_ms,
            allow_auto_create=allow_auto_create,
        )
        self._positions = Positions()
        fetch = FetchConfig(
            min_bytes=fetch_min_bytes,
            max_bytes=fetch_max_bytes,
            partition_max_bytes=max_partition_fetch_bytes,
            max_wait_ms=fetch_max_wait_ms,
            read_committed=self._read_committed,
            check_crcs=check_crcs,
            reset_policy=auto_offset_reset,
            request_timeout_s=request_timeout_ms / 1000,
        )
        self._fetcher = Fetcher(self._client, self._cluster, self._positions, fetch)
        self._owner = OneThread("Consumer")
        self._topics: tuple[str, ...] = ()
        self._pattern: re.Pattern[str] | None = None
        self._listeners: tuple[Listener | None, Listener | None, Listener | None] = (None, None, None)
        self._subscribed = False
        self._loading: set[TopicPartition] = set()
        self._group_id = group_id
        self._auto_commit_s = auto_commit_interval_ms / 1000 if enable_auto_commit and group_id else None
        self._commit_at = 0.0
        self._commit_error: ClientError | None = None
        self._heartbeat = Heartbeat(
            client_id,
            group_id or "",
            interval_s=heartbeat_interval_ms / 1000,
            session_timeout_s=session_timeout_ms / 1000,
            max_poll_interval_s=max_poll_interval_ms / 1000,
            on_news=self._client.wakeup,
        )
        self._member: GroupMember | None = None
        if group_id is not None:
            config = GroupConfig(
                group_id,
                group_instance_id,
                [ASSIGNORS[name] for name in assignors],
                session_timeout_ms / 1000,
                heartbeat_interval_ms / 1000,
                max_poll_interval_ms / 1000,
            )
            events = GroupEvents(
                lambda: self._topics,
                lambda: tuple(self._positions),
                self._revoke,
                self._assign_group,
                self._lose,
            )
            self._member = GroupMember(self._client, self._cluster, config, events, self._heartbeat)
        self._finalizer = weakref.finalize(self, _abandon, self._heartbeat, self._client)

    # ------------------------------------------------------------ what to read

    def subscribe(
        self,
        topics: Iterable[str] | str | None = None,
        *,
        pattern: str | None = None,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Shares the partitions of `topics`, or of those whose whole name matches `pattern`, with the group.

        The listeners are called within `poll` with the partitions gained, given up (commit is still
        possible) and lost (it is not).

        Raises:
            ConfigError: there is no group_id, or neither or both of topics and pattern are given.
        """
        with self._owner:
            if self._member is None:
                raise ConfigError("subscribe() needs a group_id; without one use assign()")
            if (topics is None) == (pattern is None):
                raise ConfigError("subscribe() takes either topics or a pattern")
            names = [topics] if isinstance(topics, str) else list(topics or ())
            if not self._subscribed:
                self._positions.replace([])
            self._subscribed = True
            self._listeners = (on_assigned, on_revoked, on_lost)
            self._pattern = re.compile(pattern) if pattern is not None else None
            self._cluster.want_all = pattern is not None
            self._cluster.stale = self._cluster.stale or pattern is not None
            self._topics = tuple(sorted(set(names)))
            for name in self._topics:
                self._cluster.want(name)

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Reads exactly these partitions; the positions of those already read are kept."""
        with self._owner:
            if self._subscribed:
                raise ConfigError("assign() after subscribe(): unsubscribe() first")
            wanted = [TopicPartition(*partition) for partition in partitions]
            self._positions.replace(wanted)
            for partition in wanted:
                self._cluster.want(partition.topic)

    def unsubscribe(self) -> None:
        """Reads nothing any more and leaves the group."""
        with self._owner:
            if self._subscribed and self._member is not None:
                self._commit_before_revoke()
                self._member.leave(for_good=False)
            self._subscribed = False
            self._topics = ()
            self._pattern = None
            self._cluster.want_all = False
            self._positions.replace([])

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read now."""
        return set(self._positions)

    def subscription(self) -> set[str]:
        """The topics subscribed to."""
        return set(self._topics)

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """Every partition of a topic.

        Raises:
            UnknownTopicError, NoBrokerError: not answered within `timeout` seconds.
        """
        with self._owner:
            info = self._cluster.await_topic(topic, self._seconds(timeout))
            return [TopicPartition(topic, number) for number in sorted(info.partitions)]

    def pause(self, *partitions: TopicPartition) -> None:
        """`poll` gives nothing from these until `resume`."""
        for partition in partitions:
            self._state(partition).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Ends `pause`."""
        for partition in partitions:
            self._state(partition).paused = False

    def paused(self) -> set[TopicPartition]:
        """Those that are paused."""
        return {partition for partition, state in self._positions.items() if state.paused}

    # ------------------------------------------------------------ reading

    def poll(self, max_records: int | None = None, timeout: float = 1.0) -> list[Record]:
        """Records that have arrived, at most `max_records`; waits up to `timeout` seconds for the first.

        Raises:
            OffsetOutOfRangeError, NoOffsetError: with auto_offset_reset="none".
            CorruptBatchError: a batch fails its CRC or cannot be decoded.
            ClientError: what will not get better by polling again.
        """
        limit = max_records or self._max_poll_records
        with self._owner:
            records: list[Record] = []
            self._until(time.monotonic() + timeout, lambda: self._take(limit, records))
            return records

    def poll_batches(self, timeout: float = 1.0) -> list[RawBatches]:
        """What has arrived, undecoded: the fast way to copy, count or forward records.

        Positions move past what is returned. Raises what `poll` raises.
        """
        with self._owner:
            taken: list[RawBatches] = []
            self._until(time.monotonic() + timeout, lambda: self._take_raw(taken))
            return taken

    def __iter__(self) -> Iterator[Record]:
        """Records without end; ends when the consumer is closed in between."""
        while not self._owner.closed:
            yield from self.poll()

    def _until(self, deadline: float, take: Callable[[], bool]) -> None:
        """Runs the clockwork until `take` finds something or time is over."""
        while True:
            wait_s = self._step()
            if take():
                # The next fetches travel while the caller works on these records.
                self._fetcher.start()
                self._client.poll(0)
                return
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self._client.poll(min(wait_s, left))

    def _step(self) -> float:
        """One turn of everything that is not reading; seconds until the next is due."""
        self._heartbeat.last_poll = time.monotonic()
        wait_s = self._cluster.maintain()
        if self._pattern is not None:
            pattern = self._pattern
            self._topics = tuple(sorted(t for t in self._cluster.topics if pattern.fullmatch(t)))
        self._raise_errors()
        if self._member is not None:
            wait_s = min(wait_s, self._member.tick(join=self._subscribed))
            self._raise_errors()
        self._load_positions()
        wait_s = min(wait_s, self._fetcher.start(), self._auto_commit())
        self._raise_errors()
        return wait_s

    def _raise_errors(self) -> None:
        error = self._fetcher.error or (self._member.error if self._member else None) or self._commit_error
        if error is not None:
            self._fetcher.error = self._commit_error = None
            if self._member is not None:
                self._member.error = None
            raise error

    def _take(self, limit: int, records: list[Record]) -> bool:
        for partition, state in self._positions.items():
            if state.paused:
                continue
            while len(records) < limit and state.has_buffered:
                if state.decoded_at >= len(state.decoded):
                    self._decode(partition, state)
                    continue
                end = state.decoded_at + limit - len(records)
                part = state.decoded[state.decoded_at : end]
                records += part
                state.decoded_at += len(part)
                state.position = part[-1].offset + 1
                if state.decoded_at >= len(state.decoded):
                    state.position = state.decoded_next_offset
                    state.decoded = []
                    state.decoded_at = 0
            if len(records) >= limit:
                self._positions.rotate(partition)
                break
        return bool(records)

    def _decode(self, partition: TopicPartition, state: PartitionState) -> None:
        chunk = state.take_chunk()
        state.decoded = batches.decode(chunk, partition, self._read_committed)
        state.decoded_at = 0
        state.decoded_next_offset = chunk.next_offset
        if not state.decoded:
            state.position = chunk.next_offset

    def _take_raw(self, taken: list[RawBatches]) -> bool:
        for partition, state in self._positions.items():
            if state.paused:
                continue
            while state.chunks:
                chunk = state.take_chunk()
                taken.append(
                    RawBatches(*partition, chunk.offset, chunk.next_offset, chunk.record_count, chunk.data)
                )
                state.position = chunk.next_offset
        return bool(taken)

    # ------------------------------------------------------------ positions

    def seek(self, partition: TopicPartition | tuple[str, int], offset: int) -> None:
        """The next record read is the first at or after `offset`."""
        if offset < 0:
            raise ConfigError(
                f"offset {offset} is negative; seek_to_beginning() and seek_to_end() find the ends"
            )
        self._state(partition).seek(offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Goes to the first record of these partitions, or of all assigned."""
        for partition in partitions or tuple(self._positions):
            self._state(partition).reset(EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Goes behind the last record of these partitions, or of all assigned."""
        for partition in partitions or tuple(self._positions):
            self._state(partition).reset(LATEST_TIMESTAMP)

    def position(self, partition: TopicPartition | tuple[str, int], timeout: float | None = None) -> int:
        """Offset of the next record to be read; looks it up when it is not known yet.

        Raises:
            ClientTimeoutError: not known after `timeout` seconds.
        """
        with self._owner:
            state = self._state(partition)
            timeout_s = self._seconds(timeout)
            self._until(time.monotonic() + timeout_s, lambda: state.position is not None)
            if state.position is None:
                raise ClientTimeoutError(f"the position in {partition} was not found within {timeout_s:g} s")
            return state.position

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """First record at or after each timestamp (ms since the epoch); None where there is none."""
        with self._owner:
            return list_offsets(self._cluster, timestamps, self._read_committed, self._seconds(timeout))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """First offset of each partition."""
        return self._ends(partitions, EARLIEST_TIMESTAMP, timeout)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Offset behind the last record of each partition (of what is committed, with read_committed)."""
        return self._ends(partitions, LATEST_TIMESTAMP, timeout)

    def _ends(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        with self._owner:
            asked = dict.fromkeys(partitions, timestamp)
            found = list_offsets(self._cluster, asked, self._read_committed, self._seconds(timeout))
            return {partition: answer.offset for partition, answer in found.items() if answer is not None}

    def lag(self, partition: TopicPartition) -> int | None:
        """Records between the position and the end as last told by the broker; None while unknown."""
        state = self._state(partition)
        end = state.last_stable_offset if self._read_committed else state.high_watermark
        return max(0, end - state.position) if state.position is not None and end >= 0 else None

    def _state(self, partition: TopicPartition | tuple[str, int]) -> PartitionState:
        state = self._positions.get(TopicPartition(*partition))
        if state is None:
            raise ConfigError(f"{TopicPartition(*partition)} is not assigned to this consumer")
        return state

    def _seconds(self, timeout: float | None) -> float:
        return self._timeout_s if timeout is None else timeout

    def _load_positions(self) -> None:
        """Finds where to begin in partitions that have no position yet."""
        unknown = [
            partition
            for partition, state in self._positions.items()
            if state.position is None and state.reset_timestamp is None and partition not in self._loading
        ]
        if not unknown:
            return
        if self._member is None:
            for partition in unknown:
                self._fetcher.reset_by_policy(partition)
        elif self._member.coordinator is not None:
            self._loading.update(unknown)
            self._client.send(
                self._member.coordinator,
                OffsetFetchRequest,
                fetch_request(self._group_id or "", unknown, require_stable=True),
                callback=lambda pending: self._loaded(pending, unknown),
            )

    def _loaded(self, pending: Pending, asked: list[TopicPartition]) -> None:
        self._loading.difference_update(asked)
        try:
            committed = fetched_offsets(self._group_id or "", pending.result())
        except ClientError as error:
            if not error.retriable:
                self._fetcher.error = error
            elif self._member is not None:
                self._member.coordinator_lost()
            return
        for partition in asked:
            state = self._positions.get(partition)
            if state is None or state.position is not None or state.reset_timestamp is not None:
                continue
            if partition in committed:
                state.seek(committed[partition].offset)
            else:
                self._fetcher.reset_by_policy(partition)

    # ------------------------------------------------------------ committing

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        *,
        asynchronous: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Stores how far the group has read: `offsets`, or the positions of all partitions.

        With `asynchronous` it returns at once, and what goes wrong is raised by a later `poll`.

        Raises:
            CommitFailedError: the group gave the partitions to another member meanwhile.
            NoBrokerError, BrokerError: not stored within `timeout` seconds.
        """
        with self._owner:
            given = self._positions.consumed() if offsets is None else _with_metadata(offsets)
            if asynchronous:
                self._need_group().commit(given, self._note_commit_error)
            else:
                self._commit(given, self._seconds(timeout))

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has stored for `partitions`; None where it has nothing.

        Raises:
            NoBrokerError, BrokerError: not answered within `timeout` seconds.
        """
        with self._owner:
            self._need_group()
            asked = list(partitions)
            found = committed_offsets(self._cluster, self._group_id or "", asked, self._seconds(timeout))
            return {partition: found.get(partition) for partition in asked}

    def _need_group(self) -> GroupMember:
        if self._member is None:
            raise ConfigError("committing needs a group_id")
        return self._member

    def _note_commit_error(self, error: ClientError | None) -> None:
        if error is not None and not error.retriable:
            self._commit_error = error

    def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_s: float) -> None:
        member = self._need_group()
        deadline = time.monotonic() + timeout_s
        while offsets:
            outcome: list[ClientError | None] = []
            while member.coordinator is None and time.monotonic() < deadline:
                wait_s = min(member.tick(join=False), self._cluster.maintain())
                self._client.poll(min(wait_s, deadline - time.monotonic()))
            if member.coordinator is None:
                raise self._cluster.unreachable(timeout_s)
            member.commit(offsets, outcome.append)
            while not outcome:
                self._client.poll(max(0.0, deadline - time.monotonic()))
                if not outcome and time.monotonic() >= deadline:
                    raise ClientTimeoutError(f"offsets were not committed within {timeout_s:g} s")
            error = outcome[0]
            if error is None:
                return
            if not error.retriable or time.monotonic() >= deadline:
                raise error
            self._client.poll(min(0.05, max(0.0, deadline - time.monotonic())))

    def _auto_commit(self) -> float:
        """Commits when it is time; seconds until it is."""
        if self._auto_commit_s is None or self._member is None or not len(self._positions):
            return 3600.0
        now = time.monotonic()
        if not self._commit_at:
            self._commit_at = now + self._auto_commit_s
        if now >= self._commit_at and self._member.coordinator is not None:
            self._commit_at = now + self._auto_commit_s
            offsets = self._positions.consumed()
            if offsets:
                self._member.commit(offsets, lambda _: None)  # the next one repeats what this one missed
        return max(0.0, self._commit_at - now)

    def _commit_before_revoke(self) -> None:
        offsets = self._positions.consumed()
        if self._auto_commit_s is None or not offsets or self._member is None or self._member.generation < 0:
            return
        try:
            self._commit(offsets, CLOSE_COMMIT_TIMEOUT_S)
        except (NoBrokerError, ClientTimeoutError):
            return  # the partitions move all the same; their new owner reads from the last commit
        except ClientError as error:
            self._note_commit_error(error)

    # ------------------------------------------------------------ the group's events

    def _revoke(self, partitions: list[TopicPartition]) -> None:
        self._commit_before_revoke()
        on_revoked = self._listeners[1]
        if on_revoked is not None:
            with self._owner.lent():
                on_revoked(partitions)
        gone = set(partitions)
        self._positions.replace([p for p in self._positions if p not in gone])

    def _assign_group(self, partitions: list[TopicPartition]) -> None:
        gained = [p for p in partitions if p not in self._positions]
        self._positions.replace(partitions)
        on_assigned = self._listeners[0]
        if on_assigned is not None:
            with self._owner.lent():
                on_assigned(gained)

    def _lose(self) -> None:
        lost = sorted(self._positions)
        self._positions.replace([])
        _, on_revoked, on_lost = self._listeners
        listener = on_lost or on_revoked
        if lost and listener is not None:
            with self._owner.lent():
                listener(lost)

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """Commits (with enable_auto_commit), leaves the group and closes the connections."""
        if self._finalizer.detach() is None:
            return
        with self._owner:
            try:
                if self._subscribed or self._auto_commit_s is not None:
                    self._commit_on_close()
                if self._member is not None:
                    self._member.leave()
            finally:
                self._owner.closed = True
                self._heartbeat.close()
                self._client.close()
        if self._commit_error is not None:
            raise self._commit_error

    def _commit_on_close(self) -> None:
        if self._subscribed:
            self._commit_before_revoke()
            partitions = list(self._positions)
            on_revoked = self._listeners[1]
            if partitions and on_revoked is not None:
                with self._owner.lent():
                    on_revoked(partitions)
        elif self._member is not None and self._positions.consumed():
            try:
                self._commit(self._positions.consumed(), CLOSE_COMMIT_TIMEOUT_S)
            except ClientError as error:
                self._note_commit_error(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _abandon(heartbeat: Heartbeat, client: NetworkClient) -> None:
    """A consumer that was forgotten: its threads and connections end, the group notices by its timeout."""
    heartbeat.close()
    client.close()


def _with_metadata(
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        TopicPartition(*partition): offset
        if isinstance(offset, OffsetAndMetadata)
        else OffsetAndMetadata(offset)
        for partition, offset in offsets.items()
    }
