"""Damage in a log's files, as Python sees it: what opening found, what the scrubber looks for.

On top of PartitionLog; the GIL is released around I/O.
"""
from libc.errno cimport ENOENT, ENOMEM
from libc.stdint cimport INT64_MAX, int32_t, int64_t
from libc.string cimport strerror
from posix.fcntl cimport POSIX_FADV_DONTNEED
from bowstring._native.log cimport Log, PartitionLog
from bowstring._native.log_checked cimport segment_mark_corrupt, segment_verified
from bowstring._native.log_files cimport file_ops, file_release, segment_file
from bowstring._native.log_findings cimport findings_free
from bowstring._native.log_roll cimport state_of
from bowstring._native.log_segment cimport segment_floor
from bowstring._native.log_types cimport LogFinding, LogState, SegmentFile, pthread_mutex_t
from bowstring._native.log_verify cimport VerifyPiece, piece_dict, verify_piece

cdef extern from "pthread.h" nogil:
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)

# ---------------------------------------------------------------- found when the log was opened


cdef dict finding_dict(const LogFinding *finding):
    return {
        "what": finding.what.decode(),
        "file": f"{finding.base_offset:020d}{finding.suffix.decode()}" if finding.suffix != NULL else None,
        "position": finding.position,
        "size_bytes": finding.size_bytes,
        "first_offset": finding.first_offset,
        "end_offset": finding.end_offset,
        "out_of_service": bool(finding.out_of_service),
    }


def take_findings(PartitionLog log not None):
    """What opening the log came upon, in that order, once: dicts as log_damage.pyi describes them."""
    cdef LogState holder
    cdef const LogFinding *finding
    cdef list found = []
    pthread_mutex_lock(&log.log.lock)
    holder.findings = state_of(log.log).findings
    state_of(log.log).findings = NULL
    pthread_mutex_unlock(&log.log.lock)
    try:
        finding = holder.findings
        while finding != NULL:
            found.append(finding_dict(finding))
            finding = finding.next
    finally:
        findings_free(&holder)
    found.reverse()
    return found

# ---------------------------------------------------------------- the scrubber's work

cdef struct Target:
    # What a piece of scrubbing works on, held open.
    SegmentFile *file
    int64_t size_bytes
    int64_t below_offset
    int64_t truncations


cdef int take_target(Log *log, int64_t base_offset, Target *target) noexcept nogil:
    """0, -ENOENT when the log has no such segment any more, or another negated errno. With the lock."""
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
    """What was not in the page cache before is not left there: readers' data is worth more."""
    cdef int64_t start = piece.position
    cdef int64_t size_bytes = max_bytes if max_bytes < end - start else end - start
    cdef bint was_cold = file_ops.cached(fd, start, size_bytes) == 0
    cdef int error = verify_piece(fd, end, max_bytes, piece)
    if was_cold and piece.position > start:
        file_ops.advise(fd, start, piece.position - start, POSIX_FADV_DONTNEED)
    return error


cdef int enter_outcome(Log *log, const Target *target, int64_t start, const VerifyPiece *piece) noexcept nogil:
    """-ENOENT when what was read is not the log's any more."""
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
    file_release(target.file)
    return error if error != 0 else enter_outcome(log, &target, start, piece)


def scrub_piece(PartitionLog log not None, int64_t base_offset, *, int64_t position=0, int64_t next_offset=-1,
                int64_t max_bytes=1 << 20):
    """Verifies a piece of one segment of an open log: of a closed segment all, of the active one what is below the
    recovery point. Damage is marked, so that it is not served.

    Args and the answer are verify_file()'s, in log_verify; None when the log has no such segment any more, or was
    truncated meanwhile.

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
