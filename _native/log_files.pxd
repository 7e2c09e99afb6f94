"""Files of a log: every operation goes through one table, and open .log files are shared and bounded."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from bowstring._native.log_types cimport PATH_BYTES, LogState, Segment, SegmentFile

cdef extern from "sys/uio.h" nogil:
    cdef struct iovec:
        void *iov_base
        size_t iov_len

cdef struct FileOps:
    # All answer a negated errno on failure. Replaced whole (by fault injection) before any log is open.
    int (*open)(const char *path, int flags) noexcept nogil
    int (*close)(int fd) noexcept nogil
    int64_t (*pread)(int fd, void *data, int64_t size_bytes, int64_t position) noexcept nogil
    int64_t (*pwritev)(int fd, const iovec *parts, int n, int64_t position) noexcept nogil
    int (*truncate)(int fd, int64_t size_bytes) noexcept nogil
    int (*reserve)(int fd, int64_t position, int64_t size_bytes) noexcept nogil  # blocks; the size stays
    int (*sync)(int fd) noexcept nogil
    int (*stat)(int fd, int64_t *size_bytes, int64_t *modified_ms) noexcept nogil
    int (*stat_path)(const char *path, int64_t *size_bytes) noexcept nogil
    int (*rename)(const char *old, const char *new) noexcept nogil
    int (*unlink)(const char *path) noexcept nogil
    # pwrite that returns when the bytes are on the medium (RWF_DSYNC); aligned where the file is O_DIRECT
    int64_t (*write_durable)(int fd, const void *data, int64_t size_bytes, int64_t position) noexcept nogil
    int (*sync_file_system)(const char *path) noexcept nogil     # everything written to it, names too
    # POSIX_FADV_*; ENOSYS or EINVAL are no failure of the file
    int (*advise)(int fd, int64_t position, int64_t size_bytes, int advice) noexcept nogil
    # 1: all of the range is in the page cache, 0: not all of it
    int (*cached)(int fd, int64_t position, int64_t size_bytes) noexcept nogil
    int (*set_modified)(int fd, int64_t modified_ms) noexcept nogil

cdef FileOps file_ops

# "<directory>/<20 digits><suffix>" into out[PATH_BYTES]; returns out.
cdef const char *segment_path(char *out, const LogState *state, int64_t base_offset, const char *suffix) noexcept nogil
# The same of a segment's file, as it is named now: compaction gives the names last.
cdef const char *segment_file_path(
    char *out, const LogState *state, const Segment *segment, const char *suffix) noexcept nogil
cdef const char *directory_path(char *out, const LogState *state, const char *name) noexcept nogil

# The whole range or as much of it as the file has: bytes, or a negated errno.
cdef int64_t read_range(int fd, void *data, int64_t size_bytes, int64_t position) noexcept nogil
# All of it: 0 or a negated errno.
cdef int write_range(int fd, const void *data, int64_t size_bytes, int64_t position) noexcept nogil
# The whole file in malloc'd memory, which the caller frees: its size, or a negated errno.
cdef int64_t read_file(const char *path, uint8_t **data) noexcept nogil
# Replaces `path` in one step (path.tmp, then rename); with `sync` its bytes are on the medium first.
cdef int replace_file(const char *path, const void *data, int64_t size_bytes, bint sync) noexcept nogil
cdef int sync_path(const char *path) noexcept nogil

# The segment's .log, open, held for the caller; NULL and *error when it can't be opened. Log.lock is held.
# The active segment's file stays open; others are closed again, the least recently used first, when too
# many are open.
cdef SegmentFile *segment_file(const LogState *state, Segment *segment, bint active, int *error) noexcept nogil
cdef void segment_file_demote(Segment *segment) noexcept nogil     # it is not the active one any more
cdef void segment_file_detach(Segment *segment) noexcept nogil     # the segment lets go of it
cdef void file_retain(SegmentFile *file) noexcept nogil
cdef void file_release(SegmentFile *file) noexcept nogil
cdef void files_open_max(int64_t n) noexcept nogil
