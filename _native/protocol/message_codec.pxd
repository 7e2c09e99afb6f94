"""The parts of the codec that message_steps.pyx uses."""
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t
from bowstring._native.protocol.message_layout cimport Op, Plan, StructBase, Trail
from bowstring._native.base.wire cimport Writer


cdef class HeldBuffer:
    # Keeps the bytes of lazy arrays alive.
    cdef Py_buffer view
    cdef bint held


cdef class Elements:
    # An array of a large message, see message_codec.pyx.
    cdef HeldBuffer source
    cdef object plan            # keeps `op`
    cdef const Op *op
    cdef const uint8_t *at      # behind the length
    cdef const uint8_t *end
    cdef readonly Py_ssize_t count


cdef class ElementIterator:
    cdef Elements elements
    cdef const uint8_t *at
    cdef Py_ssize_t index
    cdef Trail trail


# The parts of encode(). These are thin wrappers, so that the compiler can inline the parts in encode() itself.
cdef int put_message(StructBase message, int version, Writer *w) except -1
cdef int put_struct(Plan plan, object value, Writer *w, Trail *trail) except -1
cdef int put_value(const Op *op, int kind, object value, Writer *w, Trail *trail) except -1
cdef int put_refused(Plan plan, object value, Trail *trail) except -1
cdef int put_tags_of(Plan plan, StructBase value, Writer *w, Trail *trail) except -1
