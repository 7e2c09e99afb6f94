"""PartitionLog, the Python class of a log. Native callers use the functions that log/__init__.pxd lists."""
from bowstring._native.log.types cimport Log

cdef class PartitionLog:
    # Owns the struct.
    cdef Log *log
    cdef readonly object health     # the DirectoryHealth that log.directory points into; None
