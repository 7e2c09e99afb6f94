"""The columnar sink against Bowstring and Apache Kafka: every record, its position, and unwritable rows."""

import collections
import datetime
import time

import pytest
from pyspark.sql import functions as F

import bowstring
from tests.spark.topics import read_all
from tests.support.waiting import HANG_S, wait_until

ROWS = 20_000
HEADERS = "array(named_struct('key', 'h', 'value', binary(cast(id as string))), named_struct('key', 'n', 'value', null))"


def write(frame, servers, topic=None, **options):
    options = {name.replace("_", "."): value for name, value in options.items()}
    writer = frame.write.format("bowstring").mode("append").option("kafka.bootstrap.servers", servers)
    if topic is not None:
        writer = writer.option("topic", topic)
    writer.options(**options).save()


def failure(call, *arguments, **options):
    """Spark's message when a write fails, with the causes that only the JVM has."""
    with pytest.raises(Exception) as raised:
        call(*arguments, **options)
    return str(raised.value)


def test_every_record_with_key_value_and_headers(spark, servers, make_topic):
    topic = make_topic(servers, 3)
    before = datetime.datetime.now(datetime.UTC).timestamp() * 1000
    columns = ["cast(id as string) key", "concat('value ', id) value", f"{HEADERS} headers"]
    write(spark.range(ROWS).selectExpr(*columns), servers, topic)
    records = read_all(servers, topic)
    assert len(records) == ROWS
    assert {record.key for record in records} == {b"%d" % each for each in range(ROWS)}
    for record in records:
        number = int(record.key)
        assert record.value == b"value %d" % number
        assert record.headers == (("h", b"%d" % number), ("n", None))
        assert before - 1 <= record.timestamp <= before + 120_000


def test_keys_are_where_javas_producer_puts_them(spark, servers, make_topic):
    """Spark's own sink, with Kafka's producer inside, writes the same rows to another topic."""
    ours, theirs = make_topic(servers, 7), make_topic(servers, 7)
    frame = spark.range(3000).selectExpr(
        "repeat(concat(id, 'é'), cast(id % 5 as int)) key", "cast(id as string) value"
    )
    write(frame, servers, ours)
    frame.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", theirs).save()

    def places(topic):
        return {record.value: (record.key, record.partition) for record in read_all(servers, topic)}

    assert places(ours) == places(theirs)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(spark, servers, make_topic, codec):
    topic = make_topic(servers)
    frame = spark.range(0, ROWS, 1, 1).selectExpr(
        "cast(id as string) key", "concat(md5(cast(id as string)), repeat('x', 90)) value"
    )
    write(frame, servers, topic, kafka_compression_type=codec)
    records = read_all(servers, topic)
    assert [int(record.key) for record in records] == list(range(ROWS))
    assert all(record.value.endswith(b"x" * 90) for record in records)


@pytest.mark.parametrize("codec, level", [("gzip", 1), ("lz4", 3), ("zstd", 9)])
def test_levels_and_incompressible_values(spark, broker, make_topic, codec, level):
    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    frame = spark.range(0, 200, 1, 1).selectExpr(
        "cast(id as string) key", "unhex(repeat(sha2(cast(id as string), 512), 20)) value"
    )
    write(
        frame, servers, topic, **{"kafka_compression_type": codec, f"kafka_compression_{codec}_level": level}
    )
    assert [int(record.key) for record in read_all(servers, topic)] == list(range(200))


def test_nulls_and_empty_values(spark, servers, make_topic):
    topic = make_topic(servers)
    frame = spark.createDataFrame(
        [(None, None), (b"", b""), (b"k", None), (None, b"v")], "key binary, value binary"
    ).coalesce(1)
    write(frame, servers, topic)
    assert sorted(((r.key, r.value) for r in read_all(servers, topic)), key=str) == sorted(
        [(None, None), (b"", b""), (b"k", None), (None, b"v")], key=str
    )


def test_rows_without_a_key_spread_over_partitions_in_whole_batches(spark, servers, make_topic):
    topic = make_topic(servers, 4)
    write(
        spark.range(0, ROWS, 1, 1).selectExpr("repeat('x', 100) value"),
        servers,
        topic,
        kafka_batch_size=16384,
    )
    counts = collections.Counter(record.partition for record in read_all(servers, topic))
    assert sum(counts.values()) == ROWS
    assert set(counts) == {0, 1, 2, 3}


def test_topic_and_partition_by_column_and_the_option_wins(spark, servers, make_topic):
    first, second = make_topic(servers, 2), make_topic(servers, 3)
    frame = spark.range(1000).selectExpr(
        f"if(id % 2 = 0, '{first}', '{second}') topic",
        "if(id % 3 = 0, null, cast(id % 2 as int)) partition",
        "cast(id as string) key",
        "cast(id as string) value",
    )
    write(frame, servers)
    for topic, odd in ((first, 0), (second, 1)):
        records = read_all(servers, topic)
        assert sorted(int(record.value) for record in records) == list(range(odd, 1000, 2))
        assert all(record.partition == odd for record in records if int(record.value) % 3)
    only = make_topic(servers, 2)
    write(frame, servers, only)
    assert len(read_all(servers, only)) == 1000


def test_values_larger_than_a_batch(spark, servers, make_topic):
    topic = make_topic(servers)
    write(
        spark.range(0, 20, 1, 1).selectExpr("repeat(cast(id % 10 as string), 700000) value"), servers, topic
    )
    assert [record.value for record in read_all(servers, topic)] == [
        b"%d" % (n % 10) * 700_000 for n in range(20)
    ]


@pytest.mark.parametrize("idempotence", ["true", "false"])
def test_a_batch_larger_than_the_topic_takes_is_split(spark, servers, make_topic, idempotence):
    topic = make_topic(servers, 2, max_message_bytes="4000")
    frame = spark.range(0, 3000, 1, 1).selectExpr(
        "cast(id as string) key", "repeat('x', 100) value", f"{HEADERS} headers"
    )
    write(frame, servers, topic, kafka_enable_idempotence=idempotence)
    records = read_all(servers, topic)
    assert collections.Counter(int(record.key) for record in records) == collections.Counter(range(3000))
    assert all(len(record.headers) == 2 for record in records)
    if idempotence == "true":
        for partition in (0, 1):
            keys = [int(record.key) for record in records if record.partition == partition]
            assert keys == sorted(keys)


def test_records_too_large(spark, servers, make_topic):
    topic = make_topic(servers, max_message_bytes="4000")
    frame = spark.range(1).selectExpr("repeat('x', 5000) value")
    assert "raise max.message.bytes of the topic" in failure(write, frame, servers, topic)
    said = failure(write, frame, servers, topic, kafka_max_request_size=3000)
    assert "larger than 3000, which is the value of the max.request.size configuration" in said
    said = failure(write, frame, servers, topic, kafka_buffer_memory=1000)
    assert "kafka.buffer.memory (1000)" in said


def test_little_memory_for_many_partitions(spark, servers, make_topic):
    topic = make_topic(servers, 40)
    frame = spark.range(0, 5000, 1, 1).selectExpr("cast(id as string) key", "repeat('x', 100) value")
    write(frame, servers, topic, kafka_buffer_memory=150_000)
    assert len(read_all(servers, topic)) == 5000


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(spark, servers, make_topic, acks):
    topic = make_topic(servers)
    write(spark.range(1000).selectExpr("cast(id as string) value"), servers, topic, kafka_acks=acks)
    # Nothing reports when records sent with acks=0 are there.
    deadline = datetime.datetime.now() + datetime.timedelta(seconds=HANG_S)
    while len(found := read_all(servers, topic)) < 1000:
        assert datetime.datetime.now() < deadline
    assert {int(record.value) for record in found} == set(range(1000))


def test_a_topic_that_is_not_there(spark, broker, kafka):
    frame = spark.range(3).selectExpr("cast(id as string) value")
    write(frame, kafka.bootstrap, "made-by-the-sink")
    assert len(read_all(kafka.bootstrap, "made-by-the-sink")) == 3
    with bowstring.Broker(config={"auto.create.topics.enable": False}) as strict:
        said = failure(write, frame, strict.bootstrap_servers, "nowhere", kafka_max_block_ms=5_000)
    assert "Topic nowhere not present in metadata after 5000 ms" in said


def test_no_broker(spark):
    frame = spark.range(3).selectExpr("cast(id as string) value")
    # The first timeout may end before the client has tried to connect.
    said = wait_until(
        lambda: "check that it runs" in (said := write_nowhere(frame)) and said, "it says something else"
    )
    assert "127.0.0.1:1" in said


def write_nowhere(frame):
    waits = {"kafka_default_api_timeout_ms": 500, "kafka_max_block_ms": 2000}
    return failure(write, frame, "127.0.0.1:1", "t", **waits)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (["id"], {"topic": "t"}, "Required attribute 'value' not found: the columns are id"),
        (["cast(id as string) value"], {}, "topic option required when no 'topic' attribute is present"),
        (
            ["id value"],
            {"topic": "t"},
            "value attribute unsupported type BIGINT. value must be a(n) STRING or BINARY",
        ),
        (["id key", "'v' value"], {"topic": "t"}, "key must be a(n) STRING or BINARY"),
        (["id topic", "'v' value"], {}, "topic must be a(n) STRING"),
        (["id partition", "'v' value"], {"topic": "t"}, "partition must be a(n) INT"),
        (
            ["map('a', 'b') headers", "'v' value"],
            {"topic": "t"},
            "headers must be a(n) ARRAY<STRUCT<key: STRING",
        ),
        (["cast(null as string) topic", "'v' value"], {}, "null topic present in the data"),
        (["'v' value"], {"topic": "t", "kafka_acks": "2"}, "'kafka.acks' is '2'"),
        (["'v' value"], {"topic": "t", "kafka_key_serializer": "x"}, "cast the column 'key'"),
        (
            ["'v' value"],
            {"topic": "t", "kafka_compression_type": "lzo"},
            "give none, gzip, snappy, lz4 or zstd",
        ),
        (
            ["'v' value"],
            {"topic": "t", "kafka_acks": "1", "kafka_enable_idempotence": "true"},
            "kafka.enable.idempotence=true needs kafka.acks=all",
        ),
        (["7 partition", "'v' value"], {"topic": "t"}, "7 is not in the range [0...0] of topic t"),
        (
            ["array(named_struct('key', cast(null as string), 'value', binary('x'))) headers", "'v' value"],
            {"topic": "t"},
            "Null header keys are not permitted",
        ),
    ],
)
def test_what_cannot_be_written(spark, broker, columns, options, message):
    assert message in failure(write, spark.range(1).selectExpr(*columns), broker.bootstrap_servers, **options)


def test_save_modes(spark, broker, make_topic):
    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    writer = spark.range(5).selectExpr("'v' value").write.format("bowstring")
    writer = writer.option("kafka.bootstrap.servers", servers).option("topic", topic)
    writer.save()  # as with Spark's own sink, the default mode works
    writer.mode("append").save()
    assert len(read_all(servers, topic)) == 10
    for mode in ("overwrite", "ignore"):
        assert "not allowed for topics" in failure(writer.mode(mode).save)


def test_insert_into_a_table(spark, broker, make_topic):
    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    options = f"'kafka.bootstrap.servers' '{servers}', topic '{topic}', subscribe '{topic}'"
    spark.sql(f"CREATE TABLE sink_topic USING bowstring OPTIONS ({options})")
    try:
        spark.sql("INSERT INTO sink_topic BY NAME SELECT cast(id as string) key, 'v' value FROM range(4)")
        assert sorted(record.key for record in read_all(servers, topic)) == [b"0", b"1", b"2", b"3"]
        assert spark.table("sink_topic").count() == 4
    finally:
        spark.sql("DROP TABLE sink_topic")


def test_bootstrap_servers_are_needed(spark):
    with pytest.raises(Exception, match=r"kafka\.bootstrap\.servers"):
        spark.range(1).selectExpr("'v' value").write.format("bowstring").mode("append").option(
            "topic", "t"
        ).save()


def test_a_stream_into_a_topic(spark, servers, make_topic, tmp_path):
    topic = make_topic(servers, 2)
    (tmp_path / "in").mkdir()
    for part in range(3):
        spark.range(part * 100, part * 100 + 100).coalesce(1).write.mode("append").parquet(
            str(tmp_path / "in")
        )
    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    query = (
        rows.select(F.col("id").cast("string").alias("key"), F.lit("v").alias("value"))
        .writeStream.format("bowstring")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", topic)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(HANG_S)
    assert sorted(int(record.key) for record in read_all(servers, topic)) == list(range(300))


def test_what_was_written_shows_in_the_ui(spark, broker, make_topic):
    topic = make_topic(broker.bootstrap_servers, 2)
    frame = spark.range(0, 1000, 1, 2).selectExpr("cast(id as string) key", "'v' value")
    write(frame, broker.bootstrap_servers, topic)
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    store = spark._jsparkSession.sharedState().statusStore()
    shown = {}
    for number in range(store.executionsList().size()):
        execution = store.executionsList().apply(number)
        values = store.executionMetrics(execution.executionId())
        for each in range(execution.metrics().size()):
            metric = execution.metrics().apply(each)
            named = metric.name() in ("records written", "bytes written")
            if named and values.contains(metric.accumulatorId()):
                shown[metric.name()] = values.get(metric.accumulatorId()).getOrElse(None)
    assert shown["records written"] == "1,000"
    assert int(shown["bytes written"].replace(",", "")) > 5000


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_aggregates_as_they_change(spark, broker, make_topic, tmp_path, mode):
    servers = broker.bootstrap_servers
    source, target = make_topic(servers), make_topic(servers)
    reader = spark.readStream.format("bowstring").option("kafka.bootstrap.servers", servers)
    rows = reader.options(subscribe=source, startingOffsets="earliest").load()
    for number in range(2):
        frame = spark.range(3).selectExpr(f"cast(if({number} = 0, id, 0) as string) value")
        write(frame, servers, source)
        query = (
            rows.groupBy(F.col("value").alias("key"))
            .agg(F.count("*").cast("string").alias("value"))
            .writeStream.format("bowstring")
            .options(**{"kafka.bootstrap.servers": servers, "topic": target})
            .option("checkpointLocation", str(tmp_path))
            .outputMode(mode)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(HANG_S)
    latest = {record.key: record.value for record in read_all(servers, target)}
    assert latest == {b"0": b"4", b"1": b"1", b"2": b"1"}
    assert len(read_all(servers, target)) == (4 if mode == "update" else 6)


def test_real_time_mode_does_not_wait_for_the_end_of_its_batch(spark, broker, make_topic, tmp_path):
    servers = broker.bootstrap_servers
    source, target = make_topic(servers), make_topic(servers)
    # Spark has an allowlist of sinks for real-time mode, checked by this option since 4.3.
    spark.conf.set("spark.sql.streaming.realTimeMode.allowlistCheck", "false")
    reader = spark.readStream.format("bowstring").option("kafka.bootstrap.servers", servers)
    query = (
        reader.options(subscribe=source, startingOffsets="earliest")
        .load()
        .select("value")
        .writeStream.format("bowstring")
        .options(**{"kafka.bootstrap.servers": servers, "topic": target})
        .option("checkpointLocation", str(tmp_path))
        .option("_asyncProgressTrackingOverrideSinkSupportCheck", "true")
        .outputMode("update")
        .trigger(realTime="60 seconds")
        .start()
    )
    try:
        with (
            bowstring.Producer(servers) as producer,
            bowstring.Consumer(servers, auto_offset_reset="earliest") as consumer,
        ):
            consumer.assign([(target, 0)])
            for number in range(5):
                producer.send(source, b"%d" % number).result(HANG_S)
                seen = []
                deadline = time.monotonic() + HANG_S
                while not seen:
                    assert time.monotonic() < deadline
                    seen = consumer.poll(timeout=0.5)
                assert [record.value for record in seen] == [b"%d" % number]
    finally:
        query.stop()
        spark.conf.unset("spark.sql.streaming.realTimeMode.allowlistCheck")
