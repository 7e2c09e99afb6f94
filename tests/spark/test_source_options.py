"""Options of format("bowstring") that make no sense are refused when the query is built, as Spark's Kafka source does."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors.exceptions.captured import (
    IllegalArgumentException,
    QueryExecutionException,
    StreamingQueryException,
)

import bowstring
import bowstring.spark
from tests.support.addresses import own_address
from tests.support.waiting import HANG_S, error_in_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOOD = {"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "t"}
SPECIFIC = '{"t":{"0":%s}}'


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": None}, "One of the following options must be specified"),
        ({"subscribePattern": "t.*"}, "Only one of the following options"),
        ({"subscribe": " , "}, "No topics to subscribe to"),
        ({"subscribe": None, "assign": "t"}, "No topicpartitions to assign"),
        ({"subscribe": None, "assign": '{"t":[-1]}'}, r'Expected e.g. \{"topicA":\[0,1\]'),
        ({"subscribe": None, "subscribePattern": " "}, "Pattern to subscribe is empty"),
        ({"subscribe": None, "subscribePattern": "("}, "not a regular expression"),
        ({"kafka.bootstrap.servers": None}, r"'kafka.bootstrap.servers' must be specified"),
        ({"kafka.bootstrap.servers": "nowhere"}, "'nowhere', which is not host:port"),
        (
            {"kafka.auto.offset.reset": "earliest"},
            r"'auto.offset.reset' is not supported: set .*startingOffsets",
        ),
        ({"kafka.key.deserializer": "x"}, r"'key.deserializer' is not supported"),
        ({"kafka.value.deserializer": "x"}, r"'value.deserializer' is not supported"),
        ({"kafka.enable.auto.commit": "true"}, r"'enable.auto.commit' is not supported"),
        ({"kafka.interceptor.classes": "x"}, r"'interceptor.classes' is not supported"),
        ({"kafka.security.protocol": "TLS"}, "give one of PLAINTEXT, SASL_PLAINTEXT, SASL_SSL, SSL"),
        ({"kafka.security.protocol": "SASL_SSL"}, "give one of GSSAPI, OAUTHBEARER, PLAIN"),
        ({"kafka.sasl.password": "x"}, "has no effect with kafka.security.protocol=PLAINTEXT"),
        ({"kafka.isolation.level": "serializable"}, "give read_uncommitted or read_committed"),
        ({"kafka.request.timeout.ms": "soon"}, "give a whole number, at least 1"),
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch"),
        ({"startingOffsets": SPECIFIC % -1}, "startingOffsets for t-0 can't be latest"),
        ({"endingOffsets": SPECIFIC % -2}, "ending offset for t-0 can't be earliest"),
        ({"startingOffsets": "{"}, r'Expected e.g. \{"topicA":\{"0":23,"1":-1\}'),
        (
            {"startingOffsets": SPECIFIC % 5, "endingOffsets": SPECIFIC % 4},
            "is greater than its end offset 4",
        ),
        ({"startingOffsets": SPECIFIC % 5, "endingOffsets": '{"u":{"0":9}}'}, "are not those of the end"),
        ({"startingTimestamp": "noon"}, "Expected a single long value, got noon"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "give error or latest"),
        ({"minPartitions": "0"}, "minPartitions must be positive"),
        ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition must be positive"),
        (
            {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
            "is higher than the maxOffsetsPerTrigger",
        ),
        ({"failOnDataLoss": "maybe"}, "'failOnDataLoss' is 'maybe': give true or false"),
        ({"local": "perhaps"}, "give true, false or auto"),
    ],
)
def test_refused(spark: SparkSession, options: dict[str, str | None], message: str) -> None:
    given = {name: value for name, value in {**GOOD, **options}.items() if value is not None}
    with pytest.raises(Exception, match=message):
        spark.read.format("bowstring").options(**given).load().collect()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
        ({"endingTimestamp": "1"}, "ending timestamp not valid in streaming queries"),
        ({"endingOffsetsByTimestamp": SPECIFIC % 1}, "ending timestamp not valid in streaming queries"),
        ({"maxTriggerDelay": "a while"}, "a while"),
    ],
)
def test_refused_in_streams(spark: SparkSession, options: dict[str, str], message: str) -> None:
    frame = spark.readStream.format("bowstring").options(**GOOD, **options).load()
    query = None
    with pytest.raises(Exception, match=message):
        query = frame.writeStream.format("noop").trigger(availableNow=True).start()
        query.awaitTermination(HANG_S)
    if query is not None:
        query.stop()


SOON = {"kafka.default.api.timeout.ms": "1000", "kafka.max.block.ms": "1000"}
AWAY = r"^.*did not succeed within kafka\.\S+ \(1000 ms\): Cannot connect to broker 127\.0\.0\.1:9 \(.*\): check that it runs"


def sentence(error: BaseException) -> str:
    """What a user of PySpark sees first; there is no stack behind it."""
    first, *rest = str(error).split("\n")
    assert not [line for line in rest if line.lstrip().startswith(("at ", "File "))]
    return first


def test_unreachable_brokers(spark: SparkSession) -> None:
    begin = time.monotonic()
    unknown = {**GOOD, "kafka.bootstrap.servers": "no.such.host.invalid:9092"}
    nowhere = r"The host name of broker no\.such\.host\.invalid:9092 does not resolve"
    for options, said, part in ((GOOD, AWAY, "Cannot connect"), (unknown, nowhere, "does not resolve")):
        frame = spark.read.format("bowstring").options(**options, **SOON).load()
        for act in (frame.count, frame.collect, frame.toPandas, frame.show):
            # The first time may be over before it has tried to connect.
            error = error_in_time(lambda _, act=act: act(), QueryExecutionException, part)
            assert re.search(said, sentence(error))
            assert len(str(error)) < 400
    assert time.monotonic() - begin < HANG_S


def test_a_stream_from_an_unreachable_broker(spark: SparkSession) -> None:
    frame = spark.readStream.format("bowstring").options(**GOOD, **SOON).load()
    query = frame.writeStream.format("noop").trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(HANG_S)
    assert re.search(AWAY, sentence(raised.value))


def test_writing_to_an_unreachable_broker(spark: SparkSession, tmp_path: Path) -> None:
    away = {"kafka.bootstrap.servers": "127.0.0.1:9", "topic": "t", **SOON}
    frame = spark.range(1).selectExpr("cast(id AS string) value")
    for writer in (frame.write, frame.write.mode("append")):
        with pytest.raises(QueryExecutionException) as raised:
            writer.format("bowstring").options(**away).save()
        assert re.search(AWAY, sentence(raised.value))
    rows = spark.readStream.format("rate").load().selectExpr("cast(value AS string) value")
    stream = rows.writeStream.format("bowstring").options(**away, checkpointLocation=str(tmp_path))
    query = stream.trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException) as failed:
        query.awaitTermination(HANG_S)
    assert re.search(AWAY, sentence(failed.value))


# Some of Spark's ways make names lower-case.
UNKNOWN = r"(?i)^Option 'startingOffset' is not known: did you mean 'startingOffsets'\?$"


def test_unknown_names_are_refused(spark: SparkSession, broker: bowstring.Broker) -> None:
    """At the source and the sink, in batches and streams, with a schema and in SQL."""
    wrong = {**GOOD, "startingOffset": "earliest"}
    frame = spark.range(1).selectExpr("cast(id AS string) value")
    rows = spark.readStream.format("rate").load().selectExpr("cast(value AS string) value")
    in_sql = "OPTIONS ('kafka.bootstrap.servers' '127.0.0.1:9', subscribe 't', startingOffset 'earliest')"
    for act in (
        spark.read.format("bowstring").options(**wrong).load,
        spark.read.format("bowstring").schema("value binary").options(**wrong).load,
        spark.readStream.format("bowstring").options(**wrong).load,
        frame.write.format("bowstring").options(**wrong, topic="t").save,
        rows.writeStream.format("bowstring").options(**wrong, topic="t").start,
        lambda: spark.sql(f"CREATE TABLE misspelt USING bowstring {in_sql}"),
        lambda: spark.sql(f"CREATE TABLE misspelt (value binary) USING bowstring {in_sql}"),
        lambda: spark.sql(f"CREATE TEMPORARY VIEW misspelt USING bowstring {in_sql}"),
        lambda: bowstring.spark.read(spark, "t", startingOffset="earliest"),
    ):
        with pytest.raises(IllegalArgumentException, match=UNKNOWN):
            act()
    for name, near in (
        ("MAXOFFSETPERTRIGGER", "maxOffsetsPerTrigger"),
        ("bootstrap.servers", "kafka.bootstrap.servers"),
        ("isolation_level", "kafka.isolation.level"),
    ):
        with pytest.raises(IllegalArgumentException, match=rf"(?i)'{name}' .*: did you mean '{near}'\?"):
            spark.read.format("bowstring").options(**GOOD, **{name: "x"}).load()
    with pytest.raises(IllegalArgumentException, match=r"(?i)'rowsPerSecond' is not known: use assign, "):
        spark.read.format("bowstring").options(**GOOD, rowsPerSecond="x").load()


def test_what_spark_puts_among_the_options_passes(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    topic = make_topic(broker.bootstrap_servers)
    frame = spark.range(3).selectExpr("cast(id AS string) value")
    frame.write.format("bowstring").options(**servers, TOPIC=topic).partitionBy("value").save("some/path")
    read = spark.read.format("bowstring").options(**servers, SUBSCRIBE=topic, **{"kafka.no.such": "x"})
    assert read.load("some/path").count() == read.load(["a", "b"]).count() == 3
    stream = spark.readStream.format("bowstring").options(
        **servers, subscribe=topic, STARTINGoffsets="earliest"
    )
    writer = stream.load("some/path").selectExpr("value").writeStream.format("bowstring")
    writer = writer.queryName("copy").options(**servers, topic=topic, checkpointLocation=str(tmp_path))
    writer.trigger(availableNow=True).start().awaitTermination(HANG_S)
    assert read.load().count() == 6
    spark.sql(
        f"CREATE TABLE passes USING bowstring OPTIONS ('kafka.bootstrap.servers' '{broker.bootstrap_servers}', "
        f"subscribe '{topic}', topic '{topic}') COMMENT 'ours' TBLPROPERTIES (team = 'x', 'a.b' = 'y')"
    )
    try:
        assert spark.sql("SELECT count(*) FROM passes WITH (endingOffsets = 'latest')").first() == (6,)
        with pytest.raises(IllegalArgumentException, match=r"(?i)'endingOffset' is not known"):
            spark.sql("SELECT count(*) FROM passes WITH (endingOffset = 'latest')").first()
        spark.sql("INSERT INTO passes SELECT 'new' AS value")
        assert spark.table("passes").count() == 7
    finally:
        spark.sql("DROP TABLE passes")


def test_topics_and_partitions_that_are_not_there(spark: SparkSession, broker: bowstring.Broker) -> None:
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    for options, message in (
        ({"subscribe": "no-such-topic"}, r"Topics \[no-such-topic\] do not exist"),
        ({"assign": '{"no-such-topic":[0]}'}, r"Topics \[no-such-topic\] do not exist"),
    ):
        with pytest.raises(Exception, match=message):
            spark.read.format("bowstring").options(**servers, **options).load().collect()
    nothing = spark.read.format("bowstring").options(**servers, subscribePattern="no-such-.*").load()
    assert nothing.count() == 0


def test_what_is_not_a_kafka_listener(spark: SparkSession) -> None:
    import socket
    import threading

    with socket.create_server((own_address(), 0)) as server:
        received: list[bytes] = []

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    received.append(connection.recv(1000))
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" + b" " * 100)

        threading.Thread(target=answer, daemon=True).start()
        given = {**GOOD, "kafka.bootstrap.servers": "{}:{}".format(*server.getsockname())}
        with pytest.raises(Exception, match="is this a Kafka listener"):
            spark.read.format("bowstring").options(**given, groupIdPrefix="nightly").load().count()
        assert b"\x00\x07nightly" in received[0], "the client.id that the broker is told"
        server.shutdown(socket.SHUT_RDWR)  # ends accept(), which close() does not
