"""PartitionLog, the Python class of one partition's log. Native callers use log/__init__.pxd.

Modules of this package. Structures: types.pxd. Files of a directory: segment_files, segment, index, transaction_index,
producer_state, leader_epochs. Operations: append, read, disk_read, timestamp_search, roll, flush, checkpoint, retention,
truncate. Start: loader, directory_listing, recovery, recovery_point, replay, wal_replay. Damage: verify, verified_ranges,
scrub, index_rebuild.

Contents: settings of all logs · offsets · appending and reading · leader epochs · producers · housekeeping.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING
from cython cimport no_gc_clear
from libc.stdint cimport INT64_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from bowstring._native.base.atomics cimport load_i32, load_i64, store_i32
from bowstring._native.base.clock cimport wall_clock_ms
from bowstring._native.base.error_codes cimport CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.directory_health cimport DirectoryHealth, directory_fail, is_of_directory
from bowstring._native.log.append cimport log_append, log_verified, log_verify
from bowstring._native.log.disk_read cimport copy_batches
from bowstring._native.log.flush cimport log_flush
from bowstring._native.log.index cimport indexes_distrusted
from bowstring._native.log.leader_epochs cimport epoch_at, epochs_assign, epochs_newest, log_end_offset_for_epoch
from bowstring._native.log.loader cimport log_free, log_open
from bowstring._native.log.producer_state cimport producers_expire
from bowstring._native.log.python_values cimport (
    check, corrupt_of, directory_of, epochs_of, failure_of, findings_of, producers_of, read_config, segments_of, stats_of)
from bowstring._native.log.read cimport log_bytes_between
from bowstring._native.log.retention cimport RetiredSegment, log_apply_retention, log_delete_records, log_unlink_expired
from bowstring._native.log.roll cimport log_close, log_roll_now, roll_jitter_ms
from bowstring._native.log.segment_files cimport files_open_max, segment_file_detach
from bowstring._native.log.state cimport log_advance_high_watermark
from bowstring._native.log.timestamp_search cimport search_max_timestamp, search_timestamp, timestamps_learn
from bowstring._native.log.transaction_index cimport ABORTED_ALL, AbortedList, log_aborted
from bowstring._native.log.truncate cimport log_truncate_fully, log_truncate_to
from bowstring._native.log.types cimport AppendEntry, LogConfig, lock_with_gil, log_out_of_service, state_of
from bowstring._native.log.verification cimport NOT_VERIFIED
from bowstring._native.record.batch cimport BatchInfo, batch_crc_ok, batch_parse
from bowstring._native.wal.group_commit cimport wal_kick
from bowstring._native.log.python_values import LogError

cdef enum:
    RETIRED_AT_ONCE = 256

REASONS = {1: "start-offset", 2: "retention-bytes", 3: "retention-ms"}

# ---------------------------------------------------------------- module settings


def open_files_max(int64_t n):
    """Sets how many .log files of inactive segments may stay open, over all logs."""
    files_open_max(n)


def distrusted_indexes():
    """Returns how many segments, over all logs, searches have found with a missing or damaged index so far."""
    return indexes_distrusted()


cdef int64_t limit_of(const Log *log, str limit) except -1:
    if limit == "high_watermark":
        return load_i64(&log.high_watermark)
    if limit == "last_stable":
        return load_i64(&log.last_stable_offset)
    if limit == "log_end":
        return load_i64(&log.log_end_offset)
    raise ValueError(f"limit must be high_watermark, log_end or last_stable, not {limit!r}")


# The structs of `health` must outlive those of the log.
@no_gc_clear
cdef class PartitionLog:
    """The open log of a partition. All methods may be called from any thread; the GIL is released around I/O.

    Args:
        directory: An existing directory, ``<data>/<topic>-<partition>``. If it is empty, a new log is created in it.
        config: All the fields of LogConfig (types.pxd).
        recovery_point: Offset below which all records are known to be on the medium.
        clean_shutdown: Whether the log was closed cleanly. If not, batches from ``recovery_point`` on are verified and
            indexed again, and the log is truncated at the first bad one; ``stats()`` counts that work.
        log_start_offset: From the checkpoint; the first segment's base offset replaces it if that is larger.
        health: Health of the log's directory: an I/O error of this log fails all logs of the directory, and theirs fails
            this one.

    Raises:
        LogError: KAFKA_STORAGE_ERROR; the message says which file could not be read or written.
        ValueError: Settings missing or unknown.
    """

    def __cinit__(self, directory, dict config not None, *, recovery_point=0, clean_shutdown=False,
                  log_start_offset=0, DirectoryHealth health=None):
        cdef bytes path
        cdef const char *c_path
        cdef LogConfig settings
        cdef int64_t point = recovery_point, start = log_start_offset
        cdef bint clean = clean_shutdown
        cdef int error = 0
        if directory is None:                            # made by owned()
            return
        path = str(directory).encode("utf-8", "surrogateescape")
        c_path = path
        settings = read_config(config)
        if len(path) > DIRECTORY_MAX_BYTES:
            raise ValueError(f"the path of a log directory may have {DIRECTORY_MAX_BYTES} bytes at most, not {len(path)}")
        with nogil:
            self.log = log_open(c_path, &settings, point, clean, start, wall_clock_ms(), &error)
        if self.log == NULL:
            raise MemoryError("no memory for a log")
        self._join(health, error)

    cdef int _join(self, DirectoryHealth health, int error) except -1:
        """Makes the log one of its directory, and raises the error of opening it."""
        if health is not None:
            self.health = health
            self.log.directory = &health.directory
            if is_of_directory(error):
                directory_fail(self.log.directory, error, b"opening a log", state_of(self.log).directory)
        check(self.log, error)
        return 0

    def __dealloc__(self):
        if self.log != NULL:
            log_free(self.log)

    def __repr__(self):
        return f"PartitionLog({self.directory!r}, {self.log_start_offset}..{self.log_end_offset})"

    # ------------------------------------------------------------ offsets

    @property
    def directory(self):
        """The current path of the directory, which mark_deleted() and moves change."""
        return directory_of(self.log)

    @property
    def log_start_offset(self):
        """The first offset that readers can read."""
        return load_i64(&self.log.log_start_offset)

    @property
    def log_end_offset(self):
        """The offset that the next record gets."""
        return load_i64(&self.log.log_end_offset)

    @property
    def high_watermark(self):
        """Offset below which records are committed."""
        return load_i64(&self.log.high_watermark)

    @property
    def last_stable_offset(self):
        """Offset below which every transaction is committed or aborted; at most the high watermark."""
        return load_i64(&self.log.last_stable_offset)

    @property
    def size_bytes(self):
        """Bytes of the .log files of all segments."""
        return load_i64(&self.log.size_bytes)

    @property
    def leader_epoch(self):
        """The newest epoch in the leader-epoch cache, -1 when there is none."""
        return load_i32(&self.log.leader_epoch)

    @property
    def failed(self):
        """Whether the log refuses appends because of an I/O error in it or elsewhere in its log directory."""
        return log_out_of_service(self.log) != 0

    @property
    def refuses(self):
        """Whether the last append was refused for want of descriptors or memory. Nothing is wrong with the log: the next may
        succeed."""
        return state_of(self.log).refuses != 0

    @property
    def in_commit_mode(self):
        """Whether a write-ahead log makes appends durable before they are acknowledged; see durability.pyx."""
        return self.log.wal != NULL

    def advance_high_watermark(self, int64_t offset):
        """Raises the high watermark, at most to the log end (in commit mode: the durable end). Returns whether it moved."""
        cdef bint moved
        with nogil:
            moved = log_advance_high_watermark(self.log, offset)
        return moved

    # ------------------------------------------------------------ records

    def verify(self, int64_t producer_id, int16_t producer_epoch, *, bint adds, int64_t now_ms,
               int32_t base_sequence=-1):
        """Returns the token for the coordinator's verification of a transactional batch (KIP-890); 0 when its
        transaction is ongoing here.

        Args:
            adds: The partition is added to the transaction, not only looked for in it.
            base_sequence: Of the batch; -1: it has no sequence numbers.
        """
        cdef BatchInfo info
        cdef int64_t token
        memset(&info, 0, sizeof(info))
        info.producer_id = producer_id
        info.producer_epoch = producer_epoch
        info.base_sequence = base_sequence
        with nogil:
            token = log_verify(self.log, &info, adds, now_ms)
        if token < 0:
            raise MemoryError("no memory for a verification")
        return token

    def verified(self, int64_t producer_id, int64_t token):
        """Notes that the answer to :meth:`verify` is here. Call it before the batch is appended or refused."""
        with nogil:
            log_verified(self.log, producer_id, token)

    def append(self, batch, int32_t leader_epoch, int64_t now_ms, *, int64_t verification=NOT_VERIFIED,
               int8_t transaction_version=0):
        """Appends one encoded record batch. Returns its base offset; for a duplicate, that of the stored batch.

        Args:
            verification: Of a transactional batch: what :meth:`verify` returned; -1: not verified.
            transaction_version: Of a transaction marker: that of its coordinator (KIP-890).

        Raises:
            LogError: The batch is refused, with the error code that a produce request gets.
        """
        cdef Py_buffer view
        cdef AppendEntry entry
        cdef AppendEntry *entries = &entry
        PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
        entry.data = <uint8_t *>malloc(<size_t>view.len + 1)
        if entry.data != NULL:
            memcpy(entry.data, view.buf, <size_t>view.len)
        entry.verification = verification
        entry.transaction_version = transaction_version
        entry.error = batch_parse(entry.data, view.len, &entry.info) if entry.data != NULL else KAFKA_STORAGE_ERROR
        PyBuffer_Release(&view)
        if entry.error == 0 and not batch_crc_ok(entry.data, entry.info.size_bytes):
            entry.error = CORRUPT_MESSAGE
        if entry.error == 0:
            with nogil:
                log_append(self.log, &entries, 1, leader_epoch, now_ms)
                if self.log.wal != NULL:
                    wal_kick(self.log.wal)
        free(entry.data)
        if entry.error != 0:
            reason = failure_of(self.log) or "the batch is invalid or does not fit the end of the log"
            raise LogError(entry.error, f"nothing was appended to {self.directory}: {reason}")
        return entry.base_offset

    def read(self, int64_t offset, int64_t max_bytes, str limit="high_watermark"):
        """Returns complete batches from the one with ``offset`` on: at most ``max_bytes``, but at least one batch.

        Args:
            limit: "high_watermark", "log_end" or "last_stable": records at or above it are not returned.

        Raises:
            LogError: CORRUPT_MESSAGE when the batch is damaged; later batches can be read.
        """
        return copy_batches(self.log, offset, limit_of(self.log, limit), max_bytes, True)

    def read_from_memory(self, int64_t offset, int64_t max_bytes, str limit="high_watermark"):
        """As :meth:`read`, without waiting for the disk; None if the records are not in memory."""
        return copy_batches(self.log, offset, limit_of(self.log, limit), max_bytes, False)

    def bytes_between(self, int64_t offset, int64_t limit_offset):
        """Returns the bytes of batches from ``offset`` to ``limit_offset``, with an error of up to an index interval."""
        cdef int64_t n
        with nogil:
            n = log_bytes_between(self.log, offset, limit_offset)
        return n

    def aborted_transactions(self, int64_t from_offset, int64_t to_offset):
        """Returns [(producer id, first offset)] of the aborted transactions that overlap [from_offset, to_offset)."""
        return self.aborted_below(from_offset, to_offset, ABORTED_ALL)[0]

    def aborted_below(self, int64_t from_offset, int64_t to_offset, int32_t most):
        """Returns the aborted transactions that begin first, at most ``most``, and the offset up to which they are complete."""
        cdef AbortedList found
        cdef int status
        cdef int32_t i
        with nogil:
            status = log_aborted(self.log, from_offset, to_offset, most, True, &found)
        try:
            check(self.log, status)
            return [(found.pairs[2 * i], found.pairs[2 * i + 1]) for i in range(found.count)], found.to_offset
        finally:
            free(found.pairs)

    def offset_for_timestamp(self, int64_t timestamp):
        """Returns (timestamp, offset, leader epoch) of the first record at ``timestamp`` or later; None if all are older."""
        return search_timestamp(self.log, timestamp)

    def max_timestamp(self):
        """Returns (timestamp, offset, leader epoch) of the first record with the largest timestamp; None if the log is empty."""
        return search_max_timestamp(self.log)

    # ------------------------------------------------------------ leader epochs

    def end_offset_for_epoch(self, int32_t epoch):
        """Returns (epoch, end offset) of the greatest epoch not above ``epoch``; (-1, -1) when unknown (KIP-101)."""
        cdef int32_t found = -1
        cdef int64_t end_offset = -1
        with nogil:
            log_end_offset_for_epoch(self.log, epoch, &found, &end_offset)
        return found, end_offset

    def epoch_for_offset(self, int64_t offset):
        """Returns the leader epoch in which ``offset`` was or will be written; -1 when unknown."""
        cdef int32_t epoch
        lock_with_gil(self.log)
        epoch = epoch_at(&state_of(self.log).epochs, offset)
        pthread_mutex_unlock(&self.log.lock)
        return epoch

    def epochs(self):
        """Returns the leader-epoch cache: [(epoch, start offset)]."""
        return epochs_of(self.log)

    def assign_epoch(self, int32_t epoch, int64_t start_offset):
        """Records that a leader epoch begins. The next flush or close writes it to leader-epoch-checkpoint.

        Raises:
            ValueError: The epoch or the offset is negative.
        """
        cdef bint done
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} and start offset {start_offset} must not be negative")
        lock_with_gil(self.log)
        done = epochs_assign(&state_of(self.log).epochs, epoch, start_offset)
        store_i32(&self.log.leader_epoch, epochs_newest(&state_of(self.log).epochs))
        pthread_mutex_unlock(&self.log.lock)
        if not done:
            raise MemoryError("no memory for a leader epoch")

    # ------------------------------------------------------------ producers

    def active_producers(self):
        """Returns [(producer id, epoch, last sequence, last timestamp, coordinator epoch, transaction's first offset)],
        with -1 for missing values."""
        return producers_of(self.log)

    def expire_producers(self, int64_t now_ms):
        """Removes producers that wrote nothing for producer.id.expiration.ms. Returns their number."""
        cdef int32_t n
        with nogil:
            pthread_mutex_lock(&self.log.lock)
            n = producers_expire(&state_of(self.log).producers, now_ms, self.log.config.producer_id_expiration_ms)
            pthread_mutex_unlock(&self.log.lock)
        return n

    # ------------------------------------------------------------ housekeeping

    def configure(self, dict config not None):
        """Replaces all settings of the log; ``config`` is as for the constructor."""
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
        """Deletes segments by log start, retention.bytes and retention.ms. Returns [(base offset, reason)].

        Their files are renamed to ``*.deleted`` and unlinked by delete_expired_files(). Reasons: "start-offset",
        "retention-bytes", "retention-ms". Also frees memory of a log without appends since the last call.
        """
        cdef RetiredSegment[RETIRED_AT_ONCE] retired
        cdef int32_t n = RETIRED_AT_ONCE, i
        cdef list found = []
        while n == RETIRED_AT_ONCE:
            with nogil:
                n = log_apply_retention(self.log, now_ms, retired, RETIRED_AT_ONCE)
            check(self.log, n)
            found += [(retired[i].base_offset, REASONS[<int>retired[i].reason]) for i in range(n)]
        return found

    def delete_expired_files(self, int64_t now_ms):
        """Unlinks ``*.deleted`` files whose file.delete.delay.ms has passed. Returns their number."""
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
        """Begins a new segment if the active one has batches and is older than segment.ms. Returns whether it did."""
        cdef int rolled
        with nogil:
            rolled = log_roll_now(self.log, now_ms)
        check(self.log, rolled)
        return rolled > 0

    def flush(self, *, bint include_active=True):
        """Syncs the log and returns the recovery point: records below it survive power loss.

        Args:
            include_active: False skips the active segment, like Kafka's flush after a roll.
        """
        cdef int error
        with nogil:
            error = log_flush(self.log, include_active)
        check(self.log, error)
        return load_i64(&state_of(self.log).recovery_point)

    @property
    def recovery_point(self):
        """Returns the offset below which all records are on the medium."""
        return load_i64(&state_of(self.log).recovery_point)

    def truncate_to(self, int64_t offset):
        """Truncates the log to ``offset`` if that is below the log end: removes later batches, epochs and producer state."""
        cdef int error
        if offset < 0:
            raise ValueError(f"a log can't be truncated to the negative offset {offset}")
        with nogil:
            error = log_truncate_to(self.log, offset, wall_clock_ms())
        check(self.log, error)

    def truncate_fully_and_start_at(self, int64_t offset):
        """Empties the log; the next record gets ``offset``."""
        cdef int error
        if offset < 0:
            raise ValueError(f"a log can't begin at the negative offset {offset}")
        with nogil:
            error = log_truncate_fully(self.log, offset, wall_clock_ms())
        check(self.log, error)

    def mark_deleted(self, path):
        """Records that the directory was renamed to ``path`` and will be deleted: reads continue, writes end.

        Closes all files, because open files would keep their disk space as long as the log is referenced. Reads open them
        again.
        """
        cdef bytes name = str(path).encode("utf-8", "surrogateescape")
        cdef char *copy = <char *>malloc(len(name) + 1)
        cdef char *old
        cdef int32_t i
        if copy == NULL:
            raise MemoryError("no memory for a path")
        memcpy(copy, PyBytes_AS_STRING(name), len(name) + 1)
        lock_with_gil(self.log)
        old = state_of(self.log).directory
        state_of(self.log).directory = copy
        state_of(self.log).deleting = True
        for i in range(state_of(self.log).segment_count):
            segment_file_detach(state_of(self.log).segments[i])
        pthread_mutex_unlock(&self.log.lock)
        free(old)

    def segments(self):
        """Returns [(base offset, bytes, largest timestamp)] of the segments, the active one last."""
        with nogil:
            timestamps_learn(self.log, INT64_MAX)
        return segments_of(self.log)

    def corrupt_ranges(self):
        """Returns [(name of the .log file, position, bytes)] of ranges that fail their CRC and are not served."""
        return corrupt_of(self.log)

    def take_findings(self):
        """Returns the damage found while the log was opened, in that order, as dicts (see partition_log.pyi). A second call
        returns nothing."""
        return findings_of(self.log)

    def stats(self):
        """Returns counters since the log was opened, and of the repairs that opening made; see partition_log.pyi."""
        return stats_of(self.log)

    def close(self, *, bint sync=True):
        """Writes all files that a clean start relies on. The log then refuses appends.

        Args:
            sync: Also sync the files, which must happen before a clean-shutdown marker is written.
        """
        cdef int error
        with nogil:
            error = log_close(self.log, sync)
        check(self.log, error)


cdef PartitionLog owned(Log *log, DirectoryHealth health, int error):
    cdef PartitionLog made = PartitionLog.__new__(PartitionLog, None, {})
    made.log = log
    made._join(health, error)
    return made
