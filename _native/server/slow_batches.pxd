"""Handles slow batches, which need the control thread: their memory, and connections that wait for room.

Two counts over all connections, each limited to Plane.slow_max_bytes
- slow_waiting_bytes: the copies for the control thread, and large requests of other APIs (request_dispatch.pyx).
  A request that does not fit is not started: its connection is parked and not read from, and the request stays in the
  receive buffer.
- slow_working_bytes: the memory for checking and recompressing, and the results until they are in the log. The control
  thread does not start a job that does not fit.
Anything fits if nothing else is counted, so nothing waits forever; each reactor may find that at the same moment, and start
one request beyond the limit. Neither count waits for the other: jobs end and
results are appended without room for anything else. Jobs begin in the order of their batches, so a result never waits
for a batch that has no room. The exception is a batch that turns out to need more: it begins once no other job runs.

Parked connections of a reactor continue in the order in which they were parked; new ones queue after them. Plane.slow_turn
keeps a large request from waiting forever while small requests of other reactors use the freed room.
"""
from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t
from bowstring._native.base.atomics cimport load_i32, load_i64
from bowstring._native.record.batch cimport ATTR_COMPRESSION_MASK, ATTR_LOG_APPEND_TIME, BatchInfo
from bowstring._native.record.record_sizes cimport DECOMPRESSED_RECORD_MAX_BYTES
from bowstring._native.log cimport LogConfig
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.control_types cimport RequestHeader
from bowstring._native.server.partition_types cimport Partition
from bowstring._native.server.plane_types cimport Plane
from bowstring._native.server.produce_types cimport ProducePart
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.base.wire cimport Reader

cdef enum:
    SLOW_BATCH_BYTES = 2048         # overhead of a waiting batch, including Python objects
    SLOW_HELD_SHARE = 4             # A connection may hold 4 times as many bytes of slow batches as of other requests:
                                    # codecs use several processors, and all connections together are limited anyway.


cdef inline int64_t slow_cost(int64_t batch_bytes) noexcept nogil:
    return batch_bytes + SLOW_BATCH_BYTES


cdef inline bint slow_look_inside(const LogConfig *config, const BatchInfo *info, int64_t now_ms) noexcept nogil:
    """Whether the records of a compressed batch must be read to see if the topic refuses some."""
    return (config.compacted or config.schemas or config.max_decompressed_message_bytes < DECOMPRESSED_RECORD_MAX_BYTES
            or info.attributes & ATTR_LOG_APPEND_TIME != 0
            or (not config.log_append_time
                and (config.timestamp_before_max_ms != INT64_MAX
                     or (info.max_timestamp > now_ms
                         and info.max_timestamp - now_ms > config.timestamp_after_max_ms))))


cdef inline bint slow_needed(Partition *p, const BatchInfo *info, int64_t now_ms) noexcept nogil:
    """Whether a checked batch goes through the control thread."""
    cdef int codec = info.attributes & ATTR_COMPRESSION_MASK
    return ((p.log.config.compression >= 0 and p.log.config.compression != codec)
            or (codec != 0 and slow_look_inside(&p.log.config, info, now_ms))
            or info.schemas_missing
            or load_i32(&p.slow_batches) > 0)             # the batch must not overtake them

# For reactors: whether a Produce request must wait for room. If so, parks its connection.
cdef bint slow_parks(Reactor *r, Connection *c, int16_t version, Reader body) noexcept nogil
# The same for a request of `bytes`. If it need not wait, counts the bytes in r.slow_reserved.
cdef bint slow_parks_for(Reactor *r, Connection *c, int64_t bytes) noexcept nogil


cdef inline bint slow_waits(Reactor *r, Connection *c, const RequestHeader *header, const Reader *body) noexcept nogil:
    return (load_i64(&r.plane.slow_waiting_bytes) != 0 and r.slow_reserved == 0
            and slow_parks(r, c, header.api_version, body[0]))

# Whether a batch of a Produce request could overtake those of the connection that the control thread has: batches of one
# partition follow each other, those of several are not compared.
cdef bint slow_overtakes(Reactor *r, const Connection *c, int16_t version, Reader body) noexcept nogil
# Call it when the control thread has finished a batch.
cdef void slow_finished(Reactor *r, ProducePart *part) noexcept nogil
# Call it after the request was handled: subtracts the bytes that were counted for it but not used.
cdef void slow_give_back(Reactor *r) noexcept nogil
# Unparks and returns the next parked connection if there is room for its request, and counts the request; NULL: none.
cdef Connection *slow_resume(Reactor *r) noexcept nogil
cdef void slow_connection_closed(Connection *c) noexcept nogil

# Sends a copy of the batch to the control thread; the result comes as MAIL_SLOW_BATCH. False when memory ran out.
cdef bint slow_send(Reactor *r, ProducePart *part, const uint8_t *batch, int64_t n) noexcept nogil
# Frees the memory of a batch that is in the log, or never will be.
cdef void slow_free(ProducePart *part) noexcept nogil

# For the control thread
cdef bint slow_begin(Plane *plane, int64_t n) noexcept nogil
cdef void slow_waiting_gone(Plane *plane, int64_t n) noexcept nogil
cdef void slow_working_add(Plane *plane, int64_t n) noexcept nogil
