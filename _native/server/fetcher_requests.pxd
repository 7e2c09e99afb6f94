"""Writes the requests of fetchers."""
from libc.stdint cimport int64_t
from bowstring._native.server.follow_types cimport Fetcher

# Each writes the request into f.request with its length; see f.request.failed.
# Returns how many partitions it requests; without any, it is not to be sent, and *due_ms is when a pause ends
# (FOLLOW_NEVER: none does). Frees parts that are over.
cdef int write_fetch(Fetcher *f, int64_t now_ms, int64_t *due_ms) noexcept nogil
# ListOffsets of the first part in FOLLOW_ASKING: f.asked, and f.asks has the kind of offset.
cdef void write_list_offsets(Fetcher *f) noexcept nogil
# Lists a partition to be removed from the leader's session with the next fetch.
cdef void forget_partition(Fetcher *f, const void *topic_id, int index) noexcept nogil
# Begins a new session with the next fetch.
cdef void session_begin(Fetcher *f) noexcept nogil
