"""Consumer: records out of partitions, alone or sharing them with the other members of a group."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from bowstring.clients import batches
from bowstring.clients.arrow_reading import ArrowReading
from bowstring.clients.assignors import ASSIGNORS
from bowstring.clients.client_configs import CONSUMER
from bowstring.clients.cluster import Cluster, parse_bootstrap
from bowstring.clients.config_names import configurable
from bowstring.clients.consumer_familiar import FamiliarNames
from bowstring.clients.consumer_offsets import ConsumerOffsets
from bowstring.clients.consumer_positions import ConsumerPositions
from bowstring.clients.errors import ClientTimeoutError, ConfigError, CorruptBatchError
from bowstring.clients.fetch_config import FetchConfig
from bowstring.clients.fetcher import Fetcher
from bowstring.clients.heartbeat import GroupConfig, Heartbeat
from bowstring.clients.local_discovery import Local, check_local
from bowstring.clients.membership import Listener, Membership
from bowstring.clients.network import NetworkClient
from bowstring.clients.ownership import OneThread
from bowstring.clients.positions import RESET_TIMESTAMPS, PartitionState, Positions
from bowstring.clients.records import (
    Record,
    TopicPartition,
)

if TYPE_CHECKING:
    from bowstring.clients.arrow_typed import ValueFormat

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


class Consumer(ConsumerOffsets, FamiliarNames, ConsumerPositions, ArrowReading):
    """Reads records; used by one thread at a time.

    Either `subscribe` (a group shares the topics' partitions and remembers how far it read) or `assign`
    (the caller says which partitions). Fetches run ahead of `poll` by up to two answers per partition.

    Args:
        bootstrap_servers: `host:port,host:port`, or a list of them; or a mapping with other clients' names.
        group_id: needed to subscribe and to commit.
        group_instance_id: makes this a static member (KIP-345).
        client_id: name that brokers log.
        auto_offset_reset: where to begin without a committed offset: "latest", "earliest", or "none", which
            makes `poll` raise.
        enable_auto_commit: commits what was handed out every auto_commit_interval_ms and on close.
        assignors: names out of "range" and "cooperative-sticky", in order of preference.
        max_poll_interval_ms: longest time between polls before the group gives the partitions to others.
        max_poll_records: most records of one `poll`.
        prefetch_max_bytes: fetched bytes that may wait for polls; beyond it only partitions that have nothing
            waiting are asked for more. What is being received comes on top, at most fetch_max_bytes a broker.
        isolation_level: "read_uncommitted", or "read_committed" to skip aborted transactions (KIP-98).
        local: True reads what is there already out of the broker's mapped files, if it is Bowstring, on this
            machine, and lets this user; "auto" does so if it can be, and else reads over TCP as False does
            (docs/local-reads.md). New records are waited for over TCP.
        value, key: formats (bowstring.Json, Avro, Protobuf) that turn these columns of `poll_arrow` and
            `to_reader` into structs, each followed by a column `value_error` or `key_error`.
        default_timeout_ms: how long calls without a timeout of their own wait for brokers.

    Raises:
        ConfigError: an argument makes no sense.

    Example:
        >>> with Consumer("localhost:9092", group_id="readers", auto_offset_reset="earliest") as consumer:
        ...     consumer.subscribe(["greetings"])
        ...     for record in consumer.poll(timeout=5):
        ...         print(record.key, record.value)
        b'me' b'hello'
    """

    @configurable(CONSUMER)
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
        assignors: tuple[str, ...] = ("range", "cooperative-sticky"),
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        max_poll_interval_ms: int = 300_000,
        max_poll_records: int = 500,
        fetch_min_bytes: int = 1,
        fetch_max_bytes: int = 52_428_800,
        max_partition_fetch_bytes: int = 1_048_576,
        prefetch_max_bytes: int = 67_108_864,
        fetch_max_wait_ms: int = 500,
        isolation_level: str = "read_uncommitted",
        check_crcs: bool = True,
        local: Local = False,
        value: ValueFormat | None = None,
        key: ValueFormat | None = None,
        request_timeout_ms: int = 30_000,
        default_timeout_ms: int = 60_000,
        metadata_max_age_ms: int = 300_000,
        allow_auto_create: bool = True,
    ):
        _check(auto_offset_reset, assignors)
        check_local(local)
        self._read_committed = is_read_committed(isolation_level)
        self._check_crcs = check_crcs
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
        sizes = (fetch_min_bytes, fetch_max_bytes, max_partition_fetch_bytes, prefetch_max_bytes)
        committed = self._read_committed
        config = FetchConfig(*sizes, fetch_max_wait_ms, committed, check_crcs, auto_offset_reset, local)
        self._fetcher = Fetcher(self._client, self._cluster, self._positions, config)
        self._owner = OneThread("Consumer")
        self._group: Membership | None = None
        self._woken = False
        self._prepare_arrow({"key": key, "value": value})
        self._finalizer: weakref.finalize[..., Consumer] = weakref.finalize(self, self._client.close)
        if group_id is not None:
            chosen = [ASSIGNORS[name] for name in assignors]
            times = (session_timeout_ms / 1000, heartbeat_interval_ms / 1000, max_poll_interval_ms / 1000)
            auto_commit_s = auto_commit_interval_ms / 1000 if enable_auto_commit else None
            self._join_group(GroupConfig(group_id, group_instance_id, chosen, *times), auto_commit_s)

    def _join_group(self, config: GroupConfig, auto_commit_s: float | None) -> None:
        heartbeat = Heartbeat(self._client.client_id, config, self._client.wakeup)
        self._group = Membership(
            self._fetcher, self._owner, config, heartbeat=heartbeat, auto_commit_s=auto_commit_s
        )
        self._finalizer.detach()
        self._finalizer = weakref.finalize(self, _abandon, heartbeat, self._client)

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
            if self._group is None:
                raise ConfigError("subscribe() needs a group_id; without one use assign()")
            if (topics is None) == (pattern is None):
                raise ConfigError("subscribe() takes either topics or a pattern")
            names = [topics] if isinstance(topics, str) else list(topics or ())
            self._group.subscribe(names, pattern, (on_assigned, on_revoked, on_lost))
            self._fetcher.group_assigns = True

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Reads exactly these partitions; the positions of those already read are kept."""
        with self._owner:
            if self._group is not None and self._group.subscribed:
                raise ConfigError("assign() after subscribe(): unsubscribe() first")
            wanted = [TopicPartition(*partition) for partition in partitions]
            self._positions.replace(wanted)
            for partition in wanted:
                self._cluster.want(partition.topic)

    def unsubscribe(self) -> None:
        """Reads nothing any more and leaves the group."""
        with self._owner:
            if self._group is not None:
                self._group.unsubscribe()
                self._fetcher.group_assigns = False
            self._positions.replace([])

    def subscription(self) -> set[str]:
        """The topics subscribed to."""
        return set(self._group.topics) if self._group is not None else set()

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """Every partition of a topic.

        Raises:
            UnknownTopicError, NoBrokerError: not answered within `timeout` seconds.
        """
        with self._owner:
            info = self._cluster.await_topic(topic, self._seconds(timeout))
            return [TopicPartition(topic, number) for number in sorted(info.partitions)]

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

    def await_records(self, timeout: float = 1.0) -> bool:
        """Whether a poll now would give records; waits for them up to `timeout` seconds. Positions stay.

        Raises what `poll` raises.
        """
        with self._owner:
            self._until(time.monotonic() + timeout, self._has_buffered)
            return self._has_buffered()

    def _has_buffered(self) -> bool:
        return any(not state.paused and state.has_buffered for _, state in self._positions.items())

    def wakeup(self) -> None:
        """A poll that waits in another thread, or else the next one, returns at once with what it has."""
        self._woken = True
        self._client.wakeup()

    def __iter__(self) -> Iterator[Record]:
        """Records without end, one at a time; ends when the consumer is closed in between.

        The position is behind each record as it is handed out: a loop that is left loses none, and a commit
        in its middle stores no more than it has had.
        """
        while not self._owner.closed:
            self.await_records()
            for partition, state in self._positions.items():
                yield from self._one_by_one(partition, state)

    def _one_by_one(self, partition: TopicPartition, state: PartitionState) -> Iterator[Record]:
        """Some of what is buffered. Whatever else is called between two records may change all of it."""
        for _ in range(self._max_poll_records):
            if self._owner.closed or state.paused or self._positions.get(partition) is not state:
                return
            while state.decoded_at >= len(state.decoded):
                if not state.has_buffered:
                    return
                self._decode(partition, state)
            record = state.decoded[state.decoded_at]
            state.decoded_at += 1
            state.position = record.offset + 1
            if state.decoded_at >= len(state.decoded):
                state.position = state.decoded_next_offset
                state.decoded = []
                state.decoded_at = 0
            yield record

    def _until(self, deadline: float, take: Callable[[], bool], *, wakes: bool = True) -> None:
        """Runs the clockwork until `take` finds something, time is over or wakeup() is called."""
        while True:
            wait_s = self._step()
            if take():
                break
            left = deadline - time.monotonic()
            if left <= 0 or (wakes and self._woken):
                self._woken = self._woken and not wakes
                return
            self._client.poll(min(wait_s, left))
            if self._group is None:  # then nothing was revoked meanwhile: what has come is taken at once
                self._raise_errors()
                if take():
                    break
        # The next fetches travel while the caller works on these records.
        self._fetcher.start()
        if self._group is not None or not self._fetcher.only_asked:
            self._client.poll(0)

    def _step(self) -> float:
        """One turn of everything that is not reading; seconds until the next is due."""
        self._raise_errors()
        wait_s = self._cluster.maintain()
        if self._group is not None:
            wait_s = min(wait_s, self._group.step())
        else:
            for partition in self._fetcher.without_position():
                self._fetcher.reset_by_policy(partition)
        self._raise_errors()
        return min(wait_s, self._fetcher.start())

    def _raise_errors(self) -> None:
        error, self._fetcher.error = self._fetcher.error, None
        if error is None and self._group is not None:
            error = self._group.take_error()
        if error is not None:
            raise error

    def _take(self, limit: int, records: list[Record]) -> bool:
        for partition, state in self._positions.items():
            if state.paused:
                continue
            while len(records) < limit and state.has_buffered:
                if state.decoded_at >= len(state.decoded):
                    try:
                        self._decode(partition, state)
                    except CorruptBatchError:
                        if records:
                            return True  # what is good first; the next poll comes to the bad one again
                        raise
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
        chunk = batches.take_good(state, self._check_crcs, partition)
        try:
            state.decoded = batches.decode(chunk, partition)
        except CorruptBatchError:
            state.put_back(chunk)
            raise
        state.decoded_at = 0
        state.decoded_next_offset = chunk.next_offset
        if not state.decoded:
            state.position = chunk.next_offset

    def _take_raw(self, taken: list[RawBatches]) -> bool:
        for partition, state in self._positions.items():
            if state.paused:
                continue
            state.forget_decoded()
            while state.chunks:
                try:
                    chunk = batches.take_good(state, self._check_crcs, partition)
                except CorruptBatchError:
                    if taken:
                        return True  # what is good first; the next call comes to the bad one again
                    raise
                taken.append(
                    RawBatches(*partition, chunk.offset, chunk.next_offset, chunk.record_count, chunk.data)
                )
                state.position = chunk.next_offset
        return bool(taken)

    # ------------------------------------------------------------ positions

    def position(self, partition: TopicPartition | tuple[str, int], timeout: float | None = None) -> int:
        """Offset of the next record to be read; looks it up when it is not known yet.

        Raises:
            ClientTimeoutError: not known after `timeout` seconds.
        """
        with self._owner:
            state = self._state(partition)
            timeout_s = self._seconds(timeout)
            self._until(time.monotonic() + timeout_s, lambda: state.position is not None, wakes=False)
            if state.position is None:
                raise ClientTimeoutError(f"the position in {partition} was not found within {timeout_s:g} s")
            return state.position

    def _seconds(self, timeout: float | None) -> float:
        return self._timeout_s if timeout is None else timeout

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """Commits (with enable_auto_commit), leaves the group and closes the connections."""
        if self._owner.closed:
            return
        with self._owner:
            try:
                if self._group is not None:
                    self._group.close()
            finally:
                self._owner.closed = True
                self._fetcher.close()
                self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def is_read_committed(isolation_level: str) -> bool:
    """Whether records of aborted and unfinished transactions are left out (KIP-98).

    Raises:
        ConfigError: there is no such level.
    """
    if isolation_level not in ISOLATION_LEVELS:
        raise ConfigError(f"isolation_level is {isolation_level!r}, it must be one of {ISOLATION_LEVELS}")
    return isolation_level == "read_committed"


def _check(auto_offset_reset: str, assignors: Iterable[str]) -> None:
    """Refuses words that mean nothing here."""
    if auto_offset_reset not in (*RESET_TIMESTAMPS, "none"):
        raise ConfigError(
            f'auto_offset_reset is {auto_offset_reset!r}, it must be "earliest", "latest" or "none"'
        )
    unknown = [name for name in assignors if name not in ASSIGNORS]
    if unknown:
        raise ConfigError(f"assignor {unknown[0]!r} is unknown, there are {', '.join(ASSIGNORS)}")


def _abandon(heartbeat: Heartbeat, client: NetworkClient) -> None:
    """Ends the threads and connections, also of a consumer that was forgotten."""
    heartbeat.close()
    client.close()
