"""Estimates how much JSON text a few bytes become: names of fields, branches and symbols may be long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf.descriptor import FileDescriptor  # type: ignore[import-untyped]

TEXT_CHARACTERS_MAX = 32 << 20
"""Of one value."""
_OF_VALUES = 8
"""Characters that a byte becomes without names: `\\u0000` of a byte, `false,` of a boolean."""
_OF_NAMES = 4
"""Characters around a name: quotes, colon, comma."""
_OF_DEFAULTS = 8
"""Characters of a Protobuf field that has its default."""
_FIXED = {"float": 4, "double": 8, "null": 0}


def check_growth(size: int, growth: float) -> None:
    """Refuses a value that may become too much text.

    Args:
        size: of the value, in bytes.
        growth: characters that one of its bytes becomes at most.

    Raises:
        ValueError: it may become more than TEXT_CHARACTERS_MAX characters.
    """
    if size * growth > TEXT_CHARACTERS_MAX:
        raise ValueError(f"it may have more than {TEXT_CHARACTERS_MAX} characters as JSON")


def avro_growth(schema: Any, named: Mapping[str, Any]) -> float:
    """Returns the characters of JSON that a byte of a value becomes at most.

    Args:
        schema: as fastavro parses it.
        named: its named types.
    """
    return _AvroGrowth(named).of(schema)


class _AvroGrowth:
    def __init__(self, named: Mapping[str, Any]):
        self._named = named
        self._records: dict[str, tuple[int, int]] = {}
        self._record = 0.0
        self._branch = self._symbol = 0

    def of(self, schema: Any) -> float:
        for each in (schema, *self._named.values()):
            self._look(each)
        return _OF_VALUES + self._record + self._branch + self._symbol

    def _look(self, schema: Any) -> tuple[int, int]:
        """Returns the characters of names that a value has, and the bytes that it has at least."""
        if isinstance(schema, list):
            for each in schema:
                self._look(each)
            self._branch = max(self._branch, *(len(_branch_name(each)) + _OF_NAMES for each in schema), 0)
            return 0, 1
        if isinstance(schema, str):
            return self._look(self._named[schema]) if schema in self._named else (0, _FIXED.get(schema, 1))
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._look_at_record(schema)
        if kind in ("enum", "array", "map"):
            self._symbol = max(self._symbol, *map(len, schema.get("symbols", ())), 0)
            for part in schema.keys() & {"items", "values"}:
                self._look(schema[part])
            return 0, 1
        return (0, schema["size"]) if kind == "fixed" else self._look(kind)

    def _look_at_record(self, schema: Any) -> tuple[int, int]:
        name = schema.get("name", "")
        if name not in self._records:
            self._records[name] = 0, 1  # within itself
            parts = [self._look(field["type"]) for field in schema["fields"]]
            names = sum(len(field["name"]) + _OF_NAMES for field in schema["fields"])
            found = names + sum(each for each, _ in parts), sum(size for _, size in parts)
            self._records[name] = found
            self._record = max(self._record, found[0] / max(1, found[1]))
        return self._records[name]


def _branch_name(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    return str(schema.get("name", "")) or str(schema["type"])


def protobuf_growth(file: FileDescriptor) -> float:
    """Returns the characters of JSON that a byte of a message becomes at most, where defaults are written.

    Args:
        file: with the messages; those of imported files count, too.
    """
    record, symbol = 0, 0
    for each in _files(file, {}):
        for message in _messages(each.message_types_by_name.values()):
            names = sum(len(field.camelcase_name) + _OF_NAMES + _OF_DEFAULTS for field in message.fields)
            record = max(record, names)
            for kind in message.enum_types:
                symbol = max(symbol, *map(len, kind.values_by_name))
        for kind in each.enum_types_by_name.values():
            symbol = max(symbol, *map(len, kind.values_by_name))
    return _OF_VALUES + record / 2 + symbol


def _files(file: Any, known: dict[str, Any]) -> Iterable[Any]:
    if file.name not in known:
        known[file.name] = file
        for each in file.dependencies:
            _files(each, known)
    return known.values()


def _messages(found: Iterable[Any]) -> list[Any]:
    every = list(found)
    for each in every:  # which grows
        every += each.nested_types
    return every
