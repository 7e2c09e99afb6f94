"""Rolling, flushing and closing a log; and how it fails. With Log.lock held except where said."""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.atomics cimport load_i32
from bowstring._native.log_types cimport Log, LogState, Segment

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
# Takes the lock itself, and lets it go while the device works. 0 or a negated errno.
cdef int log_flush(Log *log, bint include_active) noexcept nogil
# Everything a clean start relies on is written (and synced): takes the lock itself.
cdef int log_close(Log *log, bint sync) noexcept nogil
# Index tails into their files and their memory back, if nothing was appended since the last call.
cdef int log_rest(Log *log) noexcept nogil
