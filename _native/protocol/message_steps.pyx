"""Encodes a message step by step, so that a large message does not block its thread for long.

An array of the message may be an iterator: its elements are fetched one by one, encoded, and released. A generator that
needs long for its next element yields PAUSE from time to time. The caller awaits an asynchronous iterator:

    while (state := encoding.step(until_ns)) != DONE:
        if state == GOING_ON: let others run
        else: element = await anext(encoding.source), and encoding.add(element) or encoding.end()

Long lists are written in steps as well.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.iterator cimport PyIter_Check
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport realloc
from libc.string cimport memmove
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.protocol.message_codec cimport Elements, put_message, put_refused, put_struct, put_tags_of, put_value
from bowstring._native.protocol.message_layout cimport KIND_ARRAY, KIND_STRUCT, Plan, StructBase, describe, fail, message_plan, place
from bowstring._native.protocol.message_layout import ProtocolError
from bowstring._native.base.wire cimport grow, patch_i32, put_count, put_uvarint, writer_free

cdef extern from "Python.h":
    PyObject *PyIter_Next(PyObject *iterator) except? NULL

cdef enum:
    LONG_LIST = 64              # elements; a shorter list is written in one step
    STEP_MIN_NS = 1000000       # the least time of a step, even if it begins late
    SIZE_MAX = 1 << 28

cdef enum State:
    STEP_DONE = 0
    STEP_GOING_ON = 1
    STEP_WAITING = 2

DONE = STEP_DONE
GOING_ON = STEP_GOING_ON
WAITING = STEP_WAITING
PAUSE = type("Pause", (), {"__repr__": lambda self: "PAUSE"})()
cdef object pause = PAUSE


class TooLargeError(ProtocolError):
    """The message would exceed the allowed bytes."""


cdef class Encoding:
    """Encodes ``message`` in ``version``, after ``header``, in steps.

    Args:
        size_max: most bytes; more raise TooLargeError.
    """

    def __cinit__(self):
        self.depth = -1

    def __init__(self, StructBase message not None, int version, StructBase header=None, int header_version=0, *,
                 int64_t size_max=SIZE_MAX):
        cdef Plan plan = message_plan(type(message), version)
        self.size_max = size_max
        self.trail.plan = <PyObject *>plan
        self.trail.depth = -1
        self.trail.at = 0
        self.trail.held = NULL
        if header is not None:
            put_message(header, header_version, &self.writer)
        if plan.shape.holds_arrays:
            self.push(plan, message)
        else:
            put_struct(plan, message, &self.writer, &self.trail)

    def __dealloc__(self):
        while self.depth >= 0:
            Py_XDECREF(self.frames[self.depth].items)
            Py_XDECREF(self.frames[self.depth].value)
            self.depth -= 1
        writer_free(&self.writer)

    @property
    def size_bytes(self):
        """Bytes written so far."""
        return self.writer.size

    @property
    def source(self):
        """The asynchronous iterator whose next element is awaited."""
        return <object>self.frames[self.depth].items

    def step(self, int64_t until_ns):
        """Encodes until CLOCK_MONOTONIC reaches ``until_ns``, for at least a millisecond. Returns DONE, GOING_ON or WAITING.

        Raises:
            ProtocolError: As for encode().
            TooLargeError: The message exceeds ``size_max`` bytes.
            Exception: Whatever an iterator raises.
        """
        cdef Frame *frame
        cdef PyObject *item
        cdef int64_t least_ns = monotonic_ns() + STEP_MIN_NS
        if until_ns < least_ns:
            until_ns = least_ns
        while self.depth >= 0:
            if self.writer.size > self.size_max:
                raise TooLargeError((<Plan>self.trail.plan).layout.name, (<Plan>self.trail.plan).version, "",
                                    self.writer.size, f"at most {self.size_max} bytes are allowed")
            frame = &self.frames[self.depth]
            if frame.items == NULL:
                if frame.next < (<Plan>frame.plan).count:
                    self.field(frame)
                else:
                    self.close_struct(frame)
                continue
            if frame.awaited:
                return STEP_WAITING
            item = PyIter_Next(frame.items)
            if item == NULL:
                self.close_array(frame)
                continue
            value = <object>item
            Py_DECREF(value)
            if value is not pause:
                self.element(frame, value)
            value = None                                 # releases the element that was written
            if monotonic_ns() >= until_ns:
                return STEP_GOING_ON
        if self.writer.failed:
            raise MemoryError
        return STEP_DONE

    def add(self, element):
        """Encodes the awaited element."""
        if element is not pause:
            self.element(&self.frames[self.depth], element)

    def end(self):
        """Ends the array of the asynchronous iterator."""
        self.close_array(&self.frames[self.depth])

    def take(self):
        """Returns the bytes of the whole message."""
        return PyBytes_FromStringAndSize(<char *>self.writer.data, self.writer.size)

    cdef const uint8_t *done(self, int64_t *size) except NULL:
        if self.depth >= 0 or self.writer.data == NULL:
            raise ValueError("the message is not encoded completely, or its bytes were already released")
        size[0] = self.writer.size
        return self.writer.data

    cdef uint8_t *give(self) except NULL:
        cdef int64_t size
        cdef uint8_t *data = <uint8_t *>self.done(&size)
        cdef uint8_t *exact = <uint8_t *>realloc(data, size)     # without the room to grow
        self.writer.data = NULL
        self.writer.size = self.writer.capacity = 0
        return exact if exact != NULL else data

    # ------------------------------------------------------------ structs

    cdef int push(self, object plan, object value) except -1:
        cdef Frame *frame
        if type(value) is not (<Plan>plan).cls:
            fail(&self.trail, f"must be a {(<Plan>plan).layout.name}, is {describe(&self.trail, value)}")
        self.depth += 1
        frame = &self.frames[self.depth]
        Py_INCREF(value)
        frame.value = <PyObject *>value
        frame.plan = <PyObject *>plan
        frame.next = 0
        frame.items = NULL
        self.trail.depth = self.depth
        self.trail.index[self.depth] = -1
        return 0

    cdef int field(self, Frame *frame) except -1:
        cdef const Op *op = &(<Plan>frame.plan).ops[frame.next]
        cdef PyObject *item = place(<object>frame.value, op.slot)[0]
        frame.next += 1
        self.trail.ops[self.depth] = op
        self.trail.at = self.writer.size
        if item == NULL:
            fail(&self.trail, "was deleted from the object")
        value = <object>item
        if op.kind == KIND_ARRAY and value is not None and (
                type(value) is not list or len(<list>value) > LONG_LIST or (op.shape != NULL and op.shape.holds_arrays)):
            return self.open_array(frame, op, value)
        put_value(op, op.kind, value, &self.writer, &self.trail)
        self.trail.index[self.depth] = -1
        return 0

    cdef int close_struct(self, Frame *frame) except -1:
        cdef Plan plan = <Plan>frame.plan
        if plan.refused_count > 0:
            put_refused(plan, <object>frame.value, &self.trail)
        if plan.flexible:
            put_tags_of(plan, <StructBase>frame.value, &self.writer, &self.trail)
        Py_XDECREF(frame.value)
        frame.value = NULL
        self.depth -= 1
        self.trail.depth = self.depth
        return 0

    # ------------------------------------------------------------ arrays

    cdef int open_array(self, Frame *frame, const Op *op, object value) except -1:
        cdef bint awaited = False
        if isinstance(value, (list, tuple, Elements)):
            items = iter(value)
        elif PyIter_Check(value):
            items = value
        elif hasattr(value, "__anext__"):
            items = value
            awaited = True
        else:
            fail(&self.trail, f"must be a list, a tuple or an iterator, is {describe(&self.trail, value)}")
        frame.count = 0
        frame.count_at = self.writer.size
        frame.array = op
        frame.awaited = awaited
        put_count(&self.writer, op.compact, 0)           # one byte where it is a varint
        Py_INCREF(items)
        frame.items = <PyObject *>items
        return 0

    cdef int element(self, Frame *frame, object value) except -1:
        cdef const Op *op = frame.array
        self.trail.ops[self.depth] = op
        self.trail.index[self.depth] = frame.count
        self.trail.at = self.writer.size
        frame.count += 1
        if op.element == KIND_STRUCT and op.shape.holds_arrays:
            return self.push(<object>op.plan, value)
        return put_value(op, op.element, value, &self.writer, &self.trail)

    cdef int close_array(self, Frame *frame) except -1:
        """Writes the length before the elements; moves them if a varint takes more than one byte."""
        cdef int64_t start = frame.count_at + 1, size
        cdef uint32_t rest = <uint32_t>(frame.count + 1) >> 7
        cdef int extra = 0
        if frame.count >= INT32_MAX:
            fail(&self.trail, f"has {frame.count} elements, at most {INT32_MAX - 1} are allowed")
        Py_XDECREF(frame.items)
        frame.items = NULL
        self.trail.index[self.depth] = -1
        if not frame.array.compact:
            if not self.writer.failed:
                patch_i32(self.writer.data + frame.count_at, <int32_t>frame.count)
            return 0
        while rest:
            extra += 1
            rest >>= 7
        size = self.writer.size - start
        if extra and grow(&self.writer, extra) != NULL:
            memmove(self.writer.data + start + extra, self.writer.data + start, size)
        if not self.writer.failed:
            self.writer.size = frame.count_at
            put_uvarint(&self.writer, <uint32_t>(frame.count + 1))
            self.writer.size = start + extra + size
        return 0
