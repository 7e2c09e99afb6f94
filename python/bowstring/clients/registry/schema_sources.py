"""Makes what formats need of a registry's schemas: documents with what they refer to, and Protobuf's
descriptors.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bowstring._native.values.schema_keys import key_bytes
from bowstring.clients.errors import ClientError, MissingPackageError
from bowstring.clients.registry.registered_schema import RegisteredSchema, SchemaReference
from bowstring.clients.registry.registry_errors import SchemaRegistryError

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor  # type: ignore[import-untyped]

    from bowstring.clients.registry.registry_client import RegistryClient

REFERENCES_MAX = 200
DEPTH_MAX = 100
_DEFINITIONS = "$defs"


class UnusableSchemaError(ClientError):
    """A schema of a registry cannot be used to decode values; the registry itself is well."""


def imported(
    client: RegistryClient, references: Iterable[SchemaReference], kind: str
) -> list[tuple[str, RegisteredSchema]]:
    """Returns all schemas that are referred to, also by one another, with their names; dependencies first.

    Raises:
        SchemaRegistryError: the registry does not answer, or lacks one.
        UnusableSchemaError: they are too many.
    """
    found: dict[str, RegisteredSchema] = {}
    walking: set[tuple[str, str, int]] = set()

    def walk(each: SchemaReference, depth: int) -> None:
        if each in walking:
            return
        if len(walking) >= REFERENCES_MAX or depth > DEPTH_MAX:
            raise UnusableSchemaError(f"a schema of {client.address} refers to too many others")
        walking.add(each)
        schema = client.by_version(each.subject, each.version, kind=kind)
        for inner in schema.references:
            walk(inner, depth + 1)
        found.setdefault(each.name, schema)

    for each in references:
        walk(each, 0)
    return [*found.items()]


def avro_texts(client: RegistryClient, schema: RegisteredSchema) -> list[str]:
    """Returns the texts of an Avro schema and of those that it refers to; its own is the last.

    Raises:
        SchemaRegistryError, UnusableSchemaError: as of `imported`.
    """
    return [each.text for _, each in imported(client, schema.references, "AVRO")] + [schema.text]


def json_document(client: RegistryClient, schema: RegisteredSchema) -> Any:
    """Returns a JSON Schema with the schemas that it refers to among its definitions.

    Raises:
        SchemaRegistryError: as of `imported`.
        UnusableSchemaError: a schema is not JSON.
    """
    others = imported(client, schema.references, "JSON")
    try:
        document = json.loads(schema.text)
        known = {name: json.loads(each.text) for name, each in others}
        if isinstance(document, str):  # where schemas are taken it would be the path of a file
            raise UnusableSchemaError("a JSON Schema must be an object or a boolean, and it is a string")
        if not known or not isinstance(document, dict):
            return document
        whole = _relinked(document, "#", known)
        definitions = {name: _relinked(each, _place(name), known) for name, each in known.items()}
        return {**whole, _DEFINITIONS: {**whole.get(_DEFINITIONS, {}), **definitions}}
    except (ValueError, RecursionError) as error:
        raise UnusableSchemaError(f"a schema is not JSON: {error}") from None


def _place(name: str) -> str:
    return f"#/{_DEFINITIONS}/" + name.replace("~", "~0").replace("/", "~1")


def _relinked(part: Any, root: str, known: Mapping[str, Any]) -> Any:
    """Returns a part of a schema with its `$ref`s as they are from within another document."""
    if isinstance(part, list):
        return [_relinked(each, root, known) for each in part]
    if not isinstance(part, dict):
        return part
    made = {name: _relinked(each, root, known) for name, each in part.items()}
    link = part.get("$ref")
    if isinstance(link, str):
        name, _, pointer = link.partition("#")
        if not name:
            made["$ref"] = root + pointer
        elif name in known:
            made["$ref"] = _place(name) + pointer
    return made


# ---------------------------------------------------------------- Protobuf


def file_descriptor(client: RegistryClient, schema: RegisteredSchema) -> FileDescriptor:
    """Returns the descriptor of a Protobuf file, with those that it imports.

    Raises:
        SchemaRegistryError: as of `imported`.
        UnusableSchemaError: it is no Protobuf file, or the registry lacks the serialized form.
        MissingPackageError: protobuf is not installed.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise MissingPackageError("protobuf", "protobuf") from error
    pool = descriptor_pool.DescriptorPool()
    add_known_files(pool)
    known = set(known_files())
    files = [(name, each) for name, each in imported(client, schema.references, "PROTOBUF")]
    own = f"schema-{schema.schema_id}-{schema.guid.hex() if schema.guid else ''}.proto"
    try:
        for name, each in [*files, (own, schema)]:
            if name in known:
                continue
            proto = descriptor_pb2.FileDescriptorProto.FromString(_serialized(each))
            proto.name = name
            pool.Add(proto)
        return pool.FindFileByName(own)
    except (SchemaRegistryError, UnusableSchemaError):
        raise
    except Exception as error:  # protobuf's own kinds differ by its implementation
        raise UnusableSchemaError(f"it is not a Protobuf file: {error}") from None


def _serialized(schema: RegisteredSchema) -> bytes:
    try:
        return base64.b64decode(schema.text, validate=True)
    except (binascii.Error, ValueError):
        raise UnusableSchemaError(
            "the registry has no serialized form of it (?format=serialized); use one that has, such as "
            "Bowstring's, Confluent's or Karapace"
        ) from None


def known_files() -> dict[str, bytes]:
    """Returns the files that every Protobuf compiler has, which schemas import without a reference."""
    from google.protobuf import (
        any_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )

    modules = (
        *(any_pb2, descriptor_pb2, duration_pb2, empty_pb2),
        *(field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2),
    )
    return {each.DESCRIPTOR.name: each.DESCRIPTOR.serialized_pb for each in modules}


def add_known_files(pool: Any) -> None:
    """Adds `known_files` to a pool of descriptors."""
    for data in known_files().values():
        pool.AddSerializedFile(data)


def message_at(file: FileDescriptor, indexes: tuple[int, ...]) -> Descriptor:
    """Returns the message at an index of a file, and at further ones of the enclosing messages.

    Raises:
        UnusableSchemaError: there is none.
    """
    try:
        message = [*file.message_types_by_name.values()][indexes[0]]
        for index in indexes[1:]:
            message = message.nested_types[index]
    except IndexError:
        raise UnusableSchemaError(f"it has no message at the indexes {list(indexes)}") from None
    return message


def names_schema(header: bytes) -> bool:
    """Returns whether a header's value begins with the key of a schema."""
    return key_bytes(header, False) > 0


def message_indexes_of(key: bytes) -> tuple[int, ...]:
    """Returns the message indexes at the end of a key; empty: the key has none."""
    at = 5 if key[:1] == b"\0" else 17
    numbers = []
    while at < len(key):
        number = shift = 0
        while True:
            byte = key[at]
            number |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                break
        numbers.append(number >> 1)
    return (tuple(numbers[1:]) or (0,)) if numbers else ()
