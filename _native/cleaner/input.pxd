"""Input of a cleaner run: reading batches, throttling, and stopping."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from bowstring._native.cleaner.types cimport CleanRun
from bowstring._native.log cimport SegmentFile
from bowstring._native.record.batch cimport BatchInfo

# Returns 0, or -ECANCELED if the run was stopped, or the log was truncated, deleted, closed or has failed meanwhile.
cdef int run_check(CleanRun *run) noexcept nogil
# Waits until `size_bytes` more may be read or written: 0 or -ECANCELED.
cdef int run_throttle(CleanRun *run, int64_t size_bytes) noexcept nogil
# Opens the .log of a source and holds it for the caller; NULL and *error (-ECANCELED: the source was removed).
cdef SegmentFile *source_file(CleanRun *run, int32_t source, int *error) noexcept nogil
# Starts at the batch at `position` of the source whose file is `fd`.
cdef int input_start(CleanRun *run, int32_t source, int fd, int64_t position) noexcept nogil
# Reads the next complete batch; checks its CRC, and that its record count is plausible. Returns 1, 0 at the end, or a
# negated errno. The batch is valid until the next call.
cdef int input_next(CleanRun *run, const uint8_t **batch, BatchInfo *info) noexcept nogil
# Finds the records of a batch, decompressed if needed: 0, or -EBADMSG with run.reason. Valid until the next call.
cdef int records_of(
    CleanRun *run, const uint8_t *batch, const BatchInfo *info, const uint8_t **at, const uint8_t **end) noexcept nogil
# Compresses the records in `scratch` with the codec of `info`, and replaces them. Returns 0 or a negated errno.
cdef int records_pack(CleanRun *run, const BatchInfo *info) noexcept nogil
