"""PartitionLog, the Python class of a log. Native callers use the functions that log/__init__.pxd lists."""
from bowstring._native.disk.directory_health cimport DirectoryHealth
from bowstring._native.log.types cimport Log

cdef enum:
    DIRECTORY_MAX_BYTES = 3900      # of a directory's path, so that the paths of its files fit PATH_BYTES

cdef class PartitionLog:
    # Owns the struct.
    cdef Log *log
    cdef readonly object health     # the DirectoryHealth that log.directory points into; None
    cdef int _join(self, DirectoryHealth health, int error) except -1

# Returns the owner of a log that was opened with this result: 0, or a negated errno, which raises LogError.
cdef PartitionLog owned(Log *log, DirectoryHealth health, int error)
