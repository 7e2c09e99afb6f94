"""Keys and values as trees, texts and bytes: JSON, schema ids, and data that is none of these."""

import base64
import json
import math
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO

import pytest

import bowstring
from bowstring.clients.errors import ConfigError
from bowstring.clients.registry import failed_schemas
from bowstring.clients.registry.registry_client import RegistryClient
from bowstring.clients.registry.registry_errors import SchemaRegistryError
from bowstring.search.value_decoder import Decoded, ValueDecoder, plain_json
from tests.support.addresses import own_address
from tests.support.protobuf_messages import person_classes
from tests.support.schema_registry_double import schema_registry


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (None, Decoded("null", None)),
        (b'{"a": [1, 2]}', Decoded("json", {"a": [1, 2]})),
        (b" 17", Decoded("json", 17)),
        (b'"\\u00e9"', Decoded("json", "é")),
        ("grün".encode(), Decoded("text", "grün")),
        (b"{not json", Decoded("text", "{not json")),
        (b"", Decoded("text", "")),
        (b"\xff\xfe", Decoded("bytes", None)),
        (b'{"a": "\xff"}', Decoded("bytes", None)),
        (b"a\0b", Decoded("bytes", None)),
        (b'\0\0\0\0\7{"a": 1}', Decoded("json", {"a": 1}, 7)),
        (b"\0\0\0\0\7\2\3", Decoded("bytes", None)),
    ],
)
def test_without_a_registry(data, expected):
    assert ValueDecoder().decode(data) == expected


def test_hostile_json():
    decoder = ValueDecoder()
    for deep in (b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100 + b"1" + b"}" * 100):
        assert decoder.decode(deep).kind == "text"
    assert "64 deep" in decoder.decode(b"[" * 100 + b"]" * 100).note
    assert decoder.decode(b"[" * 60 + b"]" * 60).kind == "json"
    assert decoder.decode(b"9" * 5000) == Decoded(
        "text", "9" * 5000, None, "JSON with a number of more than 4,300 digits"
    )
    assert math.isnan(decoder.decode(b"NaN").value)
    assert plain_json(decoder.decode(b'[NaN, -Infinity, 1e999, "\\ud800"]').value)[:3] == [
        "nan",
        "-inf",
        "inf",
    ]


AVRO = {
    "type": "record",
    "name": "User",
    "fields": [{"name": "id", "type": "long"}, {"name": "at", "type": "Time"}],
}
TIME = {
    "type": "record",
    "name": "Time",
    "fields": [{"name": "on", "type": {"type": "int", "logicalType": "date"}}],
}
NOTHING = {"type": "record", "name": "Nothing", "fields": [{"name": "no", "type": "null"}]}
ENDLESS = {
    "type": "record",
    "name": "E",
    "fields": [{"name": "a", "type": {"type": "array", "items": NOTHING}}],
}
REFERENCE = {"name": "Time", "subject": "time", "version": 2}


def serialized_file():
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name="users.proto", package="p", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    file.message_type.add(name="Other")
    user = file.message_type.add(name="User")
    user.field.add(name="name", number=1, type=9, label=1)
    user.field.add(name="seen", number=2, type=11, label=1, type_name=".google.protobuf.Timestamp")
    return base64.b64encode(file.SerializeToString()).decode()


class Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        answers = {
            "/schemas/ids/1": {"schema": json.dumps(AVRO), "references": [REFERENCE]},
            "/subjects/time/versions/2": {"schema": json.dumps(TIME)},
            "/schemas/ids/2": {"schema": "{}", "schemaType": "JSON"},
            "/schemas/ids/3": {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"},
            "/schemas/ids/3?format=serialized": {"schema": serialized_file(), "schemaType": "PROTOBUF"},
            "/schemas/ids/4": {"schema": '{"type": "record"}'},
            "/schemas/ids/5": {"nothing": 1},
            "/schemas/ids/6": {"schema": json.dumps(ENDLESS)},
        }
        allowed = self.headers["Authorization"] == "Basic " + base64.b64encode(b"ann:s3cret").decode()
        code = 401 if not allowed else 200 if self.path in answers else 404
        body = json.dumps(answers.get(self.path, {"error_code": 40403})).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def served():
    with ThreadingHTTPServer((own_address(), 0), Answers) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def registry(served):
    return RegistryClient(f"http://ann:s3cret@{own_address()}:{served.server_port}/")


def test_avro_by_schema_id(registry, served):
    import fastavro

    out = BytesIO()
    named = {}
    fastavro.parse_schema(TIME, named_schemas=named)
    fastavro.schemaless_writer(
        out, fastavro.parse_schema(AVRO, named_schemas=named), {"id": 5, "at": {"on": 0}}
    )
    decoder = ValueDecoder(registry)
    expected = Decoded("avro", {"id": 5, "at": {"on": "1970-01-01"}}, 1)
    served.asked.clear()
    assert decoder.decode(b"\0\0\0\0\1" + out.getvalue()) == expected
    assert decoder.decode(b"\0\0\0\0\1" + out.getvalue()) == expected
    assert served.asked == ["/schemas/ids/1", "/subjects/time/versions/2"], "each is requested once"
    broken = decoder.decode(b"\0\0\0\0\1" + out.getvalue() + b"!")
    assert broken.kind == "bytes" and broken.schema_id == 1 and "1 bytes follow" in broken.note


def test_protobuf_and_json_by_schema_id(registry):
    decoder = ValueDecoder(registry)
    user = b"\x0a\x03Bob\x12\x02\x08\x01"
    expected = {"name": "Bob", "seen": "1970-01-01T00:00:01Z"}
    assert decoder.decode(struct.pack(">bI", 0, 3) + b"\2\2" + user) == Decoded("protobuf", expected, 3)
    assert decoder.decode(struct.pack(">bI", 0, 2) + b"[1]") == Decoded("json", [1], 2)
    for wrong in (b"\2\x20" + user, b"\2\2" + user[:-1], b"\xff" * 9, b""):
        assert decoder.decode(struct.pack(">bI", 0, 3) + wrong).kind in ("bytes", "text")


def test_registry_failures_are_notes(registry, served):
    decoder = ValueDecoder(registry)
    served.asked.clear()
    for schema_id, reason in (
        (9, "has none"),
        (4, "not Avro"),
        (5, "did not return"),
        (6, "many values of few bytes"),
    ):
        for _ in range(2):
            found = decoder.decode(struct.pack(">bI", 0, schema_id) + b"\1\2\3")
            assert found.kind == "bytes" and reason in found.note and "s3cret" not in found.note
    assert len(served.asked) == 4, "failures are kept for a while"
    refused = RegistryClient(f"http://{own_address()}:{served.server_port}")
    with pytest.raises(SchemaRegistryError, match="refuses the user"):
        refused.by_id(1)
    assert "s3cret" not in repr(registry)
    with pytest.raises(ConfigError, match="http://registry:8081"):
        RegistryClient("file:///etc/passwd")


def test_schemas_that_headers_name():
    with schema_registry() as double:
        registry = RegistryClient(double.url)
        _, order = person_classes()
        decoder = ValueDecoder(registry)
        for schema, value in (
            ({"type": "record", "name": "V", "fields": [{"name": "id", "type": "long"}]}, {"id": 7}),
            (order, {"id": 7, "item": "hat"}),
        ):
            form = bowstring.Registry(double.url, schema=schema, wire="headers").for_topic("t", "value")
            headers = (("__value_schema_id", b"?"), form.header_of(value), ("h", None))
            found = decoder.decode_of(form.encode_value(value), headers, "value")
            wanted = value if schema is not order else value | {"id": "7"}
            assert (found.value, found.schema_id, found.note) == (wanted, None, "")
        assert decoder.decode_of(b"1", headers, "key") == decoder.decode(b"1")
        assert decoder.decode_of(None, headers, "value").kind == "null"
        unknown = (("__value_schema_id", b"\1" + bytes(15) + b"\x63"),)
        assert "has none" in decoder.decode_of(b"{}", unknown, "value").note
        assert "not of its schema" in decoder.decode_of(b"\xff", headers, "value").note


def test_lookups_of_unknown_schemas_are_bounded(registry, served, monkeypatch):
    monkeypatch.setattr(failed_schemas, "FAILURES_PER_S", 0)
    decoder = ValueDecoder(registry)
    served.asked.clear()
    notes = [decoder.decode(struct.pack(">bI", 0, 1000 + each) + b"\1").note for each in range(300)]
    assert len(served.asked) == failed_schemas.FAILURES_MAX
    assert "has none" in notes[0] and "too many schemas" in notes[-1]
    assert "has none" in decoder.decode(struct.pack(">bI", 0, 1000) + b"\1").note
    key = b"\0\0\0\0\1" + b"\2" * 300
    assert "more than 256" in decoder.decode_of(b"\1", [("__value_schema_id", key)], "value").note
    assert len(served.asked) == failed_schemas.FAILURES_MAX
