"""The interface of what makes a Python object of one value's bytes; `values` has one for each format."""
from libc.stdint cimport int32_t, int64_t, uint8_t


cdef class ObjectDecoder:
    # Returns the object, or an Undecodable. Raises what is no fault of the value, such as a registry that is down.
    cdef object decode(self, const uint8_t *at, int64_t size)
    # The same for a record with headers, in [headers, end); their lengths have been checked.
    cdef object decode_with_headers(self, const uint8_t *at, int64_t size, const uint8_t *headers, const uint8_t *end,
                                    int32_t count)
