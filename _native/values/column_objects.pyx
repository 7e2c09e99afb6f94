"""Makes Python objects of rows of columns: one value at a time, as `to_pylist()` makes them of Arrow's arrays.

A value is decoded into row 0 by the code that fills Arrow's columns; maps become dicts.
"""
cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_SetItem
from cpython.float cimport PyFloat_FromDouble
from cpython.ref cimport Py_INCREF
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from bowstring._native.base.bigendian cimport load_be32
from bowstring._native.values.column cimport Column, column_clear, column_is_set
from bowstring._native.values.decimal cimport int128
from bowstring._native.values.decoder cimport FRAME_BYTES, Decoder, Reading
from bowstring._native.values.object_kinds cimport (
    O_BOOLEAN, O_BYTES, O_DECIMAL, O_LIST, O_MAP, O_NOTHING, O_REAL, O_SIGNED, O_STRUCT, O_TEXT)
from bowstring._native.values.plan cimport Plan

from decimal import Decimal
from bowstring._native.base.object_decoder import Undecodable

# ---------------------------------------------------------------- leaves


cdef object integer_of(const uint8_t *at, int width, bint signed):
    cdef uint16_t half
    cdef uint32_t word
    cdef uint64_t whole
    if width == 8:
        memcpy(&whole, at, 8)
        return <int64_t>whole if signed else whole
    if width == 4:
        memcpy(&word, at, 4)
        return <int32_t>word if signed else word
    if width == 2:
        memcpy(&half, at, 2)
        return <int16_t>half if signed else half
    return <int8_t>at[0] if signed else at[0]


cdef object real_of(const uint8_t *at, int width):
    cdef double real
    cdef float single
    if width == 8:
        memcpy(&real, at, 8)
        return PyFloat_FromDouble(real)
    memcpy(&single, at, 4)
    return PyFloat_FromDouble(single)


cdef object decimal_of(const uint8_t *at, int scale):
    cdef int128 value
    cdef uint64_t low
    cdef int64_t high
    memcpy(&value, at, 16)
    low = <uint64_t>value
    high = <int64_t>(value >> 64)
    whole = (<object>high << 64) | <object>low
    return Decimal(f"{whole}E{-scale}")


cdef inline bint has_offsets(const Column *column, int64_t row) noexcept:
    """Whether a row has its own bytes or items; one that is only marked has the zero value."""
    return column_is_set(column, row) and row < column.filled


cdef object leaf_of(const Shape *shape, int64_t row):
    cdef const Column *column = shape.column
    cdef const uint8_t *at
    cdef int64_t size
    if shape.kind == O_TEXT or shape.kind == O_BYTES:
        if column.width > 0:
            at, size = column.data + row * column.width, column.width
        elif has_offsets(column, row):
            at, size = column.data + column.offsets[row], column.offsets[row + 1] - column.offsets[row]
        else:
            at, size = column.zero.at, max(column.zero.size, <int64_t>0)
        if size == 0:
            return "" if shape.kind == O_TEXT else b""
        if shape.kind == O_TEXT:
            return PyUnicode_DecodeUTF8(<const char *>at, size, NULL)
        return PyBytes_FromStringAndSize(<const char *>at, size)
    if row >= column.capacity:                           # not set, but zeroed
        at = b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
    elif shape.kind == O_BOOLEAN:
        at = column.data + row
    else:
        at = column.data + row * column.width
    if shape.kind == O_BOOLEAN:
        return at[0] != 0
    if shape.kind == O_REAL:
        return real_of(at, column.width)
    if shape.kind == O_DECIMAL:
        return decimal_of(at, shape.scale)
    return integer_of(at, column.width, shape.kind == O_SIGNED)

# ---------------------------------------------------------------- what has parts


cdef object list_of(const Shape *shape, int64_t row):
    cdef int64_t item, begin = 0, end = 0
    if has_offsets(shape.column, row):
        begin, end = shape.column.offsets[row], shape.column.offsets[row + 1]
    items = PyList_New(end - begin)
    for item in range(begin, end):
        made = object_of(shape.parts[0], item)
        Py_INCREF(made)
        PyList_SET_ITEM(items, item - begin, made)
    return items


cdef object map_of(const Shape *shape, int64_t row):
    cdef int64_t item
    cdef dict entries = {}
    if has_offsets(shape.column, row):
        for item in range(shape.column.offsets[row], shape.column.offsets[row + 1]):
            key = object_of(shape.parts[0], item)
            entries[key] = object_of(shape.parts[1], item)
    return entries


cdef object struct_of(const Shape *shape, int64_t row):
    cdef int i
    cdef dict fields = {}
    for i in range(shape.n_parts):
        PyDict_SetItem(fields, <object>shape.parts[i].name, object_of(shape.parts[i], row))
    return fields


cdef object object_of(const Shape *shape, int64_t row):
    """The object of a row; None for null."""
    if shape.kind == O_NOTHING or not (column_is_set(shape.column, row) or shape.column.zeroed):
        return None
    if shape.kind == O_STRUCT:
        made = struct_of(shape, row)
    elif shape.kind == O_LIST:
        made = list_of(shape, row)
    elif shape.kind == O_MAP:
        made = map_of(shape, row)
    else:
        made = leaf_of(shape, row)
    return made if shape.convert == NULL else (<object>shape.convert)(made)

# ---------------------------------------------------------------- for Python


@cython.no_gc_clear                                      # the plan points into what these attributes keep
cdef class ColumnObjects(ObjectDecoder):
    """Makes objects of values that any Decoder reads. Used by one thread at a time.

    Args:
        decoder: of its own: it is not shared with a reader of Arrow.
        plan: (kind, scale, name, function for the object or None, [plans of the parts]), parallel to the columns.
        learn: called with each schema id when it first comes; None for formats without ids.
    """

    def __cinit__(self, Decoder decoder not None, tuple plan, learn=None, *rest):
        self.decoder, self.learn = decoder, learn
        self.memory, self.kept, self.known, self.last_id = Plan(), [], set(), -1
        self.shape = self.make(plan, decoder.columns.root)

    cdef Shape *make(self, tuple plan, Column *column) except NULL:
        cdef Shape *shape = <Shape *>self.memory.room(sizeof(Shape))
        shape.kind, shape.scale, name, convert, parts = plan
        self.kept += [name, convert]
        shape.column, shape.name = column, <void *>name
        shape.convert = NULL if convert is None else <void *>convert
        shape.parts = <Shape **>self.memory.room(len(parts) * sizeof(Shape *))
        for part in parts:
            shape.parts[shape.n_parts] = self.make(part, column.children[shape.n_parts])
            shape.n_parts += 1
        return shape

    cdef object by_columns(self, const uint8_t *at, int64_t size):
        cdef Reading r
        memset(&r, 0, sizeof(Reading))
        try:
            if self.decoder.one(&r, at, size):
                return object_of(self.shape, 0)
        except (ValueError, OverflowError) as error:     # a date that Python does not have
            return Undecodable(f"no Python object has this value: {error}")
        finally:
            column_clear(self.decoder.columns.root, 0)
        if r.fault == NULL:
            raise MemoryError
        return Undecodable(self.decoder.message(&r))

    cdef object decode(self, const uint8_t *at, int64_t size):
        cdef int64_t schema_id
        if self.learn is not None and size >= FRAME_BYTES and at[0] == 0:
            schema_id = <uint32_t>load_be32(at + 1)
            if schema_id != self.last_id:
                if schema_id not in self.known:
                    self.learn(schema_id)
                    self.known.add(schema_id)
                self.last_id = schema_id
        return self.by_columns(at, size)
