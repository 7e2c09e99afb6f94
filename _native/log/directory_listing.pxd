"""Lists a partition's directory: segment files by name, and the cleanup that needs only names."""
from libc.stdint cimport int8_t, int32_t, int64_t
from bowstring._native.log.types cimport LogState

cdef enum FileKind:
    LOG_FILE = 1
    INDEX_FILE = 2
    TIME_INDEX_FILE = 4
    ABORTED_FILE = 8
    SNAPSHOT_FILE = 16

cdef struct FoundSegment:
    int64_t base_offset
    int32_t kinds                   # FileKinds that exist

cdef struct Listing:
    FoundSegment *found             # ascending
    int32_t count
    int32_t capacity
    int8_t swapped                  # a compaction was interrupted: see finish_swaps

# Lists the directory and unlinks files that an earlier run marked for deletion. 0 or a negated errno.
cdef int listing_read(const LogState *state, Listing *listing) noexcept nogil
# Completes or undoes an interrupted swap of compacted segments, as Kafka's LogLoader does. List again afterwards.
cdef int finish_swaps(const LogState *state) noexcept nogil
cdef void listing_free(Listing *listing) noexcept nogil
