"""Tracks checked, bad and cached bytes of a segment, see verified_ranges.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport INT64_MAX, int32_t, int64_t
from libc.stdlib cimport realloc
from libc.string cimport memmove
from bowstring._native.base.atomics cimport add_i64, load_i64, store_i64
from bowstring._native.log.types cimport VERIFIED_RANGES, ByteRange

cdef enum:
    INDEX_WARM_BYTES = 1 << 30      # an index stays in memory longer: it is small, and its middle is read often

cdef int64_t clock_bytes = 0        # atomic
cdef int64_t recent_bytes_limit = 64 << 20
cdef int64_t marks = 0              # atomic: bad ranges that were marked

# ---------------------------------------------------------------- in memory


cdef int64_t io_clock() noexcept nogil:
    return load_i64(&clock_bytes)


cdef int64_t io_clock_advance(int64_t bytes) noexcept nogil:
    return add_i64(&clock_bytes, bytes)


cdef bint segment_recent(const Segment *segment, int64_t position) noexcept nogil:
    return (position >= segment.appended_from
            and load_i64(&clock_bytes) - segment.written_clock + segment.size_bytes - position < load_i64(&recent_bytes_limit))


cdef bint index_warm(const Segment *segment) noexcept nogil:
    cdef int64_t clock = segment.index_clock
    if clock == NEVER_READ:
        return False
    if segment.appended_from == 0 and segment.written_clock > clock:
        clock = segment.written_clock                    # this process wrote it entry by entry
    return load_i64(&clock_bytes) - clock < INDEX_WARM_BYTES

# ---------------------------------------------------------------- checked


cdef void segment_verified(Segment *segment, int64_t start, int64_t end) noexcept nogil:
    """Joins adjacent ranges; if there is no slot left, drops the shortest range."""
    cdef ByteRange *each
    cdef ByteRange *place = &segment.verified[0]
    cdef int32_t i
    if end <= start:
        return
    for i in range(VERIFIED_RANGES):
        each = &segment.verified[i]
        if each.start <= end and start <= each.end and each.end > each.start:
            start = each.start if each.start < start else start
            end = each.end if each.end > end else end
            each.start = each.end = 0
    for i in range(VERIFIED_RANGES):
        each = &segment.verified[i]
        if each.end - each.start < place.end - place.start:
            place = each
    place.start = start
    place.end = end


cdef int64_t checked_until(const Segment *segment, int64_t position) noexcept nogil:
    cdef int32_t i
    if position < segment.appended_from:
        for i in range(VERIFIED_RANGES):
            if segment.verified[i].start <= position < segment.verified[i].end:
                position = segment.verified[i].end
                break
    if position >= segment.appended_from and position < segment.size_bytes:
        position = segment.size_bytes
    return position


cdef void segment_unverify(Segment *segment) noexcept nogil:
    cdef int32_t i
    for i in range(VERIFIED_RANGES):
        segment.verified[i].start = segment.verified[i].end = 0
    segment.appended_from = segment.size_bytes


cdef void segment_checks_cut(Segment *segment, int64_t size_bytes) noexcept nogil:
    cdef int32_t i
    for i in range(VERIFIED_RANGES):
        if segment.verified[i].end > size_bytes:
            segment.verified[i].end = size_bytes
        if segment.verified[i].end <= segment.verified[i].start:
            segment.verified[i].start = segment.verified[i].end = 0
    if segment.appended_from > size_bytes:
        segment.appended_from = size_bytes
    while segment.corrupt_count > 0 and segment.corrupt[segment.corrupt_count - 1].start >= size_bytes:
        segment.corrupt_count -= 1
    if segment.corrupt_count > 0 and segment.corrupt[segment.corrupt_count - 1].end > size_bytes:
        segment.corrupt[segment.corrupt_count - 1].end = size_bytes

# ---------------------------------------------------------------- bad


cdef int32_t first_ending_after(const Segment *segment, int64_t position) noexcept nogil:
    """Index of the first bad range whose end is above `position`."""
    cdef int32_t i = 0
    while i < segment.corrupt_count and segment.corrupt[i].end <= position:
        i += 1
    return i


cdef int segment_mark_corrupt(Segment *segment, int64_t position, int64_t size_bytes) noexcept nogil:
    """Ranges that overlap become one: two scans may disagree on where a bad batch ends."""
    cdef int64_t end = position + size_bytes
    cdef int32_t i = first_ending_after(segment, position), last
    cdef ByteRange *grown
    if size_bytes <= 0 or (i < segment.corrupt_count and segment.corrupt[i].start <= position
                           and end <= segment.corrupt[i].end):
        return 0
    last = i
    while last < segment.corrupt_count and segment.corrupt[last].start < end:
        position = segment.corrupt[last].start if segment.corrupt[last].start < position else position
        end = segment.corrupt[last].end if segment.corrupt[last].end > end else end
        last += 1
    if last == i:
        grown = <ByteRange *>realloc(segment.corrupt, (segment.corrupt_count + 1) * sizeof(ByteRange))
        if grown == NULL:
            return -ENOMEM
        segment.corrupt = grown
    memmove(segment.corrupt + i + 1, segment.corrupt + last, (segment.corrupt_count - last) * sizeof(ByteRange))
    segment.corrupt_count += 1 - (last - i)
    segment.corrupt[i].start = position
    segment.corrupt[i].end = end
    add_i64(&marks, 1)
    return 1


cdef void segment_unmark_corrupt(Segment *segment, int64_t position, int64_t size_bytes) noexcept nogil:
    cdef int32_t i = 0, kept = 0
    for i in range(segment.corrupt_count):
        if segment.corrupt[i].start < position or segment.corrupt[i].end > position + size_bytes:
            segment.corrupt[kept] = segment.corrupt[i]
            kept += 1
    segment.corrupt_count = kept


cdef int64_t corrupt_end(const Segment *segment, int64_t position) noexcept nogil:
    cdef int32_t i
    if segment.corrupt_count == 0:
        return -1
    i = first_ending_after(segment, position)
    return segment.corrupt[i].end if i < segment.corrupt_count and segment.corrupt[i].start <= position else -1


cdef int64_t corrupt_begin(const Segment *segment, int64_t position) noexcept nogil:
    cdef int32_t i = segment.corrupt_count
    while i > 0:
        i -= 1
        if segment.corrupt[i].end == position:
            position = segment.corrupt[i].start
    return position


cdef int64_t corrupt_next(const Segment *segment, int64_t position) noexcept nogil:
    cdef int32_t i
    if segment.corrupt_count == 0:
        return INT64_MAX
    i = first_ending_after(segment, position)
    if i == segment.corrupt_count:
        return INT64_MAX
    return segment.corrupt[i].start if segment.corrupt[i].start > position else position

# ---------------------------------------------------------------- Python functions


def recent_bytes(int64_t n):
    """Sets for all logs how long a written range counts as in memory without a system call, and returns the old value.
    The unit is bytes read and written since (io_clock). 0: always calls the kernel."""
    cdef int64_t before = load_i64(&recent_bytes_limit)
    store_i64(&recent_bytes_limit, n)
    return before


def corrupt_marks():
    """Returns how many bad ranges of all logs were marked so far: who repairs them looks again when it has changed."""
    return load_i64(&marks)
