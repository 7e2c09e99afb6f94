"""Implements Consumer's methods for records: poll by poll, one by one, or as fetched batches."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from bowstring._native.client.window_counts import WindowCounts
from bowstring.clients.arrow.typed_values import ObjectDecoders
from bowstring.clients.consumer import record_batches
from bowstring.clients.consumer.partition_state import Chunk, PartitionState, Positions
from bowstring.clients.consumer.undecodable import Undecodables
from bowstring.clients.errors import CorruptBatchError
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.records import Record, TopicPartition
from bowstring.clients.single_thread import SingleThread
from bowstring.clients.timeouts import most_records, seconds

if TYPE_CHECKING:
    from bowstring.clients.arrow.typed_values import ValueFormat

ITERATION_WAIT_S = 1.0
# Records whose objects are made at once.
OBJECTS_AT_ONCE = 500


class RawBatches(NamedTuple):
    """Fetched record batches, not decompressed and not decoded.

    The first batch may hold records below `offset`; `record_count` includes them.
    """

    topic: str
    partition: int
    offset: int
    next_offset: int
    record_count: int
    data: memoryview


class RecordReading:
    """Mixed into Consumer, which provides positions and steps."""

    _client: NetworkClient
    _positions: Positions
    _owner: SingleThread
    _check_crcs: bool
    _max_decompressed_batch_bytes: int
    _max_poll_records: int
    _objects: ObjectDecoders
    _undecodables: Undecodables
    _woken = False
    _until: Callable[..., None]
    _begin_poll: Callable[[], None]
    _counts: WindowCounts | None
    _count_kept: Callable[[], None]

    def _prepare_objects(self, key: ValueFormat | None, value: ValueFormat | None) -> None:
        self._objects = ObjectDecoders(key, value)

    def poll(self, timeout: float | None = 1.0, *, max_records: int | None = None) -> list[Record]:
        """Returns records that have arrived; waits for the first up to `timeout` seconds, with None or -1
        without limit.

        The call finishes the records of earlier polls: automatic commits include them.

        Args:
            timeout: seconds to wait for the first record; 0 does not wait.
            max_records: most records, by default the consumer's max_poll_records.

        Raises:
            OffsetOutOfRangeError, NoOffsetError: with auto_offset_reset="none".
            CorruptBatchError: a batch fails its CRC or cannot be decoded; records before it came first. The
                message names the offset to seek to.
            UndecodableRecordError: a key or value does not decode with the consumer's format; records before
                it came first. The message names the offset to seek to.
            ClientError: an error that another poll cannot solve.
        """
        limit = most_records(max_records, self._max_poll_records)
        deadline = time.monotonic() + seconds(timeout)
        with self._owner:
            records: list[Record] = []
            self._begin_poll()
            self._until(deadline, lambda: self._take(limit, records))
            self._count_kept()
            return records

    def poll_batches(self, timeout: float | None = 1.0) -> list[RawBatches]:
        """Returns arrived batches undecoded: the fast way to copy, count or forward records.

        Moves positions past the result. Raises like `poll`.

        Args:
            timeout: seconds to wait for the first batch; None or -1 waits without limit.
        """
        deadline = time.monotonic() + seconds(timeout)
        with self._owner:
            taken: list[RawBatches] = []
            self._begin_poll()
            self._until(deadline, lambda: self._take_raw(taken))
            if self._counts is not None:
                for each in taken:
                    self._counts.note_encoded(each.topic, each.data, each.offset)
                self._count_kept()
            return taken

    def await_records(self, timeout: float | None = 1.0) -> bool:
        """Waits up to `timeout` seconds; returns whether a poll would return records. Does not move
        positions.

        As with `poll`, records returned before are finished. Raises like `poll`.

        Args:
            timeout: seconds; None or -1 waits without limit.
        """
        deadline = time.monotonic() + seconds(timeout)
        with self._owner:
            self._begin_poll()
            self._until(deadline, self._has_buffered)
            return self._has_buffered()

    def _has_buffered(self) -> bool:
        return any(not state.paused and state.has_buffered for _, state in self._positions.items())

    def wakeup(self) -> None:
        """Makes a poll that waits in another thread, or else the next one, return at once with what it
        has.
        """
        self._woken = True
        self._client.wakeup()

    def __iter__(self) -> Iterator[Record]:
        """Yields records without end, one at a time; ends when the consumer is closed meanwhile.

        The position is after each record when it is yielded: leaving the loop loses no record, and a commit
        inside the loop stores only records that were yielded. A record is finished when the next one is
        requested.
        """
        return itertools.chain.from_iterable(self._one_by_one())

    def _one_by_one(self) -> Iterator[Iterator[Record]]:
        """Yields runs of records of one partition, each at most max_poll_records long.

        A seek, a pause or another poll inside the loop ends the run.
        """
        while not self._owner.closed:
            found: list[Iterator[Record]] = []
            with self._owner:
                self._begin_poll()
                self._until(time.monotonic() + ITERATION_WAIT_S, lambda to=found: self._take_stretch(to))
            yield from found

    # ------------------------------------------------------------ taking what is buffered

    def _take(self, limit: int, records: list[Record]) -> bool:
        served = []
        for partition, state in self._positions.items():
            if state.paused or not state.has_buffered:
                continue
            before = len(records)
            try:
                full = self._take_partition_records(partition, state, limit, records)
            except Exception:  # also of a dead-letter topic, or of a registry
                if not records:
                    raise
                full = True  # return the good records first; the next poll reaches the bad one again
            except BaseException:  # an interrupt, while a dead-letter topic takes records
                self._positions.take_back()
                raise
            if len(records) > before:
                served.append(partition)
            if full:
                break
        self._positions.rotate(served)
        return bool(records)

    def _take_partition_records(
        self, partition: TopicPartition, state: PartitionState, limit: int, records: list[Record]
    ) -> bool:
        """Takes records of one partition; returns whether the poll has enough. Stops before a large chunk of
        undecoded bytes if the poll already has records: decoding many records in advance costs more (cache
        misses) than another poll.
        """
        whole = self._objects.are_bytes
        state.begin(self._positions.poll_number)
        while len(records) < limit:
            unread = 0 if state.is_decoded or not state.chunks else state.chunks[0].record_count
            if whole and records and unread > limit - len(records):
                return True
            if not self._decode(partition, state):
                return False
            taken = state.take_decoded(limit - len(records))
            if self._counts is not None:
                self._counts.note_records(taken, state.decoded_times, not state.is_decoded)
            records += taken
        return True

    def _pass_undecoded(self, state: PartitionState) -> None:
        """Deals with records at the position that do not decode.

        Raises:
            UndecodableRecordError: the next record does not decode; it stays the next one.
        """
        if state.undecoded:
            self._undecodables.passes(state)

    def _take_stretch(self, found: list[Iterator[Record]]) -> bool:
        for partition, state in self._positions.items():
            if not state.paused and self._decode(partition, state):
                state.begin(self._positions.poll_number)
                found.append(self._positions.read_one_by_one(state, self._max_poll_records))
                self._positions.rotate([partition])
                return True
        return False

    def _decode(self, partition: TopicPartition, state: PartitionState) -> bool:
        """Returns whether there are decoded records; decodes a chunk if none are left, of objects
        OBJECTS_AT_ONCE.

        Raises:
            CorruptBatchError: the next batch is bad; it stays buffered.
            UndecodableRecordError: the next record does not decode; it stays the next one.
        """
        self._pass_undecoded(state)
        while not state.is_decoded and state.chunks:
            chunk = record_batches.take_good(state, self._check_crcs, partition)
            rest: Chunk | None = chunk
            try:
                if self._objects.are_bytes:
                    state.decoded, next_offset, state.decoded_times, rest = record_batches.decode(
                        chunk, partition, self._max_decompressed_batch_bytes
                    )
                else:
                    state.decoded, next_offset, state.decoded_times, rest, undecoded = (
                        record_batches.decode_objects(
                            chunk,
                            partition,
                            self._max_decompressed_batch_bytes,
                            self._objects.of(partition.topic),
                            OBJECTS_AT_ONCE,
                        )
                    )
                    state.undecoded.extend(undecoded)
            finally:
                if rest is not None:
                    state.put_back(rest)
            state.decoded_at = 0
            state.decoded_next_offset = next_offset
            self._pass_undecoded(state)
            if not state.decoded:
                state.position = next_offset
        return state.is_decoded

    def _take_raw(self, taken: list[RawBatches]) -> bool:
        for partition, state in self._positions.items():
            if state.paused:
                continue
            state.forget_decoded()
            state.begin(self._positions.poll_number)
            while state.chunks:
                try:
                    chunk = record_batches.take_good(state, self._check_crcs, partition)
                except CorruptBatchError:
                    if taken:
                        return True  # return the good records first; the next call reaches the bad one again
                    raise
                taken.append(
                    RawBatches(*partition, chunk.offset, chunk.next_offset, chunk.record_count, chunk.data)
                )
                state.position = chunk.next_offset
        return bool(taken)
