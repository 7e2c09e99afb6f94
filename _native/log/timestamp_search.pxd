"""Searches by timestamp. All functions take Log.lock themselves, and never hold it while the disk works."""
from libc.stdint cimport int64_t
from bowstring._native.log.types cimport Log

# Returns (timestamp, offset, leader epoch) of the first record at `timestamp` or later, or None.
cdef object search_timestamp(Log *log, int64_t timestamp)
# Returns the same for the first record with the largest timestamp.
cdef object search_max_timestamp(Log *log)

# Reads unknown largest timestamps, from the oldest segment on, until one reaches `timestamp`. Later lookups then need no
# read under the lock.
cdef void timestamps_learn(Log *log, int64_t timestamp) noexcept nogil
# Reads the unknown timestamps of the first batches of all segments.
cdef void first_timestamps_learn(Log *log) noexcept nogil
