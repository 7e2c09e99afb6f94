"""Varints, inline: base 128, least significant group first; signed ones are zig-zag coded.

Record batches (KIP-98) use the signed forms: varint holds an int32 in at most 5 bytes, varlong an int64 in
at most 10. Readers take the cursor and its bound, and answer False when the bytes end, or when a varint is
longer than its type allows; the cursor is then undefined. Bits beyond the type are dropped, as in Kafka.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from *:
    int count_leading_zeros "__builtin_clzll"(unsigned long long v) nogil
    bint likely "__builtin_expect"(bint condition, bint usual) nogil

cdef enum:
    VARINT_MAX_BYTES = 5
    VARLONG_MAX_BYTES = 10


cdef inline uint64_t zigzag(int64_t v) noexcept nogil:
    return (<uint64_t>v << 1) ^ <uint64_t>(v >> 63)


cdef inline int64_t unzigzag(uint64_t v) noexcept nogil:
    return <int64_t>((v >> 1) ^ (0 - (v & 1)))


cdef inline int32_t uvarint_size(uint64_t v) noexcept nogil:
    """Returns the encoded size of `v` in bytes: its bit length divided by 7, rounded up; 1 for 0."""
    if likely(v < 0x80, True):
        return 1
    if likely(v < 0x4000, True):
        return 2
    return ((63 - count_leading_zeros(v | 1)) * 9 + 73) >> 6


cdef inline int32_t varint_size(int64_t v) noexcept nogil:
    """Returns the size of `v` in bytes as a varint or varlong."""
    return uvarint_size(zigzag(v))


cdef inline uint8_t *put_uvarint64(uint8_t *at, uint64_t v) noexcept nogil:
    """Writes `v`; returns the byte after it. The caller has made room."""
    if likely(v < 0x80, True):
        at[0] = <uint8_t>v
        return at + 1
    if likely(v < 0x4000, True):
        at[0] = <uint8_t>(v | 0x80)
        at[1] = <uint8_t>(v >> 7)
        return at + 2
    while v >= 0x80:
        at[0] = <uint8_t>(v | 0x80)
        at += 1
        v >>= 7
    at[0] = <uint8_t>v
    return at + 1


cdef inline uint8_t *put_varint(uint8_t *at, int64_t v) noexcept nogil:
    """Writes a varint or varlong; returns the byte after it. The caller has made room."""
    return put_uvarint64(at, zigzag(v))


# `roomy` means that reading VARINT_MAX_BYTES or VARLONG_MAX_BYTES is safe even beyond `end`, so the bound is not
# checked. It is a constant at each call, so that compilers drop the other branch.

cdef inline bint get_uvarint64(const uint8_t **at, const uint8_t *end, bint roomy, int max_bytes, uint64_t *v) noexcept nogil:
    cdef const uint8_t *p = at[0]
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while shift < 7 * max_bytes:
        if not roomy and p >= end:
            return False
        byte = p[0]
        p += 1
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            at[0] = p
            v[0] = value
            return True
        shift += 7
    return False


cdef inline bint get_uvarint(const uint8_t **at, const uint8_t *end, bint roomy, uint32_t *v) noexcept nogil:
    """Reads a uint32. Tries one and two bytes first: most lengths, counts and offset deltas fit them."""
    cdef const uint8_t *p = at[0]
    cdef uint64_t wide
    if roomy or likely(end - p >= 2, True):
        if likely(p[0] < 0x80, True):
            v[0] = p[0]
            at[0] = p + 1
            return True
        if likely(p[1] < 0x80, True):
            v[0] = (p[0] & 0x7F) | (<uint32_t>p[1] << 7)
            at[0] = p + 2
            return True
    if not get_uvarint64(&p, end, roomy, VARINT_MAX_BYTES, &wide):
        return False
    at[0] = p
    v[0] = <uint32_t>wide
    return True


cdef inline bint get_varint(const uint8_t **at, const uint8_t *end, bint roomy, int32_t *v) noexcept nogil:
    """Reads an int32."""
    cdef uint32_t u
    if not get_uvarint(at, end, roomy, &u):
        return False
    v[0] = <int32_t>((u >> 1) ^ (0 - (u & 1)))
    return True


cdef inline bint get_varlong(const uint8_t **at, const uint8_t *end, bint roomy, int64_t *v) noexcept nogil:
    """Reads an int64. Tries one and two bytes first: most timestamp deltas fit them."""
    cdef const uint8_t *p = at[0]
    cdef uint64_t raw
    if roomy or likely(end - p >= 2, True):
        if likely(p[0] < 0x80, True):
            at[0] = p + 1
            v[0] = unzigzag(p[0])
            return True
        if likely(p[1] < 0x80, True):
            at[0] = p + 2
            v[0] = unzigzag((p[0] & 0x7F) | (<uint64_t>p[1] << 7))
            return True
    if not get_uvarint64(&p, end, roomy, VARLONG_MAX_BYTES, &raw):
        return False
    at[0] = p
    v[0] = unzigzag(raw)
    return True
