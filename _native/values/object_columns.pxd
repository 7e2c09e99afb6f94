"""Columns of one row, filled from Python objects."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from bowstring._native.values.encoder cimport Encoder, Source
from bowstring._native.values.plan cimport Plan

ctypedef struct Column:
    Source *source
    int logic                   # in the order of values.object_columns
    int width
    int scale
    int precision
    int64_t per_second
    bint utc
    bint required
    int path
    uint8_t *bits               # one bit a row: it is not null
    int64_t bits_capacity
    int32_t *offsets
    int64_t offsets_capacity
    uint8_t *data
    int64_t used
    int64_t data_capacity
    int64_t rows
    int n_children
    Column **children


cdef class ObjectEncoder(Plan):
    cdef Encoder encoder
    cdef tuple description
    cdef Column *root
    cdef list columns_at        # addresses of all columns, to be freed
    cdef list names             # of each path: the field's name in mappings, and the attribute of objects
    cdef list attributes
    cdef list words
    cdef set plain_types
    cdef bint busy
    cdef uint8_t *text
    cdef int64_t text_capacity
    cdef Column *make(self, tuple description) except NULL
    cdef int reset(self, Column *column) except -1
    cdef int put(self, Column *column, object value) except -1
    cdef int put_null(self, Column *column) except -1
    cdef int put_leaf(self, Column *column, object value) except -1
    cdef int put_moment(self, Column *column, object value) except -1
    cdef int64_t parts(self, Column *column, object value, int64_t seconds, int64_t micros) except? -1
    cdef int put_text(self, Column *column, object value) except -1
    cdef int put_list(self, Column *column, object value) except -1
    cdef int put_map(self, Column *column, object value) except -1
    cdef int put_struct(self, Column *column, object value) except -1
    cdef int put_unknown(self, Column *column, dict given) except -1
    cdef object fields_of(self, Column *column, object value)
    cdef object wrong(self, Column *column, object value)
    cdef bytes written(self)
