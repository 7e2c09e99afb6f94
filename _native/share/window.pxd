"""The in-flight window of a share partition: the delivery state of the records that a share group has in hand.

The window is a list of in-flight batches in order of offsets. All records of a batch have one state until a part of them
changes; then the batch has an array with a state for each offset (16 bytes). Batches with more than EXPANDED_MAX offsets,
which compaction leaves behind, are cut instead. Time is an argument; the caller has the lock.

A change that must be stored first is pending: it shows to nobody but its owner, and window_complete ends it.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

cdef enum RecordState:
    # As stored and sent, KIP-932.
    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3                   # its copy is on the way to the dead-letter topic, KIP-1191
    ARCHIVED = 4

cdef enum AcknowledgeType:
    ACK_GAP = 0
    ACK_ACCEPT = 1
    ACK_RELEASE = 2
    ACK_REJECT = 3
    ACK_RENEW = 4

cdef enum:
    PENDING = 1                     # the state is being stored; before, the record was acquired by `member`
    LOCKED = 2                      # `deadline` counts
    FINAL = 4                       # archived by the broker: not even a failed write brings it back

cdef enum:
    EXPANDED_MAX = 65536            # offsets of a batch with a state for each

cdef struct OffsetState:
    int64_t member                  # who acquired it; 0: nobody
    uint32_t deadline               # of its lock: the low bits of a time in ms
    int16_t delivery_count
    uint8_t state
    uint8_t flags

cdef struct InFlight:
    int64_t first
    int64_t last
    OffsetState whole               # the state of all offsets, without `offsets`
    OffsetState *offsets
    int32_t done                    # leading `offsets` that are acknowledged or archived for good

cdef struct Limits:
    # The configs of the group.
    int32_t delivery_count          # share.delivery.count.limit
    int32_t record_locks            # share.partition.max.record.locks
    int32_t lock_ms                 # share.record.lock.duration.ms
    int8_t renew                    # share.renew.acknowledge.enable
    int8_t dead_letters             # errors.deadletterqueue.topic.name is set: records are ARCHIVING before ARCHIVED

cdef struct Window:
    InFlight *items                 # those from `head` on count
    int32_t head
    int32_t end
    int32_t capacity
    int64_t start_offset            # SPSO
    int64_t end_offset              # the last in-flight offset; without any, where the next fetch begins
    int64_t gap_start               # offsets from here to gap_end that the stored state did not name; -1: none
    int64_t gap_end
    int64_t delivery_complete       # records from start_offset on that are acknowledged or archived
    int64_t next_deadline_ms        # no lock ends earlier; INT64_MAX without locks
    int8_t seeks                    # records below end_offset may be available
    Limits limits

cdef struct Range:
    # Records with one state: acquired ones, or ones whose state is to be stored.
    int64_t first
    int64_t last
    int16_t delivery_count
    uint8_t state
    uint8_t rejected                # a member rejected them

cdef struct Ranges:
    # A growing list.
    Range *items
    int32_t count
    int32_t capacity
    int8_t failed                   # memory ran out
    uint8_t rejected                # of ranges that are added

# Adds a range, or extends the last one, if that is at index `merged_from` or later. False without memory.
cdef bint ranges_add(Ranges *r, int64_t first, int64_t last, uint8_t state, int16_t delivery_count,
                     int32_t merged_from) noexcept nogil
cdef void ranges_free(Ranges *r) noexcept nogil

cdef void window_init(Window *w, int64_t start_offset) noexcept nogil
cdef void window_free(Window *w) noexcept nogil

# Adds a stored batch behind the others; False without memory.
cdef bint window_load(Window *w, int64_t first, int64_t last, uint8_t state, int16_t delivery_count) noexcept nogil
# Call it after the last window_load.
cdef void window_loaded(Window *w) noexcept nogil

# Where the next fetch reads.
cdef int64_t next_fetch_offset(Window *w) noexcept nogil
cdef int64_t in_flight(const Window *w) noexcept nogil
cdef bint can_acquire(Window *w) noexcept nogil
# An offset up to which a fetch must read to acquire `count` records from `fetch_offset` on.
cdef int64_t wanted_last(const Window *w, int64_t fetch_offset, int64_t count) noexcept nogil

# The index of the last batch that begins at or below `offset`; below `head` when there is none.
cdef int32_t floor_of(const Window *w, int64_t offset) noexcept nogil
# Inserts a batch before the one at an index. Returns the new one's index; -1 without memory. Indexes may move.
cdef int32_t insert(Window *w, int32_t at, int64_t first, int64_t last, const OffsetState *state) noexcept nogil
# Gives a batch a state for each offset, or, if it is large, cuts off what lies outside [first, last]. Returns the index of
# the batch with what lies inside; -1 without memory.
cdef int32_t isolate(Window *w, int32_t at, int64_t first, int64_t last) noexcept nogil
# Locks for limits.lock_ms.
cdef void lock(Window *w, OffsetState *s, int64_t now_ms) noexcept nogil
# Archives records in `state` from `first` to `last`; whether there were any, -1 without memory.
cdef int archive(Window *w, int64_t first, int64_t last, uint8_t state, bint counts) noexcept nogil
# Moves the start offset over records that are done, and forgets their batches. Whether it moved.
cdef bint move_start(Window *w) noexcept nogil

# The log now begins at `offset`. False without memory.
cdef bint move_log_start(Window *w, int64_t offset) noexcept nogil

cdef inline bint is_done(const OffsetState *s) noexcept nogil:
    return s.state == ACKNOWLEDGED or s.state == ARCHIVED

cdef inline bint is_free(const OffsetState *s) noexcept nogil:
    return s.state == AVAILABLE and not s.flags & PENDING

# Who holds a record, as others see it.
cdef inline int64_t holder(const OffsetState *s) noexcept nogil:
    return 0 if s.flags & PENDING else s.member

cdef inline bint gap_active(const Window *w) noexcept nogil:
    return w.gap_end >= 0 and w.gap_end == w.end_offset
