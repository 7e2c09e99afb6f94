"""Decodes keys and values to trees of dicts and lists where they are JSON, or Avro or Protobuf by schema ids;
to text where they are UTF-8.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Sequence
from datetime import date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from bowstring.clients.errors import ClientError
from bowstring.clients.registry.failed_schemas import FailedSchemas
from bowstring.clients.registry.registry_client import RegistryClient
from bowstring.clients.registry.schema_sources import message_indexes_of, names_schema
from bowstring.clients.registry.tree_decoders import Decode, tree_decoder

DEPTH_MAX = 64
KEPT_MAX = 1_000
HEADER_SIZE = 5
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
_JSON_STARTS = frozenset(b'{["-0123456789tfnNI')


class Decoded(NamedTuple):
    """A decoded key or value.

    Attributes:
        kind: "null", "json", "avro", "protobuf", "text", or "bytes".
        value: None, a tree of dicts, lists, texts, numbers and bytes, or a text; None for bytes.
        schema_id: of the value's frame; None without one.
        note: why a value is not shown as its schema says; "" if it is.
    """

    kind: str
    value: Any
    schema_id: int | None = None
    note: str = ""


NULL = Decoded("null", None)


class ValueDecoder:
    """Decodes keys and values. Any thread may call.

    Args:
        registry: where schemas are; None shows only JSON and text.
    """

    def __init__(self, registry: RegistryClient | None = None):
        self._registry = registry
        self._lock = threading.Lock()
        self._decoders: dict[bytes, tuple[str, Decode]] = {}
        self._failed = FailedSchemas()

    def decode(self, data: bytes | None) -> Decoded:
        """Decodes a key or value. Never raises."""
        if data is None:
            return NULL
        if len(data) > HEADER_SIZE and data[0] == 0:
            return self._framed(data)
        if data[:64].lstrip()[:1] and data[:64].lstrip()[0] in _JSON_STARTS:
            found, note = _json(data)
            if note is None:
                return Decoded("json", found)
            return _plain(data, None, note)
        return _plain(data, None, "")

    def decode_of(self, data: bytes | None, headers: Headers, field: str) -> Decoded:
        """Decodes a key or value of a record, whose headers may name its schema. Never raises.

        Args:
            headers: of the record.
            field: "key" or "value".
        """
        name = f"__{field}_schema_id"
        key = next((value for header, value in reversed(headers) if header == name), None)
        if data is None or key is None or self._registry is None or not names_schema(key):
            return self.decode(data)
        found = self._by_schema(key)
        note = found if isinstance(found, str) else ""
        schema_id = int.from_bytes(key[1:HEADER_SIZE], "big") if key[0] == 0 else None
        if not isinstance(found, str):
            kind, decode = found
            try:
                return Decoded(kind, _normal(decode(data), 0), schema_id)
            except Exception as error:  # of other libraries, about data of any kind
                note = f"not of its schema: {_first_line(error)}"
        return self.decode(data)._replace(note=note)

    def _framed(self, data: bytes) -> Decoded:
        schema_id = int.from_bytes(data[1:HEADER_SIZE], "big")
        body, note = data[HEADER_SIZE:], ""
        if self._registry is not None:
            found = self._by_schema(data[:HEADER_SIZE])
            if isinstance(found, str):
                note = found
            else:
                kind, decode = found
                try:
                    return Decoded(kind, _normal(decode(body), 0), schema_id)
                except Exception as error:  # of other libraries, about data of any kind
                    note = f"not of schema {schema_id}: {_first_line(error)}"
        if body[:1] in (b"{", b"["):
            tree, problem = _json(body)
            if problem is None:
                return Decoded("json", tree, schema_id, note)
        return _plain(data, schema_id if note else None, note)

    def _by_schema(self, key: bytes) -> tuple[str, Decode] | str:
        """Returns the decoder of a schema with an id or guid, or why there is none."""
        registry = self._registry
        assert registry is not None
        with self._lock:
            if key in self._decoders:
                return self._decoders[key]
        try:
            self._failed.check(key)
        except (ClientError, ValueError) as error:
            return str(error)
        try:
            if key[0] == 0:
                schema = registry.by_id(int.from_bytes(key[1:HEADER_SIZE], "big"))
            else:
                schema = registry.by_guid(key[1:17])
            # At the start of a value, message indexes differ from value to value.
            found = tree_decoder(registry, schema, message_indexes_of(key) or None)
        except ClientError as error:
            self._failed.keep(key, error)
            return str(error)
        with self._lock:
            if len(self._decoders) > KEPT_MAX:
                self._decoders.clear()
            self._decoders[key] = found
        return found


def _json(data: bytes) -> tuple[Any, str | None]:
    """Returns the tree of a JSON text, or why it is not one: "" if it only seemed so."""
    try:
        tree = json.loads(data)
        if data.count(b"[") + data.count(b"{") > DEPTH_MAX:
            _check_depth(tree)
        return tree, None
    except RecursionError:
        return None, f"JSON nested more than {DEPTH_MAX} deep"
    except UnicodeDecodeError:
        return None, ""
    except json.JSONDecodeError:
        return None, ""
    except ValueError:  # int() of too many digits
        return None, "JSON with a number of more than 4,300 digits"


def _check_depth(tree: Any) -> None:
    """Refuses a tree that is too deep.

    Raises:
        RecursionError: it is nested more than DEPTH_MAX deep.
    """
    level, depth = [tree], 0
    while level:
        if depth > DEPTH_MAX:
            raise RecursionError
        depth += 1
        level = [
            inner
            for each in level
            if type(each) in (dict, list)
            for inner in (each.values() if type(each) is dict else each)
            if type(inner) in (dict, list)
        ]


def _normal(found: Any, depth: int) -> Any:
    """Returns what libraries decode as a tree of JSON's types, bytes and Decimal; times as ISO 8601."""
    if depth > DEPTH_MAX:
        raise ValueError(f"nested more than {DEPTH_MAX} deep")
    if isinstance(found, dict):
        return {str(name): _normal(each, depth + 1) for name, each in found.items()}
    if isinstance(found, (list, tuple)):
        return [_normal(each, depth + 1) for each in found]
    if isinstance(found, (datetime, date, time_of_day)):
        return found.isoformat()
    if isinstance(found, UUID):
        return str(found)
    if found is None or isinstance(found, (str, bool, int, float, bytes, Decimal)):
        return found
    return str(found)


def _plain(data: bytes, schema_id: int | None, note: str) -> Decoded:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return Decoded("bytes", None, schema_id, note)
    # Text has no NUL; binary numbers often are valid UTF-8.
    return Decoded("bytes", None, schema_id, note) if "\0" in text else Decoded("text", text, schema_id, note)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]


def plain_json(tree: Any) -> Any:
    """Returns a tree that `json.dumps(…, allow_nan=False)` writes: bytes as hex, NaN and infinities and
    Decimals as texts.
    """
    if isinstance(tree, dict):
        return {name: plain_json(each) for name, each in tree.items()}
    if isinstance(tree, list):
        return [plain_json(each) for each in tree]
    if isinstance(tree, bytes):
        return tree.hex()
    if isinstance(tree, Decimal) or (isinstance(tree, float) and not math.isfinite(tree)):
        return str(tree)
    return tree
