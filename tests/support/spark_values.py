"""Topics of values that Spark decodes, and frames that read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import bowstring

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


def fill(servers: str, topic: str, values: list[bytes | None]) -> None:
    with bowstring.Producer(servers) as producer:
        for i, value in enumerate(values):
            producer.send(topic, value, key=b"%d" % i, partition=0)
        producer.flush()


def typed(spark: SparkSession, servers: str, topic: str, **options: Any) -> DataFrame:
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    given |= {
        name.replace("_", ".", 1) if name.startswith("value_") else name: v for name, v in options.items()
    }
    return spark.read.format("bowstring").options(**given).load()


def in_order(frame: DataFrame) -> list[Row]:
    return [row for row in sorted(frame.collect(), key=lambda row: row.offset)]
