"""Checks compressed framing without decompressing: the data must be one complete frame, or a chain of frames."""
from libc.stdint cimport int64_t, uint8_t

# Returns whether [data, data + n) has the structure of the codec's output from the first byte to the last. Steps from
# block to block by their headers.
cdef bint framing_ok(int codec, const uint8_t *data, int64_t n) noexcept nogil
