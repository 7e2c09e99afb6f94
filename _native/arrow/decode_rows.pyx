"""Decodes the records of a batch into Arrow's buffers, see decode_rows.pxd."""
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from bowstring._native.arrow.buffer_pool cimport Growing, memory_discard, memory_grow
from bowstring._native.record.batch cimport ATTR_LOG_APPEND_TIME, BatchInfo, Record, record_parse
from bowstring._native.record.decode cimport RECORD_MIN_BYTES
from bowstring._native.record.timestamp_windows cimport TimeRun, is_one_window, window_start
from bowstring._native.base.varint cimport get_varint, likely

cdef enum:
    COPIED_MAX_BYTES = 256        # longer values are copied by memcpy()
    COPY_STEP_BYTES = 32
    ROOMY_BYTES = 64              # bytes that must follow a record so that copies in steps stay within the batch

# ---------------------------------------------------------------- one value


cdef inline void copy_bytes(uint8_t *to, const uint8_t *start, int64_t length, bint roomy) noexcept nogil:
    """Copies a value. If `roomy`, both sides have spare bytes for a step, and short values need no memcpy call."""
    cdef int64_t done = 0
    if roomy and likely(length <= COPIED_MAX_BYTES, True):
        while done < length:
            memcpy(to + done, start + done, COPY_STEP_BYTES)
            done += COPY_STEP_BYTES
    else:
        memcpy(to, start, length)


cdef inline bint put_view(
        uint8_t *view, const uint8_t *start, int32_t length, bint roomy, const uint8_t *origin,
        int32_t source) noexcept nogil:
    """Writes a view; returns whether it points into the source. `roomy`: 16 bytes may be read at `start`."""
    cdef uint64_t low = 0
    cdef uint32_t high = 0
    cdef int32_t offset
    memcpy(view, &length, 4)
    if length > VIEW_INLINE_MAX_BYTES:
        offset = <int32_t>(start - origin)
        memcpy(view + 4, start, 4)
        memcpy(view + 8, &source, 4)
        memcpy(view + 12, &offset, 4)
        return True
    if roomy:
        memcpy(&low, start, 8)
        memcpy(&high, start + 8, 4)
        if length < 8:
            low &= (<uint64_t>1 << (8 * length)) - 1
            high = 0
        elif length < 12:
            high &= (<uint32_t>1 << (8 * (length - 8))) - 1
    elif length > 8:
        memcpy(&low, start, 8)
        memcpy(&high, start + 8, length - 8)
    else:
        memcpy(&low, start, length)
    memcpy(view + 4, &low, 8)
    memcpy(view + 12, &high, 4)
    return False


cdef inline void put_null(BinaryColumn *c, int64_t row) noexcept nogil:
    c.valid.data[row >> 3] &= ~(<uint8_t>1 << (row & 7))
    c.nulls += 1


cdef inline void put_plain(BinaryColumn *c, int64_t row, const uint8_t *start, int32_t length, bint roomy) noexcept nogil:
    """Appends a value in the binary layout, for which there is room."""
    if likely(length >= 0, True):
        copy_bytes(c.data.data + c.data_bytes, start, length, roomy)
        c.data_bytes += length
    else:
        put_null(c, row)
    (<int32_t *>c.entries.data)[row + 1] = <int32_t>c.data_bytes


cdef inline bint put_value(
        BinaryColumn *c, bint views, int64_t row, const uint8_t *start, int32_t length, bint roomy,
        const uint8_t *origin, int32_t source) noexcept nogil:
    """Appends a value; returns whether it is a view into the source."""
    if not views:
        put_plain(c, row, start, length, roomy)
        return False
    if length < 0:
        put_null(c, row)
        memset(c.entries.data + VIEW_BYTES * row, 0, VIEW_BYTES)
        return False
    return put_view(c.entries.data + VIEW_BYTES * row, start, length, roomy, origin, source)


cdef inline int64_t in_microseconds(int64_t ms) noexcept nogil:
    """Converts milliseconds; saturates at 64 bits, 292,000 years before and after 1970."""
    if ms > INT64_MAX // 1000:
        return INT64_MAX
    if ms < -(INT64_MAX // 1000):
        return INT64_MIN
    return ms * 1000

# ---------------------------------------------------------------- room


cdef bint room_for_bits(BinaryColumn *c, int64_t rows, int64_t more) noexcept nogil:
    """Makes room in the bitmap. New rows are valid until put_null marks them."""
    cdef int64_t used = (rows + 7) >> 3, needed = (rows + more + 7) >> 3
    if not memory_grow(&c.valid, used, needed - used):
        return False
    memset(c.valid.data + used, 0xFF, needed - used)
    if rows & 7:                                         # an earlier call set bits for rows that were not appended
        c.valid.data[rows >> 3] |= <uint8_t>(0xFF << (rows & 7))
    return True


cdef bint offsets_room(Growing *offsets, int64_t rows, int64_t more) noexcept nogil:
    if not memory_grow(offsets, 4 * (rows + 1) if offsets.data != NULL else 0, 4 * (more + 1)):
        return False
    if rows == 0:
        (<int32_t *>offsets.data)[0] = 0
    return True


cdef bint binary_room(BinaryColumn *c, bint views, int64_t rows, int64_t more, int64_t data_bytes) noexcept nogil:
    if not room_for_bits(c, rows, more):
        return False
    if views:
        return memory_grow(&c.entries, VIEW_BYTES * rows, VIEW_BYTES * more)
    return offsets_room(&c.entries, rows, more) and memory_grow(&c.data, c.data_bytes, data_bytes)


cdef bint rows_room(Rows *c, int64_t rows, int64_t data_bytes) noexcept nogil:
    """Makes room for `rows` more records with at most `data_bytes`; see the .pxd."""
    cdef int32_t wanted = c.wanted
    return (
        (not wanted & COLUMN_TOPIC or memory_grow(&c.topics, 4 * c.rows, 4 * rows))
        and (not wanted & COLUMN_PARTITION or memory_grow(&c.partitions, 4 * c.rows, 4 * rows))
        and (not wanted & COLUMN_OFFSET or memory_grow(&c.offsets, 8 * c.rows, 8 * rows))
        and (not wanted & COLUMN_TIMESTAMP or memory_grow(&c.timestamps, 8 * c.rows, 8 * rows))
        and (not wanted & COLUMN_TIMESTAMP_TYPE or memory_grow(&c.timestamp_types, c.rows, rows))
        and (not wanted & COLUMN_KEY or binary_room(&c.keys, c.views, c.rows, rows, data_bytes))
        and (not wanted & COLUMN_VALUE or binary_room(&c.values, c.views, c.rows, rows, data_bytes))
        and (not wanted & COLUMN_HEADERS or offsets_room(&c.headers.ends, c.rows, rows)))


cdef bint take_headers(HeaderColumn *h, const uint8_t *p, const uint8_t *end, int32_t count) noexcept nogil:
    """Appends the headers of a record whose lengths record_parse() has checked. False when memory ran out."""
    cdef int32_t length = 0, i, j
    cdef uint8_t seen = 0
    if not binary_room(&h.keys, False, h.count, count, end - p):
        return False
    if not binary_room(&h.values, False, h.count, count, end - p):
        return False
    for i in range(count):
        get_varint(&p, end, False, &length)
        for j in range(length):
            seen |= p[j]
        put_plain(&h.keys, h.count, p, length, False)
        p += length
        get_varint(&p, end, False, &length)
        put_plain(&h.values, h.count, p, length, False)
        p += length if length > 0 else 0
        h.count += 1
    if seen & 0x80:
        h.ascii = False
    return True

# ---------------------------------------------------------------- one batch


cdef inline void widen(int64_t *low, int64_t *high, int64_t timestamp) noexcept nogil:
    low[0] = timestamp if timestamp < low[0] else low[0]
    high[0] = timestamp if timestamp > high[0] else high[0]


cdef inline Taken take_loop(
        Rows *c, const uint8_t *at, const uint8_t *end, const BatchInfo *info, const uint8_t *origin,
        int32_t source, bint views) noexcept nogil:
    """Decodes one batch. Copies fields of `c` to locals first: reads through `c` would be repeated after every store."""
    cdef Record r
    cdef BinaryColumn keys = c.keys, values = c.values
    cdef int64_t *offsets = <int64_t *>c.offsets.data
    cdef int64_t *timestamps = <int64_t *>c.timestamps.data
    cdef const uint8_t *start
    cdef int64_t from_offset = c.from_offset, end_offset = c.end_offset, base_offset = info.base_offset
    cdef int64_t rows_max = c.rows_max, bytes_left = c.bytes_max - c.bytes, row = c.rows
    cdef int64_t offset = 0, timestamp, base_timestamp = info.base_timestamp, low = INT64_MAX, high = INT64_MIN
    cdef int32_t i, wanted = c.wanted, before = -1, last = info.last_offset_delta
    cdef bint stamped = info.attributes & ATTR_LOG_APPEND_TIME, used = False, roomy, counted = c.window_ms > 0
    cdef Taken taken = TAKEN_ALL
    for i in range(info.record_count):
        start = at
        if not record_parse(&at, end, &r) or r.offset_delta <= before or r.offset_delta > last:
            taken = TAKEN_MALFORMED
            break
        before = r.offset_delta
        offset = base_offset + before
        if offset < from_offset:
            continue
        if offset >= end_offset:
            taken = TAKEN_TO_END
            break
        if row >= rows_max or (at - start > bytes_left and row > 0):
            taken = TAKEN_FULL
            break
        bytes_left -= at - start
        roomy = end - at >= ROOMY_BYTES
        if wanted & COLUMN_OFFSET:
            offsets[row] = offset
        timestamp = <int64_t>(<uint64_t>base_timestamp + <uint64_t>r.timestamp_delta)
        if wanted & COLUMN_TIMESTAMP and not stamped:
            timestamps[row] = in_microseconds(timestamp) if c.microseconds else timestamp
        if counted:
            widen(&low, &high, timestamp)
        if wanted & COLUMN_KEY:
            used |= put_value(&keys, views, row, r.key, r.key_length, roomy, origin, source)
        if wanted & COLUMN_VALUE:
            used |= put_value(&values, views, row, r.value, r.value_length, roomy, origin, source)
        if wanted & COLUMN_HEADERS:
            if r.header_count > 0 and not take_headers(&c.headers, r.headers, r.end, r.header_count):
                taken = TAKEN_NO_MEMORY
                break
            (<int32_t *>c.headers.ends.data)[row + 1] = <int32_t>c.headers.count
        row += 1
        from_offset = offset + 1
    if taken == TAKEN_MALFORMED or (taken == TAKEN_ALL and at != end):
        return TAKEN_MALFORMED                           # `c` is unchanged, so the columns end where they did
    c.keys, c.values = keys, values
    c.bytes = c.bytes_max - bytes_left
    c.next_offset = offset if taken == TAKEN_FULL or taken == TAKEN_TO_END else from_offset
    c.source_used |= used
    finish_rows(c, row, info, stamped, low, high)
    return taken


cdef void finish_rows(
        Rows *c, int64_t rows, const BatchInfo *info, bint stamped, int64_t low, int64_t high) noexcept nogil:
    """Writes the columns that have one value for the whole batch, and the bounds of its timestamps."""
    cdef int64_t timestamp = in_microseconds(info.max_timestamp) if c.microseconds else info.max_timestamp, row
    if c.wanted & COLUMN_TIMESTAMP_TYPE:
        memset(c.timestamp_types.data + c.rows, 1 if stamped else 0, rows - c.rows)
    if c.wanted & COLUMN_TIMESTAMP and stamped:
        for row in range(c.rows, rows):
            (<int64_t *>c.timestamps.data)[row] = timestamp
    c.rows = rows
    c.low = info.max_timestamp if stamped else low
    c.high = info.max_timestamp if stamped else high


cdef bint add_run(Rows *c, int64_t start, int64_t count, int64_t newest) noexcept nogil:
    """Counts rows of one window. False when memory ran out."""
    cdef TimeRun *run
    if c.run_count > 0:
        run = <TimeRun *>c.runs.data + (c.run_count - 1)
        if run.start == start:
            run.count += count
            run.newest = newest if newest > run.newest else run.newest
            return True
    if not memory_grow(&c.runs, c.run_count * <int64_t>sizeof(TimeRun), sizeof(TimeRun)):
        return False
    run = <TimeRun *>c.runs.data + c.run_count
    run.start, run.count, run.newest = start, count, newest
    c.run_count += 1
    return True


cdef bint count_rows(
        Rows *c, const uint8_t *at, const uint8_t *end, const BatchInfo *info, int64_t from_offset,
        int64_t rows) noexcept nogil:
    """Counts the last `rows` rows, made of the batch's records from `from_offset` on; looks at each only where they are
    of several windows. False when memory ran out."""
    cdef Record r
    cdef int64_t timestamp
    if is_one_window(c.low, c.high, c.window_ms):
        return add_run(c, window_start(c.low, c.window_ms), rows, c.high)
    while rows > 0 and record_parse(&at, end, &r):
        if info.base_offset + r.offset_delta < from_offset:
            continue
        timestamp = <int64_t>(<uint64_t>info.base_timestamp + <uint64_t>r.timestamp_delta)
        if not add_run(c, window_start(timestamp, c.window_ms), 1, timestamp):
            return False
        rows -= 1
    return True


cdef Taken rows_take(
        Rows *c, const uint8_t *at, const uint8_t *end, const BatchInfo *info, const uint8_t *origin,
        int32_t source) noexcept nogil:
    cdef int64_t rows = info.record_count, first_row = c.rows, from_offset = c.from_offset
    cdef HeaderColumn before = c.headers
    cdef Taken taken
    if rows < 0 or rows > (end - at) // RECORD_MIN_BYTES:
        return TAKEN_MALFORMED
    if rows > c.rows_max - c.rows:
        rows = c.rows_max - c.rows
    if not rows_room(c, rows, end - at):
        return TAKEN_NO_MEMORY
    if c.views:
        taken = take_loop(c, at, end, info, origin, source, True)
    else:
        taken = take_loop(c, at, end, info, origin, source, False)
    if taken == TAKEN_MALFORMED:
        c.headers.count, c.headers.ascii = before.count, before.ascii
        c.headers.keys.data_bytes, c.headers.keys.nulls = before.keys.data_bytes, before.keys.nulls
        c.headers.values.data_bytes, c.headers.values.nulls = before.values.data_bytes, before.values.nulls
    elif c.window_ms > 0 and c.rows > first_row and not count_rows(c, at, end, info, from_offset, c.rows - first_row):
        return TAKEN_NO_MEMORY
    return taken

# ---------------------------------------------------------------- freeing memory


cdef void binary_discard(BinaryColumn *c) noexcept nogil:
    memory_discard(&c.entries)
    memory_discard(&c.data)
    memory_discard(&c.valid)
    c.data_bytes = 0
    c.nulls = 0



cdef void rows_discard(Rows *c) noexcept nogil:
    memory_discard(&c.topics)
    memory_discard(&c.partitions)
    memory_discard(&c.offsets)
    memory_discard(&c.timestamps)
    memory_discard(&c.timestamp_types)
    memory_discard(&c.runs)
    binary_discard(&c.keys)
    binary_discard(&c.values)
    memory_discard(&c.headers.ends)
    binary_discard(&c.headers.keys)
    binary_discard(&c.headers.values)
