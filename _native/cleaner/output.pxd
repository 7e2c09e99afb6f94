"""The segment that a run of the cleaner writes: <base offset>.log.cleaned and its indexes."""
from libc.stdint cimport int64_t, uint8_t
from bowstring._native.cleaner.types cimport CleanRun
from bowstring._native.record.batch cimport BatchInfo

# The functions return 0 or a negated errno.
cdef int output_open(CleanRun *run, int64_t base_offset) noexcept nogil
# Writes a complete batch unchanged.
cdef int output_copy(CleanRun *run, const uint8_t *batch, const BatchInfo *info) noexcept nogil
# Writes the header of a batch into the space before its `records_bytes` of records at the end of output.data.
cdef int output_seal(CleanRun *run, BatchInfo *info, int64_t records_bytes) noexcept nogil
# Makes room for a header at the end of output.data, for output_seal. NULL when memory ran out.
cdef uint8_t *output_header(CleanRun *run) noexcept nogil
# Syncs all files, with the modification time of the segments that they replace.
cdef int output_finish(CleanRun *run, int64_t modified_ms) noexcept nogil
# Removes the files, finished or not.
cdef void output_discard(CleanRun *run) noexcept nogil
cdef void output_close(CleanRun *run) noexcept nogil
cdef const char *run_path(char *out, const CleanRun *run, int64_t base_offset, const char *suffix) noexcept nogil
