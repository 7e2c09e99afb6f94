"""Opens a log, see loader.pxd. The steps are those of Kafka's LogLoader."""
from libc.errno cimport EBADMSG, ENOMEM
from libc.stdint cimport INT64_MAX, int32_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, strlen
from bowstring._native.base.pthread cimport pthread_mutex_destroy, pthread_mutex_init
from bowstring._native.disk.file_ops cimport PATH_BYTES, file_ops, sync_path
from bowstring._native.log.directory_listing cimport (
    ABORTED_FILE, INDEX_FILE, LOG_FILE, SNAPSHOT_FILE, TIME_INDEX_FILE, FoundSegment, Listing, finish_swaps,
    listing_free, listing_read)
from bowstring._native.log.index cimport indexes_begin_anew, indexes_end_anew, indexes_forget
from bowstring._native.log.leader_epochs cimport (
    epochs_clear, epochs_load, epochs_newest, epochs_truncate_end, epochs_truncate_start)
from bowstring._native.log.producer_state cimport (
    SNAPSHOT_HEADER_BYTES, producers_clear, producers_free, producers_recall, snapshot_forget, snapshot_known,
    snapshot_newest, snapshot_take)
from bowstring._native.log.recovery cimport Recovered, epochs_rebuild, producers_rebuild
from bowstring._native.log.recovery_point cimport segment_recover
from bowstring._native.log.roll cimport roll_jitter_ms
from bowstring._native.log.segment cimport (
    Walk, active_segment, file_delete_later, segment_add, segment_begin, segment_create, segment_delete, segment_end_offset,
    segment_free, walk_peek, walk_start)
from bowstring._native.log.segment_files cimport segment_file, segment_file_detach, segment_file_release, segment_path
from bowstring._native.log.state cimport log_update_last_stable
from bowstring._native.log.transaction_index cimport aborted_sound
from bowstring._native.log.types cimport (
    OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, DeletedFile, LogState, Segment, SegmentFile, state_of)
from bowstring._native.log.verify cimport finding_add, findings_free
from bowstring._native.record.batch cimport BatchInfo

cdef struct Opening:
    # State that the steps of opening pass to each other.
    int64_t recovery_point
    bint clean_shutdown
    int64_t now_ms
    Listing listing
    int64_t end_offset              # of the newest segment that is loaded
    bint cut                        # a bad batch ended the log: later segments are removed
    bint producers_stale            # the state does not cover the log up to the next segment
    bint epochs_lost
    bint broken_tail                # the newest segment ends in damage that stays: the log continues in a new one
    bint created                    # the files of the first segment were made just now
    bint fresh                      # the directory was made just now: it has nothing that could be listed

# ---------------------------------------------------------------- segments


cdef int drop_files(LogState *state, const FoundSegment *found, Opening *opening, int64_t delay_ms) noexcept nogil:
    """Deletes a segment after the truncation point, or index files without a .log."""
    cdef int error = 0
    if found.kinds & LOG_FILE:
        state.dropped_segments += 1
        finding_add(state, b"recovery truncated the log before this segment and deletes the segment",
                    found.base_offset, b".log", 0, 0, found.base_offset, -1)
        error = file_delete_later(state, found.base_offset, b".log", opening.now_ms, delay_ms)
    if error == 0 and found.kinds & INDEX_FILE:
        error = file_delete_later(state, found.base_offset, b".index", opening.now_ms, delay_ms)
    if error == 0 and found.kinds & TIME_INDEX_FILE:
        error = file_delete_later(state, found.base_offset, b".timeindex", opening.now_ms, delay_ms)
    if error == 0 and found.kinds & ABORTED_FILE:
        error = file_delete_later(state, found.base_offset, b".txnindex", opening.now_ms, delay_ms)
    return error


cdef bint indexes_sound(const LogState *state, const Segment *segment, int32_t kinds) noexcept nogil:
    """Whether the indexes exist with whole entries. After an unclean shutdown Kafka leaves preallocated ones; recovery
    rebuilds them."""
    cdef char[PATH_BYTES] path
    cdef int64_t size_bytes = 0
    if segment.size_bytes == 0:                          # those of a new log come with their first entries
        return True
    if not kinds & INDEX_FILE or not kinds & TIME_INDEX_FILE:
        return False
    if file_ops.stat_path(segment_path(path, state, segment.base_offset, b".index"), &size_bytes) != 0 \
            or size_bytes % OFFSET_ENTRY_BYTES != 0:
        return False
    if file_ops.stat_path(segment_path(path, state, segment.base_offset, b".timeindex"), &size_bytes) != 0 \
            or size_bytes % TIME_ENTRY_BYTES != 0:
        return False
    return not kinds & ABORTED_FILE or aborted_sound(state, segment)


cdef int recover(Log *log, Segment *segment, Opening *opening, int64_t point) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef Recovered recovered
    cdef int error = segment_recover(
        log, segment, point, opening.producers_stale, opening.now_ms, &recovered)
    if error != 0:
        return error
    opening.producers_stale = False
    opening.end_offset = recovered.end_offset
    opening.broken_tail = recovered.broken_tail
    state.truncated_bytes += recovered.truncated_bytes
    opening.cut = recovered.truncated_bytes > 0
    return 0


cdef int look_for_hole(Log *log, int64_t base_offset, Opening *opening) noexcept nogil:
    """Reports a gap before a segment. A log that was never compacted has a gap only if a segment was lost."""
    cdef LogState *state = state_of(log)
    cdef Segment *before
    cdef int64_t end_offset = opening.end_offset
    if opening.clean_shutdown or log.config.compacted or state.segment_count == 0:
        return 0
    before = active_segment(state)
    if end_offset < 0:
        end_offset = segment_end_offset(state, before)
        segment_file_detach(before)                      # it is active only for this check
        if end_offset == -EBADMSG:                       # readers and the scrubber will report that
            return 0
        if end_offset < 0:
            return <int>end_offset
    if end_offset < base_offset:
        finding_add(state, b"a segment is missing before this one; ignore this if the topic was compacted before",
                    base_offset, b".log", 0, 0, end_offset, base_offset)
    return 0


cdef bint lost_before(const Log *log, int64_t base_offset, bint unflushed, const Opening *opening) noexcept nogil:
    """Whether a power loss kept this segment but lost bytes before it: the log then ends before both. Above the recovery
    point only compaction leaves gaps, and later offsets would hide the gap from the replay that fills it."""
    return (unflushed and not log.config.compacted and base_offset > opening.recovery_point
            and 0 <= opening.end_offset < base_offset)


cdef int load_segment(Log *log, const FoundSegment *found, bint unflushed, bint last, Opening *opening) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef char[PATH_BYTES] path
    cdef Segment *segment
    cdef int64_t size_bytes = 0
    cdef int error = file_ops.stat_path(segment_path(path, state, found.base_offset, b".log"), &size_bytes)
    if error == 0:
        error = look_for_hole(log, found.base_offset, opening)
    if error != 0:
        return error
    segment = segment_add(state, found.base_offset, size_bytes, opening.now_ms)
    if segment == NULL:
        return -ENOMEM
    segment.has_aborted = found.kinds & ABORTED_FILE != 0
    state.activated = False
    opening.end_offset = -1
    opening.broken_tail = False
    if unflushed:
        return recover(log, segment, opening, opening.recovery_point)
    if not indexes_sound(state, segment, found.kinds):
        state.rebuilt_indexes += 1
        finding_add(state, b"an index was missing or damaged and was rebuilt; no action is needed", found.base_offset,
                    b".index", 0, 0, -1, -1)
        # A segment that others follow lies below the recovery point.
        if not last:
            indexes_begin_anew(state)
        error = recover(log, segment, opening, opening.recovery_point if last else INT64_MAX)
        if error == 0 and not last:
            error = indexes_end_anew(state)
        state.indexing_anew = False
        opening.cut = False                              # the next segments were closed in order and stay
        return error
    opening.producers_stale = True
    return 0


cdef int load_segments(Log *log, Opening *opening) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef Listing *listing = &opening.listing
    cdef int64_t first_unflushed = 0
    cdef int32_t i, last = -1
    cdef bint unflushed
    cdef int error = 0
    for i in range(listing.count):
        if listing.found[i].kinds & LOG_FILE:
            last = i
        # A segment that ends at the recovery point was perhaps flushed before its indexes were written.
        if listing.found[i].kinds & LOG_FILE and listing.found[i].base_offset < opening.recovery_point:
            first_unflushed = listing.found[i].base_offset
        if listing.found[i].kinds & SNAPSHOT_FILE and not snapshot_known(
                &state.producers, listing.found[i].base_offset):
            return -ENOMEM
    for i in range(listing.count):
        unflushed = not opening.clean_shutdown and listing.found[i].base_offset >= first_unflushed
        if listing.found[i].kinds & LOG_FILE and lost_before(log, listing.found[i].base_offset, unflushed, opening):
            opening.cut = True
        if opening.cut or not listing.found[i].kinds & LOG_FILE:
            error = drop_files(state, &listing.found[i], opening, log.config.file_delete_delay_ms)
        else:
            error = load_segment(log, &listing.found[i], unflushed, i == last, opening)
            log.size_bytes += active_segment(state).size_bytes if error == 0 else 0
        if error != 0:
            return error
    return 0


cdef int find_end(Log *log, Opening *opening) noexcept nogil:
    """Finds the log end: recovery has already set it, or the active segment's index and last headers give it."""
    cdef LogState *state = state_of(log)
    if state.segment_count > 0 and opening.end_offset < 0:
        opening.end_offset = segment_end_offset(state, active_segment(state))
        if opening.end_offset == -EBADMSG:               # the shutdown was not clean after all
            state.truncated_bytes = 0
            opening.producers_stale = True
            log.size_bytes -= active_segment(state).size_bytes
            return recover_active(log, opening)
        if opening.end_offset < 0:
            return <int>opening.end_offset
    return 0


cdef int recover_active(Log *log, Opening *opening) noexcept nogil:
    cdef int error = recover(log, active_segment(state_of(log)), opening, opening.recovery_point)
    log.size_bytes += active_segment(state_of(log)).size_bytes
    return error


cdef int go_on_elsewhere(Log *log, Opening *opening) noexcept nogil:
    """Begins a new segment at the recovery point if the last one ends in damage: nothing is written after damage."""
    cdef LogState *state = state_of(log)
    if not opening.broken_tail or opening.end_offset <= active_segment(state).base_offset:
        return 0
    return segment_create(state, opening.end_offset, opening.now_ms)


cdef bint epochs_missing(LogState *state) noexcept nogil:
    """Whether leader epochs must be rebuilt: batches have epochs, but no file says where these began."""
    cdef Walk walk
    cdef BatchInfo info
    cdef int error = 0
    cdef bint missing
    cdef SegmentFile *file
    if state.segment_count == 0 or state.segments[0].size_bytes == 0:
        return False
    file = segment_file(state, state.segments[0], state.segment_count == 1, &error)
    if file == NULL:
        return False
    walk_start(&walk, file.fd, 0, state.segments[0].size_bytes)
    missing = walk_peek(&walk, &info) > 0 and info.leader_epoch >= 0
    segment_file_release(file)
    return missing


cdef int start_over(Log *log, Opening *opening) noexcept nogil:
    """Deletes all segments when the log start is above them: files were removed, or belong to another log."""
    cdef LogState *state = state_of(log)
    cdef int error = 0
    finding_add(state, b"all segments end below the log start offset in log-start-offset-checkpoint and are deleted",
                state.segments[0].base_offset, b".log", 0, 0, opening.end_offset, log.log_start_offset)
    while state.segment_count > 0 and error == 0:
        state.segment_count -= 1
        state.dropped_segments += 1
        error = segment_delete(state, state.segments[state.segment_count], opening.now_ms,
                               log.config.file_delete_delay_ms)
    log.size_bytes = 0
    epochs_clear(&state.epochs)
    producers_clear(&state.producers)
    return error

# ---------------------------------------------------------------- producers


cdef int drop_stray_snapshots(LogState *state, int64_t end_offset) noexcept nogil:
    """Removes snapshots, except those at a segment's base and the newest."""
    cdef char[PATH_BYTES] path
    cdef int32_t i = state.producers.snapshot_count
    cdef int32_t k
    cdef int64_t at
    cdef bint wanted
    while i > 0:
        i -= 1
        at = state.producers.snapshots[i]
        wanted = at <= end_offset and (i == state.producers.snapshot_count - 1
                                       and at >= active_segment(state).base_offset)
        for k in range(state.segment_count):
            wanted = wanted or state.segments[k].base_offset == at
        if not wanted:
            file_ops.unlink(segment_path(path, state, at, b".snapshot"))
            snapshot_forget(&state.producers, at)
    return 0


cdef int load_producers(Log *log, Opening *opening) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef char[PATH_BYTES] path
    cdef int64_t size_bytes = 0
    cdef int error = 0
    drop_stray_snapshots(state, opening.end_offset)
    if state.producers.snapshot_count == 0 and opening.clean_shutdown:
        state.producers.end_offset = opening.end_offset  # as Kafka does for a log without producer snapshots
    elif opening.producers_stale or state.producers.end_offset != opening.end_offset:
        if snapshot_newest(&state.producers) == opening.end_offset and file_ops.stat_path(
                segment_path(path, state, opening.end_offset, b".snapshot"), &size_bytes) == 0 \
                and size_bytes == SNAPSHOT_HEADER_BYTES: # it has no producers, so it need not be read
            producers_clear(&state.producers)
            state.producers.end_offset = opening.end_offset
        else:
            error = producers_rebuild(log, opening.end_offset, opening.now_ms)
    if error == 0:
        error = producers_recall(log, opening.now_ms)
    if error == 0 and not opening.clean_shutdown:
        error = snapshot_take(state)
    return error


cdef void adopt_snapshot(LogState *state) noexcept nogil:
    """Registers a snapshot inside the active segment (from the last checkpoint or shutdown): later ones replace it."""
    cdef int64_t newest = snapshot_newest(&state.producers)
    if newest > active_segment(state).base_offset:
        state.checkpoints[1].offset = newest
        state.checkpoints[1].empty = False

# ---------------------------------------------------------------- all steps


cdef int list_directory(LogState *state, Listing *listing) noexcept nogil:
    cdef int error = listing_read(state, listing)
    if error == 0 and listing.swapped:
        state.failed_doing = b"completing an interrupted compaction"
        listing_free(listing)
        error = finish_swaps(state)
        if error == 0:
            error = listing_read(state, listing)
    return error


cdef int sync_removals(LogState *state) noexcept nogil:
    """Syncs removals, so that after a power loss removed data does not reappear after new data."""
    cdef char[PATH_BYTES] path
    cdef int error = 0
    if state.truncated_bytes == 0 and state.dropped_segments == 0:
        return 0
    state.failed_doing = b"syncing a truncated log"
    if state.truncated_bytes > 0:
        error = sync_path(segment_path(path, state, active_segment(state).base_offset, b".log"))
    return sync_path(state.directory) if error == 0 else error


cdef int load(Log *log, Opening *opening) noexcept nogil:
    """Runs the steps. Each sets failed_doing before it begins."""
    cdef LogState *state = state_of(log)
    cdef bint no_epochs
    cdef int error
    state.failed_doing = b"listing the directory"
    error = list_directory(state, &opening.listing) if not opening.fresh else 0
    if error != 0:
        return error
    state.failed_doing = b"reading leader-epoch-checkpoint"
    error = epochs_load(state) if opening.listing.count > 0 else 0
    opening.epochs_lost = error == -EBADMSG
    if error != 0 and not opening.epochs_lost:
        return error
    no_epochs = state.epochs.count == 0
    state.failed_doing = b"loading the segments"
    error = load_segments(log, opening)
    if error == 0:
        error = find_end(log, opening)
    if error == 0 and state.segment_count > 0:
        error = go_on_elsewhere(log, opening)
    if error == 0 and state.segment_count > 0 and opening.end_offset < log.log_start_offset:
        error = start_over(log, opening)
    if error == 0 and state.segment_count == 0:
        state.failed_doing = b"creating the first segment"
        if opening.fresh:
            error = segment_begin(state, log.log_start_offset, opening.now_ms)
        else:
            error = segment_create(state, log.log_start_offset, opening.now_ms)
        opening.end_offset = log.log_start_offset
        opening.created = True
    if error == 0:
        error = sync_removals(state)
    if error == 0 and (opening.epochs_lost or no_epochs and epochs_missing(state)):
        state.failed_doing = b"rebuilding the leader epochs"
        error = epochs_rebuild(log)
    if error != 0:
        return error
    if log.log_start_offset < state.segments[0].base_offset:
        log.log_start_offset = state.segments[0].base_offset
    log.log_end_offset = opening.end_offset
    epochs_truncate_end(&state.epochs, opening.end_offset)
    epochs_truncate_start(&state.epochs, log.log_start_offset)
    state.failed_doing = b"loading the producer state"
    return load_producers(log, opening)


cdef Log *allocate(const char *directory) noexcept nogil:
    cdef Log *log = <Log *>calloc(1, sizeof(Log))
    cdef LogState *state = <LogState *>calloc(1, sizeof(LogState))
    cdef size_t n = strlen(directory) + 1
    cdef char *name = <char *>calloc(1, n)
    if log == NULL or state == NULL or name == NULL:
        free(log)
        free(state)
        free(name)
        return NULL
    memcpy(name, directory, n)
    state.directory = name
    state.limit_offset = -1
    state.first_unstable_offset = -1
    state.synced_segment = -1
    state.checkpoints[0].offset = state.checkpoints[1].offset = -1
    state.quiet_since_offset = -1
    state.offset_index.entry_bytes = 8
    state.time_index.entry_bytes = 12
    log.state = state
    pthread_mutex_init(&log.lock, NULL)
    return log


cdef Log *log_open(const char *directory, const LogConfig *config, int64_t recovery_point, bint clean_shutdown,
                   int64_t log_start_offset, int64_t now_ms, int *error) noexcept nogil:
    cdef Opening opening
    opening.recovery_point = recovery_point
    opening.clean_shutdown = clean_shutdown
    opening.now_ms = now_ms
    opening.fresh = False
    return open_or_create(directory, config, log_start_offset, &opening, error)


cdef Log *log_create(const char *directory, const LogConfig *config, int64_t now_ms, int *error) noexcept nogil:
    cdef Opening opening
    opening.recovery_point = 0
    opening.clean_shutdown = True
    opening.now_ms = now_ms
    opening.fresh = True
    return open_or_create(directory, config, 0, &opening, error)


cdef Log *open_or_create(const char *directory, const LogConfig *config, int64_t log_start_offset, Opening *opening,
                         int *error) noexcept nogil:
    cdef Log *log = allocate(directory)
    cdef LogState *state
    error[0] = -ENOMEM
    if log == NULL:
        return NULL
    state = state_of(log)
    log.config = config[0]
    log.log_start_offset = log_start_offset
    opening.listing.found = NULL
    opening.listing.count = opening.listing.capacity = 0
    opening.end_offset = -1
    opening.cut = False
    opening.producers_stale = True
    opening.epochs_lost = False
    opening.broken_tail = False
    opening.created = False
    error[0] = load(log, opening)
    listing_free(&opening.listing)
    if error[0] != 0:
        state.failed_errno = -error[0]
        log.failed = 1
        return log
    state.failed_doing = NULL
    segment_file_detach(active_segment(state))           # an idle log holds no file and no index memory
    indexes_forget(state)
    state.recovery_point = log.log_end_offset if opening.clean_shutdown else opening.recovery_point
    if state.recovery_point > log.log_end_offset:        # the checkpoint belongs to another log, or this log lost its end
        state.recovery_point = active_segment(state).base_offset
    adopt_snapshot(state)
    state.synced_segment = active_segment(state).base_offset if opening.clean_shutdown and not opening.created else -1
    state.roll_jitter_ms = roll_jitter_ms(log)
    log.leader_epoch = epochs_newest(&state.epochs)
    log.high_watermark = log.log_start_offset
    log_update_last_stable(log)
    return log


cdef void log_free(Log *log) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef DeletedFile *deleted
    cdef int32_t i
    for i in range(state.segment_count):
        segment_free(state.segments[i])
    while state.deleted != NULL:
        deleted = state.deleted
        state.deleted = deleted.next
        free(deleted)
    indexes_forget(state)
    findings_free(state)
    producers_free(&state.producers)
    free(state.epochs.entries)
    free(state.segments)
    free(state.directory)
    free(state)
    pthread_mutex_destroy(&log.lock)
    free(log)
