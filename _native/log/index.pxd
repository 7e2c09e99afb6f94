"""Offset and time indexes: looked up in any segment, written in the active one.

.index entries are (offset of a batch's last record relative to the base offset, position of the batch);
.timeindex entries (timestamp, relative offset): the largest timestamp so far and the last offset of the
first batch that has it. Both big-endian. Files are not mapped: on a full disk a store to a mapping raises SIGBUS.
Call all functions under Log.lock.
"""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.log.types cimport Index, LogState, Segment

# Returns where to begin a search for `offset`: the position of the last indexed batch that ends at or before it. Sets
# *entry_offset to the last offset of that batch. 0 and -1 if there is none.
cdef int64_t offset_index_floor(
    const LogState *state, const Segment *segment, int64_t offset, int64_t *entry_offset) noexcept nogil
# The largest indexed position in (start, end], or -1.
cdef int64_t offset_index_cut(
    const LogState *state, const Segment *segment, int64_t start, int64_t end) noexcept nogil
# Last entry whose timestamp <= `timestamp`; False without one.
cdef bint time_index_floor(
    const LogState *state, const Segment *segment, int64_t timestamp, int64_t *entry_timestamp,
    int64_t *entry_offset) noexcept nogil
cdef bint time_index_last(
    const LogState *state, const Segment *segment, int64_t *entry_timestamp, int64_t *entry_offset) noexcept nogil

# Indexes of the active segment. All functions return 0 or a negated errno.
cdef int indexes_load(LogState *state) noexcept nogil
cdef int offset_index_append(LogState *state, int64_t last_offset, int64_t position) noexcept nogil
cdef int time_index_append(LogState *state, int64_t timestamp, int64_t offset) noexcept nogil
cdef int indexes_write(LogState *state) noexcept nogil                 # writes the tails to the files
cdef int indexes_truncate(LogState *state, int64_t offset) noexcept nogil   # removes entries at or above offset
cdef int indexes_reset(LogState *state) noexcept nogil
# Between these two calls, new index files are written under other names; then they are synced and renamed. A crash in
# between changes nothing. (Recovery would not check these indexes again.)
cdef void indexes_begin_anew(LogState *state) noexcept nogil
cdef int indexes_end_anew(LogState *state) noexcept nogil
# Loads the ends of the files. So many entries of each are valid; the rest is truncated.
cdef int indexes_keep(LogState *state, int32_t offset_entries, int32_t time_entries) noexcept nogil
cdef void indexes_forget(LogState *state) noexcept nogil               # frees the tails
cdef bint indexes_full(const LogState *state, int64_t index_bytes) noexcept nogil

# A search found the segment's .index missing, short or wrong: searches skip it until index_rebuild.pyx has rebuilt it.
cdef void index_distrust(Segment *segment) noexcept nogil
# Distrusts the index without counting it: a copy of the segment was distrusted and counted before.
cdef void index_distrusted_too(Segment *segment) noexcept nogil
# Reports how many bytes a search had to walk: too many mean an incomplete index. Not for the active segment.
cdef void index_walked(Segment *segment, int64_t bytes) noexcept nogil
cdef void index_trust(Segment *segment) noexcept nogil
cdef int64_t indexes_distrusted() noexcept nogil                       # so far, over all logs

cdef inline int32_t index_entries(const Index *index) noexcept nogil:
    return index.filed + index.tail_count
