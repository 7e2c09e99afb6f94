"""Reads a range of a .log file batch by batch, at the speed of the page cache, and checks every CRC.

Recovery, the scrubber, cold reads and `bowstring scrub` use it. It needs no Log and no lock, only a descriptor and a
range. Reads go through FileOps.pread.
"""
from libc.stdint cimport int64_t, uint8_t
from bowstring._native.record.batch cimport BatchInfo

cdef enum:
    SCAN_BYTES = 1048576            # bytes of one read; the buffer grows for a larger batch

cdef struct LogScan:
    # data[start, filled) are the file's bytes from position + start on.
    int fd
    int64_t position
    int64_t end                     # of the range
    uint8_t *data                   # owned from scan_open to scan_close
    int64_t start
    int64_t filled
    int64_t capacity
    int64_t read_bytes              # from the file so far
    const char *bad                 # why scan_next found no batch, a static string; NULL at the end of the range

cdef struct ScanResult:
    int64_t valid_end               # where the last good batch ends: the range's end, or the first bad position
    int64_t batches
    int64_t records
    int64_t next_offset             # last offset + 1 of the last good batch; -1 without one
    const char *bad                 # NULL when all of the range is good

# Starts at `position`, where a batch must begin. Returns 0 or -ENOMEM; call scan_close in either case.
cdef int scan_open(LogScan *scan, int fd, int64_t position, int64_t end) noexcept nogil
# Like scan_open, but reads about `window_bytes` at a time, for callers that need less than SCAN_BYTES.
cdef int scan_open_window(LogScan *scan, int fd, int64_t position, int64_t end, int64_t window_bytes) noexcept nogil
cdef void scan_close(LogScan *scan) noexcept nogil

# Checks the batch at scan_at(). Returns 1 if it is complete with a valid header and CRC; *batch points to it until the next
# call. 0 at the end of the range or at a bad batch (scan.bad says why). Below 0 a negated errno: EOPNOTSUPP for message
# formats 0 and 1, which are not damage. Does not advance: scan_pass does.
cdef int scan_next(LogScan *scan, BatchInfo *info, const uint8_t **batch) noexcept nogil

cdef inline int64_t scan_at(const LogScan *scan) noexcept nogil:
    return scan.position + scan.start

cdef inline void scan_pass(LogScan *scan, int64_t size_bytes) noexcept nogil:
    scan.start += size_bytes

# After a bad batch: moves to the next good one whose base offset is in [min_offset, max_offset], or to the end. Returns 2
# when the bad batch's header is plausible and gave its size (then *bad is filled), 1 when a good batch was searched for,
# 0 when none follows, or a negated errno.
cdef int scan_skip(LogScan *scan, int64_t min_offset, int64_t max_offset, BatchInfo *bad) noexcept nogil

# Scans the whole range, up to its first bad batch. 0 or a negated errno.
cdef int scan_range(int fd, int64_t position, int64_t end, ScanResult *out) noexcept nogil
