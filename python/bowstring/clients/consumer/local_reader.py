"""Reads the records of one partition between two offsets as Arrow, from the broker's own files."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bowstring._native.arrow.decode import ArrowRows
from bowstring._native.record.batch_ends import end_of_first
from bowstring._native.record.compression import DECOMPRESSED_MAX_BYTES, CompressionError, explained
from bowstring._native.record.decode import Aborted
from bowstring._native.record.types import CorruptBatch
from bowstring.clients.arrow.arrow_format import ArrowFormat
from bowstring.clients.choices import IsolationLevel
from bowstring.clients.config.security import client_security
from bowstring.clients.consumer.consumer import is_read_committed
from bowstring.clients.consumer.partition_reader import IDLE_TIMEOUT_MS, PartitionReader
from bowstring.clients.errors import (
    BrokerError,
    ClientError,
    ClientTimeoutError,
    CorruptBatchError,
    LocalReadsUnavailableError,
    UnknownTopicError,
)
from bowstring.clients.group.offset_queries import await_leader
from bowstring.clients.local import discovery
from bowstring.clients.local.feed import LocalFeed, Window
from bowstring.clients.local.mapped_segments import WINDOW_BYTES
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.metadata import ClusterMetadata, parse_bootstrap
from bowstring.protocol.local_reads import ANY_TOPIC_ID

if TYPE_CHECKING:
    import pyarrow as pa

RETRY_PAUSE_S = 0.1
BATCH_BYTES_MAX = 256 << 20

Resumed = tuple[bytes | None]


class LocalReader(PartitionReader):
    """Iterates over the records of one partition with offsets in [start, end), as pyarrow.RecordBatch.

    Like `RangeReader`, but without TCP: needs a Bowstring broker on this machine that grants this user access
    to its files (docs/guide/local-reads.md). With layout "binary_view", keys and values of uncompressed
    batches point into the mapped file, which stays mapped as long as they live.

    Args:
        bootstrap: `host:port,host:port`, or a list of them.
        topic, partition: what to read.
        start: first offset.
        end: end offset, exclusive; waits for records before it that are not written yet.
        columns: names out of topic, partition, offset, timestamp, timestamp_type, key, value, headers; None
            for all. Other columns are not decoded.
        isolation_level: "read_uncommitted" or "read_committed".
        layout: "binary" or "binary_view", see `Consumer.poll_arrow`.
        timestamp_unit: "ms" or "us".
        max_batch_rows: most rows of a batch.
        configs: check_crcs, max_decompressed_batch_bytes, client_id, request_timeout_ms and security, as for
            Consumer;
            idle_timeout_ms (60,000): gives up after this time without progress.

    Raises:
        LocalReadsUnavailableError: the broker is on another machine, has no socket, or denies access to it.
        ConfigError, MissingPackageError: an argument is invalid, or pyarrow is missing.
        UnknownTopicError, OffsetOutOfRangeError, CorruptBatchError, ClientTimeoutError, NoBrokerError: also
            during iteration.

    Examples:
        >>> with LocalReader("localhost:9092", topic="clicks", partition=0, start=0, end=3) as reader:
        ...     for batch in reader:
        ...         print(batch.num_rows, reader.position)
        3 3
    """

    def _open(
        self, bootstrap: str | Iterable[str], form: dict[str, Any], configs: dict[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        self._form = ArrowFormat(**form)
        self.schema = self._form.schema
        self._position = self._start
        self._topic_id = ANY_TOPIC_ID
        self._feed: LocalFeed | None = None
        self._configure(bootstrap, **configs)
        try:
            if self._start < self._end:
                self._feed = self._connect(self._idle_timeout_s)
        except BaseException:
            self.close()
            raise
        return self._read()

    def _configure(
        self,
        bootstrap: str | Iterable[str],
        *,
        isolation_level: IsolationLevel,
        check_crcs: bool = True,
        max_decompressed_batch_bytes: int = DECOMPRESSED_MAX_BYTES,
        client_id: str = "bowstring-local",
        request_timeout_ms: int = 30_000,
        idle_timeout_ms: int = IDLE_TIMEOUT_MS,
        security: Mapping[str, Any] | None = None,
    ) -> None:
        self._read_committed = is_read_committed(isolation_level)
        self._check_crcs = check_crcs
        self._max_decompressed_batch_bytes = max_decompressed_batch_bytes
        self._idle_timeout_s = idle_timeout_ms / 1000
        self._client = NetworkClient(
            client_id, request_timeout_ms=request_timeout_ms, security=client_security(security)
        )
        self._cluster = ClusterMetadata(self._client, parse_bootstrap(bootstrap), allow_auto_create=False)

    @property
    def position(self) -> int:
        """Offset of the next record to read."""
        return self._position

    def close(self) -> None:
        """Closes the connections; returned batches stay valid. May be called twice."""
        self._disconnect()
        self._client.close()

    # ------------------------------------------------------------ the broker

    def _connect(self, timeout_s: float) -> LocalFeed:
        deadline = time.monotonic() + timeout_s
        self._cluster.await_topic(self._partition.topic, timeout_s)
        node = await_leader(self._cluster, self._partition, deadline)
        connection = discovery.connect(self._cluster, node, timeout_s)
        return LocalFeed(
            connection,
            self._partition,
            read_committed=self._read_committed,
            topic_id=self._topic_id,
        )

    def _disconnect(self) -> None:
        feed, self._feed = self._feed, None
        if feed is not None:
            self._topic_id = feed.topic_id
            feed.forget()
            feed.connection.close()

    def _window(self, size: int) -> Window:
        """Returns the next window, waiting for it; reconnects to a broker that has gone."""
        deadline = time.monotonic() + self._idle_timeout_s
        while True:
            left_s = max(0.0, deadline - time.monotonic())
            try:
                if self._feed is None:
                    self._cluster.invalidate()
                    self._feed = self._connect(left_s)
                window = self._feed.window(self._position, size, wait_ms=int(left_s * 1000))
                if window is not None:
                    return window
            except (BrokerError, LocalReadsUnavailableError) as error:
                # a topic created again under the same name is another topic for this reader
                gone = isinstance(error, UnknownTopicError)
                retriable = error.retriable or isinstance(error, LocalReadsUnavailableError)
                if gone or not retriable or time.monotonic() >= deadline:
                    raise
                self._disconnect()
                time.sleep(min(RETRY_PAUSE_S, max(0.0, deadline - time.monotonic())))
                continue
            if time.monotonic() >= deadline:
                raise self._stuck()

    def _stuck(self) -> ClientError:
        assert self._feed is not None
        known = self._feed.last_stable_offset if self._read_committed else self._feed.high_watermark
        return ClientTimeoutError(
            f"{self._partition}: no records arrived for {self._idle_timeout_s:g} s at offset "
            f"{self._position}, but the requested end is {self._end}; the broker's last readable offset is "
            f"{known}. Request an end up to there, or set a longer idle_timeout_ms"
        )

    # ------------------------------------------------------------ records

    def _read(self) -> Iterator[pa.RecordBatch]:
        """Yields batches until the end; returns existing records before it waits for more."""
        rows = self._form.rows(self._rows_max, BATCH_BYTES_MAX)
        try:
            yield from self._fill(rows)
        except ClientError:
            if rows.rows:  # records before the error are not lost
                yield self._take(rows)
            raise
        if rows.rows:
            yield self._take(rows)

    def _fill(self, rows: ArrowRows) -> Iterator[pa.RecordBatch]:
        """Yields full batches; the rest stays in `rows`."""
        window_bytes = WINDOW_BYTES
        while self._position < self._end:
            if rows.rows and (self._feed is None or self._feed.would_ask(self._position)):
                yield self._take(rows)
            window = self._window(window_bytes)
            aborted = Aborted(window.aborted) if window.aborted else None
            at, resumed = 0, None
            while True:
                taken, self._position, resumed = self._append(rows, window.data[at:], aborted, resumed)
                at += taken
                if rows.full:
                    yield self._take(rows)
                if resumed is None:
                    break
            window_bytes = WINDOW_BYTES if at else self._larger(window)
            if self._position < self._end and at:
                assert self._feed is not None
                self._position = self._feed.advance(at, self._position)

    def _append(
        self, rows: ArrowRows, data: memoryview, aborted: Aborted | None, resumed: Resumed | None
    ) -> tuple[int, int, Resumed | None]:
        try:
            return rows.append(
                data,
                self._position,
                self._end,
                aborted=aborted,
                verify_crc=self._check_crcs,
                resumed=resumed,
                limit=self._max_decompressed_batch_bytes,
            )
        except (CorruptBatch, CompressionError) as error:
            reason = explained(error, "max_decompressed_batch_bytes")
            following = max(self._position + 1, end_of_first(data) or 0)
            raise CorruptBatchError(
                f"{self._partition} from offset {self._position}: {reason}; start at {following} to continue"
            ) from error

    def _larger(self, window: Window) -> int:
        """Returns the size of a window for a batch that did not fit into this one."""
        if window.is_whole:
            raise CorruptBatchError(
                f"{self._partition} from offset {self._position}: the last batch of a segment is truncated"
            )
        return 2 * len(window.data)

    def _take(self, rows: ArrowRows) -> pa.RecordBatch:
        return self._form.batch(rows, [self._partition.topic])
