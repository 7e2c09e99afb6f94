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
    cdef object turn
    cdef Poller poller
    cdef int wake_descriptor
    cdef bint transmitted

    def __init__(self, ProduceChannels channels not None, sender, turn, Poller poller not None, int wake_descriptor):
        self.channels, self.sender, self.turn, self.poller = channels, sender, turn, poller
        self.wake_descriptor = wake_descriptor

    def send_due(self):
        """Sends all that may go; when more will be due."""
        return self.send()

    def run(self, double due, double until):
        """Rounds until there is something else to do. Times are seconds of the monotonic clock.

        Args:
            due: when there is more to send.
            until: when the sender has something to do that is not sending.

        Returns:
            (descriptor, events) of what has happened and is not done with, as NetworkClient.serve takes it.
        """
        cdef Accumulator shared = self.channels.shared
        cdef double now
        cdef int64_t losses = self.channels.client.losses
        cdef list left
        self.channels.renew()
        self.transmitted = False
        while True:
            left = self.receive(self.poller.lend(min(due, until), self.turn))
            now = monotonic_ns() / 1e9
            if left or now >= until or now >= self.poller.alarm or not self.undisturbed(losses):
                return left
            if self.channels.finished:
                self.sender.settle()
            shared.sleeping = True                       # what comes from here on wakes the next round
            due = self.send()
            if self.transmitted or not self.undisturbed(losses):
                return left
            if now >= self.channels.metrics.sample_at:
                self.channels.metrics.sample(now)

    cdef bint undisturbed(self, int64_t losses) except -1:
        """Whether there is nothing that ends the rounds."""
        return (len(self.channels.by_node) > 0 and <int64_t>self.channels.client.losses == losses
                and not self.channels.cluster.stale and not self.sender.closing and self.channels.identified())

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
        cdef object client = channels.client
        cdef double due = NEVER
        cdef int64_t losses
        cdef bint corked = False
        channels.renew()
        losses = client.losses
        try:
            if channels.shared.active:
                due = self.queue_all(&corked)
        finally:
            if corked:
                client.uncork()
            channels.flush()
        # Writing may have found a connection broken: then what it carried is due again, at its time.
        return due if <int64_t>client.losses == losses else 0.0

    cdef double queue_all(self, bint *corked) except? -1:
        """Queues all that may go; when more will be due."""
        cdef ProduceChannels channels = self.channels
        cdef ProduceChannel channel
        cdef double now, due_s, deadline
        cdef bint hurry = self.sender.flushes > 0 or self.sender.closing or self.sender.memory_short
        cdef dict requests
        while True:
            now = monotonic_ns() / 1e9
            requests, due_s = collect(channels.shared, channels.cluster, channels.client, channels.in_flight,
                                      channels.settings, now, hurry)
            if not requests:
                return now + due_s
            for node, taken in requests.items():
                channel = channels.by_node.get(node)
                if channel is not None:
                    self.introduce(channel, taken)
                    deadline = channels.queue(channel, taken, monotonic_ns() / 1e9)
                    self.poller.alarm = min(self.poller.alarm, deadline)
                    continue
                if not corked[0]:
                    corked[0] = True                     # requests gather, to be written with few system calls
                    channels.client.cork()
                self.transmitted = True
                self.sender.transmit(node, taken)

    cdef int introduce(self, ProduceChannel channel, list batches) except -1:
        """Tells the channel how requests name the topics of these batches."""
        cdef Batch batch
        cdef object topic
        for batch in batches:
            topic = batch.partition[0]
            if not channel.knows(topic):
                channel.topic_heads[topic] = self.sender.topic_head(topic, channel.version)
        return 0
