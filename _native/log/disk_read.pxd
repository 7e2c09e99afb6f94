"""Reads the range that a reader needs next from the disk, checks every batch, and marks the bad ones.

For threads that may wait for the disk: the storage threads (disk/thread_pool.pxd) and the control thread. log_read must
not wait; it sets LogSlice.cold when cold_read must run first.
"""
from libc.stdint cimport int16_t, int64_t
from bowstring._native.log.types cimport Log, LogSlice, ReadCursor, WarmRange

cdef struct CorruptFound:
    # A newly found bad range.
    const char *directory           # of the log
    int64_t segment_base_offset
    int64_t position
    int64_t size_bytes
    int64_t next_offset             # where a consumer can continue; -1: the log ends with the bad range
    const char *why

cdef struct ColdRead:
    # in
    int64_t offset                  # that the reader wants
    int64_t segment_base_offset
    int64_t position                # where its batch begins; -1: look it up
    int64_t size_bytes              # least bytes to read, from the batch with `offset`, or from `position` if offset is -1
    void (*report)(void *context, const CorruptFound *found) noexcept nogil
    void *context
    # out
    WarmRange warm
    int64_t segment_size_bytes
    int64_t read_bytes              # of the .log and its .index

# Fills *read with the range of a cold slice, at least `size_bytes`. The callback for bad ranges is not set.
cdef void cold_read_of(const LogSlice *cold, int64_t offset, int64_t size_bytes, ColdRead *read) noexcept nogil

# Reads and checks at least one batch, and only complete ones; marks the bad ones. Takes Log.lock, but never while the disk
# works. Returns 0 or a negated errno; ESTALE: the segment was removed or replaced, and the reader must look again.
cdef int cold_read(Log *log, ColdRead *read) noexcept nogil

# Marks a range that fails its CRC, so that it is not served. Ignores known ranges and removed segments. The caller logs
# the range; corrupt_ranges() lists all of them. Takes Log.lock.
cdef void log_mark_corrupt(
    Log *log, int64_t segment_base_offset, int64_t position, int64_t size_bytes) noexcept nogil

# ---------------------------------------------------------------- for callers that wait

# log_read for callers that may wait: reads from the disk itself and never sets `cold`.
cdef int16_t read_warm(
    Log *log, int64_t offset, int64_t limit_offset, int64_t max_bytes, bint min_one,
    ReadCursor *cursor, LogSlice *out) noexcept nogil

# Returns complete batches from the one that holds `offset`: at most max_bytes, but at least one batch; b"" if there is none
# below limit_offset. Raises LogError; CORRUPT_MESSAGE: the first batch is damaged.
cdef bytes copy_batches(Log *log, int64_t offset, int64_t limit_offset, int64_t max_bytes, bint waits)
