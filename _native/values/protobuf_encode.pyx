"""Encodes columns in Protobuf's wire format, fields in the order of their declaration."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memmove
from bowstring._native.values.protobuf_kinds cimport (
    P_BOOLEAN, P_BYTES, P_ENUM, P_FIXED, P_STRING, P_TIMESTAMP, P_WRAPPER, P_ZIGZAG, WIRE_BYTES, WIRE_GROUP, WIRE_GROUP_END)
from bowstring._native.values.encoder cimport (
    Encoder, Out, Source, out_bad, out_byte, out_put, out_room, out_uvarint, source_boolean, source_bytes,
    source_fixed, source_integer, source_is_null, source_items)
from bowstring._native.values.plan cimport Text, text_find, text_is
from bowstring._native.base.varint cimport put_uvarint64, uvarint_size, zigzag

cdef enum:
    SIZE_BYTES = 5          # room for the length of a part that is not yet written

ctypedef struct Field:
    int kind
    int wire
    uint32_t number
    bint repeated
    bint is_map
    bint packed
    bint implicit           # zero is not written
    bint signed_parts       # Duration: nanoseconds may be negative
    int path
    Message *message
    int n_names
    Text *names

ctypedef struct Message:
    int n_fields
    Field *fields


cdef inline bint put_tag(Out *out, const Field *field, int wire) noexcept nogil:
    return out_uvarint(out, <uint64_t>field.number << 3 | wire)


cdef bint begin_sized(Out *out, int64_t *at) noexcept nogil:
    """Leaves room for a length."""
    at[0] = out.used
    if not out_room(out, SIZE_BYTES):
        return False
    out.used += SIZE_BYTES
    return True


cdef void end_sized(Out *out, int64_t at) noexcept nogil:
    """Writes the length of what follows `at`, and moves that to directly behind the length."""
    cdef int64_t size = out.used - at - SIZE_BYTES
    cdef int width = uvarint_size(size)
    put_uvarint64(out.data + at, size)
    memmove(out.data + at + width, out.data + at + SIZE_BYTES, size)
    out.used = at + width + size


cdef bint number_of(Out *out, const Field *field, const Source *source, int64_t row, int64_t *number) noexcept nogil:
    """The number of an enum's name; a number in digits is itself."""
    cdef int64_t size = 0, value = 0, i
    cdef const uint8_t *at = source_bytes(source, row, &size)
    cdef bint negative = size > 1 and at[0] == c'-'
    cdef int name = text_find(field.names, field.n_names, at, size)
    if name >= 0:
        number[0] = field.names[name].number
        return True
    for i in range(1 if negative else 0, size):
        if at[i] < c'0' or at[i] > c'9' or value > 0x7fffffff:
            return out_bad(out, field.path, "the text is not a name of the enum")
        value = value * 10 + at[i] - c'0'
    if size == 0 or value > 0x7fffffff:
        return out_bad(out, field.path, "the text is not a name of the enum")
    number[0] = -value if negative else value
    return True


cdef bint is_zero(const Field *field, const Source *source, int64_t row) noexcept nogil:
    """Whether a value is the default, which is not written."""
    cdef int64_t size = 0
    cdef const uint8_t *at
    cdef int i
    if field.kind == P_STRING or field.kind == P_BYTES or field.kind == P_ENUM:
        at = source_bytes(source, row, &size)
        if field.kind == P_ENUM:
            return text_is(&field.names[0], at, size)
        return size == 0
    if field.kind == P_BOOLEAN:
        return not source_boolean(source, row)
    at = source_fixed(source, row)
    for i in range(source.width):
        if at[i] != 0:
            return False
    return True


cdef bint put_moment(Out *out, const Field *field, const Source *source, int64_t row) noexcept nogil:
    """Writes microseconds as google.protobuf.Timestamp or Duration; both parts of a Duration have the same sign."""
    cdef int64_t at = 0, value = source_integer(source, row)
    cdef int64_t seconds = value // 1000000, rest = value % 1000000
    if rest < 0 and not field.signed_parts:
        seconds -= 1
        rest += 1000000
    if not begin_sized(out, &at):
        return False
    if seconds != 0 and not (out_byte(out, 8) and out_uvarint(out, <uint64_t>seconds)):
        return False
    if rest != 0 and not (out_byte(out, 16) and out_uvarint(out, <uint64_t>(rest * 1000))):
        return False
    end_sized(out, at)
    return True


cdef bint put_sized(Out *out, const Field *field, const Source *source, int64_t row) noexcept nogil:
    cdef int64_t size = 0, at = 0
    cdef const uint8_t *text
    if field.kind == P_STRING or field.kind == P_BYTES:
        text = source_bytes(source, row, &size)
        return out_uvarint(out, size) and out_put(out, text, size)
    if field.kind == P_TIMESTAMP:
        return put_moment(out, field, source, row)
    if not begin_sized(out, &at):
        return False
    if field.kind == P_WRAPPER:
        if not is_zero(&field.message.fields[0], source, row):
            if not put_tagged(out, &field.message.fields[0], source, row):
                return False
    elif not put_message(out, field.message, source, row):
        return False
    end_sized(out, at)
    return True


cdef bint put_value(Out *out, const Field *field, const Source *source, int64_t row) noexcept nogil:
    cdef int64_t value = 0
    if field.wire == WIRE_BYTES:
        return put_sized(out, field, source, row)
    if field.wire == WIRE_GROUP:
        return put_message(out, field.message, source, row) and put_tag(out, field, WIRE_GROUP_END)
    if field.kind == P_FIXED:
        return out_put(out, source_fixed(source, row), source.width)
    if field.kind == P_BOOLEAN:
        return out_byte(out, 1 if source_boolean(source, row) else 0)
    if field.kind == P_ENUM:
        return number_of(out, field, source, row, &value) and out_uvarint(out, <uint64_t>value)
    value = source_integer(source, row)
    if field.kind == P_ZIGZAG:
        return out_uvarint(out, zigzag(value))
    return out_uvarint(out, <uint64_t>value)


cdef bint put_tagged(Out *out, const Field *field, const Source *source, int64_t row) noexcept nogil:
    return put_tag(out, field, field.wire) and put_value(out, field, source, row)


cdef bint put_entry(Out *out, const Field *field, const Source *source, int64_t item) noexcept nogil:
    cdef int64_t at = 0
    cdef int i
    if not put_tag(out, field, WIRE_BYTES) or not begin_sized(out, &at):
        return False
    for i in range(2):
        if source_is_null(source.children[i], item):
            return out_bad(out, field.path, "null in a map, which Protobuf does not allow")
        if not put_tagged(out, &field.message.fields[i], source.children[i], item):
            return False
    end_sized(out, at)
    return True


cdef bint put_repeated(Out *out, const Field *field, const Source *source, int64_t row) noexcept nogil:
    cdef int64_t count = 0, at = 0, item
    cdef int64_t first = source_items(source, row, &count)
    cdef bint good
    if count == 0:
        return True
    if field.packed and not (put_tag(out, field, WIRE_BYTES) and begin_sized(out, &at)):
        return False
    for item in range(first, first + count):
        if field.is_map:
            good = put_entry(out, field, source, item)
        elif source_is_null(source.children[0], item):
            return out_bad(out, field.path, "null in a repeated field, which Protobuf does not allow")
        elif field.packed:
            good = put_value(out, field, source.children[0], item)
        else:
            good = put_tagged(out, field, source.children[0], item)
        if not good:
            return False
    if field.packed:
        end_sized(out, at)
    return True


cdef bint put_message(Out *out, const Message *message, const Source *source, int64_t row) noexcept nogil:
    cdef int i
    cdef const Field *field
    cdef const Source *column
    for i in range(message.n_fields):
        field = &message.fields[i]
        column = source.children[i]
        if source_is_null(column, row):
            continue
        if field.repeated:
            if not put_repeated(out, field, column, row):
                return False
        elif not (field.implicit and is_zero(field, column, row)):
            if not put_tagged(out, field, column, row):
                return False
    return True


cdef class ProtobufEncoder(Encoder):
    """Encodes columns.

    Args:
        prefix: see Encoder.
        plan: [(number, kind, wire, repeated, is_map, packed, implicit, signed parts, path, [(enum number, name)], plan of the
            message or None)].
    """

    cdef Message *root

    def __cinit__(self, bytes prefix, list plan):
        self.root = self.make(plan)

    cdef Message *make(self, list plan) except NULL:
        cdef Message *message = <Message *>self.room(sizeof(Message))
        message.fields = <Field *>self.room(len(plan) * sizeof(Field))
        for part in plan:
            self.fill(&message.fields[message.n_fields], part)
            message.n_fields += 1
        return message

    cdef int fill(self, Field *field, tuple part) except -1:
        (number, field.kind, field.wire, field.repeated, field.is_map, field.packed, field.implicit, field.signed_parts,
         path, names, inner) = part
        field.number = number
        field.path = self.path(path)
        field.names, field.n_names = self.texts(names), <int>len(names)
        if inner is not None:
            field.message = self.make(inner)
        return 0

    cdef bint value(self, Out *out, const Source *source, int64_t row) noexcept nogil:
        return put_message(out, self.root, source, row)
