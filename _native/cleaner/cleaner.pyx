"""Log compaction (KIP-58, KIP-354, KIP-534): one run of the cleaner over one log.

First pass: stores each key of the dirty part with its newest offset in a table of limited size (offset_map). Second
pass: reads segments from the beginning of the log and writes them again without superseded records (filter, output),
several small segments into one; each new segment replaces its sources (swap). Offsets and order never change, readers
continue meanwhile, and a batch that loses no record is copied byte for byte. Takes the GIL for compressed batches only.

Contents: planning · first pass · second pass · for Python (IoThrottle, Cleaning, segment_facts).
"""
from cpython.ref cimport Py_DECREF
from libc.errno cimport EBADMSG, EMSGSIZE, ENOMEM, ENOSPC
from libc.math cimport INFINITY
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memset, strdup, strerror
from bowstring._native.base.atomics cimport store_i32
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.base.errno cimport ECANCELED
from bowstring._native.base.error_codes cimport INVALID_RECORD, KAFKA_STORAGE_ERROR
from bowstring._native.base.pthread cimport (
    pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock)
from bowstring._native.base.wire cimport writer_free
from bowstring._native.cleaner.filter cimport filter_batch, map_batch
from bowstring._native.cleaner.input cimport input_next, input_start, run_check, source_file
from bowstring._native.cleaner.offset_map cimport keymap_close, keymap_open
from bowstring._native.cleaner.output cimport output_discard, output_finish, output_open, run_path
from bowstring._native.cleaner.swap cimport swap_in
from bowstring._native.cleaner.transactions cimport transactions_clear, transactions_load
from bowstring._native.cleaner.types cimport LastData, Source
from bowstring._native.disk.file_ops cimport PATH_BYTES, file_ops
from bowstring._native.log cimport (
    REMEMBERED_BATCHES, LogState, Producer, Producers, SegmentFile, first_timestamps_learn, last_offset_of,
    lock_with_gil, offset_index_floor, segment_file_release, segment_first_timestamp, segment_floor, state_of)
from bowstring._native.record.batch cimport BatchInfo
from bowstring._native.log.python_values import LogError

cdef enum:
    LEAST_IO_BYTES = 65536
    TABLE_TOO_SMALL = -1000001      # not an errno

# ---------------------------------------------------------------- planning


cdef int plan(CleanRun *run) noexcept nogil:
    """Collects the segments that may be cleaned: not the active one, and none with offsets that are not stable."""
    cdef LogState *state = state_of(run.log)
    cdef int64_t limit = run.first_uncleanable_offset
    cdef int32_t i
    cdef int error = 0
    pthread_mutex_lock(&run.log.lock)
    run.truncations = run.log.truncations
    run.directory = strdup(state.directory)
    run.sources = <Source *>calloc(state.segment_count, sizeof(Source))
    if limit > run.log.last_stable_offset:
        limit = run.log.last_stable_offset
    run.high_watermark = run.log.high_watermark
    run.first_uncleanable_offset = state.segments[0].base_offset
    if run.directory == NULL or run.sources == NULL:
        error = -ENOMEM
    elif run_check(run) != 0:
        error = -ECANCELED
    else:
        for i in range(state.segment_count - 1):
            if state.segments[i + 1].base_offset > limit or state.segments[i].swapping:
                break
            run.sources[i].base_offset = state.segments[i].base_offset
            run.sources[i].size_bytes = state.segments[i].size_bytes
            run.source_count = i + 1
            run.first_uncleanable_offset = state.segments[i + 1].base_offset
        if run.source_count > 0:
            error = transactions_load(
                &run.transactions, state, run.first_dirty_offset, run.first_uncleanable_offset)
    pthread_mutex_unlock(&run.log.lock)
    return error


cdef int plan_second_pass(CleanRun *run) noexcept nogil:
    """Drops sources that the map does not cover, reads index sizes, and restarts the transactions."""
    cdef LogState *state = state_of(run.log)
    cdef char[PATH_BYTES] path
    cdef int32_t i
    cdef int error
    while run.source_count > 0 and run.sources[run.source_count - 1].base_offset > run.latest_offset:
        run.source_count -= 1
    for i in range(run.source_count):
        # A missing index counts as empty.
        file_ops.stat_path(run_path(path, run, run.sources[i].base_offset, b".index"), &run.sources[i].index_bytes)
        file_ops.stat_path(
            run_path(path, run, run.sources[i].base_offset, b".timeindex"), &run.sources[i].time_index_bytes)
    transactions_clear(&run.transactions)
    if run.source_count == 0:
        return 0
    pthread_mutex_lock(&run.log.lock)
    error = run_check(run)
    if error == 0:
        error = transactions_load(
            &run.transactions, state, run.sources[0].base_offset, run.first_uncleanable_offset)
    pthread_mutex_unlock(&run.log.lock)
    return error


cdef int32_t group_size(const CleanRun *run, int32_t first) noexcept nogil:
    """Returns how many sources from `first` on fit into one segment by segment.bytes, segment.index.bytes, and the range of
    offsets in an index."""
    cdef const Source *s = run.sources
    cdef int64_t size_bytes = s[first].size_bytes
    cdef int64_t index_bytes = s[first].index_bytes
    cdef int64_t time_index_bytes = s[first].time_index_bytes
    cdef int64_t end_offset
    cdef int32_t i = first + 1
    while i < run.source_count:
        end_offset = s[i + 1].base_offset if i + 1 < run.source_count else run.first_uncleanable_offset
        if size_bytes + s[i].size_bytes > run.log.config.segment_bytes \
                or index_bytes + s[i].index_bytes > run.log.config.segment_index_bytes \
                or time_index_bytes + s[i].time_index_bytes > run.log.config.segment_index_bytes:
            break
        if s[i].size_bytes > 0 and end_offset - 1 - s[first].base_offset > INT32_MAX:
            break
        size_bytes += s[i].size_bytes
        index_bytes += s[i].index_bytes
        time_index_bytes += s[i].time_index_bytes
        i += 1
    return i - first


cdef int by_producer_id(const void *a, const void *b) noexcept nogil:
    cdef int64_t x = (<const LastData *>a).producer_id, y = (<const LastData *>b).producer_id
    return (x > y) - (x < y)


cdef int load_producers(CleanRun *run) noexcept nogil:
    """Copies the last batch of each producer that the log remembers."""
    cdef Producers *producers = &state_of(run.log).producers
    cdef const Producer *p
    cdef uint32_t i
    cdef int32_t n = 0
    free(run.producers)
    run.producers = NULL
    run.producer_count = 0
    pthread_mutex_lock(&run.log.lock)
    if producers.count > 0:
        run.producers = <LastData *>malloc(producers.count * sizeof(LastData))
        for i in range(producers.mask + 1 if run.producers != NULL else 0):
            p = producers.table[i]
            if p != NULL:
                run.producers[n].producer_id = p.producer_id
                run.producers[n].epoch = p.epoch
                run.producers[n].last_offset = -1
                if p.batch_count > 0:
                    run.producers[n].last_offset = p.batches[
                        (p.oldest + p.batch_count - 1) % REMEMBERED_BATCHES].last_offset
                n += 1
    pthread_mutex_unlock(&run.log.lock)
    if producers.count > 0 and run.producers == NULL:
        return -ENOMEM
    run.producer_count = n
    if n > 1:
        qsort(run.producers, n, sizeof(LastData), &by_producer_id)
    return 0

# ---------------------------------------------------------------- first pass


cdef int64_t dirty_position(CleanRun *run, int32_t source) noexcept nogil:
    cdef LogState *state = state_of(run.log)
    cdef int64_t position = 0, unused = 0
    cdef int32_t i
    if run.sources[source].base_offset < run.first_dirty_offset:
        pthread_mutex_lock(&run.log.lock)
        i = segment_floor(state, run.sources[source].base_offset)
        if i >= 0 and state.segments[i].base_offset == run.sources[source].base_offset:
            position = offset_index_floor(state, state.segments[i], run.first_dirty_offset, &unused)
        pthread_mutex_unlock(&run.log.lock)
    return position


cdef int map_source(CleanRun *run, int32_t source) noexcept nogil:
    """Enters the keys of a source: 1, 0 when the table is full, or a negated errno."""
    cdef const uint8_t *batch = NULL
    cdef BatchInfo info
    cdef int error = 0, found
    cdef SegmentFile *file = source_file(run, source, &error)
    if file == NULL:
        return error
    error = input_start(run, source, file.fd, dirty_position(run, source))
    found = 1
    while error == 0 and found > 0:
        found = input_next(run, &batch, &info)
        if found <= 0:
            error = found
        elif last_offset_of(&info) >= run.first_dirty_offset:
            found = map_batch(run, batch, &info)
            error = found if found < 0 else 0
            if found == 0:
                segment_file_release(file)
                return 0
            if error == 0:
                run.latest_offset = last_offset_of(&info)
    segment_file_release(file)
    return error if error != 0 else 1


cdef int build_map(CleanRun *run) noexcept nogil:
    cdef int64_t end_offset
    cdef int32_t i
    cdef int found = 1
    cdef int error = keymap_open(&run.map, run.dedupe_bytes, run.load_factor,
                                 run.first_uncleanable_offset - run.first_dirty_offset)
    run.latest_offset = -1
    if error != 0:
        return error
    for i in range(run.source_count):
        end_offset = run.sources[i + 1].base_offset if i + 1 < run.source_count else run.first_uncleanable_offset
        if end_offset <= run.first_dirty_offset:
            continue
        found = map_source(run, i)
        if found < 0:
            return found
        if found == 0:
            break
        if end_offset - 1 > run.latest_offset:
            run.latest_offset = end_offset - 1
    return TABLE_TOO_SMALL if found == 0 and run.latest_offset < 0 else 0

# ---------------------------------------------------------------- second pass


cdef int filter_source(CleanRun *run, int32_t source, int64_t *modified_ms) noexcept nogil:
    cdef const uint8_t *batch = NULL
    cdef BatchInfo info
    cdef int64_t size_bytes = 0
    cdef int error = 0, found = 1
    cdef SegmentFile *file = source_file(run, source, &error)
    if file == NULL:
        return error
    error = file_ops.stat(file.fd, &size_bytes, modified_ms)
    if error == 0:
        error = input_start(run, source, file.fd, 0)
    while error == 0 and found > 0:
        found = input_next(run, &batch, &info)
        error = found if found <= 0 else filter_batch(run, batch, &info)
    segment_file_release(file)
    return error


cdef int clean_group(CleanRun *run, int32_t first, int32_t n) noexcept nogil:
    cdef int64_t modified_ms = 0
    cdef int32_t i
    cdef int error = load_producers(run)
    if error == 0:
        error = output_open(run, run.sources[first].base_offset)
    if error != 0:
        return error
    for i in range(first, first + n):
        if error == 0:
            error = filter_source(run, i, &modified_ms)
    if error == 0:
        error = output_finish(run, modified_ms)
    if error != 0:
        output_discard(run)
        return error
    return swap_in(run, first, n)


cdef int clean(CleanRun *run) noexcept nogil:
    cdef int64_t started_ns = monotonic_ns()
    cdef int32_t first = 0, n
    cdef int error = plan(run)
    if error == 0 and run.first_uncleanable_offset > run.first_dirty_offset:
        error = build_map(run)
        run.counters.mapped_ns = monotonic_ns() - started_ns
        if error == 0:
            error = plan_second_pass(run)
        while error == 0 and first < run.source_count:
            n = group_size(run, first)
            error = clean_group(run, first, n)
            first += n
    else:
        run.latest_offset = run.first_dirty_offset - 1
    return error


cdef void run_free(CleanRun *run) noexcept:
    keymap_close(&run.map)
    transactions_clear(&run.transactions)
    free(run.directory)
    free(run.sources)
    free(run.producers)
    free(run.input.data)
    free(run.kept.spans)
    free(run.output.aborted.items)
    writer_free(&run.output.data)
    writer_free(&run.output.offset_entries)
    writer_free(&run.output.time_entries)
    writer_free(&run.scratch)
    if run.plain != NULL:
        Py_DECREF(<object>run.plain)
    memset(run, 0, sizeof(CleanRun))
    run.output.fd = -1

# ---------------------------------------------------------------- for Python


class CleaningStopped(Exception):
    """The run was stopped, or the log was truncated, deleted or shortened meanwhile. No record is lost; segments that were
    already swapped in stay."""


class UncleanableLog(Exception):
    """The log cannot be cleaned; the message names the file, the position and the reason."""


cdef class IoThrottle:
    """Limits the bytes per second that all runs together read and write.

    Args:
        bytes_per_second: The limit; infinity for none.
    """

    def __cinit__(self, double bytes_per_second=INFINITY):
        pthread_mutex_init(&self.throttle.lock, NULL)
        self.throttle.bytes_per_second = bytes_per_second
        self.throttle.next_ns = 0

    def __dealloc__(self):
        pthread_mutex_destroy(&self.throttle.lock)

    @property
    def bytes_per_second(self):
        """The limit; it may change while runs are in progress."""
        return self.throttle.bytes_per_second

    @bytes_per_second.setter
    def bytes_per_second(self, double value):
        if not value > 0:
            raise ValueError(f"bytes_per_second is {value}, it must be greater than 0")
        pthread_mutex_lock(&self.throttle.lock)
        self.throttle.bytes_per_second = value
        pthread_mutex_unlock(&self.throttle.lock)


cdef class Cleaning:
    """One run over one log. Call `run` once; call `stop` from any thread.

    Args:
        log: The log. It may be appended to, read, truncated and deleted meanwhile.
        first_dirty_offset: Where the last run ended; below it no key occurs twice.
        first_uncleanable_offset: Where this run must end at the latest. It never cleans the active segment, records above
            the last stable offset, or a segment that contains this offset.
        now_ms: Wall clock, for delete horizons.
        delete_retention_ms: How long tombstones and markers are kept once they could be deleted (delete.retention.ms).
        dedupe_bytes: Most bytes of the key table.
        load_factor: Largest share of used slots in the table.
        io_bytes: Bytes of one read and one write; a larger batch needs a buffer of its size.
        throttle: Limit on the speed, shared by several runs.
    """

    def __cinit__(self, PartitionLog log not None, *, int64_t first_dirty_offset, int64_t first_uncleanable_offset,
                  int64_t now_ms, int64_t delete_retention_ms, int64_t dedupe_bytes=128 << 20,
                  double load_factor=0.9, int64_t io_bytes=256 << 10, IoThrottle throttle=None):
        memset(&self.run_state, 0, sizeof(CleanRun))
        self.run_state.output.fd = -1
        if not 0 < load_factor <= 1:
            raise ValueError(f"load_factor is {load_factor}, it must be greater than 0 and at most 1")
        self.log = log
        self.throttle = throttle
        self.run_state.log = log.log
        self.run_state.throttle = &throttle.throttle if throttle is not None else NULL
        self.run_state.first_dirty_offset = first_dirty_offset
        self.run_state.first_uncleanable_offset = first_uncleanable_offset
        self.run_state.now_ms = now_ms
        self.run_state.delete_retention_ms = delete_retention_ms
        self.run_state.dedupe_bytes = dedupe_bytes
        self.run_state.load_factor = load_factor
        self.run_state.io_bytes = max(io_bytes, <int64_t>LEAST_IO_BYTES)

    def __dealloc__(self):
        run_free(&self.run_state)

    def stop(self):
        """Makes `run` raise CleaningStopped soon, unless it ends before."""
        store_i32(&self.run_state.stopped, 1)

    def end_at(self, int64_t offset):
        """Excludes ``offset`` and later offsets from the run. Call it before `run`."""
        if offset < self.run_state.first_uncleanable_offset:
            self.run_state.first_uncleanable_offset = offset

    def run(self):
        """Cleans the log. Returns counters, and ``end_offset``, where the next run's dirty part begins.

        Raises:
            CleaningStopped: The run was stopped, or the log changed in a way that ends the run.
            UncleanableLog: A batch is corrupt, or the table is too small for a single batch.
            LogError: The device failed, or is full.
        """
        cdef CleanRun *state = &self.run_state
        cdef int error
        if state.log == NULL:
            raise ValueError("a Cleaning can run only once; create another one")
        with nogil:
            error = clean(state)
        try:
            if error != 0:
                raise failure(state, error)
            return figures(state)
        finally:
            run_free(state)


cdef dict figures(const CleanRun *run):
    return {
        "end_offset": run.latest_offset + 1,
        "map_records": run.counters.map_records,
        "map_bytes": run.counters.map_bytes,
        "map_seconds": run.counters.mapped_ns / 1e9,
        "map_keys": run.map.count,
        "map_utilization": run.map.count / <double>run.map.slots if run.map.slots else 0.0,
        "read_records": run.counters.read_records,
        "read_bytes": run.counters.read_bytes,
        "written_records": run.counters.written_records,
        "written_bytes": run.counters.written_bytes,
        "keyless_records": run.counters.keyless_records,
        "removed_segments": run.counters.removed_segments,
    }


cdef object failure(const CleanRun *run, int error):
    directory = run.directory.decode("utf-8", "surrogateescape") if run.directory != NULL else "the log"
    if error == -ECANCELED:
        return CleaningStopped(f"the compaction of {directory} was stopped")
    if error == -EBADMSG and run.reason != NULL:
        return UncleanableLog(
            f"{directory}/{run.bad_segment:020d}.log cannot be compacted: the batch at position {run.bad_position} "
            f"{run.reason.decode()}. The records before and after it are still served. Restore the file from a copy, "
            "or delete the records up to and including the batch with DeleteRecords")
    if error == -EMSGSIZE and run.reason != NULL:
        return LogError(INVALID_RECORD, f"{directory}/{run.bad_segment:020d}.log: the batch at position {run.bad_position} "
                        f"{run.reason.decode()}; raise it, compaction is retried")
    if error == TABLE_TOO_SMALL:
        return UncleanableLog(f"{directory} cannot be compacted: one batch has more keys than the cleaner's key "
                              "table holds; raise log.cleaner.dedupe.buffer.size or lower log.cleaner.threads")
    if error == -ENOMEM:
        return MemoryError(f"no memory to compact {directory}")
    return LogError(KAFKA_STORAGE_ERROR, f"compacting {directory} failed: {(<bytes>strerror(-error)).decode()}"
                    + ("; free space on the disk, compaction is retried" if error == -ENOSPC else ""))


def segment_facts(PartitionLog log not None, *, bint first_timestamps=False):
    """Returns [(base offset, bytes, largest timestamp, timestamp of the first batch)], the active segment last.

    Args:
        first_timestamps: Whether to read unknown timestamps of first batches; else they are -1.
    """
    cdef LogState *state = state_of(log.log)
    cdef int32_t i
    found = log.segments()
    if not first_timestamps:
        return [(*facts, -1) for facts in found]
    firsts = {}
    with nogil:
        first_timestamps_learn(log.log)
    lock_with_gil(log.log)
    cdef int32_t n = state.segment_count
    cdef int64_t *pairs = <int64_t *>malloc(n * 16)
    for i in range(n if pairs != NULL else 0):
        pairs[2 * i] = state.segments[i].base_offset
        pairs[2 * i + 1] = segment_first_timestamp(state, state.segments[i])
    pthread_mutex_unlock(&log.log.lock)
    if pairs == NULL:
        raise MemoryError("no memory for a list of segments")
    firsts = {pairs[2 * i]: pairs[2 * i + 1] for i in range(n)}
    free(pairs)
    return [(*facts, firsts.get(facts[0], -1)) for facts in found]
