"""Encodes columns as JSON, one object for each row."""
from libc.math cimport fabs, isfinite, isnan, signbit
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport strtod
from libc.string cimport memcpy
from bowstring._native.values.rfc3339 cimport write_date, write_time
from bowstring._native.values.json_kinds cimport (
    J_BINARY, J_BOOLEAN, J_DATE, J_DECIMAL, J_DOUBLE, J_FLOAT, J_INTEGER, J_LIST, J_MAP, J_STRING, J_STRUCT, J_TIMESTAMP)
from bowstring._native.values.decimal cimport int128
from bowstring._native.values.encoder cimport (
    Encoder, Out, Source, out_byte, out_put, out_room, source_boolean, source_bytes, source_fixed, source_integer,
    source_is_null, source_items)
from bowstring._native.values.plan cimport Text

ctypedef struct Node:
    int kind
    bint unsigned
    int scale
    int64_t per_second
    bint utc
    Text name               # as JSON, with the quotes and the colon
    int n_fields
    Node **fields

# ---------------------------------------------------------------- parts


cdef bint put_escape(Out *out, uint8_t c) noexcept nogil:
    cdef const char *digits = "0123456789abcdef"
    cdef uint8_t[6] text
    text[0] = c'\\'
    text[1] = c
    if c == 10:
        text[1] = c'n'
    elif c == 13:
        text[1] = c'r'
    elif c == 9:
        text[1] = c't'
    elif c < 32:
        text[1] = c'u'
        text[2] = text[3] = c'0'
        text[4] = digits[c >> 4]
        text[5] = digits[c & 15]
        return out_put(out, text, 6)
    return out_put(out, text, 2)


cdef bint put_string(Out *out, const uint8_t *at, int64_t size) noexcept nogil:
    cdef const uint8_t *end = at + size
    cdef const uint8_t *start = at
    if not out_byte(out, c'"'):
        return False
    while at < end:
        if at[0] < 32 or at[0] == c'"' or at[0] == c'\\':
            if not out_put(out, start, at - start) or not put_escape(out, at[0]):
                return False
            start = at + 1
        at += 1
    return out_put(out, start, at - start) and out_byte(out, c'"')


cdef bint put_unsigned(Out *out, uint64_t value, bint negative) noexcept nogil:
    cdef uint8_t[24] text
    cdef int at = 24
    while True:
        at -= 1
        text[at] = <uint8_t>(c'0' + value % 10)
        value //= 10
        if value == 0:
            break
    if negative:
        at -= 1
        text[at] = c'-'
    return out_put(out, &text[at], 24 - at)


cdef bint put_integer(Out *out, int64_t value, bint unsigned) noexcept nogil:
    if value < 0 and not unsigned:
        return put_unsigned(out, 0 - <uint64_t>value, True)
    return put_unsigned(out, <uint64_t>value, False)


cdef bint put_double(Out *out, double value, bint single) noexcept nogil:
    """Writes the fewest digits that read back as the same number; NaN and infinities as strings."""
    cdef char[40] text
    cdef double power = 1, scaled
    cdef uint64_t mantissa
    cdef int digits, size, i
    if not isfinite(value):
        if isnan(value):
            return out_put(out, b'"NaN"', 5)
        return out_put(out, b'"Infinity"', 10) if value > 0 else out_put(out, b'"-Infinity"', 11)
    if not single:
        for digits in range(7):
            scaled = fabs(value) * power
            if scaled >= 9007199254740992.0:
                break
            mantissa = <uint64_t>(scaled + 0.5)
            # Exact integers below 2**53 and powers of ten below 10**22 divide to the nearest double.
            if <double>mantissa / power == fabs(value) and (mantissa != 0 or value == 0):
                return put_fraction(out, mantissa, digits, signbit(value) != 0)
            power *= 10
    for digits in range(6 if single else 15, 18):
        size = snprintf(text, sizeof(text), "%.*g", digits, value)
        if (<float>strtod(text, NULL) == <float>value) if single else strtod(text, NULL) == value:
            break
    for i in range(size):
        if text[i] == c',':
            text[i] = c'.'
    return out_put(out, text, size)


cdef bint put_fraction(Out *out, uint64_t mantissa, int digits, bint negative) noexcept nogil:
    cdef uint64_t power = 1, rest
    cdef int i
    for i in range(digits):
        power *= 10
    if not put_unsigned(out, mantissa // power, negative) or not out_byte(out, c'.'):
        return False
    rest = mantissa % power
    if digits == 0:
        return out_byte(out, c'0')
    for i in range(digits):
        power //= 10
        if not out_byte(out, <uint8_t>(c'0' + rest // power % 10)):
            return False
    return True


cdef bint put_decimal(Out *out, const uint8_t *at, int scale) noexcept nogil:
    cdef int128 value
    cdef uint8_t[80] text
    cdef int size = 80, digits = 0
    cdef bint negative
    memcpy(&value, at, 16)
    negative = value < 0
    if negative:
        value = -value
    while value != 0 or digits <= scale:
        if digits == scale and scale > 0:
            size -= 1
            text[size] = c'.'
        size -= 1
        text[size] = <uint8_t>(c'0' + <int>(value % 10))
        value //= 10
        digits += 1
    if negative:
        size -= 1
        text[size] = c'-'
    if not out_put(out, &text[size], 80 - size):
        return False
    while scale < 0:
        if not out_byte(out, c'0'):
            return False
        scale += 1
    return True


cdef bint put_base64(Out *out, const uint8_t *at, int64_t size) noexcept nogil:
    cdef const char *digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    cdef int64_t i
    cdef uint64_t three
    cdef uint8_t *to
    if not out_room(out, (size + 2) // 3 * 4 + 2):
        return False
    to = out.data + out.used
    to[0] = c'"'
    to += 1
    for i in range(0, size, 3):
        three = <uint64_t>at[i] << 16
        three |= <uint64_t>at[i + 1] << 8 if i + 1 < size else 0
        three |= at[i + 2] if i + 2 < size else 0
        to[0] = digits[three >> 18]
        to[1] = digits[three >> 12 & 63]
        to[2] = digits[three >> 6 & 63] if i + 1 < size else c'='
        to[3] = digits[three & 63] if i + 2 < size else c'='
        to += 4
    to[0] = c'"'
    out.used = to + 1 - out.data
    return True


cdef bint put_temporal(Out *out, const Node *node, int64_t value) noexcept nogil:
    """Writes RFC 3339, or the plain number for years that do not have four digits."""
    cdef uint8_t[40] text
    cdef int64_t seconds, days
    cdef int size = 1, wrote
    text[0] = c'"'
    if node.kind == J_DATE:
        size += write_date(&text[1], value)
        if size == 1:
            return put_integer(out, value, False)
    else:
        seconds = value // node.per_second
        if seconds * node.per_second > value:
            seconds -= 1
        value = (value - seconds * node.per_second) * (1000000000 // node.per_second)
        if node.kind == J_TIMESTAMP:
            days = seconds // 86400
            if days * 86400 > seconds:
                days -= 1
            wrote = write_date(&text[1], days)
            if wrote == 0:
                return put_integer(out, seconds * node.per_second + value // (1000000000 // node.per_second), False)
            text[1 + wrote] = c'T'
            size += wrote + 1
            seconds -= days * 86400
        size += write_time(&text[size], seconds, value)
        if node.kind == J_TIMESTAMP and node.utc:
            text[size] = c'Z'
            size += 1
    text[size] = c'"'
    return out_put(out, text, size + 1)

# ---------------------------------------------------------------- a value


cdef bint put_leaf(Out *out, const Node *node, const Source *source, int64_t row) noexcept nogil:
    cdef int64_t size = 0
    cdef const uint8_t *at
    cdef double value
    cdef int kind = node.kind
    if kind == J_STRING or kind == J_BINARY:
        at = source_bytes(source, row, &size)
        return put_string(out, at, size) if kind == J_STRING else put_base64(out, at, size)
    if kind == J_INTEGER:
        return put_integer(out, source_integer(source, row), node.unsigned)
    if kind == J_DOUBLE:
        memcpy(&value, source_fixed(source, row), 8)
        return put_double(out, value, False)
    if kind == J_FLOAT:
        return put_double(out, (<const float *>source_fixed(source, row))[0], True)
    if kind == J_BOOLEAN:
        return out_put(out, b"true", 4) if source_boolean(source, row) else out_put(out, b"false", 5)
    if kind == J_DECIMAL:
        return put_decimal(out, source_fixed(source, row), node.scale)
    return put_temporal(out, node, source_integer(source, row))


cdef bint put_struct(Out *out, const Node *node, const Source *source, int64_t row, bint nulls) noexcept nogil:
    cdef int i
    cdef bint first = True
    if not out_byte(out, c'{'):
        return False
    for i in range(node.n_fields):
        if not nulls and source_is_null(source.children[i], row):
            continue
        if not first and not out_byte(out, c','):
            return False
        first = False
        if not out_put(out, node.fields[i].name.at, node.fields[i].name.size):
            return False
        if not put_value(out, node.fields[i], source.children[i], row, nulls):
            return False
    return out_byte(out, c'}')


cdef bint put_items(Out *out, const Node *node, const Source *source, int64_t row, bint nulls) noexcept nogil:
    """A list or a map."""
    cdef bint is_map = node.kind == J_MAP
    cdef int64_t count = 0, size = 0
    cdef int64_t first = source_items(source, row, &count), item
    cdef const uint8_t *key
    if not out_byte(out, c'{' if is_map else c'['):
        return False
    for item in range(first, first + count):
        if item > first and not out_byte(out, c','):
            return False
        if is_map:
            key = source_bytes(source.children[0], item, &size)
            if not put_string(out, key, size) or not out_byte(out, c':'):
                return False
        if not put_value(out, node.fields[0], source.children[1 if is_map else 0], item, nulls):
            return False
    return out_byte(out, c'}' if is_map else c']')


cdef bint put_value(Out *out, const Node *node, const Source *source, int64_t row, bint nulls) noexcept nogil:
    if source_is_null(source, row):
        return out_put(out, b"null", 4)
    if node.kind == J_STRUCT:
        return put_struct(out, node, source, row, nulls)
    if node.kind == J_LIST or node.kind == J_MAP:
        return put_items(out, node, source, row, nulls)
    return put_leaf(out, node, source, row)

# ---------------------------------------------------------------- for Python


cdef class JsonEncoder(Encoder):
    """Encodes columns.

    Args:
        prefix: see Encoder.
        plan: (kind, name with quotes and colon, unsigned, scale, units per second, utc, [plans of the parts]).
        nulls: fields that are null are written.
    """

    cdef Node *root
    cdef bint nulls

    def __cinit__(self, bytes prefix, tuple plan, bint nulls):
        self.nulls = nulls
        self.root = self.make(plan)

    cdef Node *make(self, tuple plan) except NULL:
        cdef Node *node = <Node *>self.room(sizeof(Node))
        node.kind, name, node.unsigned, node.scale, node.per_second, node.utc, parts = plan
        node.name = self.text(name)
        node.fields = <Node **>self.room(len(parts) * sizeof(Node *))
        for part in parts:
            node.fields[node.n_fields] = self.make(part)
            node.n_fields += 1
        return node

    cdef bint value(self, Out *out, const Source *source, int64_t row) noexcept nogil:
        return put_value(out, self.root, source, row, self.nulls)
