"""format("bowstring") when things go wrong: brokers die, records are damaged or hidden, tasks are killed."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer as TransactionalProducer
from pyspark.sql import functions as f

import bowstring
from tests.support.spark_topics import Sink, expected, fill, read, rows, run
from tests.support.target import BowstringBroker, KafkaBroker
from tests.support.waiting import HANG_S, error_in_time, pause, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BowstringBroker]:
    """A broker that the test may kill."""
    broker = BowstringBroker(tmp_path / "broker")
    broker.start()
    yield broker
    broker.stop()


def transactions(servers: str, topic: str, name: str) -> TransactionalProducer:
    """Two committed transactions around an aborted one, among plain records; then one that stays open."""
    producer = TransactionalProducer({"bootstrap.servers": servers, "transactional.id": name})
    producer.init_transactions(HANG_S)
    for end in ("commit", "abort", "commit", None):
        producer.begin_transaction()
        for i in range(10):
            producer.produce(topic, value=f"{end} {i}", partition=0)
        producer.flush(HANG_S)
        if end is not None:
            fill(servers, topic, 5)
            getattr(producer, f"{end}_transaction")(HANG_S)
    return producer


def test_transactions(
    spark: SparkSession, kafka: KafkaBroker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(kafka.bootstrap)
    producer = transactions(kafka.bootstrap, topic, topic)
    try:
        for level, count in (("read_committed", 35), ("read_uncommitted", 55)):
            given = {"kafka.isolation.level": level}
            ours = read(spark, "bowstring", kafka.bootstrap, topic, **given)
            assert rows(ours) == rows(read(spark, "kafka", kafka.bootstrap, topic, **given))
            assert ours.count() == count
            assert ours.select("offset").distinct().count() == count
            pushed = ours.groupBy("partition").agg(f.count("*"), f.min("offset"), f.max("offset"))
            assert "PushedAggregates" in str(pushed._jdf.queryExecution().toString())
            offsets = [row.offset for row in rows(ours)]
            assert pushed.collect() == [(0, count, offsets[0], offsets[-1])]
        sink = Sink()
        options = {"maxOffsetsPerTrigger": "7", "kafka.isolation.level": "read_committed"}
        run(spark, tmp_path, sink, kafka.bootstrap, topic, **options)
        committed = read(
            spark, "bowstring", kafka.bootstrap, topic, **{"kafka.isolation.level": "read_committed"}
        )
        assert sink.rows == [(0, row.offset) for row in rows(committed)]
    finally:
        producer.abort_transaction(HANG_S)


def test_a_broker_that_is_killed_and_comes_back(
    spark: SparkSession, own_broker: BowstringBroker, tmp_path: Path
) -> None:
    servers, topic = own_broker.bootstrap, "killed"
    with bowstring.Admin(servers) as admin:
        admin.create_topics([bowstring.NewTopic(topic, 2)])
    fill(servers, topic, 1000, 2)
    sink = Sink()
    frame = spark.readStream.format("bowstring").options(
        **{"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    )
    query = (
        frame.load()
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        wait_until(lambda: len(sink.rows) == 1000)
        for _ in range(2):
            own_broker.kill()
            pause(0.3, "the broker is away for a while")
            own_broker.start()
            n = len(sink.rows)
            fill(servers, topic, 100, 2)
            wait_until(lambda n=n: len(sink.rows) == n + 100)
    finally:
        query.stop()
    assert query.exception() is None
    assert sink.rows == expected(2, 600)


def test_a_damaged_batch(spark: SparkSession, own_broker: BowstringBroker) -> None:
    servers, topic = own_broker.bootstrap, "damaged"
    with bowstring.Admin(servers) as admin:
        admin.create_topics([bowstring.NewTopic(topic, 1)])
    fill(servers, topic, 100)
    (segment,) = own_broker.data.rglob(f"{topic}-0/*.log")
    with segment.open("r+b") as file:
        file.seek(200)
        byte = file.read(1)
        file.seek(200)
        file.write(bytes([byte[0] ^ 0xFF]))
    for local in ("false", "true"):
        frame = read(spark, "bowstring", servers, topic, local=local)
        with pytest.raises(Exception, match=r"fails its checksum|CORRUPT_MESSAGE"):
            frame.collect()


def test_records_that_do_not_come(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str]
) -> None:
    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    fill(servers, topic, 10)
    given = {"endingOffsets": f'{{"{topic}":{{"0":20}}}}', "kafkaConsumer.pollTimeoutMs": "700"}
    for local in ("false", "true"):
        # A machine that stalls may let the time pass before the ten that are there.
        frame = read(spark, "bowstring", servers, topic, local=local, **given)
        said = error_in_time(lambda _, frame=frame: frame.collect(), Exception, "at or after offset 10 came")
        assert re.search(r"No record of .* at or after offset 10 came within .*700 ms", str(said))
        lossy = read(spark, "bowstring", servers, topic, local=local, failOnDataLoss="false", **given)
        wait_until(lambda lossy=lossy: lossy.count() == 10)


def test_a_killed_task_ends_and_gives_its_memory_back(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str]
) -> None:
    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    fill(servers, topic, 10_000, compression="zstd")
    endless = {"endingOffsets": f'{{"{topic}":{{"0":20000}}}}'}
    before = direct_bytes(spark)
    tracker = spark.sparkContext.statusTracker()
    for _ in range(2):
        assert read(spark, "bowstring", servers, topic).selectExpr("sum(length(value))").first()[0] > 0
        failures: list[Any] = []

        def wait_for_ever(failures: list[Any] = failures) -> None:
            try:
                read(spark, "bowstring", servers, topic, **endless).collect()
            except Exception as stopped:
                failures.append(stopped)

        thread = threading.Thread(target=wait_for_ever)
        thread.start()
        wait_until(lambda: bool(tracker.getActiveJobsIds()))
        pause(0.3, "its task waits for records by then; cancelled sooner, it ends, too")
        spark.sparkContext.cancelAllJobs()
        thread.join(HANG_S)
        assert not thread.is_alive()
        assert "cancel" in str(failures[0])
    wait_until(lambda: direct_bytes(spark) <= before)


def direct_bytes(spark: SparkSession) -> int:
    """Direct memory of the JVM, once no connection is kept."""
    jvm = spark._jvm
    jvm.bowstring.spark.wire.ConnectionPool.SHARED.closeIdle()
    kind = jvm.java.lang.Class.forName("java.lang.management.BufferPoolMXBean")
    pools = jvm.java.lang.management.ManagementFactory.getPlatformMXBeans(kind)
    return int(next(pool.getMemoryUsed() for pool in pools if pool.getName() == "direct"))


def test_real_time_mode_outlasts_a_restart(
    spark: SparkSession, own_broker: BowstringBroker, tmp_path: Path
) -> None:
    servers = own_broker.bootstrap
    with bowstring.Admin(servers) as admin:
        admin.create_topics([bowstring.NewTopic("from", 1), bowstring.NewTopic("to", 1)])
    frame = spark.readStream.format("bowstring").options(
        **{"kafka.bootstrap.servers": servers, "subscribe": "from", "startingOffsets": "earliest"},
        failOnDataLoss="false",
    )
    query = (
        frame.load()
        .selectExpr("'to' AS topic", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .outputMode("update")
        .trigger(realTime="10 seconds")
        .start()
    )
    copied = spark.read.format("bowstring").options(**{"kafka.bootstrap.servers": servers, "subscribe": "to"})
    try:
        for n in (5, 10):
            fill(servers, "from", 5)
            wait_until(lambda n=n: copied.load().count() >= n)
            if n == 5:
                own_broker.kill()
                pause(1, "the broker is away for a while")
                own_broker.start()
        # The log is gone, and begins anew: new records are read, without a wait for offset 10.
        own_broker.kill()
        for file in own_broker.data.glob("from-0/0*"):
            file.unlink()
        own_broker.start()

        def is_read() -> bool:
            fill(servers, "from", 1)
            return bool(copied.load().count() > 10)

        wait_until(is_read)
    finally:
        query.stop()
    assert query.exception() is None
