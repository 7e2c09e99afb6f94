"""RangeReader: the records of one partition from one offset to another, as Arrow."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from bowstring.clients.consumer import Consumer
from bowstring.clients.errors import ClientTimeoutError, broker_error
from bowstring.clients.partition_reader import IDLE_TIMEOUT_MS, PartitionReader, check_range
from bowstring.clients.records import TopicPartition
from bowstring.engine.errors import Errors

if TYPE_CHECKING:
    import pyarrow as pa

PARTITION_FETCH_BYTES = 8 << 20
_TURN_S = 1.0


class BoundedConsumer(Consumer):
    """A consumer without a group that reads given ranges of offsets and knows when it is done.

    Each batch is of one partition, `taken_from`.

    Args:
        ranges: by partition, the first offset and the one to stop before.
        idle_timeout_ms: an end that does not come nearer for this long is given up.
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
        """Batches of at most so many rows until every range is read.

        Raises:
            UnknownTopicError: a topic is not there (any more).
            OffsetOutOfRangeError: records of the range were deleted, or never written.
            CorruptBatchError: a batch fails its CRC or cannot be decoded.
            ClientTimeoutError: nothing came for idle_timeout_ms, though the end is not reached.
        """
        before = self.positions()
        moved_at = time.monotonic()
        while self.unread:
            batch = self.poll_arrow(max_batch_rows, timeout=_TURN_S, **form)
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
            f"{partition}: nothing came for {self._idle_timeout_s:g} s at offset {state.position}, though "
            f"the end asked for is {state.end_offset}; the broker says that {known} is the end. "
            "Ask for no more than that, or set a longer idle_timeout_ms"
        )

    def _reachable(self) -> bool:
        return any(not self._client.backing_off(node) for node in self._cluster.brokers.values())


class RangeReader(PartitionReader):
    """Iterates over the records of one partition with offsets in [start, end), as pyarrow.RecordBatch.

    Gaps (compaction, aborted transactions, markers) are left out. It ends when the position reaches `end`.
    Fetches run ahead of the caller over connections of its own.

    Args:
        bootstrap … max_batch_rows: see PartitionReader; `end` must not be beyond the partition's end.
        configs: settings of Consumer, and idle_timeout_ms (60,000): without progress for so long it gives up.

    Raises:
        ConfigError, MissingPackageError: an argument makes no sense, pyarrow is missing.
        UnknownTopicError, OffsetOutOfRangeError, CorruptBatchError, ClientTimeoutError, NoBrokerError: while
            iterating.

    Example:
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
        """Offset of the next record to be read; the start while none is known."""
        return self._consumer.positions().get(self._partition, self._start)

    def close(self) -> None:
        """Closes the connections; twice does no harm."""
        self._batches.close()  # type: ignore[attr-defined]
        self._consumer.close()
