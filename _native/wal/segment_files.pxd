"""Segment files of the write-ahead log, and writing frames to the medium."""
from libc.stdint cimport int32_t, int64_t, uint64_t
from bowstring._native.wal.types cimport Wal, WalBuffer, WalDevice, WalSegment

# Loads liburing's C functions from its extension module's file. False, with *why, when the kernel or the file refuses.
cdef bint device_open_ring(WalDevice *device, const char *liburing_path, const char **why) noexcept nogil
cdef void device_close(WalDevice *device) noexcept nogil

# Creates a segment file of segment_bytes and writes all of it once, or opens an existing one. NULL and *error on failure.
cdef WalSegment *segment_open(Wal *wal, int32_t number, bint make, int *error) noexcept nogil
cdef void segment_close(WalSegment *segment) noexcept nogil
# Closes the segment and removes its file: 0 or a negated errno.
cdef int segment_drop(const Wal *wal, WalSegment *segment) noexcept nogil

# Records in a segment's last block that the run's frames up to `checkpoint` are no longer needed: 0 or a negated errno.
cdef int write_trailer(int fd, int64_t size_bytes, uint64_t run, int64_t checkpoint) noexcept nogil

# Writes frames, all at once if io_uring is in use. Returns 0 once all are on the medium, or a negated errno.
cdef int device_write(WalDevice *device, int32_t n, const int *fds, WalBuffer **frames, const int64_t *sizes,
                      const int64_t *positions) noexcept nogil
