"""The requests and slow batches that DataPlane.take_requests() returns.

A separate file from control_queue, because of the order of imports: slow_batches uses control_queue to queue batches, and
the objects here use slow_batches to count their memory.
"""
from libc.stdint cimport int64_t, uint8_t
from bowstring._native.record.batch cimport BatchInfo, BatchRules, RecordErrors
from bowstring._native.server.control_types cimport ControlMessage
from bowstring._native.server.plane_types cimport Plane
from bowstring._native.server.produce_types cimport ProducePart


cdef class LargeBody:
    cdef ControlMessage *message
    cdef Plane *plane
    cdef object owner                       # the DataPlane, which must outlive this


cdef class ControlRequest:
    cdef readonly int64_t connection_id
    cdef readonly int64_t slot
    cdef readonly int api_key
    cdef readonly int api_version
    cdef readonly int correlation_id
    cdef readonly str client_id
    cdef readonly object body               # bytes or a LargeBody; None after drop_body()
    cdef readonly int64_t body_bytes
    cdef readonly int64_t received_ns
    cdef readonly str peer
    cdef readonly int listener
    cdef readonly str principal
    cdef readonly bint authenticating       # its connection was in the authentication phase when it arrived

cdef class SlowBatch:
    cdef readonly str topic
    cdef readonly int partition
    cdef readonly int codec                 # the batch's
    cdef readonly int wanted_codec          # the topic's; -1: as the producer sent it
    cdef readonly bint key_required
    cdef readonly bint look_inside          # its records are checked before it is accepted
    # (ids and guids of keys, of values): sets, what `repack` found that the topic's schemas do not have; None: nothing
    cdef readonly tuple missing_schemas
    cdef readonly int size_bytes
    # (transactional id, producer id, epoch, version of Produce): what the coordinator must confirm first; None: nothing
    cdef readonly tuple transaction
    # Its memory is counted in slow_waiting_bytes (the message) and slow_working_bytes, see slow_batches.pxd. The GIL
    # guards all of it; while `busy`, a worker reads the message.
    cdef ProducePart *part                  # NULL: answered
    cdef Plane *plane
    cdef object owner                       # the DataPlane, which must outlive this
    cdef ControlMessage *message            # the batch as produced; NULL: no longer needed
    cdef BatchInfo info                     # of the result if there is one, else of the message
    cdef BatchRules rules
    cdef readonly int record_max_bytes      # max.decompressed.message.bytes
    cdef uint8_t *result                    # the batch to store in its place
    cdef RecordErrors *record_errors
    cdef int64_t working_bytes
    cdef bint busy
    cdef void release(self)
    cdef void count_working(self, int64_t n)
    cdef bint take_schemas(self)
    cdef bint replace(self, bytes batch) except False
    cdef bint finish(self, int error, str reason) except False

# Takes ownership of the message and returns a ControlRequest or a SlowBatch. Returns None when memory ran out: the request's
# connection is then closed, or the batch refused so that the client sends it again.
cdef object take_message(ControlMessage *m, Plane *plane, object owner)
