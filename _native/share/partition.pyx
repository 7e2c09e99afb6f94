"""SharePartition, the Python class of a share partition's in-flight window (KIP-932).

Pure: records, time and configs are arguments, and what must be stored is a result. See window.pxd for the rules.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, INT64_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memset
from bowstring._native.record.batch cimport BatchInfo, batch_extent, batch_parse
from bowstring._native.record.decode cimport Aborted
from bowstring._native.share.acquire cimport (
    Acquisition, LogBatches, acquire, drop_aborted, list_batches, slice_acquired)
from bowstring._native.share.transitions cimport acknowledge, complete, expire, release_member
from bowstring._native.share.window cimport (
    ACK_RENEW, ACQUIRED, ARCHIVED, ARCHIVING, AVAILABLE, PENDING, InFlight, OffsetState, Ranges, Window, archive,
    can_acquire, in_flight,
    move_log_start, move_start, next_fetch_offset, ranges_add, ranges_free, wanted_last, window_free, window_init, window_load,
    window_loaded)

cdef enum:
    BATCHES_MAX = 1 << 16           # of acknowledgements for one partition, far above what can be in flight
    TYPES_MAX = 1 << 20             # of one batch


cdef class StateChange:
    """A change that must be stored: pending until SharePartition.complete(), unless a lock ended.

    Attributes:
        error: 0, or the Kafka error code for which nothing changes.
        reason: Says what is wrong.
    """

    cdef Ranges ranges
    cdef readonly int error
    cdef readonly str reason

    def __dealloc__(self):
        ranges_free(&self.ranges)

    def __len__(self):
        """Counts the ranges to store."""
        return self.ranges.count

    @property
    def batches(self):
        """Returns [(first offset, last offset, delivery state, delivery count)]."""
        cdef int32_t i
        return [
            (self.ranges.items[i].first, self.ranges.items[i].last, self.ranges.items[i].state,
             self.ranges.items[i].delivery_count)
            for i in range(self.ranges.count)]

    @property
    def dead_letters(self):
        """Returns [(first offset, last offset, delivery count, rejected)] of what is archived once it is copied."""
        cdef int32_t i
        return [
            (self.ranges.items[i].first, self.ranges.items[i].last, self.ranges.items[i].delivery_count,
             bool(self.ranges.items[i].rejected))
            for i in range(self.ranges.count) if self.ranges.items[i].state == ARCHIVING]


cdef int64_t record_count(const Ranges *ranges) noexcept nogil:
    cdef int64_t count = 0
    cdef int32_t i
    for i in range(ranges.count):
        count += ranges.items[i].last - ranges.items[i].first + 1
    return count


def last_offset(bytes records not None):
    """Returns the last offset of whole batches; -1 without any."""
    cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(records)
    cdef int64_t left = PyBytes_GET_SIZE(records), n = batch_extent(at, left), found = -1
    cdef BatchInfo info
    while n > 0 and batch_parse(at, n, &info) == 0:
        found = info.base_offset + info.last_offset_delta
        at += n
        left -= n
        n = batch_extent(at, left)
    return found


def check_acknowledgements(batches not None, *, bint renews):
    """Returns whether acknowledgement batches of a request are well-formed, as Kafka requires it.

    Args:
        batches: Objects with `first_offset`, `last_offset` and `acknowledge_types`.
        renews: Whether the request may renew locks.
    """
    cdef int64_t previous = -1, first, last
    cdef int type_max = ACK_RENEW if renews else ACK_RENEW - 1
    if len(batches) > BATCHES_MAX:
        return False
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or first < previous or not types or len(types) > TYPES_MAX:
            return False
        if len(types) > 1 and last - first != len(types) - 1:
            return False
        if min(types) < 0 or max(types) > type_max:
            return False
        previous = last
    return True


cdef class SharePartition:
    """The records of a partition that a share group has in flight.

    Args:
        start_offset: The share-partition start offset (SPSO).
        batches: Stored states: (first offset, last offset, delivery state, delivery count), by offset.

    Raises:
        ValueError: The batches overlap, are not in order or lie below the start offset.
    """

    cdef Window w

    def __cinit__(self, int64_t start_offset, batches=()):
        cdef int64_t first, last, previous = start_offset - 1
        cdef int state
        window_init(&self.w, start_offset)
        self.configure(delivery_count=5, record_locks=2000, lock_ms=30000, renew=True, dead_letters=False)
        for first, last, state, count in batches:
            if first <= previous or last < first:
                raise ValueError(f"the stored state of records {first} to {last} does not follow on {previous}")
            previous = last
            if state == ACQUIRED:                        # not stored; whoever had them is gone
                state = AVAILABLE
            if not window_load(&self.w, first, last, state, count):
                raise MemoryError
        window_loaded(&self.w)

    def __dealloc__(self):
        window_free(&self.w)

    def configure(self, *, int32_t delivery_count, int32_t record_locks, int32_t lock_ms, bint renew,
                  bint dead_letters=False):
        """Sets the group's configs: share.delivery.count.limit, share.partition.max.record.locks,
        share.record.lock.duration.ms, share.renew.acknowledge.enable, and whether
        errors.deadletterqueue.topic.name is set."""
        self.w.limits.dead_letters = dead_letters
        self.w.limits.delivery_count = delivery_count
        self.w.limits.record_locks = record_locks
        self.w.limits.lock_ms = lock_ms
        self.w.limits.renew = renew

    @property
    def start_offset(self):
        """Records below it are done."""
        return self.w.start_offset

    @property
    def end_offset(self):
        """The last offset in flight; with none in flight, where the next fetch begins."""
        return self.w.end_offset

    @property
    def delivery_complete_count(self):
        """Records from the start offset on that are acknowledged or archived."""
        return max(0, min(self.w.delivery_complete, INT32_MAX))

    @property
    def in_flight(self):
        """Records between start offset and end offset."""
        return in_flight(&self.w)

    @property
    def next_deadline_ms(self):
        """No lock ends earlier; None without locks."""
        return None if self.w.next_deadline_ms == INT64_MAX else self.w.next_deadline_ms

    @property
    def next_fetch_offset(self):
        """Where the next fetch reads."""
        return next_fetch_offset(&self.w)

    @property
    def can_acquire(self):
        """Whether the group may have more records, or some are available again."""
        return can_acquire(&self.w)

    def wanted_last(self, int64_t fetch_offset, int64_t count):
        """Returns an offset up to which a fetch must read to acquire ``count`` records."""
        return wanted_last(&self.w, fetch_offset, max(1, count))

    def acquire(self, int64_t member, bytes records not None, *, int64_t fetch_offset, int64_t max_records,
                int32_t batch_size, int64_t now_ms, bint record_limit=False, list aborted=None):
        """Acquires available records among fetched ones.

        Args:
            member: Identifies the member; not 0.
            records: Whole record batches from the one with ``fetch_offset`` on.
            max_records: About how many to acquire; with ``record_limit`` at most so many.
            batch_size: Least records of one acquired range, unless fewer are left.
            aborted: (producer id, first offset) of aborted transactions, by offset; their records are archived.

        Returns:
            ([(first offset, last offset, delivery count)], number of records, records of the batches with them)
        """
        cdef Acquisition a
        cdef LogBatches found
        cdef int64_t position = 0, size = 0
        cdef int32_t i
        memset(&a, 0, sizeof(a))
        a.member, a.record_limit, a.batch_size = member, record_limit, batch_size
        a.max_records, a.fetch_offset, a.now_ms = max_records, fetch_offset, now_ms
        if not list_batches(<const uint8_t *>PyBytes_AS_STRING(records), PyBytes_GET_SIZE(records), &found):
            raise MemoryError
        try:
            acquire(&self.w, &found, &a)
            if aborted and a.ranges.count > 0:
                self.leave_out_aborted(records, &found, aborted, &a)
            if a.ranges.failed:
                raise MemoryError
            if a.ranges.count == 0:
                return [], 0, b""
            slice_acquired(&found, &a.ranges, &position, &size)
            if size < PyBytes_GET_SIZE(records):
                records = records[position:position + size]
            return [
                (a.ranges.items[i].first, a.ranges.items[i].last, a.ranges.items[i].delivery_count)
                for i in range(a.ranges.count)], record_count(&a.ranges), records
        finally:
            free(found.items)
            ranges_free(&a.ranges)

    cdef int leave_out_aborted(self, bytes records, const LogBatches *found, list aborted, Acquisition *a) except -1:
        cdef Aborted transactions = Aborted(aborted)
        cdef BatchInfo info
        cdef const uint8_t *at
        cdef Ranges dropped
        cdef int32_t i
        memset(&dropped, 0, sizeof(dropped))
        for i in range(found.count):
            at = <const uint8_t *>PyBytes_AS_STRING(records) + found.items[i].position
            if batch_parse(at, found.items[i].size_bytes, &info) == 0 and transactions.holds(at, &info):
                ranges_add(&dropped, found.items[i].base_offset, found.items[i].last_offset, ACQUIRED, 1, 0)
        drop_aborted(&self.w, &dropped, a)
        ranges_free(&dropped)
        return 0

    def acknowledge(self, int64_t member, batches not None, int64_t now_ms):
        """Acknowledges records of a member. With an error nothing changes, except that locks stay renewed.

        Args:
            batches: Objects with `first_offset`, `last_offset` and `acknowledge_types`, which
                `check_acknowledgements` has seen: one type for all records or one for each.
        """
        cdef StateChange change = StateChange.__new__(StateChange)
        cdef const char *reason = NULL
        cdef bytes types
        for batch in batches:
            types = bytes(batch.acknowledge_types)
            change.error = acknowledge(
                &self.w, member, batch.first_offset, batch.last_offset, <const int8_t *>PyBytes_AS_STRING(types),
                <int32_t>PyBytes_GET_SIZE(types), now_ms, &change.ranges, &reason)
            if change.error != 0 or change.ranges.failed:
                break
        if change.error != 0 or change.ranges.failed:
            complete(&self.w, &change.ranges, False, now_ms)
            if change.ranges.failed:
                raise MemoryError
            ranges_free(&change.ranges)
            change.reason = reason.decode("ascii")
        return change

    def release(self, int64_t member, int64_t now_ms):
        """Gives back all records that a member holds."""
        cdef StateChange change = StateChange.__new__(StateChange)
        release_member(&self.w, member, &change.ranges)
        if change.ranges.failed:
            complete(&self.w, &change.ranges, False, now_ms)
            raise MemoryError
        return change

    def expire(self, int64_t now_ms):
        """Gives back records whose lock is over. The change holds whether it is stored or not."""
        cdef StateChange change = StateChange.__new__(StateChange)
        expire(&self.w, now_ms, &change.ranges)
        if change.ranges.failed:
            raise MemoryError
        return change

    def complete(self, StateChange change not None, int64_t now_ms, *, bint stored):
        """Ends a pending change: it was stored, or it is taken back. Returns whether the start offset moved."""
        complete(&self.w, &change.ranges, stored, now_ms)
        return stored and move_start(&self.w)

    def copied(self, int64_t first, int64_t last, int16_t delivery_count):
        """Archives records whose copy was written to the dead-letter topic, or cannot be. The change holds whether
        it is stored or not."""
        cdef StateChange change = StateChange.__new__(StateChange)
        cdef int64_t start = self.w.start_offset
        if first < start and archive(&self.w, first, min(last, start - 1), ARCHIVING, False) < 0:
            raise MemoryError
        if last >= start and archive(&self.w, max(first, start), last, ARCHIVING, True) < 0:
            raise MemoryError
        if not ranges_add(&change.ranges, first, last, ARCHIVED, delivery_count, 0):
            raise MemoryError
        return change

    def move_start(self):
        """Moves the start offset over records that are done; whether it moved."""
        return move_start(&self.w)

    def log_start_moved(self, int64_t log_start_offset):
        """Archives available records that the log no longer has."""
        if not move_log_start(&self.w, log_start_offset):
            raise MemoryError

    def states(self):
        """Returns what is in flight, for tests: [(first offset, last offset, state, delivery count, member, pending)]."""
        cdef InFlight *item
        cdef OffsetState *s
        cdef int32_t i
        cdef int64_t offset
        cdef list found = []
        for i in range(self.w.head, self.w.end):
            item = &self.w.items[i]
            if item.offsets == NULL:
                s = &item.whole
                found.append((item.first, item.last, s.state, s.delivery_count, s.member, bool(s.flags & PENDING)))
                continue
            for offset in range(item.first, item.last + 1):
                s = &item.offsets[offset - item.first]
                found.append((offset, offset, s.state, s.delivery_count, s.member, bool(s.flags & PENDING)))
        return found
