"""The bytes of Produce: requests framed around batches that are not copied, and answers that refuse nothing.

Requests of small batches are as many as their batches are few bytes, so that none of this may be a Python loop. An answer
that refuses something is read by its declared schema, in bowstring.clients.producer.sender.
All of it runs under the GIL, in the thread that has the sender's turn (see sender_loop.pxd).
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memset
from bowstring._native.client.accumulator cimport Accumulator
from bowstring._native.client.producer_batch cimport Batch
from bowstring._native.base.wire cimport (
    Reader, Writer, patch_i32, put_count, put_i32, put_raw, read_count, read_i16, read_i32, read_i64, read_string,
    skip_tags, take, writer_free)

cdef enum:
    # Versions of Produce from which its answer has something more.
    FLEXIBLE_FROM = 9
    TOPIC_IDS_FROM = 13
    RECORD_ERRORS_FROM = 8
    LOG_START_FROM = 5
    CORRELATION_AT = 8                                   # behind the length, API key and version

# ---------------------------------------------------------------- what is counted


cdef class SendCounters:
    """What is counted for each request and batch. A Python class completes it: `sample`, which notes the totals."""

    cpdef void sent(self, list batches, double now):
        """A request with these batches goes out."""
        cdef Batch batch
        cdef int64_t size_bytes
        self.requests += 1
        for batch in batches:
            size_bytes = batch.wire_size()
            self.batches += 1
            self.batch_bytes += size_bytes
            self.plain_bytes += batch.size_bytes
            self.batch_bytes_max = max(self.batch_bytes_max, size_bytes)
            if batch.attempts == 1:
                self.records += batch.writer.count
                self.queue_s += (now - batch.created_at) * batch.writer.count
                self.queue_max_s = max(self.queue_max_s, now - batch.created_at)

    cpdef void answered(self, double latency_s):
        """A request was answered."""
        self.answers += 1
        self.latency_s += latency_s
        self.latency_max_s = max(self.latency_max_s, latency_s)

# ---------------------------------------------------------------- frames


cpdef dict partitions_by_topic(list batches):
    """(partition, sealed bytes) of each batch, by the name of its topic."""
    cdef Batch batch
    cdef list parts
    cdef dict found = {}
    for batch in batches:
        parts = found.get(batch.partition[0])
        if parts is None:
            parts = found[batch.partition[0]] = []
        parts.append((batch.partition[1], batch.wire()))
    return found


cpdef list interleave(bytes head, int32_t correlation_id, list topics, int version):
    """The buffers of a Produce request, its length in front: what is small between batches that are not copied.

    Args:
        head: the request up to its topics, the correlation id left to be filled in.
        topics: (the topic as requests of this version name it, [(partition, batch), ...]) of each.
    """
    cdef Writer w
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef int64_t lent_bytes = 0
    cdef list parts, cuts = []
    cdef bytes name, small
    memset(&w, 0, sizeof(Writer))
    try:
        put_i32(&w, 0)                                   # the length, known in the end
        put_raw(&w, <const char *>head, len(head))
        put_count(&w, flexible, <int32_t>len(topics))
        for name, parts in topics:
            put_raw(&w, <const char *>name, len(name))
            put_count(&w, flexible, <int32_t>len(parts))
            for index, data in parts:
                put_i32(&w, index)
                put_count(&w, flexible, <int32_t>len(data))
                lent_bytes += len(data)
                cuts.append((w.size, data))
                if flexible:
                    put_raw(&w, b"\0", 1)                # no tags
            if flexible:
                put_raw(&w, b"\0", 1)
        if flexible:
            put_raw(&w, b"\0", 1)
        if w.failed:
            raise MemoryError("no memory for a request")
        patch_i32(w.data, <int32_t>(w.size - LENGTH_BYTES + lent_bytes))
        patch_i32(w.data + CORRELATION_AT, correlation_id)
        small = PyBytes_FromStringAndSize(<const char *>w.data, w.size)
    finally:
        writer_free(&w)
    return woven(memoryview(small), cuts)


cdef list woven(object small, list cuts):
    """Pieces of `small` with what belongs between them; empty ones left out."""
    cdef int64_t at = 0, cut
    cdef list found = []
    for cut, data in cuts:
        if cut > at:
            found.append(small[at:cut])
        if len(data):
            found.append(data)
        at = cut
    if at < len(small):
        found.append(small[at:])
    return found


# ---------------------------------------------------------------- answers


cdef class Acknowledgements:
    """An answer to Produce that refuses nothing.

    Attributes:
        topics: (name, topic id, [(partition, base offset, log append time or -1), ...]); the name is empty where
            topics go by id, and the id None where they go by name.
        throttle_time_ms: how long the broker reads no further requests of the connection (KIP-219).
    """


cdef list read_parts(Reader *r, int version, int32_t count):
    """Partitions of one topic; None when one of them has more to say than where its batch went."""
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef const uint8_t *at
    cdef int32_t i, index
    cdef int16_t error
    cdef int64_t base_offset, append_time
    cdef list parts = []
    for i in range(count):
        index, error = read_i32(r), read_i16(r)
        base_offset, append_time = read_i64(r), read_i64(r)
        if version >= LOG_START_FROM:
            read_i64(r)
        if version >= RECORD_ERRORS_FROM and (read_count(r, flexible) > 0 or read_string(r, flexible, &at) >= 0):
            return None
        if flexible:
            skip_tags(r)
        if r.bad or error != 0:
            return None
        parts.append((index, base_offset, append_time))
    return parts


def parse_acknowledgements(frame, int version):
    """The answer to Produce in `frame` (its length left off), when nothing in it needs more than a look.

    Returns:
        Acknowledgements; None when something was refused, or cannot be read: the declared schema says what.
    """
    cdef Py_buffer view
    cdef Reader r
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        r.at = <const uint8_t *>view.buf
        r.end = r.at + view.len
        r.bad = False
        return read_answer(&r, version)
    finally:
        PyBuffer_Release(&view)


cdef Acknowledgements read_answer(Reader *r, int version):
    cdef Acknowledgements made = Acknowledgements.__new__(Acknowledgements)
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef const uint8_t *at = NULL
    cdef int32_t i, topics, n
    cdef list parts
    made.topics = []
    read_i32(r)                                          # the correlation id, which has been looked at
    if flexible:
        skip_tags(r)
    topics = read_count(r, flexible)
    for i in range(topics):
        name, topic_id = "", None
        if version >= TOPIC_IDS_FROM:
            at = take(r, 16)
            topic_id = None if at == NULL else PyBytes_FromStringAndSize(<const char *>at, 16)
        else:
            n = read_string(r, flexible, &at)
            name = "" if n < 0 else PyBytes_FromStringAndSize(<const char *>at, n).decode(errors="replace")
        parts = read_parts(r, version, read_count(r, flexible))
        if parts is None:
            return None
        if flexible:
            skip_tags(r)
        made.topics.append((name, topic_id, parts))
    made.throttle_time_ms = read_i32(r)
    if flexible:
        skip_tags(r)
    return None if r.bad or topics < 0 or r.at != r.end else made


cpdef list acknowledge(Accumulator shared, list sent, Acknowledgements answer, names):
    """Completes the batches of a request that were acknowledged.

    Args:
        names: topic names by id.

    Returns:
        The batches that the answer does not mention.
    """
    cdef Batch batch
    cdef dict places = {}
    cdef list missing = []
    for name, topic_id, parts in answer.topics:
        if topic_id is not None:
            name = names.get(topic_id)
        for part in parts:
            places[(name, part[0])] = part
    for batch in sent:
        part = places.get(batch.partition)
        if part is None:
            missing.append(batch)
        else:
            shared.complete(batch, None, part[1], part[2])
    return missing
