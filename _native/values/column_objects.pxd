"""Makes Python objects of rows of columns, so that records have the values that Arrow has."""
from libc.stdint cimport int64_t, uint8_t
from bowstring._native.base.object_decoder cimport ObjectDecoder
from bowstring._native.values.column cimport Column
from bowstring._native.values.decoder cimport Decoder
from bowstring._native.values.plan cimport Plan

# How to make the objects of one column. Objects are borrowed: `ColumnObjects.kept` has them.
ctypedef struct Shape:
    int kind
    int scale               # of decimals
    Column *column
    void *name              # of a struct's field
    void *convert           # called with the object; NULL: it is final
    int n_parts
    Shape **parts

cdef object object_of(const Shape *shape, int64_t row)


cdef class ColumnObjects(ObjectDecoder):
    cdef Decoder decoder
    cdef Plan memory
    cdef list kept
    cdef Shape *shape
    cdef object learn
    cdef set known
    cdef int64_t last_id
    cdef Shape *make(self, tuple plan, Column *column) except NULL
    cdef object by_columns(self, const uint8_t *at, int64_t size)
