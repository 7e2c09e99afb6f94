"""Decodes Protobuf's wire format into columns, by a plan built from a message's descriptor.

Fields come in any order, twice, or not at all: a row is marked when its message begins, and its fields then fill it in. No
Python object is created for a value, unless it is bad.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from bowstring._native.values.protobuf_kinds cimport (
    P_BOOLEAN, P_BYTES, P_ENUM, P_FIXED, P_MESSAGE, P_STRING, P_TIMESTAMP, P_ZIGZAG, WIRE_BYTES, WIRE_FIXED32,
    WIRE_FIXED64, WIRE_GROUP, WIRE_GROUP_END, WIRE_VARINT)
from bowstring._native.values.utf8 cimport utf8_valid
from bowstring._native.values.column cimport (
    Column, column_add_item, column_begin_list, column_clear, column_is_set, column_mark, column_set8,
    column_set_bytes, column_set_fixed, column_set_long)
from bowstring._native.values.decoder cimport Decoder, Reading, bad, read_uvarint
from bowstring._native.values.plan cimport Text
from bowstring._native.base.varint cimport unzigzag

cdef enum:
    DEPTH_MAX = 100         # as in protobuf's own parsers
    DIRECT_FIELDS = 64      # fields with smaller numbers are found by an array, others by searching
    NESTED_MESSAGES_MAX = 32

ctypedef struct Field:
    int kind
    uint32_t number
    bint repeated
    bint is_map
    int wire
    int path
    Column *column          # of the field
    Column *target          # where values go: the column, or the items of a repeated field
    Message *message
    int n_siblings          # the other fields of its oneof
    Column **siblings
    bint closed             # enums: numbers without a name are dropped
    bint signed_parts       # Duration: both parts have the value's sign
    int n_names
    Text *names

ctypedef struct Message:
    int n_fields
    Field *fields
    Field **direct

# ---------------------------------------------------------------- wire


cdef inline bint get_varint(Reading *r, const uint8_t *end, uint64_t *value) noexcept nogil:
    return read_uvarint(r, end, -1, value)


cdef inline bint get_size(Reading *r, const uint8_t *end, uint64_t *size) noexcept nogil:
    if not get_varint(r, end, size):
        return False
    return size[0] <= <uint64_t>(end - r.at) or bad(r, -1, "a length exceeds the value")


cdef bint skip_group(Reading *r, const uint8_t *end, uint32_t number, int depth) noexcept nogil:
    cdef uint64_t tag = 0
    if depth >= DEPTH_MAX:
        return bad(r, -1, "nested more than 100 deep")
    while True:
        if not get_varint(r, end, &tag):
            return False
        if tag & 7 == WIRE_GROUP_END:
            return tag >> 3 == number or bad(r, -1, "a group ends without having begun")
        if not skip(r, end, tag, depth + 1):
            return False


cdef bint skip(Reading *r, const uint8_t *end, uint64_t tag, int depth) noexcept nogil:
    """Skips a field that is not wanted, or has another wire type."""
    cdef uint64_t size = 0
    cdef int wire = tag & 7
    if wire == WIRE_VARINT:
        return get_varint(r, end, &size)
    if wire == WIRE_BYTES:
        if not get_size(r, end, &size):
            return False
    elif wire == WIRE_FIXED64:
        size = 8
    elif wire == WIRE_FIXED32:
        size = 4
    elif wire == WIRE_GROUP:
        return skip_group(r, end, tag >> 3, depth)
    else:
        return bad(r, -1, "an unknown wire type")
    if <uint64_t>(end - r.at) < size:
        return bad(r, -1, "the value is truncated")
    r.at += size
    return True

# ---------------------------------------------------------------- values


cdef bint set_enum(const Field *field, int64_t row, int32_t number) noexcept nogil:
    """Decodes an enum's number as its name. Without a name: the number itself, or nothing if the enum is closed."""
    cdef uint8_t[12] text
    cdef int i = number, at = 12
    cdef int64_t rest = number
    if i < 0 or i >= field.n_names or field.names[i].number != number:
        for i in range(field.n_names):
            if field.names[i].number == number:
                break
        else:
            i = -1
    if i >= 0:
        return column_set_bytes(field.target, row, field.names[i].at, field.names[i].size)
    if field.closed:
        return True
    if rest < 0:
        rest = -rest
    while True:
        at -= 1
        text[at] = <uint8_t>(c'0' + rest % 10)
        rest //= 10
        if rest == 0:
            break
    if number < 0:
        at -= 1
        text[at] = c'-'
    return column_set_bytes(field.target, row, &text[at], 12 - at)


cdef bint set_moment(Reading *r, const Field *field, int64_t row, const uint8_t *end) noexcept nogil:
    """google.protobuf.Timestamp and Duration: fields 1 (seconds) and 2 (nanoseconds)."""
    cdef uint64_t tag = 0, value = 0
    cdef int64_t seconds = 0, nanoseconds = 0, before
    if column_is_set(field.target, row):
        before = (<int64_t *>field.target.data)[row]
        nanoseconds = before % 1000000 * 1000
        if nanoseconds < 0 and not field.signed_parts:
            nanoseconds += 1000000000
        seconds = (before - nanoseconds // 1000) // 1000000
    while r.at < end:
        if not get_varint(r, end, &tag):
            return False
        if tag == 8 or tag == 16:
            if not get_varint(r, end, &value):
                return False
            if tag == 8:
                seconds = <int64_t>value
            else:
                nanoseconds = <int32_t>value
        elif tag >> 3 == 0 or not skip(r, end, tag, 1):
            return bad(r, field.path, "a field has the number 0") if tag >> 3 == 0 else False
    if seconds > <int64_t>315576000000 or seconds < -<int64_t>315576000000:
        return bad(r, field.path, "a timestamp is outside the years 1 to 9999")
    return column_set_long(field.target, row, seconds * 1000000 + (nanoseconds - (nanoseconds % 1000 + 1000) % 1000) // 1000)


cdef bint set_long(Reading *r, const Field *field, int64_t row, const uint8_t *end, int depth) noexcept nogil:
    """Decodes a value that begins with its length."""
    cdef uint64_t size = 0
    cdef const uint8_t *at
    cdef bint good
    if not get_size(r, end, &size):
        return False
    at = r.at
    if field.kind == P_STRING or field.kind == P_BYTES:
        r.at += size
        if field.kind == P_STRING and not utf8_valid(at, size):
            r.at = at
            return bad(r, field.path, "not UTF-8")
        return column_set_bytes(field.target, row, at, size)
    if field.kind == P_TIMESTAMP:
        return set_moment(r, field, row, at + size)
    good = column_mark(field.target, row) and read_message(r, field.message, row, at + size, 0, depth + 1)
    return good


cdef bint set_value(Reading *r, const Field *field, int64_t row, const uint8_t *end, int depth) noexcept nogil:
    cdef uint64_t value = 0
    cdef int width = field.target.width
    if field.wire == WIRE_BYTES:
        return set_long(r, field, row, end, depth)
    if field.wire == WIRE_GROUP:
        return column_mark(field.target, row) and read_message(r, field.message, row, end, field.number, depth + 1)
    if field.kind == P_FIXED:
        if end - r.at < width:
            return bad(r, field.path, "the value is truncated")
        r.at += width
        return column_set_fixed(field.target, row, r.at - width)
    if not get_varint(r, end, &value):
        return False
    if field.kind == P_BOOLEAN:
        return column_set8(field.target, row, value != 0)
    if field.kind == P_ENUM:
        return set_enum(field, row, <int32_t>value)
    if field.kind == P_ZIGZAG:
        if width == 4:
            value = <uint32_t>value
        value = unzigzag(value)
    return column_set_long(field.target, row, <int64_t>value)


cdef bint read_packed(Reading *r, const Field *field, int64_t row, const uint8_t *end, int depth) noexcept nogil:
    cdef uint64_t size = 0
    cdef int64_t item
    if not get_size(r, end, &size):
        return False
    end = r.at + size
    while r.at < end:
        item = column_add_item(field.column, row)
        if item < 0 or not set_value(r, field, item, end, depth):
            return False
    return True


cdef bint read_entry(Reading *r, const Field *field, int64_t item, const uint8_t *end, int depth) noexcept nogil:
    """Decodes an entry of a map: a message of key and value. A missing one is zero."""
    cdef uint64_t size = 0
    if not get_size(r, end, &size):
        return False
    if field.target.storage == 0 and not column_mark(field.target, item):
        return False
    return read_message(r, field.message, item, r.at + size, 0, depth + 1)


cdef bint read_field(Reading *r, const Field *field, int64_t row, uint64_t tag, const uint8_t *end, int depth) noexcept nogil:
    cdef int i, wire = tag & 7
    cdef int64_t item
    if field.repeated:
        if wire != field.wire and not (wire == WIRE_BYTES and field.wire != WIRE_GROUP):
            return skip(r, end, tag, depth)
        if not column_begin_list(field.column, row):
            return False
        if wire != field.wire:
            return read_packed(r, field, row, end, depth)
        item = column_add_item(field.column, row)
        if item < 0:
            return False
        return read_entry(r, field, item, end, depth) if field.is_map else set_value(r, field, item, end, depth)
    if wire != field.wire:
        return skip(r, end, tag, depth)
    for i in range(field.n_siblings):
        if column_is_set(field.siblings[i], row):
            column_clear(field.siblings[i], row)
    # The last one counts, but messages are merged.
    if field.kind < P_MESSAGE and column_is_set(field.column, row):
        column_clear(field.column, row)
    return set_value(r, field, row, end, depth)


cdef inline const Field *field_of(const Message *message, uint64_t number) noexcept nogil:
    cdef int i
    if number < DIRECT_FIELDS:
        return message.direct[number]
    for i in range(message.n_fields):
        if message.fields[i].number == number:
            return &message.fields[i]
    return NULL


cdef bint read_message(Reading *r, const Message *message, int64_t row, const uint8_t *end, uint32_t group, int depth) noexcept nogil:
    """Decodes the fields of a message up to `end`, or to the end of a group."""
    cdef uint64_t tag = 0
    cdef const Field *field
    if depth >= DEPTH_MAX:
        return bad(r, -1, "nested more than 100 deep")
    while r.at < end:
        if not get_varint(r, end, &tag):
            return False
        if tag > <uint64_t>0xffffffff or tag >> 3 == 0:
            return bad(r, -1, "a field number is out of range")
        if tag & 7 == WIRE_GROUP_END:
            return tag >> 3 == group or bad(r, -1, "a group ends without having begun")
        field = field_of(message, tag >> 3)
        if not (skip(r, end, tag, depth) if field == NULL else read_field(r, field, row, tag, end, depth)):
            return False
    return group == 0 or bad(r, -1, "a group does not end")

# ---------------------------------------------------------------- for Python


cdef class ProtobufDecoder(Decoder):
    """Decodes arrays of Protobuf messages.

    Args:
        columns, framed: see Decoder.
        plan: [(number, kind, wire, repeated, is_map, path, closed enum or Duration, [(enum number, name)], [places of
            the other fields of its oneof], plan of the message or None)], parallel to the columns.
        message_indexes: of the message in its file, as framed values name it.
    """

    cdef Message *root
    cdef int64_t[NESTED_MESSAGES_MAX] indexes
    cdef int n_indexes

    def __cinit__(self, tuple columns, bint framed, list plan, tuple message_indexes):
        for index in message_indexes:
            self.indexes[self.n_indexes] = index
            self.n_indexes += 1
        self.root = self.make(plan, self.columns.root)

    cdef Message *make(self, list plan, Column *around) except NULL:
        """`around` is the struct's column, or the list column of a map; a wrapper's field is stored in it."""
        cdef Message *message = <Message *>self.room(sizeof(Message))
        cdef Field *field
        message.fields = <Field *>self.room(len(plan) * sizeof(Field))
        message.direct = <Field **>self.room(DIRECT_FIELDS * sizeof(Field *))
        for part in plan:
            field = &message.fields[message.n_fields]
            self.fill(field, part, around, message.n_fields)
            if field.number < DIRECT_FIELDS:
                message.direct[field.number] = field
            message.n_fields += 1
        return message

    cdef int fill(self, Field *field, tuple part, Column *around, int place) except -1:
        number, field.kind, field.wire, field.repeated, field.is_map, path, closed, names, siblings, inner = part
        field.number = number
        field.closed = field.kind == P_ENUM and closed
        field.signed_parts = field.kind == P_TIMESTAMP and closed
        field.path = self.path(path)
        field.column = around.children[place] if around.n_children > 0 else around
        field.target = field.column.children[1 if field.is_map else 0] if field.repeated else field.column
        field.column.keys_once = field.is_map
        field.siblings = <Column **>self.room(len(siblings) * sizeof(Column *))
        for sibling in siblings:
            field.siblings[field.n_siblings] = around.children[<int>sibling]
            field.n_siblings += 1
        field.names, field.n_names = self.texts(names), <int>len(names)
        if inner is not None:
            # The fields of a map's entry are the list's children, key and value.
            field.message = self.make(inner, field.column if field.is_map else field.target)
        return 0

    cdef bint is_message(self, Reading *r) noexcept nogil:
        """Skips Confluent's message indexes: their count, then each in zig-zag; 0 alone is the file's first one."""
        cdef uint64_t count = 0, index = 0
        cdef int i
        if not get_varint(r, r.end, &count):
            return False
        count >>= 1
        if count == 0:
            return (self.n_indexes == 1 and self.indexes[0] == 0) or bad(r, -1, "the value is another message of the schema's file")
        for i in range(<int>min(count, <uint64_t>(NESTED_MESSAGES_MAX + 1))):
            if not get_varint(r, r.end, &index):
                return False
            if i >= self.n_indexes or <int64_t>(index >> 1) != self.indexes[i]:
                return bad(r, -1, "the value is another message of the schema's file")
        return <int>count == self.n_indexes or bad(r, -1, "the value is another message of the schema's file")

    cdef bint value(self, Reading *r, int64_t row) noexcept nogil:
        if self.framed and not self.is_message(r):
            return False
        return column_mark(self.columns.root, row) and read_message(r, self.root, row, r.end, 0, 0)
