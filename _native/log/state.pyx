"""The state of a log, see state.pxd."""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.base.atomics cimport store_i32, store_i64
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.directory_health cimport directory_fail, directory_tell, is_of_directory, may_pass
from bowstring._native.log.producer_state cimport first_unstable_offset, producers_on_high_watermark
from bowstring._native.log.types cimport LogState, log_out_of_service, state_of


cdef void fail_as(Log *log, int error, const char *doing, int32_t how) noexcept nogil:
    cdef LogState *state = state_of(log)
    if log.failed == FAILED_FOR_GOOD or log.failed == how:
        return
    state.failed_errno = -error
    state.failed_doing = doing
    store_i32(&log.failed, how)
    if log.directory == NULL:
        return
    if is_of_directory(error):
        directory_fail(log.directory, error, doing, state.directory)
    elif how == FAILED_FOR_NOW:
        directory_tell(log.directory)


cdef void log_fail(Log *log, int error, const char *doing) noexcept nogil:
    fail_as(log, error, doing, FAILED_FOR_NOW if may_pass(error) else FAILED_FOR_GOOD)


cdef void log_fail_for_good(Log *log, int error, const char *doing) noexcept nogil:
    fail_as(log, error, doing, FAILED_FOR_GOOD)


cdef bint log_writable(const Log *log) noexcept nogil:
    cdef LogState *state = state_of(log)
    return not (log_out_of_service(log) or state.closed or state.deleting or state.moved)


cdef void log_update_last_stable(Log *log) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef int64_t unstable = first_unstable_offset(&state.producers)
    if 0 <= unstable < log.log_start_offset:
        unstable = log.log_start_offset
    state.first_unstable_offset = unstable
    store_i64(&log.last_stable_offset,
              unstable if 0 <= unstable < log.high_watermark else log.high_watermark)


cdef bint log_advance_high_watermark(Log *log, int64_t offset) noexcept nogil:
    cdef bint moved
    pthread_mutex_lock(&log.lock)
    if offset > log.log_end_offset:
        offset = log.log_end_offset
    if log.wal != NULL and offset > log.durable_end_offset:
        offset = log.durable_end_offset
    moved = offset > log.high_watermark
    if moved:
        store_i64(&log.high_watermark, offset)
        producers_on_high_watermark(&state_of(log).producers, offset)
        log_update_last_stable(log)
    pthread_mutex_unlock(&log.lock)
    return moved
