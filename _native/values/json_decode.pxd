"""The plan of JSON values, which json_objects.pyx walks as well."""
from libc.stdint cimport int64_t, uint64_t
from bowstring._native.values.column cimport Column
from bowstring._native.values.decoder cimport Decoder
from bowstring._native.values.json_scan cimport Scan
from bowstring._native.values.plan cimport Text

ctypedef struct Node:
    int kind
    int path                # place in Decoder.paths
    Column *column
    Text name
    uint64_t most           # of integers: the largest one, and the magnitude of the smallest
    uint64_t least
    int precision           # of decimals
    int scale
    int64_t per_second      # of times: units
    bint required
    bint has_required       # whether a field of this struct is required
    int n_fields
    Node **fields

ctypedef struct Parsing:
    Scan scan
    int where               # path of the wrong field; -1: the value

# Reads any value into a row of the node's column. False: it is bad, or memory ran out.
cdef bint read_value(Parsing *p, const Node *node, int64_t row, int depth) noexcept nogil

# Takes "NaN", "Infinity" or "-Infinity", found as a string.
cdef bint non_finite(Scan *s, double *value) noexcept nogil


cdef class JsonDecoder(Decoder):
    cdef Node *root
    cdef Parsing parsing
    cdef Node *make(self, tuple plan, Column *column) except NULL
