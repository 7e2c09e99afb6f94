"""Converts Arrow arrays to input of native decoders, and their output to Arrow arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bowstring._native.values.column import Input
from bowstring.values.errors import ValueSchemaError

if TYPE_CHECKING:
    from bowstring._native.values.column import Description, Finished

STORE_NOTHING, STORE_BITS, STORE_FIXED, STORE_BYTES, STORE_LIST = range(5)
_VIEWS = (pa.binary_view(), pa.string_view())
_SMALL = (pa.binary(), pa.string())
_LARGE = (pa.large_binary(), pa.large_string())


def binary_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns one array of bytes or strings, in a layout that decoders accept.

    Raises:
        TypeError: the array holds something else.
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_null(values.type) or pa.types.is_fixed_size_binary(values.type):
        values = values.cast(pa.binary())
    if values.type not in (*_VIEWS, *_SMALL, *_LARGE):
        raise TypeError(f"values to decode must be binary, binary_view or strings, not {values.type}")
    return values


def decoder_input(values: pa.Array, skip: int = 0) -> Input:
    """Converts the result of `binary_array` for a native decoder, which leaves out `skip` bytes at the start
    of each value.
    """
    buffers = values.buffers()
    addresses = [0 if buffer is None else buffer.address for buffer in buffers]
    layout = 0 if values.type in _VIEWS else 4 if values.type in _SMALL else 8
    data = [] if layout == 0 else addresses[2:3]
    return Input(
        (values, buffers),
        layout,
        values.offset,
        len(values),
        addresses[0],
        addresses[1],
        data[0] if data else 0,
        addresses[2:] if layout == 0 else [],
        skip,
    )


def storage_type(data_type: pa.DataType) -> pa.DataType:
    """Returns the type to decode, which is then cast to `data_type`."""
    types = pa.types
    if types.is_dictionary(data_type):
        return storage_type(data_type.value_type)
    if data_type in (pa.large_string(), pa.string_view()):
        return pa.string()
    if data_type in (pa.large_binary(), pa.binary_view()):
        return pa.binary()
    if types.is_date64(data_type):
        return pa.date32()
    if types.is_float16(data_type):
        return pa.float32()
    return data_type


def describe(data_type: pa.DataType, zeroed: bool = False, zero: bytes | None = None) -> Description:
    """Returns the native columns of a type, see `value_column.Columns`.

    Raises:
        ValueSchemaError: the type is not supported.
    """
    types = pa.types
    kind = storage_type(data_type)
    if types.is_struct(kind):
        return STORE_NOTHING, 0, zeroed, None, [describe(field.type) for field in kind]
    if types.is_list(kind):
        return STORE_LIST, 0, zeroed, None, [describe(kind.value_type)]
    if types.is_map(kind):
        return STORE_LIST, 0, zeroed, None, [describe(kind.key_type, True), describe(kind.item_type)]
    return _describe_leaf(kind, data_type, zeroed, zero)


def _describe_leaf(
    kind: pa.DataType, data_type: pa.DataType, zeroed: bool, zero: bytes | None
) -> Description:
    types = pa.types
    if types.is_boolean(kind):
        return STORE_BITS, 1, zeroed, None, []
    if types.is_string(kind) or types.is_binary(kind):
        return STORE_BYTES, 0, zeroed, zero, []
    if types.is_null(kind):
        return STORE_NOTHING, 0, zeroed, None, []
    if types.is_fixed_size_binary(kind) or types.is_primitive(kind) or types.is_decimal128(kind):
        return STORE_FIXED, kind.bit_width // 8, zeroed, None, []
    raise ValueSchemaError(f"values of the type {data_type} cannot be decoded")


def nullable(data_type: pa.DataType) -> pa.DataType:
    """Returns the type with every field nullable, because all fields of a bad value are null."""
    types = pa.types
    if types.is_struct(data_type):
        return pa.struct([pa.field(f.name, nullable(f.type), metadata=f.metadata) for f in data_type])
    if types.is_list(data_type):
        return pa.list_(pa.field(data_type.value_field.name, nullable(data_type.value_type)))
    if types.is_map(data_type):
        return pa.map_(data_type.key_type, nullable(data_type.item_type))
    return data_type


def arrow_array(data_type: pa.DataType, finished: Finished) -> pa.Array:
    """Returns the Arrow array of columns that a decoder has filled.

    Copies nothing, unless the type has another layout.
    """
    rows, nulls, memories, parts = finished
    types = pa.types
    if types.is_null(data_type):
        return pa.nulls(rows)
    kind = storage_type(data_type)
    buffers: list[Any] = [None if memory is None else pa.py_buffer(memory) for memory in memories]
    if types.is_struct(kind):
        children = [arrow_array(field.type, part) for field, part in zip(kind, parts, strict=True)]
    elif types.is_map(kind):
        entry = pa.struct([kind.key_field, kind.item_field])
        pairs = [arrow_array(kind.key_type, parts[0]), arrow_array(kind.item_type, parts[1])]
        children = [pa.Array.from_buffers(entry, parts[0][0], [None], 0, 0, pairs)]
    elif types.is_list(kind):
        children = [arrow_array(kind.value_type, parts[0])]
    else:
        array = pa.Array.from_buffers(kind, rows, buffers, nulls)
        return array if kind == data_type else array.cast(data_type)
    return pa.Array.from_buffers(kind, rows, buffers, nulls, 0, children)
