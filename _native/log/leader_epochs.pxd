"""The leader-epoch cache: where each leader epoch began in this log (KIP-101, KIP-279). Call all under Log.lock.

It is kept in memory, and written to leader-epoch-checkpoint when the log is flushed or closed. Recovery restores entries
that a crash loses from the batches, each of which carries its epoch.
"""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.log.types cimport EpochCache, Log, LogState

cdef int epochs_load(LogState *state) noexcept nogil       # EBADMSG: the file is malformed
cdef int epochs_write(LogState *state, bint sync) noexcept nogil   # if anything changed
# Adds an epoch unless the newest entry already covers it, and removes entries that contradict it. False when memory ran
# out.
cdef bint epochs_assign(EpochCache *cache, int32_t epoch, int64_t start_offset) noexcept nogil
cdef int32_t epochs_newest(const EpochCache *cache) noexcept nogil
cdef void epochs_truncate_end(EpochCache *cache, int64_t end_offset) noexcept nogil
cdef void epochs_truncate_start(EpochCache *cache, int64_t start_offset) noexcept nogil
cdef void epochs_clear(EpochCache *cache) noexcept nogil
cdef bint epochs_copy(EpochCache *to, const EpochCache *of) noexcept nogil      # False without memory
cdef void epochs_end_offset(
    const EpochCache *cache, int32_t epoch, int64_t log_end_offset, int32_t *found_epoch,
    int64_t *end_offset) noexcept nogil
cdef int32_t epoch_at(const EpochCache *cache, int64_t offset) noexcept nogil   # -1: before the first

# Finds the greatest epoch <= `epoch` and the offset where it ends; both -1 when unknown. Takes Log.lock.
cdef void log_end_offset_for_epoch(
    Log *log, int32_t epoch, int32_t *found_epoch, int64_t *end_offset) noexcept nogil
