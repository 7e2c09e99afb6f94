"""Avro's binary encoding into columns: the writer's schema leads, columns are those of the reader's.

A plan is made of the writer's schema; its parts that the reader does not have are read over. No Python object is made for
a value, unless it is bad.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from bowstring._native.bigendian cimport load_be32
from bowstring._native.json_number cimport int128
from bowstring._native.utf8 cimport utf8_valid
from bowstring._native.value_column cimport (
    Column, Columns, Input, column_add_item, column_begin_list, column_clear, column_mark, column_reserve, column_set8,
    column_set_bytes, column_set_fixed, column_set_long, rows_get)

cdef enum Kind:
    A_NULL = 0
    A_BOOLEAN = 1
    A_INT = 2
    A_LONG = 3
    A_FLOAT = 4
    A_DOUBLE = 5
    A_BYTES = 6
    A_STRING = 7
    A_FIXED = 8
    A_ENUM = 9
    A_ARRAY = 10
    A_MAP = 11
    A_RECORD = 12
    A_UNION = 13
    A_DEFAULT = 14          # not in the value: `text` is the encoded value of a field that only the reader has
    A_WRONG = 15            # the reader has nothing for it

cdef enum Target:
    TO_SAME = 0
    TO_FLOAT = 1
    TO_DOUBLE = 2
    TO_DECIMAL = 3

cdef enum:
    FRAME_BYTES = 5
    EMPTY_ITEMS_MAX = 1 << 20   # items that take no bytes, in one value: what else would bound them

ctypedef struct Node:
    int kind
    int target
    int path
    int size                # of fixed; of times of day: units per second
    int128 limit            # of decimals: 10 to the power of the precision
    Column *column          # NULL: read over
    const uint8_t *text     # of A_DEFAULT
    int64_t text_size
    int n_parts
    Node **parts
    int n_symbols
    const uint8_t **symbols
    int32_t *symbol_sizes

ctypedef struct Reading:
    const uint8_t *begin
    const uint8_t *at
    const uint8_t *end
    const char *fault
    int where
    int64_t empty_items

# ---------------------------------------------------------------- primitives


cdef bint bad(Reading *r, const Node *node, const char *why) noexcept nogil:
    r.fault = why
    r.where = node.path
    return False


cdef inline bint get_long(Reading *r, const Node *node, int64_t *value) noexcept nogil:
    cdef uint64_t total = 0
    cdef int shift = 0
    cdef uint8_t byte
    while shift < 70:
        if r.at >= r.end:
            return bad(r, node, "the value ends too soon")
        byte = r.at[0]
        r.at += 1
        total |= <uint64_t>(byte & 0x7f) << shift
        if byte < 0x80:
            value[0] = <int64_t>(total >> 1) ^ -<int64_t>(total & 1)
            return True
        shift += 7
    return bad(r, node, "a number has more than ten bytes")


cdef inline bint get_size(Reading *r, const Node *node, int64_t *size) noexcept nogil:
    """The length of what follows, which is all there."""
    if not get_long(r, node, size):
        return False
    if size[0] < 0 or size[0] > r.end - r.at:
        return bad(r, node, "a length goes beyond the value")
    return True


cdef inline bint has(Reading *r, const Node *node, int64_t size) noexcept nogil:
    return r.end - r.at >= size or bad(r, node, "the value ends too soon")


cdef bint set_number(const Node *node, int64_t row, int64_t value) noexcept nogil:
    """An int or long into a column of integers, or of floats it is promoted to."""
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
        return bad(r, node, "an int has more than 32 bits")
    if node.column == NULL:
        return True
    if node.size > 0 and (value < 0 or value >= <int64_t>86400 * node.size):
        return bad(r, node, "a time of day beyond 24 hours")
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
        return bad(r, node, "a decimal has too many digits")
    for i in range(size):
        value = value << 8 | at[i]
    if value >= node.limit or value <= -node.limit:
        return bad(r, node, "a decimal has too many digits")
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
        return bad(r, node, "not UTF-8")
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
    if symbol < 0 or symbol >= node.n_symbols or node.symbol_sizes[symbol] < 0:
        return bad(r, node, "no such symbol")
    return node.column == NULL or column_set_bytes(
        node.column, row, node.symbols[symbol], node.symbol_sizes[symbol])


cdef bint read_boolean(Reading *r, const Node *node, int64_t row) noexcept nogil:
    if not has(r, node, 1):
        return False
    r.at += 1
    if (r.at - 1)[0] > 1:
        return bad(r, node, "a boolean is neither 0 nor 1")
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
            return bad(r, node, "a key is not UTF-8")
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
                return bad(r, node, "a block is larger than the value")
            if node.column == NULL:
                r.at += size
                continue
            count = -count
        if count > r.end - r.at:
            r.empty_items += count
            if count > EMPTY_ITEMS_MAX or r.empty_items > EMPTY_ITEMS_MAX:
                return bad(r, node, "more items than the value has bytes for")
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
        return bad(r, node, "a union has no such branch")
    if node.column != NULL and node.parts[branch].kind != A_NULL and not column_mark(node.column, row):
        return False
    return read_value(r, node.parts[branch], row)


cdef bint read_default(Reading *r, const Node *node, int64_t row) noexcept nogil:
    cdef const uint8_t *at = r.at
    cdef const uint8_t *end = r.end
    cdef bint good
    r.at, r.end = node.text, node.text + node.text_size
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
        return bad(r, node, "the reader's schema has no such type")
    return read_items(r, node, row)

# ---------------------------------------------------------------- for Python


def frame_ids(Input values):
    """The schema ids of values that are framed as Confluent's serializers do."""
    cdef int64_t row, size = 0
    cdef const uint8_t *at = NULL
    cdef int64_t last = -1, found
    ids = set()
    for row in range(values.rows.count):
        if rows_get(&values.rows, row, &at, &size) and size >= FRAME_BYTES and at[0] == 0:
            found = <uint32_t>load_be32(at + 1)
            if found != last:
                last = found
                ids.add(found)
    return ids


cdef class AvroDecoder:
    """Decodes arrays of Avro values.

    Args:
        columns: the description of the reader's columns (see value_column.Columns).
        framed: values begin with a zero byte and a schema's id.
        any_id: the id is not looked at.
    """

    cdef Columns columns
    cdef Node *plans[256]
    cdef int64_t[256] ids
    cdef int n_plans
    cdef list kept
    cdef list paths
    cdef bint framed
    cdef bint any_id

    def __cinit__(self, tuple columns, bint framed, bint any_id):
        self.columns = Columns(columns)
        self.kept = []
        self.paths = []
        self.framed = framed
        self.any_id = any_id

    def __dealloc__(self):
        cdef int i
        for i in range(self.n_plans):
            self.drop(self.plans[i])

    def add(self, int64_t schema_id, tuple plan):
        """Adds the plan of a writer's schema: (kind, place, target, path, size, limit, text, symbols, [parts]).

        `place` is the column's among those of the part around it, -1 for the same column, -2 if it is read
        over; a symbol is None if the reader does not have it.
        """
        if self.n_plans == 256:
            raise ValueError("256 schemas are the most that one decoder knows")
        self.ids[self.n_plans] = schema_id
        self.plans[self.n_plans] = self.make(plan, self.columns.root)
        self.n_plans += 1

    cdef Node *make(self, tuple plan, Column *around) except NULL:
        cdef Node *node = <Node *>PyMem_Calloc(1, sizeof(Node))
        cdef Column *column
        cdef bytes held
        cdef int i
        if node == NULL:
            raise MemoryError
        (node.kind, place, node.target, path, node.size, precision, text, symbols, parts) = plan
        column = NULL if place == -2 or around == NULL else around if place == -1 else around.children[place]
        # The branches of a union that is one column write into that column; the union itself marks nothing.
        node.column = NULL if node.kind == A_UNION and node.target == TO_SAME else column
        node.path = <int>len(self.paths)
        self.paths.append(path)
        node.limit = 1
        for i in range(precision):
            node.limit *= 10
        held = text
        self.kept.append(held)
        node.text, node.text_size = held, len(held)
        node.symbols = <const uint8_t **>PyMem_Calloc(len(symbols) + 1, sizeof(uint8_t *))
        node.symbol_sizes = <int32_t *>PyMem_Calloc(len(symbols) + 1, sizeof(int32_t))
        node.parts = <Node **>PyMem_Calloc(len(parts) + 1, sizeof(Node *))
        if node.symbols == NULL or node.symbol_sizes == NULL or node.parts == NULL:
            self.drop(node)
            raise MemoryError
        for symbol in symbols:
            held = symbol or b""
            self.kept.append(held)
            node.symbols[node.n_symbols] = held
            node.symbol_sizes[node.n_symbols] = -1 if symbol is None else <int32_t>len(held)
            node.n_symbols += 1
        for part in parts:
            node.parts[node.n_parts] = self.make(part, column)
            node.n_parts += 1
        return node

    cdef void drop(self, Node *node):
        cdef int i
        if node != NULL:
            for i in range(node.n_parts):
                self.drop(node.parts[i])
            PyMem_Free(node.parts)
            PyMem_Free(node.symbols)
            PyMem_Free(node.symbol_sizes)
            PyMem_Free(node)

    cdef Node *plan_of(self, int64_t schema_id) noexcept nogil:
        cdef int i
        for i in range(self.n_plans):
            if self.ids[i] == schema_id:
                return self.plans[i]
        return NULL

    cdef bint value(self, Reading *r, int64_t row, const uint8_t *at, int64_t size) noexcept nogil:
        cdef Node *plan = self.plans[0]
        r.begin = r.at = at
        r.end = at + size
        r.fault = NULL
        r.where = -1
        r.empty_items = 0
        if self.framed:
            if size < FRAME_BYTES or at[0] != 0:
                r.fault = "not framed as Confluent's serializers do: a zero byte and the schema's id come first"
                return False
            r.at += FRAME_BYTES
            if not self.any_id:
                plan = self.plan_of(<uint32_t>load_be32(at + 1))
            if plan == NULL:
                r.fault = "no schema is known for the value's schema id"
                return False
        if not read_value(r, plan, row):
            return False
        if r.at < r.end:
            r.fault = "something follows the value: it was written with another schema"
            return False
        return True

    cdef object message(self, const Reading *r):
        text = f"at byte {r.at - r.begin}: {r.fault.decode()}"
        return text if r.where < 0 or not self.paths[r.where] else f"{text} in {self.paths[r.where]}"

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
                    good = self.value(&r, row, at, size)
                    if not good:
                        column_clear(self.columns.root, row)
                        with gil:
                            if r.fault == NULL:
                                raise OverflowError
                            errors.append((row, self.message(&r)))
        except BaseException:
            self.columns.finish(0)
            raise
        return self.columns.finish(rows), errors
