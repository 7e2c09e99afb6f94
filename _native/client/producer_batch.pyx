"""Record batches on their way out, the futures of their records, and the memory that batches use in turn."""
cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset
from bowstring._native.record.batch cimport (
    ATTR_COMPRESSION_MASK, ATTR_TRANSACTIONAL, BATCH_HEADER_BYTES, BatchInfo, Record, batch_parse, batch_seal, batch_seal_around,
    record_read)
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.base.crc cimport crc32c_factor
from bowstring._native.record.encode cimport (
    APPENDED, BatchWriter, batch_writer_append, batch_writer_clear, seal_compressed)
from bowstring._native.base.wire cimport Writer, writer_free

import threading

from bowstring._native.record.encode import with_producer
from bowstring._native.record.compression import decompress

cdef tuple STATES = ("open", "waiting", "in flight", "retrying", "divided", "completed", "done")

cdef enum:
    POOL_BUFFERS = 16384
    POOL_BUFFER_BYTES_MIN = 4096
    POOL_BYTES_MAX = 67108864     # of all buffers: fresh pages cost more than encoding what is written to them

# ---------------------------------------------------------------- memory of batches, used again

cdef struct Pool:
    Writer buffers[POOL_BUFFERS]
    int count
    int64_t size_bytes

cdef Pool pool
memset(&pool, 0, sizeof(Pool))


cdef void produce_memory_take(Writer *w) noexcept:
    """The memory given back last, which is the warmest; none when there is none."""
    memset(w, 0, sizeof(Writer))
    if pool.count > 0:
        pool.count -= 1
        w[0] = pool.buffers[pool.count]
        pool.size_bytes -= w.capacity


cdef void produce_memory_give(Writer *w) noexcept:
    if (w.data != NULL and w.capacity >= POOL_BUFFER_BYTES_MIN and pool.count < POOL_BUFFERS
            and pool.size_bytes + w.capacity <= POOL_BYTES_MAX):
        pool.size_bytes += w.capacity
        w.size = 0
        w.failed = False
        pool.buffers[pool.count] = w[0]
        pool.count += 1
        memset(w, 0, sizeof(Writer))
    else:
        writer_free(w)

# ---------------------------------------------------------------- a batch

cdef int64_t factor_size = 0                             # one after the other, batches are often of one size
cdef uint32_t last_factor = crc32c_factor(0)


cdef uint32_t factor_of(int64_t size) noexcept:
    """crc32c_factor(); under the GIL."""
    global factor_size, last_factor
    if size != factor_size:
        last_factor = crc32c_factor(size)
        factor_size = size
    return last_factor


cdef bytes plain_records(bytes encoded, int64_t *base_timestamp):
    """The records of an encoded batch, decompressed."""
    cdef BatchInfo info
    if batch_parse(<const uint8_t *>PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded), &info) != 0:
        raise ValueError("this is no record batch of magic 2")
    base_timestamp[0] = info.base_timestamp
    records = memoryview(encoded)[BATCH_HEADER_BYTES:]
    codec = info.attributes & ATTR_COMPRESSION_MASK
    return decompress(codec, records) if codec else bytes(records)


cdef int copy_records(BatchWriter *w, const uint8_t **at, const uint8_t *end, int32_t count, int64_t base) except -1:
    """Appends `count` records from *at on."""
    cdef Record r
    cdef const uint8_t *headers
    cdef int32_t i
    for i in range(count):
        if not record_read(at, end, &r):
            raise ValueError("the batch has fewer records than its header says")
        headers = r.value + (r.value_length if r.value_length > 0 else 0)   # where their count is
        if batch_writer_append(w, r.key, r.key_length, r.value, r.value_length, base + r.timestamp_delta,
                               headers, r.end - headers, INT32_MAX) != APPENDED:
            raise MemoryError("no memory to divide a batch")
    return 0


cdef extern from "Python.h":
    bint PyObject_IS_GC(object o)
    void PyObject_GC_UnTrack(void *o)


@cython.no_gc                    # the only cycles, through callbacks, end with the batch
cdef class Batch:
    """One record batch: open for appending, then sealed with the producer's identity and sent, then done.

    Its bytes are lent out by the buffer protocol; they hold still from `seal` until the batch is done and
    every buffer is given back. A Python class completes it: `call` and `call_last`, which run a callback.
    """

    def __cinit__(self, object partition=None, double delivery_timeout_s=0, *args):
        if PyObject_IS_GC(self):                         # as a Python class that completes this one always is
            PyObject_GC_UnTrack(<void *>self)
        self.partition = partition
        memset(&self.writer, 0, sizeof(self.writer))
        batch_writer_clear(&self.writer)
        self.created_at = monotonic_ns() / 1e9
        self.deadline = self.created_at + delivery_timeout_s
        self.producer = (-1, -1)
        self.base_sequence = -1
        self.base_offset = -1
        self.log_append_time_ms = -1

    def __dealloc__(self):
        produce_memory_give(&self.writer.out)

    def __getbuffer__(self, Py_buffer *view, int flags):
        if self.encoded is not None or self.writer.out.data == NULL:
            raise BufferError("this batch has no memory of its own: it is compressed, or done")
        PyBuffer_FillInfo(view, self, self.writer.out.data, self.writer.out.size, 1, flags)
        self.views += 1

    def __releasebuffer__(self, Py_buffer *view):
        self.views -= 1
        if self.done:
            self.give_memory_back()

    cdef void give_memory_back(self) noexcept:
        if self.views == 0:
            produce_memory_give(&self.writer.out)

    @property
    def stage(self):
        """Its state's name, as the table in accumulator.pyx has them."""
        return STATES[self.state]

    @property
    def record_count(self):
        """Records in it, so far."""
        return self.writer.count

    cdef int64_t wire_size(self) noexcept:
        return PyBytes_GET_SIZE(self.encoded) if self.encoded is not None else self.writer.out.size

    def hold(self, bytes encoded not None, int32_t record_count, oldest_ms=None):
        """Makes this a batch of `record_count` records that were encoded elsewhere; `oldest_ms` is a lower bound of their
        timestamps, if one is known."""
        self.encoded = encoded
        self.writer.count = record_count
        self.writer.min_timestamp = INT64_MIN if oldest_ms is None else oldest_ms
        self.size_bytes = PyBytes_GET_SIZE(encoded)

    cpdef seal(self, tuple producer, int32_t base_sequence, int codec, level):
        """Ends appending: the records become bytes that carry the producer's identity (KIP-98).

        Sealed bytes get another identity, and with it another CRC; compression is not repeated.
        """
        cdef BatchInfo info
        self.producer = producer
        self.base_sequence = base_sequence
        self.sealed = False
        if self.encoded is not None:
            if <int64_t>producer[0] >= 0:
                self.encoded = with_producer(
                    self.encoded, producer[0], producer[1], base_sequence, self.transactional)
            self.sealed = True
            return
        memset(&info, 0, sizeof(BatchInfo))
        info.leader_epoch = -1
        info.attributes = ATTR_TRANSACTIONAL if self.transactional else 0
        info.last_offset_delta = self.writer.count - 1
        info.base_timestamp = self.writer.base_timestamp
        info.max_timestamp = self.writer.max_timestamp
        info.producer_id = producer[0]
        info.producer_epoch = producer[1]
        info.base_sequence = base_sequence
        info.record_count = self.writer.count
        if codec != 0:
            self.encoded = seal_compressed(&info, self.writer.out.data + BATCH_HEADER_BYTES,
                                           self.writer.out.size - BATCH_HEADER_BYTES, codec, level)
            self.give_memory_back()
            self.sealed = True
            return
        info.size_bytes = <int32_t>self.writer.out.size
        # A few microseconds: less than having the GIL back would take (see socket_io.pxd).
        if self.summed:
            batch_seal_around(self.writer.out.data, &info, self.records_crc,
                              factor_of(self.writer.out.size - BATCH_HEADER_BYTES))
        else:
            batch_seal(self.writer.out.data, &info)
        self.sealed = True

    cpdef wire(self):
        """The sealed bytes, not copied."""
        return memoryview(self.encoded if self.encoded is not None else self)

    cpdef finish(self, error, int64_t base_offset=-1, int64_t log_append_time_ms=-1):
        """Sets the outcome, wakes who waits and runs the callbacks."""
        cdef Batch whole
        if self.done:
            return
        self.error = error
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.encoded = None
        self.state = BATCH_DONE
        self.done = True
        self.give_memory_back()
        callback, self.callback = self.callback, None
        argument, self.argument = self.argument, None
        callbacks, self.callbacks = self.callbacks, None
        whole, self.whole = self.whole, None             # they refer to each other
        if self.event is not None:
            self.event.set()
        if callback is not None:
            self.call_last(callback, argument)
        if callbacks is not None:
            for callback, argument in callbacks:
                self.call_last(callback, argument)
        if whole is not None:
            whole.part_done()

    def give_up(self, error):
        """Sets a failure without waking or calling anything: for a forked process, whose threads are gone."""
        cdef Batch whole
        self.error = error
        self.state = BATCH_DONE
        self.done = True
        self.callback = self.argument = self.callbacks = None
        whole, self.whole = self.whole, None
        if whole is not None:
            whole.give_up(error)

    def divide(self, Batch first not None, Batch second not None):
        """Moves the records into two other batches, half and half, numbered on as they were (KIP-98).

        This one is done when both are.
        """
        cdef const uint8_t *at
        cdef const uint8_t *end
        cdef bytes plain
        cdef int64_t base = self.writer.base_timestamp
        cdef int32_t half = (self.writer.count + 1) // 2
        if self.encoded is not None:
            plain = plain_records(self.encoded, &base)
            at = <const uint8_t *>PyBytes_AS_STRING(plain)
            end = at + PyBytes_GET_SIZE(plain)
        else:
            at = self.writer.out.data + BATCH_HEADER_BYTES
            end = self.writer.out.data + self.writer.out.size
        produce_memory_take(&first.writer.out)           # which will be given back, too
        produce_memory_take(&second.writer.out)
        copy_records(&first.writer, &at, end, half, base)
        copy_records(&second.writer, &at, end, self.writer.count - half, base)
        first.inherit(self)
        second.inherit(self)
        first.size_bytes = self.size_bytes // 2
        second.size_bytes = self.size_bytes - first.size_bytes
        if self.base_sequence >= 0:
            first.base_sequence = self.base_sequence
            second.base_sequence = (self.base_sequence + half) & INT32_MAX
        self.parts = (first, second)
        first.whole = second.whole = self

    cdef void inherit(self, Batch before) noexcept:
        """The times and the place of the batch whose records go on in this one."""
        self.created_at = before.created_at
        self.deadline = before.deadline
        self.attempts = before.attempts
        self.producer = before.producer
        self.order = before.order

    cdef part_done(self):
        """One of the two batches that took the records over is done."""
        if all([part.done for part in self.parts]):
            self.finish(next((part.error for part in self.parts if part.error is not None), None),
                        self.parts[0].base_offset, self.parts[0].log_append_time_ms)

    cdef Batch leaf(self, int32_t *index):
        """The batch in which the record at `index` went in the end, and its index there."""
        cdef Batch at = self, first
        while at.parts is not None:
            first = at.parts[0]
            if index[0] < first.writer.count:
                at = first
            else:
                index[0] -= first.writer.count
                at = at.parts[1]
        return at

    def when_done(self, callback, argument):
        """Runs `callback(argument)` in the sender's thread, or here at once when it is done already."""
        self.note_callback(callback, argument)

    cdef int note_callback(self, object callback, object argument) except -1:
        cdef tuple entry
        cdef list fresh
        if not self.done and self.callback is None:      # as good as always: no object is made for it
            self.callback = callback
            self.argument = argument
            return 0
        # Objects are made first: that may collect garbage, and let another thread finish the batch meanwhile.
        entry = (callback, argument)
        fresh = [] if self.callbacks is None else None
        if self.done:
            self.call(callback, argument)
        elif self.callbacks is not None:
            self.callbacks.append(entry)
        else:                                            # it was None before, too: only done turns it to that
            self.callbacks = fresh
            fresh.append(entry)
        return 0

    def wait(self, timeout_s):
        """Waits until done; false when the time is over before that."""
        if self.done:
            return True
        event = threading.Event()
        if self.event is None:                           # another thread may have come first meanwhile
            self.event = event
        if self.done:                                    # finish() may not have seen the event
            return True
        return self.event.wait(timeout_s)

# ---------------------------------------------------------------- a record's outcome


@cython.final
@cython.freelist(256)
@cython.no_gc                    # the only cycle, through a batch's callbacks, ends with the batch
cdef class RecordFuture:
    """The outcome of one `Producer.send`. Light: it shares everything with the other records of its batch."""

    def __repr__(self):
        if not self.batch.done:
            return f"<RecordFuture for {self.batch.partition}, pending>"
        error = self.exception(0)
        if error is not None:
            return f"<RecordFuture for {self.batch.partition}, failed: {error}>"
        found = self.result(0)
        return f"<RecordFuture of {found.topic}-{found.partition} offset {found.offset}>"

    def done(self):
        """Whether the outcome is known."""
        return self.batch.done

    def result(self, timeout=None):
        """Where the record went, a RecordMetadata; waits for it at most `timeout` seconds.

        Raises ClientTimeoutError when that is not known by then, and the ClientError that says why when the
        record could not be delivered.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        cdef int32_t index = self.index
        cdef Batch batch = self.batch.leaf(&index)
        return batch.metadata(index, self.timestamp)

    def get(self, timeout=None):
        """`result`, by its name in kafka-python."""
        return self.result(timeout)

    def exception(self, timeout=None):
        """Why the record could not be delivered, None when it was; ClientTimeoutError as in `result`."""
        if not self.batch.wait(timeout):
            raise self.batch.timed_out(timeout)
        cdef int32_t index = self.index
        return self.batch.leaf(&index).error

    def add_done_callback(self, callback):
        """Runs `callback(self)` when the outcome is known, in the sender's thread: it must be quick."""
        self.batch.when_done(callback, self)
