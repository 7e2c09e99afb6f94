"""Schema-driven codec for control-plane messages and the records of internal topics.

Encoding and decoding walk a Plan (layout.pyx) and the memory of the objects. Numbers from the wire are
checked before anything is allocated for them. Whatever is wrong is a ProtocolError that names the message,
the path of the field and the byte.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport (
    INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, UINT32_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t,
    uint16_t, uint32_t, uint64_t,
)
from libc.string cimport memcpy, memmove

from bowstring._native.layout cimport (
    KIND_ARRAY, KIND_BOOL, KIND_BYTES, KIND_INT8, KIND_INT16, KIND_INT32, KIND_INT64, KIND_RECORDS,
    KIND_STRING, KIND_STRUCT, KIND_UINT16, KIND_UINT32, KIND_UUID, Op, Plan, StructBase, Trail,
    describe, fail, is_default, least_bytes, message_plan, new_default, place, store,
)
from bowstring._native.layout import ProtocolError
from bowstring._native.wire cimport (
    Reader, Writer, grow, left, put_count, put_i8, put_i16, put_i32, put_i64, put_raw, put_uvarint, read_i8,
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
    MAX_STRING = 0x7FFF     # bytes; Kafka's own limit, also where the length is a varint

cdef tuple EMPTY = ()


# ---------------------------------------------------------------- encoding

def encode(StructBase message not None, int version, StructBase header=None, int header_version=0):
    """The bytes of `message` in `version`, after those of `header` if one is given.

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
    return write_struct(plan, message, w, &trail)


cdef int write_struct(Plan plan, object value, Writer *w, Trail *trail) except -1:
    cdef int i
    cdef const Op *op
    cdef PyObject *item
    if type(value) is not plan.cls:
        fail(trail, f"must be a {plan.layout.name}, is {describe(value)}")
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
    for i in range(plan.refused_count):
        item = place(value, plan.refused[i])[0]
        if item == NULL or not is_default(plan.refused[i], <object>item):
            trail.ops[trail.depth] = NULL
            name = <str><object>plan.refused[i].name
            fail(trail, f"this version of {plan.layout.name} has no {name}, leave it at its default")
    if plan.flexible:
        write_tags(plan, <StructBase>value, w, trail)
    trail.depth -= 1
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
            fail(trail, f"must be a bool, is {describe(value)}")
        put_i8(w, value is True)
    elif kind == KIND_UUID:
        if type(value) is not bytes or PyBytes_GET_SIZE(value) != 16:
            fail(trail, f"must be 16 bytes, is {describe(value)}")
        put_raw(w, PyBytes_AS_STRING(value), 16)
    elif kind == KIND_BYTES or kind == KIND_RECORDS:
        write_bytes(op, value, w, trail)
    elif kind == KIND_UINT16:
        put_i16(w, <int16_t>whole(value, 0, 0xFFFF, trail))
    elif kind == KIND_UINT32:
        put_i32(w, <int32_t>whole(value, 0, UINT32_MAX, trail))
    else:
        if not isinstance(value, (float, int)):
            fail(trail, f"must be a float, is {describe(value)}")
        number = value
        memcpy(&bits, &number, 8)
        put_i64(w, <int64_t>bits)
    return 0


cdef int write_null(const Op *op, int kind, Writer *w, Trail *trail) except -1:
    if not op.nullable or kind != op.kind:
        fail(trail, "is None, and this version has no null there")
    if kind == KIND_STRUCT:
        put_i8(w, -1)
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
        fail(trail, f"must be an int, is {describe(value)}")
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or number < lowest or number > highest:
        fail(trail, f"must be between {lowest} and {highest}, is {value}")
    return number


cdef int write_text(const Op *op, object value, Writer *w, Trail *trail) except -1:
    cdef Py_ssize_t size = 0
    cdef const char *data = NULL
    if not isinstance(value, str):
        fail(trail, f"must be a str, is {describe(value)}")
    try:
        data = PyUnicode_AsUTF8AndSize(value, &size)
    except UnicodeEncodeError as error:
        fail(trail, f"is no Unicode text: {error.reason}")
    if size > MAX_STRING:
        fail(trail, f"takes {size} bytes of UTF-8, {MAX_STRING} are allowed")
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
        fail(trail, f"must be bytes or a contiguous buffer, is {describe(value)}")
    try:
        if view.len >= INT32_MAX:
            fail(trail, f"takes {view.len} bytes, {INT32_MAX - 1} are allowed")
        put_count(w, op.compact, <int32_t>view.len)
        put_raw(w, view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return 0


cdef int write_array(const Op *op, object value, Writer *w, Trail *trail) except -1:
    cdef Py_ssize_t i, count
    if not isinstance(value, (list, tuple)):
        fail(trail, f"must be a list or tuple, is {describe(value)}")
    items = PySequence_Fast(value, "")
    count = PySequence_Fast_GET_SIZE(items)
    if count >= INT32_MAX:
        fail(trail, f"has {count} elements, {INT32_MAX - 1} are allowed")
    put_count(w, op.compact, <int32_t>count)
    for i in range(count):
        trail.index[trail.depth] = i
        if i >= PySequence_Fast_GET_SIZE(items):
            fail(trail, "shrank while it was written")
        write_value(op, op.element, <object>PySequence_Fast_ITEMS(items)[i], w, trail)
    return 0


cdef int write_tags(Plan plan, StructBase value, Writer *w, Trail *trail) except -1:
    """The tagged-fields section (KIP-482): fields that differ from their default, by rising tag."""
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
            fail(trail, f"unknown_tags has {tag}, which is no tag or a known one")
        data = <bytes?>unknown[tag]
        put_uvarint(w, tag)
        put_uvarint(w, <uint32_t>PyBytes_GET_SIZE(data))
        put_raw(w, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    return 0


cdef int write_tagged(const Op *op, object owner, Writer *w, Trail *trail) except -1:
    """Tag, size, value. The value is written behind one byte for its size and moved if that is too few."""
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


# ---------------------------------------------------------------- decoding

def decode(cls, int version, data, Py_ssize_t start=0):
    """The message of class `cls` that `data` holds from `start` to its end, in `version`.

    Text that is not UTF-8 is read with U+FFFD in place of what is wrong, as Kafka's Java does.

    Raises:
        ProtocolError: no such version; truncated or trailing bytes; a length, count or varint out of
            bounds; a null where the version has none.
    """
    return read_message(cls, version, data, start, True)[0]


def decode_prefix(cls, int version, data, Py_ssize_t start=0):
    """Like decode, for a message that more may follow: (message, offset of the byte after it)."""
    return read_message(cls, version, data, start, False)


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
            if bits < 0:
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
        fail(trail, f"the message ends here, {r.end - begin - trail.at} bytes are left")
    return value


cdef int64_t read_length(const Op *op, int kind, Reader *r, const uint8_t *begin, Trail *trail) except -2:
    """Length or count in front of the value; -1 is a null the version allows. Not yet checked otherwise."""
    cdef int64_t length
    trail.at = r.at - begin
    if op.compact:
        length = <int64_t>read_uvarint(r) - 1
    elif kind == KIND_STRING:
        length = read_i16(r)
    else:
        length = read_i32(r)
    if r.bad:
        fail(trail, "its length is cut short or a varint of more than 32 bits")
    if length < -1:
        fail(trail, f"has the negative length {length}")
    if length == -1 and not (op.nullable and kind == op.kind):
        fail(trail, "is null, and this version has no null there")
    return length


cdef object read_blob(const Op *op, int kind, Reader *r, const uint8_t *begin, Trail *trail):
    cdef int64_t length = read_length(op, kind, r, begin, trail)
    cdef const char *at
    if length == -1:
        return None
    if length > left(r):
        fail(trail, f"says it has {length} bytes, {left(r)} are left")
    at = <const char *>take(r, length)
    if kind != KIND_STRING:
        return PyBytes_FromStringAndSize(at, length)
    if length > MAX_STRING:
        fail(trail, f"is text of {length} bytes, {MAX_STRING} are allowed")
    return PyUnicode_DecodeUTF8(at, length, "replace")


cdef object read_array(const Op *op, Reader *r, const uint8_t *begin, Trail *trail):
    cdef int64_t i
    cdef int64_t count = read_length(op, KIND_ARRAY, r, begin, trail)
    cdef list items
    if count == -1:
        return None
    if count * max(least_bytes(op.element, op), 1) > left(r):
        fail(trail, f"says it has {count} elements, {left(r)} bytes are left")
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
    while count > 0 and not r.bad:
        count -= 1
        trail.ops[trail.depth] = NULL
        trail.at = r.at - begin
        tag = read_uvarint(r)
        size = read_uvarint(r)
        if r.bad:
            break
        if size > left(r):
            fail(trail, f"tagged field {tag} says it has {size} bytes, {left(r)} are left")
        op = NULL
        for i in range(plan.tagged_count):
            if <uint32_t>plan.tagged[i].tag == tag:
                op = &plan.tagged[i]
                break
        if op == NULL:
            if made.unknown_tags is None:
                made.unknown_tags = {}
            if tag in made.unknown_tags:
                fail(trail, f"tagged field {tag} comes twice")
            made.unknown_tags[tag] = PyBytes_FromStringAndSize(<const char *>take(r, size), size)
            continue
        if seen >> i & 1:
            fail(trail, f"tagged field {tag} comes twice")
        seen |= <uint64_t>1 << i
        trail.ops[trail.depth] = op
        trail.index[trail.depth] = -1
        r.end = r.at + size
        store(made, op.slot, read_value(op, op.kind, r, begin, trail))
        trail.index[trail.depth] = -1
        if r.at != r.end:
            fail(trail, f"tagged field {tag} has {left(r)} bytes too many")
        r.end = end
    if r.bad:
        fail(trail, "the tagged fields are cut short or hold a varint of more than 32 bits")
    return 0
