"""Records counted by topic and window of their timestamps, for the audit of counts. See window_counts.pyx."""
from libc.stdint cimport int64_t, uint8_t
from bowstring._native.client.producer_batch cimport Batch
from bowstring._native.record.batch cimport BatchInfo


cdef class Tally:
    """The count of one topic and window."""
    cdef int64_t count
    cdef int64_t newest          # largest timestamp, ms
    cdef int64_t generation      # counts began again at 0 that often for lack of room
    cdef bint changed            # since `changes` returned it


cdef class WindowCounts:
    """See window_counts.pyx. The GIL guards it."""
    cdef readonly int64_t window_ms
    cdef readonly int64_t failures    # batches that could not be counted
    cdef bint staging                 # notes wait for `keep` or `drop`
    cdef dict kept                    # (topic, start of the window) → Tally
    cdef dict staged
    cdef int64_t generation

    cdef int add(self, object topic, int64_t start, int64_t count, int64_t newest) except -1
    cdef int note_range(self, object topic, int64_t low, int64_t high, int64_t count) except -1
    cdef void note_batch(self, Batch batch, int64_t log_append_time_ms) noexcept
    cdef int count_batch(self, Batch batch, int64_t log_append_time_ms) except -1
    cdef int walk_encoded(self, object topic, const uint8_t *at, const BatchInfo *info, int64_t from_offset) except -1
    cdef int walk(
        self, object topic, const uint8_t *at, const uint8_t *end, const BatchInfo *info, int64_t from_delta) except -1
    cdef int forget(self) except -1
