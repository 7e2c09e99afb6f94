"""Flushes logs: syncs their files, so that they survive power loss."""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.disk.file_ops cimport PATH_BYTES
from bowstring._native.log.types cimport Log, SegmentFile

# Takes Log.lock, and releases it while the device works. 0 or a negated errno.
cdef int log_flush(Log *log, bint include_active) noexcept nogil
# Applies flush.messages inside the append, as Kafka does. Call it under Log.lock. False: the appended batches are not on
# the medium.
cdef bint log_flush_by_count(Log *log) noexcept nogil

# ---------------------------------------------------------------- the steps, for checkpoint.pyx and roll.pyx

# Syncs <directory>/<20 digits><suffix>. Returns 0 or a negated errno; 0 if there is no such file.
cdef int sync_of(const char *directory, int64_t base_offset, const char *suffix) noexcept nogil
# The steps of a flush. A checkpoint runs each step for many logs.
cdef struct FlushGoal:
    int64_t end_offset              # the recovery point when it succeeds
    int64_t newest_base
    int64_t truncations             # Log.truncations at the start: after a truncation, the point does not move
    bint needed                     # some data is not on the medium
    bint rescue                     # the log has failed: only existing batches and names are synced
    bint lost                       # the log directory has failed: unsynced data cannot be saved
    bint names                      # the directory has names that are not synced

cdef struct FlushPlan:
    FlushGoal goal
    int32_t n
    SegmentFile **files             # to sync, held open
    int64_t *base_offsets
    int64_t snapshot                # offset of the snapshot a checkpoint left; -1
    bint epochs                     # leader-epoch-checkpoint was written and must be synced
    bint aborted                    # the active segment has a .txnindex: recovery restores no entry below its point
    char[PATH_BYTES] directory      # its path at the start: mark_deleted() may change it meanwhile

# Sets the goal of a flush of all segments, or of all but the active one. Call it under the lock.
cdef void flush_goal(Log *log, bint include_active, FlushGoal *goal) noexcept nogil
# Collects the files to sync and holds them open; flush_sync frees the plan. Call it under the lock.
cdef int flush_plan(Log *log, bint include_active, FlushPlan *plan) noexcept nogil
# Syncs the files, without the lock. With an `error` from planning, only frees the plan.
cdef int flush_sync(FlushPlan *plan, bint active_indexes, int error) noexcept nogil
# Records the outcome. Takes the lock. `directory`: the path that was synced; NULL: the whole file system was. `epochs`: the
# flush wrote leader-epoch-checkpoint, so after an error the next flush writes it again.
cdef int flush_done(Log *log, const FlushGoal *goal, const char *directory, bint epochs, int error) noexcept nogil
