"""The sender's rounds while there is nothing but batches to send and acknowledgements to settle.

A round sleeps, settles what was acknowledged and sends what may go: a producer of small batches makes ten thousand a second,
in which the interpreter would take half of the time that its callers and the sender share. What is rare ends the
rounds, and is bowstring.clients.sender's: connections, metadata, identities, refusals, deadlines, closing.
"""
from libc.stdint cimport int64_t, uint32_t
from posix.unistd cimport read
from bowstring._native.accumulator cimport Accumulator
from bowstring._native.clock cimport monotonic_ns
from bowstring._native.gil_turns cimport Poller
from bowstring._native.produce_batch cimport Batch
from bowstring._native.produce_channel cimport ProduceChannel, ProduceChannels
from bowstring._native.produce_rounds cimport collect

import select

cdef uint32_t READABLE = select.EPOLLIN
cdef double NEVER = float("inf")

cdef enum:
    WAKE_UPS_MAX = 4096


cdef class SenderRounds:
    """Rounds of one producer's sender.

    Args:
        sender: a Sender, whose `flushes`, `memory_short` and `closing` it reads, and whose `transmit` sends
            where there is no channel, `topic_head` says how requests of a version name a topic and `settle`
            publishes outcomes.
        turn: lent to callers while the rounds sleep.
        wake_descriptor: readable after a wake-up; not blocking.
    """
    cdef ProduceChannels channels
    cdef object sender
    cdef object client
    cdef object cluster
    cdef object turn
    cdef Poller poller
    cdef int wake_descriptor
    cdef bint transmitted

    def __init__(self, ProduceChannels channels not None, sender, cluster, turn, Poller poller not None,
                 int wake_descriptor):
        self.channels, self.client = channels, channels.client
        self.sender, self.cluster, self.turn, self.poller = sender, cluster, turn, poller
        self.wake_descriptor = wake_descriptor

    def send_due(self):
        """Sends all that may go; seconds until more will be due."""
        return self.send()

    def run(self, double due_s, double limit_s):
        """Rounds until there is something else to do, or `limit_s` is over.

        Args:
            due_s: until there is more to send.
            limit_s: until the sender has something to do that is not sending.

        Returns:
            (descriptor, events) of what has happened and is not done with, as NetworkClient.serve takes it.
        """
        cdef Accumulator shared = self.channels.shared
        cdef double now = monotonic_ns() / 1e9
        # No batch that is made from now on can be late before that.
        cdef double until = now + min(limit_s, <double>self.channels.settings.delivery_timeout_s)
        cdef int64_t losses = self.client.losses
        cdef list left
        self.transmitted = False
        while True:
            left = self.receive(self.poller.lend(min(due_s, until - now), self.turn))
            now = monotonic_ns() / 1e9
            if left or now >= until or now >= self.poller.alarm or not self.undisturbed(losses):
                return left
            if self.channels.finished:
                self.sender.settle()
            shared.sleeping = True                       # what comes from here on wakes the next round
            due_s = self.send() if shared.active else NEVER
            if self.transmitted or not self.undisturbed(losses):
                return left
            if now >= self.channels.metrics.sample_at:
                self.channels.metrics.sample(now)

    cdef bint undisturbed(self, int64_t losses) except -1:
        """Whether channels still hold, nobody closes the producer, and the sockets take what is written."""
        cdef ProduceChannel channel
        if <int64_t>self.client.losses != losses or self.cluster.stale or self.sender.closing:
            return False
        for channel in self.channels.by_node.values():
            if len(channel.out):
                return False
        return len(self.channels.by_node) > 0

    cdef list receive(self, list found):
        """Settles what was acknowledged; the events that something else is left of."""
        cdef ProduceChannel channel
        cdef char wake_ups[WAKE_UPS_MAX]
        cdef list left = []
        for event in found:
            if event[0] == self.wake_descriptor:
                while read(self.wake_descriptor, wake_ups, WAKE_UPS_MAX) == WAKE_UPS_MAX:
                    pass
                continue
            channel = self.channels.by_descriptor.get(event[0])
            if channel is None or event[1] != READABLE or not self.channels.receive(channel):
                left.append(event)
        return left

    cdef double send(self) except? -1:
        cdef ProduceChannels channels = self.channels
        cdef ProduceChannel channel
        cdef double now = monotonic_ns() / 1e9, due_s, deadline
        cdef int64_t losses = self.client.losses
        cdef bint corked = False, hurry
        cdef dict requests
        hurry = self.sender.flushes > 0 or self.sender.closing or self.sender.memory_short
        try:
            while True:
                requests, due_s = collect(
                    channels.shared, self.cluster, self.client, channels.in_flight, channels.settings, now, hurry)
                if not requests:
                    break
                for node, taken in requests.items():
                    channel = channels.by_node.get(node)
                    if channel is not None:
                        self.introduce(channel, taken)
                        deadline = channels.queue(channel, taken, now)
                        self.poller.alarm = min(self.poller.alarm, deadline)
                        continue
                    if not corked:
                        corked = True                    # requests gather, to be written with few system calls
                        self.client.cork()
                    self.transmitted = True
                    self.sender.transmit(node, taken)
        finally:
            if corked:
                self.client.uncork()
            channels.flush()
        # Writing may have found a connection broken: then what it carried is due again, at its time.
        return due_s if <int64_t>self.client.losses == losses else 0.0

    cdef int introduce(self, ProduceChannel channel, list batches) except -1:
        """Tells the channel how requests name the topics of these batches."""
        cdef Batch batch
        cdef object topic
        for batch in batches:
            topic = batch.partition[0]
            if not channel.knows(topic):
                channel.topic_heads[topic] = self.sender.topic_head(topic, channel.version)
        return 0
