"""Decides which records of each batch stay, like Kafka's Cleaner.cleanInto and MemoryRecords.filterTo, for magic 2."""
from libc.stdint cimport uint8_t
from bowstring._native.cleaner.types cimport CleanRun
from bowstring._native.record.batch cimport BatchInfo

# First pass: adds the keys of a batch to the table. Returns 1 when all fit, 0 when the table is full (it then has some of
# the keys, and latest_offset does not move), or a negated errno.
cdef int map_batch(CleanRun *run, const uint8_t *batch, const BatchInfo *info) noexcept nogil
# Second pass: writes the records of a batch that stay. Returns 0 or a negated errno.
cdef int filter_batch(CleanRun *run, const uint8_t *batch, const BatchInfo *info) noexcept nogil
