"""Verifies .log files, see verify.pxd.

Contents: a piece of a file · findings of an open log · verify_file(), for stopped directories.
"""
from libc.stdint cimport INT32_MAX, INT64_MAX, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport strerror
from posix.fcntl cimport O_RDONLY
from bowstring._native.disk.file_ops cimport file_ops
from bowstring._native.log.scan cimport LogScan, scan_at, scan_close, scan_next, scan_open, scan_pass, scan_skip
from bowstring._native.record.batch cimport BatchInfo


cdef int pass_damage(LogScan *scan, VerifyPiece *piece) noexcept nogil:
    cdef Damage *damage = &piece.damage[piece.damage_count]
    cdef BatchInfo info
    cdef const uint8_t *batch = NULL
    cdef int found
    damage.what = scan.bad
    damage.position = scan_at(scan)
    damage.first_offset = piece.next_offset
    damage.end_offset = -1
    found = scan_skip(scan, piece.next_offset, piece.base_offset + INT32_MAX, &info)
    if found < 0:
        return found
    damage.size_bytes = scan_at(scan) - damage.position
    if found == 2:
        damage.end_offset = info.base_offset + info.last_offset_delta + 1
    elif found == 1 and scan_next(scan, &info, &batch) > 0:
        damage.end_offset = info.base_offset
    if damage.end_offset >= 0:
        piece.next_offset = damage.end_offset
    piece.damage_count += 1
    return found


cdef int verify_batches(LogScan *scan, int64_t until, VerifyPiece *piece) noexcept nogil:
    cdef BatchInfo info
    cdef const uint8_t *batch = NULL
    cdef int found = 1
    while found > 0 and scan_at(scan) < until and piece.damage_count < DAMAGE_MAX:
        if piece.next_offset >= piece.below_offset:
            piece.done = True
            return 0
        found = scan_next(scan, &info, &batch)
        if found > 0 and info.base_offset >= piece.below_offset:
            piece.done = True
            return 0
        if found > 0 and info.base_offset < piece.next_offset:
            scan.bad = b"the batch's offsets do not follow those of the previous batch"
            found = 0
        if found > 0:
            piece.batches += 1
            piece.records += info.record_count
            piece.next_offset = info.base_offset + info.last_offset_delta + 1
            scan_pass(scan, info.size_bytes)
        elif found == 0 and scan.bad != NULL:
            found = pass_damage(scan, piece)
    return found


cdef int verify_piece(int fd, int64_t end, int64_t max_bytes, VerifyPiece *piece) noexcept nogil:
    cdef LogScan scan
    cdef int64_t until = end if max_bytes >= end - piece.position else piece.position + max_bytes
    cdef int found
    piece.batches = piece.records = 0
    piece.damage_count = 0
    piece.done = False
    found = scan_open(&scan, fd, piece.position, end)
    if found == 0:
        found = verify_batches(&scan, until, piece)
        piece.position = scan_at(&scan)
        piece.done = piece.done or piece.position >= end
    scan_close(&scan)
    return found if found < 0 else 0

# ---------------------------------------------------------------- findings


cdef LogFinding *finding_add(LogState *state, const char *what, int64_t base_offset, const char *suffix,
                             int64_t position, int64_t size_bytes, int64_t first_offset,
                             int64_t end_offset) noexcept nogil:
    cdef LogFinding *finding = <LogFinding *>calloc(1, sizeof(LogFinding))
    if finding == NULL:
        return NULL
    finding.what = what
    finding.suffix = suffix
    finding.base_offset = base_offset
    finding.position = position
    finding.size_bytes = size_bytes
    finding.first_offset = first_offset
    finding.end_offset = end_offset
    finding.next = state.findings
    state.findings = finding
    return finding


cdef void findings_free(LogState *state) noexcept nogil:
    cdef LogFinding *finding
    while state.findings != NULL:
        finding = state.findings
        state.findings = finding.next
        free(finding)

# ---------------------------------------------------------------- Python function


cdef dict damage_dict(const Damage *damage):
    return {"what": damage.what.decode(), "position": damage.position, "size_bytes": damage.size_bytes,
            "first_offset": damage.first_offset, "end_offset": damage.end_offset}


cdef dict piece_dict(const VerifyPiece *piece):
    return {"position": piece.position, "next_offset": piece.next_offset, "batches": piece.batches,
            "records": piece.records, "done": bool(piece.done),
            "damage": [damage_dict(&piece.damage[i]) for i in range(piece.damage_count)]}


def verify_file(path, int64_t base_offset, *, int64_t position=0, int64_t next_offset=-1, int64_t max_bytes=INT64_MAX):
    """Verifies a piece of a segment's .log file. No process may write to the file.

    Args:
        base_offset: The segment's base offset, from the file's name.
        position, next_offset: From the result for the previous piece; the default is the beginning of the file.
        max_bytes: About how many bytes to read.

    Returns:
        ``position`` and ``next_offset`` for the next piece, the numbers of good ``batches`` and ``records``, ``damage`` (dicts with ``what``,
        ``position``, ``size_bytes``, ``first_offset``, ``end_offset``: -1 when no good batch follows), and ``done``.

    Raises:
        OSError: The file cannot be read; EOPNOTSUPP for the message formats 0 and 1.
    """
    cdef str name = str(path)
    cdef bytes encoded = name.encode("utf-8", "surrogateescape")
    cdef const char *c_path = encoded
    cdef VerifyPiece piece
    cdef int64_t size_bytes = 0
    cdef int fd, error
    piece.position = position
    piece.base_offset = base_offset
    piece.next_offset = next_offset if next_offset >= 0 else base_offset
    piece.below_offset = INT64_MAX
    with nogil:
        fd = file_ops.open(c_path, O_RDONLY)
        error = fd if fd < 0 else file_ops.stat(fd, &size_bytes, NULL)
        if error >= 0:
            error = verify_piece(fd, size_bytes, max_bytes, &piece)
        if fd >= 0:
            file_ops.close(fd)
    if error < 0:
        raise OSError(-error, strerror(-error).decode("utf-8", "replace"), name)
    return piece_dict(&piece)
