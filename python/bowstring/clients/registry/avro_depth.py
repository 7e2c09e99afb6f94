"""Refuses Avro values that are nested too deep before fastavro reads them: it recurses without a bound, and
a few kilobytes of a type that contains itself would end the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Any

TYPES_DEEP_MAX = 300
"""Types within one another; a union and its branch are two."""
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_NUMBERS = ("int", "long", "enum")
_TEXTS = ("string", "bytes")
_PRIMITIVES = frozenset((*_SIZES, "int", "long", *_TEXTS))


def depth_check(schema: Any, named: Mapping[str, Any]) -> Callable[[bytes], None] | None:
    """Returns what raises ValueError for values that are nested too deep, or are cut.

    None: the schema has no such values, because no type contains itself.

    Args:
        schema: as fastavro parses it.
        named: its named types.
    """
    try:
        _Heights(named).of(schema, 0)
    except _Deep:
        return lambda data: _Walk(named, data).over(schema)
    return None


def _resolved(schema: Any, named: Mapping[str, Any]) -> Any:
    return named[schema] if isinstance(schema, str) and schema not in _PRIMITIVES else schema


class _Deep(Exception):
    """A schema may have values that are nested too deep."""


class _Heights:
    """Measures how deep values of types are nested at most."""

    def __init__(self, named: Mapping[str, Any]):
        self._named = named
        self._known: dict[int, int | None] = {}

    def of(self, schema: Any, depth: int) -> int:
        each = _resolved(schema, self._named)
        if isinstance(each, str):
            return 0
        if id(each) not in self._known:
            if depth > TYPES_DEEP_MAX:
                raise _Deep
            self._known[id(each)] = None  # within itself
            height = 0
            for part in _parts(each):
                height = max(height, 1 + self.of(part, depth + 1))
            self._known[id(each)] = height
        found = self._known[id(each)]
        if found is None or depth + found > TYPES_DEEP_MAX:
            raise _Deep
        return found


def _parts(schema: Any) -> list[Any]:
    if isinstance(schema, list):
        return schema
    inner = [field["type"] for field in schema.get("fields", ())]
    return inner + [schema[name] for name in ("items", "values") if name in schema]


class _Walk:
    """Passes over a value, without recursion."""

    def __init__(self, named: Mapping[str, Any], data: bytes):
        self._named, self._data = named, data
        self._at = 0

    def over(self, schema: Any) -> None:
        within: list[Iterator[Any]] = [iter((schema,))]  # the types that follow, of each level
        while within:
            if len(within) > TYPES_DEEP_MAX + 1:
                raise ValueError(f"it has more than {TYPES_DEEP_MAX} types within one another")
            each = next(within[-1], None)
            if each is None:
                within.pop()
                continue
            each = _resolved(each, self._named)
            kind = each if isinstance(each, str) else "union" if isinstance(each, list) else each["type"]
            if kind == "union":
                within.append(iter((self._branch(each),)))
            elif kind in ("record", "error"):
                within.append(map(itemgetter("type"), each["fields"]))
            elif kind == "array":
                within.append(self._items(each["items"]))
            elif kind == "map":
                within.append(self._items("string", each["values"]))
            else:
                self._skip(kind, each)

    def _branch(self, union: list[Any]) -> Any:
        index = self._long()
        if not 0 <= index < len(union):
            raise ValueError(f"a union of {len(union)} has no branch {index}")
        return union[index]

    def _items(self, *item: Any) -> Iterator[Any]:
        """Yields the types of items; many items that have no bytes are refused with their schema."""
        while count := self._long():
            if count < 0:  # then the block's size follows
                count = -count
                self._long()
            if count > len(self._data) - self._at:
                raise ValueError(f"it has no {count} items")
            for _ in range(count):
                yield from item

    def _skip(self, kind: str, schema: Any) -> None:
        if kind in _NUMBERS:
            self._long()
            return
        size = self._long() if kind in _TEXTS else schema["size"] if kind == "fixed" else _SIZES[kind]
        if not 0 <= size <= len(self._data) - self._at:
            raise ValueError(f"it ends within a {kind}")
        self._at += size

    def _long(self) -> int:
        found = shift = 0
        while True:
            if self._at >= len(self._data):
                raise ValueError("it ends within a number")
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift > 63:
                raise ValueError("a number has more than ten bytes")
        if found >> 64:
            raise ValueError("a number has more than 64 bits")
        return (found >> 1) ^ -(found & 1)
