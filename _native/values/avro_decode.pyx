"""Decodes Avro's binary encoding into columns: follows the writer's schema and fills the columns of the reader's.

A plan is built from the writer's schema; parts that the reader does not have are skipped. No Python object is created for
a value, unless it is bad.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from bowstring._native.values.avro_kinds cimport (
    A_BOOLEAN, A_BYTES, A_DEFAULT, A_DOUBLE, A_ENUM, A_FIXED, A_FLOAT, A_INT, A_LONG, A_MAP, A_NULL, A_RECORD, A_STRING,
    A_UNION, A_WRONG, TO_DECIMAL, TO_DOUBLE, TO_FLOAT, TO_SAME)
from bowstring._native.base.bigendian cimport load_be32
from bowstring._native.values.decimal cimport int128
from bowstring._native.values.utf8 cimport utf8_valid
from bowstring._native.values.column cimport (
    Column, column_add_item, column_begin_list, column_mark, column_set8, column_set_bytes, column_set_fixed,
    column_set_long)
from bowstring._native.values.decoder cimport Decoder, Reading, bad, read_uvarint
from bowstring._native.values.plan cimport Text
from bowstring._native.base.varint cimport unzigzag

cdef enum:
    SCHEMAS_MAX = 256
    EMPTY_ITEMS_MAX = 1 << 20   # in one value: nothing else bounds items that take no bytes

ctypedef struct Node:
    int kind
    int target
    int path
    int size                # of fixed; of times of day: units per second
    int128 limit            # of decimals: 10 to the power of the precision
    Column *column          # NULL: the value is skipped
    Text text               # of A_DEFAULT
    int n_parts
    Node **parts
    int n_symbols
    Text *symbols

# ---------------------------------------------------------------- primitives


cdef inline bint get_long(Reading *r, const Node *node, int64_t *value) noexcept nogil:
    cdef uint64_t raw = 0
    if not read_uvarint(r, r.end, node.path, &raw):
        return False
    value[0] = unzigzag(raw)
    return True


cdef inline bint get_size(Reading *r, const Node *node, int64_t *size) noexcept nogil:
    """Reads the length of what follows, and checks that so many bytes follow."""
    if not get_long(r, node, size):
        return False
    if size[0] < 0 or size[0] > r.end - r.at:
        return bad(r, node.path, "a length exceeds the value")
    return True


cdef inline bint has(Reading *r, const Node *node, int64_t size) noexcept nogil:
    return r.end - r.at >= size or bad(r, node.path, "the value is truncated")


cdef bint set_number(const Node *node, int64_t row, int64_t value) noexcept nogil:
    """Decodes an int or long into a column of integers, or of floats if it is promoted."""
    cdef float single
    cdef double real
    if node.target == TO_SAME:
        return column_set_long(node.column, row, value)
    if node.target == TO_FLOAT:
        single = <float>value
        return column_set_fixed(node.column, row, &single)
    real = <double>value
    return column_set_fixed(node.column, row, &real)


cdef bint read_integer(Reading *r, const Node *node, int64_t row) noexcept nogil:
    cdef int64_t value = 0
    if not get_long(r, node, &value):
        return False
    if node.kind == A_INT and value != <int32_t>value:
        return bad(r, node.path, "an int has more than 32 bits")
    if node.column == NULL:
        return True
    if node.size > 0 and (value < 0 or value >= <int64_t>86400 * node.size):
        return bad(r, node.path, "a time of day exceeds 24 hours")
    return set_number(node, row, value)


cdef bint read_real(Reading *r, const Node *node, int64_t row) noexcept nogil:
    cdef int size = 4 if node.kind == A_FLOAT else 8
    cdef float single
    cdef double real
    if not has(r, node, size):
        return False
    r.at += size
    if node.column == NULL:
        return True
    if node.target != TO_DOUBLE:
        return column_set_fixed(node.column, row, r.at - size)
    memcpy(&single, r.at - size, 4)
    real = single
    return column_set_fixed(node.column, row, &real)


cdef bint set_decimal(Reading *r, const Node *node, int64_t row, const uint8_t *at, int64_t size) noexcept nogil:
    """A two's complement number, most significant byte first."""
    cdef int128 value = -1 if size > 0 and at[0] & 0x80 else 0
    cdef int64_t i
    cdef uint8_t sign = 0xff if value < 0 else 0
    while size > 16 and at[0] == sign:
        at += 1
        size -= 1
    if size > 16:
        return bad(r, node.path, "a decimal has too many digits")
    for i in range(size):
        value = value << 8 | at[i]
    if value >= node.limit or value <= -node.limit:
        return bad(r, node.path, "a decimal has too many digits")
    return column_set_fixed(node.column, row, &value)


cdef bint read_bytes(Reading *r, const Node *node, int64_t row) noexcept nogil:
    """Bytes, strings and fixed."""
    cdef int64_t size = node.size
    cdef const uint8_t *at
    if not (has(r, node, size) if node.kind == A_FIXED else get_size(r, node, &size)):
        return False
    at = r.at
    r.at += size
    if node.kind == A_STRING and not utf8_valid(at, size):
        return bad(r, node.path, "not UTF-8")
    if node.column == NULL:
        return True
    if node.target == TO_DECIMAL:
        return set_decimal(r, node, row, at, size)
    if node.kind == A_FIXED and node.column.width > 0:
        return column_set_fixed(node.column, row, at)
    return column_set_bytes(node.column, row, at, size)


cdef bint read_enum(Reading *r, const Node *node, int64_t row) noexcept nogil:
    cdef int64_t symbol = 0
    if not get_long(r, node, &symbol):
        return False
    if symbol < 0 or symbol >= node.n_symbols or node.symbols[symbol].size < 0:
        return bad(r, node.path, "the enum has no symbol of this number")
    return node.column == NULL or column_set_bytes(
        node.column, row, node.symbols[symbol].at, node.symbols[symbol].size)


cdef bint read_boolean(Reading *r, const Node *node, int64_t row) noexcept nogil:
    if not has(r, node, 1):
        return False
    r.at += 1
    if (r.at - 1)[0] > 1:
        return bad(r, node.path, "a boolean is neither 0 nor 1")
    return node.column == NULL or column_set8(node.column, row, (r.at - 1)[0])

# ---------------------------------------------------------------- what has parts


cdef bint read_item(Reading *r, const Node *node, int64_t row) noexcept nogil:
    """An item of an array or an entry of a map."""
    cdef int64_t item = 0, size = 0
    cdef const uint8_t *key
    if node.column != NULL:
        item = column_add_item(node.column, row)
        if item < 0:
            return False
    if node.kind == A_MAP:
        if not get_size(r, node, &size):
            return False
        key = r.at
        r.at += size
        if not utf8_valid(key, size):
            return bad(r, node.path, "a key is not UTF-8")
        if node.column != NULL and not column_set_bytes(node.column.children[0], item, key, size):
            return False
    return read_value(r, node.parts[0], item)


cdef bint read_items(Reading *r, const Node *node, int64_t row) noexcept nogil:
    """An array or a map: blocks of items, the last with none."""
    cdef int64_t count = 0, size = 0
    if node.column != NULL and not column_begin_list(node.column, row):
        return False
    while True:
        if not get_long(r, node, &count):
            return False
        if count == 0:
            return True
        if count < 0:
            if count == -count or not get_size(r, node, &size):
                return bad(r, node.path, "a block exceeds the value")
            if node.column == NULL:
                r.at += size
                continue
            count = -count
        if count > r.end - r.at:
            r.empty_items += count
            if count > EMPTY_ITEMS_MAX or r.empty_items > EMPTY_ITEMS_MAX:
                return bad(r, node.path, "a block has more items than the value has bytes for")
        while count > 0:
            if not read_item(r, node, row):
                return False
            count -= 1


cdef bint read_record(Reading *r, const Node *node, int64_t row) noexcept nogil:
    cdef int i
    if node.column != NULL and not column_mark(node.column, row):
        return False
    for i in range(node.n_parts):
        if not read_value(r, node.parts[i], row):
            return False
    return True


cdef bint read_union(Reading *r, const Node *node, int64_t row) noexcept nogil:
    cdef int64_t branch = 0
    if not get_long(r, node, &branch):
        return False
    if branch < 0 or branch >= node.n_parts:
        return bad(r, node.path, "the union has no branch of this number")
    if node.column != NULL and node.parts[branch].kind != A_NULL and not column_mark(node.column, row):
        return False
    return read_value(r, node.parts[branch], row)


cdef bint read_default(Reading *r, const Node *node, int64_t row) noexcept nogil:
    cdef const uint8_t *at = r.at
    cdef const uint8_t *end = r.end
    cdef bint good
    r.at, r.end = node.text.at, node.text.at + node.text.size
    good = read_value(r, node.parts[0], row)
    r.at, r.end = at, end
    return good


cdef bint read_value(Reading *r, const Node *node, int64_t row) noexcept nogil:
    cdef int kind = node.kind
    if kind == A_UNION:
        return read_union(r, node, row)
    if kind == A_STRING or kind == A_BYTES or kind == A_FIXED:
        return read_bytes(r, node, row)
    if kind == A_LONG or kind == A_INT:
        return read_integer(r, node, row)
    if kind == A_DOUBLE or kind == A_FLOAT:
        return read_real(r, node, row)
    if kind == A_NULL:
        return True
    if kind == A_BOOLEAN:
        return read_boolean(r, node, row)
    if kind == A_RECORD:
        return read_record(r, node, row)
    if kind == A_ENUM:
        return read_enum(r, node, row)
    if kind == A_DEFAULT:
        return read_default(r, node, row)
    if kind == A_WRONG:
        return bad(r, node.path, "the reader's schema has no such type")
    return read_items(r, node, row)

# ---------------------------------------------------------------- for Python


cdef class AvroDecoder(Decoder):
    """Decodes arrays of Avro values.

    Args:
        columns, framed: see Decoder; the columns are the reader's.
        any_id: the schema id of values is ignored.
    """

    cdef Node *plans[SCHEMAS_MAX]
    cdef int64_t[SCHEMAS_MAX] ids
    cdef int n_plans
    cdef bint any_id

    def __cinit__(self, tuple columns, bint framed, bint any_id):
        self.any_id = any_id or not framed

    def add(self, int64_t schema_id, tuple plan):
        """Adds the plan of a writer's schema: (kind, place, target, path, size, limit, text, symbols, [parts]).

        `place` is the column's index in the enclosing part, -1 for the same column, -2 if the value is skipped; a
        symbol is None if the reader does not have it.
        """
        if self.n_plans == SCHEMAS_MAX:
            raise ValueError("one decoder can have at most 256 schemas")
        self.ids[self.n_plans] = schema_id
        self.plans[self.n_plans] = self.make(plan, self.columns.root)
        self.n_plans += 1

    cdef Node *make(self, tuple plan, Column *around) except NULL:
        cdef Node *node = <Node *>self.room(sizeof(Node))
        cdef Column *column
        cdef int i
        (node.kind, place, node.target, path, node.size, precision, text, symbols, parts) = plan
        column = NULL if place == -2 or around == NULL else around if place == -1 else around.children[place]
        # If a union is one column, its branches write into that column and the union itself sets nothing.
        node.column = NULL if node.kind == A_UNION and node.target == TO_SAME else column
        node.path = self.path(path)
        node.limit = 1
        for i in range(precision):
            node.limit *= 10
        node.text = self.text(text)
        node.symbols, node.n_symbols = self.texts(list(enumerate(symbols))), <int>len(symbols)
        node.parts = <Node **>self.room(len(parts) * sizeof(Node *))
        for part in parts:
            node.parts[node.n_parts] = self.make(part, column)
            node.n_parts += 1
        return node

    cdef Node *plan_of(self, int64_t schema_id) noexcept nogil:
        cdef int i
        for i in range(self.n_plans):
            if self.ids[i] == schema_id:
                return self.plans[i]
        return NULL

    cdef bint value(self, Reading *r, int64_t row) noexcept nogil:
        cdef Node *plan = self.plans[0] if self.any_id else self.plan_of(<uint32_t>load_be32(r.begin + 1))
        r.empty_items = 0
        if plan == NULL:
            return bad(r, -1, "no schema is known for the value's schema id")
        if not read_value(r, plan, row):
            return False
        return r.at >= r.end or bad(r, -1, "bytes follow the value: it was written with another schema")
