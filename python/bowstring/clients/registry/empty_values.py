"""Finds Avro schemas by which few bytes make many values: a value may take no bytes at all."""

from __future__ import annotations

from typing import Any

EMPTY_MAX = 1_000
"""Values without bytes that one value may contain, besides those in arrays and maps."""
TYPES_MAX = 50_000
"""Types in a schema, each counted as often as it is used."""


def is_endless(schema: Any, named: dict[str, Any]) -> bool:
    """Returns whether defaults may make endless values: a schema contains more than TYPES_MAX types, or a
    default needs itself.

    Args:
        schema: as fastavro parses it.
        named: the named types.
    """
    return _has_many_types(schema, named) or _Defaults(named).need_themselves(schema)


def _has_many_types(schema: Any, named: dict[str, Any]) -> bool:
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


class _Defaults:
    """Follows the defaults of fields that a default leaves out, in turn; TYPES_MAX parts of them at most."""

    def __init__(self, named: dict[str, Any]):
        self._named = named
        self._done: dict[tuple[str, str], bool] = {}
        self._parts = 0

    def need_themselves(self, schema: Any) -> bool:
        return any(self._of_all(each) for each in (schema, *self._named.values()))

    def _of_all(self, schema: Any) -> bool:
        if isinstance(schema, list):
            return any(map(self._of_all, schema))
        if not isinstance(schema, dict):
            return False
        inner = [schema[part] for part in ("items", "values") if part in schema]
        fields = schema.get("fields", ())
        inner += [field["type"] for field in fields]
        return any(self._of_field(schema, field) for field in fields) or any(map(self._of_all, inner))

    def _of_field(self, record: Any, field: Any) -> bool:
        if "default" not in field:
            return False
        key = record["name"], field["name"]
        if key not in self._done:
            self._done[key] = True  # within itself
            self._done[key] = self._of_value(field["type"], field["default"])
        return self._done[key]

    def _of_value(self, schema: Any, value: Any) -> bool:
        """Returns whether a part of a default needs itself; it may be of any branch of a union."""
        self._parts += 1
        if isinstance(schema, list) or self._parts > TYPES_MAX:  # writing it would try as many branches
            return self._parts > TYPES_MAX or any(self._of_value(each, value) for each in schema)
        if isinstance(schema, str):
            return schema in self._named and self._of_value(self._named[schema], value)
        kind = schema["type"]
        if kind == "array" and isinstance(value, list):
            return any(self._of_value(schema["items"], each) for each in value)
        if kind == "map" and isinstance(value, dict):
            return any(self._of_value(schema["values"], each) for each in value.values())
        return isinstance(value, dict) and any(
            self._of_value(field["type"], value[field["name"]])
            if field["name"] in value
            else self._of_field(schema, field)
            for field in schema.get("fields", ())
        )


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
