"""format("bowstring") as a stream: micro-batches, AvailableNow, real-time mode, checkpoints, what comes and goes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import bowstring
from tests.spark.topics import make_again
from tests.support.spark_topics import START, Sink, expected, fill, run
from tests.support.waiting import HANG_S, pause, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_available_now_in_limited_batches(
    spark: SparkSession, servers: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(servers, 2)
    fill(servers, topic, 1000, 2)
    sink = Sink()
    query = run(spark, tmp_path, sink, servers, topic, maxOffsetsPerTrigger="400")
    assert sink.rows == expected(2, 500)
    assert [len(batch) for batch in sink.batches.values()] == [400, 400, 200]
    progress = [p for p in query.recentProgress if p["numInputRows"]]
    source = progress[0]["sources"][0]
    assert source["description"].startswith("bowstring columnar, TCP, Subscribe[")
    assert json.loads(source["endOffset"]) == {topic: {"0": 200, "1": 200}}
    metrics = source["metrics"]
    assert (metrics["minOffsetsBehindLatest"], metrics["maxOffsetsBehindLatest"]) == ("300", "300")
    assert metrics["avgOffsetsBehindLatest"] == "300.0"
    assert metrics[f"offsetsBehindLatest.{topic}-1"] == "300"
    age = time.time() - (START + 200) / 1000
    assert age - 600 < float(metrics[f"secondsBehindLatest.{topic}-0"]) < age + 600
    assert progress[-1]["sources"][0]["metrics"][f"secondsBehindLatest.{topic}-0"] == "0.0"


def test_a_checkpoint_moves_between_the_sources(
    spark: SparkSession, servers: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(servers, 2)
    for first, second, n in (("kafka", "bowstring", 0), ("bowstring", "kafka", 1)):
        checkpoint = tmp_path / first
        fill(servers, topic, 100, 2)
        before, after = Sink(), Sink()
        run(spark, checkpoint, before, servers, topic, form=first)
        fill(servers, topic, 60, 2)
        run(spark, checkpoint, after, servers, topic, form=second)
        assert before.rows == expected(2, 80 * n + 50)
        assert after.rows == expected(2, 80 * n + 80, 80 * n + 50)


def test_starts_at_the_end_and_goes_on_where_it_stopped(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    fill(servers, topic, 10)
    sink = Sink()
    run(spark, tmp_path, sink, servers, topic, startingOffsets="latest")
    assert sink.rows == []
    assert (tmp_path / "sources/0/0").read_bytes() == b'\0v1\n{"%s":{"0":10}}' % topic.encode()
    fill(servers, topic, 5)
    run(spark, tmp_path, sink, servers, topic, startingOffsets="latest")
    assert sink.rows == expected(1, 15, 10)


def test_new_partitions(
    spark: SparkSession, servers: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(servers)
    fill(servers, topic, 10)
    sink = Sink()
    run(spark, tmp_path, sink, servers, topic)
    with bowstring.Admin(servers) as admin:
        admin.create_partitions({topic: 3})
    deadline = time.monotonic() + HANG_S
    fill(servers, topic, 30, 3)
    while sink.rows != sorted([*expected(1, 20), *[(p, o) for p in (1, 2) for o in range(10)]]):
        assert time.monotonic() < deadline, sink.rows
        run(spark, tmp_path, sink, servers, topic)


def test_a_topic_that_is_made_anew(
    spark: SparkSession, servers: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(servers)
    fill(servers, topic, 50)
    run(spark, tmp_path, Sink(), servers, topic)
    with bowstring.Admin(servers) as admin:
        admin.delete_topics([topic])
    make_again(servers, topic)
    fill(servers, topic, 20)
    quick = {"fetchOffset.numRetries": "1"}
    with pytest.raises(Exception, match=r"offset was changed from 50 to 20.*failOnDataLoss"):
        run(spark, tmp_path, Sink(), servers, topic, **quick)
    sink = Sink()
    run(spark, tmp_path, sink, servers, topic, failOnDataLoss="false", **quick)
    fill(servers, topic, 5)
    run(spark, tmp_path, sink, servers, topic, failOnDataLoss="false", **quick)
    assert sink.rows == expected(1, 25, 20)


def test_waits_for_enough_records(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    sink = Sink()
    given = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "minOffsetsPerTrigger": "100",
        "maxTriggerDelay": "10m",
    }
    frame = spark.readStream.format("bowstring").options(**given).load()
    fill(servers, topic, 1)  # the first trigger takes whatever there is
    query = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path)).start()
    try:
        wait_until(lambda: sink.rows == expected(1, 1))
        fill(servers, topic, 50)
        pause(1, "too few: no batch may come")
        assert sink.rows == expected(1, 1)
        fill(servers, topic, 50)
        wait_until(lambda: sink.rows == expected(1, 101))
        assert len([batch for batch in sink.batches.values() if batch]) == 2
    finally:
        query.stop()


def test_real_time_mode(
    spark: SparkSession, servers: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, target = make_topic(servers, 2), make_topic(servers)
    frame = (
        spark.readStream.format("bowstring")
        .options(**{"kafka.bootstrap.servers": servers, "subscribe": source, "startingOffsets": "earliest"})
        .load()
    )
    query = (
        frame.selectExpr(f"'{target}' AS topic", "concat(cast(partition AS string), ':', value) AS value")
        .writeStream.format("kafka")
        .options(**{"kafka.bootstrap.servers": servers, "kafka.linger.ms": "0"})
        .option("checkpointLocation", str(tmp_path))
        .outputMode("update")
        .trigger(realTime="5 seconds")
        .start()
    )
    seen: list[bytes] = []
    try:
        with (
            bowstring.Producer(servers) as producer,
            bowstring.Consumer(servers, auto_offset_reset="earliest") as consumer,
        ):
            consumer.assign([(target, 0)])
            for i in range(40):
                producer.send(source, b"%d" % i, partition=i % 2)
                producer.flush()
                if i == 0:
                    wait_until(lambda: bool(take(consumer, seen)))
            wait_until(lambda: take(consumer, seen) >= 40)
    finally:
        query.stop()
    assert sorted(seen) == sorted(b"%d:%d" % (i % 2, i) for i in range(40))


def take(consumer: bowstring.Consumer, into: list[bytes]) -> int:
    """Polls once; how many values there are by now."""
    into += [record.value or b"" for record in consumer.poll(timeout=0.2)]
    return len(into)
