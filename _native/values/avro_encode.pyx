"""Encodes columns in Avro's binary encoding."""
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy
from bowstring._native.values.avro_kinds cimport (
    A_ARRAY, A_BOOLEAN, A_BYTES, A_DOUBLE, A_ENUM, A_FIXED, A_FLOAT, A_INT, A_LONG, A_MAP, A_NULL, A_RECORD, A_UNION,
    TO_CHOICE, TO_DECIMAL)
from bowstring._native.values.decimal cimport int128
from bowstring._native.values.encoder cimport (
    Encoder, Out, Source, out_bad, out_byte, out_put, out_uvarint, source_boolean, source_bytes, source_fixed,
    source_integer, source_is_null, source_items)
from bowstring._native.values.plan cimport Text, text_find
from bowstring._native.base.varint cimport zigzag

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
    Text *symbols


cdef inline bint put_long(Out *out, int64_t value) noexcept nogil:
    return out_uvarint(out, zigzag(value))


cdef bint put_decimal(Out *out, const Node *node, const uint8_t *at) noexcept nogil:
    """Writes two's complement, most significant byte first: as few bytes as needed, or all of a fixed."""
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
        return put_long(out, 16 - start) and out_put(out, &text[start], 16 - start)
    if 16 - start > size:
        return out_bad(out, node.path, "a decimal has too many digits for its fixed size")
    while size > 16:
        if not out_byte(out, sign):
            return False
        size -= 1
    return out_put(out, &text[16 - size], size)


cdef bint put_enum(Out *out, const Node *node, const uint8_t *at, int64_t size) noexcept nogil:
    cdef int symbol = text_find(node.symbols, node.n_symbols, at, size)
    return put_long(out, symbol) if symbol >= 0 else out_bad(out, node.path, "the text is not a symbol of the enum")


cdef bint put_leaf(Out *out, const Node *node, const Source *source, int64_t row) noexcept nogil:
    cdef int kind = node.kind
    cdef int64_t size = 0
    cdef const uint8_t *at
    if node.target == TO_DECIMAL:
        return put_decimal(out, node, source_fixed(source, row))
    if kind == A_INT or kind == A_LONG:
        return put_long(out, source_integer(source, row))
    if kind == A_FLOAT or kind == A_DOUBLE or kind == A_FIXED:
        return out_put(out, source_fixed(source, row), source.width)
    if kind == A_BOOLEAN:
        return out_byte(out, 1 if source_boolean(source, row) else 0)
    at = source_bytes(source, row, &size)
    if kind == A_ENUM:
        return put_enum(out, node, at, size)
    return put_long(out, size) and out_put(out, at, size)


cdef bint put_items(Out *out, const Node *node, const Source *source, int64_t row) noexcept nogil:
    cdef bint is_map = node.kind == A_MAP
    cdef int64_t count = 0, size = 0
    cdef int64_t first = source_items(source, row, &count), item
    cdef const uint8_t *key
    if count > 0 and not put_long(out, count):
        return False
    for item in range(first, first + count):
        if is_map:
            key = source_bytes(source.children[0], item, &size)
            if not put_long(out, size) or not out_put(out, key, size):
                return False
        if not put_value(out, node.parts[0], source.children[1 if is_map else 0], item):
            return False
    return out_byte(out, 0)


cdef bint put_union(Out *out, const Node *node, const Source *source, int64_t row) noexcept nogil:
    cdef int i
    if not source_is_null(source, row):
        if node.target != TO_CHOICE:
            return put_long(out, node.branches[0]) and put_value(out, node.parts[0], source, row)
        for i in range(node.n_parts):
            if not source_is_null(source.children[i], row):
                return put_long(out, node.branches[i]) and put_value(out, node.parts[i], source.children[i], row)
    if node.null_branch < 0:
        return out_bad(out, node.path, "null, which the schema does not allow")
    return put_long(out, node.null_branch)


cdef bint put_value(Out *out, const Node *node, const Source *source, int64_t row) noexcept nogil:
    cdef int i
    if node.kind == A_UNION:
        return put_union(out, node, source, row)
    if node.kind == A_NULL:
        return True
    if source_is_null(source, row):
        return out_bad(out, node.path, "null, which the schema does not allow")
    if node.kind == A_RECORD:
        for i in range(node.n_parts):
            if not put_value(out, node.parts[i], source.children[i], row):
                return False
        return True
    if node.kind == A_ARRAY or node.kind == A_MAP:
        return put_items(out, node, source, row)
    return put_leaf(out, node, source, row)


cdef class AvroEncoder(Encoder):
    """Encodes columns.

    Args:
        prefix: see Encoder.
        plan: (kind, target, path, size, branch of null, symbols, branches of the parts, [plans of the parts]).
    """

    cdef Node *root

    def __cinit__(self, bytes prefix, tuple plan):
        self.root = self.make(plan)

    cdef Node *make(self, tuple plan) except NULL:
        cdef Node *node = <Node *>self.room(sizeof(Node))
        cdef int i
        node.kind, node.target, path, node.size, node.null_branch, symbols, branches, parts = plan
        node.path = self.path(path)
        node.symbols, node.n_symbols = self.texts(list(enumerate(symbols))), <int>len(symbols)
        node.branches = <int *>self.room(len(branches) * sizeof(int))
        for i, branch in enumerate(branches):
            node.branches[i] = branch
        node.parts = <Node **>self.room(len(parts) * sizeof(Node *))
        for part in parts:
            node.parts[node.n_parts] = self.make(part)
            node.n_parts += 1
        return node

    cdef bint value(self, Out *out, const Source *source, int64_t row) noexcept nogil:
        return put_value(out, self.root, source, row)
