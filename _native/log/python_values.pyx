"""Converts between Python and a log, see python_values.pxd."""
from libc.errno cimport EMFILE, ENFILE, ENOSPC, EOPNOTSUPP
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, strerror
from bowstring._native.base.atomics cimport load_i32, load_i64
from bowstring._native.base.errno cimport EDQUOT
from bowstring._native.base.error_codes cimport KAFKA_STORAGE_ERROR
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.log.segment cimport segment_largest_timestamp
from bowstring._native.log.types cimport (
    REMEMBERED_BATCHES, ByteRange, DeletedFile, EpochEntry, LogFinding, LogState, Producer, Producers, Segment, lock_with_gil,
    state_of)
from bowstring._native.log.verify cimport findings_free

class LogError(Exception):
    """An operation of a log failed. ``code`` is the Kafka error code; ``message`` names the operation and the directory."""

    def __init__(self, code, message):
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self):
        return f"{self.message} (Kafka error {self.code})"


CONFIG_FIELDS = (
    "segment_bytes", "segment_ms", "segment_jitter_ms", "segment_index_bytes", "index_interval_bytes",
    "max_message_bytes", "max_decompressed_message_bytes", "retention_ms", "retention_bytes", "file_delete_delay_ms", "timestamp_before_max_ms",
    "timestamp_after_max_ms", "producer_id_expiration_ms", "flush_messages", "flush_ms", "log_append_time",
    "compacted", "delete_enabled", "compression", "schemas",
)


cdef LogConfig read_config(dict values) except *:
    cdef LogConfig c
    missing = [name for name in CONFIG_FIELDS if name not in values]
    unknown = [name for name in values if name not in CONFIG_FIELDS]
    if missing or unknown:
        raise ValueError(f"log settings missing: {missing}, unknown: {unknown}")
    c.segment_bytes = values["segment_bytes"]
    c.segment_ms = values["segment_ms"]
    c.segment_jitter_ms = values["segment_jitter_ms"]
    c.segment_index_bytes = values["segment_index_bytes"]
    c.index_interval_bytes = values["index_interval_bytes"]
    c.max_message_bytes = values["max_message_bytes"]
    c.max_decompressed_message_bytes = values["max_decompressed_message_bytes"]
    c.retention_ms = values["retention_ms"]
    c.retention_bytes = values["retention_bytes"]
    c.file_delete_delay_ms = values["file_delete_delay_ms"]
    c.timestamp_before_max_ms = values["timestamp_before_max_ms"]
    c.timestamp_after_max_ms = values["timestamp_after_max_ms"]
    c.producer_id_expiration_ms = values["producer_id_expiration_ms"]
    c.flush_messages = values["flush_messages"]
    c.flush_ms = values["flush_ms"]
    c.log_append_time = values["log_append_time"]
    c.compacted = values["compacted"]
    c.delete_enabled = values["delete_enabled"]
    c.compression = values["compression"]
    c.schemas = values["schemas"]
    if not 0 < c.segment_bytes <= 0x7FFFFFFF:
        raise ValueError(f"segment_bytes must lie in [1, 2147483647], not {c.segment_bytes}")
    return c

# ---------------------------------------------------------------- errors


cdef object directory_of(Log *log):
    cdef bytes path
    lock_with_gil(log)
    path = state_of(log).directory
    pthread_mutex_unlock(&log.lock)
    return path.decode("utf-8", "surrogateescape")


cdef str doing_of(LogState *state):
    return state.failed_doing.decode() if state.failed_doing != NULL else "reading or writing the log"


cdef object failure_of(Log *log):
    cdef LogState *state = state_of(log)
    if not load_i32(&log.failed):
        if log.directory == NULL or load_i32(&log.directory.failed) != 1:
            return None
        return (f"its log directory is out of service: {(<bytes>log.directory.doing).decode('utf-8', 'replace')} in "
                f"{(<bytes>log.directory.where).decode('utf-8', 'replace')} failed: "
                f"{(<bytes>strerror(log.directory.error)).decode()}")
    return f"{doing_of(state)}: {(<bytes>strerror(state.failed_errno)).decode()}"


cdef str cure_of(int error):
    if error in (ENOSPC, EDQUOT):
        return "; the file system or a quota of it is full: free space there, or enlarge it, and try again"
    if error in (EMFILE, ENFILE):
        return "; raise the limit on open files (ulimit -n, LimitNOFILE of systemd, fs.file-max of the system)"
    return ""


cdef int check(Log *log, int error) except -1:
    if error >= 0:
        return 0
    directory = directory_of(log)
    if error == -EOPNOTSUPP:
        raise LogError(KAFKA_STORAGE_ERROR, f"{directory} has messages of format 0 or 1, which Kafka 4 no longer "
                                            "writes; read and write them again with Kafka 3")
    raise LogError(KAFKA_STORAGE_ERROR,
                   f"{doing_of(state_of(log))} failed in {directory}: {(<bytes>strerror(-error)).decode()}"
                   + cure_of(-error))

# ---------------------------------------------------------------- lists and statistics
#
# Values are copied under the lock, and objects are created without it: creating an object may run other Python code,
# which may take the lock.


cdef list epochs_of(Log *log):
    cdef LogState *state = state_of(log)
    cdef EpochEntry *copy
    cdef int32_t i, n
    lock_with_gil(log)
    n = state.epochs.count
    copy = <EpochEntry *>malloc((n + 1) * sizeof(EpochEntry))
    if copy != NULL and n > 0:
        memcpy(copy, state.epochs.entries, n * sizeof(EpochEntry))
    pthread_mutex_unlock(&log.lock)
    if copy == NULL:
        raise MemoryError
    try:
        return [(copy[i].epoch, copy[i].start_offset) for i in range(n)]
    finally:
        free(copy)


cdef tuple producer_tuple(const Producer *p):
    cdef int newest = (p.oldest + p.batch_count - 1) % REMEMBERED_BATCHES
    return (p.producer_id, p.epoch, p.batches[newest].last_sequence if p.batch_count else -1, p.last_timestamp,
            p.coordinator_epoch, p.txn_first_offset)


cdef int32_t copy_producers(Log *log, Producer **copy) noexcept nogil:
    cdef Producers *producers = &state_of(log).producers
    cdef uint32_t i
    cdef int32_t n = 0
    pthread_mutex_lock(&log.lock)
    copy[0] = <Producer *>malloc((producers.count + 1) * sizeof(Producer))
    for i in range(producers.mask + 1 if producers.table != NULL and copy[0] != NULL else 0):
        if producers.table[i] != NULL:
            copy[0][n] = producers.table[i][0]
            n += 1
    pthread_mutex_unlock(&log.lock)
    return n


cdef list producers_of(Log *log):
    cdef Producer *copy = NULL
    cdef int32_t i, n
    with nogil:
        n = copy_producers(log, &copy)
    if copy == NULL:
        raise MemoryError
    try:
        return sorted([producer_tuple(&copy[i]) for i in range(n)])
    finally:
        free(copy)


cdef list segments_of(Log *log):
    cdef LogState *state = state_of(log)
    cdef Segment *copy
    cdef int32_t i, n
    lock_with_gil(log)
    n = state.segment_count
    copy = <Segment *>malloc(n * sizeof(Segment))
    for i in range(n if copy != NULL else 0):
        segment_largest_timestamp(state, state.segments[i])
        copy[i] = state.segments[i][0]
    pthread_mutex_unlock(&log.lock)
    if copy == NULL:
        raise MemoryError
    try:
        return [(copy[i].base_offset, copy[i].size_bytes, copy[i].largest_timestamp) for i in range(n)]
    finally:
        free(copy)


cdef struct CorruptPlace:
    int64_t segment_base_offset
    ByteRange range


cdef int32_t copy_corrupt(Log *log, CorruptPlace **copy) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef int32_t i, k, n = 0
    pthread_mutex_lock(&log.lock)
    for i in range(state.segment_count):
        n += state.segments[i].corrupt_count
    copy[0] = <CorruptPlace *>malloc((n + 1) * sizeof(CorruptPlace))
    n = 0
    for i in range(state.segment_count if copy[0] != NULL else 0):
        for k in range(state.segments[i].corrupt_count):
            copy[0][n].segment_base_offset = state.segments[i].base_offset
            copy[0][n].range = state.segments[i].corrupt[k]
            n += 1
    pthread_mutex_unlock(&log.lock)
    return n


cdef list corrupt_of(Log *log):
    cdef CorruptPlace *copy = NULL
    cdef int32_t i, n
    with nogil:
        n = copy_corrupt(log, &copy)
    if copy == NULL:
        raise MemoryError
    try:
        return [(f"{copy[i].segment_base_offset:020d}.log", copy[i].range.start,
                 copy[i].range.end - copy[i].range.start) for i in range(n)]
    finally:
        free(copy)


cdef dict finding_dict(const LogFinding *finding):
    return {
        "what": finding.what.decode(),
        "file": f"{finding.base_offset:020d}{finding.suffix.decode()}" if finding.suffix != NULL else None,
        "position": finding.position,
        "size_bytes": finding.size_bytes,
        "first_offset": finding.first_offset,
        "end_offset": finding.end_offset,
        "out_of_service": bool(finding.out_of_service),
    }


cdef list findings_of(Log *log):
    cdef LogState holder
    cdef const LogFinding *finding
    cdef list found = []
    lock_with_gil(log)
    holder.findings = state_of(log).findings
    state_of(log).findings = NULL
    pthread_mutex_unlock(&log.lock)
    try:
        finding = holder.findings
        while finding != NULL:
            found.append(finding_dict(finding))
            finding = finding.next
    finally:
        findings_free(&holder)
    found.reverse()
    return found


cdef dict stats_of(Log *log):
    cdef LogState state
    cdef DeletedFile *deleted
    cdef int deleted_files = 0
    cdef int32_t corrupt_ranges = 0, i
    lock_with_gil(log)
    state = state_of(log)[0]
    for i in range(state.segment_count):
        corrupt_ranges += state.segments[i].corrupt_count
    deleted = state.deleted
    while deleted != NULL:
        deleted_files += 1
        deleted = deleted.next
    pthread_mutex_unlock(&log.lock)
    return {
        "appended_batches": load_i64(&log.appended_batches),
        "appended_records": load_i64(&log.appended_records),
        "appended_bytes": load_i64(&log.appended_bytes),
        "size_bytes": load_i64(&log.size_bytes),
        "segments": state.segment_count,
        "producers": state.producers.count,
        "ongoing_transactions": state.producers.ongoing.count,
        "recovery_point": state.recovery_point,
        "truncations": load_i64(&log.truncations),
        "deleted_files": deleted_files,
        "recovered_segments": state.recovered_segments,
        "recovered_bytes": state.recovered_bytes,
        "truncated_bytes": state.truncated_bytes,
        "rebuilt_indexes": state.rebuilt_indexes,
        "dropped_segments": state.dropped_segments,
        "corrupt_ranges": corrupt_ranges,
        "failure": failure_of(log),
    }
