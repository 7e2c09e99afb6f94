"""The leader-epoch cache, see leader_epochs.pxd."""
from libc.errno cimport EBADMSG, ENOENT, ENOMEM
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc, realloc, strtoll
from libc.string cimport memmove
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.file_ops cimport PATH_BYTES, read_file, replace_file, sync_path
from bowstring._native.log.segment_files cimport directory_path
from bowstring._native.log.types cimport EpochEntry, Log, state_of

cdef enum:
    FILE_VERSION = 0
    LINE_BYTES = 40


cdef int32_t epochs_newest(const EpochCache *cache) noexcept nogil:
    return cache.entries[cache.count - 1].epoch if cache.count > 0 else -1


cdef bint epochs_assign(EpochCache *cache, int32_t epoch, int64_t start_offset) noexcept nogil:
    cdef EpochEntry *grown
    cdef EpochEntry *newest
    if epoch < 0 or start_offset < 0:
        return True
    if cache.count > 0:
        newest = &cache.entries[cache.count - 1]
        if newest.epoch == epoch and newest.start_offset <= start_offset:
            return True
    while cache.count > 0 and (cache.entries[cache.count - 1].epoch >= epoch
                               or cache.entries[cache.count - 1].start_offset >= start_offset):
        cache.count -= 1
    if cache.count == cache.capacity:
        grown = <EpochEntry *>realloc(cache.entries, (cache.capacity * 2 + 1) * sizeof(EpochEntry))
        if grown == NULL:
            return False
        cache.entries = grown
        cache.capacity = cache.capacity * 2 + 1
    cache.entries[cache.count].epoch = epoch
    cache.entries[cache.count].start_offset = start_offset
    cache.count += 1
    cache.dirty = True
    return True


cdef void epochs_truncate_end(EpochCache *cache, int64_t end_offset) noexcept nogil:
    while cache.count > 0 and cache.entries[cache.count - 1].start_offset >= end_offset:
        cache.count -= 1
        cache.dirty = True


cdef void epochs_truncate_start(EpochCache *cache, int64_t start_offset) noexcept nogil:
    """Removes earlier epochs; the epoch that start_offset belongs to begins there."""
    cdef int32_t n = 0
    while n < cache.count and cache.entries[n].start_offset <= start_offset:
        n += 1
    if n == 0 or (n == 1 and cache.entries[0].start_offset == start_offset):
        return
    memmove(cache.entries, cache.entries + n - 1, (cache.count - n + 1) * sizeof(EpochEntry))
    cache.count -= n - 1
    cache.entries[0].start_offset = start_offset
    cache.dirty = True


cdef void epochs_clear(EpochCache *cache) noexcept nogil:
    if cache.count > 0:
        cache.dirty = True
    cache.count = 0


cdef bint epochs_copy(EpochCache *to, const EpochCache *of) noexcept nogil:
    cdef int32_t i
    epochs_clear(to)
    for i in range(of.count):
        if not epochs_assign(to, of.entries[i].epoch, of.entries[i].start_offset):
            return False
    return True


cdef void epochs_end_offset(const EpochCache *cache, int32_t epoch, int64_t log_end_offset,
                            int32_t *found_epoch, int64_t *end_offset) noexcept nogil:
    cdef int32_t i = 0
    found_epoch[0] = -1
    end_offset[0] = -1
    if epoch == -1 or cache.count == 0 or epoch > epochs_newest(cache):
        return
    if epoch == epochs_newest(cache):
        found_epoch[0] = epoch
        end_offset[0] = log_end_offset
        return
    while cache.entries[i].epoch <= epoch:               # a higher one exists: it is not the newest
        i += 1
    end_offset[0] = cache.entries[i].start_offset
    found_epoch[0] = cache.entries[i - 1].epoch if i > 0 else epoch


cdef int32_t epoch_at(const EpochCache *cache, int64_t offset) noexcept nogil:
    cdef int32_t i, found = -1
    for i in range(cache.count):
        if cache.entries[i].start_offset > offset:
            break
        found = cache.entries[i].epoch
    return found


cdef bint take_number(char **at, char stop, int64_t *value) noexcept nogil:
    cdef char *end = NULL
    value[0] = strtoll(at[0], &end, 10)
    if end == at[0] or end[0] != stop:
        return False
    at[0] = end + 1
    return True


cdef int parse(EpochCache *cache, char *text) noexcept nogil:
    """Parses the file: version, number of entries, then a line "epoch start-offset" for each."""
    cdef int64_t version, n, epoch, start_offset, i
    if not take_number(&text, b'\n', &version) or version != FILE_VERSION or not take_number(&text, b'\n', &n):
        return -EBADMSG
    for i in range(n):
        if not take_number(&text, b' ', &epoch) or not take_number(&text, b'\n', &start_offset):
            return -EBADMSG
        if not epochs_assign(cache, <int32_t>epoch, start_offset):
            return -ENOMEM
    return 0


cdef int epochs_load(LogState *state) noexcept nogil:
    cdef char[PATH_BYTES] path
    cdef uint8_t *data = NULL
    cdef int error
    cdef int64_t size_bytes = read_file(directory_path(path, state, b"leader-epoch-checkpoint"), &data)
    state.epochs.count = 0
    if size_bytes < 0:
        return 0 if size_bytes == -ENOENT else <int>size_bytes
    data[size_bytes] = 0                                 # read_file leaves room for it
    error = parse(&state.epochs, <char *>data)
    free(data)
    state.epochs.dirty = error != 0
    if error != 0:
        state.epochs.count = 0
    return error


cdef int epochs_write(LogState *state, bint sync) noexcept nogil:
    cdef char[PATH_BYTES] path
    cdef EpochCache *cache = &state.epochs
    cdef int64_t capacity = (<int64_t>cache.count + 2) * LINE_BYTES
    cdef int64_t n
    cdef char *text
    cdef int32_t i
    cdef int error
    if not cache.dirty:
        return 0
    text = <char *>malloc(capacity)
    if text == NULL:
        return -ENOMEM
    n = snprintf(text, capacity, b"%d\n%d\n", <int>FILE_VERSION, <int>cache.count)
    for i in range(cache.count):
        n += snprintf(text + n, capacity - n, b"%d %lld\n", <int>cache.entries[i].epoch,
                      <long long>cache.entries[i].start_offset)
    error = replace_file(directory_path(path, state, b"leader-epoch-checkpoint"), text, n, sync)
    free(text)
    if error == 0 and sync:
        error = sync_path(state.directory)               # also syncs the name, else the old file could come back
    if error == 0:
        cache.dirty = False
    return error


cdef void log_end_offset_for_epoch(Log *log, int32_t epoch, int32_t *found_epoch, int64_t *end_offset) noexcept nogil:
    pthread_mutex_lock(&log.lock)
    epochs_end_offset(&state_of(log).epochs, epoch, log.log_end_offset, found_epoch, end_offset)
    pthread_mutex_unlock(&log.lock)
