"""Looks for damage in the files of an open log, a piece at a time. The GIL is released around I/O."""
from libc.errno cimport ENOENT, ENOMEM
from libc.stdint cimport INT64_MAX, int32_t, int64_t
from libc.string cimport strerror
from posix.fcntl cimport POSIX_FADV_DONTNEED
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.file_ops cimport file_ops
from bowstring._native.log.partition_log cimport PartitionLog
from bowstring._native.log.segment cimport segment_floor
from bowstring._native.log.segment_files cimport segment_file, segment_file_release
from bowstring._native.log.types cimport Log, LogState, SegmentFile, state_of
from bowstring._native.log.verified_ranges cimport segment_mark_corrupt, segment_verified
from bowstring._native.log.verify cimport VerifyPiece, piece_dict, verify_piece

cdef struct Target:
    # The file that a piece of scrubbing reads, held open.
    SegmentFile *file
    int64_t size_bytes
    int64_t below_offset
    int64_t truncations


cdef int take_target(Log *log, int64_t base_offset, Target *target) noexcept nogil:
    """Finds and holds the file: 0, -ENOENT when the log no longer has this segment, or another negated errno. Call it
    under the lock."""
    cdef LogState *state = state_of(log)
    cdef int32_t i = segment_floor(state, base_offset)
    cdef bint active
    cdef int error = 0
    if state.closed or state.deleting or i < 0 or state.segments[i].base_offset != base_offset:
        return -ENOENT
    active = i == state.segment_count - 1
    target.size_bytes = state.segments[i].size_bytes
    target.below_offset = state.recovery_point if active else INT64_MAX
    target.truncations = log.truncations
    target.file = segment_file(state, state.segments[i], active, &error)
    return error


cdef int verify_cold(int fd, int64_t end, int64_t max_bytes, VerifyPiece *piece) noexcept nogil:
    """Verifies a piece. Removes the bytes read from the page cache, unless they were cached before, so that the cache
    keeps the readers' data."""
    cdef int64_t start = piece.position
    cdef int64_t size_bytes = max_bytes if max_bytes < end - start else end - start
    cdef bint was_cold = file_ops.cached(fd, start, size_bytes) == 0
    cdef int error = verify_piece(fd, end, max_bytes, piece)
    if was_cold and piece.position > start:
        file_ops.advise(fd, start, piece.position - start, POSIX_FADV_DONTNEED)
    return error


cdef int enter_outcome(Log *log, const Target *target, int64_t start, const VerifyPiece *piece) noexcept nogil:
    """Records the outcome. -ENOENT: the segment was removed or the log was truncated meanwhile."""
    cdef LogState *state = state_of(log)
    cdef int32_t i, k
    cdef int error = 0
    pthread_mutex_lock(&log.lock)
    i = segment_floor(state, piece.base_offset)
    if log.truncations != target.truncations or i < 0 or state.segments[i].base_offset != piece.base_offset:
        error = -ENOENT
    else:
        for k in range(piece.damage_count):
            if segment_mark_corrupt(state.segments[i], piece.damage[k].position, piece.damage[k].size_bytes) < 0:
                error = -ENOMEM
        if error == 0:
            segment_verified(state.segments[i], start, piece.position)
    pthread_mutex_unlock(&log.lock)
    return error


cdef int scrub(Log *log, int64_t max_bytes, VerifyPiece *piece) noexcept nogil:
    cdef Target target
    cdef int64_t start = piece.position
    cdef int error
    pthread_mutex_lock(&log.lock)
    error = take_target(log, piece.base_offset, &target)
    pthread_mutex_unlock(&log.lock)
    if error != 0:
        return error
    piece.below_offset = target.below_offset
    error = verify_cold(target.file.fd, target.size_bytes, max_bytes, piece)
    segment_file_release(target.file)
    return error if error != 0 else enter_outcome(log, &target, start, piece)


def scrub_piece(PartitionLog log not None, int64_t base_offset, *, int64_t position=0, int64_t next_offset=-1,
                int64_t max_bytes=1 << 20):
    """Verifies a piece of one segment of an open log: a closed segment completely, the active one up to the recovery
    point. Marks damage, so that it is not served.

    Arguments and result are those of verify_file() in verify.pyx. Returns None when the log no longer has this segment,
    or was truncated meanwhile.

    Raises:
        OSError: The file cannot be read.
    """
    cdef VerifyPiece piece
    cdef int error
    piece.base_offset = base_offset
    piece.position = position
    piece.next_offset = next_offset if next_offset >= 0 else base_offset
    with nogil:
        error = scrub(log.log, max_bytes, &piece)
    if error == -ENOENT:
        return None
    if error != 0:
        raise OSError(-error, strerror(-error).decode("utf-8", "replace"),
                      f"{log.directory}/{base_offset:020d}.log")
    return piece_dict(&piece)
