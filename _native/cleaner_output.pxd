"""The segment that a run of the cleaner writes: <base offset>.log.cleaned and its indexes."""
from libc.stdint cimport int64_t, uint8_t
from bowstring._native.batch cimport BatchInfo
from bowstring._native.cleaner_types cimport CleanRun

# All answer 0 or a negated errno.
cdef int output_open(CleanRun *run, int64_t base_offset) noexcept nogil
# A whole batch as it is.
cdef int output_copy(CleanRun *run, const uint8_t *batch, const BatchInfo *info) noexcept nogil
# The header of a batch whose records, `records_bytes` of them, lie behind the room for it at the end of output.data.
cdef int output_seal(CleanRun *run, BatchInfo *info, int64_t records_bytes) noexcept nogil
# Room for a header at the end of output.data, for output_seal: NULL without memory.
cdef uint8_t *output_header(CleanRun *run) noexcept nogil
# Everything onto the medium, with the time of the last modification of what it replaces.
cdef int output_finish(CleanRun *run, int64_t modified_ms) noexcept nogil
# The files go, whether or not they were finished.
cdef void output_discard(CleanRun *run) noexcept nogil
cdef void output_close(CleanRun *run) noexcept nogil
cdef const char *run_path(char *out, const CleanRun *run, int64_t base_offset, const char *suffix) noexcept nogil
