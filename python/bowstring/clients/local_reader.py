"""LocalReader: the records of one partition between two offsets as Arrow, out of the broker's own files."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from bowstring._native.aborted import Aborted
from bowstring._native.arrow_decode import ArrowRows
from bowstring._native.compression import CompressionError
from bowstring._native.record_types import CorruptBatch
from bowstring.clients import local_discovery
from bowstring.clients.arrow_columns import ArrowFormat
from bowstring.clients.cluster import Cluster, parse_bootstrap
from bowstring.clients.consumer import is_read_committed
from bowstring.clients.errors import (
    BrokerError,
    ClientError,
    ClientTimeoutError,
    CorruptBatchError,
    LocalReadsUnavailableError,
    UnknownTopicError,
)
from bowstring.clients.local_feed import LocalFeed, Window
from bowstring.clients.local_files import WINDOW_BYTES
from bowstring.clients.network import NetworkClient
from bowstring.clients.offset_queries import await_leader
from bowstring.clients.partition_reader import IDLE_TIMEOUT_MS, PartitionReader
from bowstring.engine.protocol.local_reads import ANY_TOPIC_ID

if TYPE_CHECKING:
    import pyarrow as pa

RETRY_PAUSE_S = 0.1
BATCH_BYTES_MAX = 256 << 20

Resumed = tuple[bytes | None]


class LocalReader(PartitionReader):
    """Iterates over the records of one partition with offsets in [start, end), as pyarrow.RecordBatch.

    What `RangeReader` does over TCP; needs a Bowstring broker on this machine that lets this user have its
    files (docs/local-reads.md). With layout "binary_view" keys and values of batches that are not compressed
    point into the mapped file, which stays mapped as long as they live.

    Args:
        bootstrap … max_batch_rows: see PartitionReader; records before `end` that are not written yet
            are waited for.
        check_crcs: whether every batch's CRC-32C is looked at (True).
        client_id, request_timeout_ms: as Consumer has them.
        idle_timeout_ms: without progress for so long it gives up (60,000).

    Raises:
        LocalReadsUnavailableError: the broker is elsewhere, has no socket, or keeps it to others.
        ConfigError, MissingPackageError: an argument makes no sense, pyarrow is missing.
        UnknownTopicError, OffsetOutOfRangeError, CorruptBatchError, ClientTimeoutError, NoBrokerError: also
            while iterating.

    Example:
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
        isolation_level: str,
        check_crcs: bool = True,
        client_id: str = "bowstring-local",
        request_timeout_ms: int = 30_000,
        idle_timeout_ms: int = IDLE_TIMEOUT_MS,
    ) -> None:
        self._read_committed = is_read_committed(isolation_level)
        self._check_crcs = check_crcs
        self._idle_timeout_s = idle_timeout_ms / 1000
        self._client = NetworkClient(client_id, request_timeout_ms=request_timeout_ms)
        self._cluster = Cluster(self._client, parse_bootstrap(bootstrap), allow_auto_create=False)

    @property
    def position(self) -> int:
        """Offset of the next record to be read."""
        return self._position

    def close(self) -> None:
        """Ends the connections; batches that were handed out stay. Twice does no harm."""
        self._disconnect()
        self._client.close()

    # ------------------------------------------------------------ the broker

    def _connect(self, timeout_s: float) -> LocalFeed:
        deadline = time.monotonic() + timeout_s
        self._cluster.await_topic(self._partition.topic, timeout_s)
        node = await_leader(self._cluster, self._partition, deadline)
        connection = local_discovery.connect(self._cluster, node, timeout_s)
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
        """What is next, waited for; a broker that has gone is looked for again."""
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
                gone = isinstance(error, UnknownTopicError)  # for this reader: another of its name is another
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
            f"{self._partition}: nothing came for {self._idle_timeout_s:g} s at offset {self._position}, "
            f"though the end asked for is {self._end}; the broker tells {known} as the end of what can be "
            "read. Ask for no more than that, or set a longer idle_timeout_ms"
        )

    # ------------------------------------------------------------ records

    def _read(self) -> Iterator[pa.RecordBatch]:
        """Batches until the end; what is there is given before anything is waited for."""
        rows = self._form.rows(self._rows_max, BATCH_BYTES_MAX)
        try:
            yield from self._fill(rows)
        except ClientError:
            if rows.rows:  # what came before the error is not lost
                yield self._take(rows)
            raise
        if rows.rows:
            yield self._take(rows)

    def _fill(self, rows: ArrowRows) -> Iterator[pa.RecordBatch]:
        """The full ones; the rest stays in `rows`."""
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
                data, self._position, self._end, aborted=aborted, verify_crc=self._check_crcs, resumed=resumed
            )
        except (CorruptBatch, CompressionError) as error:
            raise CorruptBatchError(
                f"{self._partition} from offset {self._position}: {error}; start behind it to go on"
            ) from error

    def _larger(self, window: Window) -> int:
        """Room for a batch that did not fit into this window."""
        if window.is_whole:
            raise CorruptBatchError(
                f"{self._partition} from offset {self._position}: the last batch of a segment is cut short"
            )
        return 2 * len(window.data)

    def _take(self, rows: ArrowRows) -> pa.RecordBatch:
        return self._form.batch(rows, [self._partition.topic])
