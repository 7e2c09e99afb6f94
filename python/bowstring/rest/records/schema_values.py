"""Converts values to JSON by the schemas that they were written with."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from bowstring.clients.errors import ClientError
from bowstring.clients.registry.failed_schemas import FailedSchemas
from bowstring.clients.registry.json_decoders import JsonDecode, json_decoder
from bowstring.clients.registry.registry_client import RegistryClient
from bowstring.clients.registry.schema_sources import message_indexes_of, names_schema

DECODERS_MAX = 1_000
HEADER_SIZE = 5


class SchemaValues:
    """Converts values. Any thread may call.

    Args:
        registry: has the schemas.
        kind: AVRO, JSON or PROTOBUF; other schemas are refused. None: all are taken.
    """

    def __init__(self, registry: RegistryClient, kind: str | None = None):
        self._kind, self._registry = kind, registry
        self._lock = threading.Lock()
        self._decoders: dict[bytes, JsonDecode] = {}
        self._failed = FailedSchemas()

    def tree(self, field: str, data: bytes, headers: Iterable[tuple[str, bytes | None]]) -> Any:
        """Returns the JSON tree of a key or value. A header names its schema, or its first bytes.

        Args:
            field: "key" or "value".
            data: its bytes.
            headers: of the record; the last one of a name counts.

        Raises:
            SchemaRegistryError: the registry does not answer, or refuses.
            Exception: of any kind; it is no value of a schema.
        """
        name = f"__{field}_schema_id"
        named = [key for header, key in headers if header == name and key is not None and names_schema(key)]
        if named:
            return self._decoder(named[-1], message_indexes_of(named[-1]) or None)(data)
        if len(data) < HEADER_SIZE or data[0] != 0:
            raise ValueError("it does not begin with the id of a schema")
        return self._decoder(data[:HEADER_SIZE], None)(data[HEADER_SIZE:])

    def _decoder(self, key: bytes, indexes: tuple[int, ...] | None) -> JsonDecode:
        found = self._decoders.get(key)
        if found is not None:
            return found
        self._failed.check(key)
        try:
            found = self._found(key, indexes)
        except Exception as error:  # of libraries, about schemas of any kind
            self._failed.keep(key, error)
            raise
        with self._lock:
            if len(self._decoders) >= DECODERS_MAX:
                self._decoders.clear()
            self._decoders[key] = found
        return found

    def _found(self, key: bytes, indexes: tuple[int, ...] | None) -> JsonDecode:
        if key[0] == 0:
            schema = self._registry.by_id(int.from_bytes(key[1:HEADER_SIZE], "big"))
        else:
            schema = self._registry.by_guid(key[1:17])
        if self._kind is not None and schema.kind != self._kind:
            raise ClientError(f"its schema is {schema.kind}, and the instance reads {self._kind}")
        return json_decoder(self._registry, schema, indexes)
