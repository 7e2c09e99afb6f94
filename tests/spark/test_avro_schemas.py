"""value.schemas: Avro values of several writer schemas, identified by the id in Confluent's frame."""

from __future__ import annotations

import io
import json
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

import bowstring
from tests.support.addresses import own_address
from tests.support.spark_values import fill, in_order, typed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def record(name: str, **fields: Any) -> dict[str, Any]:
    """A record's schema; a field given as (type, default) has a default, as {"field": …} is taken whole."""
    made = []
    for field, given in fields.items():
        if isinstance(given, dict) and "field" in given:
            made.append({"name": field, **given["field"]})
        elif isinstance(given, tuple):
            made.append({"name": field, "type": given[0], "default": given[1]})
        else:
            made.append({"name": field, "type": given})
    return {"type": "record", "name": name, "fields": made}


def enum(*symbols: str, **more: str) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": symbols, **more}


LONGS = {"type": "array", "items": "long"}
READER = record(
    "Order",
    id="long",
    price="double",
    share="float",
    note=("string", "none yet ü"),
    tags=({"type": "map", "values": "string"}, {"a": "b"}),
    renamed={"field": {"type": "string", "aliases": ["former"]}},
    state=enum("NEW", "DONE", "OTHER", default="OTHER"),
    inner=record("Inner", x="double", y=("int", 7)),
    several=["null", "long", "string"],
    counts=LONGS,
    maybe=(["null", "string"], None),
)
OLDER = record(
    "Order",
    dropped=record(
        "Dropped", a={"type": "array", "items": ["null", "string"]}, b={"type": "map", "values": "int"}
    ),
    former="bytes",
    inner=record("Inner", x="int"),
    id="int",
    price="float",
    share="int",
    state=enum("DONE", "LOST", "NEW"),
    several="int",
    counts={"type": "array", "items": "int"},
    maybe="string",
)
WRONG = record("Order", id="string")
NEW = {
    **{"id": 2**40, "price": 1.5, "share": 0.25, "note": "n", "tags": {}, "renamed": "r", "state": "NEW"},
    **{"inner": {"x": 0.5, "y": 1}, "several": "s", "counts": [1, -(2**50)], "maybe": None},
}
OLD = {
    **{"dropped": {"a": [None, "x"], "b": {"k": 1}}, "former": "é".encode(), "inner": {"x": -3}, "id": -7},
    **{"price": 0.5, "share": -2, "state": "LOST", "several": 5, "counts": [1, 2, 3], "maybe": "m"},
}
SCHEMAS = {1: READER, 2: OLDER, 3: WRONG}


def framed(schema_id: int, schema: Any, row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return struct.pack(">bI", 0, schema_id) + out.getvalue()


VALUES = [
    *[framed(1, READER, NEW), framed(2, OLDER, OLD), framed(3, WRONG, {"id": "x"}), framed(9, READER, NEW)],
    *[framed(2, OLDER, {**OLD, "state": "DONE"}), framed(1, READER, {**NEW, "several": None}), b"\x00\x00"],
]


def expected(value: bytes, written: Any) -> dict[str, Any]:
    """The row as fastavro resolves it."""
    row: Any = fastavro.schemaless_reader(
        io.BytesIO(value[5:]), fastavro.parse_schema(written), fastavro.parse_schema(READER)
    )
    if isinstance(row["renamed"], bytes):
        row["renamed"] = row["renamed"].decode()
    member = row["several"]
    if member is not None:
        row["several"] = {
            "member0": member if isinstance(member, int) else None,
            "member1": member if isinstance(member, str) else None,
        }
    return dict(row)


@pytest.fixture(scope="module")
def topic(broker: bowstring.Broker) -> str:
    """A topic of values by several schemas."""
    with bowstring.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([bowstring.NewTopic("by-schema", 1)])
    fill(broker.bootstrap_servers, "by-schema", [*VALUES])
    return "by-schema"


@pytest.fixture
def registry() -> Iterator[tuple[str, list[str]]]:
    """A schema registry's address, and the requested paths."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            found = SCHEMAS.get(int(self.path.rpartition("/")[2]))
            body = json.dumps({"schema": json.dumps(found)} if found else {"error_code": 40403}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer((own_address(), 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{own_address()}:{server.server_port}", asked
        server.shutdown()


def read(spark: SparkSession, servers: str, topic: str, where: str, **more: str) -> Any:
    options = {"value_format": "avro", "value_schema": json.dumps(READER), "value_framing": "confluent"}
    return typed(spark, servers, topic, **options, **{"value.schemas": where}, **more)


def check(rows: list[Any]) -> None:
    by_id = {0: READER, 1: OLDER, 4: OLDER, 5: READER}
    for place, schema in by_id.items():
        assert rows[place]._error is None
        assert rows[place].value.asDict(True) == expected(VALUES[place], schema)
    assert [row.offset for row in rows if row._error] == [2, 3, 6]
    assert "schema 3: id is written as string and cannot be read as long" in rows[2]._error
    assert "schema 9: no schema has this id" in rows[3]._error and "lacks Confluent" in rows[6]._error


def test_a_directory_of_schemas(
    spark: SparkSession, broker: bowstring.Broker, topic: str, tmp_path: Path
) -> None:
    for schema_id, schema in SCHEMAS.items():
        (tmp_path / f"{schema_id}.avsc").write_text(json.dumps(schema))
    frame = read(spark, broker.bootstrap_servers, topic, str(tmp_path))
    check(in_order(frame))
    pruned = in_order(frame.selectExpr("offset", "value.inner.y", "value.note", "value.share"))
    assert [tuple(row)[1:] for row in pruned[:2]] == [(1, "n", 0.25), (7, "none yet ü", -2.0)]
    (tmp_path / "3.avsc").unlink()
    by_python = in_order(read(spark, broker.bootstrap_servers, topic, str(tmp_path), engine="python"))
    for place, schema in ((0, READER), (1, OLDER)):
        row = by_python[place].value.asDict(True)
        assert row == expected(VALUES[place], schema)
    assert [row.offset for row in by_python if row._error] == [2, 3, 6]


def test_a_schema_registry(
    spark: SparkSession, broker: bowstring.Broker, topic: str, registry: tuple[str, list[str]]
) -> None:
    address, asked = registry
    check(in_order(read(spark, broker.bootstrap_servers, topic, f"{address}/")))
    assert sorted(asked) == [f"/schemas/ids/{schema_id}" for schema_id in (1, 2, 3, 9)]
    with pytest.raises(
        Exception, match=r"schema registry did not return schema 1 .*check option value\.schemas"
    ):
        read(spark, broker.bootstrap_servers, topic, "http://127.0.0.1:9").collect()


@pytest.mark.parametrize("engine", ["auto", "python"])
def test_what_makes_no_sense(
    spark: SparkSession, broker: bowstring.Broker, tmp_path: Path, engine: str
) -> None:
    servers = broker.bootstrap_servers
    for where, message in ((tmp_path, "has no schemas"), (tmp_path / "none", "cannot be read")):
        with pytest.raises(Exception, match=rf"value\.schemas: .*{message}"):
            read(spark, servers, "by-schema", str(where), engine=engine)
    options = {"value_format": "avro", "value_schema": json.dumps(READER), "value.schemas": str(tmp_path)}
    with pytest.raises(
        Exception, match=r"value\.schemas is for value\.format=avro with value\.framing=confluent"
    ):
        typed(spark, servers, "by-schema", **options, engine=engine)
