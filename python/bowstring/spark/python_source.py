"""Reads topics into Spark as Arrow batches, as the source of the Python engine, with PySpark's data source
API.

It serves sessions to which no jar can be added, such as Spark Connect to a cluster of others. Spark's side
of that API works row by row and has no column pruning, so the columnar engine is several times faster.
Naming the needed columns (`.option("columns", "value")`, or `.schema(...)`) reduces the difference.

Readers are created on the driver and pickled; `read` runs in the executors' Python workers.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from bowstring.clients.errors import ConfigError
from bowstring.clients.records import EARLIEST_TIMESTAMP, TopicPartition
from bowstring.spark import row_schema
from bowstring.spark.offsets import OffsetJson, OffsetPlanner, from_json, to_json
from bowstring.spark.option_names import check_names, is_of_catalog, table_options
from bowstring.spark.options import ReadOptions, lowered, read_options, shape
from bowstring.spark.pushdown import Pushed, push
from bowstring.spark.ranges import OffsetRange, rate_limit
from bowstring.spark.task_names import this_query
from bowstring.spark.worker_errors import one_sentence

if TYPE_CHECKING:
    import pyarrow

log = logging.getLogger("bowstring.spark")

# Spark loads it only when filters can be pushed. A session without spark.sql.python.filterPushdown.enabled
# refuses a reader that implements pushFilters.
PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


def schema(options: Mapping[str, str]) -> StructType:
    """Returns the columns of a query with these options; for a created table, with the options in the
    metadata.
    """
    require_python_engine(options)
    check_names(options)
    if not is_of_catalog(options):
        return row_schema.spark_schema(shape(options))
    given = table_options(options)
    return row_schema.with_options(row_schema.spark_schema(shape(given)), given)


def batch_reader(options: Mapping[str, str], wanted: StructType) -> DataSourceReader:
    """Returns the reader for `spark.read` of `wanted`, which may be a part of the schema."""
    parsed, wanted = _asked(options, wanted, streaming=False)
    if PUSHDOWN_WORKER in sys.modules:
        return FilteringReader(parsed, wanted)
    return BatchReader(parsed, wanted)


def stream_reader(options: Mapping[str, str], wanted: StructType) -> DataSourceStreamReader:
    """Returns the reader for `spark.readStream`."""
    try:
        return StreamReader(*_asked(options, wanted, streaming=True))
    except ConfigError as error:
        # PySpark reports a different error for a reader that cannot be created, so return one that raises
        # later.
        return RefusedStream(error)


def _asked(
    options: Mapping[str, str], wanted: StructType, *, streaming: bool
) -> tuple[ReadOptions, StructType]:
    """Returns what to read, and the columns; a query of a table also has the table's options, with lower
    precedence.
    """
    wanted, of_table = row_schema.taken_options(wanted)
    given = {**lowered(of_table), **lowered(options)}
    if not given:
        raise ConfigError(
            "the query has no options. If this is a table: Spark does not pass the options of a table that "
            "was created with a list of columns to a source in Python. Create it without the list, or make "
            "a TEMPORARY VIEW with these options, or start Spark with bowstring's jar (bowstring "
            "spark-jar)"
        )
    parsed = read_options(given, streaming=streaming)
    row_schema.check(parsed.shape, wanted)
    return parsed, wanted


class RangePartition(InputPartition):
    """One task's offsets."""

    def __init__(self, offsets: OffsetRange | None):
        super().__init__(offsets)
        self.offsets = offsets


def _read(
    options: ReadOptions, wanted: StructType, partition: InputPartition, read: str
) -> Iterator[pyarrow.RecordBatch]:
    from bowstring.spark.python_read import counted_range

    _settle_worker()
    # Without partitions Spark passes one partition of None.
    offsets = partition.value
    if offsets is not None:
        with one_sentence():
            yield from counted_range(options, wanted, offsets, read)


@cache
def _settle_worker() -> None:
    """Moves what a worker has loaded out of the garbage collector's reach, once.

    Spark runs the garbage collector in its workers after every task, which walks all modules and finds
    nothing: 25 ms for PySpark, pyarrow and this package, 40 ms with pandas.
    """
    if "SPARK_REUSE_WORKER" in os.environ:
        gc.freeze()


class BatchReader(DataSourceReader):
    """A bounded query over ranges of offsets."""

    def __init__(self, options: ReadOptions, wanted: StructType):
        self.options = options
        self.wanted = wanted
        self.pushed = Pushed()
        self._id = uuid.uuid4().hex

    def partitions(self) -> list[InputPartition]:
        """Returns the ranges with resolved offsets: records that arrive later are not read."""
        with one_sentence(), closing(OffsetPlanner(self.options)) as planner:
            ranges = planner.split(self.pushed.narrow(planner, planner.batch_ranges()))
        _settle_worker()
        _announce(self.options, ranges, "reads")
        return [RangePartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yields one range, as batches with exactly the wanted columns."""
        return _read(self.options, self.wanted, partition, self._id)


class FilteringReader(BatchReader):
    """A bounded query whose filters on topic, partition, offset and timestamp limit the fetches."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keeps the filters that it applies; returns those that Spark must check."""
        self.pushed, rest = push(filters)
        return rest


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A query over all future records, in micro-batches.

    Spark calls `latestOffset` and `partitions` in one process, whose connections stay open, and `read` in
    others. A failed batch is requested again with the same offsets.

    Attributes:
        name: tells the sources of a query apart, for the audit of counts.
    """

    def __init__(self, options: ReadOptions, wanted: StructType):
        self.options = options
        self.wanted = wanted
        self._id = uuid.uuid4().hex
        self.name = _source_name(options, wanted)
        self._planner: OffsetPlanner | None = OffsetPlanner(options)
        self._latest: OffsetJson | None = None
        self._is_bounded = False
        self._target: dict[TopicPartition, int] | None = None
        self._triggered_at = 0.0

    def __getstate__(self) -> dict[str, Any]:
        # Executors only read: connections and plans stay here.
        return self.__dict__ | {"_planner": None}

    @property
    def planner(self) -> OffsetPlanner:
        """The connections."""
        if self._planner is None:
            self._planner = OffsetPlanner(self.options)
        return self._planner

    def initialOffset(self) -> OffsetJson:
        """Returns the start of a new query; a restarted one begins at its checkpoint."""
        with one_sentence():
            start = self.planner.resolve(self.options.starting, starting=True)
        log.info("the Python engine of bowstring starts a stream at %s", to_json(start))
        return to_json(start)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns the limit by maxOffsetsPerTrigger and minOffsetsPerTrigger."""
        if self.options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return ReadMinRows(self.options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        """Returns the end of the next batch; `start` when there are not enough records yet."""
        with one_sentence():
            return self._end_of_batch(start, limit)

    def _end_of_batch(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        begin = from_json(start)
        end = self.planner.latest(begin) if self._target is None else self._target
        if self._is_bounded:
            self._target = end
        self._latest = to_json(end)
        if isinstance(limit, ReadAllAvailable):
            return self._latest
        fresh = [partition for partition in end if partition not in begin]
        known = begin | (self.planner.ends(fresh, EARLIEST_TIMESTAMP) if fresh else {})
        if self._too_few(sum(end[partition] - known.get(partition, 0) for partition in end)):
            return start
        most = self.options.max_offsets_per_trigger
        if isinstance(limit, ReadMaxRows):
            most = limit.max_rows
        return self._latest if most is None else to_json(rate_limit(most, known, end))

    def _too_few(self, available: int) -> bool:
        """Returns whether to wait because of minOffsetsPerTrigger, at most maxTriggerDelay; a bounded run
        never waits.
        """
        least, now = self.options.min_offsets_per_trigger, time.monotonic()
        if least is None or self._is_bounded:
            return False
        late = now - self._triggered_at >= self.options.max_trigger_delay_ms / 1000
        if available < least and not late:
            return True
        self._triggered_at = now
        return False

    def reportLatestOffset(self) -> OffsetJson | None:
        """Returns the ends at the last call of `latestOffset`, for the query's progress."""
        return self._latest

    def prepareForTriggerAvailableNow(self) -> None:
        """Limits the query to the records that exist at the first batch."""
        self._is_bounded = True

    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        """Returns the ranges between two offsets."""
        with one_sentence():
            ranges = self.planner.stream_ranges(from_json(start), from_json(end))
        return [RangePartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yields one range, as batches with exactly the wanted columns."""
        return _read(self.options, self.wanted, partition, f"{this_query() or self._id}.{self.name}")

    def commit(self, end: OffsetJson) -> None:
        """Does nothing: the checkpoint stores the progress."""

    def stop(self) -> None:
        """Closes the connections."""
        if self._planner is not None:
            self._planner.close()
            self._planner = None


def _source_name(options: ReadOptions, wanted: StructType) -> str:
    """Names a source of a query by what it reads, so that it keeps its name when the query starts again.

    Spark does not say which source of a query this is.
    """
    what = [options.topics, options.pattern, options.assigned, options.starting, options.group]
    what += [options.configs.get("client_id"), wanted.simpleString()]
    return hashlib.sha256(repr(what).encode()).hexdigest()[:16]


class RefusedStream(DataSourceStreamReader):
    """A stream that cannot run; every call raises the reason."""

    def __init__(self, reason: ConfigError):
        self._reason = reason

    def _refuse(self) -> NoReturn:
        with one_sentence():
            raise self._reason

    def initialOffset(self) -> OffsetJson:
        """Raises the reason."""
        self._refuse()

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        """Raises the reason."""
        self._refuse()

    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        """Raises the reason."""
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Raises the reason."""
        self._refuse()

    def stop(self) -> None:
        """Does nothing: nothing was started."""


def _announce(options: ReadOptions, ranges: list[OffsetRange], what: str) -> None:
    topics = ", ".join(sorted({each.topic for each in ranges})) or "nothing"
    offsets = sum(each.size for each in ranges)
    log.info(
        "the Python engine of bowstring %s %d offsets of %s in %d tasks from %s",
        what,
        offsets,
        topics,
        len(ranges),
        options.bootstrap_servers,
    )


def require_python_engine(options: Mapping[str, str]) -> None:
    """Refuses options that only the columnar engine supports."""
    engine = options.get("engine", "python").strip().lower()
    if engine not in ("python", "auto"):
        raise ConfigError(
            f"option engine is {engine!r}, but bowstring's jar is not on Spark's class path. Start Spark "
            "with spark.jars=$(bowstring spark-jar), or run ADD JAR in the session"
        )
    if "engine" not in options:
        _say_which_engine()


@cache
def _say_which_engine() -> None:
    """Warns once in a process, on standard error, that the faster engine is not there."""
    log.warning(
        'the Python engine serves format("bowstring"), which is several times slower than the columnar '
        "engine. Start Spark with spark.jars=$(bowstring spark-jar), or with bowstring.spark.session(); "
        '.option("engine", "python") chooses this one without a warning'
    )
