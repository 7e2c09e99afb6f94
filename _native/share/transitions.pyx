"""Transitions of records: acknowledgements, releases and the ends of locks, see transitions.pxd.

Contents: allowed changes · acknowledgements · releases · ends of pending changes · ends of locks.
"""
from libc.stdint cimport INT64_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
from bowstring._native.base.error_codes cimport INVALID_RECORD_STATE, INVALID_REQUEST
from bowstring._native.share.window cimport (
    ACK_ACCEPT, ACK_REJECT, ACK_RELEASE, ACK_RENEW, ACKNOWLEDGED, ACQUIRED, ARCHIVED, ARCHIVING, AVAILABLE, EXPANDED_MAX,
    FINAL, LOCKED, PENDING, InFlight, OffsetState, Range, floor_of, holder, is_done, isolate, lock, ranges_add)

# ---------------------------------------------------------------- allowed changes


cdef bint try_update(const Window *w, OffsetState *s, uint8_t state, int delivered, int64_t member) noexcept nogil:
    if s.flags & PENDING:
        return False
    if state == AVAILABLE and s.delivery_count >= w.limits.delivery_count:
        state = ARCHIVING if w.limits.dead_letters else ARCHIVED
    if s.state == state or s.state == ARCHIVING or is_done(s) or (s.state == AVAILABLE and state != ACQUIRED):
        return False
    s.state = state
    if state != ARCHIVED:
        s.delivery_count += <int16_t>delivered
    s.member = member
    return True

# ---------------------------------------------------------------- acknowledgements


cdef inline uint8_t state_after(const Window *w, int8_t type) noexcept nogil:
    if type == ACK_ACCEPT:
        return ACKNOWLEDGED
    if type == ACK_REJECT and w.limits.dead_letters:
        return ARCHIVING
    return AVAILABLE if type == ACK_RELEASE else ARCHIVED


cdef bint transition(Window *w, OffsetState *s, uint8_t state, int64_t first, int64_t last, Ranges *changes) noexcept nogil:
    """Begins a change; the owner stays noted, in case the change is taken back."""
    if not try_update(w, s, state, 0, s.member):
        return False
    if not ranges_add(changes, first, last, s.state, s.delivery_count, 0):
        s.state = ACQUIRED
        return False
    s.flags |= PENDING
    return True


cdef int16_t renew(Window *w, OffsetState *s, int64_t now_ms, const char **reason) noexcept nogil:
    if not w.limits.renew:
        reason[0] = b"The group does not allow locks to be renewed (share.renew.acknowledge.enable)."
        return INVALID_RECORD_STATE
    lock(w, s, now_ms)
    return 0


cdef int16_t check_whole(const InFlight *item, int64_t member, const char **reason) noexcept nogil:
    if holder(&item.whole) == 0:
        reason[0] = b"Nobody has acquired these records."
        return INVALID_RECORD_STATE
    if item.whole.member != member:
        reason[0] = b"Another member has acquired these records."
        return INVALID_RECORD_STATE
    return 0


cdef int16_t acknowledge_whole(Window *w, InFlight *item, int8_t type, int64_t now_ms, Ranges *changes,
                               const char **reason) noexcept nogil:
    if item.whole.state != ACQUIRED:
        reason[0] = b"Nobody has acquired these records."
        return INVALID_RECORD_STATE
    if type == ACK_RENEW:
        return renew(w, &item.whole, now_ms, reason)
    changes.rejected = w.limits.dead_letters and type == ACK_REJECT
    if not transition(w, &item.whole, state_after(w, type), item.first, item.last, changes):
        reason[0] = b"The state of a record does not allow it."
        return INVALID_RECORD_STATE
    if is_done(&item.whole):
        w.delivery_complete += item.last - item.first + 1
    return 0


cdef int16_t acknowledge_one(Window *w, OffsetState *s, int64_t offset, int64_t member, int8_t type, int64_t now_ms,
                             Ranges *changes, const char **reason) noexcept nogil:
    if s.state != ACQUIRED:
        reason[0] = b"Nobody has acquired a record."
        return INVALID_RECORD_STATE
    if s.member != member:
        reason[0] = b"Another member has acquired a record."
        return INVALID_RECORD_STATE
    if type == ACK_RENEW:
        return renew(w, s, now_ms, reason)
    changes.rejected = w.limits.dead_letters and type == ACK_REJECT
    if not transition(w, s, state_after(w, type), offset, offset, changes):
        reason[0] = b"The state of a record does not allow it."
        return INVALID_RECORD_STATE
    if is_done(s):
        w.delivery_complete += 1
    return 0


cdef int16_t find_acknowledged(const Window *w, int64_t first, int64_t last, int32_t *begin, int32_t *end,
                               const char **reason) noexcept nogil:
    """The batches that an acknowledgement is about, from `begin` to before `end`."""
    begin[0] = floor_of(w, first)
    if begin[0] < w.head and first < w.start_offset <= last:
        begin[0] = floor_of(w, w.start_offset)
    if begin[0] < w.head or w.head == w.end:
        reason[0] = b"The offsets are not in flight."
        return INVALID_RECORD_STATE
    end[0] = floor_of(w, last) + 1
    if w.items[end[0] - 1].last < first:
        reason[0] = b"The first offset is beyond the records in flight."
        return INVALID_REQUEST
    if last > w.items[end[0] - 1].last:
        reason[0] = b"The last offset is beyond the records in flight."
        return INVALID_REQUEST
    return 0


cdef int16_t acknowledge_offsets(Window *w, int32_t at, int64_t member, int64_t first, int64_t last, const int8_t *types,
                                 int32_t type_count, int64_t now_ms, Ranges *changes, const char **reason) noexcept nogil:
    cdef InFlight *item = &w.items[at]
    cdef int64_t offset
    cdef int16_t error
    for offset in range(max(max(first, w.start_offset), item.first), min(last, item.last) + 1):
        error = acknowledge_one(w, &item.offsets[offset - item.first], offset, member,
                                types[offset - first] if type_count > 1 else types[0], now_ms, changes, reason)
        if error != 0:
            return error
    return 0


cdef int16_t acknowledge(Window *w, int64_t member, int64_t first, int64_t last, const int8_t *types, int32_t type_count,
                         int64_t now_ms, Ranges *changes, const char **reason) noexcept nogil:
    cdef InFlight *item
    cdef int64_t begin_offset, end_offset
    cdef int32_t i = 0, end = 0
    cdef int16_t error
    if last < w.start_offset:
        return 0                                         # archived already
    error = find_acknowledged(w, first, last, &i, &end, reason)
    while error == 0 and i < w.end and w.items[i].first <= last:
        item = &w.items[i]
        if item.last < w.start_offset:
            i += 1
            continue
        if item.offsets == NULL:
            error = check_whole(item, member, reason)
            if error != 0:
                return error
            begin_offset = max(max(first, w.start_offset), item.first)
            end_offset = min(last, item.last)
            if type_count > 1:
                end_offset = min(end_offset, begin_offset + EXPANDED_MAX - 1)
            if begin_offset > item.first or end_offset < item.last or type_count > 1:
                if item.whole.state != ACQUIRED:
                    reason[0] = b"Nobody has acquired these records."
                    return INVALID_RECORD_STATE
                i = isolate(w, i, begin_offset, end_offset)
                if i >= 0 and type_count > 1:            # it may have been cut instead
                    i = isolate(w, i, begin_offset, end_offset)
                if i < 0:
                    changes.failed = True
                    return INVALID_RECORD_STATE
                item = &w.items[i]
        if item.offsets == NULL:
            error = acknowledge_whole(w, item, types[0], now_ms, changes, reason)
        else:
            error = acknowledge_offsets(w, i, member, first, last, types, type_count, now_ms, changes, reason)
        i += 1
    return error

# ---------------------------------------------------------------- releases


cdef void release_offsets(Window *w, InFlight *item, int64_t member, Ranges *changes) noexcept nogil:
    cdef OffsetState *s
    cdef int64_t offset
    for offset in range(item.first + item.done, item.last + 1):
        s = &item.offsets[offset - item.first]
        if s.state != ACQUIRED or s.member != member:
            continue
        transition(w, s, ARCHIVED if offset < w.start_offset else AVAILABLE, offset, offset, changes)
        if offset >= w.start_offset and is_done(s):
            w.delivery_complete += 1


cdef int32_t part_at_start(Window *w, int32_t at) noexcept nogil:
    """Splits a batch whose first records lie below the start offset. The index of what has records from it on."""
    cdef InFlight *item = &w.items[at]
    if item.offsets != NULL or not item.first < w.start_offset <= item.last:
        return at
    return isolate(w, at, w.start_offset, item.last)


cdef int64_t in_flight_of(const Window *w, const InFlight *item) noexcept nogil:
    return 0 if item.last < w.start_offset else item.last - max(w.start_offset, item.first) + 1


cdef void release_member(Window *w, int64_t member, Ranges *changes) noexcept nogil:
    cdef InFlight *item
    cdef int32_t i = w.head
    while i < w.end:
        item = &w.items[i]
        if item.offsets == NULL and item.whole.state == ACQUIRED and item.whole.member == member:
            if part_at_start(w, i) < 0:
                changes.failed = True
                return
            item = &w.items[i]                           # with a part below the start offset, that part
            if item.offsets == NULL:
                transition(w, &item.whole, ARCHIVED if item.last < w.start_offset else AVAILABLE, item.first, item.last,
                           changes)
                if is_done(&item.whole):
                    w.delivery_complete += in_flight_of(w, item)
        if item.offsets != NULL:
            release_offsets(w, item, member, changes)
        i += 1

# ---------------------------------------------------------------- ends of pending changes


cdef inline bint is_over(const OffsetState *s, int64_t now_ms) noexcept nogil:
    return s.flags & LOCKED and <int32_t>(s.deadline - <uint32_t>now_ms) <= 0


cdef inline int64_t deadline_of(const OffsetState *s, int64_t now_ms) noexcept nogil:
    return now_ms + <int32_t>(s.deadline - <uint32_t>now_ms)


cdef bint complete_one(Window *w, OffsetState *s, bint stored, int64_t now_ms) noexcept nogil:
    """Whether a record is not done any more, because its change is taken back."""
    cdef bint was_done
    if not s.flags & PENDING:
        return False
    was_done = is_done(s)
    if stored or s.flags & FINAL:
        s.flags &= ~(PENDING | LOCKED)
        s.member = 0
    else:
        s.state = ACQUIRED                               # if its lock is over, expire() finds it
        s.flags &= ~PENDING
        if s.flags & LOCKED:
            w.next_deadline_ms = min(w.next_deadline_ms, deadline_of(s, now_ms))
    if s.state == AVAILABLE:
        w.seeks = True
    return was_done and not is_done(s)


cdef void complete_range(Window *w, const Range *r, bint stored, int64_t now_ms) noexcept nogil:
    cdef InFlight *item
    cdef int64_t offset
    cdef int32_t i = max(floor_of(w, r.first), w.head)
    while i < w.end and w.items[i].first <= r.last:
        item = &w.items[i]
        i += 1
        if item.offsets == NULL:
            if item.last >= r.first and complete_one(w, &item.whole, stored, now_ms):
                w.delivery_complete -= in_flight_of(w, item)
            continue
        for offset in range(max(r.first, item.first), min(r.last, item.last) + 1):
            if complete_one(w, &item.offsets[offset - item.first], stored, now_ms) and offset >= w.start_offset:
                w.delivery_complete -= 1


cdef void complete(Window *w, const Ranges *changes, bint stored, int64_t now_ms) noexcept nogil:
    cdef int32_t i
    for i in range(changes.count):
        complete_range(w, &changes.items[i], stored, now_ms)

# ---------------------------------------------------------------- ends of locks


cdef bint expire_one(Window *w, OffsetState *s, int64_t first, int64_t last, int64_t now_ms, Ranges *changes) noexcept nogil:
    """Gives records back whose lock is over; otherwise notes when it will be."""
    if s.state != ACQUIRED or not s.flags & LOCKED:
        return False
    if not is_over(s, now_ms):
        w.next_deadline_ms = min(w.next_deadline_ms, deadline_of(s, now_ms))
        return False
    if not try_update(w, s, ARCHIVED if last < w.start_offset else AVAILABLE, 0, 0):
        return False
    s.flags &= ~LOCKED
    ranges_add(changes, first, last, s.state, s.delivery_count, 0)
    if s.state == AVAILABLE:
        w.seeks = True
    return True


cdef void expire_offsets(Window *w, InFlight *item, int64_t now_ms, Ranges *changes) noexcept nogil:
    cdef OffsetState *s
    cdef int64_t offset
    for offset in range(item.first + item.done, item.last + 1):
        s = &item.offsets[offset - item.first]
        if expire_one(w, s, offset, offset, now_ms, changes) and is_done(s) and offset >= w.start_offset:
            w.delivery_complete += 1


cdef void expire(Window *w, int64_t now_ms, Ranges *changes) noexcept nogil:
    cdef InFlight *item
    cdef int32_t i = w.head
    if now_ms < w.next_deadline_ms:
        return
    w.next_deadline_ms = INT64_MAX
    while i < w.end:
        item = &w.items[i]
        if item.offsets == NULL and item.whole.state == ACQUIRED and is_over(&item.whole, now_ms):
            if part_at_start(w, i) < 0:
                changes.failed = True
                w.next_deadline_ms = now_ms
                return
            item = &w.items[i]
        if item.offsets != NULL:
            expire_offsets(w, item, now_ms, changes)
        elif expire_one(w, &item.whole, item.first, item.last, now_ms, changes) and is_done(&item.whole):
            w.delivery_complete += in_flight_of(w, item)
        i += 1
