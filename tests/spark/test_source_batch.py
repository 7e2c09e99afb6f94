"""format("bowstring") as a batch source: the rows of Spark's own Kafka source, from Bowstring and from Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import bowstring
from tests.support.spark_topics import START, fill, read, rows
from tests.support.waiting import HANG_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_same_rows_as_sparks_source(
    spark: SparkSession, servers: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(servers, 3)
    fill(servers, topic, 2000, 3)
    ours = read(spark, "bowstring", servers, topic)
    theirs = read(spark, "kafka", servers, topic)
    assert ours.schema == theirs.schema
    assert rows(ours) == rows(theirs)
    assert ours.count() == 2000


def test_compressed_batches(spark: SparkSession, servers: str, make_topic: Callable[..., str]) -> None:
    topic = make_topic(servers)
    for codec in ("gzip", "none", "snappy", "lz4", "zstd"):
        fill(servers, topic, 700, compression=codec)
    frame = read(spark, "bowstring", servers, topic)
    assert rows(frame) == rows(read(spark, "kafka", servers, topic))
    assert frame.count() == 3500
    assert frame.where("offset >= 123 and offset < 3100").count() == 3100 - 123


def test_agrees_with_the_python_consumer(
    spark: SparkSession, servers: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(servers)
    fill(servers, topic, 300)
    with bowstring.Consumer(servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        seen: list[tuple[int, bytes | None, bytes | None]] = []
        while len(seen) < 300:
            seen += [(r.offset, r.key, r.value) for r in consumer.poll(timeout=HANG_S)]
    got = rows(read(spark, "bowstring", servers, topic))
    assert [
        (r.offset, r.key and bytes(r.key), r.value if r.value is None else bytes(r.value)) for r in got
    ] == seen


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": '{"TOPIC":{"0":10,"1":-2}}', "endingOffsets": '{"TOPIC":{"0":20,"1":-1}}'},
        {"startingTimestamp": str(START + 500), "endingTimestamp": str(START + 700)},
        {"startingOffsetsByTimestamp": f'{{"TOPIC":{{"0":{START + 11},"1":{START + 900}}}}}'},
        {"endingOffsetsByTimestamp": f'{{"TOPIC":{{"0":{START + 10**9},"1":{START + 900}}}}}'},
        {
            "startingTimestamp": str(START + 10**9),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        {"startingOffsets": "earliest", "endingOffsets": "latest", "minPartitions": "7"},
    ],
)
def test_ranges(
    spark: SparkSession, servers: str, make_topic: Callable[..., str], options: dict[str, str]
) -> None:
    topic = make_topic(servers, 2)
    fill(servers, topic, 1000, 2)
    given = {name: value.replace("TOPIC", topic) for name, value in options.items()}
    ours = read(spark, "bowstring", servers, topic, **given)
    theirs = read(spark, "kafka", servers, topic, **given)
    assert rows(ours) == rows(theirs)
    assert ours.rdd.getNumPartitions() in (theirs.rdd.getNumPartitions(), 0 if ours.isEmpty() else -1)


def test_records_per_task(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str]
) -> None:
    servers = broker.bootstrap_servers
    topic = make_topic(servers, 2)
    fill(servers, topic, 1000, 2)
    frame = read(spark, "bowstring", servers, topic, maxRecordsPerPartition="100")
    assert frame.rdd.getNumPartitions() == 10
    assert len(rows(frame)) == 1000


def test_subscribe_pattern_and_assign(
    spark: SparkSession, kafka: Any, make_topic: Callable[..., str]
) -> None:
    servers = kafka.bootstrap
    first, second = make_topic(servers, 2), make_topic(servers, 2)
    fill(servers, first, 10, 2)
    fill(servers, second, 10, 2)
    for strategy in (
        {"subscribe": f"{first}, {second}"},
        {"subscribePattern": f"({first}|{second})"},
        {"assign": f'{{"{first}":[0],"{second}":[1]}}'},
    ):
        given = {"kafka.bootstrap.servers": servers, "includeHeaders": "true", **strategy}
        ours, theirs = (spark.read.format(f).options(**given).load() for f in ("bowstring", "kafka"))
        assert rows(ours) == rows(theirs)
        assert ours.count() == (10 if "assign" in strategy else 20)


def test_filters_limit_and_columns_are_pushed(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str]
) -> None:
    servers = broker.bootstrap_servers
    topic = make_topic(servers, 3)
    fill(servers, topic, 900, 3)
    frame = read(spark, "bowstring", servers, topic)
    late = f"timestamp >= timestamp_millis({START + 600})"
    for condition, expected in (
        ("partition = 1", 300),
        ("partition in (0, 2) and offset > 199", 200),
        ("partition < 1 and offset between 10 and 19", 10),
        ("offset in (1, 5, 7)", 9),
        ("topic = 'another'", 0),
        (late, 300),
        (f"{late} and partition >= 2 and key is not null", len([i for i in range(602, 900, 3) if i % 3])),
        ("offset = 3 or partition = 0", 302),
    ):
        assert frame.where(condition).count() == expected, condition
    plan = frame.where(f"partition = 1 and {late}").limit(5)._jdf.queryExecution().toString()
    assert "bowstring columnar, TCP, Subscribe[" in plan
    assert "partition = 1, timestamp >= " in plan
    assert "PushedFilters: [" in plan
    assert len(frame.limit(5).collect()) == 5
    assert "BatchScan bowstring columnar[value#" in frame.select("value")._jdf.queryExecution().toString()
    assert frame.groupBy("partition").count().orderBy("partition").collect() == [
        (0, 300),
        (1, 300),
        (2, 300),
    ]


def test_sql_tables(spark: SparkSession, servers: str, make_topic: Callable[..., str]) -> None:
    topic = make_topic(servers)
    fill(servers, topic, 50)
    spark.sql(
        f"CREATE TABLE topics_as_table USING bowstring "
        f"OPTIONS ('kafka.bootstrap.servers' '{servers}', subscribe '{topic}')"
    )
    try:
        assert spark.sql("SELECT count(*) FROM topics_as_table WHERE offset >= 40").first() == (10,)
        spark.sql(f"INSERT INTO topics_as_table SELECT '{topic}' AS topic, cast('new' AS binary) AS value")
        assert spark.sql("SELECT max(offset) FROM topics_as_table").first() == (50,)
    finally:
        spark.sql("DROP TABLE topics_as_table")


def test_compacted_and_deleted_records(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str]
) -> None:
    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    fill(servers, topic, 100)
    with bowstring.Admin(servers) as admin:
        admin.delete_records({bowstring.TopicPartition(topic, 0): 40})
    assert read(spark, "bowstring", servers, topic).count() == 60
    given = {"startingOffsets": f'{{"{topic}":{{"0":10}}}}'}
    with pytest.raises(Exception, match=r"Offset 10 of .* is out of range.*failOnDataLoss"):
        read(spark, "bowstring", servers, topic, **given).collect()
    lossy = read(spark, "bowstring", servers, topic, failOnDataLoss="false", **given)
    assert [row.offset for row in rows(lossy)] == list(range(40, 100))


def test_a_batch_larger_than_a_fetch(
    spark: SparkSession, servers: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(servers, max_message_bytes="4000000")
    with bowstring.Producer(servers, max_request_size=4_000_000) as producer:
        for size in (10, 3_000_000, 10):
            producer.send(topic, b"x" * size)
            producer.flush()
    small = read(spark, "bowstring", servers, topic, **{"kafka.max.partition.fetch.bytes": "1000"})
    assert [r.n for r in small.selectExpr("length(value) n").collect()] == [10, 3_000_000, 10]


def test_only_the_columns_of_a_schema(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(broker.bootstrap_servers)
    fill(broker.bootstrap_servers, topic, 10)
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}
    frame = spark.read.format("bowstring").schema("offset long, value binary").options(**given).load()
    assert frame.columns == ["offset", "value"]
    assert frame.count() == 10
    with pytest.raises(Exception, match="has no column val of type binary"):
        spark.read.format("bowstring").schema("val binary").options(**given).load().collect()


def test_typed_values(spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str]) -> None:
    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    with bowstring.Producer(servers) as producer:
        for i in range(100):
            producer.send(topic, b'{"id": %d, "name": "n%d"}' % (i, i) if i != 7 else b"{broken")
        producer.flush()
    frame = read(
        spark, "bowstring", servers, topic, **{"value.format": "json", "value.schema": "id long, name string"}
    )
    got = frame.orderBy("offset").select("offset", "value.id", "value.name", "_error").collect()
    assert [(r.offset, r.id) for r in got] == [(i, None if i == 7 else i) for i in range(100)]
    assert got[7]._error and not any(r._error for i, r in enumerate(got) if i != 7)
    assert frame.count() == 100


def test_mapped_files(spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str]) -> None:
    servers = broker.bootstrap_servers
    topic = make_topic(servers, 2, segment_bytes="1048576")
    fill(servers, topic, 5000, 2)
    with bowstring.Producer(servers) as producer:
        for i in range(400):
            producer.send(topic, b"%d" % i * 5000, partition=1)
        producer.flush()
    fill(servers, topic, 1000, 2, compression="lz4")
    over_tcp = read(spark, "bowstring", servers, topic)
    mapped = read(spark, "bowstring", servers, topic, local="true")
    assert rows(mapped) == rows(over_tcp)
    assert mapped.count() == 6400
    part = mapped.where("partition = 1 and offset between 777 and 2345")
    assert part.count() == 2345 - 777 + 1
    assert "bowstring columnar, mapped, Subscribe[" in part._jdf.queryExecution().toString()


def test_mapped_files_of_another_broker(
    spark: SparkSession, kafka: Any, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(kafka.bootstrap)
    fill(kafka.bootstrap, topic, 10)
    assert read(spark, "bowstring", kafka.bootstrap, topic, local="auto").count() == 10
    with pytest.raises(Exception, match="offers no local reads: it is not Bowstring"):
        read(spark, "bowstring", kafka.bootstrap, topic, local="true").collect()
