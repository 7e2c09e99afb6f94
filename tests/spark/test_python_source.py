"""The Python engine reads topics: over Spark Connect, on a server that has no jar of ours."""

import json

import pytest

import bowstring
from bowstring.clients.records import TopicPartition
from tests.spark.python_workers import in_time
from tests.support.waiting import HANG_S, error_in_time, pause, wait_until

RECORDS = 600
START_MS = 1_700_000_000_000


def record(number):
    key = None if number % 7 == 0 else f"k{number % 11}".encode()
    value = None if number % 13 == 0 else f"value {number}".encode()
    headers = [("h", b"\x00\xff"), ("empty", None)] if number % 5 == 0 else []
    return key, value, headers, START_MS + number


def fill(servers, topic, numbers, partitions=3, **configs):
    with bowstring.Producer(servers, **configs) as producer:
        for number in numbers:
            key, value, headers, timestamp = record(number)
            producer.send(
                topic, value, key, headers=headers, timestamp=timestamp, partition=number % partitions
            )
        producer.flush(HANG_S)


@pytest.fixture(scope="module", params=["bowstring", "kafka"])
def topic(request):
    """(servers, name) of a topic with three partitions, filled with every codec."""
    servers = (
        request.getfixturevalue("broker").bootstrap_servers
        if request.param == "bowstring"
        else request.getfixturevalue("kafka").bootstrap
    )
    name = f"python-engine-{request.param}"
    with bowstring.Admin(servers) as admin:
        admin.create_topic(name, 3, configs={"retention.ms": "-1"})
    for part, codec in enumerate(("none", "lz4", "zstd", "snappy", "gzip")):
        fill(servers, name, range(part * RECORDS // 5, (part + 1) * RECORDS // 5), compression=codec)
    return servers, name


def reader(spark, topic, **options):
    servers, name = topic
    found = spark.read.format("bowstring").option("kafka.bootstrap.servers", servers)
    if not {"assign", "subscribePattern"} & options.keys():
        found = found.option("subscribe", name)
    return found.options(**options)


def numbers(rows):
    return sorted(3 * row.offset + row.partition for row in rows)


def test_every_record_as_it_was_written(python_spark, topic):
    frame = reader(python_spark, topic, includeHeaders="true").load()
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    rows = frame.selectExpr("*", "unix_millis(timestamp) ms").collect()
    assert numbers(rows) == list(range(RECORDS))
    for row in rows:
        key, value, headers, timestamp = record(3 * row.offset + row.partition)
        assert (row.key, row.value, row.ms, row.topic) == (key, value, timestamp, topic[1])
        assert [(each.key, each.value) for each in row.headers or []] == headers
        assert row.timestampType == 0


def test_plan_names_the_engine(python_spark, topic, capsys):
    reader(python_spark, topic).load().explain()
    assert "bowstring" in (said := capsys.readouterr().out) and "(Python)" in said


def test_columns_by_option_and_by_schema(python_spark, topic):
    frame = reader(python_spark, topic, columns="offset,value").load()
    assert frame.columns == ["offset", "value"]
    assert frame.selectExpr("sum(length(value))").first()[0] == sum(
        len(record(n)[1] or b"") for n in range(RECORDS)
    )
    frame = reader(python_spark, topic).schema("partition int, topic string").load()
    assert frame.groupBy("partition").count().orderBy("partition").collect() == [
        (n, RECORDS // 3) for n in range(3)
    ]
    with pytest.raises(Exception, match="there is no column 'colour'"):
        reader(python_spark, topic).schema("colour int").load().collect()


def test_offsets_in_every_form(python_spark, topic):
    name = topic[1]
    starting = json.dumps({name: {"0": 10, "1": -2, "2": 190}})
    ending = json.dumps({name: {"0": 12, "1": 5, "2": -1}})
    rows = reader(python_spark, topic, startingOffsets=starting, endingOffsets=ending).load().collect()
    wanted = [(0, o) for o in (10, 11)] + [(1, o) for o in range(5)] + [(2, o) for o in range(190, 200)]
    assert sorted((row.partition, row.offset) for row in rows) == wanted
    middle = START_MS + 300
    assert numbers(reader(python_spark, topic, startingTimestamp=str(middle)).load().collect()) == list(
        range(300, RECORDS)
    )
    assert numbers(reader(python_spark, topic, endingTimestamp=str(middle)).load().collect()) == list(
        range(300)
    )
    each = json.dumps({name: {str(n): middle + n for n in range(3)}})
    found = reader(python_spark, topic, startingOffsetsByTimestamp=each).load().collect()
    assert numbers(found) == sorted(n for n in range(RECORDS) if n >= 300 + n % 3)
    late = {"startingTimestamp": str(START_MS * 2)}
    with pytest.raises(Exception, match="startingOffsetsByTimestampStrategy"):
        reader(python_spark, topic, **late).load().collect()
    late["startingOffsetsByTimestampStrategy"] = "latest"
    assert reader(python_spark, topic, **late).load().count() == 0


def test_pattern_and_assign(python_spark, topic):
    name = topic[1]
    found = reader(python_spark, topic, subscribePattern=f"python-eng.*-{name.rpartition('-')[2]}").load()
    assert found.count() == RECORDS
    assert reader(python_spark, topic, subscribePattern="python-engine").load().count() == 0
    found = reader(python_spark, topic, assign=json.dumps({name: [2]})).load()
    assert numbers(found.collect()) == list(range(2, RECORDS, 3))


def test_tasks(python_spark, topic):
    def tasks(**options):
        frame = reader(python_spark, topic, **options).load()
        return frame.selectExpr("spark_partition_id() task").distinct().count()

    assert tasks() == 3
    assert tasks(minPartitions="6") == 6
    assert tasks(maxRecordsPerPartition="50") == 12


def test_sql(python_spark, topic):
    servers, name = topic
    python_spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW engine USING bowstring "
        f"OPTIONS (`kafka.bootstrap.servers` '{servers}', subscribe '{name}')"
    )
    assert python_spark.sql("SELECT count(*) FROM engine WHERE partition = 1").first()[0] == RECORDS // 3


def test_filters_choose_what_is_fetched(python_spark, topic):
    python_spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = reader(python_spark, topic).load()
        one = frame.where("partition = 1 and offset >= 150 and offset < 160 and topic is not null")
        assert sorted(row.offset for row in one.collect()) == list(range(150, 160))
        assert one.selectExpr("spark_partition_id() task").distinct().count() == 1
        assert numbers(frame.where("partition in (0, 2) and offset <= 3").collect()) == [
            n for n in range(12) if n % 3 != 1
        ]
        late = frame.where(f"timestamp > timestamp_millis({START_MS + 590})")
        assert numbers(late.collect()) == list(range(591, RECORDS))
        assert frame.where("partition = 0 and partition = 1").count() == 0
        assert frame.where("topic = 'another'").count() == 0
        assert frame.where("offset = 4 and value like '%1%'").count() == 2
    finally:
        python_spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_what_is_wrong_is_said(python_spark, topic):
    servers, _ = topic

    def fails(match, **options):
        with pytest.raises(Exception, match=match):
            python_spark.read.format("bowstring").options(**options).load().collect()

    fails("kafka.bootstrap.servers is missing", subscribe="t")
    here = {"kafka.bootstrap.servers": servers}
    fails("one of the options subscribe", **here)
    fails("startingOffsets cannot be latest", **here, subscribe="t", startingOffsets="latest")
    reader = python_spark.read.format("bowstring").options(**here, subscribe="nowhere")
    error_in_time(
        lambda s: reader.option("kafka.default.api.timeout.ms", str(int(1000 * s))).load().collect(),
        Exception,
        "UNKNOWN_TOPIC_OR_PARTITION",
    )
    fails("jar is not on Spark's class path", **here, subscribe="t", engine="columnar")
    closed = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "1500"}
    fails(rf"^[^\n]*{AWAY}", **closed, subscribe="t")
    fails(r"option startingoffset is not known: did you mean startingOffsets\?", **closed, startingOffset="x")


AWAY = r"no broker could be reached within 1\.5 s \(127\.0\.0\.1:1: .*Check that one is running"


def test_a_stream_that_cannot_be_says_why_in_one_line(python_spark, tmp_path):
    """Whether it is refused before it begins, or finds no broker."""
    closed = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "1500"}
    for number, (options, said) in enumerate(
        [
            ({"subscribe": "t"}, AWAY),
            ({"subscribe": "t", "minPartitions": "0"}, "option minPartitions is '0'"),
        ]
    ):
        frame = python_spark.readStream.format("bowstring").options(**closed, **options).load()
        writer = frame.writeStream.format("noop").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / str(number)))
        with pytest.raises(Exception, match=rf"^[^\n]*{said}") as raised:
            in_time(lambda writer=writer: writer.start().awaitTermination(HANG_S))
        assert "Traceback" not in str(raised.value)
    with pytest.raises(Exception, match="startingoffset is not known: did you mean startingOffsets"):
        python_spark.readStream.format("bowstring").options(**closed, startingOffset="earliest").load().schema  # noqa: B018


def test_tables(python_spark, broker, make_topic, tmp_path):
    """Spark gives the options of a table to no source in Python; its columns bring them along."""
    topic = make_topic(broker.bootstrap_servers)
    fill(broker.bootstrap_servers, topic, range(50), partitions=1)
    options = f"OPTIONS (`kafka.bootstrap.servers` '{broker.bootstrap_servers}', subscribe '{topic}')"
    sql = python_spark.sql
    sql(f"CREATE TABLE as_table USING bowstring {options} TBLPROPERTIES (team = 'x')")
    sql(f"CREATE TABLE with_columns (value binary) USING bowstring {options}")
    try:
        assert sql("SELECT count(*) FROM as_table WHERE offset >= 40").first()[0] == 10
        some = f'WITH (startingOffsets = \'{{"{topic}":{{"0":45}}}}\')'
        assert sql(f"SELECT count(*) FROM as_table {some}").first()[0] == 5
        stream = python_spark.readStream.table("as_table").select("offset").writeStream.format("memory")
        stream = stream.queryName("of_a_table").option("checkpointLocation", str(tmp_path))
        in_time(lambda: stream.trigger(availableNow=True).start().awaitTermination(HANG_S))
        with pytest.raises(Exception, match=r"the query has no options.*created with a list of columns"):
            sql("SELECT * FROM with_columns").collect()
        with pytest.raises(Exception, match=r"the write has no options.*df\.write"):
            sql("INSERT INTO as_table (value) SELECT cast('new' AS binary) AS value")
        with pytest.raises(Exception, match="option subscrib is not known: did you mean subscribe"):
            sql(f"CREATE TABLE misspelt USING bowstring {options.replace('subscribe', 'subscrib')}")
    finally:
        for name in ("as_table", "with_columns"):
            sql(f"DROP TABLE {name}")


def test_records_that_are_gone(python_spark, servers, make_topic):
    topic = servers, make_topic(servers)
    fill(*topic, range(100), partitions=1)
    with bowstring.Admin(servers) as admin:
        admin.delete_records({TopicPartition(topic[1], 0): 40})
    starting = json.dumps({topic[1]: {"0": 10}})
    with pytest.raises(Exception, match="below the log's first offset, 40"):
        reader(python_spark, topic, startingOffsets=starting).load().collect()
    found = reader(python_spark, topic, startingOffsets=starting, failOnDataLoss="false").load()
    assert [row.offset for row in found.collect()] == list(range(40, 100))


class Stream:
    """A streaming query into a table in memory, run repeatedly while there is data."""

    def __init__(self, spark, topic, checkpoint, **options):
        servers, name = topic
        self.spark = spark
        self.checkpoint = str(checkpoint)
        self.frame = (
            spark.readStream.format("bowstring")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", name)
            .options(**options)
            .load()
        )

    def run(self, path):
        return in_time(lambda: self._run(path))

    def _run(self, path):
        query = (
            self.frame.writeStream.format("parquet")
            .option("path", str(path))
            .option("checkpointLocation", self.checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(HANG_S)
        assert query.exception() is None
        return [each for each in query.recentProgress if _rows(each)]


def test_stream_goes_on_from_its_checkpoint(python_spark, servers, make_topic, tmp_path):
    topic = servers, make_topic(servers, 3)
    fill(*topic, range(300))
    stream = Stream(
        python_spark, topic, tmp_path / "ck", startingOffsets="earliest", maxOffsetsPerTrigger="120"
    )
    progress = stream.run(tmp_path / "out")
    assert [_rows(each) for each in progress] == [120, 120, 60]
    last = progress[-1]["sources"][0]
    assert _json(last["endOffset"]) == {topic[1]: {"0": 100, "1": 100, "2": 100}}
    assert _json(last["latestOffset"]) == {topic[1]: {"0": 100, "1": 100, "2": 100}}
    with bowstring.Admin(servers) as admin:
        admin.create_partitions({topic[1]: 4})
    fill(*topic, range(300, 400))
    with bowstring.Producer(servers) as producer:
        producer.send(topic[1], b"in the new one", partition=3).result(HANG_S)
    assert sum(_rows(each) for each in stream.run(tmp_path / "out")) == 101
    rows = python_spark.read.parquet(str(tmp_path / "out")).collect()
    assert numbers(row for row in rows if row.partition < 3) == list(range(400))
    assert len(rows) == 401


def test_stream_reports_what_it_lost(python_spark, servers, make_topic, tmp_path):
    topic = servers, make_topic(servers)
    fill(*topic, range(50), partitions=1)
    stream = Stream(python_spark, topic, tmp_path / "ck", startingOffsets="earliest")
    stream.run(tmp_path / "out")
    fill(*topic, range(50, 100), partitions=1)
    with bowstring.Admin(servers) as admin:
        admin.delete_records({TopicPartition(topic[1], 0): 70})
    with pytest.raises(Exception, match="failOnDataLoss"):
        stream.run(tmp_path / "out")
    bold = Stream(python_spark, topic, tmp_path / "ck", startingOffsets="earliest", failOnDataLoss="false")
    bold.run(tmp_path / "out")
    rows = python_spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row.offset for row in rows) == [*range(50), *range(70, 100)]


def test_stream_waits_for_enough(python_spark, broker, make_topic, tmp_path):
    servers = broker.bootstrap_servers
    topic = servers, make_topic(servers)
    fill(*topic, range(10), partitions=1)
    stream = Stream(
        python_spark,
        topic,
        tmp_path / "ck",
        startingOffsets="earliest",
        minOffsetsPerTrigger="50",
        maxTriggerDelay="1m",
    )
    query = (
        stream.frame.writeStream.format("memory")
        .queryName("enough")
        .option("checkpointLocation", stream.checkpoint)
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    try:
        pause(1, "triggers that find too little come and go")
        fill(*topic, range(10, 70), partitions=1)
        wait_until(lambda: python_spark.table("enough").count() >= 70)
        batches = [_rows(each) for each in query.recentProgress if _rows(each)]
        assert sum(batches) == 70
    finally:
        query.stop()


def _rows(progress):
    """Spark Connect leaves the sum over sources out."""
    return sum(source["numInputRows"] for source in progress["sources"])


def _json(found):
    return json.loads(found) if isinstance(found, str) else found
