"""Records inside a batch (magic 2), uncompressed: measured, written, read and checked, inline where hot.

    length varint · attributes int8 · timestamp delta varlong · offset delta varint · key length varint, key ·
    value length varint, value · header count varint, then per header: key length varint, key, value length
    varint, value. A length of -1 is null. https://kafka.apache.org/documentation/#record
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
from bowstring._native.varint cimport get_uvarint, get_varint, get_varlong, likely

cdef enum:
    # Longest framing of a record whose header list is empty: everything but key and value.
    RECORD_FRAMING_MAX_BYTES = 5 + 1 + 10 + 5 + 5 + 5 + 5

cdef struct Record:
    # One record, pointing into the batch. A null key or value has length -1.
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t key_length
    int32_t value_length
    int32_t header_count
    const uint8_t *key
    const uint8_t *value
    const uint8_t *headers        # first header; record_end - headers bytes
    const uint8_t *end

cdef struct RecordRules:
    int64_t base_timestamp
    int64_t earliest_timestamp
    int64_t latest_timestamp
    int8_t key_required
    int8_t check_timestamps       # CreateTime: those other than -1 must lie in [earliest, latest]

cdef struct RecordsFound:
    int64_t max_timestamp         # -1 for no record
    int32_t bad_record            # index of the first refused record, or -1
    const char *reason

# Checks that [at, end) holds exactly `count` well-formed records with offset deltas 0, 1, 2, … that obey the
# rules. 0, INVALID_RECORD, or INVALID_TIMESTAMP.
cdef int16_t records_check(
    const uint8_t *at, const uint8_t *end, int32_t count, const RecordRules *rules,
    RecordsFound *found) noexcept nogil

# Reads the record at *at, headers walked; False when it is malformed or passes `end`. On True *at is the next.
cdef bint record_read(const uint8_t **at, const uint8_t *end, Record *r) noexcept nogil


cdef inline bint headers_walk(const uint8_t *p, const uint8_t *end, int32_t count) noexcept nogil:
    """True when `count` headers fill [p, end) exactly."""
    cdef int32_t n
    cdef int32_t i
    if count < 0 or p > end or count > end - p:
        return False
    for i in range(count):
        if not get_varint(&p, end, False, &n) or n < 0 or n > end - p:
            return False
        p += n
        if not get_varint(&p, end, False, &n) or n < -1 or n > end - p:
            return False
        if n > 0:
            p += n
    return p == end


cdef inline bint take_field(
        const uint8_t **at, const uint8_t *end, bint roomy, const uint8_t **field, int32_t *length) noexcept nogil:
    """A key or value: its length and where it is. Zig-zag leaves lengths even, and makes null (-1) a 1."""
    cdef uint32_t doubled
    if not get_uvarint(at, end, roomy, &doubled):
        return False
    field[0] = at[0]
    if doubled & 1:
        length[0] = -1
        return doubled == 1
    length[0] = <int32_t>(doubled >> 1)
    at[0] += doubled >> 1
    return at[0] <= end


cdef inline bint record_body(const uint8_t *p, const uint8_t *end, bint roomy, Record *r) noexcept nogil:
    """What follows the length: [p, end). Under `roomy` a varint may run past the end; p is then beyond it."""
    cdef uint32_t doubled
    p += 1                                               # attributes: unused, not looked at (as in Kafka)
    if not get_varlong(&p, end, roomy, &r.timestamp_delta) or not get_varint(&p, end, roomy, &r.offset_delta):
        return False
    if not take_field(&p, end, roomy, &r.key, &r.key_length):
        return False
    if not take_field(&p, end, roomy, &r.value, &r.value_length):
        return False
    if not get_uvarint(&p, end, roomy, &doubled) or doubled & 1:
        return False
    r.header_count = <int32_t>(doubled >> 1)
    r.headers = p
    r.end = end
    if likely(doubled == 0, True):
        return p == end
    return headers_walk(p, end, r.header_count)


cdef inline bint record_parse(const uint8_t **at, const uint8_t *end, Record *r) noexcept nogil:
    """record_read, inline for the loops over whole batches: a record that is not near the end of the batch is
    read without looking for that end at every byte. `r` stays in registers: its address goes nowhere."""
    cdef const uint8_t *p = at[0]
    cdef Record other
    cdef uint32_t doubled
    cdef int64_t n
    if likely(end - p > RECORD_FRAMING_MAX_BYTES, True):
        if not get_uvarint(&p, end, True, &doubled) or doubled & 1:
            return False
        n = doubled >> 1
        if likely(end - p - n >= RECORD_FRAMING_MAX_BYTES, True):
            at[0] = p + n
            return record_body(p, p + n, True, r)
    p = at[0]
    if not record_read(&p, end, &other):
        return False
    at[0] = p
    r[0] = other
    return True
