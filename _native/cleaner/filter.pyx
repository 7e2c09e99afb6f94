"""Decides which records of each batch stay, see filter.pxd.

Keys are hashed AT_ONCE at a time, and the table's slots are prefetched: in a table larger than the processor's cache
every look-up would otherwise wait for memory.

Contents: records, some at a time · first pass (map_batch) · second pass: which records stay, how they are written,
batches (filter_batch).
"""
from libc.errno cimport EBADMSG, ENOMEM
from libc.stdint cimport int8_t, int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy
from bowstring._native.base.varint cimport get_uvarint, get_varlong, put_uvarint64, put_varint, varint_size
from bowstring._native.base.wire cimport Writer, grow, put_raw
from bowstring._native.cleaner.input cimport records_of, records_pack
from bowstring._native.cleaner.offset_map cimport KeyHash, key_hash, key_prefetch, keymap_get, keymap_home, keymap_put
from bowstring._native.cleaner.output cimport output_copy, output_header, output_seal
from bowstring._native.cleaner.transactions cimport Aborted, aborted_add, transactions_control, transactions_data
from bowstring._native.cleaner.types cimport Kept, LastData, Span
from bowstring._native.log cimport NO_TIMESTAMP, last_offset_of
from bowstring._native.record.batch cimport (
    ATTR_COMPRESSION_MASK, ATTR_CONTROL, ATTR_DELETE_HORIZON, ATTR_LOG_APPEND_TIME, Record, record_parse)

cdef enum:
    AT_ONCE = 128                   # records whose keys are looked up together

cdef struct Look:
    # A record between hashing and looking up.
    KeyHash hash
    const uint8_t *start
    const uint8_t *end
    int64_t timestamp_delta
    int64_t offset
    int8_t has_key
    int8_t has_value

# ---------------------------------------------------------------- records, some at a time


cdef int32_t look_ahead(CleanRun *run, const BatchInfo *info, const uint8_t **at, const uint8_t *end, int32_t most,
                        Look *looks) noexcept nogil:
    """Reads up to AT_ONCE records and prefetches their slots: returns how many, or -1 when they are malformed."""
    cdef int32_t n = most if most < AT_ONCE else AT_ONCE
    cdef int32_t i
    cdef Record r
    cdef const uint8_t *p = at[0]
    for i in range(n):
        looks[i].start = p
        if not record_parse(&p, end, &r):
            return -1
        looks[i].end = p
        looks[i].timestamp_delta = r.timestamp_delta
        looks[i].offset = info.base_offset + r.offset_delta
        looks[i].has_value = r.value_length >= 0
        looks[i].has_key = r.key_length >= 0
        if r.key_length >= 0:
            looks[i].hash = key_hash(run.map.secret, r.key, r.key_length)
            key_prefetch(keymap_home(&run.map, looks[i].hash))
    at[0] = p
    return n


cdef int malformed(CleanRun *run) noexcept nogil:
    run.reason = b"has malformed records or a wrong record count"
    return -EBADMSG

# ---------------------------------------------------------------- first pass


cdef int map_batch(CleanRun *run, const uint8_t *batch, const BatchInfo *info) noexcept nogil:
    cdef Look[AT_ONCE] looks
    cdef const uint8_t *at = NULL
    cdef const uint8_t *end = NULL
    cdef const Aborted *ended = NULL
    cdef int32_t left = info.record_count, n, i
    cdef int error
    run.counters.map_bytes += info.size_bytes
    run.counters.map_records += info.record_count
    if info.attributes & ATTR_CONTROL:
        transactions_control(&run.transactions, batch, info, &ended)
        return -ENOMEM if run.transactions.failed else 1
    if transactions_data(&run.transactions, info):
        return -ENOMEM if run.transactions.failed else 1
    error = records_of(run, batch, info, &at, &end)
    if error != 0:
        return error
    while left > 0:
        n = look_ahead(run, info, &at, end, left, looks)
        if n < 0:
            return malformed(run)
        for i in range(n):
            if looks[i].has_key and looks[i].offset >= run.first_dirty_offset \
                    and not keymap_put(&run.map, looks[i].hash, looks[i].offset):
                return 0
        left -= n
    if at != end:
        return malformed(run)
    return -ENOMEM if run.transactions.failed else 1

# ---------------------------------------------------------------- second pass: which records


cdef bint keep(Kept *kept, const Look *look) noexcept nogil:
    cdef Span *grown
    cdef Span *last
    kept.count += 1
    kept.size_bytes += look.end - look.start
    if not look.has_value:
        kept.tombstones = True
    if kept.span_count > 0:
        last = &kept.spans[kept.span_count - 1]
        if last.end == look.start:
            last.end = look.end
            return True
    if kept.span_count == kept.span_capacity:
        grown = <Span *>realloc(kept.spans, (kept.span_capacity * 2 + 64) * sizeof(Span))
        if grown == NULL:
            return False
        kept.spans = grown
        kept.span_capacity = kept.span_capacity * 2 + 64
    kept.spans[kept.span_count].start = look.start
    kept.spans[kept.span_count].end = look.end
    kept.span_count += 1
    return True


cdef inline bint stays(CleanRun *run, const Look *look, bint tombstones_stay) noexcept nogil:
    """Whether a record stays: it is the newest of its key (a tombstone only for a limited time), or above the mapped
    offsets."""
    if look.offset > run.latest_offset:
        return True
    if not look.has_key:
        run.counters.keyless_records += 1
        return False
    return look.offset >= keymap_get(&run.map, look.hash) and (look.has_value or tombstones_stay)


cdef int choose(CleanRun *run, const BatchInfo *info, const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Collects the records of a batch that stay in run.kept."""
    cdef Look[AT_ONCE] looks
    cdef Kept *kept = &run.kept
    cdef int64_t timestamp
    cdef int32_t left = info.record_count, n, i
    cdef bint control = info.attributes & ATTR_CONTROL
    cdef bint tombstones_stay = not info.attributes & ATTR_DELETE_HORIZON or run.now_ms < info.base_timestamp
    while left > 0:
        n = look_ahead(run, info, &at, end, left, looks)
        if n < 0:
            return malformed(run)
        for i in range(n):
            if control or stays(run, &looks[i], tombstones_stay):
                timestamp = <int64_t>(<uint64_t>info.base_timestamp + <uint64_t>looks[i].timestamp_delta)
                if timestamp > kept.max_timestamp:
                    kept.max_timestamp = timestamp
                if not keep(kept, &looks[i]):
                    return -ENOMEM
        left -= n
    return 0 if at == end else malformed(run)

# ---------------------------------------------------------------- second pass: how they are written


cdef int put_rebased(Writer *w, const uint8_t *at, const uint8_t *end, int64_t shift) noexcept nogil:
    """Writes the records of [at, end) with `shift` added to their timestamp deltas."""
    cdef const uint8_t *p
    cdef const uint8_t *record_end
    cdef uint8_t *out
    cdef uint32_t doubled = 0
    cdef int64_t delta = 0, body, before
    cdef uint8_t attributes
    while at < end:
        p = at
        get_uvarint(&p, end, False, &doubled)
        record_end = p + (doubled >> 1)
        attributes = p[0]
        p += 1
        get_varlong(&p, record_end, False, &delta)
        delta = <int64_t>(<uint64_t>delta + <uint64_t>shift)
        body = 1 + varint_size(delta) + (record_end - p)
        before = w.size
        if grow(w, body + 10) == NULL:
            return -ENOMEM
        out = put_uvarint64(w.data + before, <uint64_t>body << 1)
        out[0] = attributes
        out = put_varint(out + 1, delta)
        memcpy(out, p, <size_t>(record_end - p))
        w.size = out + (record_end - p) - w.data
        at = record_end
    return 0


cdef int put_kept(CleanRun *run, Writer *w, int64_t shift) noexcept nogil:
    cdef int32_t i
    cdef int error = 0
    for i in range(run.kept.span_count):
        if shift == 0:
            put_raw(w, run.kept.spans[i].start, run.kept.spans[i].end - run.kept.spans[i].start)
        elif error == 0:
            error = put_rebased(w, run.kept.spans[i].start, run.kept.spans[i].end, shift)
    return -ENOMEM if w.failed else error


cdef int write_kept(CleanRun *run, const BatchInfo *info, bint set_horizon) noexcept nogil:
    """Writes a batch of the kept records; offsets, sequences and epochs do not change. A delete horizon replaces the base
    timestamp (KIP-534), so that timestamp deltas change, too."""
    cdef BatchInfo out = info[0]
    cdef int64_t shift = 0, start
    cdef int error
    out.record_count = run.kept.count
    if not info.attributes & ATTR_LOG_APPEND_TIME:
        out.max_timestamp = run.kept.max_timestamp
    if set_horizon:
        out.attributes |= ATTR_DELETE_HORIZON
        out.base_timestamp = run.now_ms + run.delete_retention_ms
        shift = <int64_t>(<uint64_t>info.base_timestamp - <uint64_t>out.base_timestamp)
    if info.attributes & ATTR_COMPRESSION_MASK:
        run.scratch.size = 0
        error = put_kept(run, &run.scratch, shift)
        if error == 0:
            error = records_pack(run, info)
        if error != 0:
            return error
        if output_header(run) == NULL:
            return -ENOMEM
        put_raw(&run.output.data, run.scratch.data, run.scratch.size)
        return output_seal(run, &out, run.scratch.size)
    if output_header(run) == NULL:
        return -ENOMEM
    start = run.output.data.size
    error = put_kept(run, &run.output.data, shift)
    return error if error != 0 else output_seal(run, &out, run.output.data.size - start)


cdef int write_empty(CleanRun *run, const BatchInfo *info) noexcept nogil:
    """Writes a header without records, to keep its producer's last sequence or the end of the cleaned range."""
    cdef BatchInfo out = info[0]
    out.attributes = info.attributes & ~(ATTR_COMPRESSION_MASK | ATTR_DELETE_HORIZON)
    out.record_count = 0
    out.base_timestamp = NO_TIMESTAMP
    if output_header(run) == NULL:
        return -ENOMEM
    return output_seal(run, &out, 0)

# ---------------------------------------------------------------- second pass: batches


cdef bint last_of_producer(const CleanRun *run, const BatchInfo *info) noexcept nogil:
    cdef int32_t low = 0, high = run.producer_count, middle
    cdef const LastData *found
    if info.producer_id < 0:
        return False
    while low < high:
        middle = low + (high - low) // 2
        if run.producers[middle].producer_id < info.producer_id:
            low = middle + 1
        else:
            high = middle
    if low == run.producer_count or run.producers[low].producer_id != info.producer_id:
        return False
    found = &run.producers[low]
    if found.last_offset >= 0:
        return last_offset_of(info) == found.last_offset
    return info.attributes & ATTR_CONTROL and info.producer_epoch == found.epoch


cdef int discardable(CleanRun *run, const uint8_t *batch, const BatchInfo *info, bint *needless) noexcept nogil:
    """Whether all records of the batch may be dropped because of transactions: they are aborted, or a marker that ends no
    remaining data."""
    cdef const Aborted *ended = NULL
    cdef int error = 0
    if info.attributes & ATTR_CONTROL:
        needless[0] = transactions_control(&run.transactions, batch, info, &ended)
        if ended != NULL:
            error = aborted_add(&run.output.aborted, ended)
    else:
        needless[0] = transactions_data(&run.transactions, info)
    return -ENOMEM if run.transactions.failed else error


cdef int filter_batch(CleanRun *run, const uint8_t *batch, const BatchInfo *info) noexcept nogil:
    cdef const uint8_t *at = NULL
    cdef const uint8_t *end = NULL
    cdef bint needless = False, discard, retain_empty, set_horizon
    cdef bint control = info.attributes & ATTR_CONTROL
    cdef int error = discardable(run, batch, info, &needless)
    run.counters.read_bytes += info.size_bytes
    run.counters.read_records += info.record_count
    if error != 0:
        return error
    discard = needless and (not control or (info.attributes & ATTR_DELETE_HORIZON
                                            and info.base_timestamp <= run.now_ms))
    # Without the last committed batch, what has been committed could not be seen in the segments.
    retain_empty = last_of_producer(run, info) or last_offset_of(info) + 1 == run.high_watermark
    run.kept.span_count = run.kept.count = 0
    run.kept.size_bytes = 0
    run.kept.max_timestamp = NO_TIMESTAMP
    run.kept.tombstones = False
    if not discard:
        error = records_of(run, batch, info, &at, &end)
        if error == 0:
            error = choose(run, info, at, end)
        if error != 0:
            return error
    if run.kept.count == 0:
        return write_empty(run, info) if retain_empty else 0
    set_horizon = (run.kept.tombstones or (needless and control)) and not info.attributes & ATTR_DELETE_HORIZON
    if run.kept.count == info.record_count and not set_horizon:
        return output_copy(run, batch, info)
    return write_kept(run, info, set_horizon)
