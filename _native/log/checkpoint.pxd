"""Checkpoints: flush many logs at once, each with the files from which recovery starts."""
from libc.stdint cimport int32_t
from bowstring._native.log.types cimport Log

cdef struct CheckpointOutcome:
    int32_t flushed                 # logs that had unflushed data and are now on the medium
    int32_t failed                  # logs that could not be flushed: they refuse appends
    int32_t file_systems            # synced as a whole; 0 when the logs were flushed one by one

# Flushes every log up to its end, with its index tails, its leader epochs and a producer snapshot at the end, and
# advances its recovery point. If at least `bulk_from` logs have unflushed data, syncs their file systems instead of four
# files of each log. Takes each log's lock briefly, never while the device works. A log without new data costs one
# lock. Returns 0, or -ENOMEM before any work; other errors concern single logs and are counted in *out.
cdef int checkpoint_logs(Log **logs, int32_t n, int32_t bulk_from, CheckpointOutcome *out) noexcept nogil
