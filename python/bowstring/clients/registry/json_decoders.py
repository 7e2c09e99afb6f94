"""Makes functions that decode values to the JSON that Confluent's REST proxy shows: Avro's own JSON encoding,
and proto3's JSON mapping.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any

from bowstring.clients.registry.schema_sources import UnusableSchemaError, file_descriptor, message_at
from bowstring.clients.registry.tree_decoders import parsed_avro, split_indexes

if TYPE_CHECKING:
    from bowstring.clients.registry.registered_schema import RegisteredSchema
    from bowstring.clients.registry.registry_client import RegistryClient

JsonDecode = Callable[[bytes], Any]


def json_decoder(client: RegistryClient, schema: RegisteredSchema) -> JsonDecode:
    """Returns the function that makes the JSON tree of what follows a schema's id.

    The function raises any error for data that is not of the schema.

    Args:
        client: of the registry.
        schema: the schema.

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
        return _protobuf(client, schema)
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


def _avro(client: RegistryClient, schema: RegisteredSchema) -> JsonDecode:
    parsed = parsed_avro(client, schema, _without_logical_types)
    import fastavro

    def decode(data: bytes) -> Any:
        source = BytesIO(data)
        # Branches of unions keep their names.
        found = fastavro.schemaless_reader(source, parsed, None, return_named_type=True)
        if source.tell() != len(data):
            raise ValueError(f"{len(data) - source.tell()} bytes follow the value")
        out = StringIO()
        fastavro.json_writer(out, parsed, [found])
        # Numbers that JSON lacks are text, as in Java.
        return json.loads(out.getvalue(), parse_constant=str)

    return decode


def _protobuf(client: RegistryClient, schema: RegisteredSchema) -> JsonDecode:
    file = file_descriptor(client, schema)
    from google.protobuf import json_format, message_factory  # type: ignore[import-untyped]

    def decode(data: bytes) -> Any:
        place, body = split_indexes(data)
        found = message_factory.GetMessageClass(message_at(file, place)).FromString(body)
        return json_format.MessageToDict(
            found, always_print_fields_with_no_presence=True, descriptor_pool=file.pool
        )

    return decode
