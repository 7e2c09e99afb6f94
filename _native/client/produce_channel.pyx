"""Connections on which Produce requests go out and are acknowledged without Python.

Once a producer's sender has sent to a broker it opens a channel: the ready connection, and what every Produce request on it
begins with. From then on batches are framed and queued, and answers that refuse nothing are read and completed, natively.
Whatever else arrives is left where the connection finds it: other APIs' answers, refusals, frames too large or without
sense.

| channel | means | entered by |
|---|---|---|
| none | requests to the broker go through its Connection, from Python | `ProduceChannels.forget` |
| open | requests go over it, for topics it `knows` | `ProduceChannels.open`, `ProduceChannel.introduce` |
| full | its `out` has more than the socket takes; the client waits for room | `flush`, which lists it in `full` |
| broken | the connection is gone: the client drops it, and the sender forgets all channels | `flush`, `receive`: `broken` |

A channel holds for as long as no connection is lost and the metadata stays as it was when it was opened; the sender
forgets the channels before that can matter. A channel uses its connection's own queues and buffer, in the thread that has
the sender's turn (see sender_loop.pxd); nothing here calls Python code.
"""
cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memmove
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.client.accumulator cimport Accumulator
from bowstring._native.client.socket_io cimport receive_some, send_queue
from bowstring._native.client.producer_batch cimport Batch
from bowstring._native.client.produce_requests cimport (
    LENGTH_BYTES, Acknowledgements, SendCounters, acknowledge, interleave, partitions_by_topic, read_answer)
from bowstring._native.base.wire cimport Reader, read_i32

cdef enum:
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
        self.tls = connection.tls
        self.version = version
        self.head = head
        self.topic_heads = {}

    cpdef bint knows(self, topic):
        """Whether requests can name the topic."""
        return topic in self.topic_heads

    def introduce(self, str topic not None, bytes head not None):
        """Sets how requests name a topic: their bytes up to its partitions."""
        self.topic_heads[topic] = head

    cdef int flush(self, bint keep_gil) except -1:
        """Writes what is queued, as far as the socket takes it."""
        if self.tls is not None:
            return self.tls.send_queue(self.out, keep_gil)
        return send_queue(self.descriptor, self.out, keep_gil)

    cdef Py_ssize_t receive(self, Py_ssize_t at) except -2:
        """Receives into the connection's buffer from `at` on, as receive_some."""
        if self.tls is not None:
            return self.tls.receive_some(self.received, at)
        return receive_some(self.descriptor, self.received, at)

    cdef list pieces(self, int32_t correlation_id, list batches):
        """The buffers of a request with these batches, which are sealed and whose topics the channel has."""
        cdef dict by_topic = partitions_by_topic(batches)
        cdef list topics = [(self.topic_heads[name], parts) for name, parts in by_topic.items()]
        return interleave(self.head, correlation_id, topics, self.version)


cdef class ProduceChannels:
    """The channels of a producer, and what goes over them.

    Attributes:
        by_node: the channel to a broker.

    Args:
        names: topic names by id, of the present metadata.
        timeout_s: in which requests must be answered.
        pending_type, api: Pending and ProduceRequest.
        answered: called by a request's Pending where Python has read the answer, with the batches and the Pending.
    """

    def __init__(self, Accumulator shared not None, SendCounters metrics not None, names, double timeout_s,
                 pending_type, api, answered):
        self.shared, self.metrics, self.names, self.timeout_s = shared, metrics, names, timeout_s
        self.pending_type, self.api, self.answered = pending_type, api, answered
        self.broken, self.full, self.unmentioned = [], [], []
        self.forget()

    def forget(self):
        """Lets go of all channels."""
        self.by_node = {}
        self.by_descriptor = {}

    def open(self, node, ProduceChannel channel not None):
        """Requests to `node` go over this channel from now on."""
        self.by_node[node] = channel
        self.by_descriptor[channel.descriptor] = channel

    def take_broken(self):
        """(connection, error) of those that have been found broken since the last call."""
        found, self.broken = self.broken, []
        return found

    def take_full(self):
        """Connections that have been found full since the last call."""
        found, self.full = self.full, []
        return found

    def take_unmentioned(self):
        """Batches that an answer did not mention, since the last call."""
        found, self.unmentioned = self.unmentioned, []
        return found

    # ------------------------------------------------------------ out

    cdef double queue(self, ProduceChannel channel, list batches, double now) except -1:
        """Puts a request with these batches behind what is to be written; where this fails they have been sealed, and
        nothing else is changed. Runs no Python code and keeps the GIL.

        Returns:
            When it must have been answered.
        """
        self.shared.seal(batches, now)
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
        """Writes what is queued, as far as the sockets take it."""
        cdef ProduceChannel channel
        for channel in self.by_node.values():
            if len(channel.out):
                try:
                    channel.flush(False)
                except OSError as error:
                    self.broken.append((channel.connection, error))
                    continue
                if len(channel.out):
                    self.full.append(channel.connection)
        return 0

    # ------------------------------------------------------------ in

    cdef bint receive(self, ProduceChannel channel) except -1:
        """Takes what has arrived and completes what is acknowledged; False when there is something for the connection."""
        cdef object connection = channel.connection
        cdef int64_t at, received, room
        cdef bint more = True
        if connection.large is not None:
            return False
        at = connection.received_bytes
        room = PyByteArray_GET_SIZE(channel.received)
        while more:
            try:
                received = channel.receive(at)
            except (OSError, EOFError) as error:
                self.broken.append((connection, error))
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
        """Completes the answers among the first `filled` bytes received; how many are left. The channel's `unread` is set
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
            if size < FRAME_BYTES_MIN or filled - at - LENGTH_BYTES < size or not self.complete_answer(
                    channel, at + LENGTH_BYTES, size):
                channel.unread = True
                break
            at += LENGTH_BYTES + size
        if at:
            memmove(received, received + at, filled - at)
        return filled - at

    cdef bint complete_answer(self, ProduceChannel channel, int64_t at, int64_t size) except -1:
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
        if answer.throttle_time_ms > 0:
            channel.connection.throttle(answer.throttle_time_ms)
        self.metrics.answered(now - (<Batch>sent.batches[0]).sent_at)
        self.unmentioned += acknowledge(self.shared, sent.batches, answer, self.names)
        return True
