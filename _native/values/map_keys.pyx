"""Removes duplicate keys from maps: the last entry of each key stays.

Runs when all rows are decoded, because entries of a row may come in pieces, and their keys after their values. Moves nothing
if no key is duplicated, which is nearly always the case.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memmove, memset
from bowstring._native.values.column cimport (
    STORE_BITS, STORE_BYTES, STORE_FIXED, STORE_LIST, STORE_NOTHING, Column, column_fill, column_reserve)

cdef enum:
    COMPARED_MAX = 16           # up to this many entries are compared with each other; larger maps use a hash table

# ---------------------------------------------------------------- keys


cdef inline const uint8_t *key_of(const Column *keys, int64_t item, int64_t *size) noexcept nogil:
    if keys.storage == STORE_BYTES:
        size[0] = keys.offsets[item + 1] - keys.offsets[item]
        return keys.data + keys.offsets[item]
    size[0] = 1 if keys.storage == STORE_BITS else keys.width
    return keys.data + item * size[0]


cdef bint same_key(const Column *keys, int64_t a, int64_t b) noexcept nogil:
    cdef int64_t a_size = 0, b_size = 0
    cdef const uint8_t *one = key_of(keys, a, &a_size)
    cdef const uint8_t *other = key_of(keys, b, &b_size)
    return a_size == b_size and (a_size == 0 or memcmp(one, other, a_size) == 0)      # data may be NULL


cdef uint64_t hash_of(const Column *keys, int64_t item) noexcept nogil:
    cdef int64_t size = 0, i
    cdef const uint8_t *at = key_of(keys, item, &size)
    cdef uint64_t found = <uint64_t>keys     # a seed that the writer of the keys cannot guess
    for i in range(size):
        found = (found ^ at[i]) * <uint64_t>0x9e3779b97f4a7c15
        found ^= found >> 29
    return found


cdef int drop_compared(const Column *keys, int64_t begin, int64_t end, uint8_t *keep) noexcept nogil:
    """Unmarks entries whose key comes again; whether there were any."""
    cdef int64_t item, later
    cdef int dropped = 0
    for item in range(begin, end - 1):
        for later in range(item + 1, end):
            if same_key(keys, item, later):
                keep[item] = 0
                dropped = 1
                break
    return dropped


cdef int drop_hashed(const Column *keys, int64_t begin, int64_t end, uint8_t *keep) noexcept nogil:
    """The same for large maps; -1 without memory."""
    cdef int64_t slots = 32, item = end, slot
    cdef int64_t *table
    cdef int dropped = 0
    while slots < 2 * (end - begin):
        slots *= 2
    table = <int64_t *>calloc(slots, sizeof(int64_t))    # items counted from 1
    if table == NULL:
        return -1
    while item > begin:
        item -= 1
        slot = hash_of(keys, item) & (slots - 1)
        while table[slot] != 0 and not same_key(keys, item, table[slot] - 1):
            slot = (slot + 1) & (slots - 1)
        if table[slot] != 0:
            keep[item] = 0
            dropped = 1
        else:
            table[slot] = item + 1
    free(table)
    return dropped

# ---------------------------------------------------------------- rows that go


cdef bint keep_rows(Column *column, const uint8_t *keep, int64_t rows) noexcept nogil:
    """Removes the rows that are not kept from a column of `rows` rows."""
    cdef int64_t row, begin = 0, end = 0, kept = 0, used = 0, before = column.items
    cdef int width = 1 if column.storage == STORE_BITS else column.width
    cdef uint8_t *keep_items = NULL
    cdef bint good = True
    cdef int i
    if not column_reserve(column, rows):
        return False
    if column.offsets != NULL:
        if not column_fill(column, rows):
            return False
        if column.storage == STORE_LIST:
            keep_items = <uint8_t *>malloc(before + 1)
            if keep_items == NULL:
                return False
    for row in range(rows):
        if column.offsets != NULL:
            begin, end = end, column.offsets[row + 1]
            if column.storage == STORE_LIST:
                memset(keep_items + begin, keep[row], end - begin)
        if not keep[row]:
            continue
        column.present[kept] = column.present[row]
        if column.storage in (STORE_BITS, STORE_FIXED):
            memmove(column.data + kept * width, column.data + row * width, width)
        elif column.offsets != NULL:
            if column.storage == STORE_BYTES and end > begin:
                memmove(column.data + used, column.data + begin, end - begin)
            used += end - begin
            column.offsets[kept + 1] = <int32_t>used
        kept += 1
    memset(column.present + kept, 0, rows - kept)
    if column.storage in (STORE_BITS, STORE_FIXED):
        memset(column.data + kept * width, 0, (rows - kept) * width)
    column.touched = min(column.touched, kept)
    if column.offsets != NULL:
        column.filled = kept
    if column.storage == STORE_BYTES:
        column.data_used = used
    elif column.storage == STORE_LIST:
        column.items = used
    for i in range(column.n_children):
        if good and column.storage == STORE_NOTHING:
            good = keep_rows(column.children[i], keep, rows)
        elif good:
            good = keep_rows(column.children[i], keep_items, before)
    free(keep_items)
    return good


cdef bint keep_last_of(Column *map) noexcept nogil:
    cdef Column *keys = map.children[0]
    cdef int64_t row, item, begin, end = 0, kept = 0, items = map.items
    cdef int found, dropped = 0
    cdef uint8_t *keep
    cdef bint good
    if not column_reserve(keys, items) or (keys.storage == STORE_BYTES and not column_fill(keys, items)):
        return False
    keep = <uint8_t *>malloc(items)
    if keep == NULL:
        return False
    memset(keep, 1, items)
    for row in range(map.filled):
        begin, end = end, map.offsets[row + 1]
        if end - begin > 1:
            if end - begin <= COMPARED_MAX:
                found = drop_compared(keys, begin, end, keep)
            else:
                found = drop_hashed(keys, begin, end, keep)
            if found < 0:
                free(keep)
                return False
            dropped |= found
    good = not dropped or (keep_rows(keys, keep, items) and keep_rows(map.children[1], keep, items))
    if good and dropped:
        item = 0
        for row in range(map.filled):
            while item < map.offsets[row + 1]:
                kept += keep[item]
                item += 1
            map.offsets[row + 1] = <int32_t>kept
        map.items = kept
    free(keep)
    return good


cdef bint keep_last_entries(Column *column) noexcept nogil:
    """Leaves one entry for each key in the maps of a tree of columns. False without memory."""
    cdef int i
    if column.keys_once and column.items > 1 and not keep_last_of(column):
        return False
    for i in range(column.n_children):
        if not keep_last_entries(column.children[i]):
            return False
    return True
