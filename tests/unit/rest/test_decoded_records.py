"""GET records with keys and values decoded by the schemas of a registry."""

import asyncio
import base64
import csv
import io
import json
import struct

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

import bowstring
from bowstring.clients.registry.registry_errors import SchemaRegistryError
from bowstring.rest.app import RestApp
from bowstring.rest.callers import Callers
from bowstring.rest.options import RestOptions
from bowstring.rest.records import decoded_records
from tests.support.rest_client import RestClient
from tests.support.schema_registry_double import schema_registry
from tests.support.served_site import served

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "note", "type": ["null", "string"], "default": None}],
}


@pytest.fixture(scope="module")
def registry():
    with schema_registry() as double:
        yield double


@pytest.fixture(scope="module")
def rest(bootstrap, registry):
    with served(RestApp(RestOptions(bootstrap, schema_registry=registry.url))) as site:
        yield RestClient(site.port)


def produced(bootstrap, registry, topic, values, **form):
    with bowstring.Producer(bootstrap, value=bowstring.Registry(registry.url, **form)) as producer:
        for each in values:
            producer.send(topic, each).result()


def test_lines_have_the_values_as_json(rest, bootstrap, registry, new_topic):
    topic = new_topic()
    produced(
        bootstrap, registry, topic, [{"id": 1, "note": "a\nb"}, {"id": 2, "note": None}, None], schema=ORDER
    )
    bad = b"\0" + struct.pack(">i", 999_999) + b"x"
    produced(bootstrap, registry, topic, [bad, b"plain", b'{"a":1}'], schema=ORDER)
    found = rest.lines("GET", f"/topics/{topic}/records?value=registry")
    assert [each.get("value") for each in found[:3]] == [
        {"id": 1, "note": {"string": "a\nb"}},
        {"id": 2, "note": None},
        None,
    ]
    assert base64.b64decode(found[3]["value_base64"]) == bad
    assert base64.b64decode(found[4]["value_base64"]) == b"plain"
    assert found[5]["value"] == {"a": 1}  # JSON without a schema is shown as it is
    path = f"/v3/clusters/{rest.cluster}/topics/{topic}/records"
    _, data = rest.raw("GET", f"{path}?value=registry&format=csv")
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    assert json.loads(rows[0]["value"]) == {"id": 1, "note": {"string": "a\nb"}}
    assert base64.b64decode(rows[3]["value_base64"]) == bad and rows[3]["value"] == ""


def test_protobuf_json_and_header_schemas(rest, bootstrap, registry, new_topic):
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Order").field.add(name="id", number=1, type=5, label=1)
    topic = new_topic()
    schema = base64.b64encode(file.SerializeToString()).decode()
    rest.lines(
        "POST",
        f"/topics/{topic}/records",
        json.dumps({"value": {"type": "PROTOBUF", "schema": schema, "data": {"id": 7}}}),
    )
    produced(bootstrap, registry, new_topic(), [], schema=ORDER)
    other = new_topic()
    produced(bootstrap, registry, other, [{"id": 3, "note": None}], schema=ORDER, wire="headers")
    assert rest.lines("GET", f"/topics/{topic}/records?value=registry")[0]["value"] == {"id": 7}
    (found,) = rest.lines("GET", f"/topics/{other}/records?value=registry")
    assert found["value"] == {"id": 3, "note": None}


def test_arrow_has_typed_columns(rest, bootstrap, registry, new_topic):
    topic = new_topic()
    produced(
        bootstrap, registry, topic, [{"id": 1, "note": "a"}, {"id": 2, "note": None}, b"bad"], schema=ORDER
    )
    answer, data = rest.raw(
        "GET", f"/v3/clusters/{rest.cluster}/topics/{topic}/records?value=registry&format=arrow"
    )
    assert answer.status == 200, data
    table = pa.ipc.open_stream(data).read_all()
    assert table.column("value").to_pylist() == [{"id": 1, "note": "a"}, {"id": 2, "note": None}, None]
    assert table.column("value_error").null_count == 2
    assert table.column("offset").to_pylist() == [0, 1, 2]
    missing = new_topic()
    produced(bootstrap, registry, missing, [b"x"])
    path = f"/topics/{missing}/records?value=registry&format=arrow"
    assert rest.ask("GET", path)[0] == 404  # its subject has no schema


def test_a_tail_and_small_pieces(rest, bootstrap, registry, new_topic, monkeypatch):
    monkeypatch.setattr(decoded_records, "TEXT_BYTES", 40)
    topic = new_topic()
    produced(bootstrap, registry, topic, [{"id": n, "note": None} for n in range(10)], schema=ORDER)
    found = rest.lines("GET", f"/topics/{topic}/records?value=registry")
    assert [each["value"]["id"] for each in found] == list(range(10))
    path = f"/v3/clusters/{rest.cluster}/topics/{topic}/records"
    _, data = rest.raw("GET", f"{path}?value=registry&format=events&from=earliest&limit=10")
    events = data.decode().split("\n\n")
    assert [json.loads(each.partition("data: ")[2])["offset"] for each in events if "data: " in each] == list(
        range(10)
    )
    assert "id: 0:10" in data.decode()


def test_without_a_registry_it_is_refused(bootstrap, new_topic):
    topic = new_topic()
    with served(RestApp(RestOptions(bootstrap))) as site:
        rest = RestClient(site.port)
        assert rest.ask("GET", f"/topics/{topic}/records?value=registry")[1]["error_code"] == 42207
    with served(RestApp(RestOptions(bootstrap, schema_registry="http://127.0.0.1:1"))) as site:
        rest = RestClient(site.port)
        produced_bytes = b"\0\0\0\0\1x"
        with bowstring.Producer(bootstrap) as producer:
            producer.send(topic, produced_bytes).result()
        status, answer = rest.ask("GET", f"/topics/{topic}/records?value=registry")
        assert (status, answer["error_code"]) == (502, 50201)


class Trees:
    """Decodes every value to one text, but for those without rights."""

    def tree(self, field, data, headers):
        if data == b"secret":
            raise SchemaRegistryError("refused", 403)
        return "x" * int(data)


def test_values_without_rights_or_memory_stay_as_they_are():
    async def main():
        callers = Callers(RestOptions(read_memory=8 << 20, streams_max=1))
        decoded = decoded_records.DecodedRecords(Trees(), ("value",), callers)
        values = [b"3", b"secret", b"300000", b"9000000", b"2000000", b"2000000"]
        kinds = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        batch = pa.record_batch(
            {"value": pa.array(values, pa.binary()), "headers": pa.array([[]] * len(values), kinds)}
        )
        found = [each for piece in decoded.pieces(batch) for each in piece.column("value").to_pylist()]
        assert found[:2] == [b'"xxx"', b"secret"] and len(found[2]) == 300_002
        assert found[3] == b"9000000" and len(found[4]) == 2_000_002 and found[5] == b"2000000"
        assert callers.take_text(1 << 20)  # the rest is given back
        await callers.close()

    asyncio.run(main())
