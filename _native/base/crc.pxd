"""CRC-32C for the other extensions: cimport it, so that one choice of kernel serves the process."""
from libc.stdint cimport int64_t, uint8_t, uint32_t

# CRC-32C of `size` bytes that follow bytes whose CRC-32C is `crc` (0 at the beginning).
cdef uint32_t crc32c_update(uint32_t crc, const uint8_t *data, int64_t size) noexcept nogil

# Joins the CRC-32C of two adjacent pieces: crc32c_joined(crc of the first, crc of the second, factor), where
# factor = crc32c_factor(size of the second).
cdef uint32_t crc32c_factor(int64_t size) noexcept nogil
cdef uint32_t crc32c_joined(uint32_t crc, uint32_t following, uint32_t factor) noexcept nogil
