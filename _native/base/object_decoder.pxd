"""The interface of what makes a Python object of one value's bytes; `values` has one for each format."""
from libc.stdint cimport int64_t, uint8_t


cdef class ObjectDecoder:
    # Returns the object, or an Undecodable. Raises what is no fault of the value, such as a registry that is down.
    cdef object decode(self, const uint8_t *at, int64_t size)
