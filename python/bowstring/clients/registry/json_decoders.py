"""Makes functions that decode values to the JSON that Confluent's REST proxy shows: Avro's own JSON encoding,
and proto3's JSON mapping.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

from bowstring.clients.registry.avro_depth import depth_check
from bowstring.clients.registry.avro_json import AvroJson
from bowstring.clients.registry.json_growth import avro_growth, check_growth, protobuf_growth
from bowstring.clients.registry.schema_sources import UnusableSchemaError, file_descriptor, message_at
from bowstring.clients.registry.tree_decoders import parsed_avro, split_indexes

if TYPE_CHECKING:
    from bowstring.clients.registry.registered_schema import RegisteredSchema
    from bowstring.clients.registry.registry_client import RegistryClient

JsonDecode = Callable[[bytes], Any]

_BRANCH = "bowstring-branch"
"""A logical type of our own: marks values with the branch of the union that they were written with."""
_PRIMITIVES = ("boolean", "int", "long", "float", "double", "string", "bytes")


def json_decoder(
    client: RegistryClient, schema: RegisteredSchema, indexes: tuple[int, ...] | None = None
) -> JsonDecode:
    """Returns the function that makes the JSON tree of what follows a schema's key.

    The function raises any error for data that is not of the schema.

    Args:
        client: of the registry.
        schema: the schema.
        indexes: of the Protobuf message; None: they are at the start of the data.

    Raises:
        SchemaRegistryError: the registry does not answer.
        UnusableSchemaError: the schema cannot be used.
        MissingPackageError: fastavro or protobuf is not installed.
    """
    if schema.kind == "JSON":
        return _strict
    if schema.kind == "AVRO":
        return _avro(client, schema)
    if schema.kind == "PROTOBUF":
        return _protobuf(client, schema, indexes)
    raise UnusableSchemaError(f"schema {schema.schema_id} is {schema.kind}: none of AVRO, JSON and PROTOBUF")


def _strict(data: bytes) -> Any:
    return json.loads(data, parse_constant=_refuse)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _without_logical_types(text: str) -> Any:
    """Returns a schema whose values are encoded as they are: dates are numbers."""

    def plain(members: dict[str, Any]) -> dict[str, Any]:
        members.pop("logicalType", None)
        return members

    return json.loads(text, object_hook=plain)


def _marked(text: str) -> Any:
    """Returns a schema whose values in unions are pairs of the branch and the value."""
    return _with_marks(_without_logical_types(text))


def _with_marks(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_branch(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    marked = {name: _with_marks(schema[name]) for name in ("type", "items", "values") if name in schema}
    fields = schema.get("fields")
    if isinstance(fields, list):
        # A field is no union, also where it is a list by mistake.
        marked["fields"] = [_with_marks(each) if isinstance(each, dict) else each for each in fields]
    return schema | marked


def _branch(schema: Any) -> Any:
    kind = schema.get("type") if isinstance(schema, dict) else schema
    if isinstance(kind, str) and kind in _PRIMITIVES:
        return {"type": kind, "logicalType": _BRANCH}
    return _with_marks(schema)


def _avro(client: RegistryClient, schema: RegisteredSchema) -> JsonDecode:
    named: dict[str, Any] = {}
    plain = parsed_avro(client, schema, _without_logical_types, named)
    try:
        growth, check_depth = avro_growth(plain, named), depth_check(plain, named)
        json_tree = AvroJson(named).maker(plain)
    except RecursionError:
        raise UnusableSchemaError(
            f"schema {schema.schema_id} of {client.address} has too many types within one another"
        ) from None
    marked = parsed_avro(client, schema, _marked)
    import fastavro

    for kind in _PRIMITIVES:
        fastavro.read.LOGICAL_READERS[f"{kind}-{_BRANCH}"] = partial(_pair, kind)

    def decode(data: bytes) -> Any:
        check_growth(len(data), growth)
        if check_depth is not None:
            check_depth(data)
        source = BytesIO(data)
        found = fastavro.schemaless_reader(source, marked, None, return_named_type=True)
        if source.tell() != len(data):
            raise ValueError(f"{len(data) - source.tell()} bytes follow the value")
        return json_tree(found)

    return decode


def _pair(kind: str, value: Any, *_: Any) -> tuple[str, Any]:
    return kind, value


def _protobuf(
    client: RegistryClient, schema: RegisteredSchema, indexes: tuple[int, ...] | None
) -> JsonDecode:
    file = file_descriptor(client, schema)
    from google.protobuf import json_format, message_factory  # type: ignore[import-untyped]

    growth = protobuf_growth(file)

    def decode(data: bytes) -> Any:
        check_growth(len(data), growth)
        place = indexes
        if place is None:
            place, data = split_indexes(data)
        found = message_factory.GetMessageClass(message_at(file, place)).FromString(data)
        return json_format.MessageToDict(
            found, always_print_fields_with_no_presence=True, descriptor_pool=file.pool
        )

    return decode
