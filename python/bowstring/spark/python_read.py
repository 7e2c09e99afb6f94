"""Runs a task of the Python engine: reads a range of offsets and gives Spark the requested columns.

Runs in an executor's Python worker; Python code runs per batch only.
"""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import StructType

from bowstring._native.client.window_counts import WindowCounts
from bowstring.clients.consumer.range_reader import BoundedConsumer
from bowstring.clients.errors import OffsetOutOfRangeError
from bowstring.clients.records import EARLIEST_TIMESTAMP, TopicPartition
from bowstring.spark.offsets import DataLossError, OffsetPlanner
from bowstring.spark.options import ReadOptions
from bowstring.spark.ranges import OffsetRange
from bowstring.spark.row_schema import arrow_schema
from bowstring.spark.task_names import CLIENT_ID

if TYPE_CHECKING:
    from bowstring.spark.task_counts import TaskReports
    from bowstring.spark.values import ValueDecoder

log = logging.getLogger("bowstring.spark")

# The clients' column by Spark's name. Topic and partition are constant in a range.
READ_COLUMNS = {
    "key": "key",
    "value": "value",
    "offset": "offset",
    "timestamp": "timestamp",
    "timestampType": "timestamp_type",
    "headers": "headers",
}
ROWS_MAX = 65_536

kept_consumers: dict[str, BoundedConsumer] = {}
kept_reports: dict[str, TaskReports] = {}


def read_range(
    options: ReadOptions, wanted: StructType, offsets: OffsetRange, counts: WindowCounts | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields batches with exactly the columns of `wanted`, in order of offset.

    Args:
        counts: counts the records that were read; None: they are not counted.

    Raises:
        DataLossError: the range begins before the log, and failOnDataLoss is true.
        ClientError: errors of reading.
    """
    fused = None
    if options.shape.fused is not None:
        from bowstring.spark.fused import partial_result, unpack

        fused = unpack(options.shape.fused)
        if fused.aggregate:
            yield from partial_result(
                fused, arrow_schema(wanted), raw_batches(options, fused.columns, offsets, counts)
            )
            return
    columns = Columns(options, wanted, offsets)
    needed = columns.names | (fused.columns if fused is not None else set())
    for batch in raw_batches(options, needed, offsets, counts):
        left = batch if fused is None else fused.filter(batch)
        if left.num_rows:
            yield columns.convert(left)


def counted_range(
    options: ReadOptions, wanted: StructType, offsets: OffsetRange, read: str
) -> Iterator[pa.RecordBatch]:
    """Does the same as `read_range`, and reports the records to the audit of counts, if there is one.

    A range counts when it was read to its end: several jobs may read it, in any order, and the last report
    is the one that stays in the topic.

    Args:
        read: names the source: that of the streaming query, or of the batch query.
    """
    if options.audit is None:
        yield from read_range(options, wanted, offsets)
        return
    counts = WindowCounts(options.audit.window_ms, staging=True)
    yield from read_range(options, wanted, offsets, counts)
    _report(options, offsets, read, counts)


def _report(options: ReadOptions, offsets: OffsetRange, read: str, counts: WindowCounts) -> None:
    from bowstring.clients.producer.count_reporter import Counted
    from bowstring.spark.task_counts import TaskReports, taken

    assert options.audit is not None
    client = options.configs.get("client_id", CLIENT_ID)
    security = options.configs.get("security")
    key = repr([options.audit, options.group, client, options.bootstrap_servers, dict(security or {})])
    reports = kept_reports.get(key)
    if reports is None:
        who = Counted("consumer", client, options.group)
        reports = TaskReports(options.audit, who, options.bootstrap_servers, security)
        kept_reports[key] = reports
    reports.report(f"{read}.{offsets.partition}.{offsets.start}", taken(counts))


def raw_batches(
    options: ReadOptions, names: set[str], offsets: OffsetRange, counts: WindowCounts | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the clients' batches of a range; skips missing records when failOnDataLoss is false."""
    # Without any column the row count is still needed; offsets are the cheapest column.
    form = {"columns": tuple(sorted(names)) or ("offset",), "layout": "binary", "timestamp_unit": "us"}
    partition = TopicPartition(offsets.topic, offsets.partition)
    start = offsets.start
    while start < offsets.end:
        with connected(options) as consumer:
            consumer.count_into(counts)
            try:
                consumer.restrict({partition: (start, offsets.end)})
                yield from consumer.batches(ROWS_MAX, **form)
                return
            except OffsetOutOfRangeError:
                start = _first_left(options, offsets, consumer.positions()[partition])


@contextmanager
def connected(options: ReadOptions) -> Iterator[BoundedConsumer]:
    """Returns a consumer with open connections from an earlier task of this worker, or a new one.

    Spark runs one task at a time in a worker, and ends idle workers. A consumer of a task that fails or ends
    early is closed.
    """
    key = json.dumps([options.bootstrap_servers, options.configs], sort_keys=True)
    configs = {"client_id": CLIENT_ID, **options.configs}
    consumer = kept_consumers.pop(key, None) or BoundedConsumer(options.bootstrap_servers, {}, **configs)
    try:
        yield consumer
        consumer.assign([])
    except BaseException:
        consumer.close()
        raise
    kept_consumers[key] = consumer


def _first_left(options: ReadOptions, offsets: OffsetRange, position: int) -> int:
    """Returns where to continue after retention deleted the offset `position`."""
    partition = TopicPartition(offsets.topic, offsets.partition)
    planner = OffsetPlanner(options)
    try:
        first = planner.ends([partition], EARLIEST_TIMESTAMP)[partition]
    finally:
        planner.close()
    what = f"offset {position} of {partition} was deleted: the log begins at {first}"
    if options.fail_on_data_loss:
        raise DataLossError(what)
    log.warning("%s; some data may have been lost", what)
    return max(first, position) if first > position else offsets.end


class Columns:
    """Converts the clients' batches of one range to Spark's.

    Args:
        wanted: the columns that Spark requested; names and types must match exactly.

    Attributes:
        names: the clients' columns that are needed.
    """

    def __init__(self, options: ReadOptions, wanted: StructType, offsets: OffsetRange):
        self._schema = arrow_schema(wanted)
        self._constants: dict[str, Any] = {"topic": offsets.topic, "partition": offsets.partition}
        self._repeated: dict[tuple[str, str | int], pa.Array] = {}
        self._decoder: ValueDecoder | None = None
        asked = set(self._schema.names)
        if options.shape.value_options:
            from bowstring.spark.values import decoder

            self._decoder = decoder(options.shape.value_options)
            asked = (asked - {"value"}) | ({"value"} if asked & set(self._decoder.names) else set())
            if self._decoder.on_error == "failfast":
                asked.add("offset")
            if self._decoder.needs_headers and "value" in asked:
                asked.add("headers")
        self.names = {READ_COLUMNS[name] for name in asked if name in READ_COLUMNS}

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Converts one batch."""
        decoded: dict[str, pa.Array] = {}
        if self._decoder is not None and "value" in self.names:
            headers = batch.column("headers") if self._decoder.needs_headers else None
            record = partial(self._record, batch)
            decoded, keep = self._decoder.decode(batch.column("value"), headers, record)
            if keep is not None:
                batch = batch.filter(keep)
                decoded = {name: array.filter(keep) for name, array in decoded.items()}
        arrays = []
        for field in self._schema:
            if field.name in decoded:
                array = decoded[field.name]
            elif field.name in self._constants:
                array = self._constant(field.name, self._constants[field.name], batch.num_rows)
            elif field.name == "timestampType":
                array = self._timestamp_type(batch.column("timestamp_type"))
            elif field.name == "headers":
                array = _null_if_empty(batch.column("headers"))
            else:
                array = batch.column(READ_COLUMNS[field.name])
            arrays.append(array if array.type == field.type else array.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _record(self, batch: pa.RecordBatch, row: int) -> str:
        place = "{topic}-{partition}".format(**self._constants)
        return f"{place} at offset {batch.column('offset')[row].as_py()}"

    def _constant(self, name: str, value: str | int, rows: int) -> pa.Array:
        """Returns a column of one value; keeps the longest so far, and batches get slices of it."""
        known = self._repeated.get((name, value))
        if known is None or len(known) < rows:
            known = self._repeated[name, value] = pa.repeat(_scalar(value), max(rows, 1_024))
        return known.slice(0, rows)

    def _timestamp_type(self, types: pa.Array) -> pa.Array:
        """Returns the column of timestamp types. The type changes only with a topic's configuration, so a
        batch rarely has both.
        """
        raw = types.buffers()[1].slice(types.offset, len(types)).to_pybytes()
        if raw.count(raw[:1]) == len(raw):
            return self._constant("timestampType", int.from_bytes(raw[:1], signed=True), len(raw))
        return types.cast(pa.int32())


def _null_if_empty(headers: pa.Array) -> pa.Array:
    """Returns the column of headers as Spark's Kafka source has it: null for a record without any."""
    from pyarrow import compute

    empty = compute.equal(compute.list_value_length(headers), 0)
    return compute.if_else(empty, pa.nulls(1, headers.type)[0], headers)


def _scalar(value: str | int) -> pa.Scalar:
    """Returns a string or a 32-bit number as an Arrow scalar.

    pyarrow.scalar() would load pandas to check for its types, and that takes a new worker longer than reading
    a million records.
    """
    if isinstance(value, int):
        return pa.Array.from_buffers(pa.int32(), 1, [None, pa.py_buffer(struct.pack("=i", value))])[0]
    raw = value.encode()
    ends = struct.pack("=2i", 0, len(raw))
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(ends), pa.py_buffer(raw)])[0]
