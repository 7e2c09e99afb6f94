"""Finds Avro schemas by which few bytes make many values: a value may take no bytes at all."""

from __future__ import annotations

from typing import Any

EMPTY_MAX = 1_000
"""Values without bytes that one value may contain, besides those in arrays and maps."""
TYPES_MAX = 50_000
"""Types in a schema, each counted as often as it is used."""


def is_endless(schema: Any, named: dict[str, Any]) -> bool:
    """Returns whether a schema contains more than TYPES_MAX types: then defaults make endless values.

    Args:
        schema: as fastavro parses it.
        named: the named types.
    """
    known: dict[str, int] = {}

    def count(each: Any) -> int:
        if isinstance(each, list):
            return 1 + sum(map(count, each))
        if isinstance(each, str):
            return count(named[each]) if each in named else 1
        if not isinstance(each, dict):
            return 1
        name = each.get("name", "") if each["type"] in ("record", "error") else ""
        if name not in known:
            known[name] = 1  # within itself
            inner = [each[part] for part in ("items", "values") if part in each]
            inner += [field["type"] for field in each.get("fields", ())]
            inner += [each["type"]] if isinstance(each["type"], (dict, list)) else []
            known[name] = 1 + sum(map(count, inner))
        return known[name] if name else known.pop(name)

    return count(schema) > TYPES_MAX


class EmptyValues:
    """Counts values without bytes.

    Args:
        named: the named types, as fastavro parses them.
    """

    def __init__(self, named: dict[str, Any]):
        self._named = named
        self._counts: dict[str, tuple[int, bool]] = {}

    def swell(self, schema: Any) -> bool:
        """Returns whether a schema, or one of those by name, makes too many values of few bytes.

        Args:
            schema: as fastavro parses it.
        """
        return any(self._swells(each) for each in (schema, *self._named.values()))

    def _swells(self, schema: Any) -> bool:
        if isinstance(schema, list):
            return any(self._swells(each) for each in schema)
        if not isinstance(schema, dict):
            return False
        if self._count(schema)[0] > EMPTY_MAX:
            return True
        if schema["type"] == "array" and self._count(schema["items"])[1]:
            return True
        inner = [schema[name] for name in ("items", "values") if name in schema]
        inner += [field["type"] for field in schema.get("fields", ())]
        inner += [schema["type"]] if isinstance(schema["type"], (dict, list)) else []
        return any(self._swells(each) for each in inner)

    def _count(self, schema: Any) -> tuple[int, bool]:
        """Returns how many values without bytes a value contains, itself included, and whether it is one."""
        if isinstance(schema, list):
            return 0, False  # a union has the number of its branch
        if isinstance(schema, str):
            if schema in self._named:
                return self._count(self._named[schema])
            return int(schema == "null"), schema == "null"
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._count_of_record(schema)
        if kind == "fixed":
            return int(schema["size"] == 0), schema["size"] == 0
        return self._count(kind) if kind == "null" or isinstance(kind, dict) else (0, False)

    def _count_of_record(self, record: Any) -> tuple[int, bool]:
        name = record.get("name", "")
        if name not in self._counts:
            self._counts[name] = 0, False  # one that contains itself at once cannot be read
            parts = [self._count(field["type"]) for field in record["fields"]]
            self._counts[name] = sum(each for each, _ in parts) + 1, all(empty for _, empty in parts)
        return self._counts[name]
