"""Opening a log from its directory, and giving its memory back."""
from libc.stdint cimport int64_t
from bowstring._native.log_types cimport Log, LogConfig

# The log in `directory`, made if it is empty. After a clean shutdown nothing but names, sizes and the last
# index interval of the active segment is read; else everything from `recovery_point` on is verified. NULL
# without memory; otherwise *error is 0 or a negated errno and Log.state says what failed.
cdef Log *log_open(
    const char *directory, const LogConfig *config, int64_t recovery_point, bint clean_shutdown,
    int64_t log_start_offset, int64_t now_ms, int *error) noexcept nogil
cdef void log_free(Log *log) noexcept nogil
