"""Cutting off the end of a .log file, see log_cut.pxd."""
from libc.errno cimport EIO, ENOMEM
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from posix.fcntl cimport O_CREAT, O_RDWR, O_TRUNC
from bowstring._native.log_files cimport (
    file_ops, read_range, segment_file_detach, segment_file_path, segment_path, sync_path, write_range)
from bowstring._native.log_types cimport LogState, Segment, SegmentFile

cdef extern from *:
    """
    #include <errno.h>
    #include <fcntl.h>
    #include <sys/file.h>
    /* Whether anybody has a shared lock: by flock(2), or by fcntl(2) as Java's FileChannel.lock takes it. Where locks are not
       known nobody has one. */
    static int is_share_locked(int fd) {
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            flock(fd, LOCK_UN);
        else if (errno == EWOULDBLOCK)
            return 1;
        return fcntl(fd, F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
    }
    """
    bint is_share_locked(int fd) nogil

cdef enum:
    COPIED_AT_ONCE = 1 << 20


cdef int copy_to(int fd, const char *path, int64_t size_bytes) noexcept nogil:
    """The first size_bytes of a file into a new one, on the medium."""
    cdef uint8_t *piece = <uint8_t *>malloc(COPIED_AT_ONCE)
    cdef int64_t done = 0, n
    cdef int error = 0
    cdef int to = file_ops.open(path, O_RDWR | O_CREAT | O_TRUNC) if piece != NULL else -ENOMEM
    if to < 0:
        free(piece)
        return to
    while error == 0 and done < size_bytes:
        n = size_bytes - done
        n = read_range(fd, piece, n if n < COPIED_AT_ONCE else COPIED_AT_ONCE, done)
        error = <int>n if n < 0 else (-EIO if n == 0 else write_range(to, piece, n, done))
        done += n
    if error == 0:
        error = file_ops.sync(to)
    file_ops.close(to)
    free(piece)
    return error


cdef int log_cut(const LogState *state, Segment *segment, SegmentFile *file, int64_t size_bytes) noexcept nogil:
    cdef char[4096] path
    cdef char[4096] beside
    cdef int error
    if not is_share_locked(file.fd):
        return file_ops.truncate(file.fd, size_bytes)
    segment_file_path(path, state, segment, b".log")
    segment_path(beside, state, segment.base_offset, b".log.tmp")     # what a crash leaves goes at the next start
    error = copy_to(file.fd, beside, size_bytes)
    if error == 0:
        error = file_ops.rename(beside, path)
    if error != 0:
        file_ops.unlink(beside)
        return error
    segment_file_detach(segment)
    return sync_path(state.directory)
