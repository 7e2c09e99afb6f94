"""Describes to the native encoder how Python objects fit a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from bowstring.values.decoder_arrays import storage_type
from bowstring.values.errors import ValueSchemaError

if TYPE_CHECKING:
    from bowstring._native.values.object_columns import ObjectDescription

# In the order of object_columns.Logic; below, the kind of the source of each (encoder.SourceKind).
(
    _NULL,
    _BOOLEAN,
    _SIGNED,
    _UNSIGNED,
    _FLOAT,
    _DOUBLE,
    _STRING,
    _BINARY,
    _FIXED,
    _DECIMAL,
    _DATE,
    _TIME,
    _TIMESTAMP,
    _DURATION,
    _LIST,
    _MAP,
    _STRUCT,
) = range(17)
_SOURCES = (0, 1, 2, 3, 4, 5, 6, 6, 7, 7, 2, 2, 2, 2, 8, 9, 10)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

Attributes = Mapping[str, str]
"""The attribute of objects that has a field, by the field's path; without an entry it is the field's name."""


def object_columns(field: pa.Field, attributes: Attributes, path: str = "") -> ObjectDescription:
    """Returns the description of object_columns for a field, see ObjectEncoder.

    Args:
        field: not nullable if a value is required.
        attributes: of classes whose fields have other names in the schema.
    """
    types = pa.types
    kind = storage_type(field.type)
    parts: list[ObjectDescription] = []
    scale, per_second = 0, 1
    if types.is_struct(kind):
        code = _STRUCT
        parts = [
            object_columns(part, attributes, f"{path}.{part.name}" if path else part.name) for part in kind
        ]
    elif types.is_list(kind):
        code = _LIST
        parts = [
            object_columns(pa.field("", kind.value_type, kind.value_field.nullable), attributes, f"{path}[]")
        ]
    elif types.is_map(kind):
        code = _MAP
        item = pa.field("", kind.item_type, kind.item_field.nullable)
        key = pa.field("", kind.key_type, nullable=False)
        parts = [object_columns(key, {}, f"a key of {path}"), object_columns(item, attributes, f"{path}{{}}")]
    else:
        code = _leaf(kind, path)
        scale = kind.scale if code == _DECIMAL else 0
        if code in (_TIME, _TIMESTAMP, _DURATION):
            per_second = _PER_SECOND[kind.unit]
    fixed = code not in (_NULL, _BOOLEAN, _STRING, _BINARY, _LIST, _MAP, _STRUCT)
    utc = types.is_timestamp(kind) and kind.tz is not None
    return (
        code,
        _SOURCES[code],
        kind.bit_width // 8 if fixed else 0,
        scale,
        kind.precision if code == _DECIMAL else 0,
        per_second,
        utc,
        not field.nullable,
        path,
        field.name,
        attributes.get(path, field.name),
        _words(code, kind),
        parts,
    )


def _leaf(kind: pa.DataType, path: str) -> int:
    types = pa.types
    checks = (
        (types.is_null, _NULL),
        (types.is_boolean, _BOOLEAN),
        (types.is_unsigned_integer, _UNSIGNED),
        (types.is_signed_integer, _SIGNED),
        (types.is_float32, _FLOAT),
        (types.is_float64, _DOUBLE),
        (types.is_string, _STRING),
        (types.is_fixed_size_binary, _FIXED),
        (types.is_binary, _BINARY),
        (types.is_decimal128, _DECIMAL),
        (types.is_date32, _DATE),
        (types.is_time, _TIME),
        (types.is_timestamp, _TIMESTAMP),
        (types.is_duration, _DURATION),
    )
    for check, code in checks:
        if check(kind):
            return code
    raise ValueSchemaError(
        f"values of the type {kind} cannot be encoded one by one ({path}); use send_arrow()"
    )


def _words(code: int, kind: pa.DataType) -> str:
    """Returns what a value of a type must be."""
    if code in (_SIGNED, _UNSIGNED):
        bits = kind.bit_width
        least = -(2 ** (bits - 1)) if code == _SIGNED else 0
        return f"a whole number from {least} to {least + 2**bits - 1}"
    if code == _STRUCT:
        names = ", ".join(kind.field(i).name for i in range(kind.num_fields))
        return f"a dict or an object with the fields {names}"
    if code == _TIMESTAMP:
        zone = "with a time zone, such as datetime.now(UTC)" if kind.tz else "without a time zone"
        return f"a datetime {zone}{_parts(kind)}"
    words = {
        _NULL: "None",
        _BOOLEAN: "True or False",
        _FLOAT: "a number",
        _DOUBLE: "a number",
        _STRING: "text (str)",
        _BINARY: "bytes",
        _LIST: "a list",
        _MAP: "a dict",
        _DATE: "a date",
        _TIME: f"a time without a time zone{_parts(kind)}",
        _DURATION: f"a timedelta{_parts(kind)}",
    }
    if code == _FIXED:
        return f"{kind.byte_width} bytes"
    if code == _DECIMAL:
        return f"a Decimal of at most {kind.precision} digits, {kind.scale} of them after the point"
    return words[code]


def _parts(kind: pa.DataType) -> str:
    return {"s": " in whole seconds", "ms": " in whole milliseconds"}.get(getattr(kind, "unit", ""), "")
