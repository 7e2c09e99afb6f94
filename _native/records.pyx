"""The loop that checks every record of a produced batch."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from bowstring._native.error_codes cimport INVALID_RECORD, INVALID_TIMESTAMP
from bowstring._native.varint cimport get_uvarint


cdef bint record_read(const uint8_t **at, const uint8_t *end, Record *r) noexcept nogil:
    cdef const uint8_t *p = at[0]
    cdef uint32_t doubled
    cdef int64_t n
    if not get_uvarint(&p, end, False, &doubled) or doubled & 1:
        return False
    n = doubled >> 1
    if n == 0 or n > end - p:
        return False
    at[0] = p + n
    return record_body(p, p + n, False, r)


cdef int16_t records_check(
        const uint8_t *at, const uint8_t *end, int32_t count, const RecordRules *rules,
        RecordsFound *found) noexcept nogil:
    """Kafka's order: a malformed record refuses the batch without naming a record; otherwise the first
    refused one is named, and one bad timestamp anywhere makes the answer INVALID_TIMESTAMP."""
    cdef Record r
    cdef int64_t timestamp, max_timestamp = -1
    cdef int16_t error = 0
    cdef int32_t i
    found.bad_record = -1
    found.reason = NULL
    for i in range(count):
        if not record_parse(&at, end, &r):
            found.bad_record = -1
            found.reason = b"A record's framing is wrong: its lengths do not fit the batch."
            return INVALID_RECORD
        if r.offset_delta != i:
            found.bad_record = i
            found.reason = b"Offset deltas must count 0, 1, 2 and so on."
            return INVALID_RECORD
        if rules.key_required and r.key_length < 0:
            if found.bad_record < 0:
                found.bad_record = i
            if error == 0:
                error = INVALID_RECORD
                found.reason = b"A compacted topic takes no record without a key."
        timestamp = <int64_t>(<unsigned long long>rules.base_timestamp + <unsigned long long>r.timestamp_delta)
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        if (rules.check_timestamps and timestamp != -1
                and (timestamp < rules.earliest_timestamp or timestamp > rules.latest_timestamp)):
            if found.bad_record < 0:
                found.bad_record = i
            error = INVALID_TIMESTAMP
            found.reason = b"A timestamp lies outside message.timestamp.before.max.ms and .after.max.ms."
    if at != end:
        found.bad_record = -1
        found.reason = b"The batch holds bytes beyond the records it counts."
        return INVALID_RECORD
    found.max_timestamp = max_timestamp
    return error
