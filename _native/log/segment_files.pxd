"""The .log files of a log: their paths, and the shared and bounded cache of open ones."""
from libc.stdint cimport int64_t
from bowstring._native.log.types cimport LogState, Segment, SegmentFile

# Writes "<directory>/<20 digits><suffix>" to out[PATH_BYTES]; returns out.
cdef const char *segment_path(char *out, const LogState *state, int64_t base_offset, const char *suffix) noexcept nogil
# The same for the current name of a segment's file, which is *.swap while compaction swaps segments.
cdef const char *segment_file_path(
    char *out, const LogState *state, const Segment *segment, const char *suffix) noexcept nogil
cdef const char *directory_path(char *out, const LogState *state, const char *name) noexcept nogil

# Opens the segment's .log and holds it for the caller; NULL and *error when it can't be opened. With Log.lock. The active
# segment's file stays open; of the others the least recently used are closed when too many are open.
cdef SegmentFile *segment_file(const LogState *state, Segment *segment, bint active, int *error) noexcept nogil
# Like segment_file if the file is open, else NULL: never waits for the disk.
cdef SegmentFile *segment_file_if_open(Segment *segment, bint active) noexcept nogil
# Writes the staged tail of the active segment to its file: 0 or a negated errno. With Log.lock.
cdef int active_write_out(const LogState *state) noexcept nogil
cdef void segment_file_demote(Segment *segment) noexcept nogil     # it is no longer active
cdef void segment_file_detach(Segment *segment) noexcept nogil     # the segment drops its file
cdef void segment_file_retain(SegmentFile *file) noexcept nogil
cdef void segment_file_release(SegmentFile *file) noexcept nogil
cdef void files_open_max(int64_t n) noexcept nogil
