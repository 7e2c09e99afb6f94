"""JSON values into columns by a plan: no Python object for a record, unless it is bad."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memset
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from bowstring._native.calendar cimport parse_date, parse_time, parse_timestamp
from bowstring._native.json_number cimport int128, number_double, text_decimal
from bowstring._native.json_scan cimport (
    JSON_DEPTH_MAX, Scan, json_bad, json_literal, json_number, json_peek, json_skip, json_string, json_take)
from bowstring._native.value_column cimport (
    Column, Columns, Input, column_add_item, column_begin_list, column_clear, column_is_set, column_mark,
    column_reserve, column_set8, column_set_bytes, column_set_fixed, column_set_long, rows_get)

cdef enum Kind:
    J_BOOLEAN = 0
    J_INTEGER = 1
    J_FLOAT = 2
    J_DOUBLE = 3
    J_STRING = 4
    J_BINARY = 5
    J_DECIMAL = 6
    J_DATE = 7
    J_TIME = 8
    J_TIMESTAMP = 9
    J_LIST = 10
    J_MAP = 11
    J_STRUCT = 12

ctypedef struct Node:
    int kind
    int path                # place in Decoder.paths
    Column *column
    const uint8_t *name
    int64_t name_size
    uint64_t most           # of integers: the largest, and the magnitude of the least
    uint64_t least
    int precision           # of decimals
    int scale
    int64_t per_second      # of times: units
    bint required
    bint has_required       # a field of this struct is
    int n_fields
    Node **fields

ctypedef struct Reading:
    Scan scan
    int where               # path of the field that is wrong, -1 if it is the value

# ---------------------------------------------------------------- parts of a value


cdef bint wrong(Reading *r, const Node *node, const char *needed) noexcept nogil:
    r.where = node.path
    return json_bad(&r.scan, needed)


cdef inline bint is_number(int c) noexcept nogil:
    return c == c'-' or c'0' <= c <= c'9'


cdef bint read_integer(Reading *r, const Node *node, int64_t row, int c) noexcept nogil:
    cdef Scan *s = &r.scan
    if not is_number(c):
        return wrong(r, node, "an integer is needed")
    if not json_number(s):
        return False
    if not s.integer:
        return wrong(r, node, "an integer is needed")
    if not s.fits or s.magnitude > (node.least if s.negative else node.most):
        return wrong(r, node, "an integer in the range of its type is needed")
    return column_set_long(
        node.column, row, <int64_t>(0 - s.magnitude if s.negative else s.magnitude))


cdef bint non_finite(Scan *s, double *value) noexcept nogil:
    """NaN, Infinity and -Infinity between quotes, as JSON has no numbers for them."""
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


cdef bint read_float(Reading *r, const Node *node, int64_t row, int c) noexcept nogil:
    cdef double value = 0
    cdef float single
    if c == c'"':
        if not json_string(&r.scan):
            return False
        if not non_finite(&r.scan, &value):
            return wrong(r, node, "a number is needed")
    elif not is_number(c):
        return wrong(r, node, "a number is needed")
    elif not json_number(&r.scan):
        return False
    elif not number_double(&r.scan, &value):
        return wrong(r, node, "a shorter number is needed")
    if node.kind == J_DOUBLE:
        return column_set_fixed(node.column, row, &value)
    single = <float>value
    return column_set_fixed(node.column, row, &single)


cdef bint read_boolean(Reading *r, const Node *node, int64_t row, int c) noexcept nogil:
    if c == c't':
        return json_literal(&r.scan, "true", 4) and column_set8(node.column, row, 1)
    if c == c'f':
        return json_literal(&r.scan, "false", 5) and column_set8(node.column, row, 0)
    return wrong(r, node, "true or false is needed")


cdef bint read_string(Reading *r, const Node *node, int64_t row, int c) noexcept nogil:
    if c != c'"':
        return wrong(r, node, "a string is needed")
    return json_string(&r.scan) and column_set_bytes(
        node.column, row, r.scan.string, r.scan.string_size)


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


cdef bint read_binary(Reading *r, const Node *node, int64_t row, int c) noexcept nogil:
    """Base64 (RFC 4648), of either alphabet, padded or not."""
    cdef Scan *s = &r.scan
    cdef int64_t i, size
    cdef uint8_t *out
    cdef int digit, bits = 0
    cdef uint64_t held = 0
    if c != c'"':
        return wrong(r, node, "a string of base64 is needed")
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
            # Three bytes come from four: the decoded never overtake the encoded.
            out[i - (i >> 2) - 1] = <uint8_t>(held >> bits)
    else:
        if size & 3 != 1 and not held & ((1 << bits) - 1):
            node.column.data_used -= size - size * 3 // 4
            node.column.offsets[row + 1] = <int32_t>node.column.data_used
            return True
    return wrong(r, node, "a string of base64 is needed")


cdef bint read_decimal(Reading *r, const Node *node, int64_t row, int c) noexcept nogil:
    cdef Scan *s = &r.scan
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
        return wrong(r, node, "a number is needed")
    if not text_decimal(text, size, node.precision, node.scale, &value):
        return wrong(r, node, "a number of no more digits than its type has is needed")
    return column_set_fixed(node.column, row, &value)


cdef bint read_temporal(Reading *r, const Node *node, int64_t row, int c) noexcept nogil:
    """A date, a time or a timestamp; a plain integer counts in the column's unit."""
    cdef Scan *s = &r.scan
    cdef int32_t days
    cdef int64_t seconds = 0, nanoseconds = 0
    cdef const uint8_t *at
    cdef bint good
    if c != c'"':
        return read_integer(r, node, row, c)
    if not json_string(s):
        return False
    if node.kind == J_DATE:
        if not parse_date(s.string, s.string_size, &days):
            return wrong(r, node, "a date (YYYY-MM-DD) is needed")
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
        return wrong(r, node, "a timestamp is needed" if node.kind == J_TIMESTAMP else "a time (HH:MM:SS) is needed")
    return column_set_long(
        node.column, row, seconds * node.per_second + nanoseconds // (1000000000 // node.per_second))

# ---------------------------------------------------------------- a value


cdef bint read_list(Reading *r, const Node *node, int64_t row, int c, int depth) noexcept nogil:
    cdef Scan *s = &r.scan
    cdef int64_t item
    if c != c'[':
        return wrong(r, node, "an array is needed")
    if not column_begin_list(node.column, row):
        return False
    s.at += 1
    if json_peek(s) == c']':
        s.at += 1
        return True
    while True:
        item = column_add_item(node.column, row)
        if item < 0 or not read_value(r, node.fields[0], item, depth + 1):
            return False
        if json_peek(s) != c',':
            return json_take(s, c']', "',' or ']' is missing")
        s.at += 1


cdef bint read_map(Reading *r, const Node *node, int64_t row, int c, int depth) noexcept nogil:
    cdef Scan *s = &r.scan
    cdef int64_t item
    if c != c'{':
        return wrong(r, node, "an object is needed")
    if not column_begin_list(node.column, row):
        return False
    s.at += 1
    if json_peek(s) == c'}':
        s.at += 1
        return True
    while True:
        item = column_add_item(node.column, row)
        if item < 0 or not json_string(s):
            return False
        if not column_set_bytes(node.column.children[0], item, s.string, s.string_size):
            return False
        if not json_take(s, c':', "':' is missing") or not read_value(r, node.fields[0], item, depth + 1):
            return False
        if json_peek(s) != c',':
            return json_take(s, c'}', "',' or '}' is missing")
        s.at += 1


cdef inline bint is_named(const Node *field, const Scan *s) noexcept nogil:
    return field.name_size == s.string_size and memcmp(field.name, s.string, s.string_size) == 0


cdef const Node *field_of(Reading *r, const Node *node, int *next_field) noexcept nogil:
    """The field whose name was taken last, NULL if nobody asked for it; fields mostly come in order."""
    cdef int i
    if next_field[0] < node.n_fields and is_named(node.fields[next_field[0]], &r.scan):
        next_field[0] += 1
        return node.fields[next_field[0] - 1]
    for i in range(node.n_fields):
        if is_named(node.fields[i], &r.scan):
            next_field[0] = i + 1
            return node.fields[i]
    return NULL


cdef inline bint complete(Reading *r, const Node *node, int64_t row) noexcept nogil:
    """Whether every field that may not be missing is there."""
    cdef int i
    if node.has_required:
        for i in range(node.n_fields):
            if node.fields[i].required and not column_is_set(node.fields[i].column, row):
                return wrong(r, node.fields[i], "a value is needed")
    return True


cdef bint read_struct(Reading *r, const Node *node, int64_t row, int c, int depth) noexcept nogil:
    cdef Scan *s = &r.scan
    cdef const Node *field
    cdef int next_field = 0
    if c != c'{':
        return wrong(r, node, "an object is needed")
    if depth >= JSON_DEPTH_MAX:
        return json_bad(s, "nested more than 1000 deep")
    if not column_mark(node.column, row):
        return False
    s.at += 1
    if json_peek(s) == c'}':
        s.at += 1
        return complete(r, node, row)
    while True:
        if not json_string(s):
            return False
        field = field_of(r, node, &next_field)
        if not json_take(s, c':', "':' is missing"):
            return False
        if not (json_skip(s, depth + 1) if field == NULL else read_value(r, field, row, depth + 1)):
            return False
        if json_peek(s) != c',':
            return json_take(s, c'}', "',' or '}' is missing") and complete(r, node, row)
        s.at += 1


cdef bint read_value(Reading *r, const Node *node, int64_t row, int depth) noexcept nogil:
    cdef int c = json_peek(&r.scan)
    cdef int kind = node.kind
    if column_is_set(node.column, row):
        column_clear(node.column, row)  # A name that comes twice: the last one counts.
    if c == c'n':
        return json_literal(&r.scan, "null", 4)
    if kind == J_STRING:
        return read_string(r, node, row, c)
    if kind == J_INTEGER:
        return read_integer(r, node, row, c)
    if kind == J_DOUBLE or kind == J_FLOAT:
        return read_float(r, node, row, c)
    if kind == J_BOOLEAN:
        return read_boolean(r, node, row, c)
    if kind == J_STRUCT:
        return read_struct(r, node, row, c, depth)
    if kind == J_LIST:
        return read_list(r, node, row, c, depth)
    if kind == J_MAP:
        return read_map(r, node, row, c, depth)
    if kind == J_BINARY:
        return read_binary(r, node, row, c)
    if kind == J_DECIMAL:
        return read_decimal(r, node, row, c)
    return read_temporal(r, node, row, c)


cdef bint read_record(Reading *r, const Node *root, int64_t row, const uint8_t *at, int64_t size, bint framed) noexcept nogil:
    cdef Scan *s = &r.scan
    r.where = -1
    s.fault = NULL
    s.begin = s.at = at
    s.end = at + size
    if framed:
        if size < 5 or at[0] != 0:
            return json_bad(s, "not framed as Confluent's serializers do: a zero byte and the schema's id come first")
        s.at += 5
    if json_peek(s) == 0 and s.at >= s.end:
        return json_bad(s, "empty")
    if not read_value(r, root, row, 0):
        return False
    if json_peek(s) != 0 or s.at < s.end:
        return json_bad(s, "something follows the value")
    return True

# ---------------------------------------------------------------- for Python


cdef class JsonDecoder:
    """Decodes arrays of JSON objects.

    Args:
        columns: the description of the columns (see value_column.Columns).
        plan: (kind, name, path, most, least, precision, scale, units per second, required, [plans of the parts]),
            parallel to the columns.
        framed: values begin with a zero byte and a schema's id.
    """

    cdef Columns columns
    cdef Node *root
    cdef list kept
    cdef list paths
    cdef bint framed

    def __cinit__(self, tuple columns, tuple plan, bint framed):
        self.columns = Columns(columns)
        self.kept = []
        self.paths = []
        self.framed = framed
        self.root = self.make(plan, self.columns.root)

    def __dealloc__(self):
        self.drop(self.root)

    cdef Node *make(self, tuple plan, Column *column) except NULL:
        cdef Node *node = <Node *>PyMem_Calloc(1, sizeof(Node))
        cdef bytes name
        if node == NULL:
            raise MemoryError
        (node.kind, name, path, node.most, node.least, node.precision, node.scale, node.per_second,
         node.required, parts) = plan
        self.kept.append(name)
        node.name, node.name_size = name, len(name)
        node.path = <int>len(self.paths)
        self.paths.append(path)
        node.column = column
        node.fields = <Node **>PyMem_Calloc(max(1, len(parts)), sizeof(Node *))
        if node.fields == NULL:
            PyMem_Free(node)
            raise MemoryError
        for part in parts:
            # The keys of a map have no plan.
            node.fields[node.n_fields] = self.make(
                part, column.children[1 if node.kind == J_MAP else node.n_fields])
            node.has_required = node.has_required or node.fields[node.n_fields].required
            node.n_fields += 1
        return node

    cdef void drop(self, Node *node):
        cdef int i
        if node != NULL:
            for i in range(node.n_fields):
                self.drop(node.fields[i])
            PyMem_Free(node.fields)
            PyMem_Free(node)

    cdef object message(self, const Reading *r):
        text = f"at byte {r.scan.at - r.scan.begin}: {r.scan.fault.decode()}"
        return text if r.where < 0 else f"{text} for {self.paths[r.where] or 'the value'}"

    def decode(self, Input values):
        """The columns as Columns.finish gives them, and [(row, what is wrong)]. Used by one thread at a time.

        OverflowError: strings of 2 GiB or lists of 2**31 items in one column.
        """
        cdef Reading r
        cdef int64_t row, size = 0, rows = values.rows.count
        cdef const uint8_t *at = NULL
        cdef bint good
        errors = []
        memset(&r, 0, sizeof(Reading))
        try:
            if not column_reserve(self.columns.root, rows):
                raise MemoryError
            with nogil:
                for row in range(rows):
                    if not rows_get(&values.rows, row, &at, &size):
                        continue
                    good = read_record(&r, self.root, row, at, size, self.framed)
                    if not good:
                        column_clear(self.columns.root, row)
                        with gil:
                            if r.scan.fault == NULL:
                                raise OverflowError
                            errors.append((row, self.message(&r)))
        except BaseException:
            self.columns.finish(0)
            raise
        finally:
            free(r.scan.text)
        return self.columns.finish(rows), errors
