"""Batches copied out of a log for the control thread, see log_batches.pxd."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport ESTALE
from libc.stdint cimport int16_t, int64_t
from bowstring._native.atomics cimport load_i64
from bowstring._native.log_cold cimport ColdRead, cold_read, cold_read_of
from bowstring._native.log_files cimport file_release, read_range
from bowstring._native.log_read cimport cursor_forget, read_slice
from bowstring._native.log_types cimport CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR, LogSlice, ReadCursor
from bowstring._native.log_values cimport directory_of
from bowstring._native.log_values import LogError

cdef enum:
    COLD_BYTES = 1 << 20            # read and checked at once where nothing is known of a range


cdef int16_t read_warm(Log *log, int64_t offset, int64_t limit_offset, int64_t max_bytes, bint min_one,
                       ReadCursor *cursor, LogSlice *out) noexcept nogil:
    cdef ColdRead cold
    cdef int16_t error
    cdef int found
    while True:
        error = read_slice(log, offset, limit_offset, max_bytes, min_one, cursor, out)
        if error != 0 or not out.cold:
            return error
        cold_read_of(out, offset, max_bytes if max_bytes > COLD_BYTES else COLD_BYTES, &cold)
        found = cold_read(log, &cold)
        if found == 0:
            cursor.warm = cold.warm
        elif found != -ESTALE:
            return KAFKA_STORAGE_ERROR


cdef bytes copy_batches(Log *log, int64_t offset, int64_t limit_offset, int64_t max_bytes):
    cdef LogSlice found
    cdef ReadCursor cursor
    cdef int64_t n
    cdef int16_t error
    cdef bytes data
    cdef char *into
    cursor_forget(&cursor)
    with nogil:
        error = read_warm(log, offset, limit_offset, max_bytes, True, &cursor, &found)
    if error == CORRUPT_MESSAGE:
        raise LogError(error, f"the batch at offset {offset} of {directory_of(log)} is damaged on the disk and is not "
                              "read; corrupt_ranges() says where")
    if error != 0:
        raise LogError(error, f"offset {offset} can't be read from {directory_of(log)}, which has "
                              f"{load_i64(&log.log_start_offset)} to {load_i64(&log.log_end_offset)}")
    if found.file == NULL:
        return b""
    data = PyBytes_FromStringAndSize(NULL, found.size_bytes)
    into = PyBytes_AS_STRING(data)
    with nogil:
        n = read_range(found.file.fd, into, found.size_bytes, found.position)
        file_release(found.file)
    if n != found.size_bytes:
        raise LogError(KAFKA_STORAGE_ERROR, f"{found.size_bytes} bytes at offset {offset} of {directory_of(log)} "
                                            f"could not be read")
    return data
