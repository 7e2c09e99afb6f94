"""Reads JSON's tokens (RFC 8259) from bytes.

Strings are read eight bytes at a time and copied only if they have escapes. Functions return False for malformed text, with the reason in `fault` and the place in `at`.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy
from bowstring._native.values.utf8 cimport utf8_size

cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(unsigned long long v) nogil

cdef enum:
    JSON_DEPTH_MAX = 1000

ctypedef struct Scan:
    const uint8_t *begin
    const uint8_t *at
    const uint8_t *end
    const char *fault
    const uint8_t *string       # what json_string found; in `text` if it was escaped
    int64_t string_size
    uint8_t *text
    int64_t text_capacity
    const uint8_t *number       # what json_number found: its text ends at `at`
    bint negative
    bint integer                # written without a fraction or an exponent
    bint fits                   # it is an integer whose magnitude fits 64 bits
    uint64_t magnitude

cdef bint json_escaped(Scan *s, const uint8_t *start, const uint8_t *first) noexcept nogil
cdef bint json_skip(Scan *s, int depth) noexcept nogil
cdef bint json_fraction(Scan *s) noexcept nogil
cdef bint json_fits(const uint8_t *digits) noexcept nogil


cdef inline bint json_bad(Scan *s, const char *why) noexcept nogil:
    s.fault = why
    return False


cdef inline int json_peek(Scan *s) noexcept nogil:
    """The next byte after white space, which is not taken; 0 at the end."""
    cdef uint8_t c
    while s.at < s.end:
        c = s.at[0]
        if c > 32 or (c != 32 and c != 10 and c != 13 and c != 9):
            return c
        s.at += 1
    return 0


cdef inline bint json_take(Scan *s, int wanted, const char *missing) noexcept nogil:
    if json_peek(s) != wanted:
        return json_bad(s, missing)
    s.at += 1
    return True


cdef inline bint json_literal(Scan *s, const char *word, int size) noexcept nogil:
    cdef int i
    if s.end - s.at < size:
        return json_bad(s, "not JSON")
    for i in range(size):
        if s.at[i] != <uint8_t>word[i]:
            return json_bad(s, "not JSON")
    s.at += size
    return True


cdef inline uint64_t string_stops(uint64_t word) noexcept nogil:
    """Sets the high bit of bytes that are a quote, a backslash, a control character or not ASCII. Bits above the first
    set one may be wrong."""
    cdef uint64_t ones = 0x0101010101010101
    cdef uint64_t quotes = word ^ (ones * 0x22)
    cdef uint64_t slashes = word ^ (ones * 0x5c)
    return (((quotes - ones) & ~quotes) | ((slashes - ones) & ~slashes) | ((word - ones * 0x20) & ~word)
            | word) & <uint64_t>0x8080808080808080


cdef inline bint json_string(Scan *s) noexcept nogil:
    """Takes a string, the quote before it included."""
    cdef const uint8_t *start
    cdef const uint8_t *p
    cdef uint64_t word, stops
    cdef int size
    if not json_take(s, c'"', "a string in quotes is missing"):
        return False
    start = p = s.at
    while True:
        while s.end - p >= 8:
            memcpy(&word, p, 8)
            stops = string_stops(word)
            if stops:
                p += trailing_zeros(stops) >> 3
                break
            p += 8
        s.at = p
        if p >= s.end:
            return json_bad(s, "a string does not end")
        if p[0] == c'"':
            s.string = start
            s.string_size = p - start
            s.at = p + 1
            return True
        if p[0] == c'\\':
            return json_escaped(s, start, p)
        size = 1
        if p[0] >= 0x80:
            size = utf8_size(p, s.end)
            if size == 0:
                return json_bad(s, "not UTF-8")
        elif p[0] < 0x20:
            return json_bad(s, "a control character in a string")
        p += size


cdef inline bint json_number(Scan *s) noexcept nogil:
    """Takes a number."""
    cdef const uint8_t *p = s.at
    cdef const uint8_t *first
    cdef uint64_t value = 0
    cdef int64_t digits
    s.number = p
    s.negative = p < s.end and p[0] == c'-'
    if s.negative:
        p += 1
    first = p
    while p < s.end and <uint8_t>(p[0] - c'0') <= 9:
        value = value * 10 + <uint8_t>(p[0] - c'0')
        p += 1
    digits = p - first
    if digits == 0:
        return json_bad(s, "not JSON")
    if digits > 1 and first[0] == c'0':
        return json_bad(s, "a number begins with 0")
    s.integer = True
    s.fits = digits < 20 or (digits == 20 and json_fits(first))
    s.magnitude = value
    s.at = p
    if p < s.end and (p[0] == c'.' or p[0] | 0x20 == c'e'):
        return json_fraction(s)
    return True
