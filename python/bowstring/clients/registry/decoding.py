"""Makes the formats that decode values by the schemas they were written with, for one reader's schema or
each for its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bowstring.clients.errors import ClientError
from bowstring.clients.registry.given_schema import GivenSchema
from bowstring.clients.registry.registered_schema import KINDS, RegisteredSchema
from bowstring.clients.registry.registry_errors import SchemaRegistryError
from bowstring.clients.registry.schema_sources import (
    UnusableSchemaError,
    avro_texts,
    file_descriptor,
    json_document,
    message_at,
)
from bowstring.values.avro_format import Avro
from bowstring.values.avro_schema import ReferringSchema, parse_avro
from bowstring.values.errors import ValueSchemaError
from bowstring.values.json_format import Json
from bowstring.values.protobuf_format import Protobuf

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor  # type: ignore[import-untyped]

    from bowstring.clients.registry.registry_client import RegistryClient
    from bowstring.values.format import ValueFormat


class Reader:
    """The schema to which values are resolved when they are read, whatever they were written with.

    Args:
        kind: AVRO, JSON or PROTOBUF.
        schema: for `Avro`, `Json` or `Protobuf`.
        field: "key" or "value": the name of the only column of values that are no records.
        source: what the schema is made of; None where nobody compares it.

    Attributes:
        format: of values that were written with this schema, without framing.
        is_single: whether values are no records: `format` has one column, which is the value.
        no_columns: why columns cannot represent a JSON Schema, so that `format` makes objects only; "": they
            can.

    Raises:
        ValueSchemaError: columns cannot represent the schema.
    """

    def __init__(self, kind: str, schema: Any, field: str, source: Any = None):
        self.kind, self.source = kind, source
        self._schema = schema
        self.is_single = False
        self.no_columns = ""
        self.format: ValueFormat
        if kind == "AVRO":
            if not isinstance(schema, type):
                texts = schema if isinstance(schema, ReferringSchema) else ReferringSchema(schema)
                self.is_single = parse_avro(texts).kind != "record"
                self._schema = texts._replace(column=field if self.is_single else "")
            self.format = Avro(self._schema)
        elif kind == "JSON":
            try:
                self.format = Json(schema)
            except ValueSchemaError as error:
                self.format, self.no_columns = Json(), str(error)
        else:
            self.format = Protobuf(schema)

    def written_with(
        self, client: RegistryClient, schema: RegisteredSchema, indexes: tuple[int, ...]
    ) -> ValueFormat:
        """Returns the format of values that were written with a schema.

        Args:
            indexes: of the Protobuf message.

        Raises:
            SchemaRegistryError: the registry does not answer.
            ValueSchemaError, UnusableSchemaError: such values cannot be read with this reader's schema.
        """
        if schema.kind != self.kind:
            raise UnusableSchemaError(f"it is {schema.kind}, and the reader's schema is {self.kind}")
        if self.kind == "JSON":
            return self.format
        if self.kind == "PROTOBUF":
            written = message_at(file_descriptor(client, schema), indexes)
            if written.full_name != descriptor_name(self.format):
                raise UnusableSchemaError(
                    f"the value is a message {written.full_name}, and the reader's is "
                    f"{descriptor_name(self.format)}"
                )
            return self.format
        source = avro_source(client, schema)
        is_single = parse_avro(source).kind != "record"
        if is_single != self.is_single:
            raise UnusableSchemaError("one of it and the reader's schema is a record, the other is not")
        column = self._schema.column if is_single else ""
        return Avro(self._schema, writer_schema=source._replace(column=column))


def descriptor_name(form: Any) -> str:
    """Returns the full name of a Protobuf format's message."""
    return str(form.message_name)


def reader_of(client: RegistryClient, schema: RegisteredSchema, field: str) -> Reader:
    """Returns the reader of a registered schema; of a Protobuf file, of its first message.

    Raises:
        SchemaRegistryError: the registry does not answer.
        ValueSchemaError, UnusableSchemaError: columns cannot represent it.
    """
    makers = {"AVRO": avro_source, "JSON": json_document, "PROTOBUF": first_message}
    if schema.kind in makers:
        make: Callable[[RegistryClient, RegisteredSchema], Any] = makers[schema.kind]
        return Reader(schema.kind, make(client, schema), field, schema)
    raise UnusableSchemaError(f"it is {schema.kind}; {', '.join(KINDS)} are supported")


def given_reader(given: GivenSchema, client: RegistryClient, field: str) -> Reader:
    """Returns the reader of the schema that a `Registry` was given.

    Raises:
        SchemaRegistryError: the registry does not answer, which has what the schema refers to.
        ValueSchemaError, UnusableSchemaError: columns cannot represent it.
    """
    if given.is_message or isinstance(given.given, type):
        return Reader(given.kind, given.given, field)
    return reader_of(client, given.readable(client), field)


def first_message(client: RegistryClient, schema: RegisteredSchema) -> Descriptor:
    """Returns the first message of a Protobuf file. Raises like `file_descriptor`."""
    return message_at(file_descriptor(client, schema), (0,))


def avro_source(client: RegistryClient, schema: RegisteredSchema) -> ReferringSchema:
    """Returns an Avro schema with those that it refers to. Raises like `avro_texts`."""
    *others, own = [_document(each) for each in avro_texts(client, schema)]
    return ReferringSchema(own, tuple(others))


def _document(text: str) -> Any:
    """Returns parsed JSON. Texts of registries must not get to where text may be the path of a file."""
    found = json.loads(text)
    return {"type": found} if isinstance(found, str) else found


def object_format(
    client: RegistryClient, schema: RegisteredSchema, indexes: tuple[int, ...], field: str
) -> tuple[ValueFormat, bool]:
    """Returns the format of single values that are read with the schema they were written with, and whether
    they are no records.

    Raises:
        SchemaRegistryError: the registry does not answer.
        ValueSchemaError, UnusableSchemaError: columns cannot represent it.
    """
    if schema.kind == "JSON":
        return Json(), False
    if schema.kind == "PROTOBUF":
        return Protobuf(message_at(file_descriptor(client, schema), indexes)), False
    reader = reader_of(client, schema, field)
    return reader.format, reader.is_single


# What schemas of a registry that are not well-formed raise in parsers.
SCHEMA_FAULTS = (ClientError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError)


def fault_of(error: Exception, name: str) -> str:
    """Returns why values of a schema do not decode.

    Raises:
        SchemaRegistryError: the error is the registry's.
    """
    if isinstance(error, SchemaRegistryError):
        raise error
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"{name}: {reason}"
