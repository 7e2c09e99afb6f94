"""Finds the keys of schemas at the start of values: see schema_keys.pxd."""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp
from bowstring._native.base.bigendian cimport load_be32
from bowstring._native.base.varint cimport VARLONG_MAX_BYTES, get_uvarint64
from bowstring._native.values.column cimport Input, memory_of, rows_get

cdef enum:
    INDEXES_MAX = 100           # messages in one another, as protobuf's own decoders allow


cdef int64_t key_size(const uint8_t *at, int64_t size, bint indexed) noexcept nogil:
    cdef const uint8_t *begin = at
    cdef const uint8_t *end = at + size
    cdef uint64_t count = 0, index = 0
    cdef int64_t head
    if size < ID_KEY_BYTES or at[0] > 1:
        return 0
    head = ID_KEY_BYTES if at[0] == 0 else GUID_KEY_BYTES
    if size < head:
        return 0
    if not indexed:
        return head
    at += head
    if not get_uvarint64(&at, end, False, VARLONG_MAX_BYTES, &count):
        return 0
    if count & 1 or count >> 1 > INDEXES_MAX:            # zig-zag: odd numbers are negative
        return 0
    count >>= 1
    while count > 0:
        if not get_uvarint64(&at, end, False, VARLONG_MAX_BYTES, &index) or index & 1:
            return 0
        count -= 1
    return at - begin


def key_bytes(bytes data not None, bint indexed):
    """Returns how many bytes of a value or header are its schema's key; 0: it has none."""
    return key_size(data, len(data), indexed)


def schema_groups(Input values not None, bint indexed):
    """Groups rows by the keys of their schemas.

    Returns (keys, the index of each row's key as int32). Rows without a key have the key b""; null rows are in the group
    of the row before.
    """
    cdef int64_t row, size = 0, length, rows = values.rows.count
    cdef const uint8_t *at = NULL
    cdef const uint8_t *last = NULL
    cdef int64_t last_size = -1
    cdef int32_t group = 0
    cdef int32_t *groups = <int32_t *>malloc((rows + 1) * sizeof(int32_t))
    numbers = {}
    if groups == NULL:
        raise MemoryError
    try:
        with nogil:
            for row in range(rows):
                if rows_get(&values.rows, row, &at, &size):
                    if not indexed and last_size == ID_KEY_BYTES and size >= ID_KEY_BYTES and (
                            load_be32(at + 1) == load_be32(last + 1)) and at[0] == 0:
                        groups[row] = group              # the same id, as nearly always
                        continue
                    length = key_size(at, size, indexed)
                    if length != last_size or memcmp(at, last, length) != 0:
                        with gil:
                            key = PyBytes_FromStringAndSize(<const char *>at, length)
                            group = numbers.setdefault(key, len(numbers))
                    last, last_size = at, length
                groups[row] = group
    except BaseException:
        free(groups)
        raise
    return list(numbers), memory_of(groups, rows * sizeof(int32_t))
