"""Frames cut out of a receive buffer, and each handed to what its API key names."""
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdio cimport snprintf
from bowstring._native.connection cimport connection_condemn, connection_end, connection_hold, connection_open_slot
from bowstring._native.control cimport control_send_request
from bowstring._native.fetch cimport fetch_receive
from bowstring._native.plane cimport Connection, MAX_API_KEY, Plane, Reactor, RequestHeader
from bowstring._native.produce cimport produce_receive
from bowstring._native.wire cimport Reader, read_i16, read_i32, read_string, skip_tags

cdef enum:
    API_PRODUCE = 0
    API_FETCH = 1
    API_API_VERSIONS = 18
    FRAME_MIN_BYTES = 10            # the shortest request header


cdef void refuse_size(Connection *c, int64_t size) noexcept nogil:
    cdef char text[120]
    cdef uint32_t top = <uint32_t>size >> 8
    if top >> 8 == 0x1603 or top == 0x160301 or top == 0x160303:
        connection_end(c, -1, b"tls-on-plaintext",
                       b"a TLS handshake came in on a PLAINTEXT listener; set security.protocol=PLAINTEXT in the client")
        return
    snprintf(text, sizeof(text), b"frame of %lld bytes; between 10 and socket.request.max.bytes=%lld are taken",
             <long long>size, <long long>c.reactor.plane.request_max_bytes)
    connection_end(c, -1, b"bad-frame-size", text)


cdef void refuse(Connection *c, int64_t slot, const char *what, int api_key, int api_version) noexcept nogil:
    cdef char text[120]
    snprintf(text, sizeof(text), b"%s (api key %d, version %d)", what, api_key, api_version)
    connection_end(c, slot, b"bad-request", text)


cdef void handle_frame(Reactor *r, Connection *c, const uint8_t *frame, int64_t size) noexcept nogil:
    """One request: header, then the handler its API key names."""
    cdef Reader body
    cdef RequestHeader header
    cdef Plane *plane = r.plane
    cdef int64_t slot
    cdef bint offered, ok
    body.at = frame
    body.end = frame + size
    body.bad = False
    header.api_key = read_i16(&body)
    header.api_version = read_i16(&body)
    header.correlation_id = read_i32(&body)
    header.client_id_length = read_string(&body, False, &header.client_id)
    if body.bad:
        refuse(c, -1, b"request header cut short", header.api_key, header.api_version)
        return
    offered = (0 <= header.api_key < MAX_API_KEY and plane.apis[header.api_key].highest >= 0
               and plane.apis[header.api_key].lowest <= header.api_version <= plane.apis[header.api_key].highest)
    if offered:
        if header.api_version >= plane.apis[header.api_key].flexible_from:
            skip_tags(&body)
        if body.bad:
            refuse(c, -1, b"request header cut short", header.api_key, header.api_version)
            return
    elif header.api_key != API_API_VERSIONS:              # a version too new gets an answer, in version 0
        refuse(c, -1, b"API or version not offered", header.api_key, header.api_version)
        return
    slot = connection_open_slot(c)
    if slot < 0:
        connection_condemn(c)
    elif header.api_key == API_PRODUCE:
        ok = produce_receive(r, c, &header, &body)
        if not ok:
            refuse(c, slot, b"malformed request", header.api_key, header.api_version)
    elif header.api_key == API_FETCH:
        ok = fetch_receive(r, c, &header, &body)
        if not ok:
            refuse(c, slot, b"malformed request", header.api_key, header.api_version)
    elif control_send_request(c, &header, slot, body.at, body.end - body.at):
        connection_hold(c, slot, size)
    else:
        connection_condemn(c)


cdef void cut_frames(Reactor *r, Connection *c) noexcept nogil:
    """Handles every whole frame in the receive buffer."""
    cdef Reader head
    cdef int64_t size
    while c.end - c.start >= 4 and not c.closing and not c.refusing:
        head.at = c.buffer + c.start
        head.end = head.at + 4
        head.bad = False
        size = read_i32(&head)
        if size < FRAME_MIN_BYTES or size > r.plane.request_max_bytes:
            refuse_size(c, size)
            return
        if c.end - c.start < 4 + size:
            return
        handle_frame(r, c, c.buffer + c.start + 4, size)
        c.start += 4 + size
