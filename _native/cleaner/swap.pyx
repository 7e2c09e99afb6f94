"""Swaps in a cleaned segment, see swap.pxd.

A crash after any step leaves the old segments or the new one, never a mixture. At the next start finish_swaps() of
log/directory_listing.pyx completes or undoes the swap, as Kafka's LogLoader does:

1. <base>.*.cleaned are on the medium. A crash: they are unlinked.
2. They are renamed to *.swap, the .log first. A crash halfway: they are unlinked, because some are still .cleaned.
   After it: the swap is completed.
3. The old segments are renamed to *.deleted, the oldest first, and the log reads from the *.swap files.
4. The *.swap files are renamed to their final names.

The directory is synced between the steps, and never under Log.lock: appends to the partition do not wait.
"""
from libc.errno cimport ENOENT, ENOMEM
from libc.stdint cimport int64_t
from libc.stdio cimport snprintf
from libc.string cimport strcmp
from bowstring._native.base.atomics cimport store_i64
from bowstring._native.base.errno cimport ECANCELED
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.cleaner.input cimport run_check
from bowstring._native.cleaner.output cimport output_discard, run_path
from bowstring._native.disk.file_ops cimport PATH_BYTES, file_ops, sync_path
from bowstring._native.log cimport (
    LogState, Segment, file_delete_later, io_clock_advance, log_fail, segment_delete, segment_floor, segment_free,
    segment_make, segments_remove, snapshot_forget, state_of)


cdef int32_t find_sources(const CleanRun *run, int32_t first, int32_t n) noexcept nogil:
    """Returns the index of the first source among the log's segments; -1 when the sources changed or were removed."""
    cdef LogState *state = state_of(run.log)
    cdef int32_t at = segment_floor(state, run.sources[first].base_offset)
    cdef int32_t i
    if run_check(<CleanRun *>run) != 0 or strcmp(state.directory, run.directory) != 0:
        return -1
    if at < 0 or at + n >= state.segment_count:
        return -1
    for i in range(n):
        if state.segments[at + i].base_offset != run.sources[first + i].base_offset \
                or state.segments[at + i].size_bytes != run.sources[first + i].size_bytes:
            return -1
    return at


cdef int rename_output(CleanRun *run, const char *suffix, const char *old, const char *new) noexcept nogil:
    cdef char[PATH_BYTES] old_path
    cdef char[PATH_BYTES] new_path
    cdef char[64] name
    cdef int error
    snprintf(name, sizeof(name), b"%s%s", suffix, old)
    run_path(old_path, run, run.output.base_offset, name)
    snprintf(name, sizeof(name), b"%s%s", suffix, new)
    error = file_ops.rename(old_path, run_path(new_path, run, run.output.base_offset, name))
    return 0 if error == -ENOENT and suffix[1] == b't' and suffix[2] == b'x' else error   # it has no .txnindex


cdef int rename_indexes(CleanRun *run, const char *old, const char *new) noexcept nogil:
    cdef int error = rename_output(run, b".index", old, new)
    if error == 0:
        error = rename_output(run, b".timeindex", old, new)
    if error == 0:
        error = rename_output(run, b".txnindex", old, new)
    return error


cdef void discard_swap(CleanRun *run) noexcept nogil:
    """Removes the *.swap files, the .log last: without a .log the others do not count as a swap."""
    cdef char[PATH_BYTES] path
    output_discard(run)
    file_ops.unlink(run_path(path, run, run.output.base_offset, b".index.swap"))
    file_ops.unlink(run_path(path, run, run.output.base_offset, b".timeindex.swap"))
    file_ops.unlink(run_path(path, run, run.output.base_offset, b".txnindex.swap"))
    file_ops.unlink(run_path(path, run, run.output.base_offset, b".log.swap"))

# ---------------------------------------------------------------- the steps


cdef int prepare(CleanRun *run, int32_t first, int32_t n) noexcept nogil:
    """Does step 2."""
    cdef int error = -ECANCELED
    pthread_mutex_lock(&run.log.lock)
    if find_sources(run, first, n) >= 0:
        error = rename_output(run, b".log", b".cleaned", b".swap")
        if error == 0:
            error = rename_indexes(run, b".cleaned", b".swap")
    pthread_mutex_unlock(&run.log.lock)
    return error if error != 0 else sync_path(run.directory)


cdef Segment *cleaned_segment(const CleanRun *run) noexcept nogil:
    cdef Segment *segment = segment_make(run.output.base_offset, run.output.written_bytes, run.now_ms)
    if segment != NULL:
        segment.largest_timestamp = run.output.largest_timestamp
        segment.largest_timestamp_offset = run.output.largest_timestamp_offset
        segment.first_timestamp = run.output.first_timestamp
        segment.has_aborted = run.output.aborted.count > 0
        segment.swapping = True
        segment.appended_from = 0                        # every batch was checked while it was copied
        segment.written_clock = io_clock_advance(run.output.written_bytes)
    return segment


cdef int retire(CleanRun *run, int32_t at, int32_t n) noexcept nogil:
    """Deletes the sources after `at`, and the files of the one at `at`, the oldest first, so that a crash leaves the newest
    part. Also deletes unneeded snapshots at the removed segments."""
    cdef LogState *state = state_of(run.log)
    cdef int64_t delay_ms = run.log.config.file_delete_delay_ms
    cdef int64_t base_offset
    cdef Segment *old
    cdef int32_t i
    cdef int error = 0
    for i in range(n):
        old = state.segments[at + i] if i == 0 else state.segments[at + 1]
        base_offset = old.base_offset
        store_i64(&run.log.size_bytes, run.log.size_bytes - old.size_bytes)
        if i > 0:
            segments_remove(state, at + 1, 1)
        if error == 0:
            error = segment_delete(state, old, run.now_ms, delay_ms)
        else:
            segment_free(old)
        if i > 0:
            if error == 0:
                error = file_delete_later(state, base_offset, b".snapshot", run.now_ms, delay_ms)
            snapshot_forget(&state.producers, base_offset)
    return error


cdef int replace(CleanRun *run, int32_t first, int32_t n) noexcept nogil:
    """Does step 3. Invalidates remembered positions."""
    cdef LogState *state = state_of(run.log)
    cdef Segment *segment
    cdef int32_t at
    cdef int error = -ECANCELED
    pthread_mutex_lock(&run.log.lock)
    at = find_sources(run, first, n)
    if at >= 0:
        segment = cleaned_segment(run)
        error = -ENOMEM
        if segment != NULL:
            error = retire(run, at, n)
            state.segments[at] = segment
            store_i64(&run.log.size_bytes, run.log.size_bytes + segment.size_bytes)
            state.limit_offset = -1
            store_i64(&run.log.truncations, run.log.truncations + 1)
            run.truncations = run.log.truncations
            run.counters.removed_segments += n - 1
            if error != 0:
                log_fail(run.log, error, b"removing the segments that compaction replaced")
    pthread_mutex_unlock(&run.log.lock)
    return error


cdef int finish(CleanRun *run) noexcept nogil:
    """Does step 4. If the segment was deleted meanwhile, its files keep their names, because they are tracked by name."""
    cdef LogState *state = state_of(run.log)
    cdef int32_t at
    cdef int error = 0
    cdef bint named = False
    pthread_mutex_lock(&run.log.lock)
    at = segment_floor(state, run.output.base_offset)
    if at >= 0 and state.segments[at].base_offset == run.output.base_offset and state.segments[at].swapping \
            and not state.deleting and not state.moved and strcmp(state.directory, run.directory) == 0:
        error = rename_output(run, b".log", b".swap", b"")
        if error == 0:
            state.segments[at].swapping = False          # indexes that were not renamed count as empty
            error = rename_indexes(run, b".swap", b"")
        named = error == 0
        if error != 0:
            log_fail(run.log, error, b"renaming a compacted segment")
    pthread_mutex_unlock(&run.log.lock)
    return sync_path(run.directory) if named else error


cdef int swap_in(CleanRun *run, int32_t first, int32_t n) noexcept nogil:
    cdef int64_t before = run.truncations
    cdef int error = prepare(run, first, n)
    if error == 0:
        error = replace(run, first, n)
    if error != 0 and run.truncations == before:
        discard_swap(run)
        return error
    if error == 0:
        error = sync_path(run.directory)
    return error if error != 0 else finish(run)
