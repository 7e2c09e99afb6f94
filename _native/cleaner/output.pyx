"""Writes a cleaned segment, see output.pxd. Index entries are as from log/append.pyx.

Contents: begin (output_open) · batches · the end (output_finish, output_discard).
"""
from libc.errno cimport EFBIG, ENOMEM
from libc.stdint cimport INT32_MAX, int32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from posix.fcntl cimport O_CREAT, O_RDWR, O_TRUNC
from bowstring._native.base.bigendian cimport store_be16, store_be64
from bowstring._native.base.wire cimport grow, put_i32, put_i64, put_raw
from bowstring._native.cleaner.input cimport run_throttle
from bowstring._native.cleaner.transactions cimport Aborted
from bowstring._native.disk.file_ops cimport PATH_BYTES, file_ops, sync_path, write_range
from bowstring._native.log cimport ABORTED_ENTRY_BYTES, NO_TIMESTAMP, last_offset_of
from bowstring._native.record.batch cimport BATCH_HEADER_BYTES, batch_seal


cdef const char *run_path(char *out, const CleanRun *run, int64_t base_offset, const char *suffix) noexcept nogil:
    snprintf(out, PATH_BYTES, b"%s/%020lld%s", run.directory, <long long>base_offset, suffix)
    return out


cdef int output_open(CleanRun *run, int64_t base_offset) noexcept nogil:
    cdef char[PATH_BYTES] path
    cdef int fd = file_ops.open(run_path(path, run, base_offset, b".log.cleaned"), O_RDWR | O_CREAT | O_TRUNC)
    if fd < 0:
        return fd
    run.output.fd = fd
    run.output.base_offset = base_offset
    run.output.data.size = run.output.offset_entries.size = run.output.time_entries.size = 0
    run.output.data.failed = run.output.offset_entries.failed = run.output.time_entries.failed = False
    run.output.written_bytes = 0
    run.output.bytes_since_index = 0
    run.output.last_entry_timestamp = NO_TIMESTAMP
    run.output.largest_timestamp = NO_TIMESTAMP
    run.output.largest_timestamp_offset = -1
    run.output.first_timestamp = NO_TIMESTAMP
    run.output.aborted.count = 0
    return 0

# ---------------------------------------------------------------- batches


cdef int write_out(CleanRun *run) noexcept nogil:
    cdef int64_t n = run.output.data.size
    cdef int error = write_range(run.output.fd, run.output.data.data, n, run.output.written_bytes)
    if error != 0:
        return error
    run.output.written_bytes += n
    run.output.data.size = 0
    return run_throttle(run, n)


cdef void time_entry(CleanRun *run) noexcept nogil:
    """Adds an entry only for a timestamp beyond the last one."""
    if run.output.largest_timestamp > run.output.last_entry_timestamp:
        put_i64(&run.output.time_entries, run.output.largest_timestamp)
        put_i32(&run.output.time_entries, <int32_t>(run.output.largest_timestamp_offset - run.output.base_offset))
        run.output.last_entry_timestamp = run.output.largest_timestamp


cdef int account(CleanRun *run, const BatchInfo *info) noexcept nogil:
    """Adds the batch at the end of output.data to the indexes."""
    cdef int64_t position = run.output.written_bytes + run.output.data.size - info.size_bytes
    cdef int64_t last_offset = last_offset_of(info)
    if position + info.size_bytes > INT32_MAX or last_offset - run.output.base_offset > INT32_MAX:
        return -EFBIG
    if position == 0:
        run.output.first_timestamp = info.max_timestamp
    if info.max_timestamp > run.output.largest_timestamp:
        run.output.largest_timestamp = info.max_timestamp
        run.output.largest_timestamp_offset = last_offset
    if run.output.bytes_since_index > run.log.config.index_interval_bytes \
            and run.output.time_entries.size + 24 <= run.log.config.segment_index_bytes:
        put_i32(&run.output.offset_entries, <int32_t>(last_offset - run.output.base_offset))
        put_i32(&run.output.offset_entries, <int32_t>position)
        time_entry(run)
        run.output.bytes_since_index = 0
    run.output.bytes_since_index += info.size_bytes
    run.counters.written_records += info.record_count
    run.counters.written_bytes += info.size_bytes
    if run.output.offset_entries.failed or run.output.time_entries.failed:
        return -ENOMEM
    return write_out(run) if run.output.data.size >= run.io_bytes else 0


cdef int output_copy(CleanRun *run, const uint8_t *batch, const BatchInfo *info) noexcept nogil:
    put_raw(&run.output.data, batch, info.size_bytes)
    return -ENOMEM if run.output.data.failed else account(run, info)


cdef uint8_t *output_header(CleanRun *run) noexcept nogil:
    return grow(&run.output.data, BATCH_HEADER_BYTES)


cdef int output_seal(CleanRun *run, BatchInfo *info, int64_t records_bytes) noexcept nogil:
    if run.output.data.failed:
        return -ENOMEM
    if records_bytes > INT32_MAX - BATCH_HEADER_BYTES:
        return -EFBIG
    info.size_bytes = <int32_t>(BATCH_HEADER_BYTES + records_bytes)
    batch_seal(run.output.data.data + run.output.data.size - info.size_bytes, info)
    return account(run, info)

# ---------------------------------------------------------------- the end


cdef int write_file(CleanRun *run, const char *suffix, const void *data, int64_t size_bytes) noexcept nogil:
    cdef char[PATH_BYTES] path
    cdef int error
    cdef int fd = file_ops.open(run_path(path, run, run.output.base_offset, suffix), O_RDWR | O_CREAT | O_TRUNC)
    if fd < 0:
        return fd
    error = write_range(fd, data, size_bytes, 0)
    if error == 0:
        error = file_ops.sync(fd)
    file_ops.close(fd)
    return error


cdef int write_aborted(CleanRun *run) noexcept nogil:
    cdef int64_t size_bytes = <int64_t>run.output.aborted.count * ABORTED_ENTRY_BYTES
    cdef uint8_t *data
    cdef uint8_t *at
    cdef const Aborted *item
    cdef int32_t i
    cdef int error
    if size_bytes == 0:
        return 0
    data = <uint8_t *>malloc(size_bytes)
    if data == NULL:
        return -ENOMEM
    for i in range(run.output.aborted.count):
        at = data + <int64_t>i * ABORTED_ENTRY_BYTES
        item = &run.output.aborted.items[i]
        store_be16(at, 0)
        store_be64(at + 2, item.producer_id)
        store_be64(at + 10, item.first_offset)
        store_be64(at + 18, item.last_offset)
        store_be64(at + 26, item.last_stable_offset)
    error = write_file(run, b".txnindex.cleaned", data, size_bytes)
    free(data)
    return error


cdef int output_finish(CleanRun *run, int64_t modified_ms) noexcept nogil:
    cdef int error
    time_entry(run)                                      # a segment's time index ends with its largest timestamp
    error = -ENOMEM if run.output.time_entries.failed else write_out(run)
    if error == 0:
        error = file_ops.set_modified(run.output.fd, modified_ms)
    if error == 0:
        error = file_ops.sync(run.output.fd)
    if error == 0:
        error = write_file(run, b".index.cleaned", run.output.offset_entries.data, run.output.offset_entries.size)
    if error == 0:
        error = write_file(run, b".timeindex.cleaned", run.output.time_entries.data, run.output.time_entries.size)
    if error == 0:
        error = write_aborted(run)
    if error == 0:
        error = sync_path(run.directory)
    output_close(run)
    return error


cdef void output_close(CleanRun *run) noexcept nogil:
    if run.output.fd >= 0:
        file_ops.close(run.output.fd)
        run.output.fd = -1


cdef void output_discard(CleanRun *run) noexcept nogil:
    """Unlinks the files; errors are ignored, because the next opening of the log removes leftovers."""
    cdef char[PATH_BYTES] path
    output_close(run)
    file_ops.unlink(run_path(path, run, run.output.base_offset, b".index.cleaned"))
    file_ops.unlink(run_path(path, run, run.output.base_offset, b".timeindex.cleaned"))
    file_ops.unlink(run_path(path, run, run.output.base_offset, b".txnindex.cleaned"))
    file_ops.unlink(run_path(path, run, run.output.base_offset, b".log.cleaned"))
