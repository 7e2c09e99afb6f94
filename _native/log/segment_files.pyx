"""The .log files of a log, see segment_files.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport int64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from posix.fcntl cimport O_RDWR
from bowstring._native.base.atomics cimport add_i32, add_i64, load_i64, store_i64
from bowstring._native.base.pthread cimport (
    pthread_mutex_init, pthread_mutex_lock, pthread_mutex_t, pthread_mutex_unlock)
from bowstring._native.disk.file_ops cimport PATH_BYTES, file_ops
from bowstring._native.disk.staged_tail cimport tail_close, tail_open, tail_write_out

# ---------------------------------------------------------------- paths


cdef const char *segment_path(char *out, const LogState *state, int64_t base_offset, const char *suffix) noexcept nogil:
    snprintf(out, PATH_BYTES, b"%s/%020lld%s", state.directory, <long long>base_offset, suffix)
    return out


cdef const char *segment_file_path(char *out, const LogState *state, const Segment *segment,
                                   const char *suffix) noexcept nogil:
    snprintf(out, PATH_BYTES, b"%s/%020lld%s%s", state.directory, <long long>segment.base_offset, suffix,
             <const char *>(b".swap" if segment.swapping else b""))
    return out


cdef const char *directory_path(char *out, const LogState *state, const char *name) noexcept nogil:
    snprintf(out, PATH_BYTES, b"%s/%s", state.directory, name)
    return out


# ---------------------------------------------------------------- open .log files

cdef struct OpenFile:
    SegmentFile file                # first: a SegmentFile * is an OpenFile *
    Segment *owner                  # NULL once the segment has dropped it
    OpenFile *newer
    OpenFile *older
    bint cached                     # in the list below: it may be closed to make room

# Guarded by cache_lock, a leaf. The list holds segments that are not active, the newest use first.
cdef pthread_mutex_t cache_lock
cdef OpenFile *newest = NULL
cdef OpenFile *oldest = NULL
cdef int64_t cached_count = 0
cdef int64_t cached_max = 1024
cdef int64_t open_count = 0         # atomic
pthread_mutex_init(&cache_lock, NULL)


cdef void segment_file_retain(SegmentFile *file) noexcept nogil:
    add_i32(&file.refs, 1)


cdef void segment_file_release(SegmentFile *file) noexcept nogil:
    if add_i32(&file.refs, -1) == 0:
        tail_close(&file.tail)
        file_ops.close(file.fd)
        add_i64(&open_count, -1)
        free(file)


cdef void files_open_max(int64_t n) noexcept nogil:
    store_i64(&cached_max, n)


cdef void unlink_from_cache(OpenFile *f) noexcept nogil:
    global newest, oldest, cached_count
    if f.newer != NULL:
        f.newer.older = f.older
    else:
        newest = f.older
    if f.older != NULL:
        f.older.newer = f.newer
    else:
        oldest = f.newer
    f.newer = f.older = NULL
    f.cached = False
    cached_count -= 1


cdef void link_into_cache(OpenFile *f) noexcept nogil:
    global newest, oldest, cached_count
    f.newer = NULL
    f.older = newest
    if newest != NULL:
        newest.newer = f
    else:
        oldest = f
    newest = f
    f.cached = True
    cached_count += 1


cdef OpenFile *evict() noexcept nogil:
    """Removes the least recently used files until the list is within bounds; returns them, linked by `newer`."""
    cdef OpenFile *evicted = NULL
    cdef OpenFile *f
    while cached_count > load_i64(&cached_max) and oldest != newest:
        f = oldest
        unlink_from_cache(f)
        f.owner.file = NULL
        f.owner = NULL
        f.newer = evicted
        evicted = f
    return evicted


cdef void release_all(OpenFile *evicted) noexcept nogil:
    """Closes files outside the lock, because close() may be slow."""
    cdef OpenFile *following
    while evicted != NULL:
        following = evicted.newer
        segment_file_release(&evicted.file)
        evicted = following


cdef OpenFile *open_file(const char *path, int *error) noexcept nogil:
    cdef OpenFile *f = <OpenFile *>malloc(sizeof(OpenFile))
    if f == NULL:
        error[0] = -ENOMEM
        return NULL
    f.file.fd = file_ops.open(path, O_RDWR)
    if f.file.fd < 0:
        error[0] = f.file.fd
        free(f)
        return NULL
    f.file.refs = 1
    f.file.stepping = 0
    f.file.behind = -1
    tail_open(&f.file.tail, f.file.fd)
    f.owner = NULL
    f.newer = f.older = NULL
    f.cached = False
    add_i64(&open_count, 1)
    return f


cdef SegmentFile *segment_file(const LogState *state, Segment *segment, bint active, int *error) noexcept nogil:
    cdef char[PATH_BYTES] path
    cdef OpenFile *f
    cdef OpenFile *evicted
    if active:
        if segment.file == NULL:
            f = open_file(segment_path(path, state, segment.base_offset, b".log"), error)
            if f == NULL:
                return NULL
            f.owner = segment
            segment.file = &f.file
        segment_file_retain(segment.file)
        return segment.file
    pthread_mutex_lock(&cache_lock)
    if segment.file != NULL:
        f = <OpenFile *>segment.file
        unlink_from_cache(f)
        link_into_cache(f)
        segment_file_retain(&f.file)
        pthread_mutex_unlock(&cache_lock)
        return &f.file
    pthread_mutex_unlock(&cache_lock)
    f = open_file(segment_file_path(path, state, segment, b".log"), error)
    if f == NULL:
        return NULL
    segment_file_retain(&f.file)
    f.owner = segment
    pthread_mutex_lock(&cache_lock)
    segment.file = &f.file
    link_into_cache(f)
    evicted = evict()
    pthread_mutex_unlock(&cache_lock)
    release_all(evicted)
    return &f.file


cdef SegmentFile *segment_file_if_open(Segment *segment, bint active) noexcept nogil:
    cdef SegmentFile *file
    if active:
        if segment.file != NULL:
            segment_file_retain(segment.file)
        return segment.file
    pthread_mutex_lock(&cache_lock)
    file = segment.file
    if file != NULL:
        segment_file_retain(file)
    pthread_mutex_unlock(&cache_lock)
    return file


cdef int active_write_out(const LogState *state) noexcept nogil:
    cdef SegmentFile *file = state.segments[state.segment_count - 1].file if state.segment_count > 0 else NULL
    return tail_write_out(&file.tail) if file != NULL else 0


cdef void segment_file_demote(Segment *segment) noexcept nogil:
    cdef OpenFile *evicted = NULL
    if segment.file != NULL:
        pthread_mutex_lock(&cache_lock)
        link_into_cache(<OpenFile *>segment.file)
        evicted = evict()
        pthread_mutex_unlock(&cache_lock)
        release_all(evicted)


cdef void segment_file_detach(Segment *segment) noexcept nogil:
    cdef OpenFile *f
    pthread_mutex_lock(&cache_lock)
    f = <OpenFile *>segment.file
    if f != NULL:
        if f.cached:
            unlink_from_cache(f)
        f.owner = NULL
        segment.file = NULL
    pthread_mutex_unlock(&cache_lock)
    if f != NULL:
        tail_write_out(&f.file.tail)                     # another descriptor may be opened: the bytes must be in the file
        segment_file_release(&f.file)
