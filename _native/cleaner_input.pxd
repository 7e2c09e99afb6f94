"""What a run of the cleaner reads, how fast, and when it gives up."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from bowstring._native.batch cimport BatchInfo
from bowstring._native.cleaner_types cimport CleanRun
from bowstring._native.log_types cimport SegmentFile

# 0, or -ECANCELED: somebody stopped the run, or the log was truncated, deleted, closed or failed meanwhile.
cdef int run_check(CleanRun *run) noexcept nogil
# Waits until `size_bytes` more may be read or written: 0 or -ECANCELED.
cdef int run_throttle(CleanRun *run, int64_t size_bytes) noexcept nogil
# The .log of a source, held for the caller; NULL and *error (-ECANCELED: it is not there any more).
cdef SegmentFile *source_file(CleanRun *run, int32_t source, int *error) noexcept nogil
# Begins with the batch at `position` of the source whose file is `fd`.
cdef int input_start(CleanRun *run, int32_t source, int fd, int64_t position) noexcept nogil
# The next batch, whole, with a good CRC, and its records' count plausible: 1, 0 at the end, or a negated errno.
# It is good until the next call.
cdef int input_next(CleanRun *run, const uint8_t **batch, BatchInfo *info) noexcept nogil
# Where the records of a batch are, decompressed if need be: 0 or -EBADMSG with run.reason. Good until the next call.
cdef int records_of(
    CleanRun *run, const uint8_t *batch, const BatchInfo *info, const uint8_t **at, const uint8_t **end) noexcept nogil
# `records` compressed by the codec that `info` has, appended to `scratch` after emptying it: 0 or a negated errno.
cdef int records_pack(CleanRun *run, const BatchInfo *info) noexcept nogil
