"""Reading for the cleaner, see input.pxd.

Contents: stopping and throttling · batches · compression, with the GIL.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport PyObject, Py_DECREF, Py_INCREF
from libc.errno cimport EBADMSG, EMSGSIZE, ENOMEM
from libc.stdlib cimport realloc
from libc.string cimport memmove, strcmp
from posix.time cimport nanosleep, timespec
from bowstring._native.base.atomics cimport load_i32, load_i64
from bowstring._native.base.bigendian cimport load_be32
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.base.errno cimport ECANCELED
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.base.wire cimport put_raw
from bowstring._native.disk.file_ops cimport read_range
from bowstring._native.log cimport LogState, Segment, segment_file, segment_floor, state_of
from bowstring._native.record.batch cimport (
    ATTR_COMPRESSION_MASK, BATCH_HEADER_BYTES, BATCH_LENGTH, BATCH_LENGTH_PREFIX_BYTES, batch_crc_ok, batch_parse)
from bowstring._native.record.record_sizes cimport record_beyond

cdef enum:
    LONGEST_NAP_NS = 50000000       # how often a sleeping run checks whether to stop

# ---------------------------------------------------------------- stopping and throttling


cdef int run_check(CleanRun *run) noexcept nogil:
    cdef LogState *state = state_of(run.log)
    if load_i32(&run.stopped) or load_i32(&run.log.failed) or state.closed or state.deleting or state.moved \
            or load_i64(&run.log.truncations) != run.truncations:
        return -ECANCELED
    return 0


cdef int run_throttle(CleanRun *run, int64_t size_bytes) noexcept nogil:
    """Reserves `size_bytes` of the rate that all threads share, and sleeps until the reservation is due."""
    cdef int64_t now, due
    cdef timespec nap
    cdef int error = run_check(run)
    if run.throttle == NULL or error != 0:
        return error
    now = monotonic_ns()
    pthread_mutex_lock(&run.throttle.lock)
    if run.throttle.next_ns < now:
        run.throttle.next_ns = now
    run.throttle.next_ns += <int64_t>(<double>size_bytes / run.throttle.bytes_per_second * 1e9)
    due = run.throttle.next_ns
    pthread_mutex_unlock(&run.throttle.lock)
    while error == 0 and due > now:
        nap.tv_sec = 0
        nap.tv_nsec = due - now if due - now < LONGEST_NAP_NS else LONGEST_NAP_NS
        nanosleep(&nap, NULL)
        now = monotonic_ns()
        error = run_check(run)
    return error

# ---------------------------------------------------------------- batches


cdef SegmentFile *source_file(CleanRun *run, int32_t source, int *error) noexcept nogil:
    cdef LogState *state = state_of(run.log)
    cdef SegmentFile *file = NULL
    cdef Segment *segment
    cdef int32_t i
    error[0] = -ECANCELED
    pthread_mutex_lock(&run.log.lock)
    i = segment_floor(state, run.sources[source].base_offset)
    if run_check(run) == 0 and 0 <= i < state.segment_count - 1 and strcmp(state.directory, run.directory) == 0:
        segment = state.segments[i]
        if segment.base_offset == run.sources[source].base_offset \
                and segment.size_bytes == run.sources[source].size_bytes:
            file = segment_file(state, segment, False, error)
    pthread_mutex_unlock(&run.log.lock)
    return file


cdef int input_start(CleanRun *run, int32_t source, int fd, int64_t position) noexcept nogil:
    cdef uint8_t *grown
    if run.input.capacity < run.io_bytes:
        grown = <uint8_t *>realloc(run.input.data, <size_t>run.io_bytes)
        if grown == NULL:
            return -ENOMEM
        run.input.data = grown
        run.input.capacity = run.io_bytes
    run.bad_segment = run.sources[source].base_offset
    run.input.fd = fd
    run.input.end = run.sources[source].size_bytes
    run.input.position = position
    run.input.filled = run.input.at = 0
    return 0


cdef int input_fill(CleanRun *run, int64_t wanted) noexcept nogil:
    """Reads until `wanted` bytes are available at input.at, or the file ends."""
    cdef int64_t n, room
    cdef uint8_t *grown
    memmove(run.input.data, run.input.data + run.input.at, <size_t>(run.input.filled - run.input.at))
    run.input.position += run.input.at
    run.input.filled -= run.input.at
    run.input.at = 0
    if wanted > run.input.capacity:
        grown = <uint8_t *>realloc(run.input.data, <size_t>wanted)
        if grown == NULL:
            return -ENOMEM
        run.input.data = grown
        run.input.capacity = wanted
    n = run.input.end - run.input.position - run.input.filled
    room = run.input.capacity - run.input.filled
    n = read_range(run.input.fd, run.input.data + run.input.filled, n if n < room else room,
                   run.input.position + run.input.filled)
    if n < 0:
        return <int>n
    run.input.filled += n
    return run_throttle(run, n)


cdef int bad_batch(CleanRun *run, const char *reason) noexcept nogil:
    run.reason = reason
    run.bad_position = run.input.position + run.input.at
    return -EBADMSG


cdef int input_next(CleanRun *run, const uint8_t **batch, BatchInfo *info) noexcept nogil:
    cdef int64_t left = run.input.filled - run.input.at
    cdef int64_t extent
    cdef int error
    if run.input.position + run.input.at >= run.input.end:
        return 0
    if left < BATCH_HEADER_BYTES:
        error = input_fill(run, BATCH_HEADER_BYTES)
        if error != 0:
            return error
        left = run.input.filled
    extent = batch_size(run.input.data + run.input.at, left)
    if extent < BATCH_HEADER_BYTES or run.input.position + run.input.at + extent > run.input.end:
        return bad_batch(run, b"is not a record batch or is truncated")
    if extent > left:
        error = input_fill(run, extent)
        if error != 0:
            return error
        if run.input.filled < extent:
            return bad_batch(run, b"is truncated")
    batch[0] = run.input.data + run.input.at
    if batch_parse(batch[0], extent, info) != 0 or info.last_offset_delta < 0 or info.record_count < 0:
        return bad_batch(run, b"has an invalid header")
    if not batch_crc_ok(batch[0], extent):
        return bad_batch(run, b"fails its CRC-32C")
    run.bad_position = run.input.position + run.input.at
    run.input.at += extent
    return 1


cdef int64_t batch_size(const uint8_t *data, int64_t left) noexcept nogil:
    """Returns the size from the length field, even if the batch is not completely in memory; less than a header's size if
    there is no batch."""
    return load_be32(data + BATCH_LENGTH) + <int64_t>BATCH_LENGTH_PREFIX_BYTES if left >= BATCH_HEADER_BYTES else -1

# ---------------------------------------------------------------- compression, with the GIL


cdef int records_of(CleanRun *run, const uint8_t *batch, const BatchInfo *info, const uint8_t **at,
                    const uint8_t **end) noexcept nogil:
    if info.attributes & ATTR_COMPRESSION_MASK and info.record_count > 0:
        return unpack(run, batch, info, at, end)
    at[0] = batch + BATCH_HEADER_BYTES
    end[0] = batch + info.size_bytes
    return 0


cdef int unpack(CleanRun *run, const uint8_t *batch, const BatchInfo *info, const uint8_t **at,
                const uint8_t **end) noexcept with gil:
    from bowstring._native.record.compression import CompressionError, decompress

    cdef bytes plain
    if run.plain != NULL:
        Py_DECREF(<object>run.plain)
        run.plain = NULL
    try:
        plain = decompress(
            info.attributes & ATTR_COMPRESSION_MASK,
            PyBytes_FromStringAndSize(<const char *>batch + BATCH_HEADER_BYTES, info.size_bytes - BATCH_HEADER_BYTES))
    except CompressionError:
        run.reason = b"has records that cannot be decompressed"
        return -EBADMSG
    except MemoryError:
        return -ENOMEM
    except Exception:
        run.reason = b"has a compression codec that is unavailable"
        return -EBADMSG
    Py_INCREF(plain)
    run.plain = <PyObject *>plain
    at[0] = <const uint8_t *>PyBytes_AS_STRING(plain)
    end[0] = at[0] + PyBytes_GET_SIZE(plain)
    if record_beyond(at[0], end[0], run.log.config.max_decompressed_message_bytes) != 0:
        run.reason = b"has a record larger than max.decompressed.message.bytes"
        return -EMSGSIZE
    return 0


cdef int records_pack(CleanRun *run, const BatchInfo *info) noexcept with gil:
    from bowstring._native.record.compression import compress

    cdef bytes packed
    try:
        packed = compress(info.attributes & ATTR_COMPRESSION_MASK,
                          PyBytes_FromStringAndSize(<const char *>run.scratch.data, run.scratch.size))
    except MemoryError:
        return -ENOMEM
    except Exception:
        run.reason = b"has records that cannot be recompressed"
        return -EBADMSG
    run.scratch.size = 0
    put_raw(&run.scratch, PyBytes_AS_STRING(packed), PyBytes_GET_SIZE(packed))
    return -ENOMEM if run.scratch.failed else 0
