"""Reads the records of one partition from one offset to another as Arrow, over TCP."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.consumer.partition_reader import IDLE_TIMEOUT_MS, PartitionReader, check_range
from bowstring.clients.errors import ClientTimeoutError, broker_error
from bowstring.clients.records import TopicPartition
from bowstring.protocol.errors import Errors

if TYPE_CHECKING:
    import pyarrow as pa

PARTITION_FETCH_BYTES = 8 << 20
_TURN_S = 1.0


class BoundedConsumer(Consumer):
    """A consumer without a group that reads given ranges of offsets and detects their end.

    Each batch is of one partition, `taken_from`.

    Args:
        ranges: first and end offset by partition.
        idle_timeout_ms: gives up after this time without progress towards an end.
        configs: of Consumer.
    """

    _one_partition = True

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        ranges: dict[TopicPartition, tuple[int, int]],
        *,
        idle_timeout_ms: int = IDLE_TIMEOUT_MS,
        **configs: Any,
    ):
        given = {
            "auto_offset_reset": "none",
            "max_partition_fetch_bytes": PARTITION_FETCH_BYTES,
            "allow_auto_create": False,
            **configs,
        }
        super().__init__(bootstrap, **given)
        self._idle_timeout_s = idle_timeout_ms / 1000
        self.restrict(ranges)

    def restrict(self, ranges: dict[TopicPartition, tuple[int, int]]) -> None:
        """Reads these ranges from now on."""
        for partition, (start, end) in ranges.items():
            check_range(partition, start, end)
        self.assign(ranges)
        for partition, (start, end) in ranges.items():
            self.seek(partition, start)
            self._state(partition).end_offset = end

    @property
    def unread(self) -> list[TopicPartition]:
        """Partitions whose end is not reached yet."""
        return [p for p, state in self._positions.items() if (state.position or 0) < state.end_offset]

    def batches(self, max_batch_rows: int, **form: Any) -> Iterator[pa.RecordBatch]:
        """Yields batches of at most `max_batch_rows` rows until every range is read.

        Raises:
            UnknownTopicError: a topic does not exist (any more).
            OffsetOutOfRangeError: records of the range were deleted, or never written.
            CorruptBatchError: a batch fails its CRC or cannot be decoded.
            ClientTimeoutError: no records came for idle_timeout_ms before the end.
        """
        before = self.positions()
        moved_at = time.monotonic()
        while self.unread:
            batch = self.poll_arrow(_TURN_S, max_records=max_batch_rows, **form)
            if batch.num_rows:
                yield batch
            now, positions = time.monotonic(), self.positions()
            if positions != before:
                before, moved_at = positions, now
            else:
                self._check_topics()
                if now - moved_at >= self._idle_timeout_s:
                    raise self._stuck()

    def _check_topics(self) -> None:
        for partition in self.unread:
            code = self._cluster.topic_errors.get(partition.topic, 0)
            info = self._cluster.topics.get(partition.topic)
            if info is not None and partition.partition not in info.partitions:
                code = Errors.UNKNOWN_TOPIC_OR_PARTITION.code
            if code and not (code == Errors.LEADER_NOT_AVAILABLE.code):
                raise broker_error(code, f"reading {partition}")

    def _stuck(self) -> Exception:
        if not self._cluster.brokers or not self._reachable():
            return self._cluster.unreachable(self._idle_timeout_s)
        partition = self.unread[0]
        state = self._state(partition)
        known = state.last_stable_offset if self._read_committed else state.high_watermark
        return ClientTimeoutError(
            f"{partition}: no records arrived for {self._idle_timeout_s:g} s at offset {state.position}, "
            f"but the requested end is {state.end_offset}; the broker says that {known} is the end. Request "
            "an end up to there, or set a longer idle_timeout_ms"
        )

    def _reachable(self) -> bool:
        return any(not self._client.backing_off(node) for node in self._cluster.brokers.values())


class RangeReader(PartitionReader):
    """Iterates over the records of one partition with offsets in [start, end), as pyarrow.RecordBatch.

    Gaps (compaction, aborted transactions, markers) are skipped. Iteration ends when the position reaches
    `end`. Fetches run ahead of the caller over separate connections.

    Args:
        bootstrap: `host:port,host:port`, or a list of them.
        topic, partition: what to read.
        start: first offset.
        end: end offset, exclusive; not beyond the end of the partition.
        columns: names out of topic, partition, offset, timestamp, timestamp_type, key, value, headers; None
            for all. Other columns are not decoded.
        isolation_level: "read_uncommitted" or "read_committed".
        layout: "binary" or "binary_view", see `Consumer.poll_arrow`.
        timestamp_unit: "ms" or "us".
        max_batch_rows: most rows of a batch.
        configs: settings of Consumer, and idle_timeout_ms (60,000): gives up after this time without
            progress.

    Raises:
        ConfigError, MissingPackageError: an argument is invalid, or pyarrow is missing.
        UnknownTopicError, OffsetOutOfRangeError, CorruptBatchError, ClientTimeoutError, NoBrokerError: during
            iteration.

    Examples:
        >>> with RangeReader("localhost:9092", topic="clicks", partition=0, start=0, end=3) as reader:
        ...     for batch in reader:
        ...         print(batch.num_rows, reader.position)
        3 3
    """

    def _open(
        self, bootstrap: str | Iterable[str], form: dict[str, Any], configs: dict[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        ranges = {self._partition: (self._start, self._end)}
        self._consumer = BoundedConsumer(bootstrap, ranges, **configs)
        try:
            self.schema = self._consumer.arrow_schema(**form)
        except BaseException:
            self._consumer.close()
            raise
        return self._consumer.batches(self._rows_max, **form)

    @property
    def position(self) -> int:
        """Offset of the next record to read; the start while unknown."""
        return self._consumer.positions().get(self._partition, self._start)

    def close(self) -> None:
        """Closes the connections. May be called twice."""
        self._batches.close()  # type: ignore[attr-defined]
        self._consumer.close()
