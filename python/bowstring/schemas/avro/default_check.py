"""Checks whether the defaults of fields fit their types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bowstring.schemas.avro.avro_type import AvroType
from bowstring.schemas.avro.logical_type import INT_MAX, INT_MIN
from bowstring.schemas.errors import InvalidSchemaError

LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1
# Records in records: what a default in a text can need, and an end for those that contain themselves.
DEPTH_MAX = 100
# Values to look at, besides those that the text has: records whose fields have defaults multiply theirs.
STEPS_MAX = 100_000
_NONE: Final = object()
# What each type without others inside takes; the rest are strings.
_PLAIN: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "int": lambda value: type(value) is int and INT_MIN <= value <= INT_MAX,
    "long": lambda value: type(value) is int and LONG_MIN <= value <= LONG_MAX,
    "float": lambda value: type(value) in (int, float),
    "double": lambda value: type(value) in (int, float),
} | dict.fromkeys(("string", "bytes", "enum", "fixed"), lambda value: isinstance(value, str))


class DefaultCheck:
    """Checks the defaults of one schema.

    Args:
        length: of its text, characters.
    """

    def __init__(self, length: int) -> None:
        self._steps = STEPS_MAX + length

    def fits(self, schema: AvroType, value: Any, depth: int = 0) -> bool:
        """Whether a JSON value is a default for a type: Avro specification, "Complex Types".

        A union takes a value of any of its branches (specification 1.12). A record takes the defaults of its
        fields for what the value does not have.

        Raises:
            InvalidSchemaError: the defaults multiply each other to too many.
        """
        self._steps -= 1
        if self._steps < 0:
            raise InvalidSchemaError("the defaults of the fields contain each other too many times")
        if schema.kind in _PLAIN:
            return _PLAIN[schema.kind](value)
        if depth > DEPTH_MAX:
            return False
        if schema.kind == "union":
            return any(self.fits(branch, value, depth + 1) for branch in schema.branches)
        if schema.kind == "record":
            return isinstance(value, dict) and self._fits_record(schema, value, depth)
        if schema.kind == "map":
            value = list(value.values()) if isinstance(value, dict) else None
        items = schema.items
        return (
            items is not None
            and isinstance(value, list)
            and all(self.fits(items, each, depth + 1) for each in value)
        )

    def _fits_record(self, schema: AvroType, value: dict[str, Any], depth: int) -> bool:
        for each in schema.fields.values():
            inner = value.get(each.name, each.default if each.has_default else _NONE)
            if inner is _NONE or not self.fits(each.type, inner, depth + 1):
                return False
        return True
