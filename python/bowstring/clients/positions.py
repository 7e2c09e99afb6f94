"""What a consumer reads and how far it is: one PartitionState for each assigned partition."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bowstring._native.aborted import Aborted
from bowstring.clients.records import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    OffsetAndMetadata,
    Record,
    TopicPartition,
)

RESET_TIMESTAMPS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}

NO_END = (1 << 63) - 1


class Chunk(NamedTuple):
    """Fetched and not yet decoded: whole record batches.

    Attributes:
        data: the batches, as the broker stores them.
        offset: where reading was asked to begin; the first batch may hold earlier records.
        next_offset: offset that follows the last batch.
        record_count: records in all batches, as their headers say.
        aborted: aborted transactions among them, as far as they have been walked (KIP-98); None for none.
        resumed: what ArrowRows.append gave for going on inside the first batch.
    """

    data: memoryview
    offset: int
    next_offset: int
    record_count: int
    aborted: Aborted | None = None
    resumed: tuple[bytes | None] | None = None


class PartitionState:
    """Where a consumer is in a partition.

    `position` is the offset of the next record to be handed out, None until it is known; `fetch_offset` runs
    ahead of it by what is buffered. Nothing at or above `end_offset` is asked for.
    """

    __slots__ = (
        "buffered_bytes",
        "chunks",
        "decoded",
        "decoded_at",
        "decoded_next_offset",
        "end_offset",
        "fetch_offset",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "paused",
        "position",
        "reset_timestamp",
    )

    def __init__(self) -> None:
        self.position: int | None = None
        self.fetch_offset = -1
        self.end_offset = NO_END
        self.reset_timestamp: int | None = None
        self.paused = False
        self.chunks: deque[Chunk] = deque()
        self.buffered_bytes = 0
        self.decoded: list[Record] = []
        self.decoded_at = 0
        self.decoded_next_offset = -1
        self.leader_epoch = -1
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1

    def seek(self, offset: int) -> None:
        """Goes to `offset` and forgets what was read ahead."""
        self.position = offset
        self.fetch_offset = offset
        self.reset_timestamp = None
        self.drop_buffer()

    def reset(self, timestamp: int) -> None:
        """The position is to be looked up by `timestamp`, which may be a special one."""
        self.position = None
        self.reset_timestamp = timestamp
        self.drop_buffer()

    def drop_buffer(self) -> None:
        """Forgets what was read ahead."""
        self.chunks.clear()
        self.buffered_bytes = 0
        self.decoded = []
        self.decoded_at = 0

    def forget_decoded(self) -> None:
        """What `poll` has made objects of and not yet given is fetched again, for other ways of reading."""
        if self.decoded and self.position is not None:
            self.seek(self.position)

    @property
    def has_buffered(self) -> bool:
        """Whether records may be handed out without asking a broker."""
        return bool(self.chunks) or self.decoded_at < len(self.decoded)

    def buffer(self, chunk: Chunk) -> None:
        """Takes in what was fetched."""
        self.chunks.append(chunk)
        self.buffered_bytes += len(chunk.data)
        self.fetch_offset = chunk.next_offset

    def keep_rest(self, rest: Chunk) -> None:
        """Puts what is left of the oldest chunk in its place."""
        self.buffered_bytes += len(rest.data) - len(self.chunks[0].data)
        self.chunks[0] = rest

    def put_back(self, chunk: Chunk) -> None:
        """Undoes `take_chunk`."""
        self.chunks.appendleft(chunk)
        self.buffered_bytes += len(chunk.data)

    def take_chunk(self) -> Chunk:
        """The oldest chunk, out of the buffer."""
        chunk = self.chunks.popleft()
        self.buffered_bytes -= len(chunk.data)
        return chunk


class Positions:
    """The assigned partitions of one consumer and their states, in the order they are served in turn."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._states

    def __getitem__(self, partition: TopicPartition) -> PartitionState:
        return self._states[partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)

    def get(self, partition: TopicPartition) -> PartitionState | None:
        """The state, None when the partition is not assigned."""
        return self._states.get(partition)

    def items(self) -> list[tuple[TopicPartition, PartitionState]]:
        """Partitions and states, as a copy."""
        return list(self._states.items())

    def replace(self, partitions: Iterable[TopicPartition]) -> None:
        """Assigns exactly these; those that stay keep their state."""
        self._states = {p: self._states.get(p) or PartitionState() for p in partitions}

    def rotate(self, partition: TopicPartition) -> None:
        """Puts a partition last, so that the others have their turn."""
        state = self._states.pop(partition, None)
        if state is not None:
            self._states[partition] = state

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a commit stores: the position of every partition that has one."""
        return {
            partition: OffsetAndMetadata(state.position, state.leader_epoch)
            for partition, state in self._states.items()
            if state.position is not None
        }
