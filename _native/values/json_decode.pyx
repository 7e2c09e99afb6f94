"""Decodes JSON values into columns by a plan, with a Python object only for a bad value."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp
from bowstring._native.values.rfc3339 cimport parse_date, parse_time, parse_timestamp
from bowstring._native.values.json_kinds cimport (
    J_BINARY, J_BOOLEAN, J_DATE, J_DECIMAL, J_DOUBLE, J_FLOAT, J_INTEGER, J_LIST, J_MAP, J_STRING, J_STRUCT, J_TIMESTAMP)
from bowstring._native.values.decimal cimport int128, number_double, text_decimal
from bowstring._native.values.json_scan cimport (
    JSON_DEPTH_MAX, Scan, json_bad, json_literal, json_number, json_peek, json_skip, json_string, json_take)
from bowstring._native.values.column cimport (
    Column, Input, column_add_item, column_begin_list, column_clear, column_is_set, column_mark, column_set8,
    column_set_bytes, column_set_fixed, column_set_long)
from bowstring._native.values.decoder cimport Decoder, Reading
from bowstring._native.values.plan cimport text_is

# ---------------------------------------------------------------- parts of a value


cdef bint wrong(Parsing *p, const Node *node, const char *needed) noexcept nogil:
    p.where = node.path
    return json_bad(&p.scan, needed)


cdef inline bint is_number(int c) noexcept nogil:
    return c == c'-' or c'0' <= c <= c'9'


cdef bint read_integer(Parsing *p, const Node *node, int64_t row, int c) noexcept nogil:
    cdef Scan *s = &p.scan
    if not is_number(c):
        return wrong(p, node, "an integer is needed")
    if not json_number(s):
        return False
    if not s.integer:
        return wrong(p, node, "an integer is needed")
    if not s.fits or s.magnitude > (node.least if s.negative else node.most):
        return wrong(p, node, "an integer in the range of its type is needed")
    return column_set_long(
        node.column, row, <int64_t>(0 - s.magnitude if s.negative else s.magnitude))


cdef bint non_finite(Scan *s, double *value) noexcept nogil:
    """Takes "NaN", "Infinity" or "-Infinity" as strings: JSON has no numbers for them."""
    cdef double infinity = 1e308 * 10
    if s.string_size == 3 and memcmp(s.string, b"NaN", 3) == 0:
        value[0] = infinity - infinity
    elif s.string_size == 8 and memcmp(s.string, b"Infinity", 8) == 0:
        value[0] = infinity
    elif s.string_size == 9 and memcmp(s.string, b"-Infinity", 9) == 0:
        value[0] = -infinity
    else:
        return False
    return True


cdef bint read_float(Parsing *p, const Node *node, int64_t row, int c) noexcept nogil:
    cdef double value = 0
    cdef float single
    if c == c'"':
        if not json_string(&p.scan):
            return False
        if not non_finite(&p.scan, &value):
            return wrong(p, node, "a number is needed")
    elif not is_number(c):
        return wrong(p, node, "a number is needed")
    elif not json_number(&p.scan):
        return False
    elif not number_double(&p.scan, &value):
        return wrong(p, node, "a shorter number is needed")
    if node.kind == J_DOUBLE:
        return column_set_fixed(node.column, row, &value)
    single = <float>value
    return column_set_fixed(node.column, row, &single)


cdef bint read_boolean(Parsing *p, const Node *node, int64_t row, int c) noexcept nogil:
    if c == c't':
        return json_literal(&p.scan, "true", 4) and column_set8(node.column, row, 1)
    if c == c'f':
        return json_literal(&p.scan, "false", 5) and column_set8(node.column, row, 0)
    return wrong(p, node, "true or false is needed")


cdef bint read_string(Parsing *p, const Node *node, int64_t row, int c) noexcept nogil:
    if c != c'"':
        return wrong(p, node, "a string is needed")
    return json_string(&p.scan) and column_set_bytes(
        node.column, row, p.scan.string, p.scan.string_size)


cdef inline int base64_digit(uint8_t c) noexcept nogil:
    if c'A' <= c <= c'Z':
        return c - c'A'
    if c'a' <= c <= c'z':
        return c - c'a' + 26
    if c'0' <= c <= c'9':
        return c - c'0' + 52
    if c == c'+' or c == c'-':
        return 62
    return 63 if c == c'/' or c == c'_' else -1


cdef bint read_binary(Parsing *p, const Node *node, int64_t row, int c) noexcept nogil:
    """Base64 (RFC 4648), of either alphabet, padded or not."""
    cdef Scan *s = &p.scan
    cdef int64_t i, size
    cdef uint8_t *out
    cdef int digit, bits = 0
    cdef uint64_t held = 0
    if c != c'"':
        return wrong(p, node, "a string of base64 is needed")
    if not json_string(s):
        return False
    size = s.string_size
    while size > 0 and s.string[size - 1] == c'=' and s.string_size - size < 2:
        size -= 1
    if not column_set_bytes(node.column, row, s.string, size):
        return False
    out = node.column.data + node.column.data_used - size
    for i in range(size):
        digit = base64_digit(out[i])
        if digit < 0:
            break
        held = held << 6 | digit
        bits += 6
        if bits >= 8:
            bits -= 8
            # Four characters become three bytes, so the output never passes the input.
            out[i - (i >> 2) - 1] = <uint8_t>(held >> bits)
    else:
        if size & 3 != 1 and not held & ((1 << bits) - 1):
            node.column.data_used -= size - size * 3 // 4
            node.column.offsets[row + 1] = <int32_t>node.column.data_used
            return True
    return wrong(p, node, "a string of base64 is needed")


cdef bint read_decimal(Parsing *p, const Node *node, int64_t row, int c) noexcept nogil:
    cdef Scan *s = &p.scan
    cdef const uint8_t *text
    cdef int64_t size
    cdef int128 value
    if c == c'"':
        if not json_string(s):
            return False
        text, size = s.string, s.string_size
    elif is_number(c):
        if not json_number(s):
            return False
        text, size = s.number, s.at - s.number
    else:
        return wrong(p, node, "a number is needed")
    if not text_decimal(text, size, node.precision, node.scale, &value):
        return wrong(p, node, "a number with at most as many digits as the type is needed")
    return column_set_fixed(node.column, row, &value)


cdef bint read_temporal(Parsing *p, const Node *node, int64_t row, int c) noexcept nogil:
    """A date, a time or a timestamp; a plain integer counts in the column's unit."""
    cdef Scan *s = &p.scan
    cdef int32_t days
    cdef int64_t seconds = 0, nanoseconds = 0
    cdef const uint8_t *at
    cdef bint good
    if c != c'"':
        return read_integer(p, node, row, c)
    if not json_string(s):
        return False
    if node.kind == J_DATE:
        if not parse_date(s.string, s.string_size, &days):
            return wrong(p, node, "a date (YYYY-MM-DD) is needed")
        return column_set_long(node.column, row, days)
    if node.kind == J_TIMESTAMP:
        good = parse_timestamp(s.string, s.string_size, &seconds, &nanoseconds)
        if good and node.per_second == 1000000000 and (
                seconds <= -<int64_t>9223372036 or seconds >= <int64_t>9223372036):
            good = False
    else:
        at = s.string
        good = parse_time(&at, s.string + s.string_size, &seconds, &nanoseconds) and at == s.string + s.string_size
    if not good:
        return wrong(p, node, "a timestamp is needed" if node.kind == J_TIMESTAMP else "a time (HH:MM:SS) is needed")
    return column_set_long(
        node.column, row, seconds * node.per_second + nanoseconds // (1000000000 // node.per_second))

# ---------------------------------------------------------------- a value


cdef inline bint read_key(Scan *s, const Node *node, int64_t item) noexcept nogil:
    return (
        json_string(s) and column_set_bytes(node.column.children[0], item, s.string, s.string_size)
        and json_take(s, c':', "':' is missing"))


cdef bint read_items(Parsing *p, const Node *node, int64_t row, int c, int depth) noexcept nogil:
    """A list or a map."""
    cdef Scan *s = &p.scan
    cdef bint is_map = node.kind == J_MAP
    cdef int end = c'}' if is_map else c']'
    cdef int64_t item
    if c != (c'{' if is_map else c'['):
        return wrong(p, node, "an object is needed" if is_map else "an array is needed")
    if not column_begin_list(node.column, row):
        return False
    s.at += 1
    if json_peek(s) == end:
        s.at += 1
        return True
    while True:
        item = column_add_item(node.column, row)
        if item < 0 or (is_map and not read_key(s, node, item)) or not read_value(p, node.fields[0], item, depth + 1):
            return False
        if json_peek(s) != c',':
            return json_take(s, end, "',' or '}' is missing" if is_map else "',' or ']' is missing")
        s.at += 1


cdef const Node *field_of(Parsing *p, const Node *node, int *next_field) noexcept nogil:
    """The field of the name taken last; NULL: not wanted. Tries the next field first: mostly they come in order."""
    cdef const Scan *s = &p.scan
    cdef int i
    if next_field[0] < node.n_fields and text_is(&node.fields[next_field[0]].name, s.string, s.string_size):
        next_field[0] += 1
        return node.fields[next_field[0] - 1]
    for i in range(node.n_fields):
        if text_is(&node.fields[i].name, s.string, s.string_size):
            next_field[0] = i + 1
            return node.fields[i]
    return NULL


cdef inline bint complete(Parsing *p, const Node *node, int64_t row) noexcept nogil:
    """Whether every required field is there."""
    cdef int i
    if node.has_required:
        for i in range(node.n_fields):
            if node.fields[i].required and not column_is_set(node.fields[i].column, row):
                return wrong(p, node.fields[i], "a value is needed")
    return True


cdef bint read_struct(Parsing *p, const Node *node, int64_t row, int c, int depth) noexcept nogil:
    cdef Scan *s = &p.scan
    cdef const Node *field
    cdef int next_field = 0
    if c != c'{':
        return wrong(p, node, "an object is needed")
    if depth >= JSON_DEPTH_MAX:
        return json_bad(s, "nested more than 1000 deep")
    if not column_mark(node.column, row):
        return False
    s.at += 1
    if json_peek(s) == c'}':
        s.at += 1
        return complete(p, node, row)
    while True:
        if not json_string(s):
            return False
        field = field_of(p, node, &next_field)
        if not json_take(s, c':', "':' is missing"):
            return False
        if not (json_skip(s, depth + 1) if field == NULL else read_value(p, field, row, depth + 1)):
            return False
        if json_peek(s) != c',':
            return json_take(s, c'}', "',' or '}' is missing") and complete(p, node, row)
        s.at += 1


cdef bint read_value(Parsing *p, const Node *node, int64_t row, int depth) noexcept nogil:
    cdef int c = json_peek(&p.scan)
    cdef int kind = node.kind
    if column_is_set(node.column, row):
        column_clear(node.column, row)  # a name that comes twice: the last one counts
    if c == c'n':
        return json_literal(&p.scan, "null", 4)
    if kind == J_STRING:
        return read_string(p, node, row, c)
    if kind == J_INTEGER:
        return read_integer(p, node, row, c)
    if kind == J_DOUBLE or kind == J_FLOAT:
        return read_float(p, node, row, c)
    if kind == J_BOOLEAN:
        return read_boolean(p, node, row, c)
    if kind == J_STRUCT:
        return read_struct(p, node, row, c, depth)
    if kind == J_LIST or kind == J_MAP:
        return read_items(p, node, row, c, depth)
    if kind == J_BINARY:
        return read_binary(p, node, row, c)
    if kind == J_DECIMAL:
        return read_decimal(p, node, row, c)
    return read_temporal(p, node, row, c)


cdef bint read_record(Parsing *p, const Node *root, int64_t row) noexcept nogil:
    cdef Scan *s = &p.scan
    p.where = -1
    if json_peek(s) == 0 and s.at >= s.end:
        return json_bad(s, "empty")
    if not read_value(p, root, row, 0):
        return False
    if json_peek(s) != 0 or s.at < s.end:
        return json_bad(s, "text follows the value")
    return True

# ---------------------------------------------------------------- for Python


cdef class JsonDecoder(Decoder):
    """Decodes arrays of JSON objects.

    Args:
        columns, framed: see Decoder.
        plan: (kind, name, path, most, least, precision, scale, units per second, required, [plans of the parts]),
            parallel to the columns.
    """

    def __cinit__(self, tuple columns, bint framed, tuple plan):
        self.root = self.make(plan, self.columns.root)

    def __dealloc__(self):
        free(self.parsing.scan.text)

    cdef Node *make(self, tuple plan, Column *column) except NULL:
        cdef Node *node = <Node *>self.room(sizeof(Node))
        (node.kind, name, path, node.most, node.least, node.precision, node.scale, node.per_second,
         node.required, parts) = plan
        node.name = self.text(name)
        node.path = self.path(path or "the value")
        node.column = column
        node.fields = <Node **>self.room(len(parts) * sizeof(Node *))
        for part in parts:
            # Keys of maps need no plan.
            node.fields[node.n_fields] = self.make(
                part, column.children[1 if node.kind == J_MAP else node.n_fields])
            node.has_required = node.has_required or node.fields[node.n_fields].required
            node.n_fields += 1
        return node

    cdef bint value(self, Reading *r, int64_t row) noexcept nogil:
        cdef Scan *s = &self.parsing.scan
        s.begin, s.at, s.end, s.fault = r.begin, r.at, r.end, NULL
        if read_record(&self.parsing, self.root, row):
            return True
        r.at, r.fault, r.where = s.at, s.fault, self.parsing.where
        return False

    cdef str message(self, const Reading *r):
        # The error says what is needed: "an integer is needed for id".
        text = f"at byte {r.at - r.begin}: {r.fault.decode()}"
        return text if r.where < 0 else f"{text} for {self.paths[r.where]}"

    def decode(self, Input values):
        """As Decoder.decode(). Frees the memory for strings with escapes after each array."""
        try:
            return Decoder.decode(self, values)
        finally:
            free(self.parsing.scan.text)
            self.parsing.scan.text = NULL
            self.parsing.scan.text_capacity = 0
