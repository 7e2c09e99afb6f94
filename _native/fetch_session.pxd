"""The partitions of a fetch, and incremental fetch sessions (KIP-227)."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from bowstring._native.plane cimport FetchPart, FetchRequest, FetchSession, FetchSet, Reactor
from bowstring._native.wire cimport Reader

cdef bint set_read_topics(FetchSet *s, Reader *body, int16_t version, bint update) noexcept nogil
cdef bint set_read_forgotten(FetchSet *s, Reader *body, int16_t version) noexcept nogil
cdef void set_free(FetchSet *s) noexcept nogil
cdef void part_drop_partition(FetchPart *part) noexcept nogil

cdef FetchSession *session_find(Reactor *r, int32_t id) noexcept nogil
cdef FetchSession *session_create(Reactor *r, FetchSet *contents) noexcept nogil
cdef void session_remove(Reactor *r, FetchSession *session) noexcept nogil
