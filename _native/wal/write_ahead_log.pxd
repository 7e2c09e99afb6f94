"""The write-ahead log as Python sees it; it owns the struct. See write_ahead_log.pyx."""
from bowstring._native.wal.types cimport Wal

cdef class WriteAheadLog:
    cdef Wal *wal
    cdef object path
    cdef readonly object io, io_reason
