"""What `Producer.send` does for each record, in one native call: partition, room, append, future.

It is the native half of Producer, above the accumulator, which it appends to, and the sender's loop, which it lets
send with linger 0. Everything that is slow or rare (a topic looked up, room waited for, a partitioner of the caller's
own) is a method of the Producer, called without anything half done.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t
from bowstring._native.base.clock cimport wall_clock_ms
from bowstring._native.client.accumulator cimport RECORD_OVERHEAD_BYTES, Accumulator, PartitionQueue, TopicRoute
from bowstring._native.client.partitioner cimport (
    NULL_RANDOM, NULL_ROUND_ROBIN, Chooser, chooser_by_key, chooser_keyed, chooser_random)
from bowstring._native.client.producer_batch cimport Batch, RecordFuture
from bowstring._native.client.socket_io cimport give_turn, turn_wanted
from bowstring._native.record.encode cimport APPEND_FULL, APPENDED, AppendResult, batch_writer_append

from bowstring._native.record.encode import encode_headers

cdef enum:
    YEAR_1980_S = 315532800

cdef int64_t YEAR_1980_MS = <int64_t>YEAR_1980_S * 1000

cdef inline void lend(object data, const uint8_t **at, int64_t *length) noexcept:
    """Bytes or None, nothing else."""
    if data is None:
        at[0] = NULL
        length[0] = -1
    else:
        at[0] = <const uint8_t *>PyBytes_AS_STRING(data)
        length[0] = PyBytes_GET_SIZE(data)


cdef class RecordSender:
    """The half of Producer that is called for every record. The other half has `payload`, `_header_pairs`,
    `_timestamp_ms`, `_partition_number`, `_send_route`, `_send_room`, `_outside`, `_no_partition` and
    `_too_large`."""

    def send(self, topic, value=None, key=None, *, headers=None, timestamp=None, partition=None, on_delivery=None):
        """Takes a record for `topic`; its future has the record's place.

        Args:
            topic: name of the topic.
            value: bytes, or text to be encoded as UTF-8; None is a tombstone; or what the format encodes.
            key: like value; records of one key go to one partition, by Kafka's murmur2.
            headers: pairs of a name (text, or bytes as they are to be sent) and bytes, or a mapping.
            timestamp: milliseconds since the epoch, or a datetime; default now.
            partition: where to; default by key, else one partition after another.
            on_delivery: called with the future once it is done, in the producer's thread.

        Raises:
            ConfigError: an argument is of a wrong type, or the timestamp looks like seconds.
            UnknownTopicError: no such topic, and the brokers do not create it.
            NoBrokerError, BufferFullError: within max_block_ms. RecordTooLargeError: larger than max_request_size.
            ValueEncodeError: the format does not fit. ClosedError: after close(). ForkedError: in a forked process.
        """
        cdef Accumulator shared = self.accumulator
        cdef Batch batch
        cdef RecordFuture future
        cdef const uint8_t *value_at, *key_at
        cdef const uint8_t *headers_at = NULL
        cdef int64_t value_length, key_length, headers_length = 0, timestamp_ms
        cdef int32_t index = 0
        cdef bytes packed
        if self.value_serializer is not None:
            value = self.value_serializer(value)
        if self.key_serializer is not None:
            key = self.key_serializer(key)
        if self.schema_headers is not None:
            headers = self.schema_headers(topic, value, key, headers)
        if value is not None and not PyBytes_CheckExact(value):
            value = self.payload(topic, value, "value")
        if key is not None and not PyBytes_CheckExact(key):
            key = self.payload(topic, key, "key")
        lend(value, &value_at, &value_length)
        lend(key, &key_at, &key_length)
        if headers is not None and headers:
            packed = encode_headers(self._header_pairs(headers))
            lend(packed, &headers_at, &headers_length)
        timestamp_ms = wall_clock_ms() if timestamp is None else self.given_ms(timestamp)
        if on_delivery is not None and not callable(on_delivery):
            raise self._no_function("on_delivery", on_delivery)
        batch = self.append(topic, key, key_at, key_length, value_at, value_length, headers_at, headers_length,
                            timestamp_ms, partition, &index)
        future = RecordFuture.__new__(RecordFuture)
        future.batch = batch
        future.index = index
        future.timestamp = timestamp_ms
        if on_delivery is not None:
            batch.note_callback(on_delivery, future)
        if shared.direct_queue is not None:
            self.send_directly(shared)
        return future

    cdef int send_directly(self, Accumulator shared) except -1:
        """Sends from the calling thread what the accumulator has for it."""
        cdef PartitionQueue queue = shared.direct_queue
        shared.direct_queue = None
        try:
            self.loop.send_now(queue)
        except Exception:                                # no memory, no stack: the record is taken, the sender goes on
            shared.wake()
        return 0

    cdef int64_t given_ms(self, object timestamp) except? -1:
        """The milliseconds of a timestamp that is given."""
        if type(timestamp) is int and YEAR_1980_MS <= timestamp <= INT64_MAX:
            return timestamp
        return self._timestamp_ms(timestamp)

    def submit(self, topic, int partition, Batch batch not None):
        """Puts a batch last that was made elsewhere; waits for room and metadata as `send` does.

        Args:
            topic: name of the topic.
            partition: number of the partition.
            batch: the batch; this producer sends it and gives it an outcome.
        """
        cdef Accumulator shared = self.accumulator
        cdef PartitionQueue queue
        while True:
            queue = self.choose(shared, topic, None, NULL, -1, batch.size_bytes, partition)
            if shared.add(queue, batch):
                return

    cdef Batch append(
            self, object topic, object key, const uint8_t *key_at, int64_t key_length, const uint8_t *value_at,
            int64_t value_length, const uint8_t *headers_at, int64_t headers_length, int64_t timestamp_ms,
            object partition, int32_t *index):
        """The batch that took the record, and the record's index in it."""
        cdef Accumulator shared = self.accumulator
        cdef PartitionQueue queue
        cdef Batch batch
        cdef AppendResult result
        cdef int64_t size = RECORD_OVERHEAD_BYTES + headers_length
        size += (key_length if key_length > 0 else 0) + (value_length if value_length > 0 else 0)
        if size > shared.request_bytes:
            raise self._too_large(topic, size)
        while True:
            queue = self.choose(shared, topic, key, key_at, key_length, size, partition)
            batch = queue.open if queue.open is not None else shared.open_batch(queue, None)
            result = APPEND_FULL
            while batch is not None:
                result = batch_writer_append(&batch.writer, key_at, key_length, value_at, value_length, timestamp_ms,
                                             headers_at, headers_length, shared.batch_bytes)
                if result != APPEND_FULL:
                    break
                batch = shared.open_batch(queue, batch)
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

    cdef PartitionQueue choose(
            self, Accumulator shared, object topic, object key, const uint8_t *key_at, int64_t key_length,
            int64_t size, object partition):
        """The queue for a record, with room for it. What follows this in `append` does not let the GIL go."""
        cdef TopicRoute route
        cdef Chooser *chooser
        cdef int32_t number
        cdef object asked = partition
        if shared.turn_due:
            shared.turn_due = False
            if turn_wanted():
                give_turn()
        while True:
            if shared.outside:
                self._outside()
            if topic is shared.last_topic:
                route = shared.last_route
            else:
                route = shared.routes.get(topic if type(topic) is str else self._topic_name(topic))
            if shared.halted or route is None or route.version != shared.metadata_version:
                self._send_route(topic)
                continue
            if shared.buffered_bytes + size > shared.buffer_memory and shared.unfinished:
                self._send_room(size)
                continue
            if asked is None and shared.partitioner is not None:
                asked = shared.partitioner(key, list(range(len(route.queues))), route.available)
                continue                                 # which may have taken long
            break
        if route is not shared.last_route:
            shared.last_topic = topic
            shared.last_route = route
        chooser = &route.chooser
        if asked is not None:
            number = asked if type(asked) is int and -1 <= asked <= INT32_MAX else self._partition_number(topic, asked)
        elif chooser_by_key(chooser, key_length):
            number = chooser_keyed(chooser, key_at, key_length)
        else:
            number = self.unkeyed(route, size)
        if not 0 <= number < len(route.queues):
            raise self._no_partition(topic, number, len(route.queues))
        return route.queues[number] if route.queues[number] is not None else shared.queue_of(route, number)

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
