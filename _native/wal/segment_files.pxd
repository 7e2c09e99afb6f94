"""Segment files of the write-ahead log, and writing frames to the medium."""
from libc.stdint cimport int32_t, int64_t, uint64_t
from bowstring._native.wal.types cimport Wal, WalDevice, WalGroup, WalSegment

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

# Writes the frames of a group, all at once if io_uring is in use. Returns 0 once all are on the medium, or a negated errno.
cdef int device_write(WalDevice *device, WalGroup *group) noexcept nogil
# Writes what a group's first try has left, without io_uring: after short writes. 0 or a negated errno.
cdef int device_finish(WalGroup *group) noexcept nogil

# A ring for a reactor, which writes to `event_fd` when a write has ended. NULL when io_uring is not in use or refused.
# Called on the reactor's thread; so are device_start and device_reap.
cdef void *reactor_ring(const WalDevice *device, int event_fd) noexcept nogil
cdef void reactor_ring_close(void *ring) noexcept nogil
cdef bint device_has_room(const void *ring) noexcept nogil
# Starts writing a group's frames. 0 or a negated errno.
cdef int device_start(void *ring, WalGroup *group) noexcept nogil
# Returns a group whose writes have ended, well or not; NULL when there is none (with `wait`: none on its way).
cdef WalGroup *device_reap(void *ring, bint wait) noexcept nogil
# Whether every frame of the group was written to its end.
cdef bint device_complete(const WalGroup *group) noexcept nogil
