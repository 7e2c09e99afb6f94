"""Registries that answer what they should not, or die in the middle of an answer."""

import contextlib
import json
import socket
import threading

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

import bowstring
from bowstring.clients.http_login import HttpLogin
from bowstring.clients.registry import registry_client
from bowstring.clients.registry.registered_schema import RegisteredSchema
from bowstring.clients.registry.registry_client import RegistryClient
from bowstring.clients.registry.registry_errors import SchemaRegistryError
from tests.support.addresses import own_address
from tests.support.waiting import HANG_S

TEXT = RegisteredSchema("AVRO", '"string"')
FOUND = b'{"schema": "\\"string\\""}'


@contextlib.contextmanager
def answering(answer):
    """Sends the same bytes to every request, and closes; yields the address and the requests."""
    requests = []

    def run():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(HANG_S)
                data = b""
                while b"\r\n\r\n" not in data:
                    data += connection.recv(65536)
                requests.append(data)
                connection.sendall(answer)

    with socket.create_server((own_address(), 0)) as server:
        thread = threading.Thread(target=run)
        thread.start()
        try:
            host, port = server.getsockname()
            yield f"http://{host}:{port}", requests
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def response(body, status="200 OK", head=""):
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode() + body


def test_a_redirect_does_not_give_the_log_in_to_others():
    with (
        answering(response(FOUND)) as (other, requests),
        answering(response(b"", "302 Found", f"Location: {other}/schemas/ids/1\r\n")) as (address, _),
    ):
        client = RegistryClient(address, HttpLogin("me", "secret"))
        with pytest.raises(SchemaRegistryError, match="redirects elsewhere"):
            client.by_id(1)
        assert requests == []


@pytest.mark.parametrize(
    "answer",
    [
        b'{"schema": "x", "id": Infinity}',
        b'{"schema": "x", "id": true}',
        b'{"schema": "x", "version": 1e9}',
        b'{"schema": "x", "references": [{"name": "n", "subject": "s", "version": 1e400}]}',
        b'{"schema": "x", "references": [{"name": 1, "subject": "s", "version": 1}]}',
        b'{"schema": {"type": "string"}}',
        b'{"schema": null}',
        b'{"schema": "x", "schemaType": 5}',
    ],
)
def test_answers_of_wrong_types(answer):
    with answering(response(answer)) as (address, _), pytest.raises(SchemaRegistryError, match="else"):
        RegistryClient(address).by_id(1)


@pytest.mark.parametrize("number", ["Infinity", "-1", "4294967296", "1.5", '"7"', "null"])
def test_ids_that_are_none(number):
    with answering(response(f'{{"id": {number}}}'.encode())) as (address, _):
        client = RegistryClient(address)
        with pytest.raises(SchemaRegistryError, match="something else"):
            client.register("s", TEXT)


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{"schema"',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\n{"schema"',
        b'HTTP/1.1 500 Error\r\nTransfer-Encoding: chunked\r\n\r\n50\r\n{"error_code"',
        response(b"<html>"),
        b"",
    ],
)
def test_another_registry_answers_for_one_that_dies(answer):
    with answering(answer) as (address, _), answering(response(FOUND)) as (other, _):
        with pytest.raises(SchemaRegistryError):
            RegistryClient(address).by_id(1)
        assert RegistryClient(f"{address},{other}").by_id(1).text == '"string"'


def test_errors_with_wrong_codes():
    with answering(response(b'{"error_code": Infinity, "message": "no"}', "409 Conflict")) as (address, _):
        client = RegistryClient(address)
        with pytest.raises(SchemaRegistryError, match=r"no\Z") as caught:
            client.register("s", TEXT)
    assert (caught.value.status, caught.value.code) == (409, 409)


def test_large_schemas_are_not_kept_for_good(monkeypatch):
    monkeypatch.setattr(registry_client, "TEXTS_CHARACTERS_MAX", 1000)
    with answering(response(json.dumps({"schema": "x" * 600}).encode())) as (address, requests):
        client = RegistryClient(address)
        for number in (1, 2, 2, 1):
            client.by_id(number)
    assert len(requests) == 3


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
@pytest.mark.parametrize("form", [str, json.dumps])
def test_texts_that_are_paths_open_no_file(tmp_path, kind, form):
    path = tmp_path / "schema.json"
    path.write_text('{"type": "record", "name": "Leak", "fields": [{"name": "secret", "type": "int"}]}')
    answer = {"schema": form(str(path)), "schemaType": kind}
    with answering(response(json.dumps(answer).encode())) as (address, _):
        topic = bowstring.Registry(address).for_topic("t", "value")
        with pytest.raises(bowstring.ValueSchemaError) as caught:
            _ = topic.schema
        assert "Leak" not in str(caught.value)
        if kind == "AVRO":
            assert topic.object_decoder()(b"\0\0\0\0\1\2").reason


def test_json_schemas_of_endless_columns():
    definitions = {"d0": {"type": "object", "properties": {"x": {"type": "integer"}}}}
    for number in range(1, 40):
        inner = {"$ref": f"#/$defs/d{number - 1}"}
        definitions[f"d{number}"] = {"type": "object", "properties": {"a": inner, "b": inner}}
    with pytest.raises(bowstring.ValueSchemaError, match="columns cannot represent"):
        bowstring.Json({"$defs": definitions, "$ref": "#/$defs/d39"})


def test_messages_of_endless_columns():
    file = descriptor_pb2.FileDescriptorProto(name="doubling.proto", syntax="proto3")
    file.message_type.add(name="m0").field.add(name="x", number=1, type=5, label=1)
    for number in range(1, 40):
        message = file.message_type.add(name=f"m{number}")
        for name in (1, 2):
            message.field.add(name=f"f{name}", number=name, type=11, label=1, type_name=f".m{number - 1}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    with pytest.raises(bowstring.ValueSchemaError, match="columns cannot represent"):
        bowstring.Protobuf(pool.FindMessageTypeByName("m39"))


def doubling(leaf, depth=40):
    """A record of two records of two records …"""
    inner = {"type": "record", "name": "r0", "fields": leaf}
    for number in range(1, depth):
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"r{number - 1}"}]
        inner = {"type": "record", "name": f"r{number}", "fields": fields}
    return inner


@pytest.mark.parametrize("leaf", [[], [{"name": "n", "type": "null"}], [{"name": "n", "type": "int"}]])
@pytest.mark.parametrize("wrap", [dict, lambda record: {"type": "array", "items": record}])
def test_schemas_that_make_many_values_of_few_bytes(leaf, wrap):
    schema = json.dumps(wrap(doubling(leaf)))
    with answering(response(json.dumps({"schema": schema}).encode())) as (address, _):
        decoder = bowstring.Registry(address).for_topic("t", "value").object_decoder()
        assert decoder(b"\0\0\0\0\1\2\0").reason
