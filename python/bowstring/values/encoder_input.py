"""Converts Arrow columns for native encoders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bowstring._native.values.encoder import Sources
from bowstring.values.decoder_arrays import storage_type
from bowstring.values.errors import ValueEncodeError

if TYPE_CHECKING:
    from bowstring._native.values.encoder import SourceDescription

(_NULL, _BOOLEAN, _SIGNED, _UNSIGNED, _FLOAT, _DOUBLE, _BYTES, _FIXED, _LIST, _MAP, _STRUCT) = range(11)


def encoder_input(columns: pa.StructArray) -> Sources:
    """Returns columns for a native encoder; converts types with several Arrow layouts to one."""
    kept: list[Any] = [columns]
    return Sources(kept, len(columns), _describe(columns, kept))


def encoded_array(columns: pa.StructArray, offsets: Any, data: Any) -> pa.BinaryArray:
    """Returns the binary array that an encoder wrote; null for null structs."""
    validity = None
    if columns.null_count:
        # Copied, because a slice may not begin at a byte boundary.
        validity = columns.is_valid().buffers()[1]
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(columns), buffers, columns.null_count)


def _describe(array: pa.Array, kept: list[Any]) -> SourceDescription:
    kind = storage_type(array.type)
    if kind != array.type:
        array = array.cast(kind)
    kept.append(array)
    types = pa.types
    children: list[pa.Array] = []
    if types.is_struct(kind):
        code, children = _STRUCT, [array.field(i) for i in range(kind.num_fields)]
    elif types.is_map(kind):
        code, children = _MAP, [array.keys, array.items]
    elif types.is_list(kind):
        code, children = _LIST, [array.values]
    else:
        code = _leaf(kind)
    buffers = array.buffers()
    addresses = [0 if buffer is None else buffer.address for buffer in buffers[:3]] + [0, 0, 0]
    has_offsets = code in (_BYTES, _LIST, _MAP)
    data = addresses[2] if code == _BYTES else addresses[1] if code not in (_STRUCT, _NULL) else 0
    width = kind.bit_width // 8 if code in (_SIGNED, _UNSIGNED, _FLOAT, _DOUBLE, _FIXED) else 0
    parts = [_describe(child, kept) for child in children]
    return code, width, array.offset, addresses[0], addresses[1] if has_offsets else 0, data, parts


def _leaf(kind: pa.DataType) -> int:
    types = pa.types
    checks = (
        (types.is_null, _NULL),
        (types.is_boolean, _BOOLEAN),
        (types.is_unsigned_integer, _UNSIGNED),
        (types.is_signed_integer, _SIGNED),
        (types.is_temporal, _SIGNED),
        (types.is_float32, _FLOAT),
        (types.is_float64, _DOUBLE),
        (types.is_string, _BYTES),
        (types.is_binary, _BYTES),
        (types.is_fixed_size_binary, _FIXED),
        (types.is_decimal128, _FIXED),
    )
    for check, code in checks:
        if check(kind):
            return code
    raise ValueEncodeError(f"columns of the type {kind} cannot be encoded")
