"""What is in a partition's directory: segment files by name, and the tidying up that names alone call for."""
from libc.stdint cimport int8_t, int32_t, int64_t
from bowstring._native.log_types cimport LogState

cdef enum FileKind:
    LOG_FILE = 1
    INDEX_FILE = 2
    TIME_INDEX_FILE = 4
    ABORTED_FILE = 8
    SNAPSHOT_FILE = 16

cdef struct FoundSegment:
    int64_t base_offset
    int32_t kinds                   # FileKinds that are there

cdef struct Listing:
    FoundSegment *found             # ascending
    int32_t count
    int32_t capacity
    int8_t swapped                  # a compaction was interrupted: see finish_swaps

# Lists the directory, unlinks what an earlier run had marked for deletion. 0 or a negated errno.
cdef int listing_read(const LogState *state, Listing *listing) noexcept nogil
# Completes or undoes an interrupted swap of compacted segments as Kafka's LogLoader does; then list again.
cdef int finish_swaps(const LogState *state) noexcept nogil
cdef void listing_free(Listing *listing) noexcept nogil
