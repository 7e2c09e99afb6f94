"""Lists a partition's directory, see directory_listing.pxd."""
from libc.errno cimport ENOMEM, errno
from libc.stdint cimport INT64_MAX, int32_t, int64_t
from libc.stdlib cimport free, qsort, realloc, strtoll
from libc.string cimport memcmp, strcmp, strlen
from posix.fcntl cimport O_RDONLY
from bowstring._native.disk.file_ops cimport PATH_BYTES, file_ops
from bowstring._native.log.segment cimport Walk, last_offset_of, walk_peek, walk_start
from bowstring._native.log.segment_files cimport directory_path
from bowstring._native.record.batch cimport BatchInfo

cdef extern from "dirent.h" nogil:
    ctypedef struct DIR:
        pass
    cdef struct dirent:
        char *d_name
    DIR *opendir(const char *path)
    dirent *readdir(DIR *directory)
    int closedir(DIR *directory)

cdef enum:
    DIGITS = 20


cdef bint ends_with(const char *name, const char *suffix) noexcept nogil:
    cdef size_t n = strlen(name), m = strlen(suffix)
    return n > m and memcmp(name + n - m, suffix, m) == 0


cdef bint numbered(const char *name, int64_t *base_offset) noexcept nogil:
    """Whether the name begins with an offset as Kafka writes it: 20 digits and a dot."""
    cdef int i
    for i in range(DIGITS):
        if not b'0' <= name[i] <= b'9':
            return False
    if name[DIGITS] != b'.':
        return False
    base_offset[0] = strtoll(name, NULL, 10)
    return True


cdef int32_t kind_of(const char *suffix) noexcept nogil:
    if strcmp(suffix, b".log") == 0:
        return LOG_FILE
    if strcmp(suffix, b".index") == 0:
        return INDEX_FILE
    if strcmp(suffix, b".timeindex") == 0:
        return TIME_INDEX_FILE
    if strcmp(suffix, b".txnindex") == 0:
        return ABORTED_FILE
    if strcmp(suffix, b".snapshot") == 0:
        return SNAPSHOT_FILE
    return 0


cdef bint enter(Listing *listing, int64_t base_offset, int32_t kind) noexcept nogil:
    cdef FoundSegment *grown
    cdef int32_t i
    for i in range(listing.count - 1, -1, -1):           # readdir often returns a segment's files in sequence
        if listing.found[i].base_offset == base_offset:
            listing.found[i].kinds |= kind
            return True
        if listing.count - i > 8:
            break
    if listing.count == listing.capacity:
        grown = <FoundSegment *>realloc(listing.found, (listing.capacity * 2 + 8) * sizeof(FoundSegment))
        if grown == NULL:
            return False
        listing.found = grown
        listing.capacity = listing.capacity * 2 + 8
    listing.found[listing.count].base_offset = base_offset
    listing.found[listing.count].kinds = kind
    listing.count += 1
    return True


cdef int compare(const void *a, const void *b) noexcept nogil:
    cdef int64_t x = (<const FoundSegment *>a).base_offset, y = (<const FoundSegment *>b).base_offset
    return (x > y) - (x < y)


cdef void merge(Listing *listing) noexcept nogil:
    """Sorts the entries and joins those of the same segment."""
    cdef int32_t i, n = 0
    if listing.count > 1:
        qsort(listing.found, listing.count, sizeof(FoundSegment), &compare)
    for i in range(listing.count):
        if n > 0 and listing.found[n - 1].base_offset == listing.found[i].base_offset:
            listing.found[n - 1].kinds |= listing.found[i].kinds
        else:
            listing.found[n] = listing.found[i]
            n += 1
    listing.count = n


cdef int listing_read(const LogState *state, Listing *listing) noexcept nogil:
    cdef char[PATH_BYTES] path
    cdef DIR *directory
    cdef dirent *item
    cdef int64_t base_offset = 0
    cdef int32_t kind
    cdef int error = 0
    listing.found = NULL
    listing.count = listing.capacity = 0
    listing.swapped = False
    directory = opendir(state.directory)
    if directory == NULL:
        return -errno
    while error == 0:
        item = readdir(directory)
        if item == NULL:
            break
        if not numbered(item.d_name, &base_offset):
            continue
        kind = kind_of(item.d_name + DIGITS)
        if kind != 0:
            error = 0 if enter(listing, base_offset, kind) else -ENOMEM
        elif ends_with(item.d_name, b".deleted") or ends_with(item.d_name, b".tmp"):
            error = file_ops.unlink(directory_path(path, state, item.d_name))
        elif ends_with(item.d_name, b".swap") or ends_with(item.d_name, b".cleaned"):
            listing.swapped = True
    closedir(directory)
    merge(listing)
    return error


cdef void listing_free(Listing *listing) noexcept nogil:
    free(listing.found)
    listing.found = NULL

# ---------------------------------------------------------------- interrupted swaps

ctypedef int (*NameAction)(const LogState *state, const char *name, int64_t base_offset, int64_t *range) noexcept nogil


cdef int each_name(const LogState *state, NameAction action, int64_t *range) noexcept nogil:
    cdef DIR *directory = opendir(state.directory)
    cdef dirent *item
    cdef int64_t base_offset = 0
    cdef int error = 0
    if directory == NULL:
        return -errno
    while error == 0:
        item = readdir(directory)
        if item == NULL:
            break
        if numbered(item.d_name, &base_offset):
            error = action(state, item.d_name, base_offset, range)
    closedir(directory)
    return error


cdef int lowest_cleaned(const LogState *state, const char *name, int64_t base_offset, int64_t *range) noexcept nogil:
    if ends_with(name, b".cleaned") and base_offset < range[0]:
        range[0] = base_offset
    return 0


cdef int drop_cleaned(const LogState *state, const char *name, int64_t base_offset, int64_t *range) noexcept nogil:
    """Removes swap files at or above the lowest .cleaned file: they belong to an unfinished split of a segment."""
    cdef char[PATH_BYTES] path
    if ends_with(name, b".cleaned") or (ends_with(name, b".swap") and base_offset >= range[0]):
        return file_ops.unlink(directory_path(path, state, name))
    return 0


cdef int swap_range(const LogState *state, const char *name, int64_t base_offset, int64_t *range) noexcept nogil:
    """Sets range to the offsets that the swapped-in segments cover."""
    cdef char[PATH_BYTES] path
    cdef Walk walk
    cdef BatchInfo info
    cdef int64_t size_bytes = 0
    cdef int fd, found
    if not ends_with(name, b".log.swap"):
        return 0
    fd = file_ops.open(directory_path(path, state, name), O_RDONLY)
    if fd < 0:
        return fd
    found = file_ops.stat(fd, &size_bytes, NULL)
    if base_offset < range[0]:
        range[0] = base_offset
    if base_offset > range[1]:
        range[1] = base_offset
    if found == 0:
        walk_start(&walk, fd, 0, size_bytes)
        found = walk_peek(&walk, &info)
        while found > 0:
            if last_offset_of(&info) + 1 > range[1]:
                range[1] = last_offset_of(&info) + 1
            walk.position += info.size_bytes
            found = walk_peek(&walk, &info)
    file_ops.close(fd)
    return found


cdef int drop_replaced(const LogState *state, const char *name, int64_t base_offset, int64_t *range) noexcept nogil:
    cdef char[PATH_BYTES] path
    if not ends_with(name, b".swap") and range[0] <= base_offset < range[1]:
        return file_ops.unlink(directory_path(path, state, name))
    return 0


cdef int swap_in(const LogState *state, const char *name, int64_t base_offset, int64_t *range) noexcept nogil:
    cdef char[PATH_BYTES] old
    cdef char[PATH_BYTES] new
    if not ends_with(name, b".swap"):
        return 0
    directory_path(old, state, name)
    directory_path(new, state, name)
    new[strlen(new) - 5] = 0
    return file_ops.rename(old, new)


cdef int finish_swaps(const LogState *state) noexcept nogil:
    cdef int64_t[2] range
    cdef int error
    range[0] = INT64_MAX
    range[1] = -1
    error = each_name(state, lowest_cleaned, range)
    if error == 0:
        error = each_name(state, drop_cleaned, range)
    range[0] = INT64_MAX
    if error == 0:
        error = each_name(state, swap_range, range)
    if error == 0:
        error = each_name(state, drop_replaced, range)
    return error if error != 0 else each_name(state, swap_in, range)
