"""format("bowstring") as a stream: micro-batches, AvailableNow, real-time mode, checkpoints, what comes and goes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import bowstring
from tests.spark.test_source_batch import START, fill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


class Sink:
    """What a stream wrote, batch by batch, as (partition, offset)."""

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
    """A query that reads all there is and stops."""
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest", **options}
    frame = spark.readStream.format(form).options(**given).load()
    return (
        frame.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def run(*args: Any, **options: Any) -> StreamingQuery:
    """Starts, and waits for the end."""
    query = start(*args, **options)
    query.awaitTermination(120)
    return query


def expected(partitions: int, n: int, first: int = 0) -> list[tuple[int, int]]:
    return [(p, o) for p in range(partitions) for o in range(first, n)]


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
    deadline = time.monotonic() + 30
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
        deadline = time.monotonic() + 20
        while True:
            try:
                admin.create_topics([bowstring.NewTopic(topic, 1)])
                break
            except bowstring.BrokerError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
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
        wait(lambda: sink.rows == expected(1, 1))
        fill(servers, topic, 50)
        time.sleep(1)
        assert sink.rows == expected(1, 1)
        fill(servers, topic, 50)
        wait(lambda: sink.rows == expected(1, 101))
        assert len([batch for batch in sink.batches.values() if batch]) == 2
    finally:
        query.stop()


def wait(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


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
                    wait(lambda: bool(take(consumer, seen)))
            wait(lambda: take(consumer, seen) >= 40)
    finally:
        query.stop()
    assert sorted(seen) == sorted(b"%d:%d" % (i % 2, i) for i in range(40))


def take(consumer: bowstring.Consumer, into: list[bytes]) -> int:
    """Polls once; how many values there are by now."""
    into += [record.value or b"" for record in consumer.poll(timeout=0.2)]
    return len(into)
