"""Turns keys and values of read records into the JSON of their form."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from bowstring.clients.errors import ClientError
from bowstring.clients.records import Record
from bowstring.clients.registry.json_decoders import JsonDecode, json_decoder
from bowstring.clients.registry.registry_client import RegistryClient
from bowstring.clients.registry.schema_sources import message_indexes_of, names_schema
from bowstring.web.http_error import HttpError

Convert = Callable[[Record, str], Any]
"""Returns the JSON tree of a record's "key" or "value"."""

DECODERS_MAX = 1_000
HEADER_SIZE = 5
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
            self._convert = SchemaValues(_KINDS[format], registry).convert

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


class SchemaValues:
    """Converts values by the schemas that they were written with. Any thread may call.

    Args:
        kind: AVRO, JSON or PROTOBUF; other schemas are refused.
        registry: has the schemas.
    """

    def __init__(self, kind: str, registry: RegistryClient):
        self._kind, self._registry = kind, registry
        self._lock = threading.Lock()
        self._decoders: dict[bytes, JsonDecode] = {}

    def convert(self, record: Record, field: str) -> Any:
        """Returns the JSON tree of a key or value. A header names its schema, or its first bytes.

        Raises:
            Exception: of any kind; it is no value of a schema.
        """
        data: bytes = getattr(record, field)
        name = f"__{field}_schema_id"
        for header, key in reversed(record.headers or ()):
            if header == name and key is not None and names_schema(key):
                return self._decoder(key, message_indexes_of(key) or None)(data)
        if len(data) < HEADER_SIZE or data[0] != 0:
            raise ValueError("it does not begin with the id of a schema")
        return self._decoder(data[:HEADER_SIZE], None)(data[HEADER_SIZE:])

    def _decoder(self, key: bytes, indexes: tuple[int, ...] | None) -> JsonDecode:
        found = self._decoders.get(key)
        if found is not None:
            return found
        if key[0] == 0:
            schema = self._registry.by_id(int.from_bytes(key[1:HEADER_SIZE], "big"))
        else:
            schema = self._registry.by_guid(key[1:17])
        if schema.kind != self._kind:
            raise ClientError(f"its schema is {schema.kind}, and the instance reads {self._kind}")
        found = json_decoder(self._registry, schema, indexes)
        with self._lock:
            if len(self._decoders) >= DECODERS_MAX:
                self._decoders.clear()
            self._decoders[key] = found
        return found


def answer_text(records: list[ConsumedRecord]) -> bytes:
    """Returns the JSON text of an answer."""
    try:
        return msgspec.json.encode(records)
    except (TypeError, ValueError, RecursionError):  # a number of arbitrary size, a lone surrogate
        trees = msgspec.to_builtins(records, builtin_types=(bytes,))
        return json.dumps(trees, separators=(",", ":")).encode()
