"""The .txnindex files, see log_aborted.pxd."""
from libc.errno cimport EBADMSG
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from posix.fcntl cimport O_CREAT, O_RDWR
from bowstring._native.bigendian cimport load_be16, load_be64, store_be16, store_be64
from bowstring._native.log_files cimport file_ops, read_file, segment_file_path, segment_path, write_range
from bowstring._native.log_segment cimport segment_floor
from bowstring._native.log_types cimport ABORTED_ENTRY_BYTES

cdef enum:
    ENTRY_VERSION = 0
    PRODUCER_ID = 2
    FIRST_OFFSET = 10
    LAST_OFFSET = 18
    LAST_STABLE_OFFSET = 26


cdef int aborted_append(LogState *state, Segment *segment, const CompletedTransaction *done) noexcept nogil:
    cdef char[4096] path
    cdef uint8_t[34] entry
    cdef int64_t size_bytes = 0
    cdef int error
    cdef int fd = file_ops.open(segment_path(path, state, segment.base_offset, b".txnindex"), O_RDWR | O_CREAT)
    if fd < 0:
        return fd
    store_be16(entry, ENTRY_VERSION)
    store_be64(entry + PRODUCER_ID, done.producer_id)
    store_be64(entry + FIRST_OFFSET, done.first_offset)
    store_be64(entry + LAST_OFFSET, done.last_offset)
    store_be64(entry + LAST_STABLE_OFFSET, done.last_stable_offset)
    error = file_ops.stat(fd, &size_bytes, NULL)
    if error == 0:
        size_bytes -= size_bytes % ABORTED_ENTRY_BYTES
        error = write_range(fd, entry, ABORTED_ENTRY_BYTES, size_bytes)
    file_ops.close(fd)
    segment.has_aborted = True
    return error


cdef int32_t aborted_collect(const LogState *state, int64_t from_offset, int64_t to_offset, int64_t *pairs,
                             int32_t capacity) noexcept nogil:
    cdef char[4096] path
    cdef uint8_t *data
    cdef const uint8_t *entry
    cdef int64_t size_bytes, at
    cdef int32_t found = 0
    cdef int32_t i = segment_floor(state, from_offset)
    cdef bint complete = False
    for i in range(i if i > 0 else 0, state.segment_count):
        if complete:
            break
        if not state.segments[i].has_aborted:
            continue
        size_bytes = read_file(segment_file_path(path, state, state.segments[i], b".txnindex"), &data)
        at = 0
        while at + ABORTED_ENTRY_BYTES <= size_bytes and not complete:
            entry = data + at
            if load_be64(entry + LAST_OFFSET) >= from_offset and load_be64(entry + FIRST_OFFSET) < to_offset:
                if found < capacity:
                    pairs[2 * found] = load_be64(entry + PRODUCER_ID)
                    pairs[2 * found + 1] = load_be64(entry + FIRST_OFFSET)
                found += 1
            complete = load_be64(entry + LAST_STABLE_OFFSET) >= to_offset
            at += ABORTED_ENTRY_BYTES
        free(data)
    return found


cdef int aborted_truncate(LogState *state, Segment *segment, int64_t offset) noexcept nogil:
    cdef char[4096] path
    cdef uint8_t *data
    cdef int64_t size_bytes, keep = 0
    cdef int fd, error
    if not segment.has_aborted:
        return 0
    segment_path(path, state, segment.base_offset, b".txnindex")
    size_bytes = read_file(path, &data)
    while keep + ABORTED_ENTRY_BYTES <= size_bytes and load_be64(data + keep + LAST_OFFSET) < offset:
        keep += ABORTED_ENTRY_BYTES
    free(data)
    if keep == 0:
        segment.has_aborted = False
        return file_ops.unlink(path)
    fd = file_ops.open(path, O_RDWR)
    if fd < 0:
        return fd
    error = file_ops.truncate(fd, keep)
    file_ops.close(fd)
    return error


cdef bint aborted_sound(const LogState *state, const Segment *segment) noexcept nogil:
    cdef char[4096] path
    cdef uint8_t *data
    cdef int64_t at = 0
    cdef int64_t size_bytes = read_file(segment_path(path, state, segment.base_offset, b".txnindex"), &data)
    cdef bint sound = size_bytes >= 0 and size_bytes % ABORTED_ENTRY_BYTES == 0
    while sound and at < size_bytes:
        sound = load_be16(data + at) == ENTRY_VERSION and load_be64(data + at + LAST_OFFSET) >= segment.base_offset
        at += ABORTED_ENTRY_BYTES
    free(data)
    return sound
