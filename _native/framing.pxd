"""Compressed data taken at its word: is it one whole frame (or chain of frames) of its codec?"""
from libc.stdint cimport int64_t, uint8_t

# True when [data, data + n) has the structure of codec's output from its first byte to its last. Nothing is
# decompressed: blocks are stepped over by their headers.
cdef bint framing_ok(int codec, const uint8_t *data, int64_t n) noexcept nogil
