"""Parses and writes dates and times in RFC 3339 form, in the proleptic Gregorian calendar."""
from libc.stdint cimport int32_t, int64_t, uint8_t


cdef int digits(const uint8_t *at, int count) noexcept nogil:
    """The number in so many digits; -1: other characters are there."""
    cdef int value = 0, i
    for i in range(count):
        if <uint8_t>(at[i] - c'0') > 9:
            return -1
        value = value * 10 + at[i] - c'0'
    return value


cdef int64_t days_of(int year, int month, int day) noexcept nogil:
    """Days since 1970, counted in eras of 400 years that begin in March."""
    cdef int y = year - 1 if month <= 2 else year
    cdef int era = (y if y >= 0 else y - 399) // 400
    cdef int year_of_era = y - era * 400
    cdef int day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * <int64_t>146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719468


cdef bint parse_date(const uint8_t *at, int64_t size, int32_t *days) noexcept nogil:
    """YYYY-MM-DD."""
    cdef int year, month, day, last
    if size != 10 or at[4] != c'-' or at[7] != c'-':
        return False
    year, month, day = digits(at, 4), digits(at + 5, 2), digits(at + 8, 2)
    last = 30 if month in (4, 6, 9, 11) else 31
    if month == 2:
        last = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    if year < 0 or month < 1 or month > 12 or day < 1 or day > last:
        return False
    days[0] = <int32_t>days_of(year, month, day)
    return True


cdef bint parse_time(const uint8_t **at, const uint8_t *end, int64_t *seconds, int64_t *nanoseconds) noexcept nogil:
    """Takes HH:MM, HH:MM:SS or HH:MM:SS.fraction with up to nine digits."""
    cdef const uint8_t *p = at[0]
    cdef int hour, minute, second = 0, place
    cdef int64_t fraction = 0
    if end - p < 5 or p[2] != c':':
        return False
    hour, minute = digits(p, 2), digits(p + 3, 2)
    p += 5
    if end - p >= 3 and p[0] == c':':
        second = digits(p + 1, 2)
        p += 3
        if p < end and p[0] == c'.':
            p += 1
            place = 0
            while p < end and <uint8_t>(p[0] - c'0') <= 9 and place < 9:
                fraction = fraction * 10 + p[0] - c'0'
                place += 1
                p += 1
            if place == 0:
                return False
            while place < 9:
                fraction *= 10
                place += 1
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return False
    at[0] = p
    seconds[0] = hour * 3600 + minute * 60 + second
    nanoseconds[0] = fraction
    return True


cdef bint parse_zone(const uint8_t *p, const uint8_t *end, int64_t *seconds) noexcept nogil:
    """Nothing, Z, +HH, +HHMM or +HH:MM to the end, as seconds east."""
    cdef int hours, minutes = 0
    cdef int64_t size = end - p
    seconds[0] = 0
    if size == 0 or (size == 1 and p[0] | 0x20 == c'z'):
        return True
    if (p[0] != c'+' and p[0] != c'-') or (size != 3 and size != 5 and not (size == 6 and p[3] == c':')):
        return False
    hours = digits(p + 1, 2)
    if size > 3:
        minutes = digits(end - 2, 2)
    if hours < 0 or hours > 18 or minutes < 0 or minutes > 59:
        return False
    seconds[0] = hours * 3600 + minutes * 60
    if p[0] == c'-':
        seconds[0] = -seconds[0]
    return True


cdef bint parse_timestamp(const uint8_t *at, int64_t size, int64_t *seconds, int64_t *nanoseconds) noexcept nogil:
    """A date, or a date, T or a space, a time, and perhaps a zone (else UTC), as seconds since 1970 and nanoseconds."""
    cdef int32_t days
    cdef int64_t of_day = 0, east
    cdef const uint8_t *p = at + 11
    cdef const uint8_t *end = at + size
    if size < 10 or not parse_date(at, 10, &days):
        return False
    nanoseconds[0] = 0
    if size > 10:
        if (at[10] | 0x20 != c't' and at[10] != c' ') or size < 16:
            return False
        if not parse_time(&p, end, &of_day, nanoseconds) or not parse_zone(p, end, &east):
            return False
        of_day -= east
    seconds[0] = days * <int64_t>86400 + of_day
    return True


cdef void put_digits(uint8_t *out, int64_t value, int count) noexcept nogil:
    cdef int i
    for i in range(count - 1, -1, -1):
        out[i] = <uint8_t>(c'0' + value % 10)
        value //= 10


cdef int write_date(uint8_t *out, int64_t days) noexcept nogil:
    """Writes YYYY-MM-DD and returns 10; 0 for years that do not have four digits."""
    cdef int64_t z = days + 719468
    cdef int64_t era = (z if z >= 0 else z - 146096) // 146097
    cdef int64_t day_of_era = z - era * 146097
    cdef int64_t year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    cdef int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    cdef int64_t shifted = (5 * day_of_year + 2) // 153
    cdef int64_t month = shifted + 3 if shifted < 10 else shifted - 9
    cdef int64_t year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    if year < 0 or year > 9999:
        return 0
    put_digits(out, year, 4)
    out[4] = out[7] = c'-'
    put_digits(out + 5, month, 2)
    put_digits(out + 8, day_of_year - (153 * shifted + 2) // 5 + 1, 2)
    return 10


cdef int write_time(uint8_t *out, int64_t seconds, int64_t nanoseconds) noexcept nogil:
    """Writes HH:MM:SS and a fraction of 3, 6 or 9 digits if it is not zero, and returns its size: at most 18 bytes."""
    put_digits(out, seconds // 3600, 2)
    out[2] = out[5] = c':'
    put_digits(out + 3, seconds // 60 % 60, 2)
    put_digits(out + 6, seconds % 60, 2)
    if nanoseconds == 0:
        return 8
    out[8] = c'.'
    if nanoseconds % 1000000 == 0:
        put_digits(out + 9, nanoseconds // 1000000, 3)
        return 12
    if nanoseconds % 1000 == 0:
        put_digits(out + 9, nanoseconds // 1000, 6)
        return 15
    put_digits(out + 9, nanoseconds, 9)
    return 18
