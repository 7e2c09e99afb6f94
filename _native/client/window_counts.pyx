"""Counts records by topic and window of their timestamps, for the audit of counts (clients/counting.py).

A batch, or the records of a poll, whose smallest and largest timestamps lie in one window are counted at once: decoders
know these (record/decode.pyx, arrow/decode_rows.pyx), so that a record costs next to nothing. Otherwise each is looked at. Counts only grow, so that the newest report of a topic and window replaces all others.

Everything runs under the GIL: the producer's sender or the consumer adds, and the thread that reports reads.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t
from bowstring._native.client.producer_batch cimport Batch
from bowstring._native.record.batch cimport (
    ATTR_COMPRESSION_MASK, ATTR_CONTROL, ATTR_LOG_APPEND_TIME, BATCH_HEADER_BYTES, BatchInfo, Record, batch_parse,
    record_read)
from bowstring._native.record.timestamp_windows cimport is_one_window, window_start

from bowstring._native.record.compression import DECOMPRESSED_MAX_BYTES, decompress

cdef extern from "Python.h":
    # Borrowed references: the records stay in their list.
    PyObject *PyList_GET_ITEM(object records, Py_ssize_t i)
    PyObject *PyTuple_GET_ITEM(PyObject *record, Py_ssize_t i)

cdef enum:
    RECORD_TOPIC = 0              # places in clients.records.Record
    RECORD_TIMESTAMP = 3

# Topics and windows of which counts are kept, until those that are reported are forgotten.
KEPT_MAX = 10_000


cdef class Tally:
    """The count of one topic and window."""


cdef class WindowCounts:
    """Counts of one client.

    Args:
        window_ms: length of a window; windows begin at multiples of it since the epoch.
        staging: what is noted counts only after `keep`: records of a transaction, or of a poll that may still fail.
    """

    def __init__(self, int64_t window_ms, *, bint staging=False):
        if window_ms < 1:
            raise ValueError("a window has at least 1 ms")
        self.window_ms = window_ms
        self.staging = staging
        self.kept, self.staged = {}, {}

    cdef int add(self, object topic, int64_t start, int64_t count, int64_t newest) except -1:
        cdef dict to = self.staged if self.staging else self.kept
        cdef tuple key = (topic, start)
        cdef Tally tally = to.get(key)
        if tally is None:
            # Making an object may collect garbage, and let another thread come first.
            tally = Tally.__new__(Tally)
            tally.newest = INT64_MIN
            tally.generation = self.generation
            tally = to.setdefault(key, tally)
        tally.count += count
        tally.newest = max(tally.newest, newest)
        tally.changed = True
        return 0

    cdef int note_range(self, object topic, int64_t low, int64_t high, int64_t count) except -1:
        """Adds records whose timestamps lie in [low, high]; 0 when that is not one window, and nothing is added."""
        if not is_one_window(low, high, self.window_ms):
            return 0
        if count > 0:
            self.add(topic, window_start(low, self.window_ms), count, high)
        return 1

    # ------------------------------------------------------------ producers

    cdef void note_batch(self, Batch batch, int64_t log_append_time_ms) noexcept:
        """Adds the records of an acknowledged batch, before it gives its memory back. Fails without harm."""
        try:
            self.count_batch(batch, log_append_time_ms)
        except Exception:
            self.failures += 1

    cdef int count_batch(self, Batch batch, int64_t log_append_time_ms) except -1:
        cdef object topic = batch.partition[0]
        cdef int64_t low = batch.writer.min_timestamp, high = batch.writer.max_timestamp
        cdef BatchInfo info
        cdef bytes plain = batch.encoded
        if log_append_time_ms >= 0:
            self.note_range(topic, log_append_time_ms, log_append_time_ms, batch.writer.count)
            return 0
        if plain is not None:
            if batch_parse(<const uint8_t *>PyBytes_AS_STRING(plain), PyBytes_GET_SIZE(plain), &info) != 0:
                raise ValueError("this is no record batch of magic 2")
            high = info.max_timestamp
        if low != INT64_MIN and self.note_range(topic, low, high, batch.writer.count):
            return 0
        if plain is None:
            info.attributes = 0
            info.base_timestamp, info.record_count = batch.writer.base_timestamp, batch.writer.count
            return self.walk(topic, batch.writer.out.data + BATCH_HEADER_BYTES,
                             batch.writer.out.data + batch.writer.out.size, &info, INT64_MIN)
        return self.walk_encoded(topic, <const uint8_t *>PyBytes_AS_STRING(plain), &info, INT64_MIN)

    cdef int walk_encoded(self, object topic, const uint8_t *at, const BatchInfo *info, int64_t from_offset) except -1:
        cdef bytes plain
        cdef const uint8_t *records = at + BATCH_HEADER_BYTES
        cdef int64_t size = info.size_bytes - BATCH_HEADER_BYTES
        if info.attributes & ATTR_COMPRESSION_MASK:
            plain = bytes(decompress(info.attributes & ATTR_COMPRESSION_MASK, records[:size], DECOMPRESSED_MAX_BYTES))
            records, size = <const uint8_t *>PyBytes_AS_STRING(plain), PyBytes_GET_SIZE(plain)
        return self.walk(topic, records, records + size, info,
                         from_offset - info.base_offset if from_offset != INT64_MIN else INT64_MIN)

    cdef int walk(
            self, object topic, const uint8_t *at, const uint8_t *end, const BatchInfo *info, int64_t from_delta) except -1:
        """Looks at each record; adds runs that lie in one window."""
        cdef Record r
        cdef int64_t i, timestamp, start = 0, run = 0, newest = INT64_MIN
        for i in range(info.record_count):
            if not record_read(&at, end, &r):
                raise ValueError("the batch has fewer records than its header says")
            if r.offset_delta < from_delta:
                continue
            timestamp = <int64_t>(<uint64_t>info.base_timestamp + <uint64_t>r.timestamp_delta)
            if info.attributes & ATTR_LOG_APPEND_TIME:
                timestamp = info.max_timestamp
            if run == 0 or not start <= timestamp < start + self.window_ms:
                if run > 0:
                    self.add(topic, start, run, newest)
                start, run, newest = window_start(timestamp, self.window_ms), 0, INT64_MIN
            run += 1
            newest = max(newest, timestamp)
        if run > 0:
            self.add(topic, start, run, newest)
        return 0

    # ------------------------------------------------------------ consumers

    def note_records(self, list records not None, tuple times=None, bint whole=False):
        """Adds records that `Consumer` decoded.

        Args:
            times: (smallest, largest) timestamp of these and others of the same topic; None: each is looked at.
            whole: the others were added before, so that the largest is among those that count now.
        """
        cdef int64_t timestamp, start = 0, end = INT64_MIN, run = 0, newest = INT64_MIN
        cdef PyObject *topic = NULL
        cdef PyObject *record
        cdef Py_ssize_t i, count = len(records)
        if times is not None and count > 0:
            start, newest = times
            record = PyList_GET_ITEM(records, count - 1)
            timestamp = newest if whole else <object>PyTuple_GET_ITEM(record, RECORD_TIMESTAMP)
            if is_one_window(start, newest, self.window_ms):
                self.add(<object>PyTuple_GET_ITEM(record, RECORD_TOPIC), window_start(start, self.window_ms), count, timestamp)
                return
            newest = INT64_MIN
        for i in range(count):
            record = PyList_GET_ITEM(records, i)
            timestamp = <object>PyTuple_GET_ITEM(record, RECORD_TIMESTAMP)
            if PyTuple_GET_ITEM(record, RECORD_TOPIC) != topic or timestamp >= end or timestamp < start:
                if run > 0:
                    self.add(<object>topic, start, run, newest)
                topic = PyTuple_GET_ITEM(record, RECORD_TOPIC)
                start, run, newest = window_start(timestamp, self.window_ms), 0, INT64_MIN
                end = start + self.window_ms
            run += 1
            newest = timestamp if timestamp > newest else newest
        if run > 0:
            self.add(<object>topic, start, run, newest)

    def note_runs(self, topic, runs):
        """Adds (start of a window, records, largest timestamp) of each run, as ArrowRows counts them."""
        for start, count, newest in runs:
            self.add(topic, start, count, newest)

    def note_encoded(self, topic, data, int64_t from_offset):
        """Adds the records at or after `from_offset` of complete batches as brokers send them; control records do not
        count."""
        cdef Py_buffer view
        cdef BatchInfo info
        cdef const uint8_t *start
        cdef int64_t position = 0
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            start = <const uint8_t *>view.buf
            while position < view.len:
                if batch_parse(start + position, view.len - position, &info) != 0:
                    raise ValueError(f"there is no record batch of magic 2 at byte {position}")
                if not info.attributes & ATTR_CONTROL:
                    self.walk_encoded(topic, start + position, &info, from_offset)
                position += info.size_bytes
        finally:
            PyBuffer_Release(&view)

    # ------------------------------------------------------------ what counts

    def keep(self):
        """Counts what is staged."""
        cdef Tally tally
        cdef dict staged
        if not self.staged:
            return
        staged, self.staged = self.staged, {}
        self.staging = False
        try:
            for (topic, start), tally in staged.items():
                self.add(topic, start, tally.count, tally.newest)
        finally:
            self.staging = True

    def drop(self):
        """Forgets what is staged."""
        self.staged = {}

    # ------------------------------------------------------------ reports

    def changes(self):
        """(topic, start, generation, count, newest timestamp) of every count that has changed since the last call."""
        cdef Tally tally
        cdef list found = []
        for (topic, start), tally in list(self.kept.items()):
            if tally.changed:
                tally.changed = False
                found.append((topic, start, tally.generation, tally.count, tally.newest))
        if len(self.kept) > KEPT_MAX:
            self.forget()
        return found

    def change(self, topic, int64_t start):
        """Makes `changes` return a count again: its report was lost."""
        cdef Tally tally = self.kept.get((topic, start))
        if tally is not None:
            tally.changed = True

    cdef int forget(self) except -1:
        """Forgets the oldest half of the counts that are reported; records that come later begin a new generation."""
        cdef Tally tally
        cdef list reported = sorted([(start, topic) for (topic, start), tally in self.kept.items() if not tally.changed])
        self.generation += 1
        for start, topic in reported[:KEPT_MAX // 2]:
            del self.kept[(topic, start)]
        return 0


def time_bounds(times):
    """(smallest, largest) of a buffer of int64; None when it is empty."""
    cdef Py_buffer view
    cdef const int64_t *at
    cdef int64_t i, count, low = INT64_MAX, high = INT64_MIN
    PyObject_GetBuffer(times, &view, PyBUF_SIMPLE)
    try:
        at, count = <const int64_t *>view.buf, view.len // 8
        for i in range(count):
            low = at[i] if at[i] < low else low
            high = at[i] if at[i] > high else high
    finally:
        PyBuffer_Release(&view)
    return (low, high) if count else None
