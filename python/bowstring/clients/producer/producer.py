"""Producer: records in, acknowledged offsets out."""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from bowstring._native.client.accumulator import Accumulator
from bowstring._native.client.producer_batch import Batch
from bowstring._native.client.record_sender import RecordSender
from bowstring._native.client.window_counts import time_bounds
from bowstring._native.record.encode_columns import binary_column
from bowstring._native.record.encode_columns import encode_columns as native_encode_columns
from bowstring.clients.arguments import TEXT, WHOLE, Kind, check_value, checked_methods
from bowstring.clients.audit import Audit, audit_of
from bowstring.clients.choices import Acks, Compression, Partitioner
from bowstring.clients.config.aliases import ProducerAliases
from bowstring.clients.config.config_table import INT_MAX, configurable
from bowstring.clients.config.moments import milliseconds
from bowstring.clients.config.security import client_security
from bowstring.clients.descriptions import description
from bowstring.clients.errors import (
    BootstrapResolutionError,
    BufferFullError,
    ClientError,
    ClosedError,
    ConfigError,
    ForkedError,
    ProducerFencedError,
    broker_error,
)
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.metadata import MISSING_TOPIC_GRACE_S, Finding
from bowstring.clients.producer import encoded_batches, lifetime
from bowstring.clients.producer.arrow import send_arrow
from bowstring.clients.producer.batches import BatchesFuture, ProduceBatch
from bowstring.clients.producer.config import (
    PRODUCER,
    SETTINGS,
    ProducerSettings,
    Serializer,
    preferred_rack,
    producer_settings,
)
from bowstring.clients.producer.partitioner import CustomPartitioner
from bowstring.clients.producer.sender import Sender
from bowstring.clients.producer.transactional import TransactionalSending
from bowstring.clients.producer.typed_sending import Format, TypedSending
from bowstring.clients.records import TopicPartition
from bowstring.clients.timeouts import bounded
from bowstring.clients.troubles import OnError, Troubles
from bowstring.protocol.errors import Errors

if TYPE_CHECKING:
    from bowstring.clients.producer.count_reporter import CountReporter
    from bowstring.security.client_settings import ClientSecurity

_log = logging.getLogger("bowstring.producer")

PARTITION = Kind(lambda value: WHOLE.fits(value) and value >= -1, "the number of a partition")

Column = tuple[Any, Any] | tuple[Any, Any, Any]


@checked_methods(hot=("would_block", "record_failed", "payload"))
class Producer(TypedSending, TransactionalSending, RecordSender):
    """Sends records to a cluster; any number of threads may share one.

    Records are gathered into batches by partition and sent by a thread of the producer's own, up to five
    requests in flight to each broker. With `idempotent` each record is stored once and in order, however
    often requests are repeated (KIP-98); without it a retry may duplicate and, with more than one request
    in flight, reorder.

    Settings may also be given in the words of Java's, librdkafka's and kafka-python's producers, as a mapping
    (`Producer({"bootstrap.servers": "localhost:9092", "linger.ms": 5})`) or as keywords.

    Args:
        bootstrap_servers: `host:port,host:port`, or a list of them.
        client_id: name that brokers log.
        acks: "all" (or -1), 1, or 0 for no acknowledgement.
        idempotent: default True with acks="all", else False.
        compression: "none", "gzip", "snappy", "lz4" or "zstd".
        compression_level: of the codec; None for its own default.
        linger_ms: how long a batch waits for more records; with 0 the calling thread itself sends, if it can.
        batch_size: bytes, before compression, at which a batch is sent without waiting.
        buffer_memory: bytes held at most; `send` waits when it is full, at most max_block_ms.
        max_request_size: bytes of a request at most, and so of a record.
        max_block_ms: how long `send` waits for memory and for the topic's metadata before it raises.
        delivery_timeout_ms: a record not acknowledged by then fails.
        request_timeout_ms: how long a request waits for its answer; then the connection is closed.
        retries: how often a batch is sent again; None for as often as delivery_timeout_ms allows.
        retry_backoff_ms: pause before a batch is sent again; doubles up to retry_backoff_max_ms.
        retry_backoff_max_ms: longest pause before a batch is sent again.
        max_in_flight: requests in flight per broker, at most 5.
        metadata_max_age_ms: metadata of topics is fetched again when it is older.
        bootstrap_resolve_timeout_ms: how long the names of bootstrap_servers may stay unresolved from the
            first use on; then every call raises BootstrapResolutionError. 0 looks them up at once. None, the
            default, looks them up with every connection, for as long as each call may take (KIP-909).
        metadata_cluster_check_enable: brokers since Kafka 4.4 refuse a connection that was meant for another
            broker or cluster, and the client returns to the bootstrap servers (KIP-1242).
        security: settings of TLS and SASL by Kafka's, librdkafka's or kafka-python's names, such as
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", …}; each may also be
            given as a keyword (security_protocol="SSL"). None: plain text.
        connect_timeout_ms: how long a connection may take to open, at most request_timeout_ms.
        allow_auto_create: whether sending to a missing topic creates it, if the broker allows it.
        partitioner: "default" (Java's: murmur2 of the key, else sticky), "uniform_sticky", "round_robin",
            "random"; librdkafka's "murmur2", "murmur2_random", "consistent", "consistent_random", "fnv1a",
            "fnv1a_random"; or a function (key, partitions, those with a leader) that returns a partition.
        partitioner_ignore_keys: records with a key go where those without one do.
        partitioner_rack_aware: records without a key go to partitions whose leader is in client_rack, while
            there are any (KIP-1123); of partitioners, only sticky ones do this.
        client_rack: the rack that this producer is in, as the brokers' broker.rack names it.
        key_serializer, value_serializer: functions that make bytes of what `send` is given.
        key, value: formats (bowstring.Json, Avro, Protobuf) with which `send` encodes dicts and objects, and
            `send_arrow` columns.
        transactional_id: name that identifies this producer to brokers across restarts; sends are then
            part of transactions (KIP-98). A later producer of the same name fences this one.
        transaction_timeout_ms: a transaction open for longer is aborted by its coordinator.
        audit: counts records by topic and window and reports the counts: a bowstring.Audit, or the name of a
            tier.
        on_error: called in the producer's thread with each problem that it logs and retries, such as a broker
            that is down.

    Raises:
        ConfigError: an argument is invalid.

    Examples:
        >>> with Producer("localhost:9092") as producer:
        ...     future = producer.send("greetings", b"hello", key=b"me")
        ...     print(future.result(10).offset)
        0
    """

    @configurable(PRODUCER)
    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "localhost:9092",
        *,
        client_id: str = "bowstring-producer",
        acks: Acks = "all",
        idempotent: bool | None = None,
        compression: Compression | None = "none",
        compression_level: int | None = None,
        linger_ms: float = 5,
        batch_size: int = 524_288,
        buffer_memory: int = 33_554_432,
        max_request_size: int = 1_048_576,
        max_block_ms: float = 60_000,
        request_timeout_ms: int = 30_000,
        delivery_timeout_ms: int = 120_000,
        retries: int | None = None,
        retry_backoff_ms: float = 100,
        retry_backoff_max_ms: float = 1_000,
        max_in_flight: int = 5,
        metadata_max_age_ms: int = 300_000,
        bootstrap_resolve_timeout_ms: int | None = None,
        metadata_cluster_check_enable: bool = True,
        security: Mapping[str, Any] | None = None,
        connect_timeout_ms: int = 10_000,
        allow_auto_create: bool = True,
        partitioner: Partitioner | CustomPartitioner = "default",
        partitioner_ignore_keys: bool = False,
        partitioner_rack_aware: bool = False,
        client_rack: str | None = None,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        key: Format | None = None,
        value: Format | None = None,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        audit: Audit | Mapping[str, Any] | str | None = None,
        on_error: OnError | None = None,
        **_aliases: Unpack[ProducerAliases],
    ):
        given = locals()
        rack = preferred_rack(partitioner_rack_aware, client_rack)
        config = producer_settings(**{name: given[name] for name in SETTINGS}, rack=rack)
        self._listen(on_error)
        finding = Finding(
            metadata_max_age_ms,
            allow_auto_create,
            metadata_cluster_check_enable,
            bootstrap_resolve_timeout_ms,
        )
        connected = (client_id, connect_timeout_ms, client_security(security))
        counted = audit_of(audit)
        # Before the producer itself, whose end comes first at the interpreter's exit.
        reporter = None
        if counted is not None:
            reporter = _reporter(counted, client_id, bootstrap_servers, security, transactional_id)
        self._connect(bootstrap_servers, config, connected, finding, reporter)
        self._encode_with(key_serializer, value_serializer, key, value)

    @classmethod
    def over(cls, sender: Sender) -> Self:
        """A producer over a sender that has not begun, with a client and a cluster of its own.

        For tests, and for programs that need other connections than `Producer` makes. `close` ends it.

        Args:
            sender: the sender; the producer starts it.
        """
        made = cls.__new__(cls)
        made.troubles, made.listener = sender.client.troubles, None
        made._begin(sender)
        return made

    def _connect(
        self,
        bootstrap_servers: str | Iterable[str],
        config: ProducerSettings,
        connected: tuple[str, int, ClientSecurity | None],
        finding: Finding,
        reporter: CountReporter | None,
    ) -> None:
        client_id, connect_timeout_ms, security = connected
        client = NetworkClient(
            client_id,
            connect_timeout_ms=connect_timeout_ms,
            request_timeout_ms=round(1000 * config.request_timeout_s),
            troubles=self.troubles,
            transactional=config.transactional_id is not None,
            security=security,
        )
        cluster = finding.cluster(client, bootstrap_servers)
        sender = Sender(client, cluster, config, Accumulator(TopicPartition, ProduceBatch, config))
        if reporter is not None:
            sender.reporter, sender.accumulator.counts = reporter, reporter.counts
        self._begin(sender)

    def _listen(self, on_error: OnError | None) -> None:
        self.troubles = Troubles(_log)
        self.listener = self.troubles.listen(on_error)

    def _begin(self, sender: Sender) -> None:
        self._config = sender.config
        self.accumulator = sender.accumulator
        self.loop = sender.loop
        self._sender = sender
        sender.thread.start()
        self._finalizer = lifetime.watch(self, sender)

    # ------------------------------------------------------------ sending

    def send_arrow(
        self,
        topic: str,
        data: Any,
        *,
        value: str | Format | None = None,
        key: str | Format | None = None,
        timestamp: str = "timestamp",
        partition: str = "partition",
        headers: str = "headers",
    ) -> BatchesFuture:
        """Sends the rows of a table as records, without a Python step per row; one future for all of them.

        `data` is a RecordBatch, Table or RecordBatchReader of pyarrow, a DataFrame of Polars or pandas, a
        relation of DuckDB, or anything else that has `__arrow_c_stream__` or `__arrow_c_array__`. A reader is
        read batch by batch, while buffer_memory has room. Rows of one partition keep their order. Rows that
        name no partition go where their key's hash says, those without a key to one partition after another,
        batch_size bytes each.

        Args:
            topic: name of the topic.
            data: the rows; see above.
            value, key: names of binary or string columns, of any layout, dictionaries too. Or a format, such
                as `bowstring.Json(schema)`: then the remaining columns (for a key: those of its schema) are
                encoded. By default the producer's own formats, else the columns "value" and "key".
            timestamp: name of a column of timestamps of any unit and zone, or of int64 milliseconds; null is
                now.
            partition: name of an integer column; null is as if there were none.
            headers: name of a column list<struct<key: string, value: binary>>, or map<string, binary>.

        Columns that are not there are as if they were null, but key or value has to be there. `topic`,
        `offset` and `timestamp_type`, as consumers hand them out, are left out.

        Raises:
            ConfigError: the data has other columns, or types that these cannot have (before anything is
                sent); or a row cannot be sent (too large, a partition that is not there), and how many were
                before it.
            ClientError: as `send` raises it.

        Examples:
            >>> table = pyarrow.table({"key": ["a", "b"], "value": [b"1", b"2"]})
            >>> producer.send_arrow("greetings", table).result(10)[0].offset
            0
        """
        roles = {
            "key": self._typed["key"] if key is None else key,
            "value": self._typed["value"] if value is None else value,
            "timestamp": timestamp,
            "partition": partition,
            "headers": headers,
        }
        bound = {
            role: form.for_topic(topic, role) if hasattr(form, "for_topic") else form
            for role, form in roles.items()
        }
        return send_arrow(self, self.find_topic, topic, data, bound)

    def send_columns(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None = None,
        timestamps: Sequence[int] | None = None,
    ) -> BatchesFuture:
        """Sends many records to one partition, encoded in native code without a Python step per record.

        They keep their order among themselves; batches are of `batch_size` bytes. Records that wait in
        `send`'s open batch for the partition go first.

        Args:
            topic: name of the topic.
            partition: number of the partition.
            values, keys: bytes of each record, None for null; without keys, all keys are null.
            timestamps: milliseconds since the epoch; default now for all.
        """
        times = None
        if timestamps is not None:
            times = memoryview(struct.pack(f"{len(timestamps)}q", *timestamps)).cast("q")
        key_column = None if keys is None else binary_column(list(keys))
        return self.send_arrow_columns(topic, partition, binary_column(list(values)), key_column, times)

    def send_arrow_columns(
        self,
        topic: str,
        partition: int,
        values: Column,
        keys: Column | None = None,
        timestamps: memoryview | None = None,
    ) -> BatchesFuture:
        """Sends columns as Arrow lays them out: the bytes are read off the GIL and never become objects.

        Args:
            topic: name of the topic.
            partition: number of the partition.
            values, keys: (data, offsets) or (data, offsets, validity bitmap) of binary or large_binary.
            timestamps: int64, milliseconds since the epoch; default now for all.
        """
        times: Any = time.time_ns() // 1_000_000 if timestamps is None else timestamps
        encoded = native_encode_columns(
            values,
            key=keys,
            timestamps=times,
            max_bytes=self._config.batch_bytes,
            codec=self._config.compression,
            level=self._config.compression_level,
        )
        return self._send_encoded(topic, partition, encoded_batches.with_counts(encoded), self._oldest(times))

    def _oldest(self, times: int | memoryview) -> int | None:
        """Returns a lower bound of timestamps, so that an audit need not look at each; None without one."""
        if self.accumulator.counts is None:
            return None
        bounds = (times, times) if isinstance(times, int) else time_bounds(times)
        return bounds and bounds[0]

    @property
    def batch_size(self) -> int:
        """Bytes at which a batch is sent without waiting."""
        return self._config.batch_bytes

    @property
    def buffer_memory(self) -> int:
        """Bytes of records held at most."""
        return self._config.buffer_memory

    def produce_batches(
        self, topic: str, partition: int, encoded: Iterable[tuple[bytes, int]]
    ) -> BatchesFuture:
        """Sends ready-made record batches: pairs of the bytes (magic 2, as sent) and the count of records.

        Args:
            topic: name of the topic.
            partition: number of the partition.
            encoded: the pairs, one for each batch.

        Raises:
            ConfigError: bytes are no record batch; those before it are sent.
        """
        return self._send_encoded(topic, partition, encoded, None)

    def _send_encoded(
        self, topic: str, partition: int, encoded: Iterable[tuple[bytes, int]], oldest_ms: int | None
    ) -> BatchesFuture:
        sent: list[Batch] = []
        for data, record_count in encoded:
            encoded_batches.check(data)
            batch = ProduceBatch(TopicPartition(topic, partition), self._config.delivery_timeout_s)
            batch.hold(data, record_count, oldest_ms)
            self.submit(topic, partition, batch)
            sent.append(batch)
        return BatchesFuture(sent)

    def would_block(self, topic: str, size_bytes: int = 0) -> bool:
        """Whether `send` would now wait: for the topic's metadata, or for room for a record of this size.

        Args:
            topic: name of the topic.
            size_bytes: bytes of the record.
        """
        accumulator = self.accumulator
        if accumulator.halted:
            return False
        full = accumulator.buffered_bytes + size_bytes > self._config.buffer_memory
        return (full and bool(accumulator.unfinished)) or accumulator.partition_count(topic) < 0

    def await_ready(self, topic: str, size_bytes: int = 0) -> None:
        """Waits, at most max_block_ms, until `would_block` is false. Raises like `send` meanwhile.

        Args:
            topic: name of the topic.
            size_bytes: bytes of the record.
        """
        while self.would_block(topic, size_bytes):
            self._partition_count(topic)
            self._await_room(size_bytes)
        self._check_open()

    def partitions_for(self, topic: str) -> list[int]:
        """Partition numbers of a topic; looks them up when they are not known.

        Args:
            topic: name of the topic.
        """
        return list(range(self._partition_count(topic)))

    @property
    def delivery_timeout_s(self) -> float:
        """Seconds after which a record that was not acknowledged fails."""
        return self._config.delivery_timeout_s

    def find_topic(self, topic: str) -> None:
        """Waits, at most max_block_ms, until there is current metadata of a topic. Raises like `send`.

        Args:
            topic: name of the topic.
        """
        if self.accumulator.outside:
            self._outside()
        try:
            self._partition_count(topic)
        except ClientError as error:
            self.record_failed(error)
            raise

    def _partition_count(self, topic: str) -> int:
        while (found := self.accumulator.partition_count(topic)) < 0:
            self._find_route(topic)
        return found

    def flush(self, timeout: float | None = None) -> None:
        """Sends waiting records at once, and returns when everything sent before has an outcome.

        Args:
            timeout: seconds; None or -1 waits without limit.

        Raises:
            ClientTimeoutError: not within `timeout` seconds; None or -1 waits for ever.
            ClientError: called in a callback of the producer, which it would wait for.
        """
        timeout = bounded(timeout)
        waiting = [batch for batch in list(self.accumulator.unfinished) if not batch.done]
        if not waiting:
            return
        if self._sender.in_callback():
            raise ClientError("flush() in a callback would wait for the callback: flush in another thread")
        with self.accumulator.flushing():
            BatchesFuture(waiting).await_all(timeout)

    def __repr__(self) -> str:
        if "_finalizer" not in vars(self):
            return description(self, None, closed=True)
        servers, closed = self._sender.cluster.bootstrap, self._sender.closing
        return description(self, servers, closed=closed, transactional_id=self._config.transactional_id)

    def metrics(self) -> dict[str, float]:
        """Returns counters and rates by the names of Java's producer metrics.

        Times are in milliseconds, sizes in bytes, rates per second over the last half minute.
        """
        accumulator = self.accumulator
        return {
            **self._sender.metrics.report(time.monotonic()),
            "buffer-total-bytes": self._config.buffer_memory,
            "buffer-available-bytes": max(0, self._config.buffer_memory - accumulator.buffered_bytes),
            "requests-in-flight": self._sender.requests_in_flight(),
            "waiting-threads": accumulator.waiters,
        }

    def close(self, timeout: float | None = None) -> None:
        """Sends waiting records and ends the producer's thread; after `timeout` seconds the rest fails.
        Aborts an open transaction.

        In a callback of the producer it does not wait: the thread ends after the callback, when all is sent.

        Args:
            timeout: seconds; None or -1 waits without limit.
        """
        timeout = bounded(timeout)
        self._finalizer.detach()
        lifetime.end(self._sender, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------ rare needs of `send`

    def _timestamp_ms(self, timestamp: Any) -> int:
        return milliseconds("timestamp", timestamp)

    def _partition_number(self, topic: str, partition: Any) -> int:
        check_value("partition", PARTITION, partition)
        return min(int(partition), INT_MAX)

    def _topic_name(self, topic: Any) -> str:
        check_value("topic", TEXT, topic)
        return str(topic)

    def _no_function(self, name: str, value: Any) -> ConfigError:
        return ConfigError(f"{name} is {value!r}, it must be a function of the record's future")

    def _too_large(self, topic: str, size: int) -> Exception:
        detail = f"{size} bytes are more than max_request_size={self._config.request_bytes}"
        error = broker_error(Errors.MESSAGE_TOO_LARGE.code, f"record for {topic!r}", detail)
        self.record_failed(error)
        return error

    def _outside(self) -> None:
        """Raises the reason why no transaction accepts a record."""
        self._check_open()
        transactions = self._sender.transactions
        if transactions is not None and self.accumulator.outside:
            raise transactions.refusal()

    def record_failed(self, error: Exception) -> None:
        """Keeps the open transaction, if any, from being committed without one of its records.

        Args:
            error: why the record was not accepted.
        """
        if self._sender.transactions is not None:
            self._sender.transactions.doom(error)

    def _no_partition(self, topic: str, partition: int, count: int) -> Exception:
        return ConfigError(f"topic {topic!r} has partitions 0 to {count - 1}, not {partition}")

    def _find_route(self, topic: str) -> None:
        """Gives the accumulator the topic's current metadata; waits for it."""
        if not isinstance(topic, str):
            raise ConfigError(f"the topic is a {type(topic).__name__}; give its name, a str")
        sender = self._sender
        cluster, accumulator = sender.cluster, self.accumulator
        began = time.monotonic()
        deadline = began + self._config.max_block_s
        while True:
            self._check_open()
            version = accumulator.metadata_version
            info = cluster.topics.get(topic)
            if info is not None and info.partitions:
                break
            cluster.check()
            now = time.monotonic()  # before the check: an answer that is there at the deadline counts
            code = cluster.topic_errors.get(topic)
            if code is not None and (
                not Errors.of(code).retriable
                or cluster.refused_s(topic, began) >= MISSING_TOPIC_GRACE_S
                or now >= deadline
            ):
                cluster.forget(topic)
                raise broker_error(code, f"topic {topic!r}")
            if now >= deadline and info is not None:
                raise broker_error(
                    Errors.LEADER_NOT_AVAILABLE.code, f"topic {topic!r}", "it has no partitions"
                )
            if now >= deadline:
                raise cluster.unreachable(self._config.max_block_s)
            with sender.lock, accumulator.waiting(for_room=False):
                if cluster.topics.get(topic) is info:
                    cluster.want(topic)
                    if code is not None or info is not None:
                        cluster.invalidate()
                    accumulator.ask()
                    if sender.in_callback():
                        raise ClientError(
                            f"topic {topic!r} is not known yet, and a callback cannot wait until it is: "
                            "call partitions_for() once before"
                        )
                    sender.changed.wait(min(0.1, deadline - now))
        available = [p.partition for p in info.partitions.values() if p.leader >= 0]
        if self._config.rack is not None:
            available = cluster.led_in_rack(topic, self._config.rack) or available
        accumulator.route(topic, version, len(info.partitions), available or list(info.partitions))

    def _send_route(self, topic: str) -> None:
        """As `_find_route`, for a record of the open transaction, if there is one."""
        try:
            self._find_route(topic)
        except ClientError as error:
            self.record_failed(error)
            raise

    def _send_room(self, size: int) -> None:
        """As `_await_room`, for a record of the open transaction, if there is one."""
        try:
            self._await_room(size)
        except ClientError as error:
            self.record_failed(error)
            raise

    def _await_room(self, size: int) -> None:
        """Waits until `size` more bytes fit into buffer_memory."""
        sender, accumulator = self._sender, self.accumulator
        memory = self._config.buffer_memory
        deadline = time.monotonic() + self._config.max_block_s
        if sender.in_callback():
            raise BufferFullError(
                f"buffer_memory={memory} bytes are full, and a callback cannot wait for room: "
                "send in another thread or raise buffer_memory"
            )
        with sender.lock, accumulator.waiting(for_room=True):
            accumulator.ask()
            while accumulator.buffered_bytes + size > memory and accumulator.unfinished:
                self._check_open()
                left = deadline - time.monotonic()
                if left <= 0:
                    raise BufferFullError(
                        f"buffer_memory={memory} bytes stayed full for {self._config.max_block_s:g} s: "
                        "brokers take records slower than they come; send slower or raise buffer_memory"
                    )
                sender.changed.wait(left)

    def _check_open(self) -> None:
        failure = self._sender.failure
        if isinstance(failure, ForkedError | ProducerFencedError | BootstrapResolutionError):
            raise failure
        if failure is not None and not isinstance(failure, ClosedError):
            raise ClientError(f"the producer has failed: {failure}") from failure
        if self._sender.closing:
            raise ClosedError("the producer is closed")


def _reporter(
    audit: Audit,
    client_id: str,
    bootstrap_servers: str | Iterable[str],
    security: Mapping[str, Any] | None,
    transactional_id: str | None,
) -> CountReporter:
    from bowstring.clients.producer.count_reporter import Counted, CountReporter

    who = Counted("producer", client_id)
    return CountReporter(audit, who, bootstrap_servers, security, staging=transactional_id is not None)
