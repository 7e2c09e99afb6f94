"""Topics for Spark's tests, frames that read them, and sinks for streams."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bowstring
from tests.support.waiting import HANG_S

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

COLUMNS = ["topic", "partition", "offset", "key", "value", "timestamp", "timestampType", "headers"]
START = (
    int(time.time() * 1000) - 3_600_000
)  # of today, because brokers delete records older than their retention


def read(spark: SparkSession, form: str, servers: str, topic: str, **options: Any) -> DataFrame:
    """Returns a DataFrame of a topic from one of the two sources."""
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, "includeHeaders": "true", **options}
    return spark.read.format(form).options(**given).load()


def rows(frame: DataFrame) -> list[Row]:
    """Returns all rows in order of partition and offset."""
    return sorted(frame.select(*COLUMNS).collect(), key=lambda row: (row.topic, row.partition, row.offset))


def fill(servers: str, topic: str, n: int, partitions: int = 1, **config: Any) -> None:
    """Writes n records, with and without keys, values and headers, a millisecond apart."""
    with bowstring.Producer(servers, **config) as producer:
        for i in range(n):
            producer.send(
                topic,
                None if i % 11 == 10 else b"value %d " % i * (i % 5),
                key=None if i % 3 == 0 else b"key-%d" % i,
                headers=[("h", b"x%d" % i), ("ü", None)] if i % 4 == 1 else None,
                timestamp=START + i,
                partition=i % partitions,
            )
        producer.flush()


class Sink:
    """Collects the output of a stream, batch by batch, as (partition, offset)."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[int, int]]] = {}

    def __call__(self, frame: DataFrame, number: int) -> None:
        self.batches[number] = [tuple(row) for row in frame.select("partition", "offset").collect()]

    @property
    def rows(self) -> list[tuple[int, int]]:
        return sorted(row for batch in self.batches.values() for row in batch)


def start(
    spark: SparkSession,
    checkpoint: Path,
    sink: Sink,
    servers: str,
    topic: str,
    form: str = "bowstring",
    **options: str,
) -> StreamingQuery:
    """Starts a query that reads all existing records and stops."""
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest", **options}
    frame = spark.readStream.format(form).options(**given).load()
    return (
        frame.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def run(*args: Any, **options: Any) -> StreamingQuery:
    """Runs a query to its end."""
    query = start(*args, **options)
    query.awaitTermination(int(HANG_S))
    return query


def expected(partitions: int, n: int, first: int = 0) -> list[tuple[int, int]]:
    return [(p, o) for p in range(partitions) for o in range(first, n)]
