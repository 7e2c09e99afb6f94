"""Converts numbers in JSON text to doubles and decimals."""
from libc.stdint cimport int64_t, uint8_t
from bowstring._native.values.json_scan cimport Scan

cdef extern from *:
    ctypedef long long int128 "__int128"

cdef bint number_double(const Scan *s, double *value) noexcept nogil
cdef bint text_decimal(const uint8_t *at, int64_t size, int precision, int scale, int128 *value) noexcept nogil
