"""Options of format("bowstring") that make no sense are refused when the query is built, as Spark's Kafka source does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import bowstring

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
        ({"subscribe": None, "subscribePattern": "("}, "no regular expression"),
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
        ({"kafka.security.protocol": "SASL_SSL"}, "speaks PLAINTEXT only"),
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
        query.awaitTermination(30)
    if query is not None:
        query.stop()


def test_unreachable_brokers(spark: SparkSession) -> None:
    begin = time.monotonic()
    with pytest.raises(Exception, match=r"No connection to broker 127.0.0.1:9 .*check that it runs"):
        spark.read.format("bowstring").options(
            **GOOD, **{"kafka.default.api.timeout.ms": "1000"}
        ).load().count()
    assert time.monotonic() - begin < 20
    unknown = {**GOOD, "kafka.bootstrap.servers": "no.such.host.invalid:9092"}
    with pytest.raises(Exception, match=r"No address is known for the host of broker no.such.host.invalid"):
        spark.read.format("bowstring").options(
            **unknown, **{"kafka.default.api.timeout.ms": "1000"}
        ).load().count()


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

    with socket.create_server(("127.0.0.1", 0)) as server:
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
        given = {**GOOD, "kafka.bootstrap.servers": f"127.0.0.1:{server.getsockname()[1]}"}
        with pytest.raises(Exception, match="is this a Kafka listener"):
            spark.read.format("bowstring").options(**given, groupIdPrefix="nightly").load().count()
        assert b"\x00\x07nightly" in received[0], "the client.id that the broker is told"
