"""Implements Consumer: reads records of partitions, alone or as a member of a group."""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from bowstring._native.record.compression import DECOMPRESSED_MAX_BYTES
from bowstring.clients.arguments import checked_methods
from bowstring.clients.audit import Audit
from bowstring.clients.choices import Assignor, AutoOffsetReset, GroupProtocol, IsolationLevel
from bowstring.clients.config.aliases import ConsumerAliases
from bowstring.clients.config.client import CONSUMER
from bowstring.clients.config.config_table import configurable
from bowstring.clients.config.security import client_security
from bowstring.clients.consumer.arrow_reading import ArrowReading
from bowstring.clients.consumer.committed_offsets import CommittedOffsets
from bowstring.clients.consumer.consumer_positions import ConsumerPositions
from bowstring.clients.consumer.coordinator import ConsumerCoordinator, Listener
from bowstring.clients.consumer.counted_reading import CountedReading
from bowstring.clients.consumer.familiar_names import FamiliarNames
from bowstring.clients.consumer.fetch_config import FetchConfig
from bowstring.clients.consumer.fetcher import Fetcher
from bowstring.clients.consumer.log_offsets import LogOffsets
from bowstring.clients.consumer.partition_state import Positions
from bowstring.clients.consumer.record_reading import RecordReading
from bowstring.clients.consumer.transactional_reading import TransactionalReading
from bowstring.clients.consumer.undecodable import Undecodables
from bowstring.clients.descriptions import description
from bowstring.clients.errors import ClientError, ClientTimeoutError, ConfigError
from bowstring.clients.group.heartbeat import GroupConfig, group_config
from bowstring.clients.group.heartbeat_threads import HeartbeatThreads
from bowstring.clients.local.discovery import Local
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.metadata import Finding
from bowstring.clients.net.owned_client import OwnedClient
from bowstring.clients.records import SubscriptionPattern, TopicPartition
from bowstring.clients.single_thread import SingleThread
from bowstring.clients.timeouts import seconds
from bowstring.clients.troubles import OnError
from bowstring.clients.undecodable_policy import OnUndecodable

if TYPE_CHECKING:
    from bowstring.clients.arrow.typed_values import ValueFormat
    from bowstring.clients.producer.count_reporter import CountReporter


_log = logging.getLogger("bowstring.consumer")


@checked_methods()
class Consumer(
    RecordReading,
    LogOffsets,
    CommittedOffsets,
    FamiliarNames,
    ConsumerPositions,
    ArrowReading,
    TransactionalReading,
    CountedReading,
    OwnedClient,
):
    """Reads records. Used by one thread at a time.

    Use either `subscribe` (a group shares the topics' partitions and stores its progress) or `assign` (the
    caller chooses partitions). The consumer fetches ahead of `poll` by up to two answers per partition.

    Args:
        bootstrap_servers: `host:port,host:port`, or a list of them; or a mapping with other clients' names.
        group_id: required to subscribe and to commit.
        group_instance_id: makes this a static member (KIP-345).
        client_id: name that brokers log.
        auto_offset_reset: where to start without a committed offset: "latest", "earliest", or "none", which
            makes `poll` raise.
        enable_auto_commit: commits returned records every auto_commit_interval_ms and on close.
        auto_commit_interval_ms: milliseconds between automatic commits.
        group_protocol: "consumer" (KIP-848: the coordinator assigns, and partitions that stay are read
            without a pause), "classic", or "auto": "consumer" where the broker has it, unless one of the next
            three arguments is given, or members of a classic group are at work.
        assignors: of the classic protocol: names out of "range" and "cooperative-sticky", in order of
            preference; None for both.
        session_timeout_ms: of the classic protocol: time without a heartbeat after which the group removes
            the member; None for 45,000. Otherwise the group's config consumer.session.timeout.ms counts.
        heartbeat_interval_ms: of the classic protocol: milliseconds between heartbeats to the group
            coordinator; None for 3,000. Otherwise consumer.heartbeat.interval.ms counts.
        group_remote_assignor: of the protocol "consumer": the coordinator's assignor, "uniform" or "range";
            None for its first.
        max_poll_interval_ms: longest time between polls before the group reassigns the partitions.
        max_poll_records: most records of one `poll`.
        fetch_min_bytes: bytes that a broker waits for before it answers a fetch.
        fetch_max_bytes: most bytes of one fetch.
        max_partition_fetch_bytes: most bytes of one partition in a fetch; a larger batch is still returned.
        prefetch_max_bytes: limit on fetched bytes that wait for polls. Beyond it, only partitions without
            waiting records are fetched. Answers in transit are extra, at most fetch_max_bytes per broker.
        fetch_max_wait_ms: longest time that a broker waits for fetch_min_bytes.
        isolation_level: "read_uncommitted", or "read_committed" to skip aborted transactions (KIP-98).
        check_crcs: checks the CRC-32C of every batch.
        max_decompressed_batch_bytes: most bytes that one compressed batch may become; a larger one raises
            CorruptBatchError, so that a small batch cannot exhaust the memory.
        client_rack: where this consumer is. Brokers may then send it to a replica in the same rack
            (KIP-392), where it reads for metadata_max_age_ms at a time.
        local: True reads existing records from the broker's mapped files. The broker must be Bowstring, on
            this machine, and grant access to this user. "auto" does so if possible and otherwise reads over
            TCP, like False (docs/guide/local-reads.md). New records always arrive over TCP.
        value, key: formats (bowstring.Json, Avro, Protobuf, Text) that make Python objects of values and keys
            in `poll` and iteration (instances, if the schema is a class), and that turn these columns of
            `poll_arrow` and `to_reader` into typed ones, each followed by a column `value_error` or
            `key_error`. "json" is JSON without a schema, for `poll` only; "text" is bowstring.Text().
        on_undecodable: what `poll` and iteration do with a record whose key or value does not decode: "raise"
            UndecodableRecordError, "skip" it (the log names one a minute, `undecodable_counts` has them all),
            or a `bowstring.DeadLetter(topic, producer)`, whose topic has acknowledged it before the position
            moves behind it.
        request_timeout_ms: time for the answer to a request; then the connection is closed.
        default_timeout_ms: how long calls without their own timeout wait for brokers.
        metadata_max_age_ms: age at which the metadata of topics is refreshed.
        bootstrap_resolve_timeout_ms: how long the names of bootstrap_servers may stay unresolved from the
            first use on; then every call raises BootstrapResolutionError. 0 looks them up at once. None, the
            default, looks them up with every connection, for as long as each call may take (KIP-909).
        metadata_cluster_check_enable: brokers since Kafka 4.4 refuse a connection that was meant for another
            broker or cluster, and the client returns to the bootstrap servers (KIP-1242).
        security: settings of TLS and SASL by Kafka's, librdkafka's or kafka-python's names, such as
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", …}; each may also be
            given as a keyword (security_protocol="SSL"). None: plain text.
        allow_auto_create: lets brokers create the topics that are read, if their configs allow it.
        audit: counts returned records by topic and window and reports the counts: a bowstring.Audit, or the
            name of a tier.
        on_error: called during `poll` with each problem that the consumer logs and retries, such as a broker
            that is down. An exception that it raises is raised by `poll`.

    Raises:
        ConfigError: an argument is invalid.

    Examples:
        >>> with Consumer("localhost:9092", group_id="readers", auto_offset_reset="earliest") as consumer:
        ...     consumer.subscribe(["greetings"])
        ...     for record in consumer.poll(timeout=5):
        ...         print(record.key, record.value)
        b'me' b'hello'
    """

    _group: ConsumerCoordinator | None = None
    _finalizer: weakref.finalize[..., Consumer]

    @configurable(CONSUMER)
    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "localhost:9092",
        *,
        group_id: str | None = None,
        group_instance_id: str | None = None,
        client_id: str = "bowstring-consumer",
        auto_offset_reset: AutoOffsetReset = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        group_protocol: GroupProtocol = "auto",
        assignors: tuple[Assignor, ...] | None = None,
        session_timeout_ms: int | None = None,
        heartbeat_interval_ms: int | None = None,
        group_remote_assignor: str | None = None,
        max_poll_interval_ms: int = 300_000,
        max_poll_records: int = 500,
        fetch_min_bytes: int = 1,
        fetch_max_bytes: int = 52_428_800,
        max_partition_fetch_bytes: int = 1_048_576,
        prefetch_max_bytes: int = 67_108_864,
        fetch_max_wait_ms: int = 500,
        isolation_level: IsolationLevel = "read_uncommitted",
        check_crcs: bool = True,
        max_decompressed_batch_bytes: int = DECOMPRESSED_MAX_BYTES,
        client_rack: str | None = None,
        local: Local = False,
        value: ValueFormat | Literal["json", "text"] | None = None,
        key: ValueFormat | Literal["json", "text"] | None = None,
        on_undecodable: OnUndecodable = "raise",
        request_timeout_ms: int = 30_000,
        default_timeout_ms: int = 60_000,
        metadata_max_age_ms: int = 300_000,
        bootstrap_resolve_timeout_ms: int | None = None,
        metadata_cluster_check_enable: bool = True,
        security: Mapping[str, Any] | None = None,
        allow_auto_create: bool = True,
        audit: Audit | Mapping[str, Any] | str | None = None,
        on_error: OnError | None = None,
        **_aliases: Unpack[ConsumerAliases],
    ):
        self._read_committed, self._check_crcs = is_read_committed(isolation_level), check_crcs
        self._max_poll_records, self._timeout_s = max_poll_records, default_timeout_ms / 1000
        self._owner, self._positions = SingleThread("Consumer"), Positions()
        self._begin(_log, client_id, request_timeout_ms, client_security(security), on_error)
        topics = (metadata_max_age_ms, allow_auto_create)
        finding = Finding(*topics, metadata_cluster_check_enable, bootstrap_resolve_timeout_ms)
        self._cluster = finding.cluster(self._client, bootstrap_servers)
        sizes = (fetch_min_bytes, fetch_max_bytes, max_partition_fetch_bytes, prefetch_max_bytes)
        how = (self._read_committed, check_crcs, auto_offset_reset, local)
        fetch = FetchConfig(*sizes, fetch_max_wait_ms, *how, client_rack or "", metadata_max_age_ms / 1000)
        self._fetcher = Fetcher(self._client, self._cluster, self._positions, fetch)
        self._prepare_values(_format(key), _format(value), on_undecodable, max_decompressed_batch_bytes)
        self._begin_counts(audit, (client_id, group_id or ""), bootstrap_servers, security)
        self._finalizer = weakref.finalize(self, _abandon, None, self._client, self._reporter)
        if group_id is not None:
            classic = (assignors, session_timeout_ms, heartbeat_interval_ms)
            group = (group_id, group_instance_id, max_poll_interval_ms, client_rack)
            config = group_config(group_protocol, group, classic, group_remote_assignor)
            self._join_group(config, auto_commit_interval_ms / 1000 if enable_auto_commit else None)

    def _prepare_values(
        self, key: ValueFormat | None, value: ValueFormat | None, on_undecodable: Any, limit: int
    ) -> None:
        self._max_decompressed_batch_bytes = limit
        self._prepare_arrow({"key": key, "value": value})
        self._undecodables = Undecodables(on_undecodable)
        self._prepare_objects(key, value)

    def _join_group(self, config: GroupConfig, auto_commit_s: float | None) -> None:
        threads = HeartbeatThreads(
            self._client.client_id,
            config,
            self._client.request_timeout_s,
            self._client.wakeup,
            self._client.security,
        )
        self._group = ConsumerCoordinator(
            self._fetcher, self._owner, config, threads=threads, auto_commit_s=auto_commit_s
        )
        self._finalizer.detach()
        self._finalizer = weakref.finalize(self, _abandon, threads, self._client, self._reporter)

    # ------------------------------------------------------------ what to read

    def subscribe(
        self,
        topics: Iterable[str] | str | None = None,
        *,
        pattern: str | SubscriptionPattern | None = None,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Subscribes to `topics`, or to those whose whole name matches `pattern`; the group shares their
        partitions.

        The listeners are called during `poll` with the partitions assigned, revoked (a commit is still
        possible) and lost (it is not).

        Args:
            topics: names of topics, or one name.
            pattern: regular expression for the whole name; also matches topics created later. The client
                resolves it; as a bowstring.SubscriptionPattern, in RE2's syntax, the coordinator does.
            on_assigned, on_revoked, on_lost: called with a list of partitions.

        Raises:
            ConfigError: there is no group_id, or neither or both of topics and pattern are given.
        """
        with self._owner:
            if self._group is None:
                raise ConfigError("subscribe() needs a group_id; without one use assign()")
            if (topics is None) == (pattern is None):
                raise ConfigError("subscribe() takes either topics or a pattern")
            names = [topics] if isinstance(topics, str) else list(topics or ())
            self._cluster.forget_missing(names)
            self._group.subscribe(names, pattern, (on_assigned, on_revoked, on_lost))
            self._fetcher.group_assigns = True

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Reads exactly these partitions; partitions that were already assigned keep their positions.

        Args:
            partitions: topics and partition numbers.
        """
        with self._owner:
            if self._group is not None and self._group.subscribed:
                raise ConfigError("assign() after subscribe(): unsubscribe() first")
            wanted = [TopicPartition(*partition) for partition in partitions]
            self._positions.replace(wanted)
            self._cluster.forget_missing({partition.topic for partition in wanted})
            for partition in wanted:
                self._cluster.want(partition.topic)

    def unsubscribe(self) -> None:
        """Ends reading and leaves the group."""
        with self._owner:
            if self._group is not None:
                self._group.unsubscribe()
                self._fetcher.group_assigns = False
            self._positions.replace([])
            self._cluster.forget_missing(())

    def undecodable_counts(self) -> dict[str, int]:
        """Records that did not decode and were passed: "skipped" and "dead_lettered"."""
        passed = self._undecodables
        return {"skipped": passed.skipped, "dead_lettered": passed.dead_lettered}

    def subscription(self) -> set[str]:
        """The subscribed topics."""
        return set(self._group.topics) if self._group is not None else set()

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """Returns every partition of a topic.

        Args:
            topic: name of the topic.
            timeout: seconds to wait for brokers; None for default_timeout_ms.

        Raises:
            UnknownTopicError: the topic does not exist; brokers have said so for five seconds (they may be
                about to create it), or until the timeout.
            NoBrokerError: not answered within `timeout` seconds.
        """
        with self._owner:
            info = self._cluster.await_topic(topic, self._seconds(timeout))
            return [TopicPartition(topic, number) for number in sorted(info.partitions)]

    def _until(self, deadline: float, take: Callable[[], bool], *, wakes: bool = True) -> None:
        """Runs steps until `take` finds something, time is over or wakeup() is called."""
        over = False
        while True:
            wait_s = self._step()
            if take():
                break
            if over or (wakes and self._woken):
                self._woken = self._woken and not wakes
                return
            left = max(0.0, deadline - time.monotonic())
            over = left == 0.0  # records that have already arrived still count: even poll(0) returns them
            self._client.poll(min(wait_s, left))
            self.troubles.deliver()
            # without a group nothing can be revoked meanwhile: take arrived records at once
            if self._group is None:
                self._raise_errors()
                if take():
                    break
        # Send the next fetches now, while the caller processes these records.
        self._fetcher.start()
        if self._group is not None or not self._fetcher.only_asked:
            self._client.poll(0)

    def _begin_poll(self) -> None:
        subscribed = self._group is not None and self._group.subscribed
        if not subscribed and not len(self._positions):
            raise ConfigError("there is nothing to read: subscribe() to topics or assign() partitions first")
        self._count_dropped()  # what an interrupted poll took, and did not return
        self._positions.begin_poll()

    def _step(self) -> float:
        """Runs all periodic work except reading; returns seconds until the next step is due."""
        self._raise_errors()
        wait_s = self._cluster.maintain()
        self._cluster.check()
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

    # ------------------------------------------------------------ positions

    def position(self, partition: TopicPartition | tuple[str, int], timeout: float | None = None) -> int:
        """Returns the offset of the next record to read; looks it up if it is unknown.

        Args:
            partition: an assigned partition.
            timeout: seconds to wait for brokers; None for default_timeout_ms.

        Raises:
            ClientTimeoutError: still unknown after `timeout` seconds.
        """
        with self._owner:
            state = self._state(partition)
            timeout_s = self._seconds(timeout)
            self._until(time.monotonic() + timeout_s, lambda: state.position is not None, wakes=False)
            if state.position is None:
                raise ClientTimeoutError(f"the position in {partition} was not found within {timeout_s:g} s")
            return state.position

    def _seconds(self, timeout: float | None) -> float:
        return self._timeout_s if timeout is None else seconds(timeout)

    # ------------------------------------------------------------ the end

    def close(self, autocommit: bool = True) -> None:
        """Commits (with enable_auto_commit), leaves the group and closes the connections.

        A `with` block that ends by an exception commits only finished records: those of earlier polls, not of
        the last one; in a loop over the consumer, those before the present one. Explicit commits remain. The
        next owner of the partitions reads the rest again.

        Args:
            autocommit: False does not commit.
        """
        if self._owner.closed:
            return
        with self._owner:
            try:
                if self._group is not None:
                    self._group.close(autocommit=autocommit)
            finally:
                self._owner.closed = True
                self._positions.end_iteration()
                self._fetcher.close()
                self._finalizer()

    def take_back(self) -> None:
        """Moves positions back before the last returned records, which are not finished; the next poll
        returns them again.
        """
        with self._owner:
            self._positions.take_back()

    def __repr__(self) -> str:
        if "_finalizer" not in vars(self):
            return description(self, None, closed=True)
        topics = tuple(sorted(self.subscription())) or tuple(sorted({each.topic for each in self._positions}))
        group = None if self._group is None else self._group.group_id
        return description(
            self, self._cluster.bootstrap, closed=self._owner.closed, group=group, topics=topics
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        try:
            if not self._owner.closed:
                self.take_back()
            self.close()
        except ClientError as failure:  # the exception of the block takes precedence
            _log.warning("closing the consumer failed, so its last commit may be missing: %s", failure)


def _format(form: ValueFormat | str | None) -> ValueFormat | None:
    if not isinstance(form, str):
        return form
    from bowstring.clients.arrow.typed_values import named_format

    found: ValueFormat = named_format(form)
    return found


def is_read_committed(isolation_level: IsolationLevel) -> bool:
    """Returns whether records of aborted and open transactions are left out (KIP-98).

    Raises:
        ConfigError: the level is unknown.
    """
    CONSUMER.check(isolation_level=isolation_level)
    return isolation_level == "read_committed"


def _abandon(threads: HeartbeatThreads | None, client: NetworkClient, reporter: CountReporter | None) -> None:
    """Stops the threads and closes the connections, also of a consumer that was never closed."""
    if threads is not None:
        threads.close()
    client.close()
    if reporter is not None:
        reporter.close()
