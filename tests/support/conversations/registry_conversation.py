"""Requests for an empty schema registry, in order: each has the state that those before it left."""

import json
from collections.abc import Iterator
from typing import Any

from tests.support.conversations.exchange import Exchange

INT, STRING = '"int"', '"string"'


def _record(*fields: Any, name: str = "Order") -> str:
    found = [each if isinstance(each, dict) else {"name": each, "type": "int"} for each in fields]
    return json.dumps({"type": "record", "name": name, "fields": found})


_OPTIONAL = {"name": "note", "type": "string", "default": ""}
_OBJECT = json.dumps({"type": "object", "properties": {"a": {"type": "integer"}}})
_OBJECT_MORE = json.dumps(
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
)
_OBJECT_OTHER = json.dumps({"type": "object", "properties": {"a": {"type": "string"}}})
_PROTO = 'syntax = "proto3";\npackage shop;\n\nmessage Order {\n  int32 id = 1;\n}\n'
_PROTO_MORE = 'syntax = "proto3";\npackage shop;\n\nmessage Order {\n  int32 id = 1;\n  string note = 2;\n}\n'
_PROTO_OTHER = 'syntax = "proto3";\npackage shop;\n\nmessage Order {\n  string id = 1;\n}\n'
_PROTO_USER = (
    'syntax = "proto3";\npackage desk;\n\nimport "order.proto";\n\n'
    "message Desk {\n  shop.Order order = 1;\n}\n"
)


def _register(name: str, subject: str, schema: Any, kind: str | None = None, **more: Any) -> Exchange:
    body = {"schema": schema, **more} | ({} if kind is None else {"schemaType": kind})
    return Exchange(name, "POST", f"/subjects/{subject}/versions", body)


def _check(name: str, target: str, schema: Any, kind: str | None = None) -> Exchange:
    body = {"schema": schema} | ({} if kind is None else {"schemaType": kind})
    return Exchange(name, "POST", f"/compatibility/subjects/{target}", body)


def registry_requests() -> list[Exchange]:
    """Returns every request of the conversation."""
    groups = (
        _empty,
        _avro,
        _bad_bodies,
        _json_schema,
        _protobuf,
        _references,
        _deletes,
        _configs,
        _modes,
        _last,
    )
    return [exchange for group in groups for exchange in group()]


def _get(name: str, target: str) -> Exchange:
    return Exchange(name, "GET", target)


def _delete(name: str, target: str) -> Exchange:
    return Exchange(name, "DELETE", target)


def _empty() -> Iterator[Exchange]:
    yield _get("no subjects", "/subjects")
    yield _get("types", "/schemas/types")
    yield _get("no schemas", "/schemas")
    yield _get("first config", "/config")
    yield _get("first mode", "/mode")
    yield _get("unknown id", "/schemas/ids/1")
    yield _get("id is no number", "/schemas/ids/first")
    yield _get("versions of an unknown id", "/schemas/ids/1/versions")
    yield _get("text of an unknown id", "/schemas/ids/1/schema")
    yield _get("subjects of an unknown id", "/schemas/ids/1/subjects")
    yield _get("versions of an unknown subject", "/subjects/a/versions")
    yield _get("version of an unknown subject", "/subjects/a/versions/1")
    yield _get("latest of an unknown subject", "/subjects/a/versions/latest")
    yield _get("config of an unknown subject", "/config/a")
    yield _get("mode of an unknown subject", "/mode/a")
    yield _delete("delete an unknown subject", "/subjects/a")
    yield _delete("delete a version of an unknown subject", "/subjects/a/versions/1")
    yield Exchange("look up in an unknown subject", "POST", "/subjects/a", {"schema": STRING})
    yield _check("check against an unknown subject", "a/versions/latest", STRING)
    yield _check("check against all of an unknown subject", "a/versions", STRING)
    yield _get("unknown path", "/nothing")
    yield Exchange("method that a path lacks", "PATCH", "/subjects")


def _avro() -> Iterator[Exchange]:
    yield _register("register", "avro", _record("id"))
    yield _register("register again", "avro", _record("id"))
    yield _register("register with the type", "avro", _record("id"), "AVRO")
    yield _register("register with other spaces", "avro", json.dumps(json.loads(_record("id")), indent=2))
    yield _register("register a compatible schema", "avro", _record("id", _OPTIONAL))
    yield _register("register an incompatible schema", "avro", _record("id", "price"))
    yield _register("register elsewhere", "other", _record("id"))
    yield _register("register a primitive", "text", STRING)
    yield _get("subjects", "/subjects")
    yield _get("subjects by prefix", "/subjects?subjectPrefix=te")
    yield _get("versions", "/subjects/avro/versions")
    yield _get("version 1", "/subjects/avro/versions/1")
    yield _get("version latest", "/subjects/avro/versions/latest")
    yield _get("version -1", "/subjects/avro/versions/-1")
    yield _get("version 3", "/subjects/avro/versions/3")
    yield _get("version 0", "/subjects/avro/versions/0")
    yield _get("version -2", "/subjects/avro/versions/-2")
    yield _get("version of letters", "/subjects/avro/versions/two")
    yield _get("text of version 1", "/subjects/avro/versions/1/schema")
    yield _get("referenced by none", "/subjects/avro/versions/1/referencedby")
    yield _get("id", "/schemas/ids/1")
    yield _get("id with the greatest", "/schemas/ids/1?fetchMaxId=true")
    yield _get("text of an id", "/schemas/ids/1/schema")
    yield _get("versions of an id", "/schemas/ids/1/versions")
    yield _get("subjects of an id", "/schemas/ids/1/subjects")
    yield Exchange("look up", "POST", "/subjects/avro", {"schema": _record("id")})
    yield Exchange("look up what is not there", "POST", "/subjects/avro", {"schema": _record("none")})
    yield _check("check a compatible schema", "avro/versions/latest", _record("id", _OPTIONAL))
    yield _check("check an incompatible schema", "avro/versions/latest", _record("id", "price"))
    verbose = "avro/versions/latest?verbose=true"
    yield _check("check verbosely", verbose, _record("id", "price"))
    yield _check("check verbosely what is compatible", verbose, _record("id"))
    yield _check("check against version 1", "avro/versions/1", _record())
    yield _check("check against version 9", "avro/versions/9", _record())
    yield _check("check against version 0", "avro/versions/0", _record())
    yield _check("check against version of letters", "avro/versions/two", _record())
    yield _check("check against all", "avro/versions", _record("id"))


def _bad_bodies() -> Iterator[Exchange]:
    for name, subject in (("register", "/subjects/bad/versions"), ("look up", "/subjects/avro")):
        yield Exchange(f"{name}: no JSON", "POST", subject, b"{")
        yield Exchange(f"{name}: no body", "POST", subject, b"")
        yield Exchange(f"{name}: a list", "POST", subject, [])
        yield Exchange(f"{name}: no schema", "POST", subject, {})
        yield Exchange(f"{name}: schema is an object", "POST", subject, {"schema": {"type": "string"}})
        yield Exchange(f"{name}: schema is null", "POST", subject, {"schema": None})
        yield Exchange(f"{name}: empty schema", "POST", subject, {"schema": ""})
        yield Exchange(f"{name}: broken Avro", "POST", subject, {"schema": "{"})
        yield Exchange(f"{name}: unknown Avro type", "POST", subject, {"schema": '"long long"'})
        unknown = {"schema": STRING, "schemaType": "THRIFT"}
        yield Exchange(f"{name}: unknown type of schema", "POST", subject, unknown)
        number = {"schema": STRING, "schemaType": 1}
        yield Exchange(f"{name}: type of schema is a number", "POST", subject, number)
        more = {"schema": STRING, "more": 1}
        yield Exchange(f"{name}: a member more", "POST", subject, more)
    yield Exchange("check: broken Avro", "POST", "/compatibility/subjects/avro/versions/1", {"schema": "{"})
    yield Exchange("check: no JSON", "POST", "/compatibility/subjects/avro/versions/1", b"{")
    yield Exchange("media type of text", "POST", "/subjects/bad/versions", b'{"schema": "1"}', "text/plain")


def _typed(kind: str, prefix: str, first: str, more: str, other: str) -> Iterator[Exchange]:
    yield _register(f"{prefix}: register", prefix, first, kind)
    yield _register(f"{prefix}: register again", prefix, first, kind)
    yield _get(f"{prefix}: version", f"/subjects/{prefix}/versions/1")
    yield _check(f"{prefix}: check one member more", f"{prefix}/versions/latest", more, kind)
    yield _check(f"{prefix}: check another type", f"{prefix}/versions/latest", other, kind)
    yield _register(f"{prefix}: register another type", prefix, other, kind)
    yield _register(f"{prefix}: register another kind", prefix, STRING)
    yield Exchange(f"{prefix}: look up", "POST", f"/subjects/{prefix}", {"schema": first, "schemaType": kind})
    yield _register(f"{prefix}: broken", prefix, "{", kind)


def _json_schema() -> Iterator[Exchange]:
    yield from _typed("JSON", "json", _OBJECT, _OBJECT_MORE, _OBJECT_OTHER)
    yield _register("json: a type that does not exist", "json2", '{"type": "whole"}', "JSON")
    yield _register("json: true", "json3", "true", "JSON")


def _protobuf() -> Iterator[Exchange]:
    yield from _typed("PROTOBUF", "proto", _PROTO, _PROTO_MORE, _PROTO_OTHER)
    yield _register("proto: register one member more", "proto", _PROTO_MORE, "PROTOBUF")
    yield _get("proto: version 2", "/subjects/proto/versions/2")


def _references() -> Iterator[Exchange]:
    reference = {"name": "order.proto", "subject": "proto", "version": 1}
    yield _register("references: none", "desk", _PROTO_USER, "PROTOBUF")
    yield _register("references: one", "desk", _PROTO_USER, "PROTOBUF", references=[reference])
    missing = reference | {"version": 9}
    yield _register("references: unknown version", "desk2", _PROTO_USER, "PROTOBUF", references=[missing])
    missing = reference | {"subject": "nothing"}
    yield _register("references: unknown subject", "desk2", _PROTO_USER, "PROTOBUF", references=[missing])
    yield _register("references: no list", "desk2", _PROTO_USER, "PROTOBUF", references="order")
    yield _register("references: no name", "desk2", _PROTO_USER, "PROTOBUF", references=[{"subject": "a"}])
    yield _get("references: version", "/subjects/desk/versions/1")
    yield _get("references: who refers", "/subjects/proto/versions/1/referencedby")
    yield _delete("references: delete the referenced version", "/subjects/proto/versions/1")
    order = {"name": "Order", "subject": "avro", "version": 1}
    basket = _record({"name": "order", "type": "Order"}, name="Basket")
    yield _register("references: Avro", "basket", basket, references=[order])
    yield _get("references: Avro version", "/subjects/basket/versions/1")


def _deletes() -> Iterator[Exchange]:
    yield _delete("permanently delete a version that lives", "/subjects/other/versions/1?permanent=true")
    yield _delete("permanently delete a subject that lives", "/subjects/other?permanent=true")
    yield _delete("delete a version", "/subjects/other/versions/1")
    yield _delete("delete a version again", "/subjects/other/versions/1")
    yield _get("version that is deleted", "/subjects/other/versions/1")
    yield _get("version that is deleted, asked for", "/subjects/other/versions/1?deleted=true")
    yield _get("versions without any that lives", "/subjects/other/versions")
    yield _get("versions with deleted ones", "/subjects/other/versions?deleted=true")
    yield _get("subjects without deleted ones", "/subjects")
    yield _get("subjects with deleted ones", "/subjects?deleted=true")
    yield _get("id of which one version is deleted", "/schemas/ids/1/versions")
    yield Exchange("look up what is deleted", "POST", "/subjects/other", {"schema": _record("id")})
    asked = "/subjects/other?deleted=true"
    yield Exchange("look up what is deleted, asked for", "POST", asked, {"schema": _record("id")})
    yield _register("register after a delete", "other", _record("id"))
    yield _get("versions after a delete", "/subjects/other/versions?deleted=true")
    yield _delete("delete a subject", "/subjects/other")
    yield _delete("delete a subject again", "/subjects/other")
    yield _delete("permanently delete a version", "/subjects/other/versions/1?permanent=true")
    yield _delete("permanently delete a version again", "/subjects/other/versions/1?permanent=true")
    yield _delete("permanently delete a subject", "/subjects/other?permanent=true")
    yield _delete("permanently delete a subject again", "/subjects/other?permanent=true")
    yield _get("subjects after permanent deletes", "/subjects?deleted=true")
    yield _delete("delete the latest version", "/subjects/avro/versions/latest")
    yield _get("versions after the latest went", "/subjects/avro/versions")
    yield _get("id whose only version is deleted", "/schemas/ids/2")
    yield _delete("delete version 0", "/subjects/avro/versions/0")
    yield _delete("delete version of letters", "/subjects/avro/versions/two")


def _configs() -> Iterator[Exchange]:
    for level in ("NONE", None, "FORWARD_TRANSITIVE", "FULL", "STRICT", 1):
        yield Exchange(f"config {level}", "PUT", "/config", {"compatibility": level})
    yield Exchange("config without a level", "PUT", "/config", {})
    yield Exchange("config that is no JSON", "PUT", "/config", b"{")
    yield _get("config", "/config")
    yield Exchange("config of a subject", "PUT", "/config/text", {"compatibility": "NONE"})
    yield _get("get the config of a subject", "/config/text")
    yield Exchange("config of a subject that is unknown", "PUT", "/config/none", {"compatibility": "FULL"})
    yield Exchange("config of a subject: bad level", "PUT", "/config/text", {"compatibility": "STRICT"})
    yield _get("config by default", "/config/avro?defaultToGlobal=true")
    yield _get("config not by default", "/config/avro")
    yield _register("register what NONE allows", "text", INT)
    yield _delete("delete the config of a subject", "/config/text")
    yield _delete("delete the config of a subject again", "/config/text")
    yield _get("config of a subject after the delete", "/config/text")
    yield Exchange("config back", "PUT", "/config", {"compatibility": "BACKWARD"})


def _modes() -> Iterator[Exchange]:
    yield Exchange("mode READONLY", "PUT", "/mode", {"mode": "READONLY"})
    yield _get("mode", "/mode")
    yield _register("register in READONLY", "late", STRING)
    yield Exchange("mode READWRITE", "PUT", "/mode", {"mode": "READWRITE"})
    yield Exchange("mode that does not exist", "PUT", "/mode", {"mode": "CLOSED"})
    yield Exchange("mode of a subject", "PUT", "/mode/text", {"mode": "READONLY"})
    yield _get("get the mode of a subject", "/mode/text")
    yield _register("register in a subject that is READONLY", "text", '"long"')
    yield _delete("delete the mode of a subject", "/mode/text")
    yield _get("mode of a subject after the delete", "/mode/text")


def _last() -> Iterator[Exchange]:
    """Requests after which the state of Karapace is another."""
    yield Exchange("config in small letters", "PUT", "/config", {"compatibility": "backward"})
    yield _register("register a primitive as an object", "text2", '{"type": "string"}')
    yield _delete("delete a referenced subject", "/subjects/proto")
