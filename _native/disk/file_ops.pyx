"""File operations, see file_ops.pxd.

Contents: the real operations (real_*) · whole ranges and small files, through the table.
"""
from libc.errno cimport EINTR, EIO, EMFILE, ENOMEM, EOPNOTSUPP, errno
from libc.stdint cimport int64_t, uint8_t
from libc.stdio cimport rename as c_rename, snprintf
from libc.stdlib cimport free, malloc
from posix.fcntl cimport O_CLOEXEC, O_CREAT, O_RDONLY, O_RDWR, O_TRUNC, open as c_open
from posix.stat cimport fstat, stat as c_stat, struct_stat
from posix.unistd cimport close as c_close, fdatasync, ftruncate, pread as c_pread, unlink as c_unlink
from bowstring._native.base.atomics cimport load_pointer
from bowstring._native.disk.descriptors cimport descriptors_allow, descriptors_lend, descriptors_refill

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

cdef extern from "sys/stat.h" nogil:
    int mkdir(const char *path, unsigned int mode)

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

# ---------------------------------------------------------------- the real operations

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
        /* Assume cached if the file system cannot tell: the read may then block. */
        return n >= 0 || errno != EAGAIN;
    }
    /* Uses cachestat(2); if the kernel or a sandbox refuses it, reads three bytes without waiting. */
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
    int sync_file_range(int fd, int64_t position, int64_t size_bytes, unsigned int flags) nogil
    int SYNC_FILE_RANGE_WRITE

cdef extern from "unistd.h" nogil:
    int syncfs(int fd)


cdef int real_open(const char *path, int flags) noexcept nogil:
    cdef int fd
    while True:
        fd = c_open(path, flags | O_CLOEXEC, 0o644)
        if fd >= 0 and not descriptors_allow():
            c_close(fd)
            descriptors_refill()
            return -EMFILE
        if fd >= 0:
            return fd
        if errno != EINTR and not descriptors_lend(-errno):
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
    if fdatasync(fd) == 0:
        return 0
    # Even for want of memory: the kernel may have dropped what it could not write, and the next sync would not say so.
    return -EIO if errno == ENOMEM else -errno


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
        if errno == EOPNOTSUPP:                          # the file system cannot do that: write, then sync
            written = c_pwritev(fd, &part, 1, position)
            if written >= 0:
                return written if fdatasync(fd) == 0 else -errno
        if errno != EINTR:
            return -errno


cdef int real_sync_file_system(const char *path) noexcept nogil:
    """Uses a new descriptor, which reports write-back errors that no other descriptor has reported."""
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


cdef int real_write_back(int fd, int64_t position, int64_t size_bytes) noexcept nogil:
    """Without the flags that wait: these would take an error that the next fdatasync is to report."""
    return 0 if sync_file_range(fd, position, size_bytes, SYNC_FILE_RANGE_WRITE) == 0 else -errno


cdef int real_cached(int fd, int64_t position, int64_t size_bytes) noexcept nogil:
    return file_cached(fd, position, size_bytes)


cdef int real_set_modified(int fd, int64_t modified_ms) noexcept nogil:
    return 0 if set_modified_ms(fd, modified_ms) == 0 else -errno


cdef int real_make_directory(const char *path) noexcept nogil:
    return 0 if mkdir(path, 0o777) == 0 else -errno


staged_files.count = 0
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
file_ops.write_back = real_write_back
file_ops.cached = real_cached
file_ops.set_modified = real_set_modified
file_ops.make_directory = real_make_directory

# ---------------------------------------------------------------- whole ranges and small files


cdef int64_t read_range(int fd, void *data, int64_t size_bytes, int64_t position) noexcept nogil:
    cdef int64_t done = 0
    cdef int64_t n
    cdef void *tail = load_pointer(&staged_files.tails[fd]) if 0 <= fd < staged_files.count else NULL
    if tail != NULL:
        return staged_files.read(tail, fd, data, size_bytes, position)
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
    cdef char[PATH_BYTES] temporary
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
    """Syncs a file, or a directory, whose names then survive power loss."""
    cdef int error
    cdef int fd = file_ops.open(path, O_RDONLY)
    if fd < 0:
        return fd
    error = file_ops.sync(fd)
    file_ops.close(fd)
    return error
