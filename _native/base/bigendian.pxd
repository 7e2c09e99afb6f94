"""Big-endian fields at any alignment, inline."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy
from bowstring._native.base.wire cimport swap16, swap32, swap64


cdef inline int16_t load_be16(const uint8_t *at) noexcept nogil:
    cdef uint16_t v
    memcpy(&v, at, 2)
    return <int16_t>swap16(v)


cdef inline int32_t load_be32(const uint8_t *at) noexcept nogil:
    cdef uint32_t v
    memcpy(&v, at, 4)
    return <int32_t>swap32(v)


cdef inline int64_t load_be64(const uint8_t *at) noexcept nogil:
    cdef uint64_t v
    memcpy(&v, at, 8)
    return <int64_t>swap64(v)


cdef inline void store_be16(uint8_t *at, int16_t value) noexcept nogil:
    cdef uint16_t v = swap16(<uint16_t>value)
    memcpy(at, &v, 2)


cdef inline void store_be32(uint8_t *at, int32_t value) noexcept nogil:
    cdef uint32_t v = swap32(<uint32_t>value)
    memcpy(at, &v, 4)


cdef inline void store_be64(uint8_t *at, int64_t value) noexcept nogil:
    cdef uint64_t v = swap64(<uint64_t>value)
    memcpy(at, &v, 8)
