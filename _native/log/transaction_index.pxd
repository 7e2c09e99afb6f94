"""The .txnindex files: the aborted transactions of a segment. Call functions that write under Log.lock; functions that read
take it themselves.

An entry has a version (int16, 0) and four int64: producer id, first offset, last offset (the marker's), last stable
offset. A segment without aborted transactions has no such file.
"""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.log.producer_state cimport CompletedTransaction
from bowstring._native.log.types cimport Log, LogState, Segment

cdef enum:
    # Positions of an entry's fields.
    ENTRY_PRODUCER_ID = 2
    ENTRY_FIRST_OFFSET = 10
    ENTRY_LAST_OFFSET = 18
    ENTRY_LAST_STABLE_OFFSET = 26

cdef int aborted_append(LogState *state, Segment *segment, const CompletedTransaction *done) noexcept nogil
# The same in two steps, so that the one that may fail for want of a descriptor comes before the marker is in the log. Returns
# a descriptor, which aborted_write closes, or a negated errno.
cdef int aborted_open(const LogState *state, const Segment *segment) noexcept nogil
cdef int aborted_write(Segment *segment, int fd, const CompletedTransaction *done) noexcept nogil
# Removes entries whose last offset >= offset.
cdef int aborted_truncate(LogState *state, Segment *segment, int64_t offset) noexcept nogil
# Whether the file is well formed (Kafka's sanityCheck); otherwise it is rebuilt with its segment.
cdef bint aborted_sound(const LogState *state, const Segment *segment) noexcept nogil

# ---------------------------------------------------------------- reading, without Log.lock

cdef enum:
    ABORTED_COLD = 1                # the index must be read from the disk first
    ABORTED_ALL = 0x7FFFFFFF        # no limit

cdef struct AbortedList:
    # (producer id, first offset) of each transaction: malloc'd; the caller frees it.
    int64_t *pairs
    int32_t count
    int32_t capacity
    int64_t to_offset               # the list is complete for offsets below it

# Lists the transactions that overlap [from_offset, to_offset), in the order of the index. If there are more than `most`, it
# lists those that begin first, and out.to_offset is lower. Takes Log.lock; waits for the disk only with `wait`. Returns 0,
# ABORTED_COLD or a negated errno; out.pairs is NULL without a result.
cdef int log_aborted(
    Log *log, int64_t from_offset, int64_t to_offset, int32_t most, bint wait, AbortedList *out) noexcept nogil

# The most transactions that one fetch lists for a partition.
cdef int32_t aborted_most() noexcept nogil
