"""Cleaning one log: what engine/broker/cleaner.py runs on its threads."""
from bowstring._native.cleaner_types cimport CleanRun, Throttle
from bowstring._native.log cimport PartitionLog

cdef class IoThrottle:
    """See cleaner.pyx."""
    cdef Throttle throttle

cdef class Cleaning:
    """See cleaner.pyx."""
    cdef CleanRun run_state
    cdef PartitionLog log
    cdef IoThrottle throttle
