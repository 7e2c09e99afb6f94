"""Offset and time indexes, see index.pxd."""
from libc.errno cimport EIO, ENOENT, ENOMEM
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy
from posix.fcntl cimport O_CREAT, O_RDONLY, O_RDWR
from bowstring._native.base.atomics cimport add_i64, load_i64
from bowstring._native.base.bigendian cimport load_be32, load_be64, store_be32, store_be64
from bowstring._native.disk.file_ops cimport PATH_BYTES, file_ops, read_range, sync_path, write_range
from bowstring._native.log.segment_files cimport segment_file_path, segment_path
from bowstring._native.log.types cimport NO_TIMESTAMP, OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES

cdef enum:
    TAIL_MIN_ENTRIES = 16
    # With a complete index a search never walks so many bytes: index.interval.bytes is a few KiB.
    LONG_WALK_BYTES = 16777216
    TAIL_MAX_ENTRIES = 512
    BLOCK_BYTES = 6144              # 512 time entries: the last steps of a search run in memory

cdef enum Field:
    OFFSET                          # of an .index entry
    POSITION
    TIMESTAMP                       # of a .timeindex entry
    TIME_OFFSET


cdef int64_t field_of(const uint8_t *entry, Field field) noexcept nogil:
    if field == TIMESTAMP:
        return load_be64(entry)
    if field == OFFSET:
        return load_be32(entry)
    return load_be32(entry + (4 if field == POSITION else 8))


cdef const char *suffix_of(const Index *index) noexcept nogil:
    return b".index" if index.entry_bytes == OFFSET_ENTRY_BYTES else b".timeindex"

# ---------------------------------------------------------------- trust

cdef int64_t distrusted = 0         # atomic


cdef void index_distrust(Segment *segment) noexcept nogil:
    if not segment.index_unsound:
        segment.index_unsound = True
        add_i64(&distrusted, 1)


cdef void index_distrusted_too(Segment *segment) noexcept nogil:
    segment.index_unsound = True


cdef void index_walked(Segment *segment, int64_t bytes) noexcept nogil:
    if bytes > LONG_WALK_BYTES and not segment.index_rebuilt:
        index_distrust(segment)


cdef void index_trust(Segment *segment) noexcept nogil:
    segment.index_unsound = False


cdef int64_t indexes_distrusted() noexcept nogil:
    return load_i64(&distrusted)

# ---------------------------------------------------------------- looking up


cdef const Index *held_index(const LogState *state, const Segment *segment, int32_t entry_bytes) noexcept nogil:
    """The in-memory part of the active segment's index; NULL for other segments, whose files are complete."""
    if not state.activated or segment != state.segments[state.segment_count - 1]:
        return NULL
    return &state.offset_index if entry_bytes == OFFSET_ENTRY_BYTES else &state.time_index


cdef int open_index(const LogState *state, const Segment *segment, int32_t entry_bytes, int32_t *entries) noexcept nogil:
    """Opens the index file: returns its descriptor or a negated errno, and how many of its entries are valid."""
    cdef char[PATH_BYTES] path
    cdef int64_t size_bytes = 0
    cdef const char *suffix = b".index" if entry_bytes == OFFSET_ENTRY_BYTES else b".timeindex"
    cdef const Index *index = held_index(state, segment, entry_bytes)
    cdef int fd
    entries[0] = 0
    if index != NULL and index.filed == 0:
        return -1
    fd = file_ops.open(segment_file_path(path, state, segment, suffix), O_RDONLY)
    if fd < 0:
        return fd
    if index != NULL:
        entries[0] = index.filed
    elif file_ops.stat(fd, &size_bytes, NULL) == 0:
        entries[0] = <int32_t>(size_bytes // entry_bytes)
    return fd


cdef int32_t search(const uint8_t *entries, int32_t n, int32_t entry_bytes, Field field, int64_t target) noexcept nogil:
    """Slot of the last entry whose field <= target, or -1."""
    cdef int32_t low = 0, high = n, middle
    while low < high:
        middle = low + (high - low) // 2
        if field_of(entries + <int64_t>middle * entry_bytes, field) <= target:
            low = middle + 1
        else:
            high = middle
    return low - 1


cdef bint floor_entry(const LogState *state, const Segment *segment, int32_t entry_bytes, Field field,
                      int64_t target, uint8_t *entry) noexcept nogil:
    """Finds the last entry whose field <= target. An unreadable file counts as empty, which is slower but correct."""
    cdef uint8_t[BLOCK_BYTES] block
    cdef const Index *index = held_index(state, segment, entry_bytes)
    cdef int32_t low = 0, high = 0, middle, slot
    cdef bint found = False
    cdef int fd
    if index != NULL and index.tail_count > 0:
        slot = search(index.tail, index.tail_count, entry_bytes, field, target)
        if slot >= 0:
            memcpy(entry, index.tail + <int64_t>slot * entry_bytes, entry_bytes)
            return True
    fd = open_index(state, segment, entry_bytes, &high)
    while (high - low) * entry_bytes > BLOCK_BYTES:      # low: the slot after one known to be <= target
        middle = low + (high - low) // 2
        if read_range(fd, block, entry_bytes, <int64_t>middle * entry_bytes) != entry_bytes:
            low = high = 0
        elif field_of(block, field) <= target:
            low = middle + 1
            memcpy(entry, block, entry_bytes)
            found = True
        else:
            high = middle
    if high > low and read_range(fd, block, (high - low) * entry_bytes, <int64_t>low * entry_bytes) \
            == (high - low) * entry_bytes:
        slot = search(block, high - low, entry_bytes, field, target)
        if slot >= 0:
            memcpy(entry, block + slot * entry_bytes, entry_bytes)
            found = True
    if fd >= 0:
        file_ops.close(fd)
    return found


cdef int64_t offset_index_floor(const LogState *state, const Segment *segment, int64_t offset,
                                int64_t *entry_offset) noexcept nogil:
    cdef uint8_t[TIME_ENTRY_BYTES] entry
    if segment.index_unsound or not floor_entry(
            state, segment, OFFSET_ENTRY_BYTES, OFFSET, offset - segment.base_offset, entry):
        entry_offset[0] = -1
        return 0
    entry_offset[0] = segment.base_offset + field_of(entry, OFFSET)
    return field_of(entry, POSITION)


cdef int64_t offset_index_cut(const LogState *state, const Segment *segment, int64_t start,
                              int64_t end) noexcept nogil:
    cdef uint8_t[TIME_ENTRY_BYTES] entry
    cdef int64_t position
    if segment.index_unsound or not floor_entry(state, segment, OFFSET_ENTRY_BYTES, POSITION, end, entry):
        return -1
    position = field_of(entry, POSITION)
    return position if position > start else -1


cdef bint time_index_floor(const LogState *state, const Segment *segment, int64_t timestamp,
                           int64_t *entry_timestamp, int64_t *entry_offset) noexcept nogil:
    cdef uint8_t[TIME_ENTRY_BYTES] entry
    if not floor_entry(state, segment, TIME_ENTRY_BYTES, TIMESTAMP, timestamp, entry):
        return False
    entry_timestamp[0] = field_of(entry, TIMESTAMP)
    entry_offset[0] = segment.base_offset + field_of(entry, TIME_OFFSET)
    return True


cdef bint time_index_last(const LogState *state, const Segment *segment, int64_t *entry_timestamp,
                          int64_t *entry_offset) noexcept nogil:
    cdef uint8_t[TIME_ENTRY_BYTES] entry
    cdef const Index *index = held_index(state, segment, TIME_ENTRY_BYTES)
    cdef int32_t entries = 0
    cdef bint found = False
    cdef int fd
    if index != NULL and index.tail_count > 0:
        memcpy(entry, index.tail + <int64_t>(index.tail_count - 1) * TIME_ENTRY_BYTES, TIME_ENTRY_BYTES)
        found = True
    else:
        fd = open_index(state, segment, TIME_ENTRY_BYTES, &entries)
        if fd >= 0:
            found = entries > 0 and read_range(
                fd, entry, TIME_ENTRY_BYTES, <int64_t>(entries - 1) * TIME_ENTRY_BYTES) == TIME_ENTRY_BYTES
            file_ops.close(fd)
    if found:
        entry_timestamp[0] = field_of(entry, TIMESTAMP)
        entry_offset[0] = segment.base_offset + field_of(entry, TIME_OFFSET)
    return found

# ---------------------------------------------------------------- the active segment's


cdef Segment *active(const LogState *state) noexcept nogil:
    return state.segments[state.segment_count - 1]


cdef const char *file_suffix(const LogState *state, const Index *index) noexcept nogil:
    if not state.indexing_anew:
        return suffix_of(index)
    return b".index.tmp" if index.entry_bytes == OFFSET_ENTRY_BYTES else b".timeindex.tmp"


cdef int open_file(const LogState *state, const Index *index) noexcept nogil:
    cdef char[PATH_BYTES] path
    return file_ops.open(segment_path(path, state, active(state).base_offset, file_suffix(state, index)), O_RDWR | O_CREAT)


cdef void indexes_begin_anew(LogState *state) noexcept nogil:
    state.indexing_anew = True


cdef int take_place(LogState *state, const Index *index) noexcept nogil:
    cdef char[PATH_BYTES] made
    cdef char[PATH_BYTES] path
    cdef int error
    segment_path(made, state, active(state).base_offset, file_suffix(state, index))
    error = sync_path(made)
    return error if error != 0 else file_ops.rename(made, segment_path(path, state, active(state).base_offset, suffix_of(index)))


cdef int indexes_end_anew(LogState *state) noexcept nogil:
    cdef char[PATH_BYTES] path
    cdef int error = 0
    if active(state).has_aborted:                        # rebuilt with them; its name is synced below
        error = sync_path(segment_path(path, state, active(state).base_offset, b".txnindex"))
    if error == 0:
        error = take_place(state, &state.offset_index)
    if error == 0:
        error = take_place(state, &state.time_index)
    state.indexing_anew = False
    return error if error != 0 else sync_path(state.directory)


cdef void set_last(const LogState *state, Index *index, const uint8_t *entry) noexcept nogil:
    """Sets the last key and offset from `entry`, the newest one; NULL when there is none."""
    cdef int64_t base_offset = active(state).base_offset
    if index.entry_bytes == OFFSET_ENTRY_BYTES:
        index.last_key = base_offset + field_of(entry, OFFSET) if entry != NULL else -1
        index.last_offset = index.last_key
    else:
        index.last_key = field_of(entry, TIMESTAMP) if entry != NULL else NO_TIMESTAMP
        index.last_offset = base_offset + field_of(entry, TIME_OFFSET) if entry != NULL else -1


cdef int load(const LogState *state, Index *index, int32_t entry_bytes) noexcept nogil:
    """Makes no file: the first entry that is written does. One request may be the first of thousands of partitions, and
    others wait for it."""
    cdef char[PATH_BYTES] path
    cdef uint8_t[TIME_ENTRY_BYTES] entry
    cdef int64_t size_bytes = 0
    cdef int fd, error
    index.entry_bytes = entry_bytes
    index.filed = index.tail_count = 0
    set_last(state, index, NULL)
    fd = file_ops.open(segment_path(path, state, active(state).base_offset, file_suffix(state, index)), O_RDONLY)
    if fd < 0:
        return 0 if fd == -ENOENT else fd
    error = file_ops.stat(fd, &size_bytes, NULL)
    if error == 0:
        index.filed = <int32_t>(size_bytes // entry_bytes)
        if index.filed > 0:
            if read_range(fd, entry, entry_bytes, <int64_t>(index.filed - 1) * entry_bytes) == entry_bytes:
                set_last(state, index, entry)
            else:
                error = -EIO
    file_ops.close(fd)
    return error


cdef int indexes_load(LogState *state) noexcept nogil:
    cdef int error = load(state, &state.offset_index, OFFSET_ENTRY_BYTES)
    return error if error != 0 else load(state, &state.time_index, TIME_ENTRY_BYTES)


cdef int write_tail(const LogState *state, Index *index) noexcept nogil:
    cdef int fd, error
    if index.tail_count == 0:
        return 0
    fd = open_file(state, index)
    if fd < 0:
        return fd
    error = write_range(fd, index.tail, <int64_t>index.tail_count * index.entry_bytes,
                        <int64_t>index.filed * index.entry_bytes)
    file_ops.close(fd)
    if error == 0:
        index.filed += index.tail_count
        index.tail_count = 0
    return error


cdef int reserve(const LogState *state, Index *index) noexcept nogil:
    """Makes room for one more entry in the tail: grows it up to its bound, then writes it out."""
    cdef int32_t capacity
    cdef uint8_t *grown
    if index.tail_count < index.tail_capacity:
        return 0
    if index.tail_capacity >= TAIL_MAX_ENTRIES:
        return write_tail(state, index)
    capacity = index.tail_capacity * 2 if index.tail_capacity else TAIL_MIN_ENTRIES
    grown = <uint8_t *>realloc(index.tail, capacity * index.entry_bytes)
    if grown == NULL:
        return -ENOMEM
    index.tail = grown
    index.tail_capacity = capacity
    return 0


cdef int offset_index_append(LogState *state, int64_t last_offset, int64_t position) noexcept nogil:
    cdef Index *index = &state.offset_index
    cdef int error = reserve(state, index)
    cdef uint8_t *entry
    if error != 0:
        return error
    entry = index.tail + <int64_t>index.tail_count * OFFSET_ENTRY_BYTES
    store_be32(entry, <int32_t>(last_offset - active(state).base_offset))
    store_be32(entry + 4, <int32_t>position)
    index.tail_count += 1
    index.last_key = index.last_offset = last_offset
    return 0


cdef int time_index_append(LogState *state, int64_t timestamp, int64_t offset) noexcept nogil:
    """Adds an entry only for a timestamp beyond the last one (Kafka's maybeAppend)."""
    cdef Index *index = &state.time_index
    cdef uint8_t *entry
    cdef int error
    if timestamp <= index.last_key or offset < index.last_offset:
        return 0
    error = reserve(state, index)
    if error != 0:
        return error
    entry = index.tail + <int64_t>index.tail_count * TIME_ENTRY_BYTES
    store_be64(entry, timestamp)
    store_be32(entry + 8, <int32_t>(offset - active(state).base_offset))
    index.tail_count += 1
    index.last_key = timestamp
    index.last_offset = offset
    return 0


cdef int indexes_write(LogState *state) noexcept nogil:
    cdef int error = write_tail(state, &state.offset_index)
    return error if error != 0 else write_tail(state, &state.time_index)


cdef int cut(const LogState *state, Index *index, int32_t keep) noexcept nogil:
    """Drops entries from slot `keep` on."""
    cdef uint8_t[TIME_ENTRY_BYTES] entry
    cdef int fd, error = 0
    if keep >= index.filed:
        index.tail_count = keep - index.filed
    else:
        index.tail_count = 0
        index.filed = keep
        fd = open_file(state, index)
        if fd < 0:
            return fd
        error = file_ops.truncate(fd, <int64_t>keep * index.entry_bytes)
        if error == 0 and keep > 0 and read_range(
                fd, entry, index.entry_bytes, <int64_t>(keep - 1) * index.entry_bytes) != index.entry_bytes:
            error = -EIO
        file_ops.close(fd)
        set_last(state, index, entry if keep > 0 and error == 0 else NULL)
        return error
    if index.tail_count > 0:
        set_last(state, index, index.tail + <int64_t>(index.tail_count - 1) * index.entry_bytes)
        return 0
    if index.filed == 0:
        set_last(state, index, NULL)
        return 0
    fd = open_file(state, index)
    if fd < 0:
        return fd
    if read_range(fd, entry, index.entry_bytes, <int64_t>(index.filed - 1) * index.entry_bytes) == index.entry_bytes:
        set_last(state, index, entry)
    else:
        error = -EIO
    file_ops.close(fd)
    return error


cdef int truncate_index(LogState *state, Index *index, Field field, int64_t relative) noexcept nogil:
    cdef uint8_t[TIME_ENTRY_BYTES] entry
    cdef int32_t low = 0, high = index_entries(index), middle
    cdef const uint8_t *at
    cdef int error = 0
    cdef int fd = open_file(state, index) if index.filed > 0 else -1
    if index.filed > 0 and fd < 0:
        return fd
    while low < high and error == 0:
        middle = low + (high - low) // 2
        if middle >= index.filed:
            at = index.tail + <int64_t>(middle - index.filed) * index.entry_bytes
        else:
            at = entry
            if read_range(fd, entry, index.entry_bytes, <int64_t>middle * index.entry_bytes) != index.entry_bytes:
                error = -EIO
                break
        if field_of(at, field) < relative:
            low = middle + 1
        else:
            high = middle
    if fd >= 0:
        file_ops.close(fd)
    return cut(state, index, low) if error == 0 else error


cdef int indexes_truncate(LogState *state, int64_t offset) noexcept nogil:
    cdef int64_t relative = offset - active(state).base_offset
    cdef int error = truncate_index(state, &state.offset_index, OFFSET, relative)
    return error if error != 0 else truncate_index(state, &state.time_index, TIME_OFFSET, relative)


cdef int reset(LogState *state, Index *index, int32_t entry_bytes) noexcept nogil:
    cdef int fd, error
    index.entry_bytes = entry_bytes
    index.filed = index.tail_count = 0
    set_last(state, index, NULL)
    fd = open_file(state, index)
    if fd < 0:
        return fd
    error = file_ops.truncate(fd, 0)
    file_ops.close(fd)
    return error


cdef int indexes_reset(LogState *state) noexcept nogil:
    cdef int error = reset(state, &state.offset_index, OFFSET_ENTRY_BYTES)
    return error if error != 0 else reset(state, &state.time_index, TIME_ENTRY_BYTES)


cdef int keep(LogState *state, Index *index, int32_t entry_bytes, int32_t entries) noexcept nogil:
    cdef uint8_t[TIME_ENTRY_BYTES] last
    cdef int fd, error
    index.entry_bytes = entry_bytes
    index.filed = entries
    index.tail_count = 0
    set_last(state, index, NULL)
    fd = open_file(state, index)
    if fd < 0:
        return fd
    error = file_ops.truncate(fd, <int64_t>entries * entry_bytes)
    if error == 0 and entries > 0:
        if read_range(fd, last, entry_bytes, <int64_t>(entries - 1) * entry_bytes) == entry_bytes:
            set_last(state, index, last)
        else:
            error = -EIO
    file_ops.close(fd)
    return error


cdef int indexes_keep(LogState *state, int32_t offset_entries, int32_t time_entries) noexcept nogil:
    cdef int error = keep(state, &state.offset_index, OFFSET_ENTRY_BYTES, offset_entries)
    return error if error != 0 else keep(state, &state.time_index, TIME_ENTRY_BYTES, time_entries)


cdef void forget(Index *index) noexcept nogil:
    free(index.tail)
    index.tail = NULL
    index.tail_count = index.tail_capacity = 0


cdef void indexes_forget(LogState *state) noexcept nogil:
    forget(&state.offset_index)
    forget(&state.time_index)


cdef bint indexes_full(const LogState *state, int64_t index_bytes) noexcept nogil:
    """Reserves one slot of the time index for the entry that closes the segment."""
    return (index_entries(&state.offset_index) >= index_bytes // OFFSET_ENTRY_BYTES
            or index_entries(&state.time_index) >= index_bytes // TIME_ENTRY_BYTES - 1)
