"""Checks UTF-8 (RFC 3629), eight bytes at a time while they are ASCII."""
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy


cdef inline int utf8_size(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Bytes of the non-ASCII character at `at`; 0: it is not well formed."""
    cdef int lead = at[0]
    cdef int size = 4 if lead >= 0xf0 else 3 if lead >= 0xe0 else 2
    cdef int least, most, i
    if lead < 0xc2 or lead > 0xf4 or end - at < size:
        return 0
    least = 0xa0 if lead == 0xe0 else 0x90 if lead == 0xf0 else 0x80
    most = 0x9f if lead == 0xed else 0x8f if lead == 0xf4 else 0xbf
    if at[1] < least or at[1] > most:
        return 0
    for i in range(2, size):
        if at[i] & 0xc0 != 0x80:
            return 0
    return size


cdef inline bint utf8_valid(const uint8_t *at, int64_t size) noexcept nogil:
    cdef const uint8_t *end = at + size
    cdef uint64_t word
    cdef int step
    while at < end:
        if end - at >= 8:
            memcpy(&word, at, 8)
            if not word & <uint64_t>0x8080808080808080:
                at += 8
                continue
        if at[0] < 0x80:
            at += 1
            continue
        step = utf8_size(at, end)
        if step == 0:
            return False
        at += step
    return True
