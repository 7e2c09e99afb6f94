"""Aggregates that the columnar engine computes in its tasks: what Spark computes with push-down off, and Spark's source."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f

import bowstring
from tests.support.spark_topics import START, fill, read
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def plan(frame: DataFrame) -> str:
    """The plans of a query as explain() prints them."""
    return str(frame._jdf.queryExecution().toString())


def aggregates() -> list[Column]:
    """All that is pushed down."""
    counts = [f.count("*").alias("n"), f.count("offset").alias("offsets")]
    return counts + [made(name) for name in ("offset", "partition", "timestamp") for made in (f.min, f.max)]


def same(frame: DataFrame, other: DataFrame, *groups: str, pushed: bool = True) -> None:
    """Both give the same aggregates, and the first has them from its tasks."""
    ours = frame.groupBy(*groups).agg(*aggregates())
    assert ("PushedAggregates: [COUNT(*), COUNT(*), MIN(offset), MAX(offset)" in plan(ours)) is pushed
    theirs = other.groupBy(*groups).agg(*aggregates())
    assert "PushedAggregates" not in plan(theirs)
    assert sorted(ours.collect()) == sorted(theirs.collect())


def test_same_as_sparks(spark: SparkSession, servers: str, make_topic: Callable[..., str]) -> None:
    """Plain and compressed batches, ranges that begin and end inside a batch, filters that are pushed, no records."""
    topic = make_topic(servers, 3)
    for codec in ("none", "zstd"):
        fill(servers, topic, 300, 3, compression=codec)
    cut: dict[str, Any] = {
        "startingOffsets": f'{{"{topic}":{{"0":37,"1":-2,"2":113}}}}',
        "endingOffsets": f'{{"{topic}":{{"0":187,"1":64,"2":113}}}}',
    }
    conditions = (None, "partition >= 1 and offset > 13", "topic = 'another'")
    for options, condition in ((cut, None), *(({}, each) for each in conditions)):
        ours, off, theirs = (
            read(spark, form, servers, topic, **options, **given).where(condition or "true")
            for form, given in (
                ("bowstring", {}),
                ("bowstring", {"pushDownAggregate": "false"}),
                ("kafka", {}),
            )
        )
        same(ours, off)
        same(ours, theirs, "partition")
    assert ours.count() == 0


def test_complete_or_in_parts(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str]
) -> None:
    servers = broker.bootstrap_servers
    topics = [make_topic(servers, 2), make_topic(servers, 2)]
    for topic in topics:
        fill(servers, topic, 100, 2)
    both = read(spark, "bowstring", servers, ",".join(topics))
    off = read(spark, "bowstring", servers, ",".join(topics), pushDownAggregate="false")
    for groups in (["topic"], ["partition"], ["partition", "topic"]):
        same(both, off, *groups)
    assert "Exchange" not in plan(both.groupBy("topic", "partition").count())
    assert "Exchange" in plan(both.groupBy("partition").count())
    one = read(spark, "bowstring", servers, topics[0])
    counts = one.groupBy("partition").count()
    assert "Exchange" not in plan(counts)
    assert sorted(counts.collect()) == [(0, 50), (1, 50)]
    assert counts.limit(1).collect()[0]["count"] == 50
    assert counts.where("count > 50").collect() == []
    for split in ({"minPartitions": "5"}, {"maxRecordsPerPartition": "7"}):
        in_pieces = read(spark, "bowstring", servers, topics[0], **split)
        same(in_pieces, one.where("key is null or key is not null"), "partition")


def test_what_is_left_to_spark(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str]
) -> None:
    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    fill(servers, topic, 200)
    frame = read(spark, "bowstring", servers, topic)
    late = frame.where(f"timestamp >= timestamp_millis({START + 50})")
    assert late.count() == 150
    kept = (
        late.groupBy().count(),
        frame.where("value is not null").groupBy("partition").count(),
        frame.where("offset in (1, 5)").groupBy().count(),
        frame.agg(f.count("value")),
        frame.agg(f.countDistinct("partition")),
        frame.agg(f.sum("offset")),
        frame.groupBy("key").count(),
    )
    for query in kept:
        assert "PushedAggregates" not in plan(query)
    assert [query.collect()[0][-1] for query in kept[:6]] == [150, 182, 2, 182, 1, 19_900]
    with pytest.raises(Exception, match=r"pushDownAggregate.*true or false"):
        read(spark, "bowstring", servers, topic, pushDownAggregate="perhaps").count()


def test_compacted_batches(spark: SparkSession, make_topic: Callable[..., str]) -> None:
    """Batches that have lost records, among them the first and the last."""
    settings = {"log.cleaner.backoff.ms": 50, "log.initial.task.delay.ms": 50, "log.retention.ms": -1}
    with bowstring.Broker(config=settings) as eager:
        servers = eager.bootstrap_servers
        configs = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_ms": "50"}
        topic = make_topic(servers, 1, **configs)
        written = 0

        def is_compacted() -> bool:
            nonlocal written
            with bowstring.Producer(servers) as producer:
                for i in range(200):
                    producer.send(topic, b"value %d" % i, key=b"%d" % (i % 13 * i))
            written += 200
            return written >= 400 and len(bowstring.read(topic, bootstrap_servers=servers)) <= written - 100

        wait_until(is_compacted, "nothing was compacted", every_s=0.1)
        frame = read(spark, "bowstring", servers, topic, endingOffsets=f'{{"{topic}":{{"0":{written}}}}}')

        def aggregated() -> Any:
            """The remaining records and their aggregates, unless the cleaner has removed more in between."""
            before, found = frame.collect(), frame.agg(*aggregates()).collect()[0]
            return (before, found) if frame.collect() == before else None

        left, found = wait_until(aggregated, "the cleaner never rests")
        assert len(left) == found["n"] < written - 50
        for i, name in enumerate(("offset", "partition", "timestamp")):
            expected = [row[name] for row in left]
            assert list(found)[2 + 2 * i : 4 + 2 * i] == [min(expected), max(expected)]
