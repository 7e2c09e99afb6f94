"""One list of cases for both engines: which rows a query has, or that it fails, from options at the edges.

Apache Spark's own Kafka source agrees unless a case says otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import bowstring
from tests.support.spark_topics import START, Sink, start

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

# Records of each partition; the n-th of a partition has the time START + n.
COUNTS = (1, 0, 997, 3, 29, 100)
LOST_ROWS = {"failOnDataLoss": "false"}


class Case(NamedTuple):
    """Options of a batch query, and its number of rows or a word of its error."""

    name: str
    options: dict[str, Any]
    rows: int | None = None
    error: str = ""


def offsets(offset: int) -> str:
    """The same offset, or time, for every partition, in Spark's JSON; TOPIC stands for the topic."""
    return json.dumps({"TOPIC": {str(number): offset for number in range(len(COUNTS))}})


NEGATIVE = "numbers below 0 are only -2, the earliest offset, and -1, the latest"
CASES = [
    Case("all", {}, rows=1130),
    Case("start beyond the ends", {"startingOffsets": offsets(50)}, error="50"),
    Case("start beyond the ends, loss", {"startingOffsets": offsets(50)} | LOST_ROWS, rows=947 + 50),
    Case("start at the ends of some", {"startingOffsets": offsets(0)}, rows=1130),
    Case(
        "time of the start after that of the end",
        {
            "startingTimestamp": START + 900,
            "endingTimestamp": START + 100,
            "startingOffsetsByTimestampStrategy": "latest",
        },
        error="900",
    ),
    Case(
        "time of the start after that of the end, loss",
        {
            "startingTimestamp": START + 900,
            "endingTimestamp": START + 100,
            "startingOffsetsByTimestampStrategy": "latest",
        }
        | LOST_ROWS,
        rows=0,
    ),
    Case(
        "both times after all records",
        {
            "startingTimestamp": START + 5000,
            "endingTimestamp": START + 4000,
            "startingOffsetsByTimestampStrategy": "latest",
        },
        rows=0,
    ),
    Case("no record at the starting time", {"startingTimestamp": START + 5000}, error="latest"),
    Case("starting time -5", {"startingTimestamp": "-5"}, error=NEGATIVE),
    Case("starting time -2", {"startingTimestamp": "-2"}, rows=1130),
    Case("starting time -1", {"startingTimestamp": "-1"}, rows=0),
    Case("starting times -5", {"startingOffsetsByTimestamp": offsets(-5)}, error=NEGATIVE),
    Case("ending time -5", {"endingTimestamp": "-5"}, error=NEGATIVE),
    Case("starting offsets -5", {"startingOffsets": offsets(-5)}, error=NEGATIVE),
    Case("starting offsets -2", {"startingOffsets": offsets(-2)}, rows=1130),
    Case("starting offsets -1", {"startingOffsets": offsets(-1)}, error="latest"),
    Case("ending offsets -2", {"endingOffsets": offsets(-2)}, error="earliest"),
    Case("ending offsets -5", {"endingOffsets": offsets(-5)}, error=NEGATIVE),
    Case("end before the start", {"startingOffsets": offsets(10), "endingOffsets": offsets(5)}, error="10"),
    # The columnar engine waits for the records, as Spark's own source does; the Python engine fails at once.
    Case(
        "end beyond the ends",
        {"endingOffsets": offsets(5000), "kafkaConsumer.pollTimeoutMs": 500},
        error="5000",
    ),
    Case("a partition that is not there", {"startingOffsets": '{"TOPIC":{"0":0,"9":0}}'}, error="9"),
]


@pytest.fixture(scope="module")
def topic(broker: bowstring.Broker) -> Iterator[str]:
    """A topic with COUNTS records."""
    name = "both-engines"
    servers = broker.bootstrap_servers
    with bowstring.Admin(servers) as admin:
        admin.create_topic(name, partitions=len(COUNTS))
    with bowstring.Producer(servers) as producer:
        for partition, count in enumerate(COUNTS):
            for number in range(count):
                producer.send(name, b"x", partition=partition, timestamp=START + number)
        producer.flush()
    yield name


@pytest.fixture(params=["columnar", "python"])
def either(request: pytest.FixtureRequest) -> SparkSession:
    """A session of either engine."""
    found: SparkSession = request.getfixturevalue("spark" if request.param == "columnar" else "python_spark")
    return found


def count(spark: SparkSession, servers: str, topic: str, options: dict[str, Any]) -> int:
    """Counts the actual rows rather than using a pushed-down count."""
    given = {name: str(value).replace("TOPIC", topic) for name, value in options.items()}
    frame = (
        spark.read.format("bowstring")
        .options(**{"kafka.bootstrap.servers": servers, "subscribe": topic, **given})
        .load()
    )
    return len(frame.select("offset").collect())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_batch_query(either: SparkSession, broker: bowstring.Broker, topic: str, case: Case) -> None:
    if case.rows is not None:
        assert count(either, broker.bootstrap_servers, topic, case.options) == case.rows
        return
    with pytest.raises(Exception) as failed:
        count(either, broker.bootstrap_servers, topic, case.options)
    assert case.error in str(failed.value)


def test_records_without_headers_have_null(
    either: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str]
) -> None:
    """As in Spark's own source; an empty array would hide them from `headers is null`."""
    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    with bowstring.Producer(servers) as producer:
        for number in range(6):
            producer.send(topic, b"%d" % number, headers=[("a", b"1"), ("b", None)] if number == 3 else None)
        producer.flush()
    frame = (
        either.read.format("bowstring")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .load()
    )
    assert frame.where("headers is null").count() == 5
    (row,) = frame.where("headers is not null").select("offset", "headers").collect()
    found = [(each.key, None if each.value is None else bytes(each.value)) for each in row.headers]
    assert (row.offset, found) == (3, [("a", b"1"), ("b", None)])


def test_a_stream_that_starts_beyond_the_ends(
    spark: SparkSession, broker: bowstring.Broker, topic: str, tmp_path: Path
) -> None:
    """Either engine fails, or continues if rows may be lost. Both use the session with the jar."""
    for engine in ("auto", "python"):
        beyond = {"startingOffsets": offsets(50).replace("TOPIC", topic), "engine": engine}
        beyond |= {"fetchOffset.numRetries": "1"}
        query = start(spark, tmp_path / f"{engine}-fails", Sink(), broker.bootstrap_servers, topic, **beyond)
        with pytest.raises(Exception, match="data may have been lost"):
            query.awaitTermination()
        sink = Sink()
        query = start(spark, tmp_path / engine, sink, broker.bootstrap_servers, topic, **beyond | LOST_ROWS)
        query.awaitTermination()
        assert len(sink.rows) == 947 + 50, engine
