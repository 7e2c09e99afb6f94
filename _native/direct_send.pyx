"""Sending from the thread that calls: a record with linger 0 goes out without the sender's thread being woken.

The sender prepares it: for each partition it has sent to, a ShortCut has the connection and the request's bytes up to the
batch. A caller whose record opens a batch takes the short cut if the sender sleeps, which lends its turn meanwhile, and if
nothing is in the way: a retry, a full socket, too many requests in flight, a connection or metadata that have changed.
Otherwise it wakes the sender, which does everything as ever.

None of this runs Python code or lets the GIL go. So signal handlers and finalizers, which may flush or close the producer
or be left by an exception, never find it half done, and nobody else finds the garbage collector switched off.
"""
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from bowstring._native.accumulator cimport Accumulator, Lane
from bowstring._native.clock cimport monotonic_ns
from bowstring._native.produce_batch cimport Batch
from bowstring._native.wire cimport Writer, patch_i32, put_count, put_raw, writer_free

from functools import partial

from bowstring._native.gil_turns import send_queue
from bowstring._native.produce_rounds import seal_all

cdef extern from "Python.h":
    int PyGC_Disable()
    int PyGC_Enable()

cdef enum:
    LENGTH_BYTES = 4
    CORRELATION_AT = 8                                   # behind the length, API key and version


cdef class ShortCut:
    """How a batch for one partition is sent.

    Args:
        number: of the DirectSender when it was made.
        connection: a Connection that is ready.
        head: the request's bytes up to the size of the batch, its length and correlation id left to be filled in.
        flexible: whether sizes are varints and tags follow (KIP-482).
    """
    cdef int64_t number
    cdef object connection
    cdef object in_flight
    cdef object out
    cdef int descriptor
    cdef bytes head
    cdef bint flexible
    cdef readonly int version

    def __init__(self, int64_t number, connection, out, int descriptor, bytes head not None, int version,
                 bint flexible):
        self.number = number
        self.connection = connection
        self.in_flight = connection.in_flight
        self.out = out
        self.descriptor = descriptor
        self.head = head
        self.version = version
        self.flexible = flexible

    cpdef bytes head_of(self, int32_t correlation_id, int64_t batch_bytes):
        """The request up to its batch of that size."""
        cdef Writer w
        memset(&w, 0, sizeof(Writer))
        try:
            put_raw(&w, PyBytes_AS_STRING(self.head), PyBytes_GET_SIZE(self.head))
            put_count(&w, self.flexible, <int32_t>batch_bytes)
            if w.failed:
                raise MemoryError("no memory for a request")
            patch_i32(w.data, <int32_t>(w.size - LENGTH_BYTES + batch_bytes + len(self.tail())))
            patch_i32(w.data + CORRELATION_AT, correlation_id)
            return PyBytes_FromStringAndSize(<const char *>w.data, w.size)
        finally:
            writer_free(&w)

    cpdef bytes tail(self):
        """What follows the batch: no tags of the partition, the topic and the request."""
        return b"\0\0\0" if self.flexible else b""


cdef class DirectSender:
    """Takes short cuts for a producer's callers.

    Attributes:
        number: of the short cuts that still hold; `forget` lets go of all.
        producer: (id, epoch) to seal batches with.

    Args:
        turn: the lock that the sender holds but while it sleeps.
        client: a NetworkClient.
        settings: ProducerSettings.
        metrics: ProducerMetrics.
        pending_type, api: Pending and ProduceRequest.
        answered: called with [batch] and its Pending.
    """
    cdef Accumulator shared
    cdef object turn, client, settings, metrics, pending_type, api, answered
    cdef double timeout_s
    cdef int64_t in_flight_max
    cdef readonly int64_t number
    cdef public tuple producer

    def __init__(self, Accumulator shared not None, turn, client, settings, metrics, pending_type, api, answered):
        self.shared, self.turn, self.client, self.settings = shared, turn, client, settings
        self.metrics, self.pending_type, self.api, self.answered = metrics, pending_type, api, answered
        self.timeout_s = settings.request_timeout_s
        self.in_flight_max = settings.in_flight_max
        self.producer = (-1, -1)

    def forget(self):
        """Something that short cuts rely on has changed."""
        self.number += 1

    def holds(self, ShortCut cut):
        """Whether a lane's short cut may still be taken."""
        return cut is not None and cut.number == self.number

    def __call__(self, Lane lane not None):
        """Sends the lane's batch, or wakes the sender."""
        cdef bint sent = False
        cdef int collecting
        if self.turn.acquire(False):
            collecting = PyGC_Disable()
            try:
                sent = self.send(lane)
            finally:
                self.turn.release()
                if collecting:
                    PyGC_Enable()
        if not sent:
            self.shared.wake()

    cdef bint may_go(self, Lane lane, ShortCut cut):
        if cut is None or cut.number != self.number or self.shared.halted or len(lane.waiting) != 1:
            return False
        if len(cut.in_flight) >= self.in_flight_max or len(cut.out) > 0:
            return False
        return lane.due_in_s(0.0, 0.0, 0, True) == 0.0 and (<Batch>lane.waiting[0]).attempts == 0

    cdef bint send(self, Lane lane) except -1:
        """False when there is something for the sender to do."""
        cdef ShortCut cut = lane.short_cut
        cdef Batch batch
        cdef double now
        cdef object pending
        if not self.may_go(lane, cut):
            return False
        now = monotonic_ns() / 1e9
        batch = self.shared.take(lane)
        taken = [batch]
        try:
            seal_all(self.shared, taken, now, self.settings, self.producer)
            pending = self.pending_for(cut, taken, now)
            pieces = [memoryview(cut.head_of(pending.correlation_id, batch.wire_size())), batch.wire()]
            if cut.flexible:
                pieces.append(memoryview(cut.tail()))
        except Exception:                                # most likely no memory; the sender will tell
            self.shared.put_back(lane, batch)
            return False
        cut.in_flight.append(pending)
        cut.out.extend(pieces)
        cut.connection.last_used = now
        self.metrics.requests += 1
        self.metrics.count(taken, now)
        if pending.deadline < self.client.alarm:
            self.client.alarm = pending.deadline
        try:
            send_queue(cut.descriptor, cut.out, True)
        except Exception:
            return False                                 # the sender finds what is left, tries it, and sees why
        return len(cut.out) == 0 and pending.deadline >= self.client.wakes_at

    cdef object pending_for(self, ShortCut cut, list taken, double now):
        cdef object pending = self.pending_type.__new__(self.pending_type)
        cdef int64_t correlation_id = (<int64_t>cut.connection.correlation_id + 1) & 0x7FFFFFFF
        cut.connection.correlation_id = correlation_id
        pending.node = cut.connection.node
        pending.api = self.api
        pending.body = None
        pending.timeout_s = self.timeout_s
        pending.deadline = now + self.timeout_s
        pending.callback = partial(self.answered, taken)
        pending.expects_reply = True
        pending.correlation_id = correlation_id
        pending.version = cut.version
        pending.done = False
        pending.response = None
        pending.error = None
        return pending
