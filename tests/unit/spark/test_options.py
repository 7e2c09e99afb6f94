"""Options of the Spark source and sink, as the Python engine reads them."""

import re
from pathlib import Path

import pytest

from bowstring.clients.errors import ConfigError
from bowstring.clients.records import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from bowstring.spark.option_names import OURS, SPARKS, check_names, table_options
from bowstring.spark.options import OffsetLimit, duration_ms, read_options, shape, write_options

ROOT = Path(__file__).resolve().parents[3]
BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a, b"}


def options(streaming=False, **given):
    return read_options(
        {**BASE, **{name.replace("__", "."): value for name, value in given.items()}}, streaming=streaming
    )


def test_defaults():
    batch = options()
    assert batch.topics == ("a", "b")
    assert batch.starting == OffsetLimit(end=EARLIEST_TIMESTAMP)
    assert batch.ending == OffsetLimit(end=LATEST_TIMESTAMP)
    assert batch.fail_on_data_loss and not batch.read_committed
    assert options(streaming=True).starting == OffsetLimit(end=LATEST_TIMESTAMP)
    assert batch.max_trigger_delay_ms == 900_000


def test_names_are_case_insensitive():
    read = read_options(
        {"KAFKA.bootstrap.servers": "x:1", "SUBSCRIBE": "t", "MaxOffsetsPerTrigger": "7"}, streaming=True
    )
    assert read.bootstrap_servers == "x:1" and read.max_offsets_per_trigger == 7


def test_offsets():
    read = options(startingOffsets='{"a":{"0":23,"1":-2},"b":{"0":0}}', endingOffsets="latest")
    assert read.starting.offsets == {
        TopicPartition("a", 0): 23,
        TopicPartition("a", 1): EARLIEST_TIMESTAMP,
        TopicPartition("b", 0): 0,
    }
    # Timestamps win over offsets, and one for all over one for each.
    read = options(
        startingTimestamp="5", startingOffsetsByTimestamp='{"a":{"0":9}}', startingOffsets="earliest"
    )
    assert read.starting == OffsetLimit(timestamp=5)
    read = options(startingOffsetsByTimestamp='{"a":{"0":9}}', startingOffsets="earliest")
    assert read.starting.timestamps == {TopicPartition("a", 0): 9}


def test_assign_and_pattern():
    base = {"kafka.bootstrap.servers": "x:1"}
    assert read_options({**base, "assign": '{"t":[1,0]}'}, streaming=False).assigned == (("t", 0), ("t", 1))
    assert read_options({**base, "subscribePattern": "t.*"}, streaming=False).pattern == "t.*"


def test_kafka_settings():
    read = options(
        kafka__isolation__level="read_committed", **{"kafka.fetch.max.bytes": "1000", "kafka.group.id": "g"}
    )
    assert read.read_committed
    assert read.configs == {
        "isolation_level": "read_committed",
        "fetch_max_bytes": 1000,
        "client_id": "g",
    }
    assert options(groupIdPrefix="nightly").configs == {"client_id": "nightly"}
    assert options(groupIdPrefix="p", **{"kafka.client.id": "c"}).configs == {"client_id": "c"}
    bound = options(**{"kafka.max.decompressed.batch.bytes": "500000"})
    assert bound.configs == {"max_decompressed_batch_bytes": 500_000}
    assert options(**{"kafka.nobody.knows": "1"}).configs == {}
    secured = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "sesame-1",
    }
    found = options(**secured)
    assert found.configs["security"]["sasl.password"] == "sesame-1"
    assert "sesame-1" not in repr(found)
    written = write_options(
        {
            "kafka.bootstrap.servers": "x:1",
            "topic": " t ",
            "kafka.acks": "-1",
            "kafka.compression.type": "zstd",
            "kafka.linger.ms": "2",
        }
    )
    assert written.topic == "t"
    assert written.configs == {"acks": "all", "compression": "zstd", "linger_ms": 2.0}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"subscribe": ""}, "subscribe names no topic"),
        ({"assign": '{"t":[0]}'}, "only one of"),
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers is missing"),
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "startingOffsets cannot be latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"startingOffsets": "soon"}, "startingOffsets is 'soon'"),
        ({"startingOffsets": '{"a":[1]}'}, "startingOffsets is"),
        ({"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"1":5}}'}, "a-0, a-1"),
        ({"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"0":4}}'}, "a-0 would start at 5"),
        ({"startingTimestamp": "now"}, "startingTimestamp is 'now'"),
        ({"minPartitions": "0"}, "minPartitions is '0'"),
        ({"maxRecordsPerPartition": "x"}, "maxRecordsPerPartition is 'x'"),
        ({"failOnDataLoss": "perhaps"}, "failOnDataLoss is 'perhaps'"),
        ({"kafka.auto.offset.reset": "latest"}, "use startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, "checkpoint"),
        ({"kafka.sasl.passwort": "x"}, "did you mean kafka.sasl.password"),
        ({"kafka.sasl.jaas.config": "secret"}, "security.protocol=SASL_SSL"),
        ({"kafka.fetch.max.bytes": "many"}, "must be a whole number"),
        ({"columns": "value,colour"}, "'colour'"),
        ({"value.schema": "a INT"}, "needs value.format"),
        ({"maxTriggerDelay": "5 weeks"}, "maxTriggerDelay"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "error or latest"),
    ],
)
def test_what_makes_no_sense_is_named(given, says):
    with pytest.raises(ConfigError, match=None) as raised:
        read_options({**BASE, **given}, streaming=False)
    assert says in str(raised.value)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_streams_do_not_end(name):
    with pytest.raises(ConfigError, match=name):
        options(streaming=True, **{name: "latest"})


def test_rates_agree():
    with pytest.raises(ConfigError, match="minOffsetsPerTrigger"):
        options(streaming=True, minOffsetsPerTrigger="10", maxOffsetsPerTrigger="5")


@pytest.mark.parametrize(
    ("text", "ms"), [("500", 500), ("500ms", 500), ("3s", 3_000), ("15m", 900_000), ("2h", 7_200_000)]
)
def test_durations(text, ms):
    assert duration_ms("x", text) == ms


def test_local():
    assert options(local="auto").configs == {"local": "auto"}
    assert options(local="TRUE").configs == {"local": True}
    assert options().configs == {}


def test_shape_asks_for_nothing_else():
    found = shape({"COLUMNS": "Value, offset", "includeHeaders": "true", "value.format": "json"})
    assert found.columns == ("value", "offset") and found.include_headers
    assert found.value_options == {"format": "json"}


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("startingOffset", "startingOffsets"),
        ("STARTINGOFFSET", "startingOffsets"),
        ("failOnDataloss ", "failOnDataLoss"),
        ("subscribed", "subscribe"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("value.shcema", "value.schema"),
        ("topics", "topic"),
        ("bootstrap.servers", "kafka.bootstrap.servers"),
        ("bootstrap_servers", "kafka.bootstrap.servers"),
        ("isolation.level", "kafka.isolation.level"),
        ("kafka_group_id", "kafka.group.id"),
    ],
)
def test_an_unknown_name_is_refused_and_the_nearest_named(name, near):
    said = f"option {name} is not known: did you mean {near}?"
    for read in (
        lambda given: read_options(given, streaming=False),
        lambda given: read_options(given, streaming=True),
        shape,
        lambda given: write_options({**given, "topic": "t"}),
    ):
        with pytest.raises(ConfigError) as raised:
            read({**BASE, name: "x"})
        assert str(raised.value) == said


def test_an_unknown_name_that_is_like_none():
    with pytest.raises(
        ConfigError, match=r"option rowsPerSecond is not known: there are assign, .*kafka\.\*"
    ):
        options(rowsPerSecond="5")


def test_names_of_kafkas_clients_of_spark_and_of_the_other_side_pass():
    names = ["kafka.nobody.knows", "path", "paths", "checkpointLocation", "queryName", "_anything"]
    check_names(["TOPIC", "startingOffsets", *names])
    table = {"provider": "bowstring", "team": "x", "option.subscribe": "t", "subscribe": "t"}
    check_names(table)
    assert table_options(table) == {"subscribe": "t"}
    with pytest.raises(ConfigError, match="option subscrib is not known: did you mean subscribe"):
        check_names({**table, "option.subscrib": "t"})


def test_both_engines_and_the_documentation_have_the_same_names():
    java = (ROOT / "python/bowstring/spark/java/bowstring/spark/OptionNames.java").read_text()
    lists = re.findall(r"= (?:List|Set)\.of\(([^;]*)\);", java)
    assert [tuple(re.findall(r'"([^"]+)"', each)) for each in lists[:1]] == [OURS]
    assert set(re.findall(r'"([^"]+)"', lists[1])) == SPARKS
    written = "".join(
        (ROOT / "docs" / "guide" / f"{name}.md").read_text() for name in ("spark", "typed-values")
    )
    # `fused` is what bowstring.spark.read() passes on to the tasks.
    assert [name for name in OURS if name != "fused" and name not in written] == []
