"""Rolling, flushing and closing a log; and how it fails. With Log.lock held except where said."""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.atomics cimport load_i32
from bowstring._native.log_types cimport Log, LogState, Segment, SegmentFile

cdef inline LogState *state_of(const Log *log) noexcept nogil:
    return <LogState *>log.state

# Whether the log takes no appends: it has failed, or the directory that it is in.
cdef inline bint log_out_of_service(const Log *log) noexcept nogil:
    return load_i32(&log.failed) or (log.directory != NULL and load_i32(&log.directory.failed))

# No append is taken from now on; an error of the device takes the whole directory out of service. `doing` is a static string for people.
cdef void log_fail(Log *log, int error, const char *doing) noexcept nogil
# Sets last_stable_offset by high watermark and transactions.
cdef void log_settle_stable(Log *log) noexcept nogil
cdef int log_roll(Log *log, int64_t now_ms) noexcept nogil
# Takes the lock itself, and rolls if segment.ms is over by the clock (INT64_MAX: whatever the time): 1 when a segment
# began, 0 when not, or a negated errno.
cdef int log_roll_now(Log *log, int64_t now_ms) noexcept nogil
# Random-looking, the same for the same segment: spreads the rolls of many partitions (segment.jitter.ms).
cdef int32_t roll_jitter_ms(const Log *log) noexcept nogil
cdef bint log_time_to_roll(Log *log, int64_t newest_timestamp, int64_t now_ms) noexcept nogil
cdef int32_t flush_first(const LogState *state) noexcept nogil
# Takes the lock itself, and lets it go while the device works. 0 or a negated errno.
cdef int log_flush(Log *log, bint include_active) noexcept nogil

# A flush in its three steps, of which log_checkpoint makes one for many logs.
cdef struct FlushGoal:
    int64_t end_offset              # the recovery point it leads to
    int64_t newest_base
    int64_t truncations             # Log.truncations then: what was cut off since does not count
    bint needed                     # something is not on the medium
    bint names                      # the directory has names that are not synced

cdef struct FlushPlan:
    FlushGoal goal
    int32_t n
    SegmentFile **files             # to be synced, held open
    int64_t *base_offsets
    int64_t snapshot                # offset of the snapshot a checkpoint left; -1
    bint aborted                    # the active segment has a .txnindex: recovery makes no entry below its point anew
    char[4096] directory            # its path then: mark_deleted() may put another in its place meanwhile

# What a flush of everything, or of all but the active segment, leads to. With the lock.
cdef void flush_goal(Log *log, bint include_active, FlushGoal *goal) noexcept nogil
# What has to be synced for it, held open: the plan is freed by flush_sync. With the lock.
cdef int flush_plan(Log *log, bint include_active, FlushPlan *plan) noexcept nogil
# Without the lock. `error` as planning left it: then nothing is synced.
cdef int flush_sync(FlushPlan *plan, bint active_indexes, int error) noexcept nogil
# Enters the outcome. Takes the lock. `directory` is the path that was synced; NULL: the whole file system was.
cdef int flush_done(Log *log, const FlushGoal *goal, const char *directory, int error) noexcept nogil
# Everything a clean start relies on is written (and synced): takes the lock itself.
cdef int log_close(Log *log, bint sync) noexcept nogil
# Index tails into their files and their memory back, if nothing was appended since the last call.
cdef int log_rest(Log *log) noexcept nogil
