"""What `Producer.send` does for each record, in one native call: partition, room, append, future.

See accumulator.pxd for who owns what. Everything that is slow or rare (a topic looked up, room waited for, a
partitioner of the caller's own) is a method of the Producer, called without anything half done.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memset
from posix.unistd cimport write
from bowstring._native.clock cimport wall_clock_ms
from bowstring._native.encode cimport APPEND_FULL, APPENDED, AppendResult, batch_writer_append
from bowstring._native.gil_turns cimport give_turn, turn_wanted
from bowstring._native.partition_choice cimport (
    NULL_RANDOM, NULL_ROUND_ROBIN, Chooser, chooser_by_key, chooser_keyed, chooser_random)
from bowstring._native.produce_batch cimport Batch, RecordFuture, produce_memory_take

import os
from collections import deque

from bowstring._native.encode import encode_headers

cdef enum:
    # Room a record takes besides key, value and headers, near enough for deciding when a buffer is full.
    RECORD_OVERHEAD_BYTES = 24

cdef double NEVER = float("inf")

# ---------------------------------------------------------------- lanes and routes


cdef class Lane:
    """The batches of one partition, oldest first, and its producer state.

    While a batch is sent again nothing newer is sent beside it, so that order survives retries.
    """

    def __cinit__(self, partition):
        self.partition = partition
        self.waiting = deque()
        self.in_flight = deque()
        self.order = 0
        self.producer = (-1, -1)
        self.leader_version = -1

    cpdef double due_in_s(self, double now, double linger_s, int64_t batch_bytes, bint hurry):
        """Seconds until the first waiting batch may go; infinite when an answer has to come before."""
        cdef Batch first = self.waiting[0], other
        if self.in_flight:
            if first.attempts or self.epoch_bump:
                return NEVER
            for other in self.in_flight:
                if other.attempts > 1:
                    return NEVER
        if first.attempts:
            return max(0.0, first.retry_at - now)
        if hurry or len(self.waiting) > 1 or first.encoded is not None or first.size_bytes >= batch_bytes:
            return 0.0
        return max(0.0, first.created_at + linger_s - now)

    cpdef int32_t sequence(self, Batch batch, tuple producer):
        """The sequence number for a batch about to be sent; its identity is `batch.producer` if the batch has been
        numbered before, else the lane's.

        After a gap all that is left starts again in the next epoch (KIP-360).
        """
        cdef Batch other
        cdef int32_t base_sequence
        if self.epoch_bump:                              # due_in_s has seen to it that `batch` is alone
            self.producer = (self.producer[0], self.producer[1] + 1)
            self.next_sequence = 0
            self.epoch_bump = False
            batch.base_sequence = -1
            for other in self.waiting:
                other.base_sequence = -1
        if self.producer[0] != producer[0]:
            self.producer = producer
            self.next_sequence = 0
        if batch.base_sequence >= 0:
            return batch.base_sequence
        base_sequence = self.next_sequence
        self.next_sequence = <int32_t>((<int64_t>base_sequence + batch.writer.count) & INT32_MAX)
        return base_sequence


cdef class TopicRoute:
    """Where records of a topic go, by one version of its metadata."""

    cdef void rechoose(self):
        """Draws the partition for the next records without a key: the shorter its queue, the likelier (KIP-794)."""
        cdef Lane lane
        cdef int64_t longest = 0, total = 0, at
        cdef list weights = []
        cdef int32_t number
        cdef int i = 0
        for i in range(len(self.available)):
            number = self.available[i]
            lane = self.lanes[number]
            at = 0 if lane is None else len(lane.waiting)
            longest = max(longest, at)
            weights.append(at)
        for i in range(len(weights)):
            weights[i] = longest + 1 - <int64_t>weights[i]
            total += <int64_t>weights[i]
        at = <int64_t>(chooser_random(&self.chooser) % <unsigned long long>total)
        for i in range(len(weights)):
            at -= <int64_t>weights[i]
            if at < 0:
                break
        self.chooser.sticky = self.available[i]
        self.chooser.sticky_left = self.chooser.sticky_bytes

    cdef void choose_any(self, int64_t piece_bytes):
        """The same, for a piece of many records."""
        self.rechoose()
        self.chooser.sticky_left = piece_bytes

# ---------------------------------------------------------------- what callers and the sender share


cdef class Accumulator:
    """Open and waiting batches by partition, and how much memory they hold.

    `settings` has batch_bytes, request_bytes, buffer_memory, sticky_bytes, delivery_timeout_s, key_rule, null_rule,
    empty_is_null and partitioner (a function (key, partitions, available) → partition, or None).
    """

    def __cinit__(self, lane_type, batch_type, settings):
        self.lanes = {}
        self.active = {}
        self.unfinished = set()
        self.routes = {}
        self.lane_type = lane_type
        self.batch_type = batch_type
        self.partitioner = settings.partitioner
        self.delivery_timeout_s = settings.delivery_timeout_s
        self.batch_bytes = settings.batch_bytes
        self.request_bytes = settings.request_bytes
        self.buffer_memory = settings.buffer_memory
        self.wake_descriptor = -1
        memset(&self.rule, 0, sizeof(Chooser))
        self.rule.key_rule = settings.key_rule
        self.rule.null_rule = settings.null_rule
        self.rule.empty_is_null = settings.empty_is_null
        self.rule.sticky_bytes = max(1, settings.sticky_bytes)

    cpdef void wake(self):
        """Makes the sender look again, if it sleeps or is about to."""
        if self.sleeping:
            self.sleeping = False
            if self.wake_descriptor >= 0:
                # A full pipe means that a wake-up is on its way already.
                if write(self.wake_descriptor, b"\0", 1) < 0:
                    return

    def route(self, str topic not None, int64_t version, int32_t partitions, list available not None):
        """Notes what metadata of `version` says of a topic, for the sends that follow."""
        cdef TopicRoute before = self.routes.get(topic)
        cdef TopicRoute made = TopicRoute.__new__(TopicRoute)
        made.topic = topic
        made.version = version
        made.available = available
        made.lanes = [None] * partitions
        if before is not None:
            made.lanes[: len(before.lanes)] = before.lanes[:partitions]
            made.chooser = before.chooser
        else:
            made.chooser = self.rule
            made.chooser.random = int.from_bytes(os.urandom(8), "little") | 1
            made.chooser.sticky = -1
        if made.chooser.sticky not in available:
            made.chooser.sticky_left = 0
        made.chooser.partitions = partitions
        self.routes[topic] = made
        self.last_topic = topic
        self.last_route = made
        return made

    cdef Lane lane_of(self, TopicRoute route, int32_t number):
        """The lane of a partition that metadata knows."""
        if not 0 <= number < len(route.lanes):
            raise IndexError(number)
        if route.lanes[number] is None:
            route.lanes[number] = self.lane(route.topic, number)
        return route.lanes[number]

    def partition_count(self, topic):
        """Partitions of a topic by current metadata; -1 when it has to be looked up."""
        cdef TopicRoute route = self.routes.get(topic)
        if self.halted or route is None or route.version != self.metadata_version:
            return -1
        return len(route.lanes)

    def lane(self, str topic not None, int number):
        """The lane of a partition, made when there is none."""
        partition = (topic, number)
        found = self.lanes.get(partition)
        if found is None:
            made = self.lane_type(topic, number)
            found = self.lanes.setdefault(made.partition, made)
        return found

    cdef void tell_of(self, Lane lane):
        """Wakes the sender if a batch that was put last in the lane lets it do more than it could before.

        The first may have to linger, the second makes the first due. With more the sender has seen that one is
        due, and waits for something else: an answer, a retry's time, a leader.
        """
        if len(lane.waiting) <= 2:
            self.wake()

    cdef void list_batch(self, Lane lane, Batch batch):
        lane.order += 1
        batch.order = lane.order
        lane.waiting.append(batch)
        self.unfinished.add(batch)
        if not lane.listed:
            lane.listed = True
            self.active[lane] = None

    cdef Batch open_batch(self, Lane lane, Batch full):
        """A batch to append to in the place of `full`, the lane's open batch or None; None when the producer halts.

        Wakes the sender: it has a batch to wait for, or one that is full to send.
        """
        # Making an object may collect garbage, which may run Python code: another thread may come first meanwhile.
        cdef Batch batch = self.batch_type(lane.partition, self.delivery_timeout_s)
        if self.halted:
            return None
        if lane.open is not full:
            return lane.open if lane.open is not None else self.open_batch(lane, None)
        produce_memory_take(&batch.writer.out)
        self.list_batch(lane, batch)
        lane.open = batch
        if self.direct is not None and self.direct_lane is None:
            self.direct_lane = lane
        else:
            self.tell_of(lane)
        self.turn_due = full is not None
        return batch

    def add(self, Lane lane not None, Batch batch not None):
        """Puts a batch last that nothing is appended to; what comes after it opens a new one. False when the
        producer has halted: nobody would send it."""
        if self.halted:
            return False
        self.list_batch(lane, batch)
        lane.open = None
        self.buffered_bytes += batch.size_bytes
        self.record_count += batch.writer.count
        self.tell_of(lane)
        return True

    cpdef take(self, Lane lane):
        """The lane's first waiting batch, which counts as in flight from now on."""
        cdef Batch batch = lane.waiting.popleft()
        if batch is lane.open:
            lane.open = None
        lane.in_flight.append(batch)
        if not lane.waiting:
            lane.listed = False
            del self.active[lane]
        return batch

    cpdef pass_over(self, Lane lane):
        """Lets other lanes come first at the next look."""
        if lane.listed:
            del self.active[lane]
            self.active[lane] = None

    def put_back(self, Lane lane not None, Batch batch not None):
        """A batch that was in flight waits again, before those that came after it."""
        cdef Py_ssize_t at = 0
        if batch in lane.in_flight:
            lane.in_flight.remove(batch)
        while at < len(lane.waiting) and (<Batch>lane.waiting[at]).order < batch.order:
            at += 1
        lane.waiting.insert(at, batch)
        self.unfinished.add(batch)
        if not lane.listed:
            lane.listed = True
            self.active[lane] = None

    cpdef drop(self, Lane lane, Batch batch):
        """Takes a batch out of its lane, wherever it is."""
        if batch in lane.in_flight:
            lane.in_flight.remove(batch)
        elif batch in lane.waiting:
            lane.waiting.remove(batch)
        if lane.open is batch:
            lane.open = None
        if lane.listed and not lane.waiting:
            lane.listed = False
            del self.active[lane]

    cpdef settle(self, Batch batch):
        """A batch has its outcome: its memory counts as free."""
        if batch in self.unfinished:
            self.unfinished.discard(batch)
            self.buffered_bytes -= batch.size_bytes

# ---------------------------------------------------------------- sending


cdef inline void lend(object data, const uint8_t **at, int64_t *length) noexcept:
    """Bytes or None, nothing else."""
    if data is None:
        at[0] = NULL
        length[0] = -1
    else:
        at[0] = <const uint8_t *>PyBytes_AS_STRING(data)
        length[0] = PyBytes_GET_SIZE(data)


cdef class RecordSender:
    """The half of Producer that is called for every record. The other half has `_payload`, `_header_pairs`,
    `_find_route`, `_await_room`, `_no_partition` and `_too_large`."""

    def send(self, topic, value=None, key=None, *, headers=None, timestamp=None, partition=None, on_delivery=None):
        """Takes a record for `topic`; its future tells where it went.

        Args:
            value: bytes, or text to be encoded as UTF-8; None is a tombstone.
            key: records of one key go to one partition, by Kafka's murmur2.
            headers: pairs of a name and bytes, or a mapping.
            timestamp: milliseconds since the epoch; default now.
            partition: where to; default by key, else one partition after another.
            on_delivery: called with the future once it is done, in the producer's thread.

        Raises:
            UnknownTopicError: no such topic, and the brokers do not create it.
            NoBrokerError, BufferFullError: within max_block_ms.
            RecordTooLargeError: larger than max_request_size.
            ClosedError: after close(). ForkedError: in a process forked from the one that made the producer.
        """
        cdef Accumulator shared = self.accumulator
        cdef Lane lane
        cdef Batch batch
        cdef RecordFuture future
        cdef const uint8_t *value_at
        cdef const uint8_t *key_at
        cdef const uint8_t *headers_at = NULL
        cdef int64_t value_length, key_length, headers_length = 0, timestamp_ms
        cdef int32_t index = 0
        cdef bytes packed
        if self.value_serializer is not None:
            value = self.value_serializer(value)
        if self.key_serializer is not None:
            key = self.key_serializer(key)
        if value is not None and not PyBytes_CheckExact(value):
            value = self._payload(value, "value")
        if key is not None and not PyBytes_CheckExact(key):
            key = self._payload(key, "key")
        lend(value, &value_at, &value_length)
        lend(key, &key_at, &key_length)
        if headers is not None and headers:
            packed = encode_headers(self._header_pairs(headers))
            lend(packed, &headers_at, &headers_length)
        timestamp_ms = wall_clock_ms() if timestamp is None else timestamp
        batch = self.append(topic, key, key_at, key_length, value_at, value_length, headers_at, headers_length,
                            timestamp_ms, partition, &index)
        future = RecordFuture.__new__(RecordFuture)
        future.batch = batch
        future.index = index
        future.timestamp = timestamp_ms
        if on_delivery is not None:
            batch.note_callback(on_delivery, future)
        if shared.direct_lane is not None:
            lane = shared.direct_lane
            shared.direct_lane = None
            try:
                shared.direct(lane)
            except Exception:                            # no memory, no stack: the record is taken, the sender goes on
                shared.wake()
        return future

    def submit(self, topic, int partition, Batch batch not None):
        """Puts a batch last that was made elsewhere; waits for room and metadata as `send` does."""
        cdef Accumulator shared = self.accumulator
        cdef Lane lane
        while True:
            lane = self.choose(shared, topic, None, NULL, -1, batch.size_bytes, partition)
            if shared.add(lane, batch):
                return

    cdef Batch append(
            self, object topic, object key, const uint8_t *key_at, int64_t key_length, const uint8_t *value_at,
            int64_t value_length, const uint8_t *headers_at, int64_t headers_length, int64_t timestamp_ms,
            object partition, int32_t *index):
        """The batch that took the record, and the record's index in it."""
        cdef Accumulator shared = self.accumulator
        cdef Lane lane
        cdef Batch batch
        cdef AppendResult result
        cdef int64_t size = RECORD_OVERHEAD_BYTES + headers_length
        size += (key_length if key_length > 0 else 0) + (value_length if value_length > 0 else 0)
        if size > shared.request_bytes:
            raise self._too_large(topic, size)
        while True:
            lane = self.choose(shared, topic, key, key_at, key_length, size, partition)
            batch = lane.open if lane.open is not None else shared.open_batch(lane, None)
            result = APPEND_FULL
            while batch is not None:
                result = batch_writer_append(&batch.writer, key_at, key_length, value_at, value_length, timestamp_ms,
                                             headers_at, headers_length, shared.batch_bytes)
                if result != APPEND_FULL:
                    break
                batch = shared.open_batch(lane, batch)
            if batch is not None:
                break                                    # else it was closed just now: choose() says so
        if result != APPENDED:
            shared.wake()
            raise MemoryError("no memory for the record")
        batch.size_bytes += size
        shared.buffered_bytes += size
        shared.record_count += 1
        index[0] = batch.writer.count - 1
        return batch

    cdef Lane choose(
            self, Accumulator shared, object topic, object key, const uint8_t *key_at, int64_t key_length,
            int64_t size, object partition):
        """The lane for a record, with room for it. What follows this in `append` does not let the GIL go."""
        cdef TopicRoute route
        cdef Chooser *chooser
        cdef int32_t number
        cdef object asked = partition
        if shared.turn_due:
            shared.turn_due = False
            if turn_wanted():
                give_turn()
        while True:
            route = shared.last_route if topic is shared.last_topic else shared.routes.get(topic)
            if shared.halted or route is None or route.version != shared.metadata_version:
                self._find_route(topic)
                continue
            if shared.buffered_bytes + size > shared.buffer_memory and shared.unfinished:
                self._await_room(size)
                continue
            if asked is None and shared.partitioner is not None:
                asked = shared.partitioner(key, list(range(len(route.lanes))), route.available)
                continue                                 # which may have taken long
            break
        if route is not shared.last_route:
            shared.last_topic = topic
            shared.last_route = route
        chooser = &route.chooser
        if asked is not None:
            number = asked
        elif chooser_by_key(chooser, key_length):
            number = chooser_keyed(chooser, key_at, key_length)
        else:
            number = self.unkeyed(route, size)
        if not 0 <= number < len(route.lanes):
            raise self._no_partition(topic, number, len(route.lanes))
        return route.lanes[number] if route.lanes[number] is not None else shared.lane_of(route, number)

    cdef int32_t unkeyed(self, TopicRoute route, int64_t size) except -1:
        """The partition for a record that its key does not place."""
        cdef Chooser *chooser = &route.chooser
        if chooser.null_rule == NULL_RANDOM:
            return route.available[<Py_ssize_t>(chooser_random(chooser) % <unsigned long long>len(route.available))]
        if chooser.null_rule == NULL_ROUND_ROBIN:
            chooser.sticky = (chooser.sticky + 1) & INT32_MAX
            return route.available[chooser.sticky % len(route.available)]
        if chooser.sticky_left <= 0:
            route.rechoose()
        chooser.sticky_left -= size
        return chooser.sticky
