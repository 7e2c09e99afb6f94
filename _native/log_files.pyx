"""Files of a log, see log_files.pxd."""
from libc.errno cimport EINTR, EIO, ENOMEM, EOPNOTSUPP, errno
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdio cimport rename as c_rename, snprintf
from libc.stdlib cimport free, malloc
from libc.string cimport strlen
from posix.fcntl cimport O_CLOEXEC, O_CREAT, O_RDONLY, O_RDWR, O_TRUNC, open as c_open
from posix.stat cimport fstat, stat as c_stat, struct_stat
from posix.unistd cimport close as c_close, fdatasync, ftruncate, pread as c_pread, unlink as c_unlink
from bowstring._native.atomics cimport add_i32, add_i64, load_i64, store_i64
from bowstring._native.log_types cimport pthread_mutex_t

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <sys/uio.h>
    #ifndef RWF_DSYNC
    #define RWF_DSYNC 2
    #endif
    """
    ssize_t c_pwritev "pwritev" (int fd, const iovec *parts, int n, int64_t position) nogil
    ssize_t pwritev2(int fd, const iovec *parts, int n, int64_t position, int flags) nogil
    int RWF_DSYNC

cdef extern from "pthread.h" nogil:
    int pthread_mutex_init(pthread_mutex_t *mutex, void *attributes)
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)

cdef extern from *:
    """
    #include <sys/stat.h>
    static inline int64_t modified_ms_of(const struct stat *s) {
        return (int64_t)s->st_mtim.tv_sec * 1000 + s->st_mtim.tv_nsec / 1000000;
    }
    static inline int set_modified_ms(int fd, int64_t ms) {
        struct timespec times[2] = {{0, UTIME_OMIT}, {ms / 1000, ms % 1000 * 1000000}};
        return futimens(fd, times);
    }
    """
    int set_modified_ms(int fd, int64_t ms) nogil
    int64_t modified_ms_of(const struct_stat *s) nogil

# ---------------------------------------------------------------- the operations as they are

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <errno.h>
    #include <fcntl.h>
    #include <sys/syscall.h>
    #include <sys/uio.h>
    #include <unistd.h>
    #ifndef SYS_cachestat
    #define SYS_cachestat 451           /* the same on every architecture; Linux 6.5 */
    #endif
    struct cached_range { uint64_t offset, length; };
    struct cached_counts { uint64_t cached, dirty, writeback, evicted, recently_evicted; };

    static int page_is_cached(int fd, int64_t position) {
        char byte;
        struct iovec part = {&byte, 1};
        ssize_t n = preadv2(fd, &part, 1, position, RWF_NOWAIT);
        /* A file system that cannot say is asked no more questions: the read may then block. */
        return n >= 0 || errno != EAGAIN;
    }
    /* cachestat(2); older kernels, and sandboxes that refuse it, are asked for three bytes without waiting. */
    static int file_cached(int fd, int64_t position, int64_t size_bytes) {
        static int no_cachestat = 0;
        struct cached_range range = {(uint64_t)position, (uint64_t)size_bytes};
        struct cached_counts counts;
        int64_t page = sysconf(_SC_PAGESIZE);
        if (size_bytes <= 0)
            return 1;
        if (!__atomic_load_n(&no_cachestat, __ATOMIC_RELAXED)) {
            if (syscall(SYS_cachestat, fd, &range, &counts, 0) == 0)
                return counts.cached >= (uint64_t)((position + size_bytes - 1) / page - position / page + 1);
            __atomic_store_n(&no_cachestat, 1, __ATOMIC_RELAXED);
        }
        return page_is_cached(fd, position) && page_is_cached(fd, position + size_bytes / 2)
            && page_is_cached(fd, position + size_bytes - 1);
    }
    """
    int file_cached(int fd, int64_t position, int64_t size_bytes) nogil
    int posix_fadvise(int fd, int64_t position, int64_t size_bytes, int advice) nogil


cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <fcntl.h>
    """
    int fallocate(int fd, int mode, int64_t position, int64_t size_bytes) nogil
    int FALLOC_FL_KEEP_SIZE

cdef extern from "unistd.h" nogil:
    int syncfs(int fd)


cdef int real_open(const char *path, int flags) noexcept nogil:
    cdef int fd
    while True:
        fd = c_open(path, flags | O_CLOEXEC, 0o644)
        if fd >= 0:
            return fd
        if errno != EINTR:
            return -errno


cdef int real_close(int fd) noexcept nogil:
    return 0 if c_close(fd) == 0 else -errno


cdef int64_t real_pread(int fd, void *data, int64_t size_bytes, int64_t position) noexcept nogil:
    cdef ssize_t n
    while True:
        n = c_pread(fd, data, <size_t>size_bytes, position)
        if n >= 0:
            return n
        if errno != EINTR:
            return -errno


cdef int64_t real_pwritev(int fd, const iovec *parts, int n, int64_t position) noexcept nogil:
    cdef ssize_t written
    while True:
        written = c_pwritev(fd, parts, n, position)
        if written >= 0:
            return written
        if errno != EINTR:
            return -errno


cdef int real_truncate(int fd, int64_t size_bytes) noexcept nogil:
    return 0 if ftruncate(fd, size_bytes) == 0 else -errno


cdef int real_reserve(int fd, int64_t position, int64_t size_bytes) noexcept nogil:
    return 0 if fallocate(fd, FALLOC_FL_KEEP_SIZE, position, size_bytes) == 0 else -errno


cdef int real_sync(int fd) noexcept nogil:
    return 0 if fdatasync(fd) == 0 else -errno


cdef int real_stat(int fd, int64_t *size_bytes, int64_t *modified_ms) noexcept nogil:
    cdef struct_stat found
    if fstat(fd, &found) != 0:
        return -errno
    size_bytes[0] = found.st_size
    if modified_ms != NULL:
        modified_ms[0] = modified_ms_of(&found)
    return 0


cdef int real_stat_path(const char *path, int64_t *size_bytes) noexcept nogil:
    cdef struct_stat found
    if c_stat(path, &found) != 0:
        return -errno
    size_bytes[0] = found.st_size
    return 0


cdef int real_rename(const char *old, const char *new) noexcept nogil:
    return 0 if c_rename(old, new) == 0 else -errno


cdef int real_unlink(const char *path) noexcept nogil:
    return 0 if c_unlink(path) == 0 else -errno


cdef int64_t real_write_durable(int fd, const void *data, int64_t size_bytes, int64_t position) noexcept nogil:
    cdef iovec part
    cdef ssize_t written
    part.iov_base = <void *>data
    part.iov_len = <size_t>size_bytes
    while True:
        written = pwritev2(fd, &part, 1, position, RWF_DSYNC)
        if written >= 0:
            return written
        if errno == EOPNOTSUPP:                          # a file system that cannot: write, then sync
            written = c_pwritev(fd, &part, 1, position)
            if written >= 0:
                return written if fdatasync(fd) == 0 else -errno
        if errno != EINTR:
            return -errno


cdef int real_sync_file_system(const char *path) noexcept nogil:
    """A descriptor that is opened now is told of write-back errors that nobody has been told of yet."""
    cdef int error = 0
    cdef int fd = real_open(path, O_RDONLY)
    if fd < 0:
        return fd
    if syncfs(fd) != 0:
        error = -errno
    real_close(fd)
    return error


cdef int real_advise(int fd, int64_t position, int64_t size_bytes, int advice) noexcept nogil:
    return -posix_fadvise(fd, position, size_bytes, advice)


cdef int real_cached(int fd, int64_t position, int64_t size_bytes) noexcept nogil:
    return file_cached(fd, position, size_bytes)


cdef int real_set_modified(int fd, int64_t modified_ms) noexcept nogil:
    return 0 if set_modified_ms(fd, modified_ms) == 0 else -errno


file_ops.open = real_open
file_ops.close = real_close
file_ops.pread = real_pread
file_ops.pwritev = real_pwritev
file_ops.truncate = real_truncate
file_ops.reserve = real_reserve
file_ops.sync = real_sync
file_ops.stat = real_stat
file_ops.stat_path = real_stat_path
file_ops.rename = real_rename
file_ops.unlink = real_unlink
file_ops.write_durable = real_write_durable
file_ops.sync_file_system = real_sync_file_system
file_ops.advise = real_advise
file_ops.cached = real_cached
file_ops.set_modified = real_set_modified

# ---------------------------------------------------------------- paths and small files


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


cdef int64_t read_range(int fd, void *data, int64_t size_bytes, int64_t position) noexcept nogil:
    cdef int64_t done = 0
    cdef int64_t n
    while done < size_bytes:
        n = file_ops.pread(fd, <uint8_t *>data + done, size_bytes - done, position + done)
        if n < 0:
            return n
        if n == 0:
            break
        done += n
    return done


cdef int write_range(int fd, const void *data, int64_t size_bytes, int64_t position) noexcept nogil:
    cdef iovec part
    cdef int64_t done = 0
    cdef int64_t n
    while done < size_bytes:
        part.iov_base = <uint8_t *>data + done
        part.iov_len = <size_t>(size_bytes - done)
        n = file_ops.pwritev(fd, &part, 1, position + done)
        if n <= 0:
            return <int>n if n < 0 else -EIO
        done += n
    return 0


cdef int64_t read_file(const char *path, uint8_t **data) noexcept nogil:
    cdef int64_t size_bytes = 0
    cdef int64_t n
    cdef int fd = file_ops.open(path, O_RDONLY)
    data[0] = NULL
    if fd < 0:
        return fd
    n = file_ops.stat(fd, &size_bytes, NULL)
    if n == 0:
        data[0] = <uint8_t *>malloc(<size_t>size_bytes + 1)
        n = -ENOMEM if data[0] == NULL else read_range(fd, data[0], size_bytes, 0)
    file_ops.close(fd)
    if n < 0:
        free(data[0])
        data[0] = NULL
    return n


cdef int replace_file(const char *path, const void *data, int64_t size_bytes, bint sync) noexcept nogil:
    cdef char[4096] temporary
    cdef int fd, error
    snprintf(temporary, PATH_BYTES, b"%s.tmp", path)
    fd = file_ops.open(temporary, O_RDWR | O_CREAT | O_TRUNC)
    if fd < 0:
        return fd
    error = write_range(fd, data, size_bytes, 0)
    if error == 0 and sync:
        error = file_ops.sync(fd)
    file_ops.close(fd)
    if error == 0:
        error = file_ops.rename(temporary, path)
    if error != 0:
        file_ops.unlink(temporary)
    return error


cdef int sync_path(const char *path) noexcept nogil:
    """Works for a directory too: then the names in it survive power loss."""
    cdef int error
    cdef int fd = file_ops.open(path, O_RDONLY)
    if fd < 0:
        return fd
    error = file_ops.sync(fd)
    file_ops.close(fd)
    return error

# ---------------------------------------------------------------- open .log files

cdef struct OpenFile:
    SegmentFile file                # first: a SegmentFile * is an OpenFile *
    Segment *owner                  # NULL once the segment has let go
    OpenFile *newer
    OpenFile *older
    bint cached                     # on the list below, and may be closed to make room

# Guarded by cache_lock, a leaf. The list holds segments that are not active, the newest use first.
cdef pthread_mutex_t cache_lock
cdef OpenFile *newest = NULL
cdef OpenFile *oldest = NULL
cdef int64_t cached_count = 0
cdef int64_t cached_max = 1024
cdef int64_t open_count = 0         # atomic
pthread_mutex_init(&cache_lock, NULL)


cdef void file_retain(SegmentFile *file) noexcept nogil:
    add_i32(&file.refs, 1)


cdef void file_release(SegmentFile *file) noexcept nogil:
    if add_i32(&file.refs, -1) == 0:
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
    """Takes the least recently used files off the list until it is within bounds; they hang together by `newer`."""
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
    """Outside the lock: closing a file may take its time."""
    cdef OpenFile *following
    while evicted != NULL:
        following = evicted.newer
        file_release(&evicted.file)
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
    f.owner = NULL
    f.newer = f.older = NULL
    f.cached = False
    add_i64(&open_count, 1)
    return f


cdef SegmentFile *segment_file(const LogState *state, Segment *segment, bint active, int *error) noexcept nogil:
    cdef char[4096] path
    cdef OpenFile *f
    cdef OpenFile *evicted
    if active:
        if segment.file == NULL:
            f = open_file(segment_path(path, state, segment.base_offset, b".log"), error)
            if f == NULL:
                return NULL
            f.owner = segment
            segment.file = &f.file
        file_retain(segment.file)
        return segment.file
    pthread_mutex_lock(&cache_lock)
    if segment.file != NULL:
        f = <OpenFile *>segment.file
        unlink_from_cache(f)
        link_into_cache(f)
        file_retain(&f.file)
        pthread_mutex_unlock(&cache_lock)
        return &f.file
    pthread_mutex_unlock(&cache_lock)
    f = open_file(segment_file_path(path, state, segment, b".log"), error)
    if f == NULL:
        return NULL
    file_retain(&f.file)
    f.owner = segment
    pthread_mutex_lock(&cache_lock)
    segment.file = &f.file
    link_into_cache(f)
    evicted = evict()
    pthread_mutex_unlock(&cache_lock)
    release_all(evicted)
    return &f.file


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
        file_release(&f.file)
