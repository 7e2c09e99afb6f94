"""The rarely used part of json_scan.pxd: escapes, fractions, values that are skipped."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport realloc
from libc.string cimport memcmp, memcpy
from bowstring._native.values.utf8 cimport utf8_size


cdef bint json_fits(const uint8_t *digits) noexcept nogil:
    """Whether a number of 20 digits fits 64 bits."""
    return memcmp(digits, b"18446744073709551615", 20) <= 0


cdef bint digits_taken(Scan *s) noexcept nogil:
    cdef const uint8_t *start = s.at
    while s.at < s.end and <uint8_t>(s.at[0] - c'0') <= 9:
        s.at += 1
    return s.at > start or json_bad(s, "a number does not end")


cdef bint json_fraction(Scan *s) noexcept nogil:
    s.integer = False
    s.fits = False
    if s.at[0] == c'.':
        s.at += 1
        if not digits_taken(s):
            return False
    if s.at < s.end and s.at[0] | 0x20 == c'e':
        s.at += 1
        if s.at < s.end and (s.at[0] == c'-' or s.at[0] == c'+'):
            s.at += 1
        return digits_taken(s)
    return True


cdef bint room(Scan *s, int64_t size) noexcept nogil:
    cdef void *grown
    if size > s.text_capacity:
        grown = realloc(s.text, size * 2)
        if grown == NULL:
            return json_bad(s, "out of memory")
        s.text = <uint8_t *>grown
        s.text_capacity = size * 2
    return True


cdef int32_t hexadecimal(const uint8_t *at) noexcept nogil:
    """The value of four hexadecimal digits; -1: they are not."""
    cdef int32_t value = 0
    cdef int i
    cdef uint8_t c
    for i in range(4):
        c = at[i]
        if c'0' <= c <= c'9':
            c -= c'0'
        elif c'a' <= c | 0x20 <= c'f':
            c = (c | 0x20) - c'a' + 10
        else:
            return -1
        value = value << 4 | c
    return value


cdef int put_utf8(uint8_t *out, int32_t point) noexcept nogil:
    if point < 0x80:
        out[0] = point
        return 1
    if point < 0x800:
        out[0] = 0xc0 | point >> 6
        out[1] = 0x80 | point & 0x3f
        return 2
    if point < 0x10000:
        out[0] = 0xe0 | point >> 12
        out[1] = 0x80 | point >> 6 & 0x3f
        out[2] = 0x80 | point & 0x3f
        return 3
    out[0] = 0xf0 | point >> 18
    out[1] = 0x80 | point >> 12 & 0x3f
    out[2] = 0x80 | point >> 6 & 0x3f
    out[3] = 0x80 | point & 0x3f
    return 4


cdef bint unicode_escape(Scan *s, int64_t *size) noexcept nogil:
    """Takes \\uXXXX, or two of them that are a surrogate pair."""
    cdef int32_t point = hexadecimal(s.at + 2) if s.end - s.at >= 6 else -1
    cdef int32_t low = 0
    if point < 0:
        return json_bad(s, "four hexadecimal digits are needed after \\u")
    s.at += 6
    if 0xd800 <= point < 0xe000:
        if point < 0xdc00 and s.end - s.at >= 6 and s.at[0] == c'\\' and s.at[1] == c'u':
            low = hexadecimal(s.at + 2)
            s.at += 6
        if low < 0xdc00 or low > 0xdfff:
            return json_bad(s, "half a surrogate pair")
        point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00)
    size[0] += put_utf8(s.text + size[0], point)
    return True


cdef int plain_escape(uint8_t c) noexcept nogil:
    if c == c'"' or c == c'\\' or c == c'/':
        return c
    if c == c'b':
        return 8
    if c == c'f':
        return 12
    if c == c'n':
        return 10
    if c == c'r':
        return 13
    return 9 if c == c't' else -1


cdef bint json_escaped(Scan *s, const uint8_t *start, const uint8_t *first) noexcept nogil:
    """Takes the rest of a string from its first escape on, and copies the whole string to `text`."""
    cdef int64_t size = first - start
    cdef int step
    if not room(s, size + (s.end - first) + 8):
        return False
    memcpy(s.text, start, size)
    s.at = first
    while s.at < s.end:
        if s.at[0] == c'"':
            s.at += 1
            s.string = s.text
            s.string_size = size
            return True
        if s.at[0] == c'\\':
            if s.end - s.at < 2:
                break
            step = plain_escape(s.at[1])
            if step >= 0:
                s.text[size] = <uint8_t>step
                size += 1
                s.at += 2
            elif s.at[1] != c'u':
                return json_bad(s, "this escape is not JSON")
            elif not unicode_escape(s, &size):
                return False
            continue
        step = 1 if s.at[0] < 0x80 else utf8_size(s.at, s.end)
        if step == 0 or s.at[0] < 0x20:
            return json_bad(s, "not UTF-8" if step == 0 else "a control character in a string")
        memcpy(s.text + size, s.at, step)
        size += step
        s.at += step
    return json_bad(s, "a string does not end")


cdef bint skip_all(Scan *s, int close, int depth) noexcept nogil:
    if depth >= JSON_DEPTH_MAX:
        return json_bad(s, "nested more than 1000 deep")
    s.at += 1
    if json_peek(s) == close:
        s.at += 1
        return True
    while True:
        if close == c'}' and not (json_string(s) and json_take(s, c':', "':' is missing")):
            return False
        if not json_skip(s, depth + 1):
            return False
        if json_peek(s) != c',':
            return json_take(s, close, "',' or the end of an object or array is missing")
        s.at += 1


cdef bint json_skip(Scan *s, int depth) noexcept nogil:
    """Takes any value and ignores it."""
    cdef int c = json_peek(s)
    if c == c'"':
        return json_string(s)
    if c == c'{':
        return skip_all(s, c'}', depth)
    if c == c'[':
        return skip_all(s, c']', depth)
    if c == c't':
        return json_literal(s, "true", 4)
    if c == c'f':
        return json_literal(s, "false", 5)
    if c == c'n':
        return json_literal(s, "null", 4)
    if s.at >= s.end:
        return json_bad(s, "the value is truncated")
    return json_number(s)
