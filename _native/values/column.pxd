"""Columns that decoders of values fill, and the rows they decode from.

A row is null until it is set. Rows are set in ascending order, and missing rows cost nothing: their offsets are
filled in when a later row is set. column_clear() removes rows from the end, so that a bad value leaves no trace.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy
from bowstring._native.values.plan cimport Plan, Text

cdef enum Storage:
    STORE_NOTHING = 0   # structs: validity only
    STORE_BITS = 1      # booleans: a byte for each row, packed when finished
    STORE_FIXED = 2     # `width` bytes for each row
    STORE_BYTES = 3     # offsets and bytes
    STORE_LIST = 4      # offsets into the rows of children: one for a list, two for a map

ctypedef struct Column:
    int storage
    int width
    bint zeroed             # rows that are not set hold zero instead of null
    int64_t capacity        # rows
    int64_t touched         # one past the last row that may be set
    uint8_t *present        # a byte for each row
    uint8_t *data           # owned, as are present and offsets
    int64_t data_used       # of STORE_BYTES
    int64_t data_capacity
    int32_t *offsets
    int64_t filled          # offsets are valid up to the start of this row
    int64_t items           # of STORE_LIST: rows of the children
    bint keys_once          # of a map: only the last entry of each key stays, see map_keys.pxd
    Text zero               # of STORE_BYTES, if zeroed: the value of rows that are not set
    int n_children
    Column **children

# An Arrow array of binary values.
ctypedef struct Rows:
    int layout              # bytes of an offset: 4 or 8; 0 for views
    int64_t first
    int64_t count
    const uint8_t *validity
    const uint8_t *offsets  # or views
    const uint8_t *data
    const uint8_t **buffers
    int64_t skip            # bytes at the start of each value that are left out

cdef bint column_reserve(Column *column, int64_t rows) noexcept nogil
cdef void column_clear(Column *column, int64_t row) noexcept nogil
cdef bint column_fill(Column *column, int64_t row) noexcept nogil
cdef bint column_append(Column *column, const uint8_t *data, int64_t size) noexcept nogil


cdef inline bint column_mark(Column *column, int64_t row) noexcept nogil:
    """Sets a row; its value is still zero. This and all other functions return False when memory ran out."""
    if row >= column.capacity and not column_reserve(column, row + 1):
        return False
    column.present[row] = 1
    if row >= column.touched:
        column.touched = row + 1
    return True


cdef inline bint column_is_set(const Column *column, int64_t row) noexcept nogil:
    return row < column.touched and column.present[row]


cdef inline bint column_set8(Column *column, int64_t row, uint8_t value) noexcept nogil:
    if not column_mark(column, row):
        return False
    column.data[row] = value
    return True


cdef inline bint column_set_long(Column *column, int64_t row, int64_t value) noexcept nogil:
    """An integer of the column's width, little-endian."""
    if not column_mark(column, row):
        return False
    if column.width == 8:
        (<int64_t *>column.data)[row] = value
    else:
        memcpy(column.data + row * column.width, &value, column.width)
    return True


cdef inline bint column_set_fixed(Column *column, int64_t row, const void *value) noexcept nogil:
    if not column_mark(column, row):
        return False
    memcpy(column.data + row * column.width, value, column.width)
    return True


cdef inline bint column_set_bytes(Column *column, int64_t row, const uint8_t *data, int64_t size) noexcept nogil:
    if not column_mark(column, row) or not column_fill(column, row) or not column_append(column, data, size):
        return False
    column.offsets[row + 1] = <int32_t>column.data_used
    column.filled = row + 1
    return True


cdef inline bint column_begin_list(Column *column, int64_t row) noexcept nogil:
    """Begins an empty list for the row, unless there is one."""
    if column_is_set(column, row):
        return True
    if not column_mark(column, row) or not column_fill(column, row):
        return False
    column.offsets[row + 1] = <int32_t>column.items
    column.filled = row + 1
    return True


cdef inline int64_t column_add_item(Column *column, int64_t row) noexcept nogil:
    """Adds an item to the list begun last. Returns its row in the children, or -1 if there are too many."""
    cdef int64_t item = column.items
    if item >= 0x7fffffff:
        return -1
    column.items = item + 1
    column.offsets[row + 1] = <int32_t>(item + 1)
    return item


cdef inline bint rows_get(const Rows *rows, int64_t i, const uint8_t **at, int64_t *size) noexcept nogil:
    """The value of a row; False for null."""
    cdef int64_t row = rows.first + i
    cdef int32_t start, length, buffer_index
    cdef int64_t begin, end
    cdef const uint8_t *view
    if rows.validity != NULL and not rows.validity[row >> 3] >> (row & 7) & 1:
        return False
    if rows.layout == 4:
        start = (<const int32_t *>rows.offsets)[row]
        at[0] = rows.data + start
        size[0] = (<const int32_t *>rows.offsets)[row + 1] - start
    elif rows.layout == 8:
        begin = (<const int64_t *>rows.offsets)[row]
        end = (<const int64_t *>rows.offsets)[row + 1]
        at[0] = rows.data + begin
        size[0] = end - begin
    else:
        view = rows.offsets + 16 * row
        memcpy(&length, view, 4)
        size[0] = length
        if length <= 12:
            at[0] = view + 4
        else:
            memcpy(&buffer_index, view + 8, 4)
            memcpy(&start, view + 12, 4)
            at[0] = rows.buffers[buffer_index] + start
    begin = min(rows.skip, size[0])
    at[0] += begin
    size[0] -= begin
    return True


cdef object memory_of(void *memory, int64_t size)


cdef class Columns(Plan):
    """A tree of columns, built from a description. finish() passes its memory to Python and empties the tree."""
    cdef Column *root
    cdef Column *make(self, tuple description) except NULL


cdef class Input:
    """An Arrow array of binary values, kept alive."""
    cdef Rows rows
    cdef object owner
