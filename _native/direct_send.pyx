"""Sending from the thread that calls: a record with linger 0 goes out without the sender's thread being woken.

A caller whose record opens a batch sends it over the leader's channel (produce_channel.pyx) if the sender sleeps, which lends
its turn meanwhile, and if nothing is in the way: a retry, a full socket, too many requests in flight, no channel. Otherwise
it wakes the sender, which does everything as ever.

None of this runs Python code or lets the GIL go. So signal handlers and finalizers, which may flush or close the producer
or be left by an exception, never find it half done, and nobody else finds the garbage collector switched off.
"""
from libc.stdint cimport int64_t
from bowstring._native.accumulator cimport Accumulator, Lane
from bowstring._native.clock cimport monotonic_ns
from bowstring._native.gil_turns cimport Poller, send_queue
from bowstring._native.produce_batch cimport Batch
from bowstring._native.produce_channel cimport ProduceChannel, ProduceChannels

cdef extern from "Python.h":
    int PyGC_Disable()
    int PyGC_Enable()


cdef class DirectSender:
    """Sends for a producer's callers.

    Attributes:
        sent: batches that callers have sent themselves.

    Args:
        turn: the lock that the sender holds but while it sleeps, at `poller`.
    """
    cdef ProduceChannels channels
    cdef object turn
    cdef Poller poller
    cdef int64_t in_flight_max
    cdef readonly int64_t sent

    def __init__(self, ProduceChannels channels not None, turn, Poller poller not None):
        self.channels, self.turn, self.poller = channels, turn, poller
        self.in_flight_max = channels.settings.in_flight_max

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
            self.channels.shared.wake()

    cdef bint may_go(self, Lane lane, ProduceChannel channel):
        if channel is None or self.channels.shared.halted or len(lane.waiting) != 1:
            return False
        if len(channel.in_flight) >= self.in_flight_max or len(channel.out) > 0:
            return False
        return lane.due_in_s(0.0, 0.0, 0, True) == 0.0 and (<Batch>lane.waiting[0]).attempts == 0

    cdef bint send(self, Lane lane) except -1:
        """False when there is something for the sender to do."""
        cdef ProduceChannel channel = self.channels.of_lane(lane)
        cdef Accumulator shared = self.channels.shared
        cdef Batch batch
        cdef double deadline
        if not self.may_go(lane, channel):
            return False
        batch = shared.take(lane)
        try:
            deadline = self.channels.queue(channel, [batch], monotonic_ns() / 1e9)
        except Exception:                                # most likely no memory; the sender will tell
            batch.attempts = 0
            shared.put_back(lane, batch)
            return False
        self.sent += 1
        self.poller.alarm = min(self.poller.alarm, deadline)
        try:
            send_queue(channel.descriptor, channel.out, True)
        except Exception:
            return False                                 # the sender finds what is left, tries it, and sees why
        return len(channel.out) == 0 and deadline >= self.poller.wakes_at
