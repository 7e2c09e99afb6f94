"""What crosses between Python and a log: settings in; errors, lists and figures out."""
from bowstring._native.log_types cimport Log, LogConfig

cdef LogConfig read_config(dict values) except *
# Raises LogError when `error`, a negated errno, is one.
cdef int check(Log *log, int error) except -1
# What made the log fail, for people; None when it has not failed.
cdef object failure_of(Log *log)
cdef object directory_of(Log *log)
cdef list epochs_of(Log *log)
cdef list producers_of(Log *log)
cdef list segments_of(Log *log)
cdef list corrupt_of(Log *log)
cdef dict stats_of(Log *log)
