"""Converts numbers in JSON text to doubles and decimals."""
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy
from bowstring._native.values.json_scan cimport Scan

cdef extern from "<locale.h>" nogil:
    ctypedef void *locale_t
    enum:
        LC_ALL_MASK
    locale_t newlocale(int mask, const char *name, locale_t base)

cdef extern from "<stdlib.h>" nogil:
    double strtod_l(const char *text, char **end, locale_t locale)

cdef locale_t PLAIN = newlocale(LC_ALL_MASK, "C", <locale_t>NULL)
cdef double[23] POWERS = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22]
cdef enum:
    NUMBER_TEXT_MAX_BYTES = 1100   # more digits than ever change a double's rounding


cdef bint number_double(const Scan *s, double *value) noexcept nogil:
    """Converts the number that json_number() took last. By exact arithmetic if it can (Clinger 1990), else strtod()."""
    cdef char[NUMBER_TEXT_MAX_BYTES + 1] text
    cdef int64_t size = s.at - s.number
    cdef uint64_t mantissa = 0
    cdef int scale = 0, i
    cdef bint point = False, plain = size <= 18
    cdef uint8_t c
    if s.integer and s.fits and s.magnitude <= <uint64_t>1 << 53:
        value[0] = -<double>s.magnitude if s.negative else <double>s.magnitude
        return True
    if plain:
        for i in range(size):
            c = s.number[i]
            if <uint8_t>(c - c'0') <= 9:
                mantissa = mantissa * 10 + <uint8_t>(c - c'0')
                scale += point
            elif c == c'.':
                point = True
            elif c != c'-':
                plain = False
                break
        if plain and mantissa <= <uint64_t>1 << 53:
            value[0] = mantissa / POWERS[scale]
            if s.negative:
                value[0] = -value[0]
            return True
    if size > NUMBER_TEXT_MAX_BYTES:
        return False
    memcpy(text, s.number, size)
    text[size] = 0
    value[0] = strtod_l(text, NULL, PLAIN)
    return True


cdef int128 power_of_ten(int n) noexcept nogil:
    cdef int128 value = 1
    while n > 0:
        value *= 10
        n -= 1
    return value


cdef bint exponent_of(const uint8_t *p, const uint8_t *end, int64_t *exponent) noexcept nogil:
    cdef bint negative = p < end and p[0] == c'-'
    cdef int64_t value = 0
    if p < end and (p[0] == c'-' or p[0] == c'+'):
        p += 1
    if p >= end:
        return False
    while p < end:
        if <uint8_t>(p[0] - c'0') > 9 or value > 100000:
            return False
        value = value * 10 + <uint8_t>(p[0] - c'0')
        p += 1
    exponent[0] = -value if negative else value
    return True


cdef bint text_decimal(const uint8_t *at, int64_t size, int precision, int scale, int128 *value) noexcept nogil:
    """The unscaled value of a number's text, rounded half up. False: no number, or more than `precision` digits."""
    cdef const uint8_t *p = at
    cdef const uint8_t *end = at + size
    cdef const uint8_t *mark
    cdef int128 limit = power_of_ten(precision), total = 0
    cdef int64_t exponent = 0, point = 0, place = 0
    cdef int digit, seen = 0, next_digit = 0
    cdef bint negative = size > 0 and p[0] == c'-', fraction = False
    if negative or (size > 0 and p[0] == c'+'):
        p += 1
    mark = p
    while mark < end and mark[0] | 0x20 != c'e':
        mark += 1
    if mark < end and not exponent_of(mark + 1, end, &exponent):
        return False
    # Takes the digits that the scale keeps; the first one after them decides the rounding.
    while p < mark:
        if p[0] == c'.' and not fraction:
            fraction = True
        elif <uint8_t>(p[0] - c'0') <= 9:
            digit = p[0] - c'0'
            seen += 1
            place += fraction
            if place <= scale + exponent:
                total = total * 10 + digit
                point = place
                if total >= limit:
                    return False
            elif place == scale + exponent + 1 and total >= 0:
                next_digit = digit
        else:
            return False
        p += 1
    if seen == 0:
        return False
    if scale + exponent < 0:
        return text_decimal_cut(at, mark, precision, scale + exponent, negative, value)
    while point < scale + exponent and total != 0:
        total *= 10
        point += 1
        if total >= limit:
            return False
    if next_digit >= 5:
        total += 1
        if total >= limit:
            return False
    value[0] = -total if negative else total
    return True


cdef bint text_decimal_cut(const uint8_t *p, const uint8_t *end, int precision, int64_t dropped, bint negative,
                           int128 *value) noexcept nogil:
    """The same if the scale drops digits before the point: `dropped` of them, as a negative number."""
    cdef int64_t whole = 0, i
    cdef int128 total = 0, limit = power_of_ten(precision)
    cdef const uint8_t *first = p + 1 if p[0] == c'-' or p[0] == c'+' else p
    while first + whole < end and first[whole] != c'.':
        whole += 1
    for i in range(max(<int64_t>0, whole + dropped)):
        total = total * 10 + (first[i] - c'0')
        if total >= limit:
            return False
    if whole + dropped >= 0 and first[whole + dropped] >= c'5' and first[whole + dropped] <= c'9':
        total += 1
        if total >= limit:
            return False
    value[0] = -total if negative else total
    return True
