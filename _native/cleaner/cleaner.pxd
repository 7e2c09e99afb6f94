"""Cleans one log; engine/storage/cleaner.py runs it on its threads."""
from bowstring._native.cleaner.types cimport CleanRun, Throttle
from bowstring._native.log cimport PartitionLog

cdef class IoThrottle:
    """See cleaner.pyx."""
    cdef Throttle throttle

cdef class Cleaning:
    """See cleaner.pyx."""
    cdef CleanRun run_state
    cdef PartitionLog log
    cdef IoThrottle throttle
