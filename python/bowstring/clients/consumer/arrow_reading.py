"""Implements reading as Arrow: decodes fetched records in native code into one record batch per poll."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from bowstring._native.record.compression import CompressionError
from bowstring._native.record.types import CorruptBatch
from bowstring.clients.choices import Layout, TimestampUnit
from bowstring.clients.consumer import record_batches
from bowstring.clients.consumer.partition_state import PartitionState, Positions
from bowstring.clients.errors import ClosedError
from bowstring.clients.records import TopicPartition
from bowstring.clients.single_thread import SingleThread
from bowstring.clients.timeouts import most_records, seconds

if TYPE_CHECKING:
    import pyarrow as pa

    from bowstring._native.arrow.decode import ArrowRows
    from bowstring._native.client.window_counts import WindowCounts
    from bowstring.clients.arrow.arrow_format import ArrowFormat
    from bowstring.clients.arrow.typed_values import TypedColumns, ValueFormat

# Large enough to make the cost of a poll negligible, small enough for the processor's caches.
POLL_BYTES_MAX = 16 << 20
ROWS_MAX = (1 << 31) - 2


class ArrowReading:
    """Mixed into Consumer, which provides positions and steps."""

    _positions: Positions
    _owner: SingleThread
    _check_crcs: bool
    _max_decompressed_batch_bytes: int
    _until: Callable[..., None]
    _begin_poll: Callable[[], None]
    take_back: Callable[[], None]
    subscription: Callable[[], set[str]]
    _counts: WindowCounts | None
    _window_ms: int
    _count_kept: Callable[[], None]
    _count_dropped: Callable[[], None]
    _formats: dict[tuple[tuple[str, ...] | None, Layout, TimestampUnit], ArrowFormat]
    _typed: dict[str, ValueFormat | None]
    _topic_numbers: dict[str, int]
    # Whether each batch holds a single partition, and which one the last batch held.
    _one_partition = False
    taken_from: TopicPartition | None = None

    def _prepare_arrow(self, typed: dict[str, ValueFormat | None]) -> None:
        self._formats = {}
        self._typed = typed
        self._topic_numbers = {}

    def poll_arrow(
        self,
        timeout: float | None = 1.0,
        *,
        max_records: int | None = None,
        max_bytes: int | None = None,
        columns: Iterable[str] | None = None,
        layout: Layout = "binary",
        timestamp_unit: TimestampUnit = "ms",
    ) -> pa.RecordBatch:
        """Returns records that have arrived, as one batch of columns; waits up to `timeout` seconds for the
        first.

        Positions, commits, groups, pauses and read_committed work as with `poll`. One batch may hold records
        of several partitions; those of one partition are in order.

        Args:
            timeout: seconds to wait for the first record; None or -1 waits without limit.
            max_records: most rows; None for as many as have arrived.
            max_bytes: most bytes of records as framed in their batches, but at least one record; None for 16
                MiB. At most 2 GiB, the limit of Arrow's 32-bit offsets.
            columns: names from topic, partition, offset, timestamp, timestamp_type, key, value, headers, in
                the requested order; None for all of them. Other columns are not decoded.
            layout: "binary" copies keys and values once; "binary_view" points into the fetched bytes, which
                live as long as the batch.
            timestamp_unit: "ms" or "us".

        Returns:
            A pyarrow.RecordBatch, without rows when no records came. The schema is that of
            `bowstring.clients.arrow.arrow_format.schema`.

        Raises:
            MissingPackageError: pyarrow is not installed.
            OffsetOutOfRangeError, NoOffsetError: with auto_offset_reset="none".
            CorruptBatchError: a batch fails its CRC or cannot be decoded. Records before it are returned
                first, and the position stays at it.
            ValueDecodeError: a value is bad, and its format has on_error="raise". Positions stay where the
                poll began, also when a DeadLetter cannot send: the next poll returns the same records.
            ClientError: an error that another poll cannot solve.

        Examples:
            >>> batch = consumer.poll_arrow(columns=["offset", "value"], timeout=5)
            >>> batch.num_rows, batch.schema.names
            (3, ['offset', 'value'])
        """
        form = self._format(columns, layout, timestamp_unit)
        typed = self._typed_columns(form)
        if typed is not None:
            form = self._format(typed.columns_to_read, layout, timestamp_unit)
        rows = form.rows(most_records(max_records, ROWS_MAX), max_bytes or POLL_BYTES_MAX, self._window_ms)
        deadline = time.monotonic() + seconds(timeout)
        with self._owner:
            self._begin_poll()
            self._until(deadline, lambda: self._take_arrow(rows))
            batch = form.batch(rows, tuple(self._topic_numbers))
        return self._decoded(batch, typed)

    def _decoded(self, batch: pa.RecordBatch, typed: TypedColumns | None) -> pa.RecordBatch:
        """Decodes keys and values; records that are not returned must not be committed or counted."""
        try:
            found = batch if typed is None else typed.batch(batch)
        except BaseException:
            self._count_dropped()
            self.take_back()
            raise
        self._count_kept()
        return found

    def to_reader(
        self,
        *,
        max_records: int | None = None,
        max_bytes: int | None = None,
        timeout: float | None = None,
        columns: Iterable[str] | None = None,
        layout: Layout = "binary",
        timestamp_unit: TimestampUnit = "ms",
    ) -> pa.RecordBatchReader:
        """Returns future records as a stream of batches, each like the result of `poll_arrow`.

        DuckDB, Polars and pyarrow read it without copies, batch by batch. It ends when no records have come
        for `timeout` seconds; with None, when the consumer is closed. The position moves as batches are read.

        Args:
            timeout: seconds without records after which the stream ends.
            max_records, max_bytes: most rows and bytes of one batch, as for `poll_arrow`.
            columns, layout, timestamp_unit: as for `poll_arrow`.
        """
        from bowstring.clients.arrow.arrow_format import pyarrow

        names = None if columns is None else tuple(columns)
        schema = self.arrow_schema(columns=names, layout=layout, timestamp_unit=timestamp_unit)

        def stream() -> Iterator[pa.RecordBatch]:
            while not self._owner.closed:
                try:
                    batch = self.poll_arrow(
                        1.0 if timeout is None else timeout,
                        max_records=max_records,
                        max_bytes=max_bytes,
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
        self,
        *,
        columns: Iterable[str] | None = None,
        layout: Layout = "binary",
        timestamp_unit: TimestampUnit = "ms",
    ) -> pa.Schema:
        """Returns the pyarrow.Schema of `poll_arrow` for these arguments.

        Args:
            columns, layout, timestamp_unit: as for `poll_arrow`.
        """
        form = self._format(columns, layout, timestamp_unit)
        typed = self._typed_columns(form)
        return form.schema if typed is None else typed.schema

    def _typed_columns(self, form: ArrowFormat) -> TypedColumns | None:
        """Returns the decoder of keys and values, None without one."""
        wanted = {name: each for name, each in self._typed.items() if each and name in form.schema.names}
        if not wanted:
            return None
        from bowstring.clients.arrow.typed_values import TypedColumns, format_for

        topics = self._topics_read()
        return TypedColumns(
            form.schema, {name: format_for(each, topics, name) for name, each in wanted.items()}
        )

    def _topics_read(self) -> tuple[str, ...]:
        """Returns the topics that are subscribed, else those that are assigned."""
        names = self.subscription() or {partition.topic for partition, _ in self._positions.items()}
        return tuple(sorted(names))

    def _format(
        self, columns: Iterable[str] | None, layout: Layout, timestamp_unit: TimestampUnit
    ) -> ArrowFormat:
        from bowstring.clients.arrow.arrow_format import ArrowFormat

        key = (None if columns is None else tuple(columns), layout, timestamp_unit)
        found = self._formats.get(key)
        if found is None:
            found = self._formats[key] = ArrowFormat(*key)
        return found

    def _take_arrow(self, rows: ArrowRows) -> bool:
        """Appends buffered records to `rows` while there is room."""
        states = [item for item in self._positions.items() if not item[1].paused]
        reserve(rows, [state for _, state in states])
        served = []
        for partition, state in states:
            state.forget_decoded()
            if not state.chunks:
                continue
            state.begin(self._positions.poll_number)
            served.append(partition)
            self._take_partition(rows, partition, state)
            if self._counts is not None:
                self._counts.note_runs(partition.topic, rows.take_counts())
            if rows.full or (self._one_partition and rows.rows):
                break
        self._positions.rotate(served)
        return rows.rows > 0

    def _take_partition(self, rows: ArrowRows, partition: TopicPartition, state: PartitionState) -> None:
        numbers = self._topic_numbers
        number = numbers.setdefault(partition.topic, len(numbers))
        while state.chunks and not rows.full:
            self.taken_from = partition
            chunk = state.chunks[0]
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
                    limit=self._max_decompressed_batch_bytes,
                )
            except (CorruptBatch, CompressionError) as error:
                if rows.rows:
                    return  # return the good records first; the next poll reaches the bad one again
                raise record_batches.undecodable(chunk, partition, error) from error
            state.position = offset
            if done >= len(chunk.data) or offset >= state.end_offset:
                state.take_chunk()
                state.position = max(offset, min(chunk.next_offset, state.end_offset))
            else:
                state.keep_rest(chunk._replace(data=chunk.data[done:], offset=offset, resumed=resumed))


def reserve(rows: ArrowRows, states: Iterable[PartitionState]) -> None:
    """Reserves memory at once for buffered records; a compressed chunk grows further during decoding."""
    chunks = [chunk for state in states for chunk in state.chunks]
    # Headers may lie about their number of records.
    count = sum(min(chunk.record_count, len(chunk.data)) for chunk in chunks)
    rows.reserve(count, sum(len(chunk.data) for chunk in chunks))
