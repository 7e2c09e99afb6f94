"""Reads the headline's records with Spark: counts them and sums the sizes of their values."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from bowstring.demo.headline import TOPIC, Headline
from bowstring.demo.spark_session import DemoSpark


class HeadlineRead(NamedTuple):
    """Result of the Spark read.

    Attributes:
        skipped: why nothing was read; else empty.
        engine: which Bowstring engine read, columnar or Python.
        records: number of records.
        size_bytes: sum of the values' lengths.
    """

    skipped: str = ""
    engine: str = ""
    records: int = 0
    size_bytes: int = 0
    seconds: float = 0.0
    problems: tuple[str, ...] = ()

    @property
    def records_per_s(self) -> float:
        """Throughput."""
        return self.records / self.seconds if self.seconds else 0.0

    def as_json(self) -> dict[str, Any]:
        """Returns the figures for JSON output."""
        return self._asdict() | {"problems": list(self.problems), "records_per_s": self.records_per_s}


def read(opened: DemoSpark, bootstrap: str, written: Headline) -> HeadlineRead:
    """Counts, sums, and compares both with the producers' acknowledged records."""
    if opened.spark is None:
        return HeadlineRead(skipped=opened.skipped)
    from pyspark.sql import functions as F

    began = time.monotonic()
    topic = (
        opened.spark.read.format("bowstring")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", TOPIC)
        .load()
    )
    found = topic.agg(F.count(F.lit(1)), F.sum(F.length("value"))).collect()[0]
    records, size_bytes = int(found[0]), int(found[1] or 0)
    problems = []
    if records != written.records:
        problems.append(f"Spark read {records:,} records of {written.records:,} that were acknowledged")
    if size_bytes != written.size_bytes:
        problems.append(
            f"Spark read {size_bytes:,} bytes of values, {written.size_bytes:,} were acknowledged"
        )
    return HeadlineRead(
        engine=opened.engine,
        records=records,
        size_bytes=size_bytes,
        seconds=time.monotonic() - began,
        problems=tuple(problems),
    )
