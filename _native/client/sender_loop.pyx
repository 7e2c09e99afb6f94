"""A producer's loop: sleep, complete what was acknowledged, send what may go.

It calls no method of Sender, NetworkClient or Cluster; callers' callbacks are the only Python code that it runs.

A producer of small batches goes round ten thousand times a second, in which the interpreter would take half of the time
that its callers and the sender share. What is rare ends the loop, which returns an Event; the sender's thread deals with
it (bowstring.clients.producer.sender) and comes back.

With linger 0 a caller whose record opens a batch takes the turn, if the sender sleeps, and goes the same way with this
one batch (`send_now`): it need not wake the sender, unless something is in the way: a retry, a full socket, too many
requests in flight, no channel. It runs no Python code and keeps the GIL. So signal handlers and finalizers, which may flush
or close the producer or be left by an exception, never find it half done, and nobody else finds the garbage collector
switched off.
"""
from libc.stdint cimport int64_t, uint32_t
from posix.unistd cimport read
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.client.accumulator cimport Accumulator, PartitionQueue
from bowstring._native.client.produce_channel cimport ProduceChannel, ProduceChannels
from bowstring._native.client.producer_batch cimport Batch
from bowstring._native.client.socket_io cimport Poller

import select
import threading

cdef extern from "Python.h":
    int PyGC_Disable()
    int PyGC_Enable()

cdef uint32_t READABLE = select.EPOLLIN
cdef double NEVER = float("inf")
cdef dict NO_OTHERS = {}

cdef enum:
    WAKE_UPS_MAX = 4096


cdef class SenderLoop:
    """The loop of one producer's sender.

    Attributes:
        turn: a lock that the sender's thread holds but while it sleeps in `run`.
        due: when there is more to send, in seconds of the monotonic clock.
        sent_by_callers: batches that callers have sent themselves.

    Args:
        settings: a ProducerSettings.
        wake_descriptor: readable after a wake-up; not blocking.
    """

    def __init__(self, ProduceChannels channels not None, settings, Poller poller not None, int wake_descriptor):
        self.channels, self.shared, self.poller = channels, channels.shared, poller
        self.wake_descriptor = wake_descriptor
        self.linger_s, self.in_flight_max = settings.linger_s, settings.in_flight_max
        self.turn = threading.Lock()
        self.due = NEVER
        self.found, self.unplaced, self.unreached, self.unjoined = [], [], [], []

    # ------------------------------------------------------------ asleep, in a round

    def run(self, double due, double until):
        """Goes round until there is something for Python; the turn is lent while this sleeps.

        Args:
            due: when there is more to send.
            until: when the sender has something to do that is not sending; seconds of the monotonic clock.

        Returns:
            Why it ends, an Event.
        """
        cdef int event = self.left_over()
        cdef double now
        self.due = due
        while event == NOTHING:
            self.receive(self.poller.lend(min(self.due, until), self.turn))
            now = monotonic_ns() / 1e9
            event = self.outside(now, until)
            if event != NOTHING:
                break
            if self.shared.completed:
                self.room = self.shared.publish() or self.room
            self.shared.listen()
            self.send_due(NO_OTHERS)
            event = self.left_over()
            if event == NOTHING and self.unreached:
                event = UNREACHED
            if event == NOTHING and self.unjoined:
                event = UNJOINED
            if event == NOTHING and self.shared.halted:  # by a callback
                event = CALLED
            if event == NOTHING and now >= self.channels.metrics.sample_at:
                event = TIME
        return event

    cdef int left_over(self) except -1:
        """What sending has left for Python. Nobody need sleep before it is dealt with."""
        if self.channels.broken:
            return BROKEN
        if self.channels.unmentioned:
            return UNMENTIONED
        if self.channels.full:
            return FULL
        if self.unplaced:
            return UNPLACED
        if self.room:
            self.room = False
            return ROOM
        if self.shared.asked:
            return CALLED
        return NOTHING

    cdef int outside(self, double now, double until) except -1:
        """What has happened, while this slept, that is Python's to deal with."""
        if self.channels.broken:
            return BROKEN
        if self.channels.unmentioned:
            return UNMENTIONED
        if self.found:
            return SOCKETS
        if now >= until or now >= self.poller.alarm:
            return TIME
        if self.shared.asked or self.shared.halted:
            return CALLED
        if not self.channels.by_node or not self.shared.identified():
            return UNREADY
        return NOTHING

    def take_found(self):
        """(descriptor, events) of what has happened and is not dealt with, as NetworkClient.serve takes it."""
        found, self.found = self.found, []
        return found

    def take_unplaced(self):
        """Queues with something due whose leader must be looked up, or whose topic their channel lacks."""
        found, self.unplaced = self.unplaced, []
        return found

    def take_unreached(self):
        """Queues with something due that has nowhere to go: no leader, or one that `send` was not given."""
        found, self.unreached = self.unreached, []
        return found

    def take_unjoined(self):
        """Queues with something due whose partitions must be added to the transaction first. Each is named once for each
        transaction."""
        found, self.unjoined = self.unjoined, []
        return found

    cdef int receive(self, list found) except -1:
        """Completes what was acknowledged; keeps the events that something else is left of."""
        cdef ProduceChannel channel
        cdef char wake_ups[WAKE_UPS_MAX]
        for event in found:
            if event[0] == self.wake_descriptor:
                while read(self.wake_descriptor, wake_ups, WAKE_UPS_MAX) == WAKE_UPS_MAX:
                    pass
                continue
            channel = self.channels.by_descriptor.get(event[0])
            if channel is None or event[1] != READABLE or not self.channels.receive(channel):
                self.found.append(event)
        return 0

    # ------------------------------------------------------------ sending

    def send(self, dict others not None):
        """Sends all that may go; `due` is then when there will be more.

        Args:
            others: requests in flight to brokers that there is no channel to and that requests may go to.

        Returns:
            Batches for these, by broker: in flight from now on, and for the caller to send.
        """
        return self.send_due(others)

    cdef dict send_due(self, dict others):
        """See `send`."""
        cdef NodeLoad load
        cdef double now
        cdef list loads
        cdef dict rest = {}
        self.due = NEVER
        if self.unplaced or self.unreached:
            self.unplaced, self.unreached = [], []
        try:
            while self.shared.active:
                now = monotonic_ns() / 1e9
                loads = self.collect(now, others)
                if not loads:
                    break
                for load in loads:
                    if load.channel is not None:
                        self.queue(load.channel, load.taken)
                    else:
                        rest[load.node] = load.taken
                        others[load.node] = self.in_flight_max   # until the caller has sent these
        finally:
            self.channels.flush()
        return rest

    cdef NodeLoad load_of(self, dict loads, object node, dict others):
        cdef NodeLoad load = loads.get(node)
        if load is None:
            load = NodeLoad.__new__(NodeLoad)
            load.node = node
            load.channel = self.channels.by_node.get(node)
            load.taken = []
            if load.channel is not None:
                load.reachable = True
                load.in_flight = len(load.channel.in_flight)
            else:
                count = others.get(node)
                load.reachable = count is not None
                load.in_flight = 0 if count is None else count
            loads[node] = load
        return load

    cdef list collect(self, double now, dict others):
        """Takes a batch of each partition that has one to be sent, by leader."""
        cdef Accumulator shared = self.shared
        cdef PartitionQueue queue
        cdef NodeLoad load = None
        cdef double due_s, wait_s = NEVER
        cdef bint hurry = shared.in_hurry()
        cdef int64_t version = shared.metadata_version, size
        cdef dict loads = {}
        if self.unplaced or self.unreached:
            self.unplaced, self.unreached = [], []
        for queue in list(shared.active):
            due_s = queue.due_in_s(now, self.linger_s, shared.batch_bytes, hurry)
            if due_s > 0:
                wait_s = min(wait_s, due_s)
                continue
            if shared.adds_partitions and queue.joined != shared.transaction:
                if queue.joining != shared.transaction:
                    queue.begin_join(shared.transaction)
                    self.unjoined.append(queue)
                continue
            if queue.leader_version != version:
                self.unplaced.append(queue)
                continue
            if queue.leader is None:
                self.unreached.append(queue)
                continue
            if shared.idempotent and queue.in_flight and queue.sent_to is not queue.leader and queue.sent_to != queue.leader:
                continue                                 # the broker that led before answers first
            if load is None or load.node is not queue.leader:
                load = self.load_of(loads, queue.leader, others)
            if not load.reachable:
                self.unreached.append(queue)
                continue
            if load.in_flight >= self.in_flight_max:
                continue                                 # an answer will come first
            if load.channel is not None and not load.channel.knows(queue.partition[0]):
                self.unplaced.append(queue)
                continue
            size = (<Batch>queue.waiting[0]).size_bytes
            if load.size_bytes and load.size_bytes + size > shared.request_bytes:
                continue                                 # it is in the next request
            load.taken.append(shared.take(queue))
            load.size_bytes += size
            # What was passed over comes first in the next request.
            shared.pass_over(queue)
        self.due = now + wait_s
        return [load for load in loads.values() if load.taken]

    cdef double queue(self, ProduceChannel channel, list batches) except -1:
        """Puts a request behind what is to be written; when it must have been answered."""
        cdef double deadline = self.channels.queue(channel, batches, monotonic_ns() / 1e9)
        self.poller.alarm = min(self.poller.alarm, deadline)
        return deadline

    # ------------------------------------------------------------ lent to a caller

    @property
    def asleep(self):
        """Whether the turn is free: the sender's thread sleeps, or has ended."""
        return not self.turn.locked()

    cdef int send_now(self, PartitionQueue queue) except -1:
        """Sends the queue's batch in the thread that calls, or wakes the sender."""
        cdef bint sent = False
        cdef int collecting
        if self.turn.acquire(False):
            collecting = PyGC_Disable()
            try:
                sent = self.send_alone(queue)
            finally:
                self.turn.release()
                if collecting:
                    PyGC_Enable()
        if not sent:
            self.shared.wake()
        return 0

    cdef ProduceChannel channel_of(self, PartitionQueue queue):
        """The channel for the queue's only batch; None when there is none, or something is in the way."""
        cdef Accumulator shared = self.shared
        cdef ProduceChannel channel
        if queue.leader is None or queue.leader_version != shared.metadata_version or not shared.identified():
            return None
        if shared.adds_partitions and queue.joined != shared.transaction:
            return None
        channel = self.channels.by_node.get(queue.leader)
        if channel is None or shared.halted or len(queue.waiting) != 1 or not channel.knows(queue.partition[0]):
            return None
        if len(channel.in_flight) >= self.in_flight_max or len(channel.out) > 0:
            return None
        if queue.due_in_s(0.0, 0.0, 0, True) != 0.0 or (<Batch>queue.waiting[0]).attempts != 0:
            return None
        if queue.in_flight and queue.sent_to != queue.leader:
            return None
        return channel

    cdef bint send_alone(self, PartitionQueue queue) except -1:
        """False when there is something for the sender to do."""
        cdef ProduceChannel channel = self.channel_of(queue)
        cdef Batch batch
        cdef double deadline
        if channel is None:
            return False
        batch = self.shared.take(queue)
        try:
            deadline = self.queue(channel, [batch])
        except Exception:                                # most likely no memory; the sender will report it
            batch.attempts = 0
            self.shared.put_back(queue, batch)
            return False
        self.sent_by_callers += 1
        try:
            channel.flush(True)
        except Exception:
            return False                                 # the sender finds what is left, tries it, and sees why
        return len(channel.out) == 0 and deadline >= self.poller.wakes_at
