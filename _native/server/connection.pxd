"""Handles connections: receive buffers, the order of replies, sending."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from bowstring._native.log cimport SegmentFile
from bowstring._native.server.connection_types cimport Chunk, Connection, Phase, Stall
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.wal.types cimport Wal

# Receive buffers
cdef bint connection_borrow_buffer(Connection *c) noexcept nogil
cdef void connection_fit_buffer(Connection *c) noexcept nogil
cdef void buffer_pool_free(Reactor *reactor) noexcept nogil

# Reply order: a slot for each request, in order of arrival
cdef int64_t connection_open_slot(Connection *c) noexcept nogil
cdef void connection_hold(Connection *c, int64_t slot, int64_t n) noexcept nogil
cdef void connection_answer(Connection *c, int64_t slot, Chunk *head) noexcept nogil
cdef void connection_answer_bytes(Connection *c, int64_t slot, const void *data, int64_t n) noexcept nogil
cdef Connection *connection_find(Reactor *reactor, int64_t id) noexcept nogil

# Life
cdef Connection *connection_open(Reactor *reactor, int fd, int32_t listener) noexcept nogil
cdef void connection_set_phase(Connection *c, Phase phase) noexcept nogil
cdef void connection_close(Connection *c) noexcept nogil
cdef bint connection_send(Connection *c) noexcept nogil
cdef void connection_watch(Connection *c) noexcept nogil
cdef void connection_touch(Connection *c) noexcept nogil
# Returns whether too many requests or replies are pending to read another request.
cdef bint connection_full(const Connection *c) noexcept nogil
cdef void connection_stall(Connection *c, Stall why, Wal *wal) noexcept nogil
# Ends STALL_ORDER, if that is why the connection stalls: the next pass handles its next request.
cdef void connection_resume(Connection *c) noexcept nogil
# Reads no further requests for a time (KIP-219). What is due is sent meanwhile.
cdef void connection_mute(Connection *c, int64_t throttle_ms) noexcept nogil
# Returns a connection whose time is over, which may be read from again; NULL: there is none.
cdef Connection *connection_unmute(Reactor *r) noexcept nogil
cdef void connection_hung_up(Connection *c) noexcept nogil
cdef void connection_condemn(Connection *c) noexcept nogil
# Closes the connection once the replies to its requests are sent, and handles no more requests.
cdef void connection_finish(Connection *c) noexcept nogil
cdef void connection_end(Connection *c, int64_t slot, const char *event, const char *detail) noexcept nogil
cdef void connection_fail(Connection *c, const char *event, const char *detail) noexcept nogil
