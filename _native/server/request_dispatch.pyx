"""Cuts frames out of a receive buffer and calls the handler of each frame's API key.

The requests of a connection take effect, and read, as if one by one in their order (decision 32). A request begins when
every earlier one is answered. The exceptions cannot be noticed by the client:

- A Produce begins behind unanswered Produces, so that acknowledgements may wait for the medium and for replicas together:
  batches of a partition are appended in their order, and whatever would read them waits for the answers. It waits for
  batches that are not in their logs yet, unless its own queue behind them (slow_overtakes).
- An answer need not have been sent, as it does not change any more.
- Produces with acks=0 have no answer: the next request of another kind waits until their batches are on the medium, where
  reads see them (STALL_SYNC).
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdio cimport snprintf
from bowstring._native.base.atomics cimport load_i32
from bowstring._native.server.commit_queue cimport commit_await_room, commit_pending
from bowstring._native.server.connection cimport (
    connection_condemn, connection_end, connection_full, connection_hold, connection_open_slot, connection_set_phase,
    connection_stall)
from bowstring._native.server.client_quotas cimport quota_identify
from bowstring._native.server.control_queue cimport control_send_request
from bowstring._native.server.fetch cimport fetch_receive
from bowstring._native.server.leases cimport lease_answer
from bowstring._native.server.list_offsets cimport list_offsets
from bowstring._native.server.connection_types cimport (
    PHASE_AUTHENTICATING, PHASE_CERTIFICATE, PHASE_OPEN, PHASE_RAW_TOKENS, STALL_ORDER, STALL_SYNC, STALL_UNANSWERED,
    STALL_WAL, Connection, Stall)
from bowstring._native.server.control_types cimport (
    API_SASL_HANDSHAKE, LARGE_BODY_BYTES, RAW_TOKEN_VERSION, RequestHeader)
from bowstring._native.server.plane_types cimport MAX_API_KEY, Plane
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.server.produce cimport produce_blocked, produce_receive
from bowstring._native.server.slow_batches cimport (
    slow_cost, slow_give_back, slow_overtakes, slow_parks_for, slow_waits)
from bowstring._native.wal.types cimport Wal
from bowstring._native.base.wire cimport Reader, read_i16, read_i32, read_string, skip_tags

cdef enum:
    API_PRODUCE = 0
    API_FETCH = 1
    API_LIST_OFFSETS = 2
    API_API_VERSIONS = 18
    API_SASL_AUTHENTICATE = 36
    REAUTHENTICATE_MIN_MS = 1000    # an earlier SaslHandshake does not authenticate again (KIP-368)
    FRAME_MIN_BYTES = 10            # the shortest request header


cdef void refuse_size(Connection *c, int64_t size) noexcept nogil:
    cdef char text[120]
    cdef uint32_t top = <uint32_t>size >> 8
    if top >> 8 == 0x1603 or top == 0x160301 or top == 0x160303:
        connection_end(c, -1, b"tls-on-plaintext",
                       b"a client started TLS on a PLAINTEXT listener; set security.protocol=PLAINTEXT in the client")
        return
    snprintf(text, sizeof(text), b"a frame of %lld bytes; 10 to socket.request.max.bytes=%lld are allowed",
             <long long>size, <long long>c.reactor.plane.request_max_bytes)
    connection_end(c, -1, b"bad-frame-size", text)


cdef void refuse(Connection *c, int64_t slot, const char *what, int api_key, int api_version) noexcept nogil:
    cdef char text[120]
    snprintf(text, sizeof(text), b"%s (api key %d, version %d)", what, api_key, api_version)
    connection_end(c, slot, b"bad-request", text)


cdef bint out_of_turn(Reactor *r, Connection *c, const RequestHeader *header, const Reader *body) noexcept nogil:
    """Whether earlier requests of the connection, of which some are unanswered, keep this one from beginning."""
    if header.api_key != API_PRODUCE or c.alone:
        return True
    return c.unappended > 0 and slow_overtakes(r, c, header.api_version, body[0])


cdef bint unsynced(Connection *c) noexcept nogil:
    """Whether a read would miss batches that the connection has sent with acks=0."""
    if commit_pending(c.unsynced, c.unsynced_frame):
        return True
    c.unsynced = NULL
    return False


cdef bint wait_for(Reactor *r, Connection *c, Stall why, Wal *wal) noexcept nogil:
    if r.slow_reserved != 0:
        slow_give_back(r)
    connection_stall(c, why, wal)
    return True


cdef bint must_wait(Reactor *r, Connection *c, const RequestHeader *header, const Reader *body) noexcept nogil:
    """Whether a request must wait for its turn or for room. If not, r.slow_reserved is the number of bytes counted for it."""
    cdef Wal *full
    cdef int64_t size = body.end - body.at
    if c.head_slot != c.tail_slot and out_of_turn(r, c, header, body):
        return wait_for(r, c, STALL_ORDER, NULL)
    if header.api_key == API_PRODUCE:
        full = produce_blocked(r, header, body[0])
        if full != NULL and commit_await_room(r, full):
            return wait_for(r, c, STALL_WAL, full)
        return slow_waits(r, c, header, body)
    if c.unsynced != NULL and unsynced(c):
        return wait_for(r, c, STALL_SYNC, NULL)
    if header.api_key == API_FETCH and not r.plane.is_controller:
        return False
    if r.slow_reserved != 0 or size < LARGE_BODY_BYTES:
        return False                                     # it has waited, or is small
    return slow_parks_for(r, c, slow_cost(size))


cdef bint may_begin(Reactor *r, Connection *c, int api_key) noexcept nogil:
    """Whether the phase of the connection, or its session's lifetime (KIP-368), admits a request of this API."""
    if c.phase == PHASE_OPEN and (c.session_ends_ms == 0 or r.now_ms <= c.session_ends_ms):
        return True
    if c.phase != PHASE_OPEN and c.head_slot != c.tail_slot:
        return True                                      # it waits: the answer to an earlier one may end the phase
    return api_key == API_SASL_HANDSHAKE or api_key == API_SASL_AUTHENTICATE or api_key == API_API_VERSIONS


cdef void handshake_begun(Reactor *r, Connection *c, int api_version) noexcept nogil:
    """Begins authentication again; and expects tokens without headers behind version 0. If the handshake fails, the
    control thread closes the connection."""
    if not r.plane.authenticates[c.listener]:
        return
    if c.phase == PHASE_OPEN:
        if r.now_ms - c.admitted_ms < REAUTHENTICATE_MIN_MS:
            return
        connection_set_phase(c, PHASE_AUTHENTICATING)
    if api_version == 0:
        connection_set_phase(c, PHASE_RAW_TOKENS)


cdef bint handle_token(Reactor *r, Connection *c, Reader *body) noexcept nogil:
    """Passes on a SASL token without a request header. False: it must wait in the buffer."""
    cdef RequestHeader header
    cdef int64_t slot
    header.api_key = API_SASL_AUTHENTICATE
    header.api_version = RAW_TOKEN_VERSION
    header.correlation_id = 0
    header.client_id_length = -1
    header.client_id = NULL
    if must_wait(r, c, &header, body):
        return False
    slot = connection_open_slot(c)
    c.alone = True
    if slot < 0 or not control_send_request(c, &header, slot, body.at, body.end - body.at, r.slow_reserved):
        connection_condemn(c)
    else:
        r.slow_reserved = 0
    if r.slow_reserved != 0:
        slow_give_back(r)
    return True


cdef bint receive_native(Reactor *r, Connection *c, const RequestHeader *header, Reader *body) noexcept nogil:
    """Handles a request that a reactor answers itself; False when it is malformed."""
    if header.api_key == API_PRODUCE:
        return produce_receive(r, c, header, body)
    return fetch_receive(r, c, header, body)


cdef bint answer_alone(Reactor *r, Connection *c, const RequestHeader *header, const Reader *body) noexcept nogil:
    """Answers a request that would otherwise be the control thread's; False: it is."""
    if c.lease != NULL and lease_answer(r, c, header, body):
        return True
    return header.api_key == API_LIST_OFFSETS and not r.plane.is_controller and list_offsets(r, c, header, body)


cdef bint handle_frame(Reactor *r, Connection *c, const uint8_t *frame, int64_t size) noexcept nogil:
    """Parses one request's header and calls its handler. False: the request must wait in the buffer."""
    cdef Reader body
    cdef RequestHeader header
    cdef Plane *plane = r.plane
    cdef int64_t slot, counted
    cdef bint offered
    body.at = frame
    body.end = frame + size
    body.bad = False
    if c.phase == PHASE_RAW_TOKENS:
        return handle_token(r, c, &body)
    header.api_key = read_i16(&body)
    header.api_version = read_i16(&body)
    header.correlation_id = read_i32(&body)
    header.client_id_length = read_string(&body, False, &header.client_id)
    if body.bad:
        refuse(c, -1, b"truncated request header", header.api_key, header.api_version)
        return True
    if not may_begin(r, c, header.api_key):
        refuse(c, -1, b"the client is not authenticated, or its session has expired", header.api_key, header.api_version)
        return True
    offered = (0 <= header.api_key < MAX_API_KEY and plane.apis[header.api_key].highest >= 0
               and plane.apis[header.api_key].lowest <= header.api_version <= plane.apis[header.api_key].highest)
    if offered:
        if header.api_version >= plane.apis[header.api_key].flexible_from:
            skip_tags(&body)
        if body.bad:
            refuse(c, -1, b"truncated request header", header.api_key, header.api_version)
            return True
    elif header.api_key != API_API_VERSIONS:              # a version that is too new is answered in version 0
        refuse(c, -1, b"API or version not offered", header.api_key, header.api_version)
        return True
    if must_wait(r, c, &header, &body):
        return False
    if load_i32(&plane.quotas.kinds) != 0:
        quota_identify(c, &header)
    if r.slow_reserved == 0 and answer_alone(r, c, &header, &body):
        return True
    counted = r.slow_reserved
    slot = connection_open_slot(c)
    c.alone = header.api_key != API_PRODUCE
    if header.api_key == API_SASL_HANDSHAKE:
        handshake_begun(r, c, header.api_version)        # before the request is passed on with its phase
    if slot < 0:
        connection_condemn(c)
    elif header.api_key == API_PRODUCE or (header.api_key == API_FETCH and not plane.is_controller):
        if not receive_native(r, c, &header, &body):
            refuse(c, slot, b"malformed request, or too many partitions in one", header.api_key, header.api_version)
    elif control_send_request(c, &header, slot, body.at, body.end - body.at, counted):
        r.slow_reserved -= counted
        connection_hold(c, slot, size)
    else:
        connection_condemn(c)
    if r.slow_reserved != 0:
        slow_give_back(r)
    return True


cdef void cut_frames(Reactor *r, Connection *c) noexcept nogil:
    """Handles every complete frame in the receive buffer."""
    cdef Reader head
    cdef int64_t size
    while (c.end - c.start >= 4 and not c.closing and not c.refusing and not c.parked and not c.stalled
           and c.phase != PHASE_CERTIFICATE and (c.muted_until_ms == 0 or r.slow_reserved != 0)):
        head.at = c.buffer + c.start
        head.end = head.at + 4
        head.bad = False
        size = read_i32(&head)
        if c.phase != PHASE_OPEN and (size > r.plane.sasl_max_bytes or (c.phase == PHASE_RAW_TOKENS and size < 0)):
            connection_end(c, -1, b"bad-sasl-size",
                           b"a request before authentication is larger than sasl.server.max.receive.size")
            return
        if (size < FRAME_MIN_BYTES and c.phase != PHASE_RAW_TOKENS) or size > r.plane.request_max_bytes:
            refuse_size(c, size)
            return
        if c.end - c.start < 4 + size:
            return
        if connection_full(c):
            connection_stall(c, STALL_UNANSWERED, NULL)
            return
        if not handle_frame(r, c, c.buffer + c.start + 4, size):    # the frame stays until there is room
            return
        c.start += 4 + size
