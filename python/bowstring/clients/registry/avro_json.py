"""Makes trees of Avro's JSON encoding (Avro specification, "JSON Encoding") of values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Make = Callable[[Any], Any]
_NAMED = ("record", "error", "enum", "fixed")
_COLLECTIONS = {"array": list, "map": dict}


class AvroJson:
    """Makes functions that make trees.

    Args:
        named: the named types, as fastavro parses them.
    """

    def __init__(self, named: Mapping[str, Any]):
        self._named = named
        self._records: dict[str, Make] = {}

    def maker(self, schema: Any) -> Make:
        """Returns the function of a schema's values, as fastavro reads them; those of unions are pairs of the
        branch's name and the value, but for null, arrays and maps.

        Args:
            schema: as fastavro parses it.
        """
        if isinstance(schema, list):
            return self._union(schema)
        kind = schema if isinstance(schema, str) else schema["type"]
        if isinstance(schema, str) and schema in self._named and schema not in _PRIMITIVES:
            return self.maker(self._named[schema])
        if kind in ("record", "error"):
            return self._records.get(schema["name"]) or self._record(schema)
        if kind == "array":
            item = self.maker(schema["items"])
            return lambda value: [item(each) for each in value]
        if kind == "map":
            member = self.maker(schema["values"])
            return lambda value: {name: member(each) for name, each in value.items()}
        return _text if kind in ("bytes", "fixed") else _number if kind in ("float", "double") else _same

    def _record(self, schema: Any) -> Make:
        parts: dict[str, Make] = {}

        def make(value: Any) -> dict[str, Any]:
            return {name: part(value[name]) for name, part in parts.items()}

        self._records[schema["name"]] = make  # which its parts may need
        parts.update((field["name"], self.maker(field["type"])) for field in schema["fields"])
        return make

    def _union(self, branches: list[Any]) -> Make:
        makers = {_name(each): self.maker(each) for each in branches}

        def make(value: Any) -> dict[str, Any] | None:
            if value is None:
                return None
            if isinstance(value, tuple):
                name, value = value
            else:
                name = next(name for name, kind in _COLLECTIONS.items() if isinstance(value, kind))
            return {name: makers[name](value)}

        return make


_PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "string", "bytes"))


def _name(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    return str(schema["name"] if schema["type"] in _NAMED else schema["type"])


def _same(value: Any) -> Any:
    return value


def _text(value: bytes) -> str:
    """Returns bytes as text of the characters U+0000 to U+00FF."""
    return value.decode("iso-8859-1")


def _number(value: float) -> float | str:
    """Returns numbers that JSON lacks as text, as Java does."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
