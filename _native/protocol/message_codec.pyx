"""Encodes and decodes control-plane messages and the records of internal topics by their schemas.

Encoding and decoding walk a Plan (message_layout.pyx) and the memory of the objects. Numbers from the wire are checked
before memory is allocated for them. Every error is a ProtocolError that names the message, the path of the field and
the byte.

Large requests are decoded lazily: large arrays stay in the received bytes, and iteration creates one element at a time
(Elements). So a request needs little more memory than its bytes, and no step takes long.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.iterator cimport PyIter_Check
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport (
    INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, UINT32_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t,
    uint16_t, uint32_t, uint64_t,
)
from libc.string cimport memcpy, memmove

from bowstring._native.protocol.message_layout cimport (
    KIND_ARRAY, KIND_BOOL, KIND_BYTES, KIND_FLOAT64, KIND_INT8, KIND_INT16, KIND_INT32, KIND_INT64, KIND_RECORDS,
    KIND_STRING, KIND_STRUCT, KIND_UINT16, KIND_UINT32, KIND_UUID, MAX_STRING, Op, Plan, Shape, StructBase, Trail,
    describe, fail, is_default, least_bytes, message_plan, new_default, place, store,
)
from bowstring._native.protocol.message_layout import ProtocolError
from bowstring._native.base.wire cimport (
    MAX_ELEMENTS, MAX_TAGS, Reader, Writer, grow, left, put_count, put_i8, put_i16, put_i32, put_i64, put_raw, put_uvarint, read_i8,
    read_i16, read_i32, read_i64, read_uvarint, take, writer_free,
)


cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1
    object PySequence_Fast(object sequence, const char *message)
    Py_ssize_t PySequence_Fast_GET_SIZE(object sequence)
    PyObject **PySequence_Fast_ITEMS(object sequence)


cdef extern from *:
    """
    #define new_object(cls, args) ((PyTypeObject *)(cls))->tp_new((PyTypeObject *)(cls), args, NULL)
    """
    object new_object(object cls, tuple args)


cdef enum:
    REPLACED_BYTES = 3      # of UTF-8 for what stands for a byte that is not
    LAZY_BYTES = 4096       # larger arrays of a lazy message stay in the received bytes

cdef tuple EMPTY = ()


# ---------------------------------------------------------------- encoding

def encode(StructBase message not None, int version, StructBase header=None, int header_version=0):
    """Returns the bytes of `message` in `version`, after those of `header` if one is given.

    Raises:
        ProtocolError: no such version; a value of the wrong type or size; None where the version has no
            null; a value other than its default in a field the version lacks and Kafka does not ignore.
    """
    cdef Writer writer = Writer(NULL, 0, 0, False)
    try:
        if header is not None:
            write_message(header, header_version, &writer)
        write_message(message, version, &writer)
        if writer.failed:
            raise MemoryError
        return PyBytes_FromStringAndSize(<char *>writer.data, writer.size)
    finally:
        writer_free(&writer)


cdef int write_message(StructBase message, int version, Writer *w) except -1:
    cdef Plan plan = message_plan(type(message), version)
    cdef Trail trail
    trail.plan = <PyObject *>plan
    trail.depth = -1
    trail.at = 0
    trail.held = NULL
    return write_struct(plan, message, w, &trail)


cdef int write_struct(Plan plan, object value, Writer *w, Trail *trail) except -1:
    cdef int i
    cdef const Op *op
    cdef PyObject *item
    if type(value) is not plan.cls:
        fail(trail, f"must be a {plan.layout.name}, is {describe(trail, value)}")
    trail.depth += 1
    trail.index[trail.depth] = -1
    for i in range(plan.count):
        op = &plan.ops[i]
        trail.ops[trail.depth] = op
        trail.at = w.size
        item = place(value, op.slot)[0]
        if item == NULL:
            fail(trail, "was deleted from the object")
        write_value(op, op.kind, <object>item, w, trail)
        trail.index[trail.depth] = -1
    if plan.refused_count > 0:
        write_refused(plan, value, trail)
    if plan.flexible:
        write_tags(plan, <StructBase>value, w, trail)
    trail.depth -= 1
    return 0


cdef int write_refused(Plan plan, object value, Trail *trail) except -1:
    """Raises for a field that this version lacks and that must not be dropped."""
    cdef int i
    cdef PyObject *item
    for i in range(plan.refused_count):
        item = place(value, plan.refused[i])[0]
        if item == NULL or not is_default(plan.refused[i], <object>item):
            trail.ops[trail.depth] = NULL
            name = <str><object>plan.refused[i].name
            fail(trail, f"this version of {plan.layout.name} has no {name}, leave it at its default")
    return 0


cdef int write_value(const Op *op, int kind, object value, Writer *w, Trail *trail) except -1:
    cdef double number
    cdef uint64_t bits
    if value is None:
        write_null(op, kind, w, trail)
    elif kind == KIND_INT32:
        put_i32(w, <int32_t>whole(value, INT32_MIN, INT32_MAX, trail))
    elif kind == KIND_STRING:
        write_text(op, value, w, trail)
    elif kind == KIND_ARRAY:
        write_array(op, value, w, trail)
    elif kind == KIND_STRUCT:
        if op.nullable and op.kind == KIND_STRUCT:
            put_i8(w, 1)
        write_struct(<Plan>op.plan, value, w, trail)
    elif kind == KIND_INT16:
        put_i16(w, <int16_t>whole(value, -0x8000, 0x7FFF, trail))
    elif kind == KIND_INT64:
        put_i64(w, whole(value, INT64_MIN, INT64_MAX, trail))
    elif kind == KIND_INT8:
        put_i8(w, <int8_t>whole(value, -0x80, 0x7F, trail))
    elif kind == KIND_BOOL:
        if value is not True and value is not False:
            fail(trail, f"must be a bool, is {describe(trail, value)}")
        put_i8(w, value is True)
    elif kind == KIND_UUID:
        if type(value) is not bytes or PyBytes_GET_SIZE(value) != 16:
            fail(trail, f"must be 16 bytes, is {describe(trail, value)}")
        put_raw(w, PyBytes_AS_STRING(value), 16)
    elif kind == KIND_BYTES or kind == KIND_RECORDS:
        write_bytes(op, value, w, trail)
    elif kind == KIND_UINT16:
        put_i16(w, <int16_t>whole(value, 0, 0xFFFF, trail))
    elif kind == KIND_UINT32:
        put_i32(w, <int32_t>whole(value, 0, UINT32_MAX, trail))
    else:
        if not isinstance(value, (float, int)):
            fail(trail, f"must be a float, is {describe(trail, value)}")
        number = value
        memcpy(&bits, &number, 8)
        put_i64(w, <int64_t>bits)
    return 0


cdef int write_null(const Op *op, int kind, Writer *w, Trail *trail) except -1:
    if not op.nullable or kind != op.kind:
        fail(trail, "is None, but this version does not allow null")
    if kind == KIND_STRUCT:
        put_i8(w, -1 if op.tag < 0 else 0)  # Kafka marks a missing struct in a tagged field differently
    elif op.compact:
        put_uvarint(w, 0)
    elif kind == KIND_STRING:
        put_i16(w, -1)
    else:
        put_i32(w, -1)
    return 0


cdef int64_t whole(object value, int64_t lowest, int64_t highest, Trail *trail) except? -1:
    cdef int overflow = 0
    cdef int64_t number
    if not isinstance(value, int):
        fail(trail, f"must be an int, is {describe(trail, value)}")
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or number < lowest or number > highest:
        fail(trail, f"must be between {lowest} and {highest}, is {value}")
    return number


cdef int write_text(const Op *op, object value, Writer *w, Trail *trail) except -1:
    cdef Py_ssize_t size = 0
    cdef const char *data = NULL
    if not isinstance(value, str):
        fail(trail, f"must be a str, is {describe(trail, value)}")
    try:
        data = PyUnicode_AsUTF8AndSize(value, &size)
    except UnicodeEncodeError as error:
        fail(trail, f"is not valid Unicode: {error.reason}")
    if size > MAX_STRING and op.is_explanation:
        size = MAX_STRING
        while data[size] & 0xC0 == 0x80:                 # not inside a character
            size -= 1
    if size > MAX_STRING:
        fail(trail, f"has {size} bytes of UTF-8, at most {MAX_STRING} are allowed")
    if op.compact:
        put_uvarint(w, <uint32_t>(size + 1))
    else:
        put_i16(w, <int16_t>size)
    put_raw(w, data, size)
    return 0


cdef int write_bytes(const Op *op, object value, Writer *w, Trail *trail) except -1:
    cdef Py_buffer view
    try:
        PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
    except (TypeError, BufferError):
        fail(trail, f"must be bytes or a contiguous buffer, is {describe(trail, value)}")
    try:
        if view.len >= INT32_MAX:
            fail(trail, f"has {view.len} bytes, at most {INT32_MAX - 1} are allowed")
        put_count(w, op.compact, <int32_t>view.len)
        put_raw(w, view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return 0


cdef int write_array(const Op *op, object value, Writer *w, Trail *trail) except -1:
    cdef Py_ssize_t i, count
    if not isinstance(value, (list, tuple)):
        if not isinstance(value, Elements) and not PyIter_Check(value):
            fail(trail, f"must be a list or tuple, is {describe(trail, value)}")
        value = list(value)
    items = PySequence_Fast(value, "")
    count = PySequence_Fast_GET_SIZE(items)
    if count >= INT32_MAX:
        fail(trail, f"has {count} elements, at most {INT32_MAX - 1} are allowed")
    put_count(w, op.compact, <int32_t>count)
    for i in range(count):
        trail.index[trail.depth] = i
        if i >= PySequence_Fast_GET_SIZE(items):
            fail(trail, "was shortened by another thread while it was encoded")
        write_value(op, op.element, <object>PySequence_Fast_ITEMS(items)[i], w, trail)
    return 0


cdef int write_tags(Plan plan, StructBase value, Writer *w, Trail *trail) except -1:
    """Writes the tagged fields (KIP-482): those that differ from their default, by ascending tag."""
    cdef uint64_t present = 0
    cdef int i, count = 0
    cdef PyObject *item
    cdef dict unknown = value.unknown_tags
    for i in range(plan.tagged_count):
        item = place(value, plan.tagged[i].slot)[0]
        if item != NULL and not is_default(plan.tagged[i].slot, <object>item):
            present |= <uint64_t>1 << i
            count += 1
    if not unknown:
        put_uvarint(w, count)
        for i in range(plan.tagged_count):
            if present >> i & 1:
                write_tagged(&plan.tagged[i], value, w, trail)
        return 0
    put_uvarint(w, count + len(unknown))
    known = {plan.tagged[i].tag: i for i in range(plan.tagged_count)}
    for tag in sorted({*known, *unknown}):
        if tag not in unknown:
            i = known[tag]
            if present >> i & 1:
                write_tagged(&plan.tagged[i], value, w, trail)
            continue
        trail.ops[trail.depth] = NULL
        if tag in known or not 0 <= tag <= UINT32_MAX:
            fail(trail, f"unknown_tags has {tag}, which is not a valid tag or is the tag of a known field")
        data = <bytes?>unknown[tag]
        put_uvarint(w, tag)
        put_uvarint(w, <uint32_t>PyBytes_GET_SIZE(data))
        put_raw(w, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    return 0


cdef int write_tagged(const Op *op, object owner, Writer *w, Trail *trail) except -1:
    """Writes tag, size and value. Leaves one byte for the size, and moves the value if the size needs more."""
    cdef int64_t start, size
    cdef uint32_t rest
    cdef int extra = 0
    trail.ops[trail.depth] = op
    trail.index[trail.depth] = -1
    trail.at = w.size
    put_uvarint(w, <uint32_t>op.tag)
    put_i8(w, 0)
    start = w.size
    write_value(op, op.kind, <object>place(owner, op.slot)[0], w, trail)
    trail.index[trail.depth] = -1
    size = w.size - start
    rest = <uint32_t>size >> 7
    while rest:
        extra += 1
        rest >>= 7
    if extra and grow(w, extra) != NULL:
        memmove(w.data + start + extra, w.data + start, size)
    if not w.failed:
        w.size = start - 1
        put_uvarint(w, <uint32_t>size)
        w.size = start + extra + size
    return 0


# ---------------------------------------------------------------- for message_steps.pyx

cdef int put_message(StructBase message, int version, Writer *w) except -1:
    return write_message(message, version, w)


cdef int put_struct(Plan plan, object value, Writer *w, Trail *trail) except -1:
    return write_struct(plan, value, w, trail)


cdef int put_value(const Op *op, int kind, object value, Writer *w, Trail *trail) except -1:
    return write_value(op, kind, value, w, trail)


cdef int put_refused(Plan plan, object value, Trail *trail) except -1:
    return write_refused(plan, value, trail)


cdef int put_tags_of(Plan plan, StructBase value, Writer *w, Trail *trail) except -1:
    return write_tags(plan, value, w, trail)


# ---------------------------------------------------------------- scanning: finds the end of a value, makes no objects

cdef int64_t width_of(int kind) noexcept nogil:
    """Bytes of a value of fixed size."""
    if kind == KIND_BOOL or kind == KIND_INT8:
        return 1
    if kind == KIND_INT16 or kind == KIND_UINT16:
        return 2
    if kind == KIND_INT64 or kind == KIND_FLOAT64:
        return 8
    return 16 if kind == KIND_UUID else 4


cdef int64_t length_of(const Op *op, int kind, Reader *r) noexcept nogil:
    """Reads the length or count before a value; -1 is a null that the version allows."""
    cdef int64_t length
    if op.compact:
        length = <int64_t>read_uvarint(r) - 1
    else:
        length = read_i16(r) if kind == KIND_STRING else read_i32(r)
    if length < -1 or (length == -1 and not (op.nullable and kind == op.kind)):
        r.bad = True
    return length


cdef void scan_array(const Op *op, Reader *r) noexcept nogil:
    cdef int64_t count = length_of(op, KIND_ARRAY, r), i
    if r.bad or count > MAX_ELEMENTS:
        r.bad = True
        return
    if op.element == KIND_STRUCT or op.element == KIND_STRING or op.element == KIND_BYTES:
        for i in range(count):
            scan_value(op, op.element, r)
            if r.bad:
                return
    elif count > 0:
        take(r, count * width_of(op.element))


cdef void scan_value(const Op *op, int kind, Reader *r) noexcept nogil:
    """Skips a value of `op` (or with another `kind` an element of it), an array with its length. Sets r.bad when it is
    cut short, or a length, count or varint is out of bounds. Does not check other values."""
    cdef int64_t length
    if kind == KIND_STRING or kind == KIND_BYTES or kind == KIND_RECORDS:
        length = length_of(op, kind, r)
        if kind == KIND_STRING and length > MAX_STRING:
            r.bad = True
        elif length > 0 and not r.bad:
            take(r, length)
    elif kind == KIND_ARRAY:
        scan_array(op, r)
    elif kind != KIND_STRUCT:
        take(r, width_of(kind))
    elif not (op.nullable and op.kind == KIND_STRUCT and read_i8(r) < 0):
        scan_struct(op.shape, r)


cdef void scan_struct(const Shape *shape, Reader *r) noexcept nogil:
    cdef uint32_t tags
    cdef int i
    for i in range(shape.count):
        scan_value(&shape.ops[i], shape.ops[i].kind, r)
        if r.bad:
            return
    if shape.flexible:
        tags = read_uvarint(r)
        if tags > MAX_TAGS:
            r.bad = True
        while tags > 0 and not r.bad:
            read_uvarint(r)
            take(r, read_uvarint(r))
            tags -= 1

# ---------------------------------------------------------------- decoding

def decode(cls, int version, data, Py_ssize_t start=0):
    """Decodes `data` from `start` to its end as a message of class `cls` in `version`.

    In text that is not UTF-8, U+FFFD replaces the wrong bytes, as in Kafka's Java code.

    Raises:
        ProtocolError: no such version; truncated or trailing bytes; a length, count or varint out of
            bounds; a null where the version has none.
    """
    return read_message(cls, version, data, start, True)[0]


def decode_prefix(cls, int version, data, Py_ssize_t start=0):
    """Like decode(), but other bytes may follow. Returns (message, offset of the byte after it)."""
    return read_message(cls, version, data, start, False)


def decode_lazily(cls, int version, data, Py_ssize_t start=0):
    """Like decode_prefix(), without the offset. Arrays of more than LAZY_BYTES are Elements, which keep `data` alive.

    Lengths and counts in these arrays are checked here, without the GIL. Other errors of an element are raised when the
    iteration reaches it.
    """
    cdef Plan plan = message_plan(cls, version)
    cdef HeldBuffer source = HeldBuffer(data)
    cdef const uint8_t *begin = <const uint8_t *>source.view.buf
    cdef Reader reader = Reader(begin + min(start, source.view.len), begin + source.view.len, False)
    cdef Trail trail
    trail.plan = <PyObject *>plan
    trail.depth = -1
    trail.at = 0
    trail.held = <PyObject *>source
    return read_struct(plan, &reader, begin, &trail)


cdef class HeldBuffer:
    """Keeps a buffer until the last array in it is freed."""

    def __cinit__(self, data):
        PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)
        self.held = True

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)


cdef class Elements:
    """A large array in the received bytes. Each iteration creates new elements."""

    def __len__(self):
        return self.count

    def __iter__(self):
        cdef ElementIterator iterator = ElementIterator.__new__(ElementIterator)
        iterator.elements = self
        iterator.at = self.at
        iterator.index = 0
        iterator.trail.plan = <PyObject *>self.plan
        iterator.trail.depth = 0
        iterator.trail.ops[0] = self.op
        iterator.trail.held = <PyObject *>self.source
        return iterator

    def __eq__(self, other):
        return isinstance(other, (list, tuple, Elements)) and list(self) == list(other)

    def __repr__(self):
        return f"Elements({self.count})"


cdef class ElementIterator:
    """Iterates over Elements."""

    def __iter__(self):
        return self

    def __next__(self):
        cdef Elements array = self.elements
        cdef const uint8_t *begin = <const uint8_t *>array.source.view.buf
        cdef Reader reader
        if self.index == array.count:
            raise StopIteration
        reader = Reader(self.at, array.end, False)
        self.trail.depth = 0
        self.trail.index[0] = self.index
        self.trail.at = self.at - begin
        value = read_value(array.op, array.op.element, &reader, begin, &self.trail)
        self.at = reader.at
        self.index += 1
        return value


cdef object leave_array(const Op *op, int64_t count, Reader *r, const uint8_t *begin, Trail *trail):
    """Returns a large array, whose length was read, as Elements; None if the array is small."""
    cdef Elements made
    cdef const uint8_t *at = r.at
    cdef Reader ahead = r[0]
    cdef int64_t i
    if left(r) <= LAZY_BYTES:
        return None
    with nogil:
        for i in range(count):
            scan_value(op, op.element, &ahead)
            if ahead.bad:
                break
    if ahead.bad:
        fail(trail, "an element is truncated or out of bounds")
    if ahead.at - at <= LAZY_BYTES:
        return None
    made = Elements.__new__(Elements)
    made.source = <HeldBuffer>trail.held
    made.plan = <object>(trail.plan if trail.depth == 0 else trail.ops[trail.depth - 1].plan)
    made.op = op
    made.at = at
    made.end = ahead.at
    made.count = count
    r.at = ahead.at
    return made


cdef tuple read_message(object cls, int version, object data, Py_ssize_t start, bint whole):
    cdef Plan plan = message_plan(cls, version)
    cdef Py_buffer view
    cdef Reader reader
    cdef Trail trail
    cdef Py_ssize_t end
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if start < 0 or start > view.len:
            raise ProtocolError(plan.layout.name, version, "", start, f"the buffer has {view.len} bytes")
        reader = Reader(<const uint8_t *>view.buf + start, <const uint8_t *>view.buf + view.len, False)
        trail.plan = <PyObject *>plan
        trail.depth = -1
        trail.at = 0
        trail.held = NULL
        message = read_struct(plan, &reader, <const uint8_t *>view.buf, &trail)
        end = reader.at - <const uint8_t *>view.buf
        if whole and end != view.len:
            raise ProtocolError(plan.layout.name, version, "", end, f"{view.len - end} bytes follow the message")
        return message, end
    finally:
        PyBuffer_Release(&view)


cdef object read_struct(Plan plan, Reader *r, const uint8_t *begin, Trail *trail):
    cdef int i
    cdef const Op *op
    cdef object made = new_object(plan.cls, EMPTY)
    trail.depth += 1
    trail.index[trail.depth] = -1
    for i in range(plan.count):
        op = &plan.ops[i]
        trail.ops[trail.depth] = op
        trail.at = r.at - begin
        store(made, op.slot, read_value(op, op.kind, r, begin, trail))
        trail.index[trail.depth] = -1
    for i in range(plan.absent_count):
        store(made, plan.absent[i], new_default(plan.absent[i]))
    if plan.flexible:
        for i in range(plan.tagged_count):
            store(made, plan.tagged[i].slot, new_default(plan.tagged[i].slot))
        read_tags(plan, <StructBase>made, r, begin, trail)
    trail.depth -= 1
    return made


cdef object read_value(const Op *op, int kind, Reader *r, const uint8_t *begin, Trail *trail):
    cdef object value
    cdef double number
    cdef int64_t bits
    cdef const uint8_t *at
    if kind == KIND_INT32:
        value = read_i32(r)
    elif kind == KIND_STRING or kind == KIND_BYTES or kind == KIND_RECORDS:
        return read_blob(op, kind, r, begin, trail)
    elif kind == KIND_ARRAY:
        return read_array(op, r, begin, trail)
    elif kind == KIND_STRUCT:
        if op.nullable and op.kind == KIND_STRUCT:
            bits = read_i8(r)
            if bits < 0 or (bits == 0 and op.tag >= 0):
                return None
            if r.bad:
                fail(trail, "the message ends here")
        return read_struct(<Plan>op.plan, r, begin, trail)
    elif kind == KIND_INT16:
        value = read_i16(r)
    elif kind == KIND_INT64:
        value = read_i64(r)
    elif kind == KIND_INT8:
        value = read_i8(r)
    elif kind == KIND_BOOL:
        value = read_i8(r) != 0
    elif kind == KIND_UUID:
        at = take(r, 16)
        value = None if at == NULL else PyBytes_FromStringAndSize(<const char *>at, 16)
    elif kind == KIND_UINT16:
        value = <uint16_t>read_i16(r)
    elif kind == KIND_UINT32:
        value = <uint32_t>read_i32(r)
    else:
        bits = read_i64(r)
        memcpy(&number, &bits, 8)
        value = number
    if r.bad:
        fail(trail, f"the message is truncated: only {r.end - begin - trail.at} bytes are left")
    return value


cdef int64_t read_length(const Op *op, int kind, Reader *r, const uint8_t *begin, Trail *trail) except -2:
    """Reads the length or count before a value; -1 is a null that the version allows. Checks nothing else."""
    cdef int64_t length
    trail.at = r.at - begin
    if op.compact:
        length = <int64_t>read_uvarint(r) - 1
    elif kind == KIND_STRING:
        length = read_i16(r)
    else:
        length = read_i32(r)
    if r.bad:
        fail(trail, "the length is truncated or a varint of more than 32 bits")
    if length < -1:
        fail(trail, f"has the negative length {length}")
    if length == -1 and not (op.nullable and kind == op.kind):
        fail(trail, "is null, but this version does not allow null")
    return length


cdef object read_blob(const Op *op, int kind, Reader *r, const uint8_t *begin, Trail *trail):
    cdef int64_t length = read_length(op, kind, r, begin, trail)
    cdef const char *at
    if length == -1:
        return None
    if length > left(r):
        fail(trail, f"has a length of {length} bytes, but only {left(r)} are left")
    at = <const char *>take(r, length)
    if kind != KIND_STRING:
        return PyBytes_FromStringAndSize(at, length)
    if length > MAX_STRING:
        fail(trail, f"is text of {length} bytes, at most {MAX_STRING} are allowed")
    text = PyUnicode_DecodeUTF8(at, length, "replace")
    if length > MAX_STRING // REPLACED_BYTES and len(text.encode()) > MAX_STRING:
        fail(trail, f"is text of {length} bytes that are not UTF-8, too many to be written again")
    return text


cdef object read_array(const Op *op, Reader *r, const uint8_t *begin, Trail *trail):
    cdef int64_t i
    cdef int64_t count = read_length(op, KIND_ARRAY, r, begin, trail)
    cdef list items
    if count == -1:
        return None
    if count * max(least_bytes(op.element, op), 1) > left(r):
        fail(trail, f"has a count of {count} elements, but only {left(r)} bytes are left")
    if count > MAX_ELEMENTS:
        fail(trail, f"has a count of {count} elements, at most {MAX_ELEMENTS} are allowed")
    if trail.held != NULL:
        lazy = leave_array(op, count, r, begin, trail)
        if lazy is not None:
            return lazy
    items = PyList_New(count)
    for i in range(count):
        trail.index[trail.depth] = i
        trail.at = r.at - begin
        value = read_value(op, op.element, r, begin, trail)
        Py_INCREF(value)
        PyList_SET_ITEM(items, i, value)
    return items


cdef int read_tags(Plan plan, StructBase made, Reader *r, const uint8_t *begin, Trail *trail) except -1:
    cdef uint32_t count, tag, size
    cdef uint64_t seen = 0
    cdef const uint8_t *end = r.end
    cdef const Op *op
    cdef int i
    trail.ops[trail.depth] = NULL
    trail.at = r.at - begin
    count = read_uvarint(r)
    if count > MAX_TAGS:
        fail(trail, f"has a count of {count} tagged fields, at most {MAX_TAGS} are allowed")
    while count > 0 and not r.bad:
        count -= 1
        trail.ops[trail.depth] = NULL
        trail.at = r.at - begin
        tag = read_uvarint(r)
        size = read_uvarint(r)
        if r.bad:
            break
        if size > left(r):
            fail(trail, f"tagged field {tag} has a size of {size} bytes, but only {left(r)} are left")
        op = NULL
        for i in range(plan.tagged_count):
            if <uint32_t>plan.tagged[i].tag == tag:
                op = &plan.tagged[i]
                break
        if op == NULL:
            if made.unknown_tags is None:
                made.unknown_tags = {}
            if tag in made.unknown_tags:
                fail(trail, f"tagged field {tag} appears twice")
            made.unknown_tags[tag] = PyBytes_FromStringAndSize(<const char *>take(r, size), size)
            continue
        if seen >> i & 1:
            fail(trail, f"tagged field {tag} appears twice")
        seen |= <uint64_t>1 << i
        trail.ops[trail.depth] = op
        trail.index[trail.depth] = -1
        r.end = r.at + size
        store(made, op.slot, read_value(op, op.kind, r, begin, trail))
        trail.index[trail.depth] = -1
        if r.at != r.end:
            fail(trail, f"tagged field {tag} has {left(r)} extra bytes")
        r.end = end
    if r.bad:
        fail(trail, "the tagged fields are truncated or have a varint of more than 32 bits")
    return 0
