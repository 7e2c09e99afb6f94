"""Appending to a log."""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.disk.file_ops cimport iovec
from bowstring._native.log.types cimport AppendEntry, Log
from bowstring._native.record.batch cimport BatchInfo

cdef enum:
    # Passed as the leader epoch for batches of another copy of this log: they keep their offsets and epochs, and are
    # not checked again. They must be in order and begin at or above the log end.
    AS_WRITTEN = -2
    ENTRIES_TOGETHER = 64           # batches that a copy or a replay appends at once

# Appends the entries in order with as few writes as the segments allow: assigns offsets and `leader_epoch`, checks
# producer epochs and sequences (KIP-98, KIP-360), rolls, indexes, advances log_end_offset. Each entry gets its own
# error; one refused entry does not refuse the others. A failed or short write truncates to the last complete entry and
# sets KAFKA_STORAGE_ERROR for the rest. Takes Log.lock; the only system calls under it are the log write and a roll.
# Does not move high_watermark: the caller does (log_advance_high_watermark).
cdef void log_append(
    Log *log, AppendEntry **entries, int32_t n, int32_t leader_epoch, int64_t now_ms) noexcept nogil

# Begins to verify a transactional batch: producer_verify() of producer_state.pxd under Log.lock. After the coordinator's
# answer, call log_verified() before the batch is appended or refused.
cdef int64_t log_verify(Log *log, const BatchInfo *info, bint adds, int64_t now_ms) noexcept nogil
cdef void log_verified(Log *log, int64_t producer_id, int64_t token) noexcept nogil

# ---------------------------------------------------------------- the steps of log_append, all under Log.lock

cdef enum:
    STAGED_MAX = 256                # parts of one pwritev; the kernel takes 1,024

cdef struct Staged:
    # Batches that have an offset and a position in the active segment but are not written yet.
    int64_t next_offset             # after the last staged batch
    int64_t position                # where the first staged byte goes
    int64_t size_bytes
    int32_t first                   # entries[first:end) are staged, refused, or duplicates
    int32_t parts_count
    bint followed                   # a leader has written them, and this is a follower
    iovec[STAGED_MAX] parts

# Starts with nothing staged. Returns whether the active segment is ready for appends: if not, the log has failed, or lacks
# descriptors or memory. A log that replays fails for want of these, too: what is replayed was acknowledged.
cdef bint begin(Log *log, Staged *staged) noexcept nogil
# Assigns entries[i] its offset and position. False: the caller must refuse the rest, for one of the same reasons.
cdef bint stage(
    Log *log, Staged *staged, AppendEntry **entries, int32_t i, int32_t leader_epoch, int64_t now_ms) noexcept nogil
# Writes the staged batches of entries[staged.first:end) and makes them part of the log.
cdef void commit(Log *log, Staged *staged, AppendEntry **entries, int32_t end) noexcept nogil
