"""Reading from the disk what a reader is about to want: every batch is checked, and those that are bad are marked.

For threads that may wait for the disk: the storage threads (storage.pxd), and the control thread, which has always
waited. A reader that only looks (log_read) tells by LogSlice.cold that it needs this first.
"""
from libc.stdint cimport int64_t
from bowstring._native.log_types cimport Log, LogSlice, ReadCursor, WarmRange

cdef struct CorruptFound:
    # One bad range, found just now and not known before.
    const char *directory           # of the log
    int64_t segment_base_offset
    int64_t position
    int64_t size_bytes
    int64_t next_offset             # where a consumer may go on; -1: the log ends with the bad range
    const char *why

cdef struct ColdRead:
    # in
    int64_t offset                  # what the reader wants, for looking it up
    int64_t segment_base_offset
    int64_t position                # where its batch begins, -1: look it up
    int64_t size_bytes              # to read at least
    void (*report)(void *context, const CorruptFound *found) noexcept nogil
    void *context
    # out
    WarmRange warm
    int64_t segment_size_bytes
    int64_t read_bytes

# What `cold` asks for, `size_bytes` of it, into *read; without a report.
cdef void cold_read_of(const LogSlice *cold, int64_t offset, int64_t size_bytes, ColdRead *read) noexcept nogil

# Reads, checks and marks; takes the lock itself, never while the disk works. 0 or a negated errno: ESTALE when the
# segment is gone or another, and the reader has to look again. One batch at least, then whole ones.
cdef int cold_read(Log *log, ColdRead *read) noexcept nogil

# log_mark_corrupt of log.pxd.
cdef void mark_corrupt(Log *log, int64_t segment_base_offset, int64_t position, int64_t size_bytes) noexcept nogil
