"""value.format of the columnar source: JSON against from_json, Avro and Protobuf against their own packages."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

import bowstring
from tests.support.spark_values import fill, in_order, typed
from tests.support.waiting import HANG_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DDL = (
    "id bigint, i int, name string, price double, f float, ok boolean, tags array<string>, m map<string,int>, "
    "inner struct<x:int,y:array<struct<z:string>>>, d decimal(10,2), big decimal(30,3), ts timestamp, day date, "
    "b binary, ntz timestamp_ntz, by tinyint"
)
GOOD = [
    '{"id":1,"i":-5,"name":"a\\u00e9\\ud83d\\ude00\\/","price":1.5e3,"f":0.1,"ok":true,"tags":["x","y\\n",null],'
    '"m":{"k":3,"l":null},"inner":{"x":4,"y":[{"z":"q"},{}]},"d":1.239,"big":123456789012345678901.5,'
    '"ts":"2026-01-31T12:00:00.123Z","day":"2026-01-31","b":"aGk=","ntz":"2026-01-31T12:00:00.5","by":127}',
    "{}",
    ' { "name" : {"a":[1,true]} , "extra":[1,{"x":null}], "tags":[] } ',
    '{"name":12.5,"price":7,"f":3,"ts":1700000000,"d":"1.005"}',
    '{"tags":["gone"],"tags":["kept"],"id":1,"id":2}',
    '{"price":"NaN","f":"-Infinity","ts":"2026-01-31 12:00","day":"2026-1-3"}',
    '{"price":-0.1234567890123456789,"f":16777217,"id":-9223372036854775808}',
    '{"name":"é€😀","inner":null,"m":{},"ok":null}',
    '{"ts":"2026-01-31T12:00:00+02:00","price":1e-320,"f":1e-46}',
    '{"price":5e-324,"name":"\\"\\\\\\b\\f\\r\\t"}',
]
BAD = [
    '{"id":"x"}',
    '{"id":1.5}',
    '{"id":9223372036854775808}',
    '{"i":2147483648}',
    '{"ok":1}',
    '{"tags":[1],"inner":7}',
    '{"ts":"yesterday"}',
    '{"d":123456789.12}',
    '{"a":1',
    '{"name":"\\x"}',
    '{"price":01}',
    '{"day":"2026-02-30"}',
    '{"b":"*"}',
]


@pytest.fixture(scope="module")
def mixed(broker: bowstring.Broker) -> Iterator[tuple[str, str, list[str | None]]]:
    """A topic of good and bad JSON values."""
    values: list[str | None] = [*GOOD, None, *BAD, *GOOD]
    random.Random(5).shuffle(values)
    with bowstring.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([bowstring.NewTopic("typed-json", 1)])
    fill(broker.bootstrap_servers, "typed-json", [v if v is None else v.encode() for v in values])
    yield broker.bootstrap_servers, "typed-json", values


def test_json_is_what_from_json_makes_of_it(
    spark: SparkSession, mixed: tuple[str, str, list[str | None]]
) -> None:
    from pyspark.sql import functions as F

    servers, topic, values = mixed
    ours = in_order(typed(spark, servers, topic, value_format="json", value_schema=DDL))
    theirs = spark.createDataFrame([(i, v) for i, v in enumerate(values)], "offset bigint, text string")
    options = {"columnNameOfCorruptRecord": "_bad"}
    parsed = F.from_json("text", f"{DDL}, _bad string", options)
    oracle = in_order(theirs.select("offset", parsed.alias("value")))
    assert len(ours) == len(values)
    different = []
    for mine, expected, text in zip(ours, oracle, values, strict=True):
        if text is None:
            assert mine.value is None and mine._error is None
        elif text in BAD:
            assert expected.value._bad is not None, text
            assert mine.value is None and mine._error.startswith("at byte "), text
        else:
            assert mine._error is None, text
            wanted = {name: v for name, v in expected.value.asDict(True).items() if name != "_bad"}
            got = mine.value.asDict(True)
            different += [(text, n, got[n], v) for n, v in wanted.items() if repr(got[n]) != repr(v)]
    assert not different


def random_texts(n: int) -> list[str]:
    """JSON of the schema's shape, written in many ways; every third with damage."""
    r = random.Random(11)
    texts = []
    for i in range(n):
        row: dict[str, Any] = {
            "id": r.choice([0, -1, 2**63 - 1, r.randint(-(2**63), 2**63 - 1)]),
            "name": "".join(r.choice('ab"\\/\n\té€😀\u0001 ') for _ in range(r.randint(0, 20))),
            "price": r.choice([r.random() * 10 ** r.randint(-30, 30), r.randint(-9, 9), 0.1, 1e308, -0.0]),
            "f": r.random() * 10 ** r.randint(-10, 10),
            "tags": [r.choice(["x", None, "é" * 9]) for _ in range(r.randint(0, 3))],
            "m": {str(k): r.choice([k, None]) for k in range(r.randint(0, 3))},
            "inner": r.choice([None, {"x": 1, "y": [{"z": "q", "other": [{}]}, None]}, {}]),
            "d": r.randint(-(10**9), 10**9) / 100,
            "other": {"deep": [[], {"a": [1.5e-3, True]}], "s": "}]"},
        }
        kept = r.sample(sorted(row), r.randint(0, len(row)))
        separators = r.choice([(",", ":"), (" ,\t", " : ")])
        text = json.dumps({k: row[k] for k in kept}, ensure_ascii=i % 2 == 0, separators=separators)
        if i % 3 == 0:
            at = r.randrange(len(text))
            text = text[:at] + r.choice(['"', "{", "0", ",", "x", "\\u00", "]", ""]) + text[at + 1 :]
        texts.append(text)
    return texts


def test_random_json_is_what_from_json_makes_of_it(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str]
) -> None:
    from pyspark.sql import functions as F

    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    texts = random_texts(900)
    fill(servers, topic, [text.encode() for text in texts])
    ours = in_order(typed(spark, servers, topic, value_format="json", value_schema=DDL))
    frame = spark.createDataFrame(list(enumerate(texts)), "offset bigint, text string")
    parsed = F.from_json("text", f"{DDL}, _bad string", {"columnNameOfCorruptRecord": "_bad"})
    oracle = in_order(frame.select("offset", parsed.alias("value")))
    good = 0
    for mine, expected, text in zip(ours, oracle, texts, strict=True):
        if mine.value is None:  # from_json accepts trailing text, and names between single quotes.
            assert mine._error is not None
            assert expected.value._bad is not None or "follows" in mine._error, (text, mine._error)
            continue
        good += 1
        wanted = {name: v for name, v in expected.value.asDict(True).items() if name != "_bad"}
        assert expected.value._bad is None, text
        assert repr(mine.value.asDict(True)) == repr(wanted), text
    assert good > 600


def test_modes(spark: SparkSession, mixed: tuple[str, str, list[str | None]]) -> None:
    servers, topic, values = mixed
    kept = typed(spark, servers, topic, value_format="json", value_schema=DDL, mode="DROPMALFORMED")
    expected = [i for i, value in enumerate(values) if value not in BAD]
    rows = in_order(kept)
    assert [row.offset for row in rows] == expected
    assert [bytes(row.key) for row in rows] == [b"%d" % i for i in expected]
    assert kept.count() == len(expected)
    assert kept.select("offset").where("value is null").collect()[0].offset == values.index(None)
    failing = typed(spark, servers, topic, value_format="json", value_schema=DDL, mode="FAILFAST")
    first = next(i for i, value in enumerate(values) if value in BAD)
    with pytest.raises(
        Exception, match=rf"The value of {topic}-0 at offset {first} does not decode: at byte "
    ):
        failing.select("value.id").collect()


def test_pruned_and_flat_columns(spark: SparkSession, mixed: tuple[str, str, list[str | None]]) -> None:
    servers, topic, _ = mixed
    nested = typed(spark, servers, topic, value_format="json", value_schema=DDL)
    flat = typed(spark, servers, topic, value_format="json", value_schema=DDL, value_mode="flatten")
    assert flat.columns[:2] == ["key", "id"] and flat.columns[-1] == "_error" and "value" not in flat.columns
    picked = nested.selectExpr("offset", "value.inner.x as x", "value.tags as tags", "value.big as big")
    assert in_order(picked) == in_order(flat.selectExpr("offset", "inner.x as x", "tags", "big"))
    whole = in_order(nested)
    for pruned, row in zip(in_order(picked), whole, strict=True):
        if row.value is not None:
            assert pruned.tags == row.value.tags and pruned.big == row.value.big
    assert nested.where("_error is not null").count() == len(BAD)
    assert flat.selectExpr("sum(cast(id as decimal(30)))").collect()[0][0] == sum(
        r.value.id for r in whole if r.value and r.value.id
    )
    exploded = nested.selectExpr("explode(value.inner.y) as y").selectExpr("y.z")
    assert sorted(row.z or "" for row in exploded.collect()) == ["", "", "q", "q"]


def test_json_schemas(spark: SparkSession, broker: bowstring.Broker, tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}},
    }
    path = tmp_path / "order.json"
    path.write_text(json.dumps(schema))
    from pyspark.sql.types import StructType

    same = StructType.fromDDL("id bigint, at timestamp")
    for text in (json.dumps(schema), str(path), same.json(), "id bigint, at timestamp"):
        frame = typed(spark, broker.bootstrap_servers, "x", value_format="json", value_schema=text)
        assert frame.schema["value"].dataType == same
    for wrong in ("{", '{"type":"string"}', str(tmp_path / "missing.json"), "id nonsense"):
        with pytest.raises(Exception, match=r"value\.schema|PARSE|nonsense|UNSUPPORTED"):
            typed(spark, broker.bootstrap_servers, "x", value_format="json", value_schema=wrong)
    with pytest.raises(Exception, match=r"value\.format=xml"):
        typed(spark, broker.bootstrap_servers, "x", value_format="xml", value_schema="a int")


def test_avro(spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str]) -> None:
    from tests.support.avro_values import EVERYTHING, ROWS, VALUES

    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    fill(servers, topic, [*VALUES, b"\x80", None, VALUES[0] + b"x"])
    rows = in_order(typed(spark, servers, topic, value_format="avro", value_schema=json.dumps(EVERYTHING)))
    for row, expected in zip(rows, ROWS, strict=False):
        got = row.value.asDict(True)
        u = got.pop("u")
        assert row._error is None
        assert (u and next(v for v in u.values() if v is not None)) == expected["u"]
        moment = expected["ts"].astimezone().replace(tzinfo=None)
        micros = expected["tm"].microsecond + 1_000_000 * (2 * 60 + 3 + 3600)
        wanted = {**expected, "ts": moment, "tm": micros}
        assert got == {name: v for name, v in wanted.items() if name != "u"}
    assert [row.value for row in rows[len(ROWS) :]] == [None] * 3
    errors = [row._error or "" for row in rows[len(ROWS) :]]
    assert "truncated" in errors[0] and errors[1] == "" and "bytes follow" in errors[2]
    pruned = typed(spark, servers, topic, value_format="avro", value_schema=json.dumps(EVERYTHING))
    got_rows = in_order(pruned.selectExpr("offset", "value.m as m", "value.r.x as x", "value.n as n"))
    for row, expected in zip(got_rows, ROWS, strict=False):
        assert row.m == expected["m"] and row.x == (expected["r"] and expected["r"]["x"]) and row.n is None


def test_protobuf(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    from tests.support.protobuf_messages import FILES, Old
    from tests.support.protobuf_values import MESSAGES, VALUES, plain

    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    merged = VALUES[1] + VALUES[2]
    fill(servers, topic, [*VALUES, merged, b"\x00", b"\x4a\x01\xff", None])
    path = tmp_path / "messages.desc"
    path.write_bytes(FILES.SerializeToString())
    options = {"value_format": "protobuf", "value_schema": str(path)}
    rows = in_order(typed(spark, servers, topic, **options, **{"value.message": "t.M"}))
    wanted = [plain(message) for message in [*MESSAGES, type(MESSAGES[0]).FromString(merged)]]
    for row, expected in zip(rows, wanted, strict=False):
        got = row.value.asDict(True)
        if expected["ts"] is not None:
            expected["ts"] = expected["ts"].astimezone().replace(tzinfo=None)
        span = got.pop("du")
        du = expected.pop("du")
        assert (span is None) == (du is None)
        if du is not None:
            assert dt.timedelta(seconds=span["seconds"], microseconds=span["nanos"] // 1000) == du
        assert row._error is None and {**got, "f12": bytes(got["f12"])} == expected
    errors = [row._error or "" for row in rows[len(wanted) :]]
    assert "a field number is out of range" in errors[0] and "not UTF-8" in errors[1] and errors[2] == ""
    old = Old(n=3, unpacked=[1, 2])
    old.g.a = "x"
    second = make_topic(servers)
    fill(servers, second, [old.SerializeToString(), b"\x10\x05"])
    found = typed(spark, servers, second, **options, **{"value.message": "t2.Old", "value.mode": "flatten"})
    first, last = in_order(found.select("offset", "n", "g.a", "unpacked", "kind"))
    assert (first.n, first.a, first.unpacked, first.kind) == (3, "x", [1, 2], None)
    assert (last.n, last.a, last.unpacked, last.kind) == (None, None, [], None)
    in_an_edition = descriptor_pb2.FileDescriptorSet()
    in_an_edition.file.add(name="new.proto", syntax="editions", edition=descriptor_pb2.EDITION_2023)
    path.write_bytes(in_an_edition.SerializeToString())
    with pytest.raises(Exception, match=r"new\.proto uses an edition of Protobuf.*engine=python"):
        typed(spark, servers, topic, **options, **{"value.message": "t.Missing"})
    path.write_bytes(FILES.SerializeToString())
    with pytest.raises(Exception, match="is not in the FileDescriptorSet, which has"):
        typed(spark, servers, topic, **options, **{"value.message": "t.Missing"})


def test_the_last_of_equal_map_keys_counts(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    from tests.support.protobuf_messages import FILES, M
    from tests.support.protobuf_values import plain

    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    r = random.Random(3)
    values = []
    for n in range(60):
        value = b""
        for _ in range(r.choice([1, 3, 40])):
            message = M()
            for _ in range(3):
                key = f"k{r.randint(0, n)}"
                message.mp[key] = r.randint(0, 99)
                message.mm[key].s.append(str(r.randint(0, 99)))
            value += message.SerializeToString()
        values.append(value)
    fill(servers, topic, [*values, values[0] + b"\x00", values[1]])
    path = tmp_path / "messages.desc"
    path.write_bytes(FILES.SerializeToString())
    given = {"value_format": "protobuf", "value_schema": str(path), "value.message": "t.M"}
    wanted = ("offset", "value.mp", "value.mm", "size(value.mp) AS mp_size", "size(value.mm) AS mm_size")
    rows = in_order(typed(spark, servers, topic, **given).selectExpr(*wanted))
    assert rows[60].mp is None
    for row, value in zip([*rows[:60], rows[61]], [*values, values[1]], strict=True):
        expected = plain(M.FromString(value))
        got = row.asDict(recursive=True)
        assert got["mp"] == expected["mp"] and got["mm"] == expected["mm"]
        assert (row.mp_size, row.mm_size) == (len(expected["mp"]), len(expected["mm"]))


def test_confluent_framing(
    spark: SparkSession, broker: bowstring.Broker, make_topic: Callable[..., str]
) -> None:
    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    form = bowstring.Json(pa.schema({"id": pa.int64()}), framing="confluent", schema_id=7)
    fill(servers, topic, [*form.encode(pa.table({"id": [1, 2]})).to_pylist(), b'{"id":3}'])
    rows = in_order(
        typed(spark, servers, topic, value_format="json", value_schema="id bigint", value_framing="confluent")
    )
    assert [row.value and row.value.id for row in rows] == [1, 2, None] and "lacks Confluent" in rows[
        2
    ]._error


def test_streams(spark: SparkSession, mixed: tuple[str, str, list[str | None]], tmp_path: Path) -> None:
    servers, topic, values = mixed
    frame = (
        spark.readStream.format("bowstring")
        .option("kafka.bootstrap.servers", servers)
        .options(subscribe=topic, startingOffsets="earliest", mode="DROPMALFORMED", maxOffsetsPerTrigger=7)
        .options(**{"value.format": "json", "value.schema": DDL})
        .load()
    )
    query = (
        frame.selectExpr("offset", "value.name as name")
        .writeStream.format("memory")
        .queryName("typed_stream")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(HANG_S)
    got = sorted(row.offset for row in spark.table("typed_stream").collect())
    assert got == [i for i, value in enumerate(values) if value not in BAD]
