"""Damage that opening a log comes upon, kept until somebody asks for it. Before anyone else knows the log, or with
Log.lock held."""
from libc.stdint cimport int64_t
from bowstring._native.log_types cimport LogFinding, LogState

# Bytes [position, position + size_bytes) of a segment's file, and the offsets they are about; `what` and `suffix` are
# static strings. Without memory it is forgotten. Returns it for more to be filled in, or NULL.
cdef LogFinding *finding_add(
    LogState *state, const char *what, int64_t base_offset, const char *suffix, int64_t position,
    int64_t size_bytes, int64_t first_offset, int64_t end_offset) noexcept nogil
cdef void findings_free(LogState *state) noexcept nogil
