"""Reading a range of a .log file batch by batch, as fast as the page cache gives it, with every CRC checked.

What recovery, the scrubber, cold reads and `bowstring scrub` have in common. Nothing here knows a log: a descriptor
and a range are enough, reads go through FileOps.pread, and no lock is wanted.
"""
from libc.stdint cimport int64_t, uint8_t
from bowstring._native.batch cimport BatchInfo

cdef enum:
    SCAN_BYTES = 1048576            # read at once; the buffer grows for a larger batch

cdef struct LogScan:
    # data[start, filled) is the file from position + start on.
    int fd
    int64_t position
    int64_t end                     # of the range
    uint8_t *data                   # owned from scan_open to scan_close
    int64_t start
    int64_t filled
    int64_t capacity
    const char *bad                 # why scan_next found no batch, a static string; NULL at the end of the range

cdef struct ScanResult:
    int64_t valid_end               # where the last good batch ends: the range's end, or the first bad position
    int64_t batches
    int64_t records
    int64_t next_offset             # last offset + 1 of the last good batch; -1 without one
    const char *bad                 # NULL when all of the range is good

# Begins at `position`, which must be a batch's. 0 or -ENOMEM; scan_close afterwards in either case.
cdef int scan_open(LogScan *scan, int fd, int64_t position, int64_t end) noexcept nogil
cdef void scan_close(LogScan *scan) noexcept nogil

# The batch at scan_at(), whole and with a good header and CRC: 1, and *batch points at it until the next call.
# 0 at the end of the range or at a bad batch (scan.bad). Below 0 a negated errno: EOPNOTSUPP for the message
# formats 0 and 1, which are no damage. Does not move: scan_pass does.
cdef int scan_next(LogScan *scan, BatchInfo *info, const uint8_t **batch) noexcept nogil

cdef inline int64_t scan_at(const LogScan *scan) noexcept nogil:
    return scan.position + scan.start

cdef inline void scan_pass(LogScan *scan, int64_t size_bytes) noexcept nogil:
    scan.start += size_bytes

# After a bad batch: goes to the next good one whose base offset is in [min_offset, max_offset], or to the end.
# 2 when the bad batch's own header still makes sense and tells its size, which is then in *bad; 1 when a good
# batch had to be searched for; 0 when none follows; or a negated errno.
cdef int scan_skip(LogScan *scan, int64_t min_offset, int64_t max_offset, BatchInfo *bad) noexcept nogil

# The whole range in one go, up to its first bad batch. 0 or a negated errno.
cdef int scan_range(int fd, int64_t position, int64_t end, ScanResult *out) noexcept nogil
