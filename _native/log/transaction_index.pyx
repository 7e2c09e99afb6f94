"""The .txnindex files, see transaction_index.pxd.

Entries ascend by last offset, so a search finds the first entry of a range. An entry whose last stable offset is not below
the range's end is the last one of the range.

Contents: writing · reading: the list, one file, the log · Python functions.
"""
from libc.errno cimport EIO, ENOENT, ENOMEM, ESTALE
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, qsort, realloc
from posix.fcntl cimport O_CREAT, O_RDONLY, O_RDWR
from bowstring._native.base.atomics cimport load_i64, store_i64
from bowstring._native.base.bigendian cimport load_be16, load_be64, store_be16, store_be64
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.file_ops cimport PATH_BYTES, file_ops, read_file, read_range, write_range
from bowstring._native.disk.directory_health cimport may_pass
from bowstring._native.log.segment cimport segment_floor
from bowstring._native.log.segment_files cimport segment_file_path, segment_path
from bowstring._native.log.types cimport ABORTED_ENTRY_BYTES, LOOKS_MAX, state_of

cdef enum:
    ENTRY_VERSION = 0
    BLOCK_ENTRIES = 240             # entries of one read: 8 KiB
    BLOCK_BYTES = BLOCK_ENTRIES * ABORTED_ENTRY_BYTES

cdef int64_t fetch_most = 65536     # 1 MiB of them

cdef struct IndexFile:
    int fd
    int64_t entries
    int64_t base_offset             # of its segment
    int64_t truncations             # of the log when it was opened

# ---------------------------------------------------------------- writing


cdef int aborted_append(LogState *state, Segment *segment, const CompletedTransaction *done) noexcept nogil:
    cdef int fd = aborted_open(state, segment)
    return aborted_write(segment, fd, done) if fd >= 0 else fd


cdef int aborted_open(const LogState *state, const Segment *segment) noexcept nogil:
    cdef char[PATH_BYTES] path
    return file_ops.open(segment_path(path, state, segment.base_offset, b".txnindex"), O_RDWR | O_CREAT)


cdef int aborted_write(Segment *segment, int fd, const CompletedTransaction *done) noexcept nogil:
    cdef uint8_t[ABORTED_ENTRY_BYTES] entry
    cdef int64_t size_bytes = 0
    cdef int error
    store_be16(entry, ENTRY_VERSION)
    store_be64(entry + ENTRY_PRODUCER_ID, done.producer_id)
    store_be64(entry + ENTRY_FIRST_OFFSET, done.first_offset)
    store_be64(entry + ENTRY_LAST_OFFSET, done.last_offset)
    store_be64(entry + ENTRY_LAST_STABLE_OFFSET, done.last_stable_offset)
    error = file_ops.stat(fd, &size_bytes, NULL)
    if error == 0:
        size_bytes -= size_bytes % ABORTED_ENTRY_BYTES
        error = write_range(fd, entry, ABORTED_ENTRY_BYTES, size_bytes)
    file_ops.close(fd)
    segment.has_aborted = True
    return error


cdef int aborted_truncate(LogState *state, Segment *segment, int64_t offset) noexcept nogil:
    cdef char[PATH_BYTES] path
    cdef uint8_t *data
    cdef int64_t size_bytes, keep = 0, before = segment.base_offset - 1
    cdef int fd, error
    if not segment.has_aborted:
        return 0
    segment_path(path, state, segment.base_offset, b".txnindex")
    size_bytes = read_file(path, &data)
    if may_pass(<int>size_bytes):
        return <int>size_bytes                           # its entries are there
    # Searches rely on the order of entries; after a power loss an entry may hold other bytes.
    while keep + ABORTED_ENTRY_BYTES <= size_bytes and before < load_be64(data + keep + ENTRY_LAST_OFFSET) < offset:
        before = load_be64(data + keep + ENTRY_LAST_OFFSET)
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
    cdef char[PATH_BYTES] path
    cdef uint8_t *data
    cdef int64_t at = 0
    cdef int64_t size_bytes = read_file(segment_path(path, state, segment.base_offset, b".txnindex"), &data)
    cdef bint sound = size_bytes >= 0 and size_bytes % ABORTED_ENTRY_BYTES == 0
    while sound and at < size_bytes:
        sound = load_be16(data + at) == ENTRY_VERSION and load_be64(data + at + ENTRY_LAST_OFFSET) >= segment.base_offset
        at += ABORTED_ENTRY_BYTES
    free(data)
    return sound

# ---------------------------------------------------------------- the list


cdef int compare_first(const void *a, const void *b) noexcept nogil:
    cdef int64_t x = (<const int64_t *>a)[1], y = (<const int64_t *>b)[1]
    return (x > y) - (x < y)


cdef void keep_first(AbortedList *list, int32_t most) noexcept nogil:
    """Keeps the `most` transactions that begin first; the list then ends where the next one begins."""
    if list.count <= most:
        return
    qsort(list.pairs, list.count, 16, compare_first)
    list.to_offset = list.pairs[2 * most + 1]
    list.count = most


cdef int add(AbortedList *list, const uint8_t *entry, int32_t most) noexcept nogil:
    cdef int64_t *grown
    cdef int32_t capacity
    if load_be64(entry + ENTRY_FIRST_OFFSET) >= list.to_offset:
        return 0
    if list.count == list.capacity:
        if list.count // 2 >= most:
            keep_first(list, most)
            return add(list, entry, most)
        capacity = list.capacity * 2 if list.capacity > 0 else 64
        grown = <int64_t *>realloc(list.pairs, <size_t>capacity * 16)
        if grown == NULL:
            return -ENOMEM
        list.pairs = grown
        list.capacity = capacity
    list.pairs[2 * list.count] = load_be64(entry + ENTRY_PRODUCER_ID)
    list.pairs[2 * list.count + 1] = load_be64(entry + ENTRY_FIRST_OFFSET)
    list.count += 1
    return 0

# ---------------------------------------------------------------- one file


cdef int open_next(Log *log, int64_t from_offset, int64_t after, IndexFile *file) noexcept nogil:
    """Opens the index of the first segment beyond `after` that has one (-1: from the segment that holds from_offset).
    Returns 1, 0 when none follows, or a negated errno."""
    cdef LogState *state = state_of(log)
    cdef char[PATH_BYTES] path
    cdef int64_t size_bytes = 0
    cdef int32_t i
    cdef int error
    cdef bint found = False
    pthread_mutex_lock(&log.lock)
    i = segment_floor(state, from_offset if after < 0 else after)
    i = i if i > 0 else 0
    while i < state.segment_count and not found:
        if state.segments[i].has_aborted and state.segments[i].base_offset > after:
            file.base_offset = state.segments[i].base_offset
            segment_file_path(path, state, state.segments[i], b".txnindex")
            found = True
        i += 1
    file.truncations = log.truncations
    pthread_mutex_unlock(&log.lock)
    if not found:
        return 0
    file.fd = file_ops.open(path, O_RDONLY)
    if file.fd < 0:
        return -ESTALE if file.fd == -ENOENT else file.fd
    error = file_ops.stat(file.fd, &size_bytes, NULL)
    file.entries = size_bytes // ABORTED_ENTRY_BYTES
    if error != 0:
        file_ops.close(file.fd)
    return error if error != 0 else 1


cdef bint still_there(Log *log, const IndexFile *file) noexcept nogil:
    """Whether the file still belongs to the log; otherwise the search starts again."""
    cdef LogState *state = state_of(log)
    cdef int32_t i
    cdef bint there
    pthread_mutex_lock(&log.lock)
    i = segment_floor(state, file.base_offset)
    there = i >= 0 and state.segments[i].base_offset == file.base_offset and log.truncations == file.truncations
    pthread_mutex_unlock(&log.lock)
    return there


cdef int load(const IndexFile *file, int64_t slot, int32_t n, bint wait, uint8_t *entries) noexcept nogil:
    cdef int64_t size_bytes = <int64_t>n * ABORTED_ENTRY_BYTES
    cdef int64_t position = slot * ABORTED_ENTRY_BYTES
    cdef int64_t done
    if not wait and not file_ops.cached(file.fd, position, size_bytes):
        return ABORTED_COLD
    done = read_range(file.fd, entries, size_bytes, position)
    if done < 0:
        return <int>done
    return 0 if done == size_bytes else -EIO


cdef int first_reaching(const IndexFile *file, int64_t offset, bint wait, int64_t *slot) noexcept nogil:
    """Finds the first entry whose last offset is `offset` or more; file.entries when there is none."""
    cdef uint8_t[ABORTED_ENTRY_BYTES] entry
    cdef int64_t low = 0, high = file.entries, middle
    cdef int status
    while low < high:
        middle = low + (high - low) // 2
        status = load(file, middle, 1, wait, entry)
        if status != 0:
            return status
        if load_be64(entry + ENTRY_LAST_OFFSET) < offset:
            low = middle + 1
        else:
            high = middle
    slot[0] = low
    return 0


cdef int collect(const IndexFile *file, int64_t from_offset, int32_t most, bint wait, AbortedList *out,
                 bint *complete) noexcept nogil:
    cdef uint8_t[BLOCK_BYTES] block
    cdef const uint8_t *entry
    cdef int64_t slot = 0
    cdef int32_t n, i
    cdef int status = first_reaching(file, from_offset, wait, &slot)
    while status == 0 and slot < file.entries and not complete[0]:
        n = <int32_t>(file.entries - slot if file.entries - slot < BLOCK_ENTRIES else BLOCK_ENTRIES)
        status = load(file, slot, n, wait, block)
        slot += n
        for i in range(n):
            if status != 0 or complete[0]:
                break
            entry = block + i * ABORTED_ENTRY_BYTES
            if load_be64(entry + ENTRY_LAST_OFFSET) >= from_offset:
                status = add(out, entry, most)
            complete[0] = load_be64(entry + ENTRY_LAST_STABLE_OFFSET) >= out.to_offset
    return status

# ---------------------------------------------------------------- the log


cdef int collect_all(Log *log, int64_t from_offset, int32_t most, bint wait, AbortedList *out) noexcept nogil:
    cdef IndexFile file
    cdef bint complete = False
    cdef int status = 1
    file.base_offset = -1
    while not complete:
        status = open_next(log, from_offset, file.base_offset, &file)
        if status <= 0:
            break
        status = collect(&file, from_offset, most, wait, out, &complete)
        file_ops.close(file.fd)
        if status == 0 and not still_there(log, &file):
            status = -ESTALE
        if status != 0:
            break
    keep_first(out, most)
    return status


cdef int log_aborted(Log *log, int64_t from_offset, int64_t to_offset, int32_t most, bint wait,
                     AbortedList *out) noexcept nogil:
    cdef int32_t attempts = 0
    cdef int status = -ESTALE
    out.pairs = NULL
    out.capacity = 0
    while status == -ESTALE and attempts < LOOKS_MAX:
        attempts += 1
        out.count = 0
        out.to_offset = to_offset
        status = collect_all(log, from_offset, most, wait, out)
    if status != 0:
        free(out.pairs)
        out.pairs = NULL
        out.count = 0
    return status


cdef int32_t aborted_most() noexcept nogil:
    return <int32_t>load_i64(&fetch_most)

# ---------------------------------------------------------------- Python functions


def aborted_max(int64_t n):
    """Sets how many aborted transactions one fetch lists for a partition, for all logs, and returns the old value. A slice
    with more aborted transactions is served in pieces. ValueError below 1."""
    cdef int64_t before = load_i64(&fetch_most)
    if n < 1:
        raise ValueError(f"a fetch must be able to list at least 1 aborted transaction, not {n}")
    store_i64(&fetch_most, n)
    return before
