"""Layouts and plans of declared messages, which message_codec.pyx walks."""
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport int8_t, int32_t, int64_t

cdef enum Kind:
    KIND_BOOL
    KIND_INT8
    KIND_INT16
    KIND_UINT16
    KIND_INT32
    KIND_UINT32
    KIND_INT64
    KIND_FLOAT64
    KIND_UUID
    KIND_STRING
    KIND_BYTES
    KIND_RECORDS
    KIND_STRUCT
    KIND_ARRAY
cdef enum:
    MAX_DEPTH = 12          # of nested structs; Kafka's deepest message has six
    MAX_STRING = 0x7FFF     # bytes; Kafka's own limit, also where the length is a varint
    MAX_TAGGED = 63         # in one struct

cdef struct Slot:
    # Its references are borrowed from the Layout's `fields` and `keep`.
    Py_ssize_t offset       # inside the object
    PyObject *name
    PyObject *default       # shared when `fresh` is 0; for a struct only to compare with
    PyObject *struct        # class of a struct, or NULL
    int8_t fresh            # a default is: 0 the shared value, 1 a new list, 2 a new struct
    bint secret             # the value is not shown

cdef struct Shape:
    # The parts of a Plan for code without the GIL. Lives as long as the Plan.
    Op *ops                     # in order
    Op *tagged                  # by ascending tag
    int count
    int tagged_count
    bint flexible
    bint holds_arrays

cdef struct Op:
    Slot *slot
    PyObject *plan          # Plan of a struct or of an array's elements, else NULL
    const Shape *shape      # that Plan's
    int8_t kind
    int8_t element          # of an array, else -1
    bint compact            # lengths are varints, one higher than the length
    bint nullable
    bint is_explanation     # an error message, which is cut where it is too long
    int32_t tag             # -1: not a tagged field

cdef struct Trail:
    # The progress of encoding or decoding, for errors. ops[depth] is the current field.
    PyObject *plan          # of the outermost struct
    Py_ssize_t at
    int depth
    const Op *ops[MAX_DEPTH]
    int64_t index[MAX_DEPTH]
    PyObject *held          # decoding lazily: the HeldBuffer of large arrays; else NULL


cdef class Layout:
    cdef readonly str name
    cdef readonly tuple fields, versions, flexible
    cdef object cls
    cdef Slot *slots
    cdef int count
    cdef list keep
    cdef dict plans

    cdef int bind(self, object cls) except -1


cdef class StructBase:
    cdef public dict unknown_tags


cdef class Plan:
    # The wire layout of one version of a class.
    cdef object cls
    cdef Layout layout
    cdef int version
    cdef bint flexible
    cdef Op *ops                # in order
    cdef Op *tagged             # by rising tag
    cdef Slot **absent          # slots this version lacks
    cdef Slot **refused         # those of them that must keep their default
    cdef int count, tagged_count, absent_count, refused_count
    cdef int64_t min_bytes      # least bytes of an instance
    cdef Shape shape
    cdef int depth              # of nested structs, itself included
    cdef list keep

    cdef int compile(self) except -1
    cdef int fill(self, Op *op, object field, Slot *slot) except -1


cdef int64_t least_bytes(int kind, const Op *op)
cdef bint is_default(const Slot *slot, object value) except -1
cdef Plan plan_of(object cls, int version, bint flexible)
cdef Plan message_plan(object cls, int version)
cdef int fail(const Trail *trail, str reason) except -1
cdef str describe(const Trail *trail, object value)


cdef inline PyObject **place(object owner, const Slot *slot) noexcept:
    return <PyObject **>(<char *><PyObject *>owner + slot.offset)


cdef inline void store(object owner, const Slot *slot, object value) noexcept:
    cdef PyObject **at = place(owner, slot)
    cdef PyObject *old = at[0]
    Py_INCREF(value)
    at[0] = <PyObject *>value
    Py_XDECREF(old)


cdef inline object new_default(const Slot *slot):
    if slot.fresh == 0:
        return <object>slot.default
    if slot.fresh == 1:
        return []
    return (<object>slot.struct)()
