"""The in-flight window, see window.pxd.

Contents: ranges · batches (insert, isolate) · loading · states · where to fetch · the start offset.
"""
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memmove, memset

cdef enum:
    FIRST_CAPACITY = 8

# ---------------------------------------------------------------- ranges


cdef bint ranges_add(Ranges *r, int64_t first, int64_t last, uint8_t state, int16_t delivery_count,
                     int32_t merged_from) noexcept nogil:
    cdef Range *previous
    cdef Range *items
    cdef int32_t capacity
    if r.count > merged_from:
        previous = &r.items[r.count - 1]
        if (previous.last + 1 == first and previous.state == state and previous.delivery_count == delivery_count
                and previous.rejected == r.rejected):
            previous.last = last
            return True
    if r.count == r.capacity:
        capacity = r.capacity * 2 if r.capacity > 0 else FIRST_CAPACITY
        items = <Range *>realloc(r.items, capacity * sizeof(Range))
        if items == NULL:
            r.failed = True
            return False
        r.items = items
        r.capacity = capacity
    r.items[r.count] = Range(first, last, delivery_count, state, r.rejected)
    r.count += 1
    return True


cdef void ranges_free(Ranges *r) noexcept nogil:
    free(r.items)
    memset(r, 0, sizeof(Ranges))

# ---------------------------------------------------------------- batches


cdef void window_init(Window *w, int64_t start_offset) noexcept nogil:
    memset(w, 0, sizeof(Window))
    w.start_offset = w.end_offset = start_offset
    w.gap_start = w.gap_end = -1
    w.next_deadline_ms = INT64_MAX


cdef void drop_until(Window *w, int32_t until) noexcept nogil:
    """Forgets the batches before an index."""
    while w.head < until:
        free(w.items[w.head].offsets)
        w.head += 1
    if w.head == w.end:
        w.head = w.end = 0


cdef void window_free(Window *w) noexcept nogil:
    drop_until(w, w.end)
    free(w.items)
    w.items = NULL
    w.capacity = 0


cdef int32_t floor_of(const Window *w, int64_t offset) noexcept nogil:
    cdef int32_t low = w.head, high = w.end, middle
    while low < high:
        middle = (low + high) // 2
        if w.items[middle].first <= offset:
            low = middle + 1
        else:
            high = middle
    return low - 1


cdef bint make_room(Window *w) noexcept nogil:
    cdef int32_t capacity
    cdef InFlight *items
    if w.end < w.capacity:
        return True
    if w.head > w.capacity // 2:
        memmove(w.items, w.items + w.head, (w.end - w.head) * sizeof(InFlight))
        w.end -= w.head
        w.head = 0
        return True
    capacity = w.capacity * 2 if w.capacity > 0 else FIRST_CAPACITY
    items = <InFlight *>realloc(w.items, capacity * sizeof(InFlight))
    if items == NULL:
        return False
    w.items = items
    w.capacity = capacity
    return True


cdef int32_t insert(Window *w, int32_t at, int64_t first, int64_t last, const OffsetState *state) noexcept nogil:
    cdef int32_t place = at - w.head
    cdef OffsetState copied = state[0]                   # it may lie in an item that moves
    if not make_room(w):
        return -1
    at = w.head + place
    memmove(w.items + at + 1, w.items + at, (w.end - at) * sizeof(InFlight))
    w.items[at].first = first
    w.items[at].last = last
    w.items[at].whole = copied
    w.items[at].offsets = NULL
    w.items[at].done = 0
    w.end += 1
    return at


cdef bint expand(InFlight *item) noexcept nogil:
    cdef int64_t count = item.last - item.first + 1, i
    item.offsets = <OffsetState *>malloc(count * sizeof(OffsetState))
    if item.offsets == NULL:
        return False
    for i in range(count):
        item.offsets[i] = item.whole
    item.done = 0
    return True


cdef int32_t isolate(Window *w, int32_t at, int64_t first, int64_t last) noexcept nogil:
    cdef InFlight *item = &w.items[at]
    if item.offsets != NULL:
        return at
    if item.last - item.first < EXPANDED_MAX:
        return at if expand(item) else -1
    if first > item.first:
        at = insert(w, at + 1, first, item.last, &item.whole)
        if at < 0:
            return -1
        w.items[at - 1].last = first - 1
    if last < w.items[at].last:
        at = insert(w, at + 1, last + 1, w.items[at].last, &w.items[at].whole) - 1
        if at < 0:
            return -1
        w.items[at].last = last
    return at

# ---------------------------------------------------------------- loading


cdef bint window_load(Window *w, int64_t first, int64_t last, uint8_t state, int16_t delivery_count) noexcept nogil:
    cdef OffsetState stored = OffsetState(0, 0, delivery_count, state, 0)
    cdef int64_t previous = w.items[w.end - 1].last if w.end > w.head else w.start_offset - 1
    if w.gap_start < 0 and first > previous + 1:
        w.gap_start = previous + 1
    if insert(w, w.end, first, last, &stored) < 0:
        return False
    if is_done(&stored):
        w.delivery_complete += last - first + 1
    return True


cdef void window_loaded(Window *w) noexcept nogil:
    if w.end == w.head:
        w.end_offset = w.start_offset
        return
    w.seeks = True
    w.end_offset = w.items[w.end - 1].last
    if w.gap_start >= 0:
        w.gap_end = w.end_offset
    move_start(w)

# ---------------------------------------------------------------- states


cdef void lock(Window *w, OffsetState *s, int64_t now_ms) noexcept nogil:
    cdef int64_t deadline_ms = now_ms + w.limits.lock_ms
    s.deadline = <uint32_t>deadline_ms
    s.flags |= LOCKED
    if deadline_ms < w.next_deadline_ms:
        w.next_deadline_ms = deadline_ms


cdef bint archive_one(OffsetState *s, uint8_t state) noexcept nogil:
    if s.state != state:
        return False
    s.state = ARCHIVED
    s.flags = (s.flags & PENDING) | FINAL
    s.member = 0
    return True


cdef int64_t archive_offsets(InFlight *item, int64_t first, int64_t last, uint8_t state) noexcept nogil:
    cdef int64_t i, count = 0
    for i in range(max(first, item.first) - item.first, min(last, item.last) - item.first + 1):
        count += archive_one(&item.offsets[i], state)
    return count


cdef int archive(Window *w, int64_t first, int64_t last, uint8_t state, bint counts) noexcept nogil:
    cdef InFlight *item
    cdef int64_t count = 0
    cdef int32_t i = max(floor_of(w, first), w.head)
    while i < w.end and w.items[i].first <= last:
        item = &w.items[i]
        if item.last >= first:
            if item.offsets == NULL and (item.first < first or item.last > last) and item.whole.state == state:
                i = isolate(w, i, max(first, item.first), min(last, item.last))
                if i < 0:
                    return -1
                item = &w.items[i]
            if item.offsets != NULL:
                count += archive_offsets(item, first, last, state)
            elif archive_one(&item.whole, state):
                count += item.last - item.first + 1
        i += 1
    if counts:
        w.delivery_complete += count
    return count > 0

# ---------------------------------------------------------------- where to fetch


cdef int64_t first_free(const InFlight *item) noexcept nogil:
    """The first available offset of a batch; -1 when there is none."""
    cdef int64_t i
    if item.offsets == NULL:
        return item.first if is_free(&item.whole) else -1
    for i in range(item.done, item.last - item.first + 1):
        if is_free(&item.offsets[i]):
            return item.first + i
    return -1


cdef bint without_batches(const Window *w) noexcept nogil:
    return w.head == w.end or w.start_offset > w.items[w.end - 1].last


cdef int64_t next_fetch_offset(Window *w) noexcept nogil:
    cdef int64_t gap_start, found
    cdef const InFlight *item
    cdef int32_t i
    if without_batches(w):
        w.seeks = False
        return w.end_offset
    if not w.seeks:
        return w.end_offset + 1
    gap_start = w.gap_start
    for i in range(w.head, w.end):
        item = &w.items[i]
        if gap_active(w):
            if item.first > gap_start:
                return gap_start
            gap_start = max(item.last + 1, gap_start)
        found = first_free(item)
        if found >= 0:
            return found
    w.seeks = False
    return w.end_offset + 1


cdef int64_t in_flight(const Window *w) noexcept nogil:
    return 0 if w.head == w.end else w.end_offset - w.start_offset + 1


cdef bint can_acquire(Window *w) noexcept nogil:
    return next_fetch_offset(w) != w.end_offset + 1 or in_flight(w) < w.limits.record_locks


cdef int64_t wanted_last(const Window *w, int64_t fetch_offset, int64_t count) noexcept nogil:
    cdef const InFlight *item
    cdef int64_t position = fetch_offset, offset
    cdef int32_t i = max(floor_of(w, fetch_offset), w.head)
    while i < w.end:
        item = &w.items[i]
        i += 1
        if item.last < position:
            continue
        if item.first > position:                        # a gap that may hold records
            if item.first - position >= count:
                return position + count - 1
            count -= item.first - position
            position = item.first
        if item.offsets == NULL:
            if is_free(&item.whole):
                if item.last - position + 1 >= count:
                    return item.last
                count -= item.last - position + 1
        else:
            for offset in range(position - item.first, item.last - item.first + 1):
                count -= is_free(&item.offsets[offset])
            if count <= 0:
                return item.last
        position = item.last + 1
    return max(position, w.end_offset) + count - 1

# ---------------------------------------------------------------- the start offset


cdef bint done_at_start(const Window *w) noexcept nogil:
    cdef int32_t i = floor_of(w, w.start_offset)
    cdef const InFlight *item
    cdef const OffsetState *s
    if i < w.head:
        return False                                     # records before the first batch can still be acquired
    item = &w.items[i]
    s = &item.whole
    if item.offsets != NULL:
        s = &item.offsets[min(w.start_offset, item.last) - item.first]
    return is_done(s) and not s.flags & PENDING


cdef int64_t done_until(InFlight *item) noexcept nogil:
    """The last of the leading offsets that are done for good; -1 when the first is not."""
    cdef int64_t count = item.last - item.first + 1
    if item.offsets == NULL:
        return item.last if is_done(&item.whole) and not item.whole.flags & PENDING else -1
    while item.done < count and is_done(&item.offsets[item.done]) and not item.offsets[item.done].flags & PENDING:
        item.done += 1
    return item.first + item.done - 1 if item.done > 0 else -1


cdef bint move_start(Window *w) noexcept nogil:
    cdef InFlight *item = NULL
    cdef int64_t last = -1, reached, finished = 0
    cdef int32_t i, found = -1
    if w.head == w.end or not done_at_start(w):
        return False
    for i in range(w.head, w.end):
        item = &w.items[i]
        if gap_active(w) and item.last >= w.gap_start:
            break
        reached = done_until(item)
        if reached < 0:
            break
        last = reached
        found = i
        if reached >= w.start_offset:
            finished += reached - max(w.start_offset, item.first) + 1
        if reached < item.last:
            break
    if found < 0:
        return False
    if last == w.items[w.end - 1].last:
        w.start_offset = w.end_offset = max(w.start_offset, last + 1)
        w.delivery_complete = 0
        drop_until(w, w.end)
        return True
    if last == w.items[found].last:
        w.start_offset = max(w.start_offset, w.items[found + 1].first)
        if gap_active(w):
            w.start_offset = min(w.gap_start, w.start_offset)
        drop_until(w, found + 1)
    else:
        w.start_offset = max(w.start_offset, last + 1)
        drop_until(w, found)
    w.delivery_complete -= finished
    return True


cdef int64_t done_below(const Window *w, int64_t offset) noexcept nogil:
    """How many records from the start offset on and below `offset` are done."""
    cdef const InFlight *item
    cdef int64_t count = 0, first, last, at
    cdef int32_t i
    for i in range(w.head, w.end):
        item = &w.items[i]
        first = max(w.start_offset, item.first)
        last = min(offset - 1, item.last)
        if item.offsets != NULL:
            for at in range(first - item.first, last - item.first + 1):
                count += is_done(&item.offsets[at])
        elif is_done(&item.whole) and first <= last:
            count += last - first + 1
    return count


cdef bint move_log_start(Window *w, int64_t offset) noexcept nogil:
    cdef int64_t done
    cdef int archived
    if offset <= w.start_offset:
        return True
    if w.head == w.end:
        w.start_offset = w.end_offset = offset
        w.delivery_complete = 0
        return True
    done = done_below(w, offset)
    archived = archive(w, w.start_offset, offset - 1, AVAILABLE, False)
    if archived < 0:
        return False
    if archived:
        w.seeks = True
    w.start_offset = offset
    w.delivery_complete -= done
    w.end_offset = max(w.end_offset, offset)
    return True
