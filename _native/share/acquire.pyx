"""Acquires records, see acquire.pxd.

Contents: fetched batches · new records · records that are available again · aborted transactions · the bytes to send.
"""
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset
from bowstring._native.record.batch cimport BatchInfo, batch_extent, batch_parse
from bowstring._native.share.transitions cimport try_update
from bowstring._native.share.window cimport (
    ACQUIRED, AVAILABLE, EXPANDED_MAX, InFlight, OffsetState, Range, archive, floor_of, gap_active, in_flight, insert,
    is_free, isolate, lock, move_start, ranges_add, ranges_free)

cdef enum:
    BATCHES_FIRST_CAPACITY = 32
    THROTTLED_FROM_MIN = 2          # deliveries

# ---------------------------------------------------------------- fetched batches


cdef bint list_batches(const uint8_t *data, int64_t size, LogBatches *found) noexcept nogil:
    cdef int64_t position = 0, n
    cdef BatchInfo info
    cdef LogBatch *items
    memset(found, 0, sizeof(LogBatches))
    while True:
        n = batch_extent(data + position, size - position)
        if n <= 0 or batch_parse(data + position, n, &info) != 0:
            return True
        if found.count == found.capacity:
            found.capacity = found.capacity * 2 if found.capacity > 0 else BATCHES_FIRST_CAPACITY
            items = <LogBatch *>realloc(found.items, found.capacity * sizeof(LogBatch))
            if items == NULL:
                free(found.items)
                found.items = NULL
                return False
            found.items = items
        found.items[found.count] = LogBatch(
            info.base_offset, info.base_offset + info.last_offset_delta, <int32_t>position, <int32_t>n)
        found.count += 1
        position += n

# ---------------------------------------------------------------- new records


cdef void limit(const Window *w, const Acquisition *a, int64_t last_fetched, int64_t *last, int64_t *count) noexcept nogil:
    """The last offset and the number of records that may be acquired."""
    last[0] = last_fetched
    count[0] = min(a.max_records, w.limits.record_locks - in_flight(w))
    if count[0] <= 0 and a.fetch_offset <= w.end_offset:
        # At the limit, but records that are in flight already may be acquired again.
        count[0] = min(a.max_records, w.end_offset - a.fetch_offset + 1)
        last[0] = min(last_fetched, w.end_offset)


cdef int64_t end_of_batch(const LogBatches *batches, int64_t offset) noexcept nogil:
    """The last offset of the batch that has `offset`; else `offset`."""
    cdef int32_t i, found = -1
    for i in range(batches.count):
        if offset < batches.items[i].base_offset:
            break
        found = i
    if found >= 0 and offset <= batches.items[found].last_offset:
        return batches.items[found].last_offset
    return offset


cdef void note_gap(Window *w, int64_t offset) noexcept nogil:
    """Records below `offset` are in flight: the unknown part of the stored state begins there, or is over."""
    if w.gap_end >= 0 and w.gap_end == w.end_offset and offset <= w.gap_end:
        w.gap_start = offset
    else:
        w.gap_start = w.gap_end = -1


cdef int32_t insert_acquired(Window *w, Acquisition *a, int32_t at, int64_t first, int64_t last) noexcept nogil:
    """Adds an acquired batch before the one at an index. Returns its index; -1 without memory."""
    cdef OffsetState state = OffsetState(a.member, 0, 1, ACQUIRED, 0)
    lock(w, &state, a.now_ms)
    at = insert(w, at, first, last, &state)
    if at < 0:
        a.ranges.failed = True
    return at


cdef void insert_part(Window *w, Acquisition *a, int32_t at, int64_t first, int64_t last, int64_t until) noexcept nogil:
    """Adds a batch of which the member gets the records up to `until`, and the others stay available."""
    cdef OffsetState free_state = OffsetState(0, 0, 0, AVAILABLE, 0)
    cdef int64_t offset
    cdef bint large = last - first >= EXPANDED_MAX
    w.seeks = True
    at = insert_acquired(w, a, at, first, until if large else last)
    if at >= 0 and large:
        at = insert(w, at + 1, until + 1, last, &free_state)
    elif at >= 0:
        at = isolate(w, at, first, last)
    if at < 0:
        a.ranges.failed = True
    elif not large:
        for offset in range(until + 1 - first, last - first + 1):
            w.items[at].offsets[offset] = free_state


cdef int64_t create_batches(Window *w, const LogBatches *batches, Acquisition *a, int64_t first, int64_t last,
                            int64_t count) noexcept nogil:
    """Adds in-flight batches of at least batch_size records, cut between batches of the log. Returns the last offset that
    the member gets.
    """
    cdef int64_t from_offset = first, base
    cdef int32_t at = floor_of(w, first) + 1, i
    cdef int32_t begin = a.ranges.count
    if a.record_limit and last - first + 1 > count:
        ranges_add(&a.ranges, first, first + count - 1, ACQUIRED, 1, INT32_MAX)
        insert_part(w, a, at, first, last, first + count - 1)
        return first + count - 1
    if not a.record_limit and last - first + 1 > a.batch_size:
        for i in range(batches.count):
            base = batches.items[i].base_offset
            if base > last:
                break
            if base > from_offset and base - from_offset >= a.batch_size:
                ranges_add(&a.ranges, from_offset, base - 1, ACQUIRED, 1, INT32_MAX)
                from_offset = base
    ranges_add(&a.ranges, from_offset, last, ACQUIRED, 1, INT32_MAX)
    for i in range(begin, a.ranges.count):
        at = insert_acquired(w, a, at, a.ranges.items[i].first, a.ranges.items[i].last) + 1
        if at <= 0:
            break
    return last


cdef int64_t acquire_new(Window *w, const LogBatches *batches, Acquisition *a, int64_t first, int64_t last,
                         int64_t count) noexcept nogil:
    """Acquires records that are not in flight, about `count` of them. Returns how many."""
    cdef int64_t got
    if w.head == w.end and w.end_offset > first:
        first = w.end_offset
    if first > last or count <= 0:
        return 0
    if count < last - first + 1:
        got = end_of_batch(batches, first + count - 1)
        last = min(got, last) if gap_active(w) else got
    got = create_batches(w, batches, a, first, last, count)
    if a.ranges.failed:
        return 0
    if w.items[w.head].first == first:
        w.start_offset = first
    w.end_offset = max(w.end_offset, last)
    note_gap(w, got + 1)
    return got - first + 1

# ---------------------------------------------------------------- records that are available again


cdef inline int32_t throttled_from(const Window *w) noexcept nogil:
    """Records with this many deliveries are delivered in smaller portions: one of them may be what breaks consumers."""
    return max(THROTTLED_FROM_MIN, (w.limits.delivery_count + 1) // 2)


cdef bint throttled(const Window *w, const InFlight *item, int64_t first, int64_t last) noexcept nogil:
    cdef int32_t deliveries = 0
    cdef int64_t offset
    if item.offsets == NULL:
        return is_free(&item.whole) and item.whole.delivery_count >= throttled_from(w)
    for offset in range(max(first, item.first) - item.first, min(last, item.last) - item.first + 1):
        if is_free(&item.offsets[offset]):
            deliveries = max(deliveries, <int32_t>item.offsets[offset].delivery_count)
    return deliveries >= throttled_from(w)


cdef int64_t acquire_offsets(Window *w, Acquisition *a, InFlight *item, int64_t first, int64_t last,
                             int64_t count) noexcept nogil:
    """Acquires single records of a batch. Returns how many."""
    cdef OffsetState *s
    cdef int64_t offset, got = 0, most = -1
    cdef int32_t mark = a.ranges.count, limit = w.limits.delivery_count
    for offset in range(max(first, item.first), min(last, item.last) + 1):
        s = &item.offsets[offset - item.first]
        if not is_free(s):
            continue
        if limit > 2 and s.delivery_count == limit - 1 and got > 0:
            break                                        # the last delivery of a record is of that record alone
        if most < 0 and s.delivery_count >= throttled_from(w):
            most = max(1, (item.last - item.first + 1) >> (s.delivery_count - throttled_from(w) + 1))
        if not try_update(w, s, ACQUIRED, 1, a.member):
            continue
        lock(w, s, a.now_ms)
        ranges_add(&a.ranges, offset, offset, ACQUIRED, s.delivery_count, mark)
        got += 1
        if (s.delivery_count == limit and limit > 2) or (a.record_limit and got == count) or got == most:
            break
    return got


cdef bint acquire_whole(Window *w, Acquisition *a, InFlight *item) noexcept nogil:
    if not is_free(&item.whole) or not try_update(w, &item.whole, ACQUIRED, 1, a.member):
        return False
    lock(w, &item.whole, a.now_ms)
    ranges_add(&a.ranges, item.first, item.last, ACQUIRED, item.whole.delivery_count, INT32_MAX)
    return True


cdef int32_t part_to_acquire(Window *w, const Acquisition *a, int32_t at, int64_t first, int64_t last,
                             bint in_portions) noexcept nogil:
    """Makes the part of a batch from `first` to `last` a batch of its own or one with a state for each offset. Its index."""
    cdef InFlight *item = &w.items[at]
    first = max(first, item.first)
    last = min(last, item.last)
    if in_portions:
        last = min(last, first + EXPANDED_MAX - 1)
    at = isolate(w, at, first, last)
    if at >= 0 and w.items[at].last - w.items[at].first < EXPANDED_MAX:
        at = isolate(w, at, first, last)                 # it may have been cut instead
    return at


cdef int64_t acquire_item(Window *w, Acquisition *a, int32_t *at, int64_t first, int64_t last, int64_t count,
                          bint alone) noexcept nogil:
    """Acquires what is available of one batch, and moves `at` behind it. Returns how many records."""
    cdef InFlight *item = &w.items[at[0]]
    cdef int64_t size = item.last - item.first + 1
    cdef int32_t place = at[0]
    cdef bint in_portions = alone or (a.record_limit and size > count)
    if item.offsets == NULL and not is_free(&item.whole):
        at[0] += 1
        return 0
    if item.offsets == NULL and (in_portions or item.first < first or item.last > last):
        place = part_to_acquire(w, a, place, first, last, in_portions)
        if place < 0:
            a.ranges.failed = True
            at[0] += 1
            return 0
        item = &w.items[place]
    at[0] = place + 1
    if item.offsets != NULL:
        return acquire_offsets(w, a, item, first, last, count)
    return item.last - item.first + 1 if acquire_whole(w, a, item) else 0


cdef int64_t acquire_again(Window *w, const LogBatches *batches, Acquisition *a, int32_t at, int64_t gap, int64_t last,
                           int64_t *count) noexcept nogil:
    """Goes through the batches from index `at` on. Returns how many records it acquired, and sets `count` to 0 when the fetch
    gets no others.
    """
    cdef int64_t first = batches.items[0].base_offset, got, total = 0
    cdef int32_t place
    cdef bint alone
    while at < w.end and w.items[at].first <= last and total < count[0] and not a.ranges.failed:
        if gap_active(w):
            if gap < w.items[at].first:
                place = w.end - at
                total += acquire_new(w, batches, a, gap, w.items[at].first - 1, count[0] - total)
                at = w.end - place
            gap = w.items[at].last + 1
            if total >= count[0]:
                break
        alone = throttled(w, &w.items[at], first, last)
        if alone and total > 0:
            count[0] = 0
            break
        got = acquire_item(w, a, &at, first, last, count[0] - total, alone)
        total += got
        if alone and got > 0:
            count[0] = 0
            break
    return total


cdef bint archive_stale(Window *w, int64_t fetch_offset, int64_t base) noexcept nogil:
    """Archives available records between the wanted offset and the first batch: compaction has removed them."""
    cdef int archived
    if w.head == w.end or fetch_offset >= base:
        return True
    archived = archive(w, fetch_offset, base - 1, AVAILABLE, True)
    if archived > 0:
        w.seeks = True
    return archived >= 0


cdef void acquire(Window *w, const LogBatches *batches, Acquisition *a) noexcept nogil:
    cdef int64_t base, lower, last = 0, count = 0, total
    cdef int32_t at
    if a.max_records <= 0 or batches.count == 0 or batches.items[batches.count - 1].last_offset < w.start_offset:
        return
    limit(w, a, batches.items[batches.count - 1].last_offset, &last, &count)
    if count <= 0:
        return
    base = batches.items[0].base_offset
    if not archive_stale(w, a.fetch_offset, base):
        a.ranges.failed = True
        return
    at = floor_of(w, base)
    lower = base
    if at < w.head:
        base = max(base, w.start_offset)
    elif w.items[at].last >= base:
        lower = base = w.items[at].first
    at = max(at, w.head)
    if at < w.end and w.items[at].first < lower:
        at += 1
    if at >= w.end or w.items[at].first > last:
        acquire_new(w, batches, a, base, last, count)
        return
    total = acquire_again(w, batches, a, at, base, last, &count)
    at = floor_of(w, last)
    if total < count and not a.ranges.failed and w.items[at].last < last:
        acquire_new(w, batches, a, w.items[at].last + 1, last, count - total)
    if a.ranges.count > 0:
        note_gap(w, a.ranges.items[a.ranges.count - 1].last + 1)

# ---------------------------------------------------------------- aborted transactions


cdef void cut_range(Ranges *out, const Range *r, const Range *aborted, int32_t count) noexcept nogil:
    """Adds what is left of a range without the aborted ones, which are in order."""
    cdef int64_t first = r.first
    cdef int32_t i
    for i in range(count):
        if aborted[i].last < first:
            continue
        if aborted[i].first > r.last:
            break
        if aborted[i].first > first:
            ranges_add(out, first, aborted[i].first - 1, r.state, r.delivery_count, INT32_MAX)
        first = aborted[i].last + 1
    if first <= r.last:
        ranges_add(out, first, r.last, r.state, r.delivery_count, INT32_MAX)


cdef void drop_aborted(Window *w, const Ranges *aborted, Acquisition *a) noexcept nogil:
    cdef Ranges left
    cdef int32_t i
    memset(&left, 0, sizeof(left))
    for i in range(aborted.count):
        if archive(w, aborted.items[i].first, aborted.items[i].last, ACQUIRED, True) < 0:
            left.failed = True
    for i in range(a.ranges.count):
        cut_range(&left, &a.ranges.items[i], aborted.items, aborted.count)
    left.failed |= a.ranges.failed | aborted.failed
    ranges_free(&a.ranges)
    a.ranges = left
    move_start(w)                                        # a long aborted transaction may not fill the window for ever

# ---------------------------------------------------------------- the bytes to send


cdef void slice_acquired(const LogBatches *batches, const Ranges *ranges, int64_t *position, int64_t *size) noexcept nogil:
    cdef int64_t first = ranges.items[0].first, last = ranges.items[ranges.count - 1].last
    cdef int32_t begin = 0, end
    while begin + 1 < batches.count and batches.items[begin + 1].base_offset <= first:
        begin += 1
    end = begin + 1
    while end < batches.count and batches.items[end].base_offset <= last:
        end += 1
    position[0] = batches.items[begin].position
    size[0] = batches.items[end - 1].position + batches.items[end - 1].size_bytes - position[0]
