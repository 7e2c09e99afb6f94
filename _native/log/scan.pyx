"""Scans .log files, see scan.pxd; the Python function is for tools, tests and benches."""
from libc.errno cimport ENODATA, ENOMEM, EOPNOTSUPP
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr, memmove, strerror
from posix.fcntl cimport O_RDONLY
from bowstring._native.base.bigendian cimport load_be32, load_be64
from bowstring._native.disk.file_ops cimport file_ops, read_range
from bowstring._native.record.batch cimport (
    BATCH_HEADER_BYTES, BATCH_LENGTH, BATCH_LENGTH_PREFIX_BYTES, BATCH_MAGIC, BatchInfo, batch_crc_ok, batch_parse)

cdef enum:
    LEGACY_MIN_BYTES = 26           # of a message of magic 0
    WINDOW_MIN_BYTES = 16384

SCAN_PIECE_BYTES = SCAN_BYTES


cdef int scan_open(LogScan *scan, int fd, int64_t position, int64_t end) noexcept nogil:
    return scan_open_window(scan, fd, position, end, SCAN_BYTES)


cdef int scan_open_window(LogScan *scan, int fd, int64_t position, int64_t end, int64_t window_bytes) noexcept nogil:
    scan.fd = fd
    scan.position = position
    scan.end = end
    scan.start = scan.filled = scan.read_bytes = 0
    scan.bad = NULL
    window_bytes = window_bytes if window_bytes > WINDOW_MIN_BYTES else WINDOW_MIN_BYTES
    window_bytes = window_bytes if window_bytes < SCAN_BYTES else SCAN_BYTES
    scan.capacity = end - position if 0 < end - position < window_bytes else window_bytes
    scan.data = <uint8_t *>malloc(<size_t>scan.capacity)
    return 0 if scan.data != NULL else -ENOMEM


cdef void scan_close(LogScan *scan) noexcept nogil:
    free(scan.data)
    scan.data = NULL


cdef int fill(LogScan *scan, int64_t wanted) noexcept nogil:
    """Reads until `wanted` bytes are available at scan.start. Returns 0, -ENODATA when the range or file ends before, or
    another negated errno."""
    cdef int64_t held = scan.filled - scan.start
    cdef int64_t n
    cdef uint8_t *grown
    if held >= wanted:
        return 0
    if scan_at(scan) + wanted > scan.end:
        return -ENODATA
    if held > 0:
        memmove(scan.data, scan.data + scan.start, <size_t>held)
    else:
        held = 0                                         # the batch that was skipped may be larger than the window
    scan.position += scan.start
    scan.start = 0
    scan.filled = held
    if wanted > scan.capacity:
        grown = <uint8_t *>realloc(scan.data, <size_t>wanted)
        if grown == NULL:
            return -ENOMEM
        scan.data = grown
        scan.capacity = wanted
    n = scan.end - scan.position - held
    if n > scan.capacity - held:
        n = scan.capacity - held
    n = read_range(scan.fd, scan.data + held, n, scan.position + held)
    if n < 0:
        return <int>n
    scan.filled = held + n
    scan.read_bytes += n
    return 0 if scan.filled >= wanted else -ENODATA


cdef int64_t size_at(const uint8_t *batch) noexcept nogil:
    return <int64_t>load_be32(batch + BATCH_LENGTH) + BATCH_LENGTH_PREFIX_BYTES


cdef int ends_early(LogScan *scan, int error) noexcept nogil:
    if error == -ENODATA:
        scan.bad = b"the batch is truncated: the file ends inside it"
        return 0
    return error


cdef int scan_next(LogScan *scan, BatchInfo *info, const uint8_t **batch) noexcept nogil:
    cdef const uint8_t *at
    cdef int64_t size_bytes
    cdef int error
    scan.bad = NULL
    if scan_at(scan) >= scan.end:
        return 0
    error = fill(scan, BATCH_MAGIC + 1)
    if error != 0:
        return ends_early(scan, error)
    at = scan.data + scan.start
    size_bytes = size_at(at)
    if at[BATCH_MAGIC] < 2 and size_bytes >= LEGACY_MIN_BYTES and scan_at(scan) == 0:
        return -EOPNOTSUPP                               # magic 0 or 1 is not damage and must not be truncated
    if at[BATCH_MAGIC] != 2 or size_bytes < BATCH_HEADER_BYTES:
        scan.bad = b"there is no batch header"
        return 0
    error = fill(scan, size_bytes)
    if error != 0:
        return ends_early(scan, error)
    at = scan.data + scan.start
    if batch_parse(at, size_bytes, info) != 0 or info.last_offset_delta < 0:
        scan.bad = b"the batch header is invalid"
        return 0
    if not batch_crc_ok(at, size_bytes):
        scan.bad = b"the batch fails its CRC-32C"
        return 0
    batch[0] = at
    return 1

# ---------------------------------------------------------------- skipping a bad batch


cdef bint good_follows(LogScan *scan, int64_t size_bytes, int64_t min_offset, int64_t max_offset, int *error) noexcept nogil:
    """Whether a good batch or the end of the range follows the `size_bytes` at scan.start; then skips them."""
    cdef BatchInfo info
    cdef const uint8_t *batch = NULL
    cdef int found
    if scan_at(scan) + size_bytes == scan.end:
        scan.start += size_bytes
        return True
    error[0] = fill(scan, size_bytes)
    if error[0] != 0:
        error[0] = 0 if error[0] == -ENODATA else error[0]
        return False
    scan.start += size_bytes
    found = scan_next(scan, &info, &batch)
    if found > 0 and min_offset <= info.base_offset <= max_offset:
        return True
    error[0] = found if found < 0 and found != -EOPNOTSUPP else 0
    # The window may have advanced: read the skipped bytes again from the file.
    scan.position = scan_at(scan) - size_bytes
    scan.start = scan.filled = 0
    return False


cdef int search_on(LogScan *scan, int64_t min_offset, int64_t max_offset) noexcept nogil:
    """Searches for the next position at which a good batch begins."""
    cdef BatchInfo info
    cdef const uint8_t *batch = NULL
    cdef const uint8_t *magic
    cdef int64_t base_offset
    cdef int found
    while True:
        scan.start += 1
        found = fill(scan, BATCH_HEADER_BYTES)
        if found != 0:
            break
        magic = <const uint8_t *>memchr(
            scan.data + scan.start + BATCH_MAGIC, 2, <size_t>(scan.filled - scan.start - BATCH_MAGIC))
        if magic == NULL:
            scan.start = scan.filled - BATCH_MAGIC - 1   # none in the window: the next one begins behind it
            continue
        scan.start = magic - scan.data - BATCH_MAGIC
        base_offset = load_be64(scan.data + scan.start)
        if base_offset < min_offset or base_offset > max_offset:
            continue
        found = scan_next(scan, &info, &batch)
        if found > 0:
            return 1
        if found < 0 and found != -EOPNOTSUPP:
            return found
    if found != -ENODATA:
        return found
    scan.start = scan.end - scan.position
    return 0


cdef int scan_skip(LogScan *scan, int64_t min_offset, int64_t max_offset, BatchInfo *bad) noexcept nogil:
    cdef int64_t size_bytes
    cdef int error = fill(scan, BATCH_HEADER_BYTES)
    if error == 0:
        size_bytes = size_at(scan.data + scan.start)
        if size_bytes >= BATCH_HEADER_BYTES and batch_parse(scan.data + scan.start, size_bytes, bad) == 0 \
                and bad.last_offset_delta >= 0 and min_offset <= bad.base_offset <= max_offset \
                and good_follows(scan, size_bytes, bad.base_offset + bad.last_offset_delta + 1, max_offset, &error):
            return 2
    if error != 0 and error != -ENODATA:
        return error
    return search_on(scan, min_offset, max_offset)


cdef int scan_range(int fd, int64_t position, int64_t end, ScanResult *out) noexcept nogil:
    cdef LogScan scan
    cdef BatchInfo info
    cdef const uint8_t *batch = NULL
    cdef int found
    out.batches = out.records = 0
    out.next_offset = -1
    out.valid_end = position
    out.bad = NULL
    found = scan_open(&scan, fd, position, end)
    if found == 0:
        found = scan_next(&scan, &info, &batch)
        while found > 0:
            out.batches += 1
            out.records += info.record_count
            out.next_offset = info.base_offset + info.last_offset_delta + 1
            scan_pass(&scan, info.size_bytes)
            found = scan_next(&scan, &info, &batch)
        out.valid_end = scan_at(&scan)
        out.bad = scan.bad
    scan_close(&scan)
    return found


# ---------------------------------------------------------------- Python function


cdef object os_error(int error, str path):
    return OSError(-error, strerror(-error).decode("utf-8", "replace"), path)


def scan_file(path, int64_t position=0, int64_t end=-1):
    """Verifies the batches of a .log file from `position` to `end` (-1: the end of the file).

    Returns a dict: valid_end (position after the last good batch), batches, records, next_offset (-1 without a batch),
    and bad: why the scan ended before the range did, or None.

    Raises:
        OSError: The file cannot be read; EOPNOTSUPP for the message formats 0 and 1.
    """
    cdef str name = str(path)
    cdef bytes encoded = name.encode("utf-8", "surrogateescape")
    cdef const char *c_path = encoded
    cdef ScanResult result
    cdef int64_t size_bytes = 0
    cdef int fd, error
    with nogil:
        fd = file_ops.open(c_path, O_RDONLY)
        error = fd if fd < 0 else file_ops.stat(fd, &size_bytes, NULL)
        if error >= 0:
            error = scan_range(fd, position, size_bytes if end < 0 or end > size_bytes else end, &result)
        if fd >= 0:
            file_ops.close(fd)
    if error < 0:
        raise os_error(error, name)
    return {"valid_end": result.valid_end, "batches": result.batches, "records": result.records,
            "next_offset": result.next_offset, "bad": None if result.bad == NULL else result.bad.decode()}
