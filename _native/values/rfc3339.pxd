"""Parses and writes dates and times in RFC 3339 form, without Python objects."""
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef bint parse_date(const uint8_t *at, int64_t size, int32_t *days) noexcept nogil
cdef bint parse_time(const uint8_t **at, const uint8_t *end, int64_t *seconds, int64_t *nanoseconds) noexcept nogil
cdef bint parse_timestamp(const uint8_t *at, int64_t size, int64_t *seconds, int64_t *nanoseconds) noexcept nogil
cdef int write_date(uint8_t *out, int64_t days) noexcept nogil
cdef int write_time(uint8_t *out, int64_t seconds, int64_t nanoseconds) noexcept nogil
