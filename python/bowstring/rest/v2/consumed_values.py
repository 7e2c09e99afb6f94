"""Turns keys and values of read records into the JSON of their form."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from bowstring.clients.records import Record
from bowstring.clients.registry.registry_client import RegistryClient
from bowstring.rest.records.schema_values import SchemaValues
from bowstring.web.http_error import HttpError

Convert = Callable[[Record, str], Any]
"""Returns the JSON tree of a record's "key" or "value"."""

_KINDS = {"avro": "AVRO", "jsonschema": "JSON", "protobuf": "PROTOBUF"}


class ConsumedRecord(Struct):
    """A record as answers have it. Bytes become base64."""

    topic: str
    key: Any
    value: Any
    partition: int
    offset: int


class ConsumedValues:
    """Converts records of one form.

    Args:
        format: of the consumer instance.
        registry: has the schemas of forms that need them.
    """

    def __init__(self, format: str, registry: RegistryClient | None):
        self._convert: Convert
        if format == "binary":
            self._convert = getattr
        elif format == "json":
            self._convert = _checked
        else:
            if registry is None:
                raise ValueError(f"{format} needs a registry")
            values = SchemaValues(registry, _KINDS[format])
            self._convert = lambda record, field: values.tree(
                field, getattr(record, field), record.headers or ()
            )

    def record(self, record: Record) -> ConsumedRecord:
        """Returns a record as answers have it. Blocks while the registry is asked.

        Raises:
            HttpError: 50002, its key or value is of another form.
        """
        field = "key"
        try:
            key = None if record.key is None else self._convert(record, field)
            field = "value"
            value = None if record.value is None else self._convert(record, field)
        except Exception as error:  # of other libraries, about data of any kind
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise HttpError(
                500,
                50002,
                f"Kafka error: the {field} at {record.topic}-{record.partition} offset {record.offset} does "
                f"not decode: {reason}. Seek to offset {record.offset + 1} to go on behind it.",
            ) from error
        return ConsumedRecord(record.topic, key, value, record.partition, record.offset)


def _checked(record: Record, field: str) -> Raw:
    """Returns JSON as it is, once it is known to be some."""
    data: bytes = getattr(record, field)
    if not data.isascii():
        data.decode()
    msgspec.json.decode(data, type=Raw)
    return Raw(data)


def answer_text(records: list[ConsumedRecord]) -> bytes:
    """Returns the JSON text of an answer."""
    try:
        return msgspec.json.encode(records)
    except (TypeError, ValueError, RecursionError):  # a number of arbitrary size, a lone surrogate
        trees = msgspec.to_builtins(records, builtin_types=(bytes,))
        return json.dumps(trees, separators=(",", ":")).encode()
