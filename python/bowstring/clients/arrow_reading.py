"""Reading as Arrow: what a consumer has fetched, decoded natively into one record batch a poll."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from bowstring._native.compression import CompressionError
from bowstring._native.record_types import CorruptBatch
from bowstring.clients import batches
from bowstring.clients.errors import ClosedError
from bowstring.clients.ownership import OneThread
from bowstring.clients.positions import PartitionState, Positions
from bowstring.clients.records import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from bowstring._native.arrow_decode import ArrowRows
    from bowstring.clients.arrow_columns import ArrowFormat
    from bowstring.clients.arrow_typed import TypedColumns, ValueFormat

# Enough for the cost of a poll not to count, little enough to stay in the processor's caches.
POLL_BYTES_MAX = 16 << 20
ROWS_MAX = (1 << 31) - 2


class ArrowReading:
    """Mixed into Consumer, which gives the positions and the clockwork."""

    _positions: Positions
    _owner: OneThread
    _check_crcs: bool
    _until: Callable[..., None]
    _formats: dict[tuple[tuple[str, ...] | None, str, str], ArrowFormat]
    _typed: dict[str, ValueFormat | None]
    _topic_numbers: dict[str, int]
    # Where the last poll began in the partitions that it took from.
    _taken: dict[TopicPartition, int]
    # Whether each batch is of one partition only, and which the last was.
    _one_partition = False
    taken_from: TopicPartition | None = None

    def _prepare_arrow(self, typed: dict[str, ValueFormat | None]) -> None:
        self._formats = {}
        self._typed = typed
        self._topic_numbers = {}
        self._taken = {}

    def poll_arrow(
        self,
        max_records: int | None = None,
        max_bytes: int | None = None,
        timeout: float = 1.0,
        *,
        columns: Iterable[str] | None = None,
        layout: str = "binary",
        timestamp_unit: str = "ms",
    ) -> pa.RecordBatch:
        """Records that have arrived, as one batch of columns; waits up to `timeout` seconds for the first.

        Positions, commits, groups, pauses and read_committed are as with `poll`. One batch may hold records
        of several partitions; those of one partition are in order.

        Args:
            max_records: most rows; None for as many as have arrived.
            max_bytes: most bytes of records as they are framed in their batches, though always one record;
                None for 16 MiB. Never more than 2 GiB, which is as far as Arrow's 32-bit offsets reach.
            columns: names out of topic, partition, offset, timestamp, timestamp_type, key, value, headers, in
                the order wanted; None for all of them. Others are not decoded.
            layout: "binary" copies keys and values once; "binary_view" points into the fetched bytes, which
                live as long as the batch.
            timestamp_unit: "ms" or "us".

        Returns:
            A pyarrow.RecordBatch, without rows when nothing came. The schema is that of
            `bowstring.clients.arrow_columns.schema`.

        Raises:
            MissingPackageError: pyarrow is not installed.
            OffsetOutOfRangeError, NoOffsetError: with auto_offset_reset="none".
            CorruptBatchError: a batch fails its CRC or cannot be decoded; what came before it was given
                first, and the position stays at it.
            ValueDecodeError: a value is bad, and its format has on_error="raise". Positions stay where the
                poll began, as they do when a DeadLetter cannot send: the next poll takes the same records.
            ClientError: what will not get better by polling again.

        Example:
            >>> batch = consumer.poll_arrow(columns=["offset", "value"], timeout=5)
            >>> batch.num_rows, batch.schema.names
            (3, ['offset', 'value'])
        """
        form = self._format(columns, layout, timestamp_unit)
        with self._owner:
            rows = form.rows(max_records or ROWS_MAX, max_bytes or POLL_BYTES_MAX)
            self._taken.clear()
            self._until(time.monotonic() + timeout, lambda: self._take_arrow(rows))
            batch = form.batch(rows, tuple(self._topic_numbers))
        typed = self._typed_columns(form)
        if typed is None:
            return batch
        try:
            return typed.batch(batch)
        except BaseException:
            self._take_back()
            raise

    def _take_back(self) -> None:
        """Goes back to where the last poll began, so that what was not handed out is not committed either."""
        with self._owner:
            for partition, position in self._taken.items():
                state = self._positions.get(partition)
                if state is not None:
                    state.seek(position)

    def to_reader(
        self,
        *,
        max_records: int | None = None,
        max_bytes: int | None = None,
        timeout: float | None = None,
        columns: Iterable[str] | None = None,
        layout: str = "binary",
        timestamp_unit: str = "ms",
    ) -> pa.RecordBatchReader:
        """The records to come as a stream of batches, each as `poll_arrow` gives them.

        DuckDB, Polars and pyarrow read it without copies, batch by batch. It ends when nothing has come for
        `timeout` seconds; None: when the consumer is closed. The position moves as batches are read.
        """
        from bowstring.clients.arrow_columns import pyarrow

        names = None if columns is None else tuple(columns)
        schema = self.arrow_schema(columns=names, layout=layout, timestamp_unit=timestamp_unit)

        def stream() -> Iterator[pa.RecordBatch]:
            while not self._owner.closed:
                try:
                    batch = self.poll_arrow(
                        max_records,
                        max_bytes,
                        1.0 if timeout is None else timeout,
                        columns=names,
                        layout=layout,
                        timestamp_unit=timestamp_unit,
                    )
                except ClosedError:
                    return
                if batch.num_rows:
                    yield batch
                elif timeout is not None:
                    return

        return pyarrow().RecordBatchReader.from_batches(schema, stream())

    def arrow_schema(
        self, *, columns: Iterable[str] | None = None, layout: str = "binary", timestamp_unit: str = "ms"
    ) -> pa.Schema:
        """The pyarrow.Schema of what `poll_arrow` gives for these arguments."""
        form = self._format(columns, layout, timestamp_unit)
        typed = self._typed_columns(form)
        return form.schema if typed is None else typed.schema

    def _typed_columns(self, form: ArrowFormat) -> TypedColumns | None:
        """What decodes keys and values, None if nothing does."""
        wanted = {name: each for name, each in self._typed.items() if each and name in form.schema.names}
        if not wanted:
            return None
        from bowstring.clients.arrow_typed import TypedColumns

        return TypedColumns(form.schema, wanted)

    def _format(self, columns: Iterable[str] | None, layout: str, timestamp_unit: str) -> ArrowFormat:
        from bowstring.clients.arrow_columns import ArrowFormat

        key = (None if columns is None else tuple(columns), layout, timestamp_unit)
        found = self._formats.get(key)
        if found is None:
            found = self._formats[key] = ArrowFormat(*key)
        return found

    def _take_arrow(self, rows: ArrowRows) -> bool:
        """Appends what is buffered to `rows` as far as there is room."""
        states = [item for item in self._positions.items() if not item[1].paused]
        reserve(rows, [state for _, state in states])
        for partition, state in states:
            state.forget_decoded()
            self._take_partition(rows, partition, state)
            if rows.full or (self._one_partition and rows.rows):
                self._positions.rotate(partition)
                break
        return rows.rows > 0

    def _take_partition(self, rows: ArrowRows, partition: TopicPartition, state: PartitionState) -> None:
        numbers = self._topic_numbers
        number = numbers.setdefault(partition.topic, len(numbers))
        while state.chunks and not rows.full:
            self.taken_from = partition
            chunk = state.chunks[0]
            if state.position is not None:
                self._taken.setdefault(partition, state.position)
            try:
                done, offset, resumed = rows.append(
                    chunk.data,
                    chunk.offset,
                    state.end_offset,
                    topic=number,
                    partition=partition.partition,
                    aborted=chunk.aborted,
                    verify_crc=self._check_crcs,
                    resumed=chunk.resumed,
                )
            except (CorruptBatch, CompressionError) as error:
                if rows.rows:
                    return  # what is good first; the next poll comes to the bad one again
                raise batches.undecodable(chunk, partition, error) from error
            state.position = offset
            if done >= len(chunk.data) or offset >= state.end_offset:
                state.take_chunk()
                state.position = max(offset, min(chunk.next_offset, state.end_offset))
            else:
                state.keep_rest(chunk._replace(data=chunk.data[done:], offset=offset, resumed=resumed))


def reserve(rows: ArrowRows, states: Iterable[PartitionState]) -> None:
    """Makes room at once for what is buffered: a compressed chunk grows further as it is decoded."""
    chunks = [chunk for state in states for chunk in state.chunks]
    rows.reserve(sum(chunk.record_count for chunk in chunks), sum(len(chunk.data) for chunk in chunks))
