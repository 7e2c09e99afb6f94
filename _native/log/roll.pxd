"""Rolls to a new segment, and closes a log. Call the functions under Log.lock unless their comment says otherwise."""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.log.types cimport Log
from bowstring._native.record.batch cimport BatchInfo

cdef int log_roll(Log *log, int64_t now_ms) noexcept nogil
# Takes the lock, and rolls if segment.ms has passed by the clock (now_ms INT64_MAX: in any case). Returns 1 when a segment
# began, 0 when not, or a negated errno.
cdef int log_roll_now(Log *log, int64_t now_ms) noexcept nogil
# A pseudo-random delay, always the same for a segment: spreads the rolls of many partitions (segment.jitter.ms).
cdef int32_t roll_jitter_ms(const Log *log) noexcept nogil
cdef bint log_time_to_roll(Log *log, int64_t newest_timestamp, int64_t now_ms) noexcept nogil
# Whether this batch begins a new segment: by size, by time, when an index is full, or when an offset does not fit.
cdef bint must_roll(Log *log, const BatchInfo *info, int64_t now_ms) noexcept nogil
# Writes (and with `sync` syncs) all files that a clean start relies on. Takes the lock.
cdef int log_close(Log *log, bint sync) noexcept nogil
# If nothing was appended since the last call: writes index tails to their files and frees their memory.
cdef int log_rest(Log *log) noexcept nogil
