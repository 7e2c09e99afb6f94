"""Converts between Python and a log: settings in; errors, lists and statistics out."""
from bowstring._native.log.types cimport Log, LogConfig

cdef LogConfig read_config(dict values) except *
# Raises LogError if `error` is a negated errno.
cdef int check(Log *log, int error) except -1
# Why the log failed, as text; None when it has not failed.
cdef object failure_of(Log *log)
cdef object directory_of(Log *log)
cdef list epochs_of(Log *log)
cdef list producers_of(Log *log)
cdef list segments_of(Log *log)
cdef list corrupt_of(Log *log)
# The damage that was found while opening the log, in that order; the log forgets it.
cdef list findings_of(Log *log)
cdef dict stats_of(Log *log)
