"""Searches by timestamp, which end inside a batch. They take the log's lock themselves."""
from libc.stdint cimport int64_t
from bowstring._native.log_types cimport Log

# (timestamp, offset, leader epoch) of the first record at `timestamp` or later, or None.
cdef object search_timestamp(Log *log, int64_t timestamp)
# The same of the first record with the largest timestamp.
cdef object search_max_timestamp(Log *log)
