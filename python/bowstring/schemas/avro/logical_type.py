"""Decides whether a logical type suits the type that it is written on."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

from bowstring.schemas.avro.avro_type import AvroType

# The type under each logical type that needs nothing else.
_BASES = {
    "big-decimal": "bytes",
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "local-timestamp-nanos": "long",
}
UUID_BYTES = 16
DURATION_BYTES = 12
INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
# Hints for Java's classes; a type with one of them has no logical type.
_HINTS = frozenset({"avro.java.string", "java-class", "java-key-class", "java-element-class"})


def logical_type(schema: AvroType) -> str:
    """The logical type of a type; empty if there is none, or one that must be ignored.

    Avro specification, "Logical Types": what is unknown or invalid is ignored. `map` and `variant` are
    Confluent's.
    """
    name, hints = schema.properties.get("logicalType"), _HINTS.intersection(schema.properties)
    if not isinstance(name, str) or any(isinstance(schema.properties[hint], str) for hint in hints):
        return ""
    return name if _suits(name, schema) else ""


def _suits(name: str, schema: AvroType) -> bool:
    match name:
        case "decimal":
            return _is_decimal(schema)
        case "uuid":
            return schema.kind == "string" or (schema.kind == "fixed" and schema.size == UUID_BYTES)
        case "duration":
            return schema.kind == "fixed" and schema.size == DURATION_BYTES
        case "map":
            items = schema.items if schema.kind == "array" else None
            return items is not None and items.kind == "record" and list(items.fields) == ["key", "value"]
        case "variant":
            return (
                schema.kind == "record"
                and sorted(schema.fields) == ["metadata", "value"]
                and all(each.type.kind == "bytes" for each in schema.fields.values())
            )
    return _BASES.get(name) == schema.kind


def _is_decimal(schema: AvroType) -> bool:
    precision, scale = schema.properties.get("precision"), schema.properties.get("scale", 0)
    if schema.kind not in ("bytes", "fixed") or not (_is_int(precision) and _is_int(scale)):
        return False
    most = INT_MAX if schema.kind == "bytes" else math.floor(math.log10(2) * (8 * schema.size - 1))
    return 0 < precision <= most and 0 <= scale <= precision


def _is_int(value: Any) -> TypeGuard[int]:
    return type(value) is int and INT_MIN <= value <= INT_MAX
