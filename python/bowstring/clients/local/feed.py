"""Reads one partition from its broker's files, in windows of complete batches."""

from __future__ import annotations

import os
from collections import deque
from typing import NamedTuple

from bowstring.clients.local.local_connection import LocalConnection
from bowstring.clients.local.mapped_segments import WINDOW_BYTES, MappedSegment
from bowstring.clients.records import TopicPartition
from bowstring.protocol.local_reads import ANY_TOPIC_ID, Segment, Segments, SegmentsRequest

# Files deleted by retention keep their disk space while they are open here, so the number of open ones is
# limited.
SEGMENTS_AT_ONCE = 16


class Window(NamedTuple):
    """Bytes that start at a batch; the last batch may be incomplete.

    Attributes:
        data: a mapping, which lives as long as anything points into it.
        aborted: (producer id, first offset) of aborted transactions among them, as in a fetch answer.
        is_whole: the window reaches the readable end of the segment, so no batch is incomplete.
    """

    data: memoryview
    aborted: tuple[tuple[int, int], ...]
    is_whole: bool


class LocalFeed:
    """Position of a reader of one partition in the broker's files. Used by the thread that owns the
    connection.

    `window` returns the next bytes, `advance` moves on. To seek, request another offset.

    Args:
        connection: to the partition's leader.
        read_committed: stops at the last stable offset, and returns aborted transactions.
        copied: reads instead of mapping.
    """

    def __init__(
        self,
        connection: LocalConnection,
        partition: TopicPartition,
        *,
        read_committed: bool = False,
        copied: bool = False,
        topic_id: bytes = ANY_TOPIC_ID,
    ):
        self.connection = connection
        self.partition = partition
        self.topic_id = topic_id
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self._read_committed = read_committed
        self._copied = copied
        self._offset = -1
        self._answer: Segments | None = None
        self._waiting: deque[Segment] = deque()
        self._open: MappedSegment | None = None
        self._open_end_offset = -1
        self._position = 0

    def window(self, offset: int, size: int = WINDOW_BYTES, *, wait_ms: int = 0) -> Window | None:
        """Returns a window that starts with the batch of `offset`; None when there is nothing within
        `wait_ms`.

        Raises:
            BrokerError, LocalReadsUnavailableError, ClientTimeoutError: as for LocalConnection.segments.
            CorruptBatchError: a file does not match the broker's description.
        """
        if self.would_ask(offset):
            self._ask(offset, wait_ms)
        if self._open is None and not self._open_next():
            return None
        assert self._open is not None and self._answer is not None
        data = self._open.window(self._position, size)
        return Window(data, tuple(self._answer.aborted), self._position + len(data) == self._open.end)

    def would_ask(self, offset: int) -> bool:
        """Returns whether `window` needs a request to the broker, which may take up to its wait_ms."""
        return offset != self._offset or (self._open is None and not self._waiting)

    def advance(self, consumed: int, next_offset: int) -> int:
        """Marks `consumed` bytes of the window as read, up to `next_offset`. Returns the offset to continue
        at, which is larger if no records follow before it.
        """
        assert self._open is not None and self._answer is not None
        self._position += consumed
        if self._position >= self._open.end:
            next_offset = max(next_offset, self._after_segment())
            self._drop_open()
        if self._answer.aborted:
            # The aborted transactions were selected for the requested offset; another offset needs others.
            self.forget()
        self._offset = next_offset
        return next_offset

    def forget(self) -> None:
        """Closes all files; the next window sends a request to the broker."""
        self._drop_open()
        while self._waiting:
            os.close(self._waiting.popleft().fd)
        self._answer = None
        self._offset = -1

    def __del__(self) -> None:
        if hasattr(self, "_waiting"):
            self.forget()

    # ------------------------------------------------------------ the broker's answers

    def _ask(self, offset: int, wait_ms: int) -> None:
        self.forget()
        answer = self.connection.segments(
            SegmentsRequest(
                self.partition.topic,
                self.partition.partition,
                offset,
                topic_id=self.topic_id,
                isolation=1 if self._read_committed else 0,
                max_wait_ms=wait_ms,
                max_segments=SEGMENTS_AT_ONCE,
            )
        )
        self._answer = answer
        self._waiting.extend(answer.segments)
        self._offset = offset
        self.topic_id = answer.topic_id
        self.high_watermark = answer.high_watermark
        self.last_stable_offset = answer.last_stable_offset
        self.log_start_offset = answer.log_start_offset

    def _open_next(self) -> bool:
        if not self._waiting:
            return False
        segment = self._waiting.popleft()
        self._open = MappedSegment(segment, str(self.partition), copied=self._copied)
        self._open_end_offset = segment.end_offset
        self._position = segment.start_position
        return True

    def _after_segment(self) -> int:
        """Skips offsets that compaction removed from the end of a segment."""
        assert self._answer is not None
        if self._waiting:
            return self._open_end_offset
        return self._answer.next_offset

    def _drop_open(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
