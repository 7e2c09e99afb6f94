"""Bounded reading and growing writing of Kafka's primitive types, inline.

A Reader never passes its end: a read that would sets `bad` and yields zero, so that a parser checks once
per structure instead of once per field. A Writer that could not grow sets `failed`.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

cdef extern from *:
    """
    #define swap16 __builtin_bswap16
    #define swap32 __builtin_bswap32
    #define swap64 __builtin_bswap64
    #if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "Bowstring's native code is written for little-endian machines"
    #endif
    """
    uint16_t swap16(uint16_t v) nogil
    uint32_t swap32(uint32_t v) nogil
    uint64_t swap64(uint64_t v) nogil


cdef enum:
    # Larger counts are treated as an attack: a decoded element takes more memory than its encoded bytes.
    MAX_ELEMENTS = 1000000          # of an array
    MAX_TAGS = 10000                # tagged fields of a struct
    STRING_MAX = 0x7FFF             # bytes of UTF-8, of any text that is sent or stored


cdef struct Reader:
    const uint8_t *at
    const uint8_t *end
    bint bad


cdef inline int64_t left(const Reader *r) noexcept nogil:
    return r.end - r.at


cdef inline const uint8_t *take(Reader *r, int64_t n) noexcept nogil:
    """Consumes `n` bytes and returns their address, or NULL (and sets bad) when fewer are left."""
    cdef const uint8_t *at = r.at
    if n < 0 or r.end - r.at < n:
        r.bad = True
        r.at = r.end
        return NULL
    r.at += n
    return at


cdef inline int8_t read_i8(Reader *r) noexcept nogil:
    cdef const uint8_t *at = take(r, 1)
    return 0 if at == NULL else <int8_t>at[0]


cdef inline int16_t read_i16(Reader *r) noexcept nogil:
    cdef const uint8_t *at = take(r, 2)
    cdef uint16_t v
    if at == NULL:
        return 0
    memcpy(&v, at, 2)
    return <int16_t>swap16(v)


cdef inline int32_t read_i32(Reader *r) noexcept nogil:
    cdef const uint8_t *at = take(r, 4)
    cdef uint32_t v
    if at == NULL:
        return 0
    memcpy(&v, at, 4)
    return <int32_t>swap32(v)


cdef inline int64_t read_i64(Reader *r) noexcept nogil:
    cdef const uint8_t *at = take(r, 8)
    cdef uint64_t v
    if at == NULL:
        return 0
    memcpy(&v, at, 8)
    return <int64_t>swap64(v)


cdef inline uint32_t read_uvarint(Reader *r) noexcept nogil:
    cdef uint32_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while shift < 35:
        if r.at >= r.end:
            break
        byte = r.at[0]
        r.at += 1
        if shift == 28 and byte > 0x0F:
            break
        value |= <uint32_t>(byte & 0x7F) << shift
        if not byte & 0x80:
            return value
        shift += 7
    r.bad = True
    r.at = r.end
    return 0


cdef inline int32_t read_string(Reader *r, bint compact, const uint8_t **at) noexcept nogil:
    """Returns the length of a (nullable) string, -1 for null, and sets `at` to its bytes."""
    cdef int64_t n = <int64_t>read_uvarint(r) - 1 if compact else read_i16(r)
    if r.bad or n < -1:
        r.bad = True
        at[0] = NULL
        return -1
    if n == -1:
        at[0] = NULL
        return -1
    at[0] = take(r, n)
    return <int32_t>n if at[0] != NULL else -1


cdef inline int64_t read_bytes(Reader *r, bint compact, const uint8_t **at) noexcept nogil:
    """Returns the length of (nullable) bytes or records, -1 for null, and sets `at` to their address."""
    cdef int64_t n = <int64_t>read_uvarint(r) - 1 if compact else read_i32(r)
    if r.bad or n < -1:
        r.bad = True
        at[0] = NULL
        return -1
    if n == -1:
        at[0] = NULL
        return -1
    at[0] = take(r, n)
    return n if at[0] != NULL else -1


cdef inline int32_t read_count(Reader *r, bint compact) noexcept nogil:
    """Returns an array's length, -1 for null. Refuses one above the bytes left or MAX_ELEMENTS before anything is
    allocated for it."""
    cdef int64_t n = <int64_t>read_uvarint(r) - 1 if compact else read_i32(r)
    if r.bad or n < -1 or n > r.end - r.at or n > MAX_ELEMENTS:
        r.bad = True
        return -1
    return <int32_t>n


cdef inline void skip_tags(Reader *r) noexcept nogil:
    cdef uint32_t n = read_uvarint(r)
    if n > MAX_TAGS:
        r.bad = True
    while n > 0 and not r.bad:
        read_uvarint(r)
        take(r, read_uvarint(r))
        n -= 1


cdef struct Writer:
    uint8_t *data
    int64_t size
    int64_t capacity
    bint failed


cdef inline void writer_free(Writer *w) noexcept nogil:
    free(w.data)
    w.data = NULL
    w.size = w.capacity = 0


cdef inline uint8_t *grow(Writer *w, int64_t n) noexcept nogil:
    """Appends `n` bytes for the caller to fill and returns their address; NULL when memory ran out."""
    cdef int64_t capacity
    cdef uint8_t *data
    if w.capacity - w.size < n:
        capacity = w.capacity * 2 if w.capacity > 0 else 512
        while capacity - w.size < n:
            capacity *= 2
        data = <uint8_t *>realloc(w.data, capacity)
        if data == NULL:
            w.failed = True
            return NULL
        w.data = data
        w.capacity = capacity
    w.size += n
    return w.data + w.size - n


cdef inline uint8_t *reserve(Writer *w, int64_t n) noexcept nogil:
    """Replaces the content by `n` bytes for the caller to fill, with little spare capacity; NULL when memory ran out."""
    if w.capacity < n:
        free(w.data)
        w.capacity = (n + 1023) & ~<int64_t>1023
        w.data = <uint8_t *>malloc(w.capacity)
        if w.data == NULL:
            w.capacity = 0
            w.failed = True
    w.size = 0 if w.data == NULL else n
    return w.data


cdef inline void put_i8(Writer *w, int8_t v) noexcept nogil:
    cdef uint8_t *at = grow(w, 1)
    if at != NULL:
        at[0] = <uint8_t>v


cdef inline void put_i16(Writer *w, int16_t v) noexcept nogil:
    cdef uint8_t *at = grow(w, 2)
    cdef uint16_t b = swap16(<uint16_t>v)
    if at != NULL:
        memcpy(at, &b, 2)


cdef inline void put_i32(Writer *w, int32_t v) noexcept nogil:
    cdef uint8_t *at = grow(w, 4)
    cdef uint32_t b = swap32(<uint32_t>v)
    if at != NULL:
        memcpy(at, &b, 4)


cdef inline void put_i64(Writer *w, int64_t v) noexcept nogil:
    cdef uint8_t *at = grow(w, 8)
    cdef uint64_t b = swap64(<uint64_t>v)
    if at != NULL:
        memcpy(at, &b, 8)


cdef inline void put_raw(Writer *w, const void *data, int64_t n) noexcept nogil:
    cdef uint8_t *at
    if n > 0:
        at = grow(w, n)
        if at != NULL:
            memcpy(at, data, n)


cdef inline void put_uvarint(Writer *w, uint32_t v) noexcept nogil:
    while v >= 0x80:
        put_i8(w, <int8_t>((v & 0x7F) | 0x80))
        v >>= 7
    put_i8(w, <int8_t>v)


cdef inline void put_string(Writer *w, bint compact, const void *data, int32_t n) noexcept nogil:
    """Writes a (nullable) string; n == -1 is null."""
    if compact:
        put_uvarint(w, <uint32_t>(n + 1))
    else:
        put_i16(w, <int16_t>n)
    put_raw(w, data, n)


cdef inline void put_count(Writer *w, bint compact, int32_t n) noexcept nogil:
    if compact:
        put_uvarint(w, <uint32_t>(n + 1))
    else:
        put_i32(w, n)


cdef inline void put_tags(Writer *w, bint flexible) noexcept nogil:
    """Writes an empty tagged-fields section in versions that have one."""
    if flexible:
        put_i8(w, 0)


cdef inline void patch_i32(uint8_t *at, int32_t v) noexcept nogil:
    cdef uint32_t b = swap32(<uint32_t>v)
    memcpy(at, &b, 4)
