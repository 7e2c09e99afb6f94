"""The staged tail of a .log: bytes that were appended and wait in memory, so that the file gets them in large writes.

Whoever reads the file with read_range() of file_ops.pxd gets these bytes, too. All other calls that depend on what a
.log has go through the functions here. Each is safe with any other, from any thread, while the caller holds the file
open. Lock order: Log.lock, StagedTail.lock, TailPool.lock.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t
from bowstring._native.base.pthread cimport pthread_mutex_t
from bowstring._native.disk.file_ops cimport iovec
from bowstring._native.disk.tail_pool cimport TailChunk, TailPool

cdef enum:
    # Of one append; a larger one costs little more as a write of its own.
    STAGED_BYTES_MAX = 64 << 10

cdef struct StagedTail:
    pthread_mutex_t lock
    TailChunk *chunk                # NULL: all bytes are in the file
    int64_t start                   # position in the file of the chunk's first byte
    int64_t end                     # after the last staged byte
    int64_t begun_ns                # when the chunk got its first bytes
    int64_t appended_ns             # of the last append; atomic
    int32_t size                    # of the next chunk: it grows with the partition's rate
    int fd
    int64_t turn                    # of the rest writer, when it last looked; guarded by the pool's lock
    StagedTail *older               # in the list of the pool; guarded by its lock
    StagedTail *newer
    TailPool *listed                # NULL: in no list

cdef struct TailView:
    # Bytes of a tail that stay where they are until view_release().
    TailChunk *chunk
    const uint8_t *data
    int64_t size_bytes

cdef void tail_open(StagedTail *tail, int fd) noexcept nogil
# Before the descriptor is closed. Writes out what is still staged: 0 or a negated errno; then a mapped pool keeps the bytes
# for the next start.
cdef int tail_close(StagedTail *tail) noexcept nogil

# Appends the parts at `position`, the end of the file. Returns 1; 0 when they are to be written to the file, which then has
# all bytes before `position`; or a negated errno, and then nothing was appended, and what was staged before still is.
# `directory` is the partition's, `base_offset` the segment's.
cdef int tail_append(
    StagedTail *tail, TailPool *pool, const iovec *parts, int n, int64_t size_bytes, int64_t position,
    const char *directory, int64_t base_offset) noexcept nogil
# Writes the staged bytes to the file. Returns 0 or a negated errno; then they stay staged.
cdef int tail_write_out(StagedTail *tail) noexcept nogil
# Shows up to size_bytes from `position` on, if the byte there is staged. Otherwise view.chunk is NULL, and the file has all
# bytes up to the returned position (INT64_MAX: nothing is staged).
cdef int64_t tail_view(StagedTail *tail, int64_t position, int64_t size_bytes, TailView *view) noexcept nogil
cdef void view_release(TailView *view) noexcept nogil
# Up to where the file has the bytes itself: the position of the first staged one, or `end` when none is staged.
cdef int64_t tail_start(StagedTail *tail, int64_t end) noexcept nogil

# As the calls of FileOps, for a file that may have a tail.
cdef int tail_truncate(StagedTail *tail, int64_t size_bytes) noexcept nogil
cdef int tail_sync(StagedTail *tail) noexcept nogil
cdef int tail_cached(StagedTail *tail, int64_t position, int64_t size_bytes) noexcept nogil

# ---------------------------------------------------------------- for the thread of engine/storage/staged_tails.py

# Writes out the tails of the pool whose last append is at least rest_ns ago; all that nobody uses with 0. Returns 0, or the
# negated errno of the last one that failed; these stay as they are.
cdef int tails_write_rested(TailPool *pool, int64_t rest_ns, int32_t *failed) noexcept nogil
# Waits until a tail has bytes. False once tails_end() was called.
cdef bint tails_wait(TailPool *pool) noexcept nogil
cdef void tails_end(TailPool *pool) noexcept nogil
# For simulations of a killed process: forgets the tails as they are. Nobody may use their files meanwhile.
cdef void tails_abandon(TailPool *pool) noexcept nogil
