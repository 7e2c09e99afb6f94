"""One partition's log on disk, in Kafka's layout: segments, indexes, producer state, leader epochs.

Locking: `Log.lock` guards everything below the line; the offsets above it are atomics that any thread may
load. log_append and log_read take the lock themselves; the only system calls made under it are the log
write, a roll, and the header reads of an index lookup.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from bowstring._native.batch cimport BatchInfo

cdef extern from "pthread.h" nogil:
    ctypedef struct pthread_mutex_t:
        pass

cdef struct SegmentFile:
    # An open .log file shared by its segment and by replies being sent from it. Closed when refs falls to 0.
    int fd
    int32_t refs

cdef struct LogConfig:
    # The topic settings the log itself obeys; replaced whole by log_configure.
    int64_t segment_bytes
    int64_t segment_ms
    int64_t segment_jitter_ms
    int64_t segment_index_bytes
    int32_t index_interval_bytes
    int32_t max_message_bytes
    int64_t retention_ms          # -1: for ever
    int64_t retention_bytes       # -1: no limit
    int64_t file_delete_delay_ms
    int64_t timestamp_before_max_ms
    int64_t timestamp_after_max_ms
    int64_t producer_id_expiration_ms
    int64_t flush_messages
    int64_t flush_ms
    int8_t log_append_time        # message.timestamp.type
    int8_t compacted              # cleanup.policy has compact: keys are required
    int8_t delete_enabled         # cleanup.policy has delete
    int8_t compression            # -1: as the producer sent it; else the codec's number (0 none 1 gzip 2 snappy 3 lz4 4 zstd)

cdef struct AppendEntry:
    # One validated batch on its way into the log. `data` is patched in place (offset, epoch, stamp).
    uint8_t *data
    BatchInfo info
    # Out: 0 or a Kafka error code; a duplicate of a remembered batch is 0 with the first base offset.
    int16_t error
    int8_t duplicate
    int64_t base_offset
    int64_t log_append_time_ms    # -1 under CreateTime

cdef struct ReadCursor:
    # Where the previous read of the same reader ended, so that the next one needs no index lookup.
    # All -1 when unknown. Stale cursors are detected, never trusted.
    int64_t segment_base_offset
    int64_t offset
    int64_t position
    int64_t truncations           # Log.truncations when it was taken

cdef struct LogSlice:
    # A range of whole batches inside one segment file. The caller releases `file` with segment_file_release.
    SegmentFile *file             # NULL when size_bytes is 0
    int64_t position
    int64_t size_bytes
    int64_t next_offset           # offset that follows the range; -1 when it was not cheap to know

cdef struct Log:
    int64_t log_start_offset
    int64_t log_end_offset        # next offset to be written
    int64_t high_watermark
    int64_t last_stable_offset
    int64_t size_bytes            # of all segments
    int32_t leader_epoch          # of the newest entry in the leader-epoch cache; -1 when empty
    int32_t failed                # 1 after an I/O error: appends answer KAFKA_STORAGE_ERROR
    # counters, one writer at a time (under the lock), read freely
    int64_t appended_batches
    int64_t appended_records
    int64_t appended_bytes
    int64_t truncations
    LogConfig config
    # ---- guarded by lock
    pthread_mutex_t lock
    void *state                   # the rest is private to log.pyx and its parts

# Appends the entries in order with as few writes as the segments allow: assigns offsets and
# `leader_epoch`, checks producer epochs and sequences (KIP-98, KIP-360), rolls, indexes, advances
# log_end_offset. Each entry gets its own error; one refused entry does not refuse the others. A failed or
# short write truncates back to the last whole entry and answers KAFKA_STORAGE_ERROR for the rest.
# Does not move high_watermark: that is the partition's business (log_advance_high_watermark).
cdef void log_append(Log *log, AppendEntry **entries, int32_t n, int32_t leader_epoch, int64_t now_ms) noexcept nogil

# Finds up to max_bytes of whole batches holding `offset` and what follows, ending below `limit_offset`
# (high watermark, last stable offset, or log end). When min_one is set and the first batch alone is
# larger than max_bytes it is given whole. Returns 0 or OFFSET_OUT_OF_RANGE / KAFKA_STORAGE_ERROR. Updates
# *cursor. offset == limit_offset gives an empty slice.
cdef int16_t log_read(
    Log *log, int64_t offset, int64_t limit_offset, int64_t max_bytes, bint min_one,
    ReadCursor *cursor, LogSlice *out) noexcept nogil

# Bytes available between offset and limit_offset, near enough for fetch.min.bytes (Kafka counts the same
# way: exact inside one segment, size of the whole active segment beyond it).
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

cdef void segment_file_retain(SegmentFile *file) noexcept nogil
cdef void segment_file_release(SegmentFile *file) noexcept nogil

cdef class PartitionLog:
    """The log as Python sees it; owns the struct. See log.pyx."""
    cdef Log *log
