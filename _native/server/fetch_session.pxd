"""Keeps the partitions of a fetch, and incremental fetch sessions (KIP-227)."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.fetch_types cimport FetchPart, FetchRequest, FetchSession, FetchSet
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.base.wire cimport Reader

cdef bint set_read_topics(FetchSet *s, Reader *body, int16_t version) noexcept nogil
cdef bint set_read_forgotten(FetchSet *s, Reader *body, int16_t version) noexcept nogil
cdef void set_free(FetchSet *s) noexcept nogil
# Returns the bytes of memory of a set.
cdef int64_t set_bytes(const FetchSet *s) noexcept nogil
cdef void part_drop_partition(FetchPart *part) noexcept nogil

cdef FetchSession *session_find(Reactor *r, int32_t id) noexcept nogil
cdef FetchSession *session_create(Reactor *r, FetchSet *contents) noexcept nogil
# Call it after the partitions changed. False: the session needs more memory than allowed.
cdef bint session_changed(Reactor *r, FetchSession *session) noexcept nogil
cdef void session_used(FetchSession *session, Connection *c) noexcept nogil
cdef void session_remove(Reactor *r, FetchSession *session) noexcept nogil
# Call it when a connection closes: removes its large sessions, because clients do not continue them on another
# connection.
cdef void sessions_leave(Reactor *r, int64_t connection_id) noexcept nogil
