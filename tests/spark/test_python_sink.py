"""The Python engine writes topics, and reads typed values: over Spark Connect, without any jar."""

import json

import pytest

import bowstring
from tests.spark.python_workers import in_time
from tests.support.waiting import HANG_S

ROWS = 500


def read_back(servers, topic):
    return bowstring.read(topic, bootstrap_servers=servers).to_pylist()


def writer(frame, servers, **options):
    return (
        frame.write.format("bowstring")
        .option("kafka.bootstrap.servers", servers)
        .options(**options)
        .mode("append")
    )


def test_batch(python_spark, servers, make_topic):
    topic = make_topic(servers, 3)
    frame = python_spark.range(ROWS).selectExpr(
        "if(id % 7 = 0, null, concat('k', id % 11)) key",
        "if(id % 13 = 0, null, cast(concat('value ', id) as binary)) value",
        "array(struct('h' as key, cast(cast(id as string) as binary) as value)) headers",
    )
    writer(frame, servers, topic=topic, **{"kafka.compression.type": "lz4"}).save()
    found = read_back(servers, topic)
    expected = [
        (
            None if n % 7 == 0 else f"k{n % 11}".encode(),
            None if n % 13 == 0 else f"value {n}".encode(),
            [{"key": "h", "value": str(n).encode()}],
        )
        for n in range(ROWS)
    ]
    assert sorted(map(repr, expected)) == sorted(
        repr((row["key"], row["value"], row["headers"])) for row in found
    )
    # Keys are where the Java client puts them.
    with bowstring.Producer(servers) as producer:
        places = {
            key: producer.send(topic, b"x", key).result(HANG_S).partition
            for key in {row["key"] for row in found if row["key"]}
        }
    assert all(row["partition"] == places[row["key"]] for row in found if row["key"])


def test_topic_and_partition_of_each_row(python_spark, servers, make_topic):
    one, other = make_topic(servers, 2), make_topic(servers, 2)
    frame = python_spark.range(100).selectExpr(
        f"if(id % 4 = 0, '{one}', '{other}') topic",
        "cast(id as string) value",
        "cast(id % 2 as int) partition",
        "current_timestamp() timestamp",
    )
    writer(frame, servers).save()
    assert sorted(int(row["value"]) for row in read_back(servers, one)) == list(range(0, 100, 4))
    found = read_back(servers, other)
    assert sorted(int(row["value"]) for row in found) == [n for n in range(100) if n % 4]
    assert all(int(row["value"]) % 2 == row["partition"] for row in found)


@pytest.mark.parametrize(
    ("select", "options", "says"),
    [
        ("id value", {"topic": "t"}, "value is bigint, it must be string or binary"),
        ("'k' key", {"topic": "t"}, "no column `value`"),
        ("'v' value", {}, "no topic"),
        ("'v' value, 1L partition", {"topic": "t"}, "partition is bigint, it must be int"),
        ("cast(null as string) topic, 'v' value", {}, "a row's topic is null"),
        ("'v' value", {"topic": "t", "kafka.key.serializer": "x"}, "written as bytes"),
        ("'v' value", {"topic": "t", "kafka.acks": "2"}, "kafka.acks"),
        ("'v' value", {"topics": "t"}, "option topics is not known: did you mean topic"),
    ],
)
def test_what_cannot_be_written_is_said(python_spark, broker, select, options, says):
    frame = python_spark.sql(f"SELECT {select} FROM range(1)")
    with pytest.raises(Exception, match=says):
        writer(frame, broker.bootstrap_servers, **options).save()


def test_an_unreachable_broker_is_one_line(python_spark, tmp_path):
    away = {"topic": "t", "kafka.max.block.ms": "1500"}
    said = r"^[^\n]*no broker could be reached within 1\.5 s \(127\.0\.0\.1:1: .*Check that one is running"
    with pytest.raises(Exception, match=said) as raised:
        writer(python_spark.sql("SELECT 'v' value"), "127.0.0.1:1", **away).save()
    assert "Traceback" not in str(raised.value)
    rows = python_spark.readStream.format("rate").load().selectExpr("cast(value AS string) value")
    stream = rows.writeStream.format("bowstring").option("kafka.bootstrap.servers", "127.0.0.1:1")
    stream = stream.options(**away, checkpointLocation=str(tmp_path)).trigger(processingTime="0 seconds")
    with pytest.raises(Exception, match=said):
        stream.start().awaitTermination(HANG_S)


def test_overwrite_is_refused(python_spark, broker):
    frame = python_spark.sql("SELECT 'v' value")
    with pytest.raises(Exception, match="cannot be overwritten"):
        writer(frame, broker.bootstrap_servers, topic="t").mode("overwrite").save()


def test_stream(python_spark, servers, make_topic, tmp_path):
    topic, copy = make_topic(servers, 2), make_topic(servers, 2)
    with bowstring.Producer(servers) as producer:
        for number in range(ROWS):
            producer.send(topic, f"{number}".encode(), key=b"k", timestamp=1_700_000_000_000 + number)
        producer.flush(HANG_S)
    source = (
        python_spark.readStream.format("bowstring")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 200)
        .load()
    )
    stream = (
        source.selectExpr("key", "value")
        .writeStream.format("bowstring")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", copy)
        .option("checkpointLocation", str(tmp_path / "ck"))
        .trigger(availableNow=True)
    )
    assert in_time(lambda: stream.start().awaitTermination(HANG_S))
    found = read_back(servers, copy)
    assert [int(row["value"]) for row in found] == list(range(ROWS))


def test_values_decode(python_spark, broker, make_topic):
    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    values = [b'{"id":1,"at":{"x":1.5},"tags":["a"]}', b"not json", None, b'{"id":"wrong"}', b'{"id":2}']
    with bowstring.Producer(servers) as producer:
        for value in values:
            producer.send(topic, value)
        producer.flush(HANG_S)

    def load(**options):
        return (
            python_spark.read.format("bowstring")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", topic)
            .options(
                **{"value.format": "json", "value.schema": "id INT, at STRUCT<x: DOUBLE>, tags ARRAY<STRING>"}
            )
            .options(**options)
            .load()
        )

    frame = load()
    assert (
        "value:struct<id:int,at:struct<x:double>,tags:array<string>>,_error:string"
        in frame.schema.simpleString()
    )
    rows = frame.select("value", "_error").collect()
    assert rows[0].value.asDict(recursive=True) == {"id": 1, "at": {"x": 1.5}, "tags": ["a"]}
    assert [row._error is None for row in rows] == [True, False, True, False, True]
    assert [row.value is None for row in rows] == [False, True, True, True, False]
    flat = load(**{"value.mode": "flatten", "mode": "DROPMALFORMED"})
    assert flat.where("_error is null").select("offset", "id").collect() == [(0, 1), (2, None), (4, 2)]
    with pytest.raises(Exception, match=f"the value of {topic}-0 at offset 1 does not decode: at byte"):
        load(mode="FAILFAST").select("value.id").collect()
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    by_json_schema = load(**{"value.schema": json.dumps(schema)}).select("value.id").collect()
    assert by_json_schema[4].id == 2
