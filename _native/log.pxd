"""One partition's log on disk, in Kafka's layout: segments, indexes, producer state, leader epochs.

Locking: `Log.lock` guards everything below the line in struct Log; the offsets above it are atomics that
any thread may load. log_append and log_read take the lock themselves; the only system calls made under it
are the log write, a roll, and the header reads of an index lookup.
"""
from libc.stdint cimport int16_t, int32_t, int64_t
from bowstring._native.log_types cimport (
    AppendEntry, Log, LogConfig, LogSlice, ReadCursor, SegmentFile, pthread_mutex_t)

# Appends the entries in order with as few writes as the segments allow: assigns offsets and
# `leader_epoch`, checks producer epochs and sequences (KIP-98, KIP-360), rolls, indexes, advances
# log_end_offset. Each entry gets its own error; one refused entry does not refuse the others. A failed or
# short write truncates back to the last whole entry and answers KAFKA_STORAGE_ERROR for the rest.
# Does not move high_watermark: that is the partition's business (log_advance_high_watermark).
cdef void log_append(Log *log, AppendEntry **entries, int32_t n, int32_t leader_epoch, int64_t now_ms) noexcept nogil

# Finds up to max_bytes of whole batches holding `offset` and what follows, ending below `limit_offset`
# (high watermark, last stable offset, or log end). When min_one is set and the first batch alone is
# larger than max_bytes it is given whole. Returns 0 or OFFSET_OUT_OF_RANGE / KAFKA_STORAGE_ERROR. Updates
# *cursor. offset == limit_offset gives an empty slice. CORRUPT_MESSAGE when the batch that holds `offset` is bad. Never
# waits for the disk but for an index: out.cold says that the range has to be read by log_cold first.
cdef int16_t log_read(
    Log *log, int64_t offset, int64_t limit_offset, int64_t max_bytes, bint min_one,
    ReadCursor *cursor, LogSlice *out) noexcept nogil

# Bytes available between offset and limit_offset, near enough for fetch.min.bytes: off by less than an
# index interval at either end.
cdef int64_t log_bytes_between(Log *log, int64_t offset, int64_t limit_offset) noexcept nogil

# Aborted transactions overlapping [from_offset, to_offset) as (producer id, first offset) pairs; returns the
# number found, and fills at most `capacity` of them.
cdef int32_t log_aborted_transactions(
    Log *log, int64_t from_offset, int64_t to_offset, int64_t *pairs, int32_t capacity) noexcept nogil

# Raises high_watermark (never lowers it) and last_stable_offset with it; true when it moved.
cdef bint log_advance_high_watermark(Log *log, int64_t offset) noexcept nogil

# Greatest epoch <= `epoch` and where it ends (KIP-101, KIP-279); both -1 when unknown.
cdef void log_end_offset_for_epoch(
    Log *log, int32_t epoch, int32_t *found_epoch, int64_t *end_offset) noexcept nogil

# Keeps a range that fails its CRC from being served; known ranges and segments that are gone are ignored. Who
# finds one says so in the broker's log: see corrupt_ranges().
cdef void log_mark_corrupt(
    Log *log, int64_t segment_base_offset, int64_t position, int64_t size_bytes) noexcept nogil

cdef void segment_file_retain(SegmentFile *file) noexcept nogil
cdef void segment_file_release(SegmentFile *file) noexcept nogil

cdef class PartitionLog:
    """The log as Python sees it; owns the struct. See log.pyx."""
    cdef Log *log
    cdef readonly object health     # the DirectoryHealth that log.directory points into; None
