"""The state of a log: failure, whether it may be changed, and its stable offsets."""
from libc.stdint cimport int64_t
from bowstring._native.log.types cimport Log

cdef enum:
    # Values of Log.failed.
    FAILED_FOR_GOOD = 1             # until the next start
    FAILED_FOR_NOW = 2              # until log_heal (heal.pxd)

# Fails the log: it accepts no appends from now on. An error of the device takes the whole log directory out of service. After
# an error that may pass the log can be healed. `doing` is a static string that describes the operation for log lines. Call it
# under Log.lock.
cdef void log_fail(Log *log, int error, const char *doing) noexcept nogil
# The same where only the next start can repair what was left half done, whatever the error.
cdef void log_fail_for_good(Log *log, int error, const char *doing) noexcept nogil
# Whether the log may be changed: it has not failed, is open, and is neither being deleted nor moved. Call it under
# Log.lock.
cdef bint log_writable(const Log *log) noexcept nogil
# Sets last_stable_offset from the high watermark and the ongoing transactions. Call it under Log.lock.
cdef void log_update_last_stable(Log *log) noexcept nogil
# Raises high_watermark (never lowers it) and last_stable_offset with it; True when it moved. In commit mode it never
# passes the durable end. Takes Log.lock.
cdef bint log_advance_high_watermark(Log *log, int64_t offset) noexcept nogil
