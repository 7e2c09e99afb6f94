"""Makes functions that decode values by schemas of a registry."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from io import BytesIO
from typing import Any

from bowstring.clients.errors import MissingPackageError
from bowstring.search.schema_registry import RegisteredSchema, SchemaRegistry, SchemaRegistryError

Decode = Callable[[bytes], Any]
REFERENCES_MAX = 200


def decoder(registry: SchemaRegistry, schema_id: int) -> tuple[str, Decode]:
    """Returns "avro", "json" or "protobuf", and the function that decodes what follows the schema's id.

    The function raises any error for data that is not of the schema.

    Raises:
        SchemaRegistryError: the registry does not answer, or the schema cannot be used.
        MissingPackageError: fastavro or protobuf is not installed.
    """
    schema = registry.by_id(schema_id)
    if schema.kind == "JSON":
        return "json", json.loads
    if schema.kind == "AVRO":
        return "avro", _avro(registry, schema, schema_id)
    if schema.kind == "PROTOBUF":
        return "protobuf", _protobuf(registry, schema, schema_id)
    raise SchemaRegistryError(
        f"schema {schema_id} of {registry.address} is {schema.kind}; Avro, JSON and Protobuf are supported"
    )


def _avro(registry: SchemaRegistry, schema: RegisteredSchema, schema_id: int) -> Decode:
    try:
        import fastavro
    except ModuleNotFoundError as error:
        raise MissingPackageError("fastavro", "avro") from error
    named: dict[str, Any] = {}
    try:
        for text in _with_references(registry, schema):
            parsed = fastavro.parse_schema(json.loads(text), named_schemas=named)
    except (fastavro.schema.SchemaParseException, ValueError, TypeError, RecursionError) as error:
        raise SchemaRegistryError(
            f"schema {schema_id} of {registry.address} is not Avro that fastavro reads: {error}"
        ) from None

    if _repeats_nothing(parsed, named):
        raise SchemaRegistryError(
            f"schema {schema_id} of {registry.address} has an array of items without bytes, which few bytes "
            "can make endless: it is not decoded"
        )

    def decode(data: bytes) -> Any:
        source = BytesIO(data)
        found = fastavro.schemaless_reader(source, parsed, None)
        if source.tell() != len(data):
            raise ValueError(f"{len(data) - source.tell()} bytes follow the value")
        return found

    return decode


def _repeats_nothing(schema: Any, named: dict[str, Any]) -> bool:
    """Returns whether a schema, or one of those by name, has an array of items that take no bytes."""
    return any(_has_empty_items(each, named) for each in (schema, *named.values()))


def _has_empty_items(schema: Any, named: dict[str, Any]) -> bool:
    if isinstance(schema, list):
        return any(_has_empty_items(each, named) for each in schema)
    if not isinstance(schema, dict):
        return False
    if schema["type"] == "array":
        items = schema["items"]
        return _is_empty(items, named, frozenset()) or _has_empty_items(items, named)
    inner = [schema["values"]] if schema["type"] == "map" else []
    inner += [field["type"] for field in schema.get("fields", ())]
    inner += [schema["type"]] if isinstance(schema["type"], (dict, list)) else []
    return any(_has_empty_items(each, named) for each in inner)


def _is_empty(schema: Any, named: dict[str, Any], around: frozenset[str]) -> bool:
    """Returns whether every value of a schema takes no bytes."""
    if isinstance(schema, str):
        if schema in around or schema not in named:
            return schema == "null"
        return _is_empty(named[schema], named, around | {schema})
    if not isinstance(schema, dict):
        return False  # a union has the number of its branch
    kind = schema["type"]
    if kind in ("record", "error"):
        inside = around | {schema.get("name", "")}
        return all(_is_empty(field["type"], named, inside) for field in schema["fields"])
    if kind == "fixed":
        return bool(schema["size"] == 0)
    return _is_empty(kind, named, around) if isinstance(kind, (dict, str)) else False


def _with_references(registry: SchemaRegistry, schema: RegisteredSchema) -> list[str]:
    """Returns the texts of a schema and of what it refers to, these first."""
    texts: dict[str, str] = {}
    walking: set[str] = set()

    def walk(name: str, each: RegisteredSchema) -> None:
        if name in texts or name in walking:
            return
        if len(walking) >= REFERENCES_MAX:
            raise SchemaRegistryError(f"a schema of {registry.address} refers to too many others")
        walking.add(name)
        for reference, subject, version in each.references:
            walk(reference, registry.by_version(subject, version, kind=schema.kind))
        texts[name] = each.text

    walk("", schema)
    return [*texts.values()]


def _protobuf(registry: SchemaRegistry, schema: RegisteredSchema, schema_id: int) -> Decode:
    try:
        from google.protobuf import (  # type: ignore[import-untyped]
            descriptor_pb2,
            descriptor_pool,
            json_format,
            message_factory,
        )
    except ModuleNotFoundError as error:
        raise MissingPackageError("protobuf", "protobuf") from error
    pool = descriptor_pool.DescriptorPool()
    file = ""
    try:
        _add_known_files(pool)
        for name, text in _files(registry, schema):
            proto = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
            proto.name = file = name or f"schema-{schema_id}.proto"
            pool.Add(proto)
        described = pool.FindFileByName(file)
    except SchemaRegistryError:
        raise
    except Exception as error:  # protobuf's own kinds differ by its implementation
        raise SchemaRegistryError(
            f"schema {schema_id} of {registry.address} is not a Protobuf file: {error}"
        ) from None

    def decode(data: bytes) -> Any:
        indexes, at = _message_indexes(data)
        message = [*described.message_types_by_name.values()][indexes[0]]
        for index in indexes[1:]:
            message = message.nested_types[index]
        found = message_factory.GetMessageClass(message).FromString(data[at:])
        return json_format.MessageToDict(found, preserving_proto_field_name=True, descriptor_pool=pool)

    return decode


def _files(registry: SchemaRegistry, schema: RegisteredSchema) -> list[tuple[str, str]]:
    """Returns names and contents of a Protobuf file and of those that it imports, these first."""
    found: dict[str, str] = {}
    walking: set[str] = set()

    def walk(name: str, each: RegisteredSchema) -> None:
        if name in walking or len(walking) >= REFERENCES_MAX:
            return
        walking.add(name)
        for reference, subject, version in each.references:
            walk(reference, registry.by_version(subject, version, kind=schema.kind))
        found[name] = each.text

    walk("", schema)
    return [*found.items()]


def _add_known_files(pool: Any) -> None:
    """Adds the files that every Protobuf compiler has, which schemas import without a reference."""
    from google.protobuf import (
        any_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )

    for known in (
        *(any_pb2, duration_pb2, empty_pb2, field_mask_pb2),
        *(struct_pb2, timestamp_pb2, wrappers_pb2),
    ):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)


def _message_indexes(data: bytes) -> tuple[list[int], int]:
    """Returns the indexes of the message in its file, and where the message begins (Confluent's format)."""
    count, at = _zigzag(data, 0)
    if count == 0:
        return [0], at
    if not 0 < count <= 100:
        raise ValueError("the message's indexes are invalid")
    indexes = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        if index < 0:
            raise ValueError("the message's indexes are invalid")
        indexes.append(index)
    return indexes, at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    found, shift = 0, 0
    while shift < 35:
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found >> 1 ^ -(found & 1), at
        shift += 7
    raise ValueError("a number is longer than 32 bits")
