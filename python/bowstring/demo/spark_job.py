"""Counts the flights with Spark, by carrier and hour of event time, as a stream with a watermark, and checks
the result.

The stream ends when it has read the present records (AvailableNow). An hour of a carrier is written once
the watermark, two days behind the latest flight, has passed it. Those hours are compared with the same
count over the source file.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from bowstring.demo.flights import Event
from bowstring.demo.spark_session import DemoSpark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOUR_MS = 3_600_000
# Partitions are read in parallel, and their event times differ.
WATERMARK_DAYS = 2
WATERMARK_MS = WATERMARK_DAYS * 24 * HOUR_MS
FLIGHTS_PER_BATCH = 120_000
RESULT = "carrier_hours"

Progress = Callable[[float], None]
CarrierHours = Counter[tuple[str, int]]


class SparkResult(NamedTuple):
    """Result of the job.

    Attributes:
        skipped: why the job did not run; else empty.
        engine: which Bowstring engine read the topic, columnar or Python.
        counted: flights that Spark read.
        hours: hours of carriers that the watermark closed.
        problems: differences from the file.
    """

    skipped: str = ""
    engine: str = ""
    counted: int = 0
    hours: int = 0
    seconds: float = 0.0
    problems: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Returns the figures for JSON output."""
        return self._asdict() | {"problems": list(self.problems)}


class FileCount:
    """The same query over the source file, in plain Python."""

    def __init__(self) -> None:
        self.hours: CarrierHours = Counter()
        self.latest_ms = 0

    def note(self, event: Event) -> None:
        """Counts one flight."""
        carrier = event.value.partition(b'"carrier":"')[2].partition(b'"')[0].decode()
        self.hours[carrier, event.timestamp // HOUR_MS] += 1
        self.latest_ms = max(self.latest_ms, event.timestamp)

    def closed(self) -> CarrierHours:
        """Returns the hours that the final watermark has passed."""
        watermark_ms = self.latest_ms - WATERMARK_MS
        return Counter(
            {key: count for key, count in self.hours.items() if (key[1] + 1) * HOUR_MS <= watermark_ms}
        )


def run(
    opened: DemoSpark, bootstrap: str, topic: str, expected: FileCount, progress: Progress
) -> SparkResult:
    """Runs the job and checks it; calls `progress` with the number of counted flights."""
    if opened.spark is None:
        return SparkResult(skipped=opened.skipped)
    frame = carrier_hours(opened.spark, bootstrap, topic)
    return count_flights(frame, expected, progress, opened.folder)._replace(engine=opened.engine)


def carrier_hours(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """Returns flights by carrier and hour of event time."""
    from pyspark.sql import functions as F

    events = (
        spark.readStream.format("bowstring")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", FLIGHTS_PER_BATCH)
        .load()
    )
    carrier = F.get_json_object(F.col("value").cast("string"), "$.carrier").alias("carrier")
    return (
        events.select("timestamp", carrier)
        .withWatermark("timestamp", f"{WATERMARK_DAYS} days")
        .groupBy(F.window("timestamp", "1 hour").alias("hour"), "carrier")
        .count()
    )


def count_flights(frame: DataFrame, expected: FileCount, progress: Progress, folder: str) -> SparkResult:
    """Runs the stream to its end and compares its output with the file."""
    started = time.monotonic()
    query = (
        frame.writeStream.outputMode("append")
        .format("memory")
        .queryName(RESULT)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    while not query.awaitTermination(1):
        progress(_counted(query))
    rows = frame.sparkSession.sql(f"SELECT carrier, unix_millis(hour.start), count FROM {RESULT}").collect()
    found = Counter({(row[0], row[1] // HOUR_MS): row[2] for row in rows})
    counted = _counted(query)
    progress(counted)
    problems = _differences(found, expected.closed())
    if len(rows) != len(found):
        problems.insert(0, "Spark wrote an hour of a carrier twice")
    total = sum(expected.hours.values())
    if counted != total:
        problems.insert(0, f"Spark read {counted:,} flights of {total:,}")
    return SparkResult(
        counted=counted,
        hours=len(found),
        seconds=time.monotonic() - started,
        problems=tuple(problems),
    )


def _counted(query: Any) -> int:
    return sum(each["numInputRows"] for each in query.recentProgress)


def _differences(found: CarrierHours, wanted: CarrierHours) -> list[str]:
    """Returns the first few hours in which Spark and the file differ."""
    wrong = [key for key in {**found, **wanted} if found[key] != wanted[key]]
    said = [
        f"{carrier} had {wanted[carrier, hour]} flights in hour {hour}, Spark counted {found[carrier, hour]}"
        for carrier, hour in sorted(wrong)[:3]
    ]
    return said if len(wrong) <= len(said) else [*said, f"and {len(wrong) - len(said):,} hours more differ"]
