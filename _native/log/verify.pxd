"""Verifies a .log file piece by piece and continues after damage: for the scrubber and for `bowstring scrub`.
Also keeps the findings: damage that was found when a log was opened.
"""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.log.types cimport LogFinding, LogState

cdef enum:
    DAMAGE_MAX = 64                 # bad ranges reported at once; then the piece ends

cdef struct Damage:
    int64_t position
    int64_t size_bytes
    int64_t first_offset            # the offset expected at `position`
    int64_t end_offset              # of the next good batch, or by the bad batch's header; -1: none follows
    const char *what                # a static string

cdef struct VerifyPiece:
    # Input: where to continue, the offset expected there, and the bounds.
    int64_t position
    int64_t next_offset
    int64_t base_offset             # of the segment
    int64_t below_offset            # batches from here on are not verified
    # Output, besides the first two:
    int64_t batches
    int64_t records
    int32_t damage_count
    bint done                       # the end, or below_offset, was reached
    Damage[DAMAGE_MAX] damage

# Continues from `position` until about `max_bytes` are read or the file's `end` is reached. 0 or a negated errno.
cdef int verify_piece(int fd, int64_t end, int64_t max_bytes, VerifyPiece *piece) noexcept nogil

cdef dict piece_dict(const VerifyPiece *piece)

# ---------------------------------------------------------------- findings
#
# Damage that was found while a log was opened, kept until take_findings() fetches it. Call it under Log.lock, or before the
# log is shared.

# Adds a finding: bytes [position, position + size_bytes) of a segment's file and the affected offsets; `what` and `suffix`
# are static strings. Returns the finding so that the caller can set more fields; NULL when memory ran out.
cdef LogFinding *finding_add(
    LogState *state, const char *what, int64_t base_offset, const char *suffix, int64_t position,
    int64_t size_bytes, int64_t first_offset, int64_t end_offset) noexcept nogil
cdef void findings_free(LogState *state) noexcept nogil
