"""Headers out of Arrow's lists of (name, value), as records have them on the wire."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from bowstring._native.arrow_input cimport ArrowArray
from bowstring._native.encode cimport BinaryColumn, bit_set, column_get
from bowstring._native.varint cimport put_varint, varint_size
from bowstring._native.wire cimport Writer, grow, put_raw


cdef int64_t pack_rows(
        Writer *packed, int64_t *ends, const ArrowArray *lists, int64_t skip, int64_t rows, bint wide,
        const BinaryColumn *names, const BinaryColumn *values) noexcept nogil:
    cdef const uint8_t *at
    cdef const uint8_t *validity = NULL
    cdef int64_t row, i, begin, end, offset = lists.offset + skip
    if lists.null_count != 0:
        validity = <const uint8_t *>lists.buffers[0]
    packed.size = 0
    packed.failed = False
    ends[0] = 0
    for row in range(rows):
        if validity == NULL or bit_set(validity, offset + row):
            if wide:
                begin = (<const int64_t *>lists.buffers[1])[offset + row]
                end = (<const int64_t *>lists.buffers[1])[offset + row + 1]
            else:
                begin = (<const int32_t *>lists.buffers[1])[offset + row]
                end = (<const int32_t *>lists.buffers[1])[offset + row + 1]
            if end > begin:
                put_number(packed, end - begin)
            for i in range(begin, end):
                if not put_bytes(packed, names, i) or packed.failed:
                    return -2 if packed.failed else row
                put_bytes(packed, values, i)
        ends[row + 1] = packed.size
    return -2 if packed.failed else -1


cdef void put_number(Writer *w, int64_t number) noexcept nogil:
    cdef uint8_t *at = grow(w, varint_size(number))
    if at != NULL:
        put_varint(at, number)


cdef bint put_bytes(Writer *w, const BinaryColumn *column, int64_t row) noexcept nogil:
    """Length and bytes of a row; False when it is null."""
    cdef const uint8_t *at
    cdef int64_t length = column_get(column, row, &at)
    put_number(w, length)
    put_raw(w, at, length)
    return length >= 0
