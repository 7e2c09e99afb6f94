"""One partition's log: what the data plane calls (log.pxd), and PartitionLog, its Python face.

The parts: log_types.pxd the structures · log_files operations and open files · log_segment, log_index,
log_aborted, log_producers, log_epochs what is in a directory · log_append, log_read, log_roll,
log_retention what is done to it · log_open, log_directory, log_recovery how it starts.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from bowstring._native.atomics cimport load_i32, load_i64, store_i32, store_i64
from bowstring._native.batch cimport batch_crc_ok, batch_parse
from bowstring._native.clock cimport wall_clock_ms
from bowstring._native.directory_health cimport DirectoryHealth, directory_fail, is_of_directory
from bowstring._native.log_aborted cimport aborted_collect
from bowstring._native.log_append cimport append_entries
from bowstring._native.log_epochs cimport epoch_at, epochs_assign, epochs_end_offset, epochs_newest
from bowstring._native.log_files cimport (
    file_release, file_retain, files_open_max, segment_file_detach)
from bowstring._native.log_open cimport log_free, log_open
from bowstring._native.log_producers cimport producers_expire, producers_on_high_watermark
from bowstring._native.log_cold cimport mark_corrupt
from bowstring._native.log_batches cimport copy_batches
from bowstring._native.log_read cimport bytes_between, read_slice
from bowstring._native.log_retention cimport (
    RetiredSegment, log_apply_retention, log_delete_records, log_truncate_fully, log_truncate_to,
    log_unlink_expired)
from bowstring._native.log_roll cimport (
    log_close, log_flush, log_out_of_service, log_roll_now, log_settle_stable, roll_jitter_ms, state_of)
from bowstring._native.log_search cimport search_max_timestamp, search_timestamp
from bowstring._native.log_types cimport KAFKA_STORAGE_ERROR, LogState
from bowstring._native.log_values cimport (
    check, corrupt_of, directory_of, epochs_of, failure_of, producers_of, read_config, segments_of, stats_of)
from bowstring._native.log_values import LogError
from bowstring._native.wal_commit cimport wal_kick

cdef extern from "pthread.h" nogil:
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)

cdef enum:
    CORRUPT_MESSAGE = 2
    RETIRED_AT_ONCE = 256

REASONS = {1: "start-offset", 2: "retention-bytes", 3: "retention-ms"}

# ---------------------------------------------------------------- for the data plane, see log.pxd


cdef void log_append(Log *log, AppendEntry **entries, int32_t n, int32_t leader_epoch, int64_t now_ms) noexcept nogil:
    append_entries(log, entries, n, leader_epoch, now_ms)


cdef int16_t log_read(Log *log, int64_t offset, int64_t limit_offset, int64_t max_bytes, bint min_one,
                      ReadCursor *cursor, LogSlice *out) noexcept nogil:
    return read_slice(log, offset, limit_offset, max_bytes, min_one, cursor, out)


cdef int64_t log_bytes_between(Log *log, int64_t offset, int64_t limit_offset) noexcept nogil:
    return bytes_between(log, offset, limit_offset)


cdef int32_t log_aborted_transactions(Log *log, int64_t from_offset, int64_t to_offset, int64_t *pairs,
                                      int32_t capacity) noexcept nogil:
    cdef int32_t found
    pthread_mutex_lock(&log.lock)
    found = aborted_collect(state_of(log), from_offset, to_offset, pairs, capacity)
    pthread_mutex_unlock(&log.lock)
    return found


cdef bint log_advance_high_watermark(Log *log, int64_t offset) noexcept nogil:
    cdef bint moved
    pthread_mutex_lock(&log.lock)
    if offset > log.log_end_offset:
        offset = log.log_end_offset
    if log.wal != NULL and offset > log.durable_end_offset:
        offset = log.durable_end_offset
    moved = offset > log.high_watermark
    if moved:
        store_i64(&log.high_watermark, offset)
        producers_on_high_watermark(&state_of(log).producers, offset)
        log_settle_stable(log)
    pthread_mutex_unlock(&log.lock)
    return moved


cdef void log_end_offset_for_epoch(Log *log, int32_t epoch, int32_t *found_epoch, int64_t *end_offset) noexcept nogil:
    pthread_mutex_lock(&log.lock)
    epochs_end_offset(&state_of(log).epochs, epoch, log.log_end_offset, found_epoch, end_offset)
    pthread_mutex_unlock(&log.lock)


cdef void log_mark_corrupt(Log *log, int64_t segment_base_offset, int64_t position, int64_t size_bytes) noexcept nogil:
    mark_corrupt(log, segment_base_offset, position, size_bytes)


cdef void segment_file_retain(SegmentFile *file) noexcept nogil:
    file_retain(file)


cdef void segment_file_release(SegmentFile *file) noexcept nogil:
    file_release(file)

# ---------------------------------------------------------------- module settings


def open_files_max(int64_t n):
    """Bounds how many .log files of segments that are not active stay open, over all logs."""
    files_open_max(n)


cdef class PartitionLog:
    """A partition's log, open. All methods may be called from any thread; the GIL is released around I/O.

    Args:
        directory: An existing directory, ``<data>/<topic>-<partition>``. Empty: a new log is made in it.
        config: The fields of LogConfig (log_types.pxd), all of them.
        recovery_point: Offset below which everything is known to be on the medium.
        clean_shutdown: The last user closed the log in order. Else what is not below ``recovery_point`` is
            verified, cut off at the first bad batch, and indexed anew; ``stats()`` tells what was done.
        log_start_offset: As checkpointed; the first segment's base offset counts if it is larger.
        health: Of the log directory that this is in: an I/O error here fails every log of it, and the reverse.

    Raises:
        LogError: KAFKA_STORAGE_ERROR with what could not be read or written.
        ValueError: Settings missing or unknown.
    """

    def __cinit__(self, directory, dict config not None, *, recovery_point=0, clean_shutdown=False,
                  log_start_offset=0, DirectoryHealth health=None):
        cdef bytes path = str(directory).encode("utf-8", "surrogateescape")
        cdef const char *c_path = path
        cdef LogConfig settings = read_config(config)
        cdef int64_t point = recovery_point, start = log_start_offset
        cdef bint clean = clean_shutdown
        cdef int error = 0
        if len(path) > 3900:
            raise ValueError(f"the path of a log directory may have 3900 bytes, not {len(path)}")
        with nogil:
            self.log = log_open(c_path, &settings, point, clean, start, wall_clock_ms(), &error)
        if self.log == NULL:
            raise MemoryError("no memory for a log")
        if health is not None:
            self.health = health
            self.log.directory = &health.directory
            if is_of_directory(error):
                directory_fail(self.log.directory, error, b"opening a log", c_path)
        check(self.log, error)

    def __dealloc__(self):
        if self.log != NULL:
            log_free(self.log)

    def __repr__(self):
        return f"PartitionLog({self.directory!r}, {self.log_start_offset}..{self.log_end_offset})"

    # ------------------------------------------------------------ offsets

    @property
    def directory(self):
        """Where the files are, as of now (see mark_deleted)."""
        return directory_of(self.log)

    @property
    def log_start_offset(self):
        """First offset readers may have."""
        return load_i64(&self.log.log_start_offset)

    @property
    def log_end_offset(self):
        """Offset the next record will get."""
        return load_i64(&self.log.log_end_offset)

    @property
    def high_watermark(self):
        """Offset below which records are committed."""
        return load_i64(&self.log.high_watermark)

    @property
    def last_stable_offset(self):
        """Offset below which every transaction is decided; at most the high watermark."""
        return load_i64(&self.log.last_stable_offset)

    @property
    def size_bytes(self):
        """Of all segments' .log files."""
        return load_i64(&self.log.size_bytes)

    @property
    def leader_epoch(self):
        """The newest epoch in the leader-epoch cache, -1 when there is none."""
        return load_i32(&self.log.leader_epoch)

    @property
    def failed(self):
        """Whether an I/O error, here or elsewhere in its log directory, has closed the log for appends."""
        return log_out_of_service(self.log) != 0

    @property
    def in_commit_mode(self):
        """Whether appends count once a write-ahead log has them on the medium; see log_durability."""
        return self.log.wal != NULL

    def advance_high_watermark(self, int64_t offset):
        """Raises the high watermark, at most to the log end (in commit mode: its durable end); whether it moved."""
        cdef bint moved
        with nogil:
            moved = log_advance_high_watermark(self.log, offset)
        return moved

    # ------------------------------------------------------------ records

    def append(self, batch, int32_t leader_epoch, int64_t now_ms):
        """Appends one encoded record batch and returns its base offset (a duplicate's first one).

        Raises:
            LogError: With the code a produce request would get.
        """
        cdef Py_buffer view
        cdef AppendEntry entry
        cdef AppendEntry *entries = &entry
        PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
        entry.data = <uint8_t *>malloc(<size_t>view.len + 1)
        if entry.data != NULL:
            memcpy(entry.data, view.buf, <size_t>view.len)
        entry.error = batch_parse(entry.data, view.len, &entry.info) if entry.data != NULL else KAFKA_STORAGE_ERROR
        PyBuffer_Release(&view)
        if entry.error == 0 and not batch_crc_ok(entry.data, entry.info.size_bytes):
            entry.error = CORRUPT_MESSAGE
        if entry.error == 0:
            with nogil:
                append_entries(self.log, &entries, 1, leader_epoch, now_ms)
                if self.log.wal != NULL:
                    wal_kick(self.log.wal)
        free(entry.data)
        if entry.error != 0:
            reason = failure_of(self.log) or "the batch does not fit there"
            raise LogError(entry.error, f"nothing was appended to {self.directory}: {reason}")
        return entry.base_offset

    def read(self, int64_t offset, int64_t max_bytes, str limit="high_watermark"):
        """Whole batches from the one that holds ``offset`` on, in at least one batch if there is one.

        Args:
            limit: "high_watermark", "log_end" or "last_stable": what is at or above it is not returned.

        Raises:
            LogError: CORRUPT_MESSAGE when the batch is damaged; what is behind it can be read.
        """
        cdef int64_t limit_offset
        if limit == "high_watermark":
            limit_offset = load_i64(&self.log.high_watermark)
        elif limit == "last_stable":
            limit_offset = load_i64(&self.log.last_stable_offset)
        elif limit == "log_end":
            limit_offset = load_i64(&self.log.log_end_offset)
        else:
            raise ValueError(f"limit must be high_watermark, log_end or last_stable, not {limit!r}")
        return copy_batches(self.log, offset, limit_offset, max_bytes)

    def bytes_between(self, int64_t offset, int64_t limit_offset):
        """Bytes of batches from ``offset`` to ``limit_offset``, give or take an index interval."""
        cdef int64_t n
        with nogil:
            n = bytes_between(self.log, offset, limit_offset)
        return n

    def aborted_transactions(self, int64_t from_offset, int64_t to_offset):
        """(producer id, first offset) of the aborted transactions that touch [from_offset, to_offset)."""
        cdef int64_t[512] few
        cdef int64_t *pairs = few
        cdef int32_t n, i
        n = log_aborted_transactions(self.log, from_offset, to_offset, pairs, 256)
        if n > 256:
            pairs = <int64_t *>malloc(<size_t>n * 16)
            if pairs == NULL:
                raise MemoryError
            n = min(n, log_aborted_transactions(self.log, from_offset, to_offset, pairs, n))
        found = [(pairs[2 * i], pairs[2 * i + 1]) for i in range(n)]
        if pairs != few:
            free(pairs)
        return found

    def offset_for_timestamp(self, int64_t timestamp):
        """(timestamp, offset, leader epoch) of the first record that is not older; None when all are."""
        return search_timestamp(self.log, timestamp)

    def max_timestamp(self):
        """(timestamp, offset, leader epoch) of the first record with the largest timestamp; None if there is none."""
        return search_max_timestamp(self.log)

    # ------------------------------------------------------------ leader epochs

    def end_offset_for_epoch(self, int32_t epoch):
        """(epoch, end offset) of the greatest epoch not above ``epoch``; (-1, -1) when unknown (KIP-101)."""
        cdef int32_t found = -1
        cdef int64_t end_offset = -1
        log_end_offset_for_epoch(self.log, epoch, &found, &end_offset)
        return found, end_offset

    def epoch_for_offset(self, int64_t offset):
        """The leader epoch ``offset`` was or will be written in; -1 when unknown."""
        cdef int32_t epoch
        pthread_mutex_lock(&self.log.lock)
        epoch = epoch_at(&state_of(self.log).epochs, offset)
        pthread_mutex_unlock(&self.log.lock)
        return epoch

    def epochs(self):
        """The leader-epoch cache: [(epoch, start offset)]."""
        return epochs_of(self.log)

    def assign_epoch(self, int32_t epoch, int64_t start_offset):
        """A leader epoch begins. Written to leader-epoch-checkpoint by the next flush or close."""
        cdef bint done
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} from offset {start_offset}: neither may be negative")
        pthread_mutex_lock(&self.log.lock)
        done = epochs_assign(&state_of(self.log).epochs, epoch, start_offset)
        store_i32(&self.log.leader_epoch, epochs_newest(&state_of(self.log).epochs))
        pthread_mutex_unlock(&self.log.lock)
        if not done:
            raise MemoryError("no memory for a leader epoch")

    # ------------------------------------------------------------ producers

    def active_producers(self):
        """[(producer id, epoch, last sequence, last timestamp, coordinator epoch, transaction's first offset)],
        -1 for what there is none of."""
        return producers_of(self.log)

    def expire_producers(self, int64_t now_ms):
        """Forgets producers silent for producer.id.expiration.ms; how many."""
        cdef int32_t n
        with nogil:
            pthread_mutex_lock(&self.log.lock)
            n = producers_expire(&state_of(self.log).producers, now_ms, self.log.config.producer_id_expiration_ms)
            pthread_mutex_unlock(&self.log.lock)
        return n

    # ------------------------------------------------------------ housekeeping

    def configure(self, dict config not None):
        """Puts other settings in force."""
        cdef LogConfig settings = read_config(config)
        with nogil:
            pthread_mutex_lock(&self.log.lock)
            self.log.config = settings
            state_of(self.log).roll_jitter_ms = roll_jitter_ms(self.log)
            pthread_mutex_unlock(&self.log.lock)

    def delete_records(self, int64_t before_offset):
        """Raises the log start to ``before_offset`` (-1: the high watermark) and returns it.

        Raises:
            LogError: OFFSET_OUT_OF_RANGE above the high watermark.
        """
        cdef int16_t error
        with nogil:
            error = log_delete_records(self.log, before_offset)
        if error != 0:
            raise LogError(error, f"records can be deleted up to the high watermark {self.high_watermark} of "
                                  f"{self.directory}, not {before_offset}")
        return self.log_start_offset

    def apply_retention(self, int64_t now_ms):
        """Deletes segments by log start, retention.bytes and retention.ms: [(base offset, reason)].

        Their files are renamed to ``*.deleted`` and unlinked by delete_expired_files(). Reasons: "start-offset",
        "retention-bytes", "retention-ms". Also gives memory back when the log has been quiet since the last call.
        """
        cdef RetiredSegment[256] retired
        cdef int32_t n = RETIRED_AT_ONCE, i
        cdef list found = []
        while n == RETIRED_AT_ONCE:
            with nogil:
                n = log_apply_retention(self.log, now_ms, retired, RETIRED_AT_ONCE)
            check(self.log, n)
            found += [(retired[i].base_offset, REASONS[<int>retired[i].reason]) for i in range(n)]
        return found

    def delete_expired_files(self, int64_t now_ms):
        """Unlinks ``*.deleted`` files whose file.delete.delay.ms is over; how many."""
        cdef int32_t n
        with nogil:
            n = log_unlink_expired(self.log, now_ms)
        return check(self.log, n) or n

    def roll(self):
        """Begins a new segment unless the active one is empty."""
        cdef int error
        with nogil:
            error = log_roll_now(self.log, INT64_MAX)
        check(self.log, error)

    def maybe_roll(self, int64_t now_ms):
        """Begins a new segment if the active one has batches and segment.ms is over by the clock; whether it did."""
        cdef int rolled
        with nogil:
            rolled = log_roll_now(self.log, now_ms)
        check(self.log, rolled)
        return rolled > 0

    def flush(self, *, bint include_active=True):
        """Puts the log on the medium and returns the recovery point: what is below it survives power loss.

        Args:
            include_active: False leaves the active segment out, as Kafka's flush after a roll does.
        """
        cdef int error
        with nogil:
            error = log_flush(self.log, include_active)
        check(self.log, error)
        return state_of(self.log).recovery_point

    @property
    def recovery_point(self):
        """Offset below which everything is on the medium."""
        return load_i64(&state_of(self.log).recovery_point)

    def truncate_to(self, int64_t offset):
        """Makes ``offset`` the log end if it is below it: batches, epochs and producers go back."""
        cdef int error
        if offset < 0:
            raise ValueError(f"a log can't be truncated to {offset}")
        with nogil:
            error = log_truncate_to(self.log, offset, wall_clock_ms())
        check(self.log, error)

    def truncate_fully_and_start_at(self, int64_t offset):
        """Empties the log; it goes on at ``offset``."""
        cdef int error
        if offset < 0:
            raise ValueError(f"a log can't begin at {offset}")
        with nogil:
            error = log_truncate_fully(self.log, offset, wall_clock_ms())
        check(self.log, error)

    def mark_deleted(self, path):
        """The directory has been renamed to ``path`` and will be deleted: reads go on, nothing is written any more.

        No file stays open, or whoever still holds the log would hold their space: a read opens them again.
        """
        cdef bytes name = str(path).encode("utf-8", "surrogateescape")
        cdef char *copy = <char *>malloc(len(name) + 1)
        cdef char *old
        cdef int32_t i
        if copy == NULL:
            raise MemoryError("no memory for a path")
        memcpy(copy, PyBytes_AS_STRING(name), len(name) + 1)
        pthread_mutex_lock(&self.log.lock)
        old = state_of(self.log).directory
        state_of(self.log).directory = copy
        state_of(self.log).deleting = True
        for i in range(state_of(self.log).segment_count):
            segment_file_detach(state_of(self.log).segments[i])
        pthread_mutex_unlock(&self.log.lock)
        free(old)

    def segments(self):
        """[(base offset, bytes, largest timestamp)], the active one last."""
        return segments_of(self.log)

    def corrupt_ranges(self):
        """[(name of the .log file, position, bytes)] of what was found to fail its CRC and is not served."""
        return corrupt_of(self.log)

    def stats(self):
        """Counters since the log was opened, and what opening it had to repair; see log.pyi."""
        return stats_of(self.log)

    def close(self, *, bint sync=True):
        """Writes everything a clean start relies on; appends are refused from now on.

        Args:
            sync: Put it on the medium, too, before a clean-shutdown marker says that it is there.
        """
        cdef int error
        with nogil:
            error = log_close(self.log, sync)
        check(self.log, error)
