"""CRC-32C for the other extensions: cimport it, so that one choice of kernel serves the process."""
from libc.stdint cimport int64_t, uint8_t, uint32_t

# CRC-32C of `size` bytes that follow bytes whose CRC-32C is `crc` (0 at the beginning).
cdef uint32_t crc32c_update(uint32_t crc, const uint8_t *data, int64_t size) noexcept nogil
