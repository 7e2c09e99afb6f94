"""Keeps the state of a consumer in each assigned partition: position, buffer, paused."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from operator import length_hint
from typing import NamedTuple

from bowstring._native.client.window_counts import WindowCounts
from bowstring._native.record.decode import Aborted
from bowstring.clients.records import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    OffsetAndMetadata,
    Record,
    TopicPartition,
)

RESET_TIMESTAMPS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}

NO_END = (1 << 63) - 1

_epochs = itertools.count(1)
Epochs = dict[TopicPartition, int]


class Chunk(NamedTuple):
    """Fetched record batches that are not decoded yet.

    Attributes:
        data: the batches, as the broker stores them.
        offset: the requested start; the first batch may hold earlier records.
        next_offset: offset after the last batch.
        record_count: records in all batches, according to their headers.
        aborted: aborted transactions among them that are not processed yet (KIP-98); None for none.
        resumed: state from ArrowRows.append to continue inside the first batch.
        checked: whether the CRC of every batch is known to be right.
    """

    data: memoryview
    offset: int
    next_offset: int
    record_count: int
    aborted: Aborted | None = None
    resumed: tuple[bytes | None] | None = None
    checked: bool = False


class Undecoded(NamedTuple):
    """A key or value that does not decode.

    Attributes:
        at: index of its record in PartitionState.decoded; the record has the bytes.
        field: "key" or "value".
        reason: why, with the byte.
    """

    at: int
    field: str
    reason: str


class ReadReplica(NamedTuple):
    """The replica that the leader gave a consumer to read from (KIP-392).

    Attributes:
        leader_epoch: of that leader; another leader must choose anew.
        until: time of `time.monotonic` at which the leader must choose again.
    """

    broker_id: int
    leader_epoch: int
    until: float


class PartitionState:
    """A consumer's state in a partition while it is assigned.

    `position` is the offset of the next record to return, None until it is known; `fetch_offset` is ahead of
    it by the buffered records. Offsets from `end_offset` on are not fetched.

    `epoch` differs between assignments and changes with every seek and reset. An answer counts only if the
    epoch has not changed since the request; `asked` means that a request for the position is in flight.

    `unless_committed` is where to read if the group has no offset of the partition; None: as by policy.

    `replica` is fetched from instead of the leader. After an error nothing is requested until `retry_at`, or
    until metadata is newer than `retry_version`.
    """

    __slots__ = (
        "_poll_number",
        "_position",
        "_reader",
        "_reading",
        "_unfinished",
        "asked",
        "buffered_bytes",
        "chunks",
        "decoded",
        "decoded_at",
        "decoded_next_offset",
        "decoded_times",
        "end_offset",
        "epoch",
        "fetch_offset",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "paused",
        "replica",
        "reset_timestamp",
        "retry_at",
        "retry_version",
        "undecoded",
        "unless_committed",
    )

    def __init__(self) -> None:
        self._position: int | None = None
        self._reading: list[Record] = []
        self._reader: Iterator[Record] | None = None
        self._poll_number = -1
        self._unfinished = -1
        self.epoch = next(_epochs)
        self.asked = False
        self.fetch_offset = -1
        self.end_offset = NO_END
        self.reset_timestamp: int | None = None
        self.paused = False
        self.chunks: deque[Chunk] = deque()
        self.buffered_bytes = 0
        self.decoded: list[Record] = []
        self.decoded_at = 0
        self.decoded_next_offset = -1
        # Smallest and largest timestamp of the records that were decoded last.
        self.decoded_times = (0, 0)
        self.undecoded: deque[Undecoded] = deque()
        self.leader_epoch = -1
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.replica: ReadReplica | None = None
        self.retry_at = 0.0
        self.retry_version = -1
        self.unless_committed: int | None = None

    # ------------------------------------------------------------ moving

    @property
    def position(self) -> int | None:
        """Offset of the next record to return; None while unknown."""
        if self._reader is None or not (left := length_hint(self._reader)):
            return self._position
        return self._reading[-left].offset

    @position.setter
    def position(self, offset: int) -> None:
        self._position = offset

    def seek(self, offset: int) -> None:
        """Moves to `offset` and drops buffered records."""
        self.drop_buffer()
        self._position = offset
        self.fetch_offset = offset
        self.reset_timestamp = None
        self._ask_anew()

    def reset(self, timestamp: int) -> None:
        """Requests a lookup of the position by `timestamp`, which may be a special one."""
        self.drop_buffer()
        self._position = None
        self.reset_timestamp = timestamp
        self._ask_anew()

    def ask_committed(self, otherwise: int) -> None:
        """Requests the position from the group's offsets; without one, moves to `otherwise`."""
        self.drop_buffer()
        self._position = None
        self.reset_timestamp = None
        self._ask_anew()
        self.unless_committed = otherwise

    def _ask_anew(self) -> None:
        self.unless_committed = None
        self.epoch = next(_epochs)
        self.asked = False

    def drop_buffer(self) -> None:
        """Drops buffered records."""
        self.end_iteration()
        self.chunks.clear()
        self.buffered_bytes = 0
        self.decoded = []
        self.decoded_at = 0
        self.undecoded.clear()

    def forget_decoded(self) -> None:
        """Drops decoded records that `poll` has not returned, so that other ways of reading fetch them
        again.
        """
        if self.decoded and self._position is not None:
            self.seek(self._position)

    # ------------------------------------------------------------ returning records

    def begin(self, poll_number: int) -> None:
        """Marks the start of a poll, which returns records from the position on."""
        if self._poll_number != poll_number and self._position is not None:
            self._poll_number = poll_number
            self._unfinished = self._position

    def take_decoded(self, most: int) -> list[Record]:
        """Returns the next decoded records, at most `most`; the position is then after them. Stops before one
        that does not decode; `undecoded_record` is None at the start.
        """
        if self.undecoded:
            most = min(most, self.undecoded[0].at - self.decoded_at)
        taken = self.decoded[self.decoded_at : self.decoded_at + most]
        self.decoded_at += len(taken)
        self._position = taken[-1].offset + 1
        if self.decoded_at >= len(self.decoded):
            self._position = self.decoded_next_offset
            self.decoded = []
            self.decoded_at = 0
        return taken

    @property
    def undecoded_record(self) -> tuple[Record, Undecoded] | None:
        """The next record, if its key or value does not decode."""
        if not self.undecoded or self.undecoded[0].at != self.decoded_at:
            return None
        return self.decoded[self.decoded_at], self.undecoded[0]

    def undecoded_run(self) -> list[tuple[Record, Undecoded]]:
        """Returns the records from the next one on that do not decode, each with its first reason."""
        found: list[tuple[Record, Undecoded]] = []
        for each in self.undecoded:
            if each.at == self.decoded_at + len(found):
                found.append((self.decoded[each.at], each))
            elif each.at > self.decoded_at + len(found):
                break
        return found

    def pass_undecoded(self) -> Record:
        """Takes the next record, which does not decode, with its bytes; the position is then after it."""
        at = self.undecoded[0].at
        while self.undecoded and self.undecoded[0].at == at:
            self.undecoded.popleft()
        return self.take_decoded(1)[0]

    def read_decoded(self, most: int) -> Iterator[Record]:
        """Yields the same records one by one; the position follows each record. `end_iteration` ends it."""
        self._reading = self.take_decoded(most)
        self._reader = iter(self._reading)
        return self._reader

    def given(self) -> list[Record]:
        """Returns the records that were yielded since `read_decoded`."""
        if self._reader is None:
            return []
        return self._reading[: len(self._reading) - length_hint(self._reader)]

    @property
    def has_given_all(self) -> bool:
        """Whether `given` returns the last of the decoded records."""
        return not self.is_decoded and (self._reader is None or not length_hint(self._reader))

    def end_iteration(self) -> None:
        """Ends reading one by one: records that were not yielded stay decoded."""
        if self._reader is None:
            return
        position, left = self.position, length_hint(self._reader)
        if given := len(self._reading) - left:
            self._unfinished = max(self._unfinished, self._reading[given - 1].offset)
        if self.decoded_at:
            self.decoded_at -= left
        elif left:
            self.decoded = self._reading[-left:]
        self._reading.clear()  # ends the iterator
        self._reader = None
        self._position = position

    def finished(self, poll_number: int) -> int | None:
        """Returns the position, but not beyond the first record that the poll with this number returned."""
        position = self.position
        if position is None or self._poll_number != poll_number:
            return position
        begun = self._unfinished
        if self._reader is not None and (given := len(self._reading) - length_hint(self._reader)):
            begun = max(begun, self._reading[given - 1].offset)  # records before it are finished
        return min(position, begun)

    def begun(self, poll_number: int) -> int | None:
        """Returns the position at which the poll with this number began; None if it took nothing here."""
        return self._unfinished if self._poll_number == poll_number else None

    def said_finished(self, offset: int) -> None:
        """Marks records below `offset` as finished, because the caller committed it."""
        self._unfinished = max(self._unfinished, offset)

    # ------------------------------------------------------------ buffering

    @property
    def has_buffered(self) -> bool:
        """Whether records can be returned without a request to a broker."""
        return bool(self.chunks) or self.is_decoded

    @property
    def is_decoded(self) -> bool:
        """Whether records can be returned without decoding."""
        return self.decoded_at < len(self.decoded)

    def buffer(self, chunk: Chunk) -> None:
        """Adds a fetched chunk."""
        self.chunks.append(chunk)
        self.buffered_bytes += len(chunk.data)
        self.fetch_offset = chunk.next_offset

    def keep_rest(self, rest: Chunk) -> None:
        """Replaces the oldest chunk by its rest."""
        self.buffered_bytes += len(rest.data) - len(self.chunks[0].data)
        self.chunks[0] = rest

    def put_back(self, chunk: Chunk) -> None:
        """Undoes `take_chunk`."""
        self.chunks.appendleft(chunk)
        self.buffered_bytes += len(chunk.data)

    def take_chunk(self) -> Chunk:
        """Removes and returns the oldest chunk."""
        chunk = self.chunks.popleft()
        self.buffered_bytes -= len(chunk.data)
        return chunk


class Positions:
    """The assigned partitions of one consumer and their states, in round-robin order.

    Records returned by a poll are finished when the next poll begins.
    """

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}
        self._read_one_by_one: PartitionState | None = None
        self.poll_number = 0
        # Of an audit: records that are read one by one are counted when that ends.
        self.counts: WindowCounts | None = None

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._states

    def __getitem__(self, partition: TopicPartition) -> PartitionState:
        return self._states[partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)

    def get(self, partition: TopicPartition) -> PartitionState | None:
        """Returns the state, None when the partition is not assigned."""
        return self._states.get(partition)

    def items(self) -> list[tuple[TopicPartition, PartitionState]]:
        """Returns a copy of partitions and states."""
        return list(self._states.items())

    def replace(self, partitions: Iterable[TopicPartition]) -> None:
        """Assigns exactly these partitions; those that were assigned before keep their state."""
        before = self._states
        self._states = {p: before.get(p) or PartitionState() for p in partitions}
        for partition, state in before.items():
            if partition not in self._states:
                state.drop_buffer()

    def rotate(self, partitions: Iterable[TopicPartition]) -> None:
        """Moves partitions to the end of the order."""
        for partition in partitions:
            state = self._states.pop(partition, None)
            if state is not None:
                self._states[partition] = state

    # ------------------------------------------------------------ requests

    def ask(self, partitions: Iterable[TopicPartition]) -> Epochs:
        """Marks these partitions as requested; returns their epochs, to be compared with the answer."""
        for partition in partitions:
            self._states[partition].asked = True
        return self.epochs(partitions)

    def epochs(self, partitions: Iterable[TopicPartition]) -> Epochs:
        """Returns the epochs to compare an answer about these partitions with."""
        return {partition: self._states[partition].epoch for partition in partitions}

    def answered(self, asked: Epochs) -> dict[TopicPartition, PartitionState]:
        """Returns the partitions whose answer still counts: assigned, and not sought or reset since the
        request.
        """
        found = {}
        for partition, epoch in asked.items():
            state = self._states.get(partition)
            if state is not None and state.epoch == epoch:
                state.asked = False
                found[partition] = state
        return found

    # ------------------------------------------------------------ returning records

    def begin_poll(self) -> None:
        """Starts a poll: all records returned before are finished."""
        self.end_iteration()
        self.poll_number += 1

    def read_one_by_one(self, state: PartitionState, most: int) -> Iterator[Record]:
        """Yields decoded records of a partition; the position follows each."""
        self.end_iteration()
        self._read_one_by_one = state
        return state.read_decoded(most)

    def end_iteration(self) -> None:
        """Ends reading one by one; the next call returns the remaining records."""
        state, self._read_one_by_one = self._read_one_by_one, None
        if state is not None:
            if self.counts is not None:
                self.counts.note_records(state.given(), state.decoded_times, state.has_given_all)
                self.counts.keep()
            state.end_iteration()

    def take_back(self) -> None:
        """Moves each partition back to its first unfinished record, which is returned again."""
        self.end_iteration()
        for state in self._states.values():
            finished = state.finished(self.poll_number)
            if finished is not None and finished != state.position:
                state.seek(finished)

    # ------------------------------------------------------------ committing

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the offsets that an explicit commit stores: the position of every partition that has
        one.
        """
        return {
            partition: OffsetAndMetadata(state.position, state.leader_epoch)
            for partition, state in self._states.items()
            if state.position is not None
        }

    def taken(self) -> dict[TopicPartition, int]:
        """Returns where the last poll began, by partition of its records."""
        return {
            partition: begun
            for partition, state in self._states.items()
            if (begun := state.begun(self.poll_number)) is not None
        }

    def finished(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the offsets that an automatic commit stores: like `consumed`, but without the records of
        the last poll.
        """
        return {
            partition: OffsetAndMetadata(offset, state.leader_epoch)
            for partition, state in self._states.items()
            if (offset := state.finished(self.poll_number)) is not None
        }

    def said_finished(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Marks records below these offsets as finished, because the caller committed them."""
        for partition, committed in offsets.items():
            state = self._states.get(partition)
            if state is not None:
                state.said_finished(committed.offset)
