"""The source of the Python engine: topics into Spark as Arrow batches, through PySpark's data source API.

It serves sessions to which no jar can be added, such as Spark Connect to somebody else's cluster. Spark's
side of that API is row by row and knows no column pruning, so the columnar engine is several times faster;
naming the columns that are needed (`.option("columns", "value")`, or `.schema(...)`) narrows the gap.

Readers are made on the driver's machine and pickled; `read` runs in the executors' Python workers.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

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
from bowstring.spark.options import ReadOptions, read_options, shape
from bowstring.spark.pushdown import Pushed, push
from bowstring.spark.ranges import OffsetRange, rate_limit

if TYPE_CHECKING:
    import pyarrow

log = logging.getLogger("bowstring.spark")

# Spark loads it only when filters can be pushed; a reader that implements pushFilters in a session without
# spark.sql.python.filterPushdown.enabled is refused.
PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


def schema(options: Mapping[str, str]) -> StructType:
    """The columns that a query with these options has."""
    require_python_engine(options)
    return row_schema.spark_schema(shape(options))


def batch_reader(options: Mapping[str, str], wanted: StructType) -> DataSourceReader:
    """For `spark.read`: reads `wanted`, which may be a part of the schema."""
    parsed = read_options(options, streaming=False)
    row_schema.check(parsed.shape, wanted)
    if PUSHDOWN_WORKER in sys.modules:
        return FilteringReader(parsed, wanted)
    return BatchReader(parsed, wanted)


def stream_reader(options: Mapping[str, str], wanted: StructType) -> DataSourceStreamReader:
    """For `spark.readStream`."""
    parsed = read_options(options, streaming=True)
    row_schema.check(parsed.shape, wanted)
    return StreamReader(parsed, wanted)


class RangePartition(InputPartition):
    """One task's offsets."""

    def __init__(self, offsets: OffsetRange | None):
        super().__init__(offsets)
        self.offsets = offsets


def _read(
    options: ReadOptions, wanted: StructType, partition: InputPartition
) -> Iterator[pyarrow.RecordBatch]:
    from bowstring.spark.python_read import read_range

    _settle_worker()
    # Spark makes one partition of nothing out of no partitions.
    offsets = partition.value
    if offsets is None:
        return iter(())
    return read_range(options, wanted, offsets)


@cache
def _settle_worker() -> None:
    """Takes what a worker has loaded out of the garbage collector's sight, once.

    Spark collects garbage in its workers after every task, and walks through all modules to find none: 25 ms
    for what PySpark, pyarrow and this package hold, 40 ms with pandas.
    """
    if "SPARK_REUSE_WORKER" in os.environ:
        gc.freeze()


class BatchReader(DataSourceReader):
    """A bounded query over ranges of offsets."""

    def __init__(self, options: ReadOptions, wanted: StructType):
        self.options = options
        self.wanted = wanted
        self.pushed = Pushed()

    def partitions(self) -> list[InputPartition]:
        """The ranges, with real offsets: what arrives later is not read."""
        planner = OffsetPlanner(self.options)
        try:
            ranges = planner.split(self.pushed.narrow(planner, planner.batch_ranges()))
        finally:
            planner.close()
        _settle_worker()
        _announce(self.options, ranges, "reads")
        return [RangePartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """One range, as batches of exactly the columns wanted."""
        return _read(self.options, self.wanted, partition)


class FilteringReader(BatchReader):
    """A bounded query whose filters on topic, partition, offset and timestamp choose what is fetched."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keeps what it can; hands back what Spark has to check still."""
        self.pushed, rest = push(filters)
        return rest


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A query over all that comes, micro-batch by micro-batch.

    Spark asks `latestOffset` and `partitions` in one process, whose connections stay open, and calls `read`
    in others. A batch that failed is asked for again with the same offsets.
    """

    def __init__(self, options: ReadOptions, wanted: StructType):
        self.options = options
        self.wanted = wanted
        self._planner: OffsetPlanner | None = OffsetPlanner(options)
        self._latest: OffsetJson | None = None
        self._target: dict[TopicPartition, int] | None = None
        self._triggered_at = 0.0

    def __getstate__(self) -> dict[str, Any]:
        # What goes to executors reads only: connections and what was planned stay here.
        return self.__dict__ | {"_planner": None}

    @property
    def planner(self) -> OffsetPlanner:
        """The connections."""
        if self._planner is None:
            self._planner = OffsetPlanner(self.options)
        return self._planner

    def initialOffset(self) -> OffsetJson:
        """Where a new query begins; one that goes on begins at its checkpoint."""
        start = self.planner.resolve(self.options.starting, starting=True)
        log.info("the Python engine of bowstring starts a stream at %s", to_json(start))
        return to_json(start)

    def getDefaultReadLimit(self) -> ReadLimit:
        """By maxOffsetsPerTrigger and minOffsetsPerTrigger."""
        if self.options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return ReadMinRows(self.options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        """Where the next batch ends; `start` itself when there is not enough yet."""
        begin = from_json(start)
        end = self.planner.latest(begin) if self._target is None else self._target
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
        """Whether minOffsetsPerTrigger says to wait, at most maxTriggerDelay; a bounded run never waits."""
        least, now = self.options.min_offsets_per_trigger, time.monotonic()
        if least is None or self._target is not None:
            return False
        late = now - self._triggered_at >= self.options.max_trigger_delay_ms / 1000
        if available < least and not late:
            return True
        self._triggered_at = now
        return False

    def reportLatestOffset(self) -> OffsetJson | None:
        """What there was when `latestOffset` was last asked; progress shows it."""
        return self._latest

    def prepareForTriggerAvailableNow(self) -> None:
        """What there is now is all that will be read."""
        self._target = self.planner.latest({})

    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        """The ranges between."""
        ranges = self.planner.stream_ranges(from_json(start), from_json(end))
        return [RangePartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """One range, as batches of exactly the columns wanted."""
        return _read(self.options, self.wanted, partition)

    def commit(self, end: OffsetJson) -> None:
        """Nothing: the checkpoint is what counts."""

    def stop(self) -> None:
        """Closes the connections."""
        if self._planner is not None:
            self._planner.close()
            self._planner = None


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
    """Refuses what only the columnar engine has."""
    engine = options.get("engine", "python").strip().lower()
    if engine not in ("python", "auto"):
        raise ConfigError(
            f"option engine is {engine!r}, but bowstring's jar is not on Spark's class path. Start Spark "
            "with spark.jars=$(bowstring spark-jar), or run ADD JAR in the session"
        )
