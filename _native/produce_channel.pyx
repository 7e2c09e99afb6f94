"""Connections on which Produce requests go out and are acknowledged without Python.

Once a producer's sender has sent to a broker it opens a channel: the ready connection, and what every Produce request on it
begins with. From then on batches are framed and queued, and answers that refuse nothing are read and settled, natively;
by the sender in rounds (sender_rounds.pyx) or by a caller (direct_send.pyx). Whatever else arrives is left where
the connection finds it: other APIs' answers, refusals, frames too large or without sense.

A channel holds for as long as no connection is lost and the metadata stays as it was when it was opened: `renew` sees to
that, and comes before every use.
"""
cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memmove
from bowstring._native.accumulator cimport Accumulator, Lane
from bowstring._native.clock cimport monotonic_ns
from bowstring._native.gil_turns cimport receive_some, send_queue
from bowstring._native.produce_batch cimport Batch
from bowstring._native.produce_rounds cimport (
    Acknowledgements, SendCounters, acknowledge, interleave, partitions_by_topic, read_answer, seal_all)
from bowstring._native.wire cimport Reader, read_i32

cdef enum:
    LENGTH_BYTES = 4
    FRAME_BYTES_MIN = 4                                  # the correlation id


@cython.final
cdef class SentBatches:
    """What an answer to Produce leads to, as a Pending's callback: `answered(batches, pending)`."""

    def __init__(self, list batches not None, answered):
        self.batches = batches
        self.answered = answered

    def __call__(self, pending):
        self.answered(self.batches, pending)


cdef class ProduceChannel:
    """A connection that is ready, and how Produce requests are written for it.

    Args:
        connection: a Connection.
        version: of the requests.
        head: their bytes up to their topics.
    """

    def __init__(self, connection, int version, bytes head not None):
        self.connection = connection
        self.in_flight = connection.in_flight
        self.out = connection.out
        self.received = connection.received
        self.descriptor = connection.socket.fileno()
        self.version = version
        self.head = head
        self.topic_heads = {}

    cdef bint knows(self, topic):
        """Whether requests can name the topic."""
        return topic in self.topic_heads

    cdef list pieces(self, int32_t correlation_id, list batches):
        """The buffers of a request with these batches, which are sealed and whose topics the channel knows."""
        cdef dict by_topic = partitions_by_topic(batches)
        cdef list topics = [(self.topic_heads[name], parts) for name, parts in by_topic.items()]
        return interleave(self.head, correlation_id, topics, self.version)


cdef class ProduceChannels:
    """The channels of a producer, and what goes over them.

    Attributes:
        by_node: the channel to a broker.
        producer: (id, epoch) to seal batches with.
        finished: outcomes that are not published yet, as `produce_rounds.publish` takes them.

    Args:
        client, settings, metrics, cluster: a NetworkClient, ProducerSettings, ProducerMetrics, Cluster.
        pending_type, api: Pending and ProduceRequest.
        answered: called with batches and their Pending where Python has to look at the answer.
        unmentioned: called with a batch that the answer does not mention.
    """

    def __init__(self, Accumulator shared not None, client, settings, SendCounters metrics not None, cluster,
                 pending_type, api, answered, unmentioned):
        self.shared, self.client, self.settings, self.metrics = shared, client, settings, metrics
        self.cluster, self.pending_type, self.api = cluster, pending_type, api
        self.answered, self.unmentioned = answered, unmentioned
        self.timeout_s = settings.request_timeout_s
        self.producer = (-1, -1)
        self.finished = []
        self.forget()

    def forget(self):
        """Lets go of all channels."""
        self.by_node = {}
        self.by_descriptor = {}
        self.in_flight = {}

    cdef int renew(self) except -1:
        """Forgets the channels if what they rely on has changed."""
        cdef int64_t losses = self.client.losses, version = self.cluster.version
        if losses != self.losses or version != self.version:
            self.losses = losses
            self.version = version
            self.forget()
        return 0

    def open(self, node, ProduceChannel channel not None):
        """Requests to `node` go over this channel from now on."""
        self.by_node[node] = channel
        self.by_descriptor[channel.descriptor] = channel
        self.in_flight[node] = channel.in_flight

    cdef bint identified(self) except -1:
        """Whether batches can be numbered, if they are to be (KIP-98)."""
        return <int64_t>self.producer[0] >= 0 or not self.settings.idempotent

    cdef ProduceChannel of_lane(self, Lane lane):
        """The channel for a lane's next batch, None when there is none or the producer has no identity yet."""
        cdef ProduceChannel channel
        self.renew()
        if lane.leader is None or lane.leader_version != self.version or not self.identified():
            return None
        channel = self.by_node.get(lane.leader)
        return channel if channel is not None and channel.knows(lane.partition[0]) else None

    # ------------------------------------------------------------ out

    cdef double queue(self, ProduceChannel channel, list batches, double now) except -1:
        """Puts a request with these batches behind what is to be written; where this fails they have been sealed, and
        nothing else is changed. Runs no Python code and keeps the GIL.

        Returns:
            When it must have been answered.
        """
        seal_all(self.shared, batches, now, self.settings, self.producer)
        cdef object pending = self.pending_for(channel, batches, now)
        cdef list pieces = channel.pieces(pending.correlation_id, batches)
        cdef Py_ssize_t before = len(channel.out)
        try:
            channel.out.extend(pieces)
            channel.in_flight.append(pending)
        except MemoryError:
            while len(channel.out) > before:
                channel.out.pop()
            raise
        self.metrics.sent(batches, now)
        return now + self.timeout_s

    cdef object pending_for(self, ProduceChannel channel, list batches, double now):
        cdef object pending = self.pending_type.__new__(self.pending_type)
        cdef int64_t correlation_id = (<int64_t>channel.connection.correlation_id + 1) & 0x7FFFFFFF
        channel.connection.correlation_id = correlation_id
        channel.connection.last_used = now
        pending.node = channel.connection.node
        pending.api = self.api
        pending.body = None
        pending.timeout_s = self.timeout_s
        pending.deadline = now + self.timeout_s
        pending.callback = SentBatches(batches, self.answered)
        pending.expects_reply = True
        pending.correlation_id = correlation_id
        pending.version = channel.version
        pending.done = False
        pending.response = None
        pending.error = None
        return pending

    cdef int flush(self) except -1:
        """Writes what is queued, as far as the sockets take it; the client waits for room for the rest."""
        cdef ProduceChannel channel
        for channel in list(self.by_node.values()):
            if len(channel.out):
                try:
                    send_queue(channel.descriptor, channel.out, False)
                except OSError as error:
                    self.client.lost(channel.connection, error)
                    continue
                if len(channel.out):
                    self.client.watch(channel.connection)
        return 0

    # ------------------------------------------------------------ in

    cdef bint receive(self, ProduceChannel channel) except -1:
        """Takes what has arrived and settles what is acknowledged; False when there is something for the connection."""
        cdef object connection = channel.connection
        cdef int64_t at, received, room
        cdef bint more = True
        if connection.large is not None:
            return False
        at = connection.received_bytes
        room = PyByteArray_GET_SIZE(channel.received)
        while more:
            try:
                received = receive_some(channel.descriptor, channel.received, at)
            except (OSError, EOFError) as error:
                self.client.lost(connection, error)
                return True
            if received < 0:
                break
            at += received
            more = at == room
            connection.received_bytes = at
            at = self.cut(channel, at)
            connection.received_bytes = at
            if channel.unread:
                return False
        return True

    cdef int64_t cut(self, ProduceChannel channel, int64_t filled) except -1:
        """Settles the answers among the first `filled` bytes received; how many are left. The channel's `unread` is set
        where they may be more than the beginning of another acknowledgement."""
        cdef char *received = PyByteArray_AS_STRING(channel.received)
        cdef Reader r
        cdef int64_t at = 0, size
        channel.unread = False
        while filled - at >= LENGTH_BYTES:
            r.at = <const uint8_t *>received + at
            r.end = r.at + LENGTH_BYTES
            r.bad = False
            size = read_i32(&r)
            if FRAME_BYTES_MIN <= size <= channel.connection.frame_bytes_max and filled - at - LENGTH_BYTES < size:
                break                                    # the rest is on its way
            if size < FRAME_BYTES_MIN or filled - at - LENGTH_BYTES < size or not self.settle_answer(
                    channel, at + LENGTH_BYTES, size):
                channel.unread = True
                break
            at += LENGTH_BYTES + size
        if at:
            memmove(received, received + at, filled - at)
        return filled - at

    cdef bint settle_answer(self, ProduceChannel channel, int64_t at, int64_t size) except -1:
        """Whether the frame is an acknowledgement of the request that is next in line."""
        cdef Reader r
        cdef Acknowledgements answer
        cdef SentBatches sent
        cdef double now
        cdef object callback, pending = channel.in_flight[0] if channel.in_flight else None
        if pending is None:
            return False
        callback = pending.callback
        if not isinstance(callback, SentBatches):
            return False
        sent = <SentBatches>callback
        r.at = <const uint8_t *>PyByteArray_AS_STRING(channel.received) + at
        r.end = r.at + size
        r.bad = False
        if read_i32(&r) != <int64_t>pending.correlation_id:
            return False
        r.at -= FRAME_BYTES_MIN
        answer = read_answer(&r, pending.version)
        if answer is None:
            return False
        channel.in_flight.popleft()
        pending.done = True
        now = monotonic_ns() / 1e9
        self.metrics.answered(now - (<Batch>sent.batches[0]).sent_at)
        for batch in acknowledge(self.shared, sent.batches, answer, self.cluster.names, self.finished):
            self.unmentioned(batch)
        return True
