"""Columns into Avro's binary encoding."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from bowstring._native.json_number cimport int128
from bowstring._native.value_source cimport (
    Out, Source, Sources, encoded, out_byte, out_put, out_room, source_boolean, source_bytes, source_fixed,
    source_integer, source_is_null, source_items)
from bowstring._native.varint cimport put_varint

cdef enum Kind:  # as in avro_decode.pyx
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

cdef enum Target:
    TO_SAME = 0
    TO_CHOICE = 1       # of a union: a struct with a field for each type
    TO_DECIMAL = 3

cdef enum:
    VARLONG_BYTES = 10

ctypedef struct Node:
    int kind
    int target
    int path
    int size
    int null_branch         # of a union, -1 if it has none
    int n_parts
    Node **parts
    int *branches           # of a union: which branch each part is
    int n_symbols
    const uint8_t **symbols
    int64_t *symbol_sizes

ctypedef struct Writing:
    Out out
    const char *fault
    int where


cdef bint bad(Writing *w, const Node *node, const char *why) noexcept nogil:
    w.fault = why
    w.where = node.path
    return False


cdef inline bint put_long(Writing *w, int64_t value) noexcept nogil:
    if not out_room(&w.out, VARLONG_BYTES):
        return False
    w.out.used = put_varint(w.out.data + w.out.used, value) - w.out.data
    return True


cdef bint put_decimal(Writing *w, const Node *node, const uint8_t *at) noexcept nogil:
    """Two's complement, most significant byte first: as few bytes as do, or those of a fixed."""
    cdef int128 value
    cdef uint8_t[16] text
    cdef uint8_t sign
    cdef int i, start = 0, size = node.size
    memcpy(&value, at, 16)
    sign = 0xff if value < 0 else 0
    for i in range(16):
        text[15 - i] = <uint8_t>(value >> (8 * i))
    while start < 15 and text[start] == sign and (text[start + 1] ^ sign) < 0x80:
        start += 1
    if node.kind == A_BYTES:
        return put_long(w, 16 - start) and out_put(&w.out, &text[start], 16 - start)
    if 16 - start > size:
        return bad(w, node, "a decimal has too many digits for its fixed size")
    while size > 16:
        if not out_byte(&w.out, sign):
            return False
        size -= 1
    return out_put(&w.out, &text[16 - size], size)


cdef bint put_enum(Writing *w, const Node *node, const uint8_t *at, int64_t size) noexcept nogil:
    cdef int i
    for i in range(node.n_symbols):
        if node.symbol_sizes[i] == size and memcmp(node.symbols[i], at, size) == 0:
            return put_long(w, i)
    return bad(w, node, "no symbol of the enum")


cdef bint put_leaf(Writing *w, const Node *node, const Source *source, int64_t row) noexcept nogil:
    cdef int kind = node.kind
    cdef int64_t size = 0
    cdef const uint8_t *at
    if node.target == TO_DECIMAL:
        return put_decimal(w, node, source_fixed(source, row))
    if kind == A_INT or kind == A_LONG:
        return put_long(w, source_integer(source, row))
    if kind == A_FLOAT or kind == A_DOUBLE or kind == A_FIXED:
        return out_put(&w.out, source_fixed(source, row), source.width)
    if kind == A_BOOLEAN:
        return out_byte(&w.out, 1 if source_boolean(source, row) else 0)
    at = source_bytes(source, row, &size)
    if kind == A_ENUM:
        return put_enum(w, node, at, size)
    return put_long(w, size) and out_put(&w.out, at, size)


cdef bint put_items(Writing *w, const Node *node, const Source *source, int64_t row) noexcept nogil:
    cdef bint is_map = node.kind == A_MAP
    cdef int64_t count = 0, size = 0
    cdef int64_t first = source_items(source, row, &count), item
    cdef const uint8_t *key
    if count > 0 and not put_long(w, count):
        return False
    for item in range(first, first + count):
        if is_map:
            key = source_bytes(source.children[0], item, &size)
            if not put_long(w, size) or not out_put(&w.out, key, size):
                return False
        if not put_value(w, node.parts[0], source.children[1 if is_map else 0], item):
            return False
    return out_byte(&w.out, 0)


cdef bint put_union(Writing *w, const Node *node, const Source *source, int64_t row) noexcept nogil:
    cdef int i
    if not source_is_null(source, row):
        if node.target != TO_CHOICE:
            return put_long(w, node.branches[0]) and put_value(w, node.parts[0], source, row)
        for i in range(node.n_parts):
            if not source_is_null(source.children[i], row):
                return put_long(w, node.branches[i]) and put_value(w, node.parts[i], source.children[i], row)
    if node.null_branch < 0:
        return bad(w, node, "null, which the schema does not allow")
    return put_long(w, node.null_branch)


cdef bint put_value(Writing *w, const Node *node, const Source *source, int64_t row) noexcept nogil:
    cdef int i
    if node.kind == A_UNION:
        return put_union(w, node, source, row)
    if node.kind == A_NULL:
        return True
    if source_is_null(source, row):
        return bad(w, node, "null, which the schema does not allow")
    if node.kind == A_RECORD:
        for i in range(node.n_parts):
            if not put_value(w, node.parts[i], source.children[i], row):
                return False
        return True
    if node.kind == A_ARRAY or node.kind == A_MAP:
        return put_items(w, node, source, row)
    return put_leaf(w, node, source, row)


cdef class AvroEncoder:
    """Encodes columns.

    Args:
        plan: (kind, target, path, size, branch of null, symbols, branches of the parts, [plans of the parts]).
        prefix: what every value begins with.
    """

    cdef Node *root
    cdef list kept
    cdef list paths
    cdef bytes prefix

    def __cinit__(self, tuple plan, bytes prefix):
        self.kept = []
        self.paths = []
        self.prefix = prefix
        self.root = self.make(plan)

    def __dealloc__(self):
        self.drop(self.root)

    cdef Node *make(self, tuple plan) except NULL:
        cdef Node *node = <Node *>PyMem_Calloc(1, sizeof(Node))
        cdef bytes held
        if node == NULL:
            raise MemoryError
        node.kind, node.target, path, node.size, node.null_branch, symbols, branches, parts = plan
        node.path = <int>len(self.paths)
        self.paths.append(path)
        node.parts = <Node **>PyMem_Calloc(len(parts) + 1, sizeof(Node *))
        node.branches = <int *>PyMem_Calloc(len(branches) + 1, sizeof(int))
        node.symbols = <const uint8_t **>PyMem_Calloc(len(symbols) + 1, sizeof(uint8_t *))
        node.symbol_sizes = <int64_t *>PyMem_Calloc(len(symbols) + 1, sizeof(int64_t))
        if node.parts == NULL or node.branches == NULL or node.symbols == NULL or node.symbol_sizes == NULL:
            self.drop(node)
            raise MemoryError
        for i, branch in enumerate(branches):
            node.branches[i] = branch
        for symbol in symbols:
            held = symbol
            self.kept.append(held)
            node.symbols[node.n_symbols] = held
            node.symbol_sizes[node.n_symbols] = len(held)
            node.n_symbols += 1
        for part in parts:
            node.parts[node.n_parts] = self.make(part)
            node.n_parts += 1
        return node

    cdef void drop(self, Node *node):
        cdef int i
        if node != NULL:
            for i in range(node.n_parts):
                self.drop(node.parts[i])
            PyMem_Free(node.parts)
            PyMem_Free(node.branches)
            PyMem_Free(node.symbols)
            PyMem_Free(node.symbol_sizes)
            PyMem_Free(node)

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
                    good = good and out_put(&w.out, prefix, prefix_size) and put_value(&w, self.root, columns.root, row)
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
        return None, None, f"row {row}, {self.paths[w.where] or 'the value'}: {w.fault.decode()}"
