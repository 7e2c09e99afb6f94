"""The interface of what makes a Python object of one value's bytes."""
from libc.stdint cimport int32_t, int64_t, uint8_t


class Undecodable:
    """Takes the place of the object of a value that does not decode.

    Attributes:
        reason: why, with the byte.
    """

    __slots__ = ("reason",)

    def __init__(self, reason):
        self.reason = reason


cdef class ObjectDecoder:
    """Makes a Python object of one value's bytes; each format overrides decode()."""

    cdef object decode(self, const uint8_t *at, int64_t size):
        raise NotImplementedError

    cdef object decode_with_headers(self, const uint8_t *at, int64_t size, const uint8_t *headers, const uint8_t *end,
                                    int32_t count):
        return self.decode(at, size)

    def __call__(self, bytes value not None):
        """Returns the object of one value, or an Undecodable."""
        return self.decode(value, len(value))
