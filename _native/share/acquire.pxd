"""Acquires records for a member: which of the fetched ones it gets."""
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from bowstring._native.share.window cimport Ranges, Window

cdef struct LogBatch:
    # A batch of the fetched records.
    int64_t base_offset
    int64_t last_offset
    int32_t position
    int32_t size_bytes

cdef struct LogBatches:
    LogBatch *items
    int32_t count
    int32_t capacity

# Lists the whole batches in the bytes; False without memory. The list is freed with free(list.items).
cdef bint list_batches(const uint8_t *data, int64_t size, LogBatches *found) noexcept nogil

cdef struct Acquisition:
    # The limits of a fetch, and what it gets.
    int64_t member
    int8_t record_limit             # share.acquire.mode: no more than max_records, even inside a batch
    int32_t batch_size              # least records of one range of new records
    int64_t max_records
    int64_t fetch_offset
    int64_t now_ms
    Ranges ranges                   # the caller frees it; `failed` without memory

# Acquires available records among `batches`.
cdef void acquire(Window *w, const LogBatches *batches, Acquisition *a) noexcept nogil
# Archives acquired records of aborted transactions, and takes them out of a.ranges. `aborted` is in order.
cdef void drop_aborted(Window *w, const Ranges *aborted, Acquisition *a) noexcept nogil
# The bytes of the batches that hold the ranges.
cdef void slice_acquired(const LogBatches *batches, const Ranges *ranges, int64_t *position, int64_t *size) noexcept nogil
