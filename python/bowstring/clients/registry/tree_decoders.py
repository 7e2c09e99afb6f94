"""Makes functions that decode values to trees of dicts and lists, by schemas that columns cannot
represent.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any

from bowstring._native.values.schema_keys import key_bytes
from bowstring.clients.errors import MissingPackageError
from bowstring.clients.registry.avro_depth import depth_check
from bowstring.clients.registry.empty_values import EmptyValues
from bowstring.clients.registry.schema_sources import (
    UnusableSchemaError,
    avro_texts,
    file_descriptor,
    message_at,
    message_indexes_of,
)

if TYPE_CHECKING:
    from bowstring.clients.registry.registered_schema import RegisteredSchema
    from bowstring.clients.registry.registry_client import RegistryClient

Decode = Callable[[bytes], Any]
_NO_ID = b"\0" * 5
# What fastavro and the checks of what it makes raise for schemas that are not well-formed.
SCHEMA_FAULTS = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


def tree_decoder(
    client: RegistryClient, schema: RegisteredSchema, indexes: tuple[int, ...] | None = None
) -> tuple[str, Decode]:
    """Returns "avro", "json" or "protobuf", and the function that decodes what follows the schema's key.

    The function raises any error for data that is not of the schema.

    Args:
        indexes: of the Protobuf message; None: they are at the start of the data.

    Raises:
        SchemaRegistryError: the registry does not answer.
        UnusableSchemaError: the schema cannot be used.
        MissingPackageError: fastavro or protobuf is not installed.
    """
    if schema.kind == "JSON":
        return "json", json.loads
    if schema.kind == "AVRO":
        return "avro", _avro(client, schema)
    if schema.kind == "PROTOBUF":
        return "protobuf", _protobuf(client, schema, indexes)
    raise UnusableSchemaError(
        f"schema {schema.schema_id} of {client.address} is {schema.kind}, which is none of AVRO, JSON and "
        "PROTOBUF"
    )


def _avro(client: RegistryClient, schema: RegisteredSchema) -> Decode:
    named: dict[str, Any] = {}
    parsed = parsed_avro(client, schema, json.loads, named)
    try:
        check_depth = depth_check(parsed, named)
    except RecursionError:
        raise UnusableSchemaError(
            f"schema {schema.schema_id} of {client.address} has too many types within one another"
        ) from None
    import fastavro

    def decode(data: bytes) -> Any:
        if check_depth is not None:
            check_depth(data)
        source = BytesIO(data)
        found = fastavro.schemaless_reader(source, parsed, None)
        if source.tell() != len(data):
            raise ValueError(f"{len(data) - source.tell()} bytes follow the value")
        return found

    return decode


def parsed_avro(
    client: RegistryClient,
    schema: RegisteredSchema,
    load: Callable[[str], Any],
    types: dict[str, Any] | None = None,
) -> Any:
    """Returns an Avro schema, with those that it refers to, as fastavro takes it.

    Args:
        client: of the registry.
        schema: the schema.
        load: makes the tree of a schema's JSON text.
        types: gets the named types.

    Raises:
        SchemaRegistryError: the registry does not answer.
        UnusableSchemaError: the schema cannot be used.
        MissingPackageError: fastavro is not installed.
    """
    try:
        import fastavro
    except ModuleNotFoundError as error:
        raise MissingPackageError("fastavro", "avro") from error
    named: dict[str, Any] = {} if types is None else types
    try:
        for text in avro_texts(client, schema):
            tree = load(text)
            refuse_parsed(tree)
            parsed = fastavro.parse_schema(tree, named_schemas=named)
        swells = EmptyValues(named).swell(parsed)
    except (fastavro.schema.SchemaParseException, *SCHEMA_FAULTS) as error:
        raise UnusableSchemaError(
            f"schema {schema.schema_id} of {client.address} is not Avro that fastavro reads: {error}"
        ) from None
    if swells:
        raise UnusableSchemaError(
            f"schema {schema.schema_id} of {client.address} makes many values of few bytes, such as an array "
            "of items without bytes: it is not decoded"
        )
    return parsed


def refuse_parsed(schema: Any) -> None:
    """Refuses a schema that says of itself that fastavro has parsed it, which would be used unchecked.

    Args:
        schema: the tree of its JSON.

    Raises:
        ValueError: it does.
    """
    if isinstance(schema, list):
        for each in schema:
            refuse_parsed(each)
    elif isinstance(schema, dict) and "__fastavro_parsed" in schema:
        raise ValueError("it has the attribute __fastavro_parsed: leave it out")


def _protobuf(client: RegistryClient, schema: RegisteredSchema, indexes: tuple[int, ...] | None) -> Decode:
    file = file_descriptor(client, schema)
    from google.protobuf import json_format, message_factory  # type: ignore[import-untyped]

    def decode(data: bytes) -> Any:
        place = indexes
        if place is None:
            place, data = split_indexes(data)
        found = message_factory.GetMessageClass(message_at(file, place)).FromString(data)
        return json_format.MessageToDict(found, preserving_proto_field_name=True, descriptor_pool=file.pool)

    return decode


def split_indexes(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """Returns the indexes of a Protobuf message that follow a schema's id, and the message behind them.

    Raises:
        ValueError: they are invalid.
    """
    # As the key of an id has them.
    size = key_bytes(_NO_ID + data, True)
    if not size:
        raise ValueError("the message's indexes are invalid")
    return message_indexes_of((_NO_ID + data)[:size]), data[size - len(_NO_ID) :]
