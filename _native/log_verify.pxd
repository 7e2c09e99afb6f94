"""Verifying a .log file piece by piece, past whatever damage there is: for the scrubber and for `bowstring scrub`."""
from libc.stdint cimport int32_t, int64_t

cdef enum:
    DAMAGE_MAX = 64                 # bad ranges told of at once; then the piece ends

cdef struct Damage:
    int64_t position
    int64_t size_bytes
    int64_t first_offset            # the offset that was due there
    int64_t end_offset              # of the next good batch, or what the bad one's header says; -1: none follows
    const char *what                # a static string

cdef struct VerifyPiece:
    # In: where to go on, the offset due there, and the bounds.
    int64_t position
    int64_t next_offset
    int64_t base_offset             # of the segment
    int64_t below_offset            # batches from here on are left alone
    # Out, besides the first two:
    int64_t batches
    int64_t records
    int32_t damage_count
    bint done                       # the end, or below_offset, was reached
    Damage[64] damage

# Goes on from `position` until some `max_bytes` are read or the file's `end` is reached. 0 or a negated errno.
cdef int verify_piece(int fd, int64_t end, int64_t max_bytes, VerifyPiece *piece) noexcept nogil

cdef dict piece_dict(const VerifyPiece *piece)
