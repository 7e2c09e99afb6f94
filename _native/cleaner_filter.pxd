"""What stays of each batch: Kafka's Cleaner.cleanInto and MemoryRecords.filterTo, for batches of magic 2."""
from libc.stdint cimport uint8_t
from bowstring._native.batch cimport BatchInfo
from bowstring._native.cleaner_types cimport CleanRun

# First pass: enters the keys of a batch. 1 when they all fit, 0 when the table is full (it has then some of them,
# and latest_offset stays), or a negated errno.
cdef int map_batch(CleanRun *run, const uint8_t *batch, const BatchInfo *info) noexcept nogil
# Second pass: writes what stays of a batch. 0 or a negated errno.
cdef int filter_batch(CleanRun *run, const uint8_t *batch, const BatchInfo *info) noexcept nogil
