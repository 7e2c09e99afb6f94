"""Columns into Protobuf's wire format, fields in the order of their declaration."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memmove, memset
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from bowstring._native.value_source cimport (
    Out, Source, Sources, encoded, out_byte, out_put, out_room, source_boolean, source_bytes, source_fixed,
    source_integer, source_is_null, source_items)
from bowstring._native.varint cimport put_uvarint64, uvarint_size

cdef enum Kind:  # as in protobuf_decode.pyx
    P_VARINT = 0
    P_ZIGZAG = 1
    P_FIXED = 2
    P_BOOLEAN = 3
    P_STRING = 4
    P_BYTES = 5
    P_ENUM = 6
    P_MESSAGE = 7
    P_WRAPPER = 8
    P_TIMESTAMP = 9

cdef enum:
    WIRE_VARINT = 0
    WIRE_BYTES = 2
    WIRE_GROUP = 3
    WIRE_GROUP_END = 4
    VARINT_BYTES = 10
    SIZE_BYTES = 5          # kept free for the length of what is not yet written

ctypedef struct Field:
    int kind
    int wire
    uint32_t number
    bint repeated
    bint is_map
    bint packed
    bint implicit           # zero is not written
    bint signed_parts       # of moments: nanoseconds may be below zero (Duration)
    int path
    Message *message
    int n_names
    int32_t *numbers
    const uint8_t **names
    int64_t *name_sizes

ctypedef struct Message:
    int n_fields
    Field *fields

ctypedef struct Writing:
    Out out
    const char *fault
    int where


cdef bint bad(Writing *w, const Field *field, const char *why) noexcept nogil:
    w.fault = why
    w.where = field.path
    return False


cdef inline bint put_varint(Writing *w, uint64_t value) noexcept nogil:
    if not out_room(&w.out, VARINT_BYTES):
        return False
    w.out.used = put_uvarint64(w.out.data + w.out.used, value) - w.out.data
    return True


cdef inline bint put_tag(Writing *w, const Field *field, int wire) noexcept nogil:
    return put_varint(w, <uint64_t>field.number << 3 | wire)


cdef bint begin_sized(Writing *w, int64_t *at) noexcept nogil:
    """Leaves room for a length."""
    at[0] = w.out.used
    if not out_room(&w.out, SIZE_BYTES):
        return False
    w.out.used += SIZE_BYTES
    return True


cdef void end_sized(Writing *w, int64_t at) noexcept nogil:
    """Writes the length of what follows `at`, and moves that up to it."""
    cdef int64_t size = w.out.used - at - SIZE_BYTES
    cdef int width = uvarint_size(size)
    put_uvarint64(w.out.data + at, size)
    memmove(w.out.data + at + width, w.out.data + at + SIZE_BYTES, size)
    w.out.used = at + width + size


cdef bint number_of(Writing *w, const Field *field, const Source *source, int64_t row, int64_t *number) noexcept nogil:
    """The number of an enum's name; a number in digits is itself."""
    cdef int64_t size = 0, value = 0, i
    cdef const uint8_t *at = source_bytes(source, row, &size)
    cdef bint negative = size > 1 and at[0] == c'-'
    for i in range(field.n_names):
        if field.name_sizes[i] == size and memcmp(field.names[i], at, size) == 0:
            number[0] = field.numbers[i]
            return True
    for i in range(1 if negative else 0, size):
        if at[i] < c'0' or at[i] > c'9' or value > 0x7fffffff:
            return bad(w, field, "no name of the enum")
        value = value * 10 + at[i] - c'0'
    if size == 0 or value > 0x7fffffff:
        return bad(w, field, "no name of the enum")
    number[0] = -value if negative else value
    return True


cdef bint is_zero(const Field *field, const Source *source, int64_t row) noexcept nogil:
    """Whether a value is what a missing one stands for."""
    cdef int64_t size = 0
    cdef const uint8_t *at
    cdef int i
    if field.kind == P_STRING or field.kind == P_BYTES or field.kind == P_ENUM:
        at = source_bytes(source, row, &size)
        if field.kind == P_ENUM:
            return size == field.name_sizes[0] and memcmp(at, field.names[0], size) == 0
        return size == 0
    if field.kind == P_BOOLEAN:
        return not source_boolean(source, row)
    at = source_fixed(source, row)
    for i in range(source.width):
        if at[i] != 0:
            return False
    return True


cdef bint put_moment(Writing *w, const Field *field, const Source *source, int64_t row) noexcept nogil:
    """Microseconds as google.protobuf.Timestamp or Duration; Duration's parts have the same sign."""
    cdef int64_t at = 0, value = source_integer(source, row)
    cdef int64_t seconds = value // 1000000, rest = value % 1000000
    if rest < 0 and not field.signed_parts:
        seconds -= 1
        rest += 1000000
    if not begin_sized(w, &at):
        return False
    if seconds != 0 and not (out_byte(&w.out, 8) and put_varint(w, <uint64_t>seconds)):
        return False
    if rest != 0 and not (out_byte(&w.out, 16) and put_varint(w, <uint64_t>(rest * 1000))):
        return False
    end_sized(w, at)
    return True


cdef bint put_sized(Writing *w, const Field *field, const Source *source, int64_t row) noexcept nogil:
    cdef int64_t size = 0, at = 0
    cdef const uint8_t *text
    if field.kind == P_STRING or field.kind == P_BYTES:
        text = source_bytes(source, row, &size)
        return put_varint(w, size) and out_put(&w.out, text, size)
    if field.kind == P_TIMESTAMP:
        return put_moment(w, field, source, row)
    if not begin_sized(w, &at):
        return False
    if field.kind == P_WRAPPER:
        if not is_zero(&field.message.fields[0], source, row):
            if not put_tagged(w, &field.message.fields[0], source, row):
                return False
    elif not put_message(w, field.message, source, row):
        return False
    end_sized(w, at)
    return True


cdef bint put_value(Writing *w, const Field *field, const Source *source, int64_t row) noexcept nogil:
    cdef int64_t value = 0
    if field.wire == WIRE_BYTES:
        return put_sized(w, field, source, row)
    if field.wire == WIRE_GROUP:
        return put_message(w, field.message, source, row) and put_tag(w, field, WIRE_GROUP_END)
    if field.kind == P_FIXED:
        return out_put(&w.out, source_fixed(source, row), source.width)
    if field.kind == P_BOOLEAN:
        return out_byte(&w.out, 1 if source_boolean(source, row) else 0)
    if field.kind == P_ENUM:
        return number_of(w, field, source, row, &value) and put_varint(w, <uint64_t>value)
    value = source_integer(source, row)
    if field.kind == P_ZIGZAG:
        return put_varint(w, (<uint64_t>value << 1) ^ <uint64_t>(value >> 63))
    return put_varint(w, <uint64_t>value)


cdef bint put_tagged(Writing *w, const Field *field, const Source *source, int64_t row) noexcept nogil:
    return put_tag(w, field, field.wire) and put_value(w, field, source, row)


cdef bint put_entry(Writing *w, const Field *field, const Source *source, int64_t item) noexcept nogil:
    cdef int64_t at = 0
    cdef int i
    if not put_tag(w, field, WIRE_BYTES) or not begin_sized(w, &at):
        return False
    for i in range(2):
        if source_is_null(source.children[i], item):
            return bad(w, field, "null in a map, which Protobuf does not have")
        if not put_tagged(w, &field.message.fields[i], source.children[i], item):
            return False
    end_sized(w, at)
    return True


cdef bint put_repeated(Writing *w, const Field *field, const Source *source, int64_t row) noexcept nogil:
    cdef int64_t count = 0, at = 0, item
    cdef int64_t first = source_items(source, row, &count)
    cdef bint good
    if count == 0:
        return True
    if field.packed and not (put_tag(w, field, WIRE_BYTES) and begin_sized(w, &at)):
        return False
    for item in range(first, first + count):
        if field.is_map:
            good = put_entry(w, field, source, item)
        elif source_is_null(source.children[0], item):
            return bad(w, field, "null in a repeated field, which Protobuf does not have")
        elif field.packed:
            good = put_value(w, field, source.children[0], item)
        else:
            good = put_tagged(w, field, source.children[0], item)
        if not good:
            return False
    if field.packed:
        end_sized(w, at)
    return True


cdef bint put_message(Writing *w, const Message *message, const Source *source, int64_t row) noexcept nogil:
    cdef int i
    cdef const Field *field
    cdef const Source *column
    for i in range(message.n_fields):
        field = &message.fields[i]
        column = source.children[i]
        if source_is_null(column, row):
            continue
        if field.repeated:
            if not put_repeated(w, field, column, row):
                return False
        elif not (field.implicit and is_zero(field, column, row)):
            if not put_tagged(w, field, column, row):
                return False
    return True


cdef class ProtobufEncoder:
    """Encodes columns.

    Args:
        plan: [(number, kind, wire, repeated, is_map, packed, implicit, signed parts, path, [(enum number, name)], plan of the
            message or None)].
        prefix: what every value begins with.
    """

    cdef Message *root
    cdef list kept
    cdef list paths
    cdef bytes prefix

    def __cinit__(self, list plan, bytes prefix):
        self.kept = []
        self.paths = []
        self.prefix = prefix
        self.root = self.make(plan)

    def __dealloc__(self):
        self.drop(self.root)

    cdef Message *make(self, list plan) except NULL:
        cdef Message *message = <Message *>PyMem_Calloc(1, sizeof(Message))
        if message == NULL:
            raise MemoryError
        message.fields = <Field *>PyMem_Calloc(len(plan) + 1, sizeof(Field))
        if message.fields == NULL:
            PyMem_Free(message)
            raise MemoryError
        for part in plan:
            self.fill(&message.fields[message.n_fields], part)
            message.n_fields += 1
        return message

    cdef int fill(self, Field *field, tuple part) except -1:
        cdef bytes held
        cdef int i
        (number, field.kind, field.wire, field.repeated, field.is_map, field.packed, field.implicit, field.signed_parts,
         path, names, inner) = part
        field.number = number
        field.path = <int>len(self.paths)
        self.paths.append(path)
        field.numbers = <int32_t *>PyMem_Calloc(len(names) + 1, sizeof(int32_t))
        field.names = <const uint8_t **>PyMem_Calloc(len(names) + 1, sizeof(uint8_t *))
        field.name_sizes = <int64_t *>PyMem_Calloc(len(names) + 1, sizeof(int64_t))
        if field.numbers == NULL or field.names == NULL or field.name_sizes == NULL:
            raise MemoryError
        for i, (value, name) in enumerate(names):
            held = name
            self.kept.append(held)
            field.numbers[i], field.names[i], field.name_sizes[i] = value, held, len(held)
        field.n_names = <int>len(names)
        if inner is not None:
            field.message = self.make(inner)
        return 0

    cdef void drop(self, Message *message):
        cdef int i
        if message == NULL:
            return
        for i in range(message.n_fields):
            self.drop(message.fields[i].message)
            PyMem_Free(message.fields[i].numbers)
            PyMem_Free(message.fields[i].names)
            PyMem_Free(message.fields[i].name_sizes)
        PyMem_Free(message.fields)
        PyMem_Free(message)

    def encode(self, Sources columns):
        """(offsets, bytes, None) of a binary array, or (None, None, what is wrong). OverflowError beyond 2 GiB."""
        cdef Writing w
        cdef int64_t row = 0, rows = columns.rows
        cdef const uint8_t *prefix = self.prefix
        cdef int64_t prefix_size = len(self.prefix)
        cdef int32_t *ends = <int32_t *>calloc(rows + 1, sizeof(int32_t))
        cdef bint good = ends != NULL
        memset(&w, 0, sizeof(Writing))
        with nogil:
            for row in range(rows):
                if not source_is_null(columns.root, row):
                    good = good and out_put(&w.out, prefix, prefix_size) and put_message(&w, self.root, columns.root, row)
                if not good:
                    break
                ends[row + 1] = <int32_t>w.out.used
        if good:
            offsets, data = encoded(&w.out, ends, rows)
            return offsets, data, None
        free(ends)
        free(w.out.data)
        if w.fault == NULL:
            raise OverflowError
        return None, None, f"row {row}, {self.paths[w.where]}: {w.fault.decode()}"
