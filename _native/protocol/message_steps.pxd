"""Encodes a message step by step, see message_steps.pyx."""
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t
from bowstring._native.protocol.message_layout cimport MAX_DEPTH, Op, Trail
from bowstring._native.base.wire cimport Writer

cdef struct Frame:
    # A struct that is being encoded, and its array that is being encoded.
    PyObject *value             # owned
    PyObject *plan
    int next                    # its next field
    PyObject *items             # iterator of the array, owned; NULL: none
    const Op *array
    bint awaited                # the iterator is asynchronous
    int64_t count               # elements so far
    int64_t count_at            # position of the array's length


cdef class Encoding:
    cdef Writer writer
    cdef Frame[MAX_DEPTH] frames
    cdef int depth              # -1: the message is complete
    cdef Trail trail
    cdef int64_t size_max

    cdef int push(self, object plan, object value) except -1
    cdef int field(self, Frame *frame) except -1
    cdef int open_array(self, Frame *frame, const Op *op, object value) except -1
    cdef int close_array(self, Frame *frame) except -1
    cdef int element(self, Frame *frame, object value) except -1
    cdef int close_struct(self, Frame *frame) except -1
    # done() returns the whole message and sets *size; the Encoding keeps the memory. give() passes the memory to the
    # caller, who frees it.
    cdef const uint8_t *done(self, int64_t *size) except NULL
    cdef uint8_t *give(self) except NULL
