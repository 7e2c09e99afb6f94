"""Opens a log from its directory, and frees it."""
from libc.stdint cimport int64_t
from bowstring._native.log.types cimport Log, LogConfig

# Opens the log in `directory`, or creates it in an empty one. After a clean shutdown reads only names, sizes and the last
# index interval of the active segment; otherwise verifies everything from `recovery_point` on. Returns NULL when memory
# ran out; else *error is 0 or a negated errno, and Log.state says what failed.
cdef Log *log_open(
    const char *directory, const LogConfig *config, int64_t recovery_point, bint clean_shutdown,
    int64_t log_start_offset, int64_t now_ms, int *error) noexcept nogil
# Creates the log of a new partition in a directory that was made just now and has no file of a log. Returns as log_open.
cdef Log *log_create(const char *directory, const LogConfig *config, int64_t now_ms, int *error) noexcept nogil
cdef void log_free(Log *log) noexcept nogil
