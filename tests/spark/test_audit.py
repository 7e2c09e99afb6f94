"""Both engines count what they read and write, so that `bowstring audit` says whether everything arrived."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import bowstring
from bowstring.audit.count_table import CountTable, Row
from bowstring.audit.counts_reader import CountsReader, now_ms
from tests.support.waiting import HANG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

MINUTE = 60_000
RECORDS = 600
ENGINES = ("auto", "python")
INTERVAL = {"audit.window.ms": str(MINUTE), "audit.report.interval.ms": "50"}


def send(servers: str, topic: str, partitions: int = 2) -> int:
    """Records over three windows, a third each, in many batches; returns the start of the first."""
    start = (now_ms() - 60 * MINUTE) // MINUTE * MINUTE
    audit = bowstring.Audit("app", window_ms=MINUTE)
    with bowstring.Producer(servers, audit=audit, linger_ms=1, batch_size=1_000) as producer:
        for number in range(RECORDS):
            time = start + number * 3 * MINUTE // RECORDS
            producer.send(topic, b"%d" % number, partition=number % partitions, timestamp=time)
    return start


def source(servers: str, topic: str, engine: str, group: str, **more: str) -> dict[str, str]:
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    return given | {"engine": engine, "audit.tier": "app", "kafka.group.id": group} | INTERVAL | more


def rows_of(servers: str, topic: str) -> list[Row]:
    """Rows of a topic as if all windows had ended."""
    table = CountTable()
    with CountsReader([servers], "audit-counts", table) as reader:
        reader.read_all()
        return [row for row in table.rows(now_ms() + 10 * MINUTE, grace_ms=0) if row.topic == topic]


def await_stages(servers: str, topic: str, stages: set[str], records: int = RECORDS) -> list[Row]:
    """Rows once each stage has counted so many; the columnar engine reports when an interval is over."""

    def rows() -> list[Row]:
        found = rows_of(servers, topic)
        totals = [sum(row.records for row in found if str(row.stage) == stage) for stage in stages]
        return found if min(totals) >= records else []

    return wait_until(rows)


def copy(frame: DataFrame, servers: str, topic: str, engine: str, folder: Path, **more: str) -> None:
    """Writes a stream to a topic, until there are no more records."""
    given = {"kafka.bootstrap.servers": servers, "topic": topic, "engine": engine, "audit.tier": "dc"}
    query = (
        frame.writeStream.format("bowstring")
        .options(**given | INTERVAL | more)
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(HANG_S)


@pytest.mark.parametrize("engine", ENGINES)
def test_all_that_is_read_and_written_is_counted(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str], tmp_path: Path, engine: str
) -> None:
    servers = broker.bootstrap_servers
    topic, target = make_topic(servers, 2), make_topic(servers, 2)
    send(servers, topic)
    stream = spark.readStream.format("bowstring")
    limited = source(servers, topic, engine, "stream", maxOffsetsPerTrigger="250")
    copy(stream.options(**limited).load().select("value"), servers, target, engine, tmp_path)
    batch = spark.read.format("bowstring")
    assert (
        len(batch.options(**source(servers, topic, engine, "batch")).load().select("value").collect())
        == RECORDS
    )
    counted = batch.options(**source(servers, topic, engine, "counted")).load()
    assert counted.count() == RECORDS
    rows = await_stages(servers, topic, {"app", "app/stream", "app/batch", "app/counted"})
    assert {(row.records, row.share, row.state) for row in rows} == {(RECORDS // 3, 1.0, "complete")}
    assert len(rows) == 12

    audit = bowstring.Audit("dc", window_ms=MINUTE)
    with bowstring.Consumer(servers, client_id="us", auto_offset_reset="earliest", audit=audit) as consumer:
        consumer.assign(consumer.partitions_for(target))
        found = 0
        while found < RECORDS:
            found += len(consumer.poll(HANG_S))
    rows = await_stages(servers, target, {"dc", "dc/us"})
    assert {(row.share, row.state) for row in rows} == {(1.0, "complete")}
    assert sum(row.records for row in rows) == 2 * RECORDS


@pytest.mark.parametrize("engine", ENGINES)
def test_a_batch_that_runs_again_counts_once(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str], tmp_path: Path, engine: str
) -> None:
    servers = broker.bootstrap_servers
    topic, target = make_topic(servers, 2), make_topic(servers, 2)
    send(servers, topic)
    given = source(servers, topic, engine, "again", maxOffsetsPerTrigger="250")
    frame = spark.readStream.format("bowstring").options(**given).load()
    # One task fails at its end, when its records are read; the other one's are written.
    bad = "cast(if(value = '599', 9, null) as int) partition"
    rows = frame.selectExpr("cast(value as string) value")
    with pytest.raises(Exception, match=r"STREAM_FAILED|aborted"):
        copy(rows.selectExpr("value", bad), servers, target, engine, tmp_path)
    copy(rows, servers, target, engine, tmp_path)
    found = await_stages(servers, topic, {"app/again"})
    assert {(row.records, row.share) for row in found} == {(RECORDS // 3, 1.0)}


@pytest.mark.parametrize("engine", ENGINES)
def test_transactions_and_times_of_the_broker(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str], tmp_path: Path, engine: str
) -> None:
    """A sink that is exactly once counts what is committed, by the time that the broker gives it."""
    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    target = make_topic(servers, 2, message_timestamp_type="LogAppendTime")
    send(servers, topic, 1)
    rows = spark.readStream.format("bowstring").options(**source(servers, topic, engine, "once")).load()
    more = {"delivery": "exactly-once", "audit.report.interval.ms": "3600000"}  # reports at the commit
    copy(rows.select("value"), servers, target, engine, tmp_path, **more)
    given = source(servers, target, engine, "after", **{"kafka.isolation.level": "read_committed"})
    given["audit.tier"] = "dc"
    frame = spark.read.format("bowstring").options(**given).load()
    assert len(frame.select("value").collect()) == RECORDS
    found = await_stages(servers, target, {"dc", "dc/after"})
    assert {(row.share, row.state) for row in found} == {(1.0, "complete")}


@pytest.mark.parametrize("engine", ENGINES)
def test_several_jobs_read_a_batch(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str], tmp_path: Path, engine: str
) -> None:
    """Those that read a part of it, before or after, take nothing from the counts of the one that reads all."""
    servers = broker.bootstrap_servers
    topic = make_topic(servers, 1)
    send(servers, topic, 1)
    found = []

    def see(frame: DataFrame, _: int) -> None:
        found.append((frame.isEmpty(), len(frame.collect()), len(frame.take(1))))

    given = source(servers, topic, engine, "jobs", **{"kafka.max.partition.fetch.bytes": "1000"})
    frame = spark.readStream.format("bowstring").options(**given).load()
    writer = frame.select("value").writeStream.foreachBatch(see).option("checkpointLocation", str(tmp_path))
    assert writer.trigger(availableNow=True).start().awaitTermination(HANG_S)
    assert found == [(False, RECORDS, 1)]
    rows = await_stages(servers, topic, {"app/jobs"})
    assert {(row.records, row.share) for row in rows} == {(RECORDS // 3, 1.0)}


@pytest.mark.parametrize("engine", ENGINES)
def test_two_sources_of_a_query_count_apart(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str], tmp_path: Path, engine: str
) -> None:
    servers = broker.bootstrap_servers
    topic, target = make_topic(servers, 1), make_topic(servers, 1)
    send(servers, topic, 1)
    starts = ("earliest", json.dumps({topic: {"0": 0}}))
    one, other = (
        spark.readStream.format("bowstring")
        .options(**source(servers, topic, engine, "twice", startingOffsets=start))
        .load()
        .select("value")
        for start in starts
    )
    copy(one.union(other), servers, target, engine, tmp_path)
    rows = await_stages(servers, topic, {"app/twice"}, 2 * RECORDS)
    assert {row.records for row in rows if row.stage.reader} == {2 * RECORDS // 3}


def test_real_time_mode_is_counted(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    topic, target = make_topic(servers, 2), make_topic(servers, 2)
    send(servers, topic)
    spark.conf.set("spark.sql.streaming.realTimeMode.allowlistCheck", "false")
    frame = spark.readStream.format("bowstring").options(**source(servers, topic, "auto", "real")).load()
    given = {"kafka.bootstrap.servers": servers, "topic": target, "audit.tier": "dc"} | INTERVAL
    query = (
        frame.select("value")
        .writeStream.format("bowstring")
        .options(**given, checkpointLocation=str(tmp_path))
        .option("_asyncProgressTrackingOverrideSinkSupportCheck", "true")
        .outputMode("update")
        .trigger(realTime="5 seconds")
        .start()
    )
    try:
        rows = await_stages(servers, topic, {"app/real"})
        written = await_stages(servers, target, {"dc"})
    finally:
        query.stop()
        spark.conf.unset("spark.sql.streaming.realTimeMode.allowlistCheck")
    assert {(row.records, row.share) for row in rows} == {(RECORDS // 3, 1.0)}
    assert sum(row.records for row in written) == RECORDS


@pytest.mark.parametrize("engine", ENGINES)
def test_records_that_do_not_arrive_are_named(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str], engine: str
) -> None:
    servers = broker.bootstrap_servers
    topic = make_topic(servers, 2)
    start = send(servers, topic)
    beyond = source(servers, topic, engine, "late")
    beyond["startingOffsets"] = json.dumps({topic: {"0": 5, "1": 0}})
    frame = spark.read.format("bowstring").options(**beyond).load()
    assert len(frame.select("value").collect()) == RECORDS - 5
    await_stages(servers, topic, {"app/late"}, RECORDS - 5)
    ran = subprocess.run(
        [sys.executable, "-m", "bowstring", "audit", "status", "-b", servers, "--json", topic],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert ran.returncode == 1
    assert "5 records are missing, in 1 windows of 1 topics" in ran.stderr
    missing: list[dict[str, Any]] = [row for row in json.loads(ran.stdout) if row["state"] == "incomplete"]
    assert [(row["start_ms"], row["tier"], row["reader"], row["missing"]) for row in missing] == [
        (start, "app", "late", 5)
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_settings_that_make_no_sense(spark: SparkSession, broker: bowstring.Broker, engine: str) -> None:
    given = source(broker.bootstrap_servers, "t", engine, "g")
    for wrong, words in (
        ({"audit.tier": None}, "audit.tier is missing"),
        ({"audit.window.ms": "soon"}, "window"),
        ({"audit.window.ms": "0"}, "window"),
    ):
        options = {name: value for name, value in (given | wrong).items() if value is not None}
        with pytest.raises(Exception, match=words):
            spark.read.format("bowstring").options(**options).load().collect()
