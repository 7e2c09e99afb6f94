"""Which changes of its state a record allows, and what members and time do to acquired records: acknowledgements, releases,
the ends of locks."""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from bowstring._native.share.window cimport OffsetState, Ranges, Window

# Tries a change from inside the allowed ones; False when the record does not allow it.
cdef bint try_update(const Window *w, OffsetState *s, uint8_t state, int delivered, int64_t member) noexcept nogil

# Acknowledges records of `member`: one type for all or one for each. Adds the pending changes. Returns 0, or the error and
# its reason; the caller then takes all changes back.
cdef int16_t acknowledge(Window *w, int64_t member, int64_t first, int64_t last, const int8_t *types, int32_t type_count,
                         int64_t now_ms, Ranges *changes, const char **reason) noexcept nogil
# Gives back all that a member holds, pending; changes.failed without memory.
cdef void release_member(Window *w, int64_t member, Ranges *changes) noexcept nogil
# Ends pending changes: stored, or taken back.
cdef void complete(Window *w, const Ranges *changes, bint stored, int64_t now_ms) noexcept nogil
# Gives back records whose lock is over. These changes are not pending. changes.failed without memory.
cdef void expire(Window *w, int64_t now_ms, Ranges *changes) noexcept nogil
