"""Cutting off the end of a .log file that local readers may have mapped (docs/local-reads.md)."""
from libc.stdint cimport int64_t
from bowstring._native.log_types cimport LogState, Segment, SegmentFile

# The segment's .log ends at size_bytes from now on: 0 or a negated errno. Log.lock is held, or nobody else has the log yet.
# A file that a reader maps, and says so by a shared lock, stays as it is: a shorter copy takes its name, and the
# segment lets go of `file`, which the caller still holds.
cdef int log_cut(const LogState *state, Segment *segment, SegmentFile *file, int64_t size_bytes) noexcept nogil
