"""Puts a Python object into columns of one row, and encodes them: what `Producer.send` does with a format.

The encoders of whole arrays write the value, so that a record that is sent alone has the bytes that it has in a table.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.datetime cimport (
    PyDate_Check, PyDateTime_Check, PyDelta_Check, PyTime_Check, datetime_hour, datetime_microsecond, datetime_minute,
    datetime_second, datetime_tzinfo, import_datetime, time_hour, time_microsecond, time_minute, time_second,
    timedelta_days, timedelta_microseconds, timedelta_seconds, time_tzinfo)
from cpython.dict cimport PyDict_CheckExact
from cpython.object cimport PyObject
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_CheckExact
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset
from bowstring._native.values.encoder cimport Encoder, Out, Source, out_put

import datetime
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from enum import Enum
from uuid import UUID

cdef extern from "Python.h":
    PyObject *PyDict_GetItemWithError(object mapping, object key) except? NULL

import_datetime()

# In the order of values.object_columns.
cdef enum Logic:
    L_NULL = 0
    L_BOOLEAN = 1
    L_SIGNED = 2
    L_UNSIGNED = 3
    L_FLOAT = 4
    L_DOUBLE = 5
    L_STRING = 6
    L_BINARY = 7
    L_FIXED = 8
    L_DECIMAL = 9
    L_DATE = 10
    L_TIME = 11
    L_TIMESTAMP = 12
    L_DURATION = 13
    L_LIST = 14
    L_MAP = 15
    L_STRUCT = 16

cdef enum:
    EPOCH_DAY = 719163          # date(1970, 1, 1).toordinal()
    DEPTH_TEXT = 80

UTC = datetime.timezone.utc
EXACT = Context(prec=80)


class ObjectFault(Exception):
    """An object that the schema does not fit; the text names the field and what it must be."""


cdef int64_t grown(int64_t wanted, int64_t capacity) except -1:
    if wanted > INT32_MAX:
        raise OverflowError("the value exceeds 2 GiB")
    return min(<int64_t>INT32_MAX, max(wanted, capacity * 2, 64))


cdef uint8_t *data_room(Column *column, int64_t size) except NULL:
    """The place of `size` more bytes of data."""
    cdef int64_t capacity
    cdef void *moved
    if column.used + size > column.data_capacity or column.data == NULL:
        capacity = grown(column.used + size, column.data_capacity)
        moved = realloc(column.data, capacity)
        if moved == NULL:
            raise MemoryError
        column.data = <uint8_t *>moved
        column.data_capacity = capacity
        column.source.data = column.data
    column.used += size
    return column.data + column.used - size


cdef int begin_row(Column *column, bint valid) except -1:
    """Adds a row's validity bit."""
    cdef int64_t at = column.rows, capacity
    cdef void *moved
    if at >> 3 >= column.bits_capacity:
        capacity = grown((at >> 3) + 1, column.bits_capacity)
        moved = realloc(column.bits, capacity)
        if moved == NULL:
            raise MemoryError
        column.bits = <uint8_t *>moved
        column.bits_capacity = capacity
        column.source.validity = column.bits
    if at & 7 == 0:
        column.bits[at >> 3] = 0
    if valid:
        column.bits[at >> 3] |= <uint8_t>(1 << (at & 7))
    column.rows = at + 1
    return 0


cdef int end_row(Column *column, int64_t end) except -1:
    """Sets where the items or bytes of the last row end."""
    cdef int64_t capacity
    cdef void *moved
    if column.rows >= column.offsets_capacity:
        capacity = grown(column.rows + 1, column.offsets_capacity)
        moved = realloc(column.offsets, capacity * sizeof(int32_t))
        if moved == NULL:
            raise MemoryError
        column.offsets = <int32_t *>moved
        column.offsets_capacity = capacity
        column.source.offsets = column.offsets
    column.offsets[0] = 0
    column.offsets[column.rows] = <int32_t>end
    return 0


cdef class ObjectEncoder(Plan):
    """Encodes objects one by one.

    Args:
        encoder: of the format.
        description: (logic, kind of the source, bytes of a row, scale, precision, units per second, utc, required, path,
            name in mappings, attribute of objects, what a value must be, [descriptions of the children]).
    """

    def __cinit__(self, Encoder encoder not None, tuple description not None):
        self.encoder = encoder
        self.description = description
        self.names, self.attributes, self.words, self.columns_at = [], [], [], []
        self.plain_types = set()
        self.root = self.make(description)

    def __dealloc__(self):
        cdef Column *column
        for at in self.columns_at or ():
            column = <Column *><uintptr_t>at
            free(column.bits)
            free(column.offsets)
            free(column.data)
        free(self.text)

    cdef Column *make(self, tuple description) except NULL:
        cdef Column *column = <Column *>self.room(sizeof(Column))
        self.columns_at.append(<uintptr_t>column)
        column.source = <Source *>self.room(sizeof(Source))
        (column.logic, kind, column.width, column.scale, column.precision, column.per_second, column.utc,
         column.required, path, name, attribute, words, children) = description
        column.source.kind = kind
        column.source.width = column.width
        column.path = self.path(path)
        self.names.append(name)
        self.attributes.append(attribute)
        self.words.append(words)
        column.children = <Column **>self.room(len(children) * sizeof(Column *))
        column.source.children = <Source **>self.room(len(children) * sizeof(Source *))
        for child in children:
            column.children[column.n_children] = self.make(child)
            column.source.children[column.n_children] = column.children[column.n_children].source
            column.n_children += 1
        column.source.n_children = column.n_children
        return column

    def encode(self, value):
        """Returns the value's bytes.

        Raises:
            ObjectFault: the value does not fit the schema.
            OverflowError: it exceeds 2 GiB.
        """
        if self.busy:                   # in another thread, or in a property of an object that is being read
            return ObjectEncoder(self.encoder, self.description).encode(value)
        self.busy = True
        try:
            self.reset(self.root)
            self.put(self.root, value)
            return self.written()
        finally:
            self.busy = False

    cdef bytes written(self):
        cdef Out out
        cdef const uint8_t *prefix = self.encoder.prefix
        cdef bint good
        memset(&out, 0, sizeof(Out))
        out.data = self.text
        out.capacity = self.text_capacity
        good = out_put(&out, prefix, len(self.encoder.prefix)) and self.encoder.value(&out, self.root.source, 0)
        self.text = out.data
        self.text_capacity = out.capacity
        if good:
            return PyBytes_FromStringAndSize(<const char *>out.data, out.used)
        if out.fault == NULL:
            raise OverflowError("the value exceeds 2 GiB")
        raise ObjectFault(f"{self.encoder.paths[out.where] or 'the value'}: {out.fault.decode()}")

    cdef int reset(self, Column *column) except -1:
        cdef int i
        column.rows = column.used = 0
        if column.source.kind == 6 or column.logic == L_LIST or column.logic == L_MAP:
            end_row(column, 0)
        for i in range(column.n_children):
            self.reset(column.children[i])
        return 0

    # ---------------------------------------------------------------- a value

    cdef int put(self, Column *column, object value) except -1:
        if value is None:
            if column.required:
                raise ObjectFault(f"{self.paths[column.path] or 'the value'} is missing; it must be "
                                  f"{self.words[column.path]}")
            return self.put_null(column)
        if column.logic == L_STRUCT:
            return self.put_struct(column, value)
        if column.logic == L_LIST:
            return self.put_list(column, value)
        if column.logic == L_MAP:
            return self.put_map(column, value)
        return self.put_leaf(column, value)

    cdef int put_null(self, Column *column) except -1:
        cdef int i
        begin_row(column, False)
        if column.logic == L_STRUCT:                        # its fields have as many rows
            for i in range(column.n_children):
                self.put_null(column.children[i])
        elif column.logic == L_LIST or column.logic == L_MAP:
            end_row(column, column.children[0].rows)
        elif column.source.kind == 6:
            end_row(column, column.used)
        elif column.logic == L_BOOLEAN:
            if column.rows & 7 == 1:
                data_room(column, 1)[0] = 0
        elif column.width > 0:
            memset(data_room(column, column.width), 0, column.width)
        return 0

    cdef int put_leaf(self, Column *column, object value) except -1:
        cdef int64_t signed
        cdef uint64_t unsigned
        cdef double real
        cdef float single
        cdef int logic = column.logic, bits = 8 * column.width, overflow = 0
        if logic == L_STRING:
            return self.put_text(column, value)
        if logic == L_SIGNED and bits == 64 and PyLong_CheckExact(value):
            signed = PyLong_AsLongLongAndOverflow(value, &overflow)
            if overflow:
                raise self.wrong(column, value)
            (<int64_t *>data_room(column, 8))[0] = signed
            return begin_row(column, True)
        if logic == L_DOUBLE and PyFloat_CheckExact(value):
            (<double *>data_room(column, 8))[0] = PyFloat_AS_DOUBLE(value)
            return begin_row(column, True)
        if logic != L_BOOLEAN and isinstance(value, Enum):
            value = value.value
        if logic == L_SIGNED or logic == L_UNSIGNED:
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                raise self.wrong(column, value)
            try:
                if logic == L_SIGNED:
                    signed = value.__index__()
                    if bits < 64 and not -(<int64_t>1 << (bits - 1)) <= signed < <int64_t>1 << (bits - 1):
                        raise OverflowError
                    memcpy(data_room(column, column.width), &signed, column.width)
                else:
                    unsigned = value.__index__()
                    if bits < 64 and unsigned >> bits:
                        raise OverflowError
                    memcpy(data_room(column, column.width), &unsigned, column.width)
            except OverflowError:
                raise self.wrong(column, value) from None
        elif logic == L_DOUBLE or logic == L_FLOAT:
            if isinstance(value, (bool, str, Decimal)) or not hasattr(value, "__float__"):
                raise self.wrong(column, value)
            real = value
            single = <float>real
            if logic == L_DOUBLE:
                memcpy(data_room(column, 8), &real, 8)
            else:
                memcpy(data_room(column, 4), &single, 4)
        elif logic == L_BOOLEAN:
            if not isinstance(value, bool):
                raise self.wrong(column, value)
            if column.rows & 7 == 0:
                data_room(column, 1)[0] = 0
            if value:
                column.data[column.rows >> 3] |= <uint8_t>(1 << (column.rows & 7))
        elif logic == L_NULL:
            raise self.wrong(column, value)
        else:
            return self.put_moment(column, value)
        return begin_row(column, True)

    cdef int put_moment(self, Column *column, object value) except -1:
        """Bytes of a fixed size, decimals, and what is a number of days or of parts of a second."""
        cdef int64_t number
        if column.logic == L_BINARY:
            return self.put_text(column, value)
        if column.logic == L_FIXED:
            if not isinstance(value, (bytes, bytearray, memoryview)) or len(value) != column.width:
                raise self.wrong(column, value)
            value = bytes(value)
            memcpy(data_room(column, column.width), <const uint8_t *><bytes>value, column.width)
            return begin_row(column, True)
        if column.logic == L_DECIMAL:
            given = scaled(value, column.scale, column.precision)
            if given is None:
                raise self.wrong(column, value)
            memcpy(data_room(column, 16), <const uint8_t *><bytes>given, 16)
            return begin_row(column, True)
        if isinstance(value, int) and not isinstance(value, bool):
            try:
                number = value
            except OverflowError:
                raise self.wrong(column, value) from None
        elif column.logic == L_DATE and PyDate_Check(value) and not PyDateTime_Check(value):
            number = value.toordinal() - EPOCH_DAY
        elif column.logic == L_TIME and PyTime_Check(value) and time_tzinfo(value) is None:
            number = (time_hour(value) * 60 + time_minute(value)) * 60 + time_second(value)
            number = self.parts(column, value, number, time_microsecond(value))
        elif column.logic == L_TIMESTAMP and PyDateTime_Check(value):
            zone = datetime_tzinfo(value)
            if (zone is not None) != column.utc:
                raise self.wrong(column, value)
            if zone is not None and zone is not UTC:
                value = value.astimezone(UTC)
            number = value.toordinal() - EPOCH_DAY
            number = ((number * 24 + datetime_hour(value)) * 60 + datetime_minute(value)) * 60 + datetime_second(value)
            number = self.parts(column, value, number, datetime_microsecond(value))
        elif column.logic == L_DURATION and PyDelta_Check(value):
            number = <int64_t>timedelta_days(value) * 86400 + timedelta_seconds(value)
            number = self.parts(column, value, number, timedelta_microseconds(value))
        else:
            raise self.wrong(column, value)
        memcpy(data_room(column, column.width), &number, column.width)
        return begin_row(column, True)

    cdef int64_t parts(self, Column *column, object value, int64_t seconds, int64_t micros) except? -1:
        """Seconds and microseconds in the column's unit."""
        cdef int64_t most = <int64_t>0x7FFFFFFFFFFFFFFF // column.per_second - 1
        if not -most <= seconds <= most:
            raise self.wrong(column, value)
        if column.per_second >= 1000000:
            return seconds * column.per_second + micros * (column.per_second // 1000000)
        if micros % (1000000 // column.per_second):
            raise self.wrong(column, value)             # nothing is cut off in silence
        return seconds * column.per_second + micros // (1000000 // column.per_second)

    cdef int put_text(self, Column *column, object given) except -1:
        cdef object value = given
        cdef Py_ssize_t size = 0
        cdef const char *at
        cdef Py_buffer view
        if column.logic == L_STRING:
            if not PyUnicode_CheckExact(value):
                value = text_of(value)
                if value is None:
                    raise self.wrong(column, given)
            try:
                at = PyUnicode_AsUTF8AndSize(value, &size)
            except UnicodeEncodeError:
                raise self.wrong(column, value) from None
            memcpy(data_room(column, size), at, size)
        else:
            if not isinstance(value, (bytes, bytearray, memoryview)):
                raise self.wrong(column, value)
            PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
            try:
                memcpy(data_room(column, view.len), view.buf, view.len)
            finally:
                PyBuffer_Release(&view)
        begin_row(column, True)
        return end_row(column, column.used)

    # ---------------------------------------------------------------- lists, maps and structs

    cdef int put_list(self, Column *column, object value) except -1:
        if not isinstance(value, (list, tuple)):
            if isinstance(value, (str, bytes, bytearray, Mapping)) or not hasattr(value, "__iter__"):
                raise self.wrong(column, value)
            value = list(value)
        for item in value:
            self.put(column.children[0], item)
        begin_row(column, True)
        return end_row(column, column.children[0].rows)

    cdef int put_map(self, Column *column, object value) except -1:
        if isinstance(value, Mapping):
            value = value.items()
        elif not isinstance(value, (list, tuple)):
            raise self.wrong(column, value)
        for pair in value:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise self.wrong(column, pair)
            self.put(column.children[0], pair[0])
            self.put(column.children[1], pair[1])
        begin_row(column, True)
        return end_row(column, column.children[0].rows)

    cdef int put_struct(self, Column *column, object value) except -1:
        cdef int i
        cdef Py_ssize_t found = 0
        cdef Column *child
        cdef PyObject *item
        cdef dict given
        value = self.fields_of(column, value)
        begin_row(column, True)
        if not PyDict_CheckExact(value):
            for i in range(column.n_children):
                child = column.children[i]
                self.put(child, getattr(value, self.attributes[child.path], None))
            return 0
        given = <dict>value
        for i in range(column.n_children):
            child = column.children[i]
            item = PyDict_GetItemWithError(given, self.names[child.path])
            if item != NULL:
                found += 1
                self.put(child, <object>item)
            else:
                self.put(child, None)
        if found < len(given):
            self.put_unknown(column, given)
        return 0

    cdef int put_unknown(self, Column *column, dict given) except -1:
        """Refuses the fields that the schema does not have: they would be lost."""
        known = [self.names[column.children[i].path] for i in range(column.n_children)]
        others = [key for key in given if key not in known]
        if not others:                                  # the mapping changed meanwhile
            return 0
        where = self.paths[column.path]
        raise ObjectFault(f"{where or 'the value'} has {', '.join(map(repr, others[:3]))}, which the schema does not "
                          f"have; its fields are {', '.join(known)}")

    cdef object fields_of(self, Column *column, object value):
        """The dict, or the object whose attributes are the fields."""
        if PyDict_CheckExact(value) or type(value) in self.plain_types:
            return value
        if isinstance(value, Mapping):
            return dict(value)
        names = [self.attributes[column.children[i].path] for i in range(column.n_children)]
        known = hasattr(type(value), "__dataclass_fields__") or hasattr(type(value), "__struct_fields__")
        known = known or hasattr(type(value), "model_fields") or hasattr(type(value), "_fields")
        if isinstance(value, type) or not known and (
            type(value).__module__ == "builtins" or not any(hasattr(value, name) for name in names)
        ):
            raise self.wrong(column, value)
        if known:
            self.plain_types.add(type(value))
        return value

    cdef object wrong(self, Column *column, object value):
        text = repr(value)
        if len(text) > DEPTH_TEXT:
            text = f"{text[:DEPTH_TEXT]}…"
        where = self.paths[column.path] or "the value"
        return ObjectFault(f"{where} is {text} ({type(value).__name__}), it must be {self.words[column.path]}")


cdef object text_of(object value):
    """The text of a member of an Enum, of a UUID, or of a subclass of str; otherwise None."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, UUID):
        return str(value)
    return str.__str__(value) if isinstance(value, str) else None


def scaled(value, int scale, int precision):
    """The 16 bytes of a decimal, or None for what has other digits."""
    if isinstance(value, bool) or not isinstance(value, (Decimal, int)):
        return None
    try:
        moved = Decimal(value).scaleb(scale, EXACT)
        whole = moved.to_integral_value(ROUND_HALF_UP, EXACT)
    except (InvalidOperation, ValueError, OverflowError):
        return None
    if whole != moved or abs(whole) >= 10**precision:
        return None
    return int(whole).to_bytes(16, "little", signed=True)
