"""Writes JSON strings, base64 and times, and reads base64. See json_text.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from bowstring._native.base.wire cimport Writer, grow, put_i8, put_raw
from bowstring._native.values.json_scan cimport string_stops, trailing_zeros
from bowstring._native.values.rfc3339 cimport write_date, write_time

cdef const uint8_t *ALPHABET = <const uint8_t *>b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
cdef const uint8_t *HEXADECIMAL = <const uint8_t *>b"0123456789abcdef"
cdef uint8_t[256] SEXTETS


cdef void fill_sextets():
    cdef int i
    for i in range(256):
        SEXTETS[i] = 255
    for i in range(64):
        SEXTETS[ALPHABET[i]] = <uint8_t>i


fill_sextets()


cdef void put_escape(Writer *w, uint8_t c) noexcept nogil:
    cdef uint8_t *at
    if c == c'"' or c == c'\\':
        put_i8(w, c'\\')
        put_i8(w, c)
    elif c == c'\n':
        put_raw(w, b"\\n", 2)
    elif c == c'\r':
        put_raw(w, b"\\r", 2)
    elif c == c'\t':
        put_raw(w, b"\\t", 2)
    else:
        at = grow(w, 6)
        if at != NULL:
            memcpy(at, b"\\u00", 4)
            at[4] = HEXADECIMAL[c >> 4]
            at[5] = HEXADECIMAL[c & 15]


cdef void put_json_string(Writer *w, const uint8_t *at, int64_t size) noexcept nogil:
    cdef const uint8_t *end = at + size
    cdef const uint8_t *start = at
    cdef uint64_t word, stops
    put_i8(w, c'"')
    while at < end:
        if end - at >= 8:
            memcpy(&word, at, 8)
            stops = string_stops(word)
            if not stops:
                at += 8
                continue
            at += trailing_zeros(stops) >> 3
        if at[0] < 0x20 or at[0] == c'"' or at[0] == c'\\':
            put_raw(w, start, at - start)
            put_escape(w, at[0])
            start = at + 1
        at += 1
    put_raw(w, start, end - start)
    put_i8(w, c'"')


cdef void put_base64(Writer *w, const uint8_t *at, int64_t size) noexcept nogil:
    cdef uint8_t *out = grow(w, (size + 2) // 3 * 4)
    cdef uint32_t three
    if out == NULL:
        return
    while size >= 3:
        three = <uint32_t>at[0] << 16 | <uint32_t>at[1] << 8 | at[2]
        out[0] = ALPHABET[three >> 18]
        out[1] = ALPHABET[three >> 12 & 63]
        out[2] = ALPHABET[three >> 6 & 63]
        out[3] = ALPHABET[three & 63]
        at += 3
        out += 4
        size -= 3
    if size > 0:
        three = <uint32_t>at[0] << 16
        if size == 2:
            three |= <uint32_t>at[1] << 8
        out[0] = ALPHABET[three >> 18]
        out[1] = ALPHABET[three >> 12 & 63]
        out[2] = ALPHABET[three >> 6 & 63] if size == 2 else c'='
        out[3] = c'='


cdef bint take_base64(Writer *w, const uint8_t *at, int64_t size) noexcept nogil:
    cdef int64_t whole, left
    cdef uint8_t *out
    cdef uint32_t a, b, c, d
    while size > 0 and at[size - 1] == c'=':             # padding may be missing, as many encoders leave it out
        size -= 1
        if size % 4 < 2:
            return False
    whole, left = size // 4, size % 4
    if left == 1:
        return False
    out = grow(w, whole * 3 + (left - 1 if left else 0))
    if out == NULL:
        return False
    while whole > 0:
        a, b, c, d = SEXTETS[at[0]], SEXTETS[at[1]], SEXTETS[at[2]], SEXTETS[at[3]]
        if (a | b | c | d) > 63:
            return False
        out[0] = <uint8_t>(a << 2 | b >> 4)
        out[1] = <uint8_t>(b << 4 | c >> 2)
        out[2] = <uint8_t>(c << 6 | d)
        at += 4
        out += 3
        whole -= 1
    if left:
        a, b = SEXTETS[at[0]], SEXTETS[at[1]]
        c = SEXTETS[at[2]] if left == 3 else 0
        if (a | b | c) > 63:
            return False
        out[0] = <uint8_t>(a << 2 | b >> 4)
        if left == 3:
            out[1] = <uint8_t>(b << 4 | c >> 2)
    return True


cdef void put_decimal(Writer *w, int64_t value) noexcept nogil:
    cdef uint8_t[20] text
    cdef int at = 20
    cdef uint64_t left = 0 - <uint64_t>value if value < 0 else <uint64_t>value
    while True:
        at -= 1
        text[at] = <uint8_t>(c'0' + left % 10)
        left //= 10
        if left == 0:
            break
    if value < 0:
        put_i8(w, c'-')
    put_raw(w, text + at, 20 - at)


cdef void put_instant(Writer *w, int64_t milliseconds) noexcept nogil:
    cdef uint8_t[40] text
    cdef int size
    cdef int64_t days = milliseconds // 86400000, left
    left = milliseconds - days * 86400000
    if left < 0:                                         # C rounds towards 0
        days -= 1
        left += 86400000
    text[0] = c'"'
    if write_date(text + 1, days) == 0:
        put_decimal(w, milliseconds)
        return
    text[11] = c'T'
    size = 12 + write_time(text + 12, left // 1000, left % 1000 * 1000000)
    text[size] = c'Z'
    text[size + 1] = c'"'
    put_raw(w, text, size + 2)
