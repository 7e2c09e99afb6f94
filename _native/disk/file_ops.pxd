"""File operations. All go through one table, which tests replace to inject faults."""
from libc.errno cimport ENOSPC
from libc.stdint cimport int32_t, int64_t, uint8_t
from bowstring._native.base.errno cimport EDQUOT

cdef enum:
    PATH_BYTES = 4096               # of a path, with the null byte
    FILE_PATH_BYTES = PATH_BYTES + 64   # of a directory's path, which may fill PATH_BYTES, and a file's name

cdef extern from "sys/uio.h" nogil:
    cdef struct iovec:
        void *iov_base
        size_t iov_len

cdef struct FileOps:
    # All return a negated errno on failure. Fault injection replaces the whole table before any log is open.
    int (*open)(const char *path, int flags) noexcept nogil
    int (*close)(int fd) noexcept nogil
    int64_t (*pread)(int fd, void *data, int64_t size_bytes, int64_t position) noexcept nogil
    int64_t (*pwritev)(int fd, const iovec *parts, int n, int64_t position) noexcept nogil
    int (*truncate)(int fd, int64_t size_bytes) noexcept nogil
    int (*reserve)(int fd, int64_t position, int64_t size_bytes) noexcept nogil  # reserves blocks; the size stays
    int (*sync)(int fd) noexcept nogil
    int (*stat)(int fd, int64_t *size_bytes, int64_t *modified_ms) noexcept nogil
    int (*stat_path)(const char *path, int64_t *size_bytes) noexcept nogil
    int (*rename)(const char *old, const char *new) noexcept nogil
    int (*unlink)(const char *path) noexcept nogil
    # pwrite that returns when the bytes are on the medium (RWF_DSYNC); aligned where the file is O_DIRECT
    int64_t (*write_durable)(int fd, const void *data, int64_t size_bytes, int64_t position) noexcept nogil
    int (*sync_file_system)(const char *path) noexcept nogil     # all data and names
    # POSIX_FADV_*; ENOSYS and EINVAL do not mean that the file failed
    int (*advise)(int fd, int64_t position, int64_t size_bytes, int advice) noexcept nogil
    # begins to write dirty pages to the medium, and does not wait for them; a sync reports their errors
    int (*write_back)(int fd, int64_t position, int64_t size_bytes) noexcept nogil
    # 1: all of the range is in the page cache, 0: not all of it
    int (*cached)(int fd, int64_t position, int64_t size_bytes) noexcept nogil
    int (*set_modified)(int fd, int64_t modified_ms) noexcept nogil
    int (*make_directory)(const char *path) noexcept nogil

cdef FileOps file_ops

# Returns whether an operation failed because the disk, or a quota, is full.
cdef inline bint is_full(int64_t error) noexcept nogil:
    return error == -ENOSPC or error == -EDQUOT

cdef struct StagedFiles:
    # The open files whose last bytes may still be in memory: staged_tail.pyx fills this in. `tails` has an entry for each
    # descriptor below `count`; NULL where all bytes are in the file.
    int32_t count
    void **tails
    int64_t (*read)(void *tail, int fd, void *data, int64_t size_bytes, int64_t position) noexcept nogil

cdef StagedFiles staged_files

# Reads the range, or as much of it as the file, with its staged tail, has. Returns the bytes read, or a negated errno.
cdef int64_t read_range(int fd, void *data, int64_t size_bytes, int64_t position) noexcept nogil
# Writes the whole range. Returns 0 or a negated errno.
cdef int write_range(int fd, const void *data, int64_t size_bytes, int64_t position) noexcept nogil
# Reads the whole file into malloc'd memory, which the caller frees. Returns its size, or a negated errno.
cdef int64_t read_file(const char *path, uint8_t **data) noexcept nogil
# Replaces `path` atomically (path.tmp, then rename); with `sync` the bytes are on the medium before the rename.
cdef int replace_file(const char *path, const void *data, int64_t size_bytes, bint sync) noexcept nogil
cdef int sync_path(const char *path) noexcept nogil
