"""Converts the defaults of fields to the form of their types."""

from __future__ import annotations

import math
import struct
from typing import Any, Final

from bowstring.schemas.avro.avro_type import AvroType
from bowstring.schemas.avro.default_check import LONG_MAX, LONG_MIN
from bowstring.schemas.avro.json_text import java_decimal, java_double

_FLOAT = struct.Struct("<f")
_FLOAT_DIGITS_MAX = 9


class Missing:
    """What stands for a value that a type cannot have."""


MISSING: Final = Missing()


class Float(float):
    """A number of 32 bits, which Java writes with fewer digits."""


def converted(value: Any, schema: AvroType | None) -> Any:
    """A default in the form that its type gives it, as Java reads and writes it again.

    `0` of a double becomes `0.0`. MISSING: the type has no such value, and the default is lost.
    """
    if schema is not None and schema.kind == "union" and value is not None:
        found = (converted(value, branch) for branch in schema.branches if branch.kind != "null")
        return next((each for each in found if each is not MISSING), MISSING)
    kind = "" if schema is None else schema.kind
    if isinstance(value, list):
        items = schema.items if schema else None
        return [_or_itself(each, items) for each in value] if kind in ("", "array") or not value else MISSING
    if isinstance(value, dict):
        return {key: _or_itself(each, _type_of_member(schema, key)) for key, each in value.items()}
    return value if value is None or isinstance(value, bool) else _converted_scalar(value, kind)


def _converted_scalar(value: Any, kind: str) -> Any:
    if isinstance(value, int):
        return _converted_int(value, kind)
    if isinstance(value, float):
        return {"": value, "double": value, "float": Float(value)}.get(kind, MISSING)
    if kind in ("bytes", "fixed"):
        return value.encode("latin-1", "replace").decode("latin-1")
    return value if kind in ("", "string", "enum") else MISSING


def _converted_int(value: int, kind: str) -> Any:
    if not LONG_MIN <= value <= LONG_MAX or kind not in ("", "int", "long", "float", "double"):
        return MISSING
    return Float(value) if kind == "float" else float(value) if kind == "double" else value


def _or_itself(value: Any, schema: AvroType | None) -> Any:
    found = converted(value, schema)
    return value if found is MISSING else found


def _type_of_member(schema: AvroType | None, key: str) -> AvroType | None:
    if schema is None or schema.kind not in ("map", "record"):
        return None
    if schema.kind == "map":
        return schema.items
    found = schema.fields.get(key)
    return None if found is None else found.type


def java_float(value: float) -> str:
    """A number of 32 bits as Java's `Float.toString` writes it."""
    try:
        packed = _FLOAT.pack(value)
    except OverflowError:
        return '"Infinity"' if value > 0 else '"-Infinity"'
    (rounded,) = _FLOAT.unpack(packed)
    if not math.isfinite(rounded):
        return java_double(rounded)
    digits = (f"{rounded:.{count}g}" for count in range(2, _FLOAT_DIGITS_MAX))
    shortest = next((each for each in digits if _FLOAT.pack(float(each)) == packed), f"{rounded:.9g}")
    return java_decimal(shortest)
