"""Offset and time indexes: looked up in any segment, written in the active one.

.index entries are (offset of a batch's last record relative to the base offset, position of the batch);
.timeindex entries (timestamp, relative offset): the largest timestamp so far and the last offset of the
first batch that has it. Both big-endian. There is no mapping: a full disk would turn a store into SIGBUS.
All are called with Log.lock held.
"""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.log_types cimport Index, LogState, Segment

# Where to begin looking for `offset`: position of the last indexed batch that ends at or before it, and in
# *entry_offset its last offset; 0 and -1 without one.
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

# The active segment's. All answer 0 or a negated errno.
cdef int indexes_load(LogState *state) noexcept nogil
cdef int offset_index_append(LogState *state, int64_t last_offset, int64_t position) noexcept nogil
cdef int time_index_append(LogState *state, int64_t timestamp, int64_t offset) noexcept nogil
cdef int indexes_write(LogState *state) noexcept nogil                 # the tails into the files
cdef int indexes_truncate(LogState *state, int64_t offset) noexcept nogil   # entries at or above offset go
cdef int indexes_reset(LogState *state) noexcept nogil
# Between the two, index files are made under other names; then, synced, they take their places. What crashes in between
# has changed nothing: recovery would not look at these indexes again.
cdef void indexes_begin_anew(LogState *state) noexcept nogil
cdef int indexes_end_anew(LogState *state) noexcept nogil
# As found in the files: so many entries of each count, the rest goes.
cdef int indexes_keep(LogState *state, int32_t offset_entries, int32_t time_entries) noexcept nogil
cdef void indexes_forget(LogState *state) noexcept nogil               # tails freed
cdef bint indexes_full(const LogState *state, int64_t index_bytes) noexcept nogil

# A search has found the segment's .index missing, short or wrong: it is passed by until log_reindex has made it anew.
cdef void index_distrust(Segment *segment) noexcept nogil
# A search had to go through so many bytes: more than an index that lacks nothing leaves. Not for the active segment's.
cdef void index_walked(Segment *segment, int64_t bytes) noexcept nogil
cdef void index_trust(Segment *segment) noexcept nogil
cdef int64_t indexes_distrusted() noexcept nogil                       # so far, over all logs

cdef inline int32_t index_entries(const Index *index) noexcept nogil:
    return index.filed + index.tail_count
