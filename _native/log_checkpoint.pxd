"""A checkpoint: many logs put on the medium at once, each with what recovery begins with."""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.log_types cimport Log

cdef struct CheckpointOutcome:
    int32_t flushed                 # logs that had something to flush, and have it on the medium now
    int32_t failed                  # logs that could not be flushed: they take no more appends
    int32_t file_systems            # synced as a whole; 0 when the logs were flushed one by one

# Flushes every log up to its end, with its index tails, its leader epochs and a producer snapshot at the end, and
# advances its recovery point. From `bulk_from` logs with something to flush on, their file systems are synced
# instead of four files each. Takes each log's lock for moments, never while the device works. Logs with nothing new cost a
# lock. 0, or -ENOMEM before anything was done; what else goes wrong concerns single logs and is in *out.
cdef int checkpoint_logs(Log **logs, int32_t n, int32_t bulk_from, CheckpointOutcome *out) noexcept nogil
