"""Producer: records in, acknowledged offsets out."""

from __future__ import annotations

import struct
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from bowstring._native.client import binary_column
from bowstring._native.encode import BatchBuilder
from bowstring._native.encode_columns import encode_columns as native_encode_columns
from bowstring.clients import batches
from bowstring.clients.accumulator import BatchesFuture, PartitionQueue, ProduceBatch, RecordFuture
from bowstring.clients.cluster import Cluster, parse_bootstrap
from bowstring.clients.errors import (
    BufferFullError,
    ClientError,
    ClosedError,
    ConfigError,
    broker_error,
)
from bowstring.clients.network import NetworkClient
from bowstring.clients.partitioner import Partitioner
from bowstring.clients.records import TopicInfo, TopicPartition
from bowstring.clients.sender import IN_FLIGHT_MAX, Sender, SenderConfig
from bowstring.engine.errors import Errors

Payload = bytes | bytearray | memoryview | str | None
HeadersLike = Mapping[str, Payload] | Iterable[tuple[str, Payload]]
Acks = int | str
Column = tuple[Any, Any] | tuple[Any, Any, Any]

# How long a topic the brokers say they do not have is asked for again: it may be about to be created.
MISSING_TOPIC_GRACE_S = 5.0


class _Topic:
    """What the producer keeps for a topic, of one version of its metadata."""

    __slots__ = ("available", "info", "partitioner", "queues", "version")

    def __init__(self, partitioner: Partitioner):
        self.partitioner = partitioner
        self.version = -1
        self.info: TopicInfo | None = None
        self.available: list[int] = []
        self.queues: dict[int, PartitionQueue] = {}


class Producer:
    """Sends records to a cluster; any number of threads may share one.

    Records are gathered into batches by partition and sent by a thread of the producer's own, up to five
    requests in flight to each broker. With `idempotent` each record is stored once and in order, however
    often requests are repeated (KIP-98); without it a retry may duplicate and, with more than one request
    in flight, reorder.

    Args:
        bootstrap_servers: `host:port,host:port`, or a list of them.
        client_id: name that brokers log.
        acks: "all" (or -1), 1, or 0 for no acknowledgement.
        idempotent: default True with acks="all", else False.
        compression: "none", "gzip", "snappy", "lz4" or "zstd".
        compression_level: of the codec; None for its own default.
        linger_ms: how long a batch waits for more records.
        batch_size: bytes at which a batch is sent without waiting.
        buffer_memory: bytes held at most; `send` waits when it is full, at most max_block_ms.
        delivery_timeout_ms: a record not acknowledged by then fails.
        retry_backoff_ms: pause before a batch is sent again; doubles up to a second.
        max_in_flight: requests in flight per broker, at most 5.

    Raises:
        ConfigError: an argument makes no sense.

    Example:
        >>> with Producer("localhost:9092") as producer:
        ...     future = producer.send("greetings", b"hello", key=b"me")
        ...     print(future.result(10).offset)
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "localhost:9092",
        *,
        client_id: str = "bowstring-producer",
        acks: Acks = "all",
        idempotent: bool | None = None,
        compression: str = "none",
        compression_level: int | None = None,
        linger_ms: float = 5,
        batch_size: int = 16_384,
        buffer_memory: int = 33_554_432,
        max_request_size: int = 1_048_576,
        max_block_ms: int = 60_000,
        request_timeout_ms: int = 30_000,
        delivery_timeout_ms: int = 120_000,
        retry_backoff_ms: int = 100,
        max_in_flight: int = IN_FLIGHT_MAX,
        metadata_max_age_ms: int = 300_000,
        allow_auto_create: bool = True,
    ):
        acks_number = _acks_number(acks)
        if idempotent is None:
            idempotent = acks_number == -1
        if idempotent and acks_number != -1:
            raise ConfigError(
                'idempotent needs acks="all": a batch lost after its acknowledgement cannot be found'
            )
        if not 1 <= max_in_flight <= IN_FLIGHT_MAX:
            raise ConfigError(f"max_in_flight is {max_in_flight}, it must be 1 to {IN_FLIGHT_MAX}")
        config = SenderConfig(
            acks=acks_number,
            idempotent=idempotent,
            compression=batches.codec_number(compression),
            compression_level=compression_level,
            linger_s=linger_ms / 1000,
            batch_bytes=batch_size,
            request_bytes=max_request_size,
            request_timeout_s=request_timeout_ms / 1000,
            delivery_timeout_s=delivery_timeout_ms / 1000,
            retry_backoff_s=retry_backoff_ms / 1000,
            in_flight_max=max_in_flight,
        )
        client = NetworkClient(client_id, request_timeout_ms=request_timeout_ms)
        cluster = Cluster(
            client,
            parse_bootstrap(bootstrap_servers),
            metadata_max_age_ms=metadata_max_age_ms,
            allow_auto_create=allow_auto_create,
        )
        self._config = config
        self._buffer_memory = buffer_memory
        self._max_block_s = max_block_ms / 1000
        self._topics: dict[str, _Topic] = {}
        self._sender = Sender(client, cluster, config)
        self._sender.thread.start()
        # Runs when the producer is forgotten or the interpreter ends: what was sent is not lost silently.
        self._finalizer = weakref.finalize(self, self._sender.stop, delivery_timeout_ms / 1000)

    # ------------------------------------------------------------ sending

    def send(
        self,
        topic: str,
        value: Payload = None,
        key: Payload = None,
        *,
        headers: HeadersLike | None = None,
        timestamp: int | None = None,
        partition: int | None = None,
        on_delivery: Callable[[RecordFuture], Any] | None = None,
    ) -> RecordFuture:
        """Takes a record for `topic`; its future tells where it went.

        Args:
            value: bytes, or text to be encoded as UTF-8; None is a tombstone.
            key: records of one key go to one partition, by Kafka's murmur2.
            headers: pairs of a name and bytes, or a mapping.
            timestamp: milliseconds since the epoch; default now.
            partition: where to; default by key, else one partition after another.
            on_delivery: called with the future once it is done, in the producer's thread.

        Raises:
            UnknownTopicError: no such topic, and the brokers do not create it.
            NoBrokerError, BufferFullError: within max_block_ms.
            RecordTooLargeError: larger than max_request_size.
            ClosedError: after close().
        """
        if value.__class__ is not bytes:
            value = _to_bytes(value, "value")
        if key is not None and key.__class__ is not bytes:
            key = _to_bytes(key, "key")
        pairs = _header_pairs(headers) if headers else ()
        if timestamp is None:
            timestamp = time.time_ns() // 1_000_000
        size = batches.RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
        if size > self._config.request_bytes:
            raise broker_error(
                Errors.MESSAGE_TOO_LARGE.code,
                f"record for {topic!r}",
                f"{size} bytes are more than max_request_size={self._config.request_bytes}",
            )
        sender = self._sender
        lock = sender.lock
        known = self._topics.get(topic)
        with lock:
            if known is None or known.version != sender.cluster.version:
                known = self._topic(topic)
            self._check_room(size)
            queue = self._route(known, key, size, partition)
            batch, index, wake = self._append(queue, (key, value, timestamp, pairs), size)
        if wake:
            sender.wake()
        future = RecordFuture(batch, index, timestamp)
        if on_delivery is not None:
            future.add_done_callback(on_delivery)
        return future

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
        return self.produce_batches(topic, partition, batches.with_counts(encoded))

    @property
    def batch_size(self) -> int:
        """Bytes at which a batch is sent without waiting."""
        return self._config.batch_bytes

    @property
    def buffer_memory(self) -> int:
        """Bytes of records held at most."""
        return self._buffer_memory

    def produce_batches(
        self, topic: str, partition: int, encoded: Iterable[tuple[bytes, int]]
    ) -> BatchesFuture:
        """Sends ready-made record batches: pairs of the bytes (magic 2, as sent) and the count of records."""
        sender = self._sender
        sent = []
        for data, record_count in encoded:
            batch = ProduceBatch(TopicPartition(topic, partition), self._config.delivery_timeout_s)
            batch.encoded = data
            batch.record_count = record_count
            batch.size_bytes = len(data)
            with sender.lock:
                known = self._topics.get(topic)
                if known is None or known.version != sender.cluster.version:
                    known = self._topic(topic)
                self._check_room(len(data))
                queue = self._queue(known, partition)
                sender.buffered_bytes += len(data)
                idle = not queue.waiting
                sender.enqueue(queue, batch)
            if idle:
                sender.wake()
            sent.append(batch)
        return BatchesFuture(sent)

    def would_block(self, topic: str, size_bytes: int = 0) -> bool:
        """Whether `send` would now wait: for the topic's metadata, or for room for a record of this size."""
        sender = self._sender
        if sender.closing:
            return False
        full = sender.buffered_bytes + size_bytes > self._buffer_memory and sender.unfinished > 0
        return full or topic not in sender.cluster.topics

    def await_ready(self, topic: str, size_bytes: int = 0) -> None:
        """Waits, at most max_block_ms, until `would_block` is false. Raises what `send` raises meanwhile."""
        with self._sender.lock:
            self._topic(topic)
            self._check_room(size_bytes)

    def partitions_for(self, topic: str) -> list[int]:
        """Partition numbers of a topic; looks them up when they are not known."""
        with self._sender.lock:
            info = self._topic(topic).info
        assert info is not None
        return sorted(info.partitions)

    def flush(self, timeout: float | None = None) -> None:
        """Sends what waits, at once, and returns when everything sent before has an outcome.

        Raises:
            ClientTimeoutError: not within `timeout` seconds.
        """
        sender = self._sender
        with sender.lock:
            waiting = [b for queue in sender.queues.values() for b in (*queue.in_flight, *queue.waiting)]
            sender.flushes += 1
        sender.wake()
        try:
            BatchesFuture(waiting).await_all(timeout)
        finally:
            with sender.lock:
                sender.flushes -= 1

    def close(self, timeout: float | None = None) -> None:
        """Sends what waits and ends the producer's thread; after `timeout` seconds the rest fails."""
        if self._finalizer.detach() is not None:
            self._sender.stop(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------ under the sender's lock

    def _append(
        self,
        queue: PartitionQueue,
        record: tuple[Any, Any, int, tuple[tuple[str, bytes | None], ...]],
        size: int,
    ) -> tuple[ProduceBatch, int, bool]:
        """Puts the record into the partition's open batch; says whether the sender has to be woken."""
        sender = self._sender
        batch = queue.waiting[-1] if queue.waiting else None
        wake = batch is None
        # A batch with `attempts` or without builder is on its way; a full one refuses the record.
        if batch is None or batch.builder is None or batch.attempts or not batch.builder.append(*record):
            wake = True
            builder = BatchBuilder(self._config.batch_bytes)
            builder.append(*record)
            batch = ProduceBatch(queue.partition, self._config.delivery_timeout_s, builder)
            sender.enqueue(queue, batch)
        index = batch.record_count
        batch.record_count = index + 1
        batch.size_bytes += size
        sender.buffered_bytes += size
        return batch, index, wake

    def _route(self, known: _Topic, key: bytes | None, size: int, partition: int | None) -> PartitionQueue:
        info = known.info
        assert info is not None
        if partition is None:
            if key is not None:
                partition = known.partitioner.for_key(key, len(info.partitions))
            else:
                partition = known.partitioner.for_null_key(known.available, size)
        queue = known.queues.get(partition)
        return queue if queue is not None else self._queue(known, partition)

    def _queue(self, known: _Topic, partition: int) -> PartitionQueue:
        info = known.info
        assert info is not None
        if partition not in info.partitions:
            raise ConfigError(
                f"topic {info.name!r} has partitions 0 to {len(info.partitions) - 1}, not {partition}"
            )
        queue = known.queues[partition] = self._sender.queue(TopicPartition(info.name, partition))
        return queue

    def _topic(self, topic: str) -> _Topic:
        """The topic with current metadata; waits for it (the lock is released meanwhile)."""
        sender = self._sender
        cluster = sender.cluster
        deadline = time.monotonic() + self._max_block_s
        missing_until = time.monotonic() + min(MISSING_TOPIC_GRACE_S, self._max_block_s)
        while topic not in cluster.topics:
            self._check_open()
            code = cluster.topic_errors.get(topic)
            now = time.monotonic()
            if code is not None and (not Errors.of(code).retriable or now >= missing_until):
                raise broker_error(code, f"topic {topic!r}")
            if now >= deadline:
                raise cluster.unreachable(self._max_block_s)
            cluster.want(topic)
            if code is not None:
                cluster.invalidate()
            sender.wake()
            sender.changed.wait(min(0.1, deadline - now))
        known = self._topics.get(topic)
        if known is None:
            known = self._topics[topic] = _Topic(Partitioner(self._config.batch_bytes))
        info = cluster.topics[topic]
        known.version = cluster.version
        known.info = info
        known.available = [p.partition for p in info.partitions.values() if p.leader >= 0] or list(
            info.partitions
        )
        return known

    def _check_room(self, size: int) -> None:
        """Waits until `size` more bytes fit into buffer_memory (the lock is released meanwhile)."""
        self._check_open()
        sender = self._sender
        if sender.buffered_bytes + size <= self._buffer_memory or not sender.unfinished:
            return
        deadline = time.monotonic() + self._max_block_s
        sender.memory_short = True
        sender.wake()
        try:
            while sender.buffered_bytes + size > self._buffer_memory and sender.unfinished:
                self._check_open()
                left = deadline - time.monotonic()
                if left <= 0:
                    raise BufferFullError(
                        f"buffer_memory={self._buffer_memory} bytes stayed full for {self._max_block_s:g} s: "
                        "brokers take records slower than they are sent; send slower or raise buffer_memory"
                    )
                sender.changed.wait(left)
        finally:
            sender.memory_short = False

    def _check_open(self) -> None:
        if self._sender.failure is not None and not isinstance(self._sender.failure, ClosedError):
            raise ClientError(f"the producer has failed: {self._sender.failure}") from self._sender.failure
        if self._sender.closing:
            raise ClosedError("the producer is closed")


def _acks_number(acks: Acks) -> int:
    number = {"all": -1, "-1": -1, "0": 0, "1": 1, -1: -1, 0: 0, 1: 1}.get(acks)
    if number is None:
        raise ConfigError(f'acks is {acks!r}, it must be "all", 1 or 0')
    return number


def _to_bytes(data: Payload, what: str) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    raise ConfigError(f"the {what} is a {type(data).__name__}; give bytes, text or None")


def _header_pairs(headers: HeadersLike) -> tuple[tuple[str, bytes | None], ...]:
    items = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((str(name), _to_bytes(value, f"header {name!r}")) for name, value in items)
