"""Writes JSON strings, base64 (RFC 4648) and times, and reads base64."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from bowstring._native.base.wire cimport Writer

# A string in quotes, escaped; `at` has UTF-8.
cdef void put_json_string(Writer *w, const uint8_t *at, int64_t size) noexcept nogil
cdef void put_base64(Writer *w, const uint8_t *at, int64_t size) noexcept nogil
# Appends the bytes that base64 text stands for; False: it is none.
cdef bint take_base64(Writer *w, const uint8_t *at, int64_t size) noexcept nogil
cdef void put_decimal(Writer *w, int64_t value) noexcept nogil
# Milliseconds since 1970 as RFC 3339 in UTC, in quotes; a number for years that do not have four digits.
cdef void put_instant(Writer *w, int64_t milliseconds) noexcept nogil
