"""Implements ShareConsumer: a member of a share group, which acknowledges records one by one (KIP-932)."""

from __future__ import annotations

import base64
import logging
import time
import uuid
import weakref
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from bowstring._native.record.compression import DECOMPRESSED_MAX_BYTES
from bowstring.clients.arguments import checked_methods
from bowstring.clients.choices import AcknowledgementMode, AcquireMode
from bowstring.clients.config.aliases import ShareConsumerAliases
from bowstring.clients.config.client import SHARE_CONSUMER
from bowstring.clients.config.config_table import configurable
from bowstring.clients.config.security import client_security
from bowstring.clients.descriptions import description
from bowstring.clients.errors import ClientError, ConfigError, broker_error
from bowstring.clients.group.member_thread import MemberThread
from bowstring.clients.group.membership import Phase, Place, ShareMembership
from bowstring.clients.group.topic_ids import TopicIds
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.metadata import ClusterMetadata, parse_bootstrap
from bowstring.clients.net.owned_client import OwnedClient
from bowstring.clients.records import TopicPartition
from bowstring.clients.share.acknowledging import Acknowledging
from bowstring.clients.share.fetcher import RETRY_PAUSE_S, ShareConfig, ShareFetcher
from bowstring.clients.share.held import HeldRecords
from bowstring.clients.share.reading import ShareReading
from bowstring.clients.share.records import Acknowledgement, OnAcknowledged
from bowstring.clients.single_thread import SingleThread
from bowstring.clients.timeouts import seconds
from bowstring.clients.troubles import GRACE_S, OnError
from bowstring.clients.undecodable_policy import OnUndecodable

if TYPE_CHECKING:
    from bowstring.clients.arrow.typed_values import ValueFormat

_log = logging.getLogger("bowstring.share")


@checked_methods()
class ShareConsumer(ShareReading, Acknowledging, OwnedClient):
    """Reads records of a share group (KIP-932). Any number of members share each partition. Each record goes
    to one member, and the group remembers which records are done. Used by one thread at a time.

    Args:
        bootstrap_servers: `host:port,host:port`, or a list of them; or a mapping with other clients' names.
        group_id: the share group.
        client_id: name that brokers log.
        acknowledgement_mode: "implicit": the next poll, a commit and `close` accept the records of the last
            poll. "explicit": each record is accepted, released, rejected or renewed by its own call.
        acquire_mode: "batch_optimized": polls return whole batches, also beyond max_poll_records;
            "record_limit": at most max_poll_records (KIP-1206).
        max_poll_records: records requested from a broker at once.
        max_poll_interval_ms: longest time between polls before the member leaves the group.
        fetch_min_bytes: bytes that a broker waits for before it answers a fetch.
        fetch_max_bytes: most bytes of one fetch.
        fetch_max_wait_ms: longest time that a broker waits for fetch_min_bytes.
        check_crcs: checks the CRC-32C of every batch.
        max_decompressed_batch_bytes: most bytes that one compressed batch may become; a larger one raises
            CorruptBatchError, so that a small batch cannot exhaust the memory.
        client_rack: where this consumer is.
        value, key: formats of values and keys, as of Consumer: `poll` gives objects, and `poll_arrow` typed
            columns.
        on_undecodable: what `poll` and iteration do with a record whose key or value does not decode: "raise"
            UndecodableRecordError and release it; "skip" it, which rejects it, so that the group does not
            deliver it again; or a `bowstring.DeadLetter(topic, producer)`, whose topic has acknowledged it
            before it is accepted.
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
        on_acknowledged: called during polls and commits with the `Outcome` of acknowledgements.
        on_error: called during `poll` with each problem that the consumer logs and retries. An exception that
            it raises is raised by `poll`.

    Raises:
        ConfigError: an argument is invalid.

    A new group begins at the end of a topic. Configs of the group say where it begins, how long records stay
    with a consumer and how often they are delivered: share.auto.offset.reset, share.record.lock.duration.ms,
    share.delivery.count.limit.

    Examples:
        >>> with Producer("localhost:9092") as producer:
        ...     sent = producer.send("greetings", b"hello")
        >>> with Admin("localhost:9092") as admin:
        ...     admin.alter_configs("group", "jobs", set={"share.auto.offset.reset": "earliest"})
        >>> with ShareConsumer("localhost:9092", group_id="jobs") as consumer:
        ...     consumer.subscribe("greetings")
        ...     for record in consumer.poll(timeout=10):
        ...         print(record.value, record.delivery_count)
        b'hello' 1
    """

    _target: frozenset[Place] | None = None
    _topics: tuple[str, ...] = ()
    _woken = False

    @configurable(SHARE_CONSUMER)
    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "localhost:9092",
        *,
        group_id: str,
        client_id: str = "bowstring-share-consumer",
        acknowledgement_mode: AcknowledgementMode = "implicit",
        acquire_mode: AcquireMode = "batch_optimized",
        max_poll_records: int = 500,
        max_poll_interval_ms: int = 300_000,
        fetch_min_bytes: int = 1,
        fetch_max_bytes: int = 52_428_800,
        fetch_max_wait_ms: int = 500,
        check_crcs: bool = True,
        max_decompressed_batch_bytes: int = DECOMPRESSED_MAX_BYTES,
        client_rack: str | None = None,
        value: ValueFormat | Literal["json", "text"] | None = None,
        key: ValueFormat | Literal["json", "text"] | None = None,
        on_undecodable: OnUndecodable = "raise",
        request_timeout_ms: int = 30_000,
        default_timeout_ms: int = 60_000,
        metadata_max_age_ms: int = 300_000,
        bootstrap_resolve_timeout_ms: int | None = None,
        metadata_cluster_check_enable: bool = True,
        security: Mapping[str, Any] | None = None,
        on_acknowledged: OnAcknowledged | None = None,
        on_error: OnError | None = None,
        **_aliases: Unpack[ShareConsumerAliases],
    ):
        self._explicit, self._check_crcs = acknowledgement_mode == "explicit", check_crcs
        self._max_decompressed_batch_bytes = max_decompressed_batch_bytes
        self._max_poll_records, self._timeout_s = max_poll_records, default_timeout_ms / 1000
        self._on_acknowledged = on_acknowledged
        self._prepare_values(key, value, on_undecodable)
        self._owner = SingleThread("ShareConsumer")
        self._begin(_log, client_id, request_timeout_ms, client_security(security), on_error)
        servers = parse_bootstrap(bootstrap_servers)
        self._cluster = ClusterMetadata(
            self._client,
            servers,
            metadata_max_age_ms=metadata_max_age_ms,
            allow_auto_create=False,
            check_cluster=metadata_cluster_check_enable,
            resolve_timeout_ms=bootstrap_resolve_timeout_ms,
        )
        self._held, self._group_id = HeldRecords(), group_id
        member = ShareMembership(group_id, new_member_id(), rack=client_rack)
        sizes = (fetch_min_bytes, fetch_max_bytes, fetch_max_wait_ms, max_poll_records)
        config = ShareConfig(group_id, member.member_id, *sizes, acquire_mode == "record_limit")
        self._fetcher = ShareFetcher(self._client, self._cluster, self._held, config)
        self._ids = TopicIds(self._client, self._cluster)
        self._thread = MemberThread(
            client_id,
            member,
            max_poll_interval_s=max_poll_interval_ms / 1000,
            request_timeout_s=request_timeout_ms / 1000,
            on_news=self._client.wakeup,
            security=self._client.security,
        )
        self._finalizer = weakref.finalize(self, _abandon, self._thread, self._client)

    # ------------------------------------------------------------ what to read

    def subscribe(self, topics: Iterable[str] | str) -> None:
        """Joins the group and shares the partitions of `topics`, from the next poll on.

        Args:
            topics: names of topics, or one name.
        """
        with self._owner:
            names = (topics,) if isinstance(topics, str) else tuple(sorted(set(topics)))
            if not names:
                raise ConfigError("subscribe() takes at least one topic; unsubscribe() ends reading")
            self._topics = names
            for name in names:
                self._cluster.want(name)

    def unsubscribe(self) -> None:
        """Leaves the group; records that are not acknowledged are delivered to others."""
        with self._owner:
            self._accept_implicitly()
            self._fetcher.close(self._wait)
            self._thread.leave()
            self._topics, self._target = (), None
            self._fetcher.forget()

    def subscription(self) -> set[str]:
        """The subscribed topics."""
        return set(self._topics)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that this member reads at present; others may read them, too."""
        return set(self._fetcher.assigned)

    def wakeup(self) -> None:
        """Makes a poll that waits in another thread, or otherwise the next one, return at once."""
        self._woken = True
        self._client.wakeup()

    # ------------------------------------------------------------ periodic work

    def _begin_poll(self) -> None:
        if not self._topics:
            raise ConfigError("poll() needs topics: subscribe() first")
        if not self._explicit:
            self._held.say_rest(Acknowledgement.ACCEPT)
            return
        still_open = self._held.first_open()
        if still_open is not None:
            raise ConfigError(
                f"record {still_open[1]} of {still_open[0]} is not acknowledged: accept(), release(), "
                "reject() or renew() each record before the next poll"
            )

    def _await_delivered(self, deadline: float) -> None:
        """Runs steps until records have arrived, time is over or wakeup() is called."""
        over = False
        while True:
            wait_s = self._step()
            if self._fetcher.delivered or over or self._woken:
                self._woken = False
                return
            left = max(0.0, deadline - time.monotonic())
            over = left == 0.0
            self._wait(min(wait_s, left))
            self.troubles.deliver()

    def _step(self) -> float:
        """Runs all periodic work; returns seconds until the next step is due."""
        self._thread.last_poll = time.monotonic()
        wait_s = self._cluster.maintain()
        self._cluster.check()
        self._thread.subscribe(self._cluster.nodes(), self._topics)
        wait_s = min(wait_s, self._follow_group())
        wait_s = min(wait_s, self._fetcher.start(fetch=not self._fetcher.delivered))
        self._tell_outcomes()
        error, self._fetcher.error = self._fetcher.error, None
        if error is not None:
            raise error
        return wait_s

    def _follow_group(self) -> float:
        group = f"share group {self._group_id!r}"
        refusal = self._thread.take_refusal()
        if self._thread.phase is Phase.FAILED:
            self._target = None
            self._fetcher.forget()
        if refusal is not None and refusal.code >= 0:
            raise broker_error(refusal.code, group, refusal.message)
        if refusal is not None and self._thread.error is not None:
            raise self._thread.error
        if self._thread.phase is Phase.LOST:
            self._target = None
            self._fetcher.forget()
            self._thread.release()
        if self._thread.error is not None:
            self.troubles.note(group, self._thread.error, grace_s=GRACE_S)
        elif self._thread.phase is Phase.MEMBER:
            self.troubles.over(group)
        target = self._thread.take_target()
        self._target = self._target if target is None else target
        if self._target is None:
            return self._timeout_s
        partitions, unknown = self._ids.resolve(self._target)
        self._fetcher.assign(partitions)
        if unknown:
            return RETRY_PAUSE_S
        self._target = None
        return 0.0

    def _wait(self, timeout_s: float) -> None:
        self._client.poll(timeout_s)

    def _seconds(self, timeout: float | None) -> float:
        return self._timeout_s if timeout is None else seconds(timeout)

    def give_back(self) -> None:
        """Releases the records of the last poll that are not acknowledged: the group delivers them again."""
        with self._owner:
            self._held.say_rest(Acknowledgement.RELEASE)

    # ------------------------------------------------------------ the end

    def close(self, *, accept: bool = True) -> None:
        """Sends acknowledgements, leaves the group and closes the connections. Records that are not
        acknowledged are delivered to others.

        Args:
            accept: in implicit mode, accepts the records of the last poll; False releases them. A `with`
                block that ends by an exception releases them.
        """
        if self._owner.closed:
            return
        with self._owner:
            try:
                if accept:
                    self._accept_implicitly()
                self._fetcher.close(self._wait)
                self._tell_outcomes()
                self._thread.leave()
            finally:
                self._owner.closed = True
                self._finalizer()

    def __repr__(self) -> str:
        if "_finalizer" not in vars(self):
            return description(self, None, closed=True)
        servers, closed = self._cluster.bootstrap, self._owner.closed
        return description(self, servers, closed=closed, group=self._group_id, topics=self._topics)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        try:
            self.close(accept=False)
        except ClientError as failure:  # the exception of the block takes precedence
            _log.warning("closing the share consumer failed: %s", failure)


def new_member_id() -> str:
    """Returns a random id as Kafka's clients write it: base64 for URLs, without a dash at the beginning."""
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not made.startswith("-"):
            return made


def _abandon(thread: MemberThread, client: NetworkClient) -> None:
    """Stops the thread and closes the connections, also of a consumer that was never closed."""
    thread.close()
    client.close()
