"""Columns that decoders of values fill: their memory, removal of rows, and conversion to Arrow."""
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

cdef enum:
    OFFSET_MAX = 0x7fffffff

# ---------------------------------------------------------------- memory


cdef bint enlarge(void **memory, int64_t old_bytes, int64_t new_bytes, bint zero) noexcept nogil:
    cdef void *grown = realloc(memory[0], new_bytes if new_bytes > 0 else 1)
    if grown == NULL:
        return False
    if zero and new_bytes > old_bytes:
        memset(<uint8_t *>grown + old_bytes, 0, new_bytes - old_bytes)
    memory[0] = grown
    return True


cdef bint column_reserve(Column *column, int64_t rows) noexcept nogil:
    """Makes room for `rows` rows. New ones are not set and hold zero."""
    cdef int64_t old = column.capacity, grown
    cdef int width = 1 if column.storage == STORE_BITS else column.width
    if rows <= old:
        return True
    grown = max(rows, old + (old >> 1), 64)
    if not enlarge(<void **>&column.present, old, grown, True):
        return False
    if column.storage in (STORE_BITS, STORE_FIXED):
        if not enlarge(<void **>&column.data, old * width, grown * width, True):
            return False
    elif column.storage in (STORE_BYTES, STORE_LIST):
        if not enlarge(<void **>&column.offsets, 0, (grown + 1) * sizeof(int32_t), False):
            return False
        if old == 0:
            column.offsets[0] = 0
    column.capacity = grown
    return True


cdef bint column_append(Column *column, const uint8_t *data, int64_t size) noexcept nogil:
    cdef int64_t needed = column.data_used + size
    if needed > column.data_capacity:
        if needed > OFFSET_MAX:
            return False
        # Never more room than offsets of 32 bits reach, so that callers need only check for room.
        needed = min(<int64_t>OFFSET_MAX, max(needed, column.data_capacity * 2, 1024))
        if not enlarge(<void **>&column.data, 0, needed, False):
            return False
        column.data_capacity = needed
    if size > 0:                                         # data may be NULL
        memcpy(column.data + column.data_used, data, size)
    column.data_used += size
    return True


cdef bint column_fill(Column *column, int64_t row) noexcept nogil:
    """Fills in offsets up to the start of `row`, for which there is room."""
    while column.filled < row:
        if column.zero.size > 0 and not column_append(column, column.zero.at, column.zero.size):
            return False
        column.filled += 1
        column.offsets[column.filled] = <int32_t>(
            column.data_used if column.storage == STORE_BYTES else column.items)
    return True


cdef void column_clear(Column *column, int64_t row) noexcept nogil:
    """Removes rows from `row` on, also in the children."""
    cdef int i
    cdef int width = 1 if column.storage == STORE_BITS else column.width
    if column.touched > row:
        memset(column.present + row, 0, column.touched - row)
        if column.storage in (STORE_BITS, STORE_FIXED):
            memset(column.data + row * width, 0, (column.touched - row) * width)
        column.touched = row
    if column.storage == STORE_NOTHING:
        for i in range(column.n_children):
            column_clear(column.children[i], row)
    elif column.offsets != NULL and column.filled > row:
        column.filled = row
        if column.storage == STORE_BYTES:
            column.data_used = column.offsets[row]
        else:
            column.items = column.offsets[row]
            for i in range(column.n_children):
                column_clear(column.children[i], column.items)


cdef void release(Column *column) noexcept nogil:
    """Frees the memory of a column and of those below it, and makes them empty."""
    cdef int i
    free(column.present)
    free(column.data)
    free(column.offsets)
    column.present = NULL
    column.data = NULL
    column.offsets = NULL
    column.capacity = column.touched = column.filled = column.items = 0
    column.data_used = column.data_capacity = 0
    for i in range(column.n_children):
        release(column.children[i])

# ---------------------------------------------------------------- to Python


cdef class Memory:
    """Memory that an Arrow array takes over."""

    cdef void *start
    cdef Py_ssize_t size

    def __dealloc__(self):
        free(self.start)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.start if self.start != NULL else <void *>b"", self.size, True, flags)


cdef Memory given(void **memory, int64_t size):
    cdef Memory out = Memory.__new__(Memory)
    out.start = memory[0]
    out.size = size
    memory[0] = NULL
    return out


cdef object memory_of(void *memory, int64_t size):
    """A bytes-like object that owns `memory`, which is malloc'd."""
    return given(&memory, size)


cdef Memory packed(const uint8_t *flags, int64_t count, int64_t *ones):
    """A bitmap of bytes that are 0 or 1."""
    cdef Memory out = Memory.__new__(Memory)
    cdef int64_t i, total = 0
    cdef int bit
    cdef uint8_t byte
    out.size = (count + 7) >> 3
    out.start = malloc(out.size if out.size > 0 else 1)
    if out.start == NULL:
        raise MemoryError
    with nogil:
        for i in range(out.size):
            byte = 0
            for bit in range(min(<int64_t>8, count - 8 * i)):
                byte |= flags[8 * i + bit] << bit
                total += flags[8 * i + bit]
            (<uint8_t *>out.start)[i] = byte
    ones[0] = total
    return out


cdef tuple finished(Column *column, int64_t rows):
    """(rows, nulls, buffers with the validity first, children) of a column, which is empty afterwards."""
    cdef int64_t ones = rows, children_rows = rows
    cdef int i
    if not column_reserve(column, max(rows, <int64_t>1)):
        raise MemoryError
    buffers = [None]
    if not column.zeroed:
        bitmap = packed(column.present, rows, &ones)
        if ones < rows:
            buffers[0] = bitmap
    if column.storage == STORE_BITS:
        buffers.append(packed(column.data, rows, &children_rows))
    elif column.storage == STORE_FIXED:
        buffers.append(given(<void **>&column.data, rows * column.width))
    elif column.storage != STORE_NOTHING:
        if not column_fill(column, rows):
            raise MemoryError
        children_rows = column.items
        buffers.append(given(<void **>&column.offsets, (rows + 1) * sizeof(int32_t)))
        if column.storage == STORE_BYTES:
            buffers.append(given(<void **>&column.data, column.data_used))
    children = [finished(column.children[i], children_rows) for i in range(column.n_children)]
    release(column)
    return rows, rows - ones, buffers, children


cdef class Columns(Plan):
    """A tree of columns.

    Args:
        description: (storage, width, zeroed, zero, [descriptions of the children]); `zero` are the bytes of a
            missing string, or None.
    """

    def __cinit__(self, tuple description):
        self.root = self.make(description)

    def __dealloc__(self):
        if self.root != NULL:
            release(self.root)

    cdef Column *make(self, tuple description) except NULL:
        cdef Column *column = <Column *>self.room(sizeof(Column))
        storage, width, zeroed, zero, children = description
        column.storage, column.width, column.zeroed = storage, width, zeroed
        column.zero = self.text(zero)
        column.children = <Column **>self.room(len(children) * sizeof(Column *))
        for child in children:
            column.children[column.n_children] = self.make(child)
            column.n_children += 1
        return column

    def finish(self, int64_t rows):
        """Returns the columns as (rows, nulls, buffers, children); they are empty afterwards."""
        return finished(self.root, rows)


cdef class Input:
    """An Arrow array of binary values.

    Args:
        owner: kept alive.
        layout: bytes of an offset, 4 or 8; 0 for views.
        first, count: the rows to decode.
        validity, offsets, data: addresses, 0 for none; of views, `offsets` are the views.
        buffers: addresses of the buffers of views.
        skip: bytes at the start of each value that are left out.
    """

    def __cinit__(self, owner, int layout, int64_t first, int64_t count, uintptr_t validity, uintptr_t offsets,
                  uintptr_t data, list buffers, int64_t skip=0):
        cdef int i
        self.owner = owner
        self.rows.layout, self.rows.first, self.rows.count, self.rows.skip = layout, first, count, skip
        self.rows.validity = <const uint8_t *>validity
        self.rows.offsets = <const uint8_t *>offsets
        self.rows.data = <const uint8_t *>data
        self.rows.buffers = <const uint8_t **>PyMem_Calloc(max(1, len(buffers)), sizeof(uint8_t *))
        if self.rows.buffers == NULL:
            raise MemoryError
        for i in range(len(buffers)):
            self.rows.buffers[i] = <const uint8_t *><uintptr_t>buffers[i]

    def __dealloc__(self):
        PyMem_Free(self.rows.buffers)
