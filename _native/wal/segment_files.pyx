"""Segments and devices of the write-ahead log, see segment_files.pxd.

io_uring is reached through the PyPI package liburing, whose extension exports liburing's C functions: its file is
loaded with dlopen, which costs a start less than importing the package would.

Contents: devices (io_uring) · segments · frames (trailers, device_write).
"""
from libc.errno cimport EAGAIN, EINTR, EINVAL, EIO, ENOMEM
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from libc.string cimport memset, strdup
from posix.fcntl cimport O_CREAT, O_RDWR
from posix.stdlib cimport posix_memalign
from bowstring._native.base.crc cimport crc32c_update
from bowstring._native.disk.file_ops cimport FILE_PATH_BYTES, file_ops, iovec, is_full, sync_path
from bowstring._native.wal.types cimport WAL_BLOCK, WAL_DEPTH, WAL_TRAILER_MAGIC, WalFrameHeader

cdef extern from "wal/ring.h" nogil:
    ctypedef struct Ring:
        pass
    Ring *ring_open(const char *path, unsigned depth, int event_fd, const char **why)
    void ring_close(Ring *ring)
    int ring_write(Ring *ring, int n, const int *fds, uint8_t **data, const int64_t *sizes, const int64_t *positions,
                   int64_t *done)
    bint ring_has_room(const Ring *ring, int n)
    int ring_start(Ring *ring, int n, const int *fds, uint8_t **data, const int64_t *sizes, const int64_t *positions,
                   uint64_t *tags)
    bint ring_reap(Ring *ring, bint wait, uint64_t *tag, int *result)
    int O_DIRECT

cdef enum:
    PREPARE_BYTES = 1 << 20
    FRUITLESS_MAX = 4               # consecutive writes without progress of a block
    REACTOR_WRITES = 64             # of one reactor at once, to all write-ahead logs


cdef bint device_open_ring(WalDevice *device, const char *liburing_path, const char **why) noexcept nogil:
    device.ring = ring_open(liburing_path, WAL_DEPTH, -1, why)
    if device.ring == NULL:
        return False
    device.liburing = strdup(liburing_path)
    return device.liburing != NULL


cdef void device_close(WalDevice *device) noexcept nogil:
    if device.ring != NULL:
        ring_close(<Ring *>device.ring)
        device.ring = NULL
    free(device.liburing)
    device.liburing = NULL


cdef void *reactor_ring(const WalDevice *device, int event_fd) noexcept nogil:
    cdef const char *why = NULL
    return NULL if device.liburing == NULL else ring_open(device.liburing, REACTOR_WRITES, event_fd, &why)


cdef void reactor_ring_close(void *ring) noexcept nogil:
    ring_close(<Ring *>ring)


cdef bint device_has_room(const void *ring) noexcept nogil:
    return ring_has_room(<const Ring *>ring, WAL_DEPTH)


cdef int device_start(void *ring, WalGroup *group) noexcept nogil:
    cdef uint8_t *data[WAL_DEPTH]
    cdef uint64_t tags[WAL_DEPTH]
    cdef int32_t i
    for i in range(group.count):
        group.done[i] = 0
        data[i] = group.frames[i].data
        tags[i] = <uint64_t>group | <uint64_t>i          # a group's address is a multiple of WAL_DEPTH
    group.left = group.count
    group.error = 0
    return ring_start(<Ring *>ring, group.count, group.fds, data, group.sizes, group.positions, tags)


cdef WalGroup *device_reap(void *ring, bint wait) noexcept nogil:
    cdef uint64_t tag = 0
    cdef int result = 0
    cdef WalGroup *group
    while ring_reap(<Ring *>ring, wait, &tag, &result):
        group = <WalGroup *>(tag & ~<uint64_t>(WAL_DEPTH - 1))
        if result >= 0:
            group.done[tag & (WAL_DEPTH - 1)] = result
        elif result != -EINTR and result != -EAGAIN:     # these were not written: device_finish writes them
            group.error = result
        group.left -= 1
        if group.left == 0:
            return group
    return NULL

# ---------------------------------------------------------------- segments


cdef int open_direct(Wal *wal, const char *path, int flags) noexcept nogil:
    """Opens with O_DIRECT if the file system has it. Some network and overlay file systems lack it: then durable writes
    go through the page cache."""
    cdef int fd
    if wal.device.direct:
        fd = file_ops.open(path, flags | O_DIRECT)
        if fd != -EINVAL:
            return fd
        wal.device.direct = False
    return file_ops.open(path, flags)


cdef int write_through(Wal *wal, int fd) noexcept nogil:
    """Writes zeros to the end of the file: later writes then overwrite existing blocks and change no metadata."""
    cdef void *zeros = NULL
    cdef int64_t position = 0
    cdef int64_t n
    cdef int error = 0
    cdef iovec part
    if posix_memalign(&zeros, WAL_BLOCK, PREPARE_BYTES) != 0:
        return -ENOMEM
    memset(zeros, 0, PREPARE_BYTES)
    while position < wal.segment_bytes and error == 0:
        part.iov_base = zeros
        part.iov_len = PREPARE_BYTES if wal.segment_bytes - position > PREPARE_BYTES else wal.segment_bytes - position
        n = file_ops.pwritev(fd, &part, 1, position)
        if n <= 0:
            error = <int>n if n < 0 else -EIO
        else:
            position += n
            if n % WAL_BLOCK != 0 and position < wal.segment_bytes:
                position -= n % WAL_BLOCK                # O_DIRECT continues at whole blocks only
    if error == 0:
        error = file_ops.sync(fd)
    free(zeros)
    return error


cdef WalSegment *segment_open(Wal *wal, int32_t number, bint make, int *error) noexcept nogil:
    cdef char[FILE_PATH_BYTES] path
    cdef int64_t size_bytes = 0
    cdef WalSegment *segment = <WalSegment *>malloc(sizeof(WalSegment))
    error[0] = -ENOMEM
    if segment == NULL:
        return NULL
    memset(segment, 0, sizeof(WalSegment))
    segment.number = number
    snprintf(path, sizeof(path), b"%s/bowstring.wal.%d", wal.directory, <int>number)
    segment.fd = open_direct(wal, path, O_RDWR | O_CREAT if make else O_RDWR)
    error[0] = segment.fd if segment.fd < 0 else file_ops.stat(segment.fd, &size_bytes, NULL)
    if error[0] == 0 and size_bytes != wal.segment_bytes:
        error[0] = file_ops.truncate(segment.fd, wal.segment_bytes) if size_bytes > wal.segment_bytes else 0
        if error[0] == 0:
            error[0] = file_ops.reserve(segment.fd, 0, wal.segment_bytes)
            if not is_full(error[0]):                    # some file systems cannot reserve
                error[0] = write_through(wal, segment.fd)
        if error[0] == 0:
            error[0] = sync_path(wal.directory)          # else a power loss could remove the name, and the frames with it
    if error[0] != 0:
        if segment.fd >= 0:
            file_ops.close(segment.fd)
            if make:
                file_ops.unlink(path)                    # a partial segment is useless and occupies space
        free(segment)
        return NULL
    return segment


cdef void segment_close(WalSegment *segment) noexcept nogil:
    file_ops.close(segment.fd)
    free(segment)


cdef int segment_drop(const Wal *wal, WalSegment *segment) noexcept nogil:
    cdef char[FILE_PATH_BYTES] path
    snprintf(path, sizeof(path), b"%s/bowstring.wal.%d", wal.directory, <int>segment.number)
    segment_close(segment)
    return file_ops.unlink(path)

# ---------------------------------------------------------------- frames


cdef int write_trailer(int fd, int64_t size_bytes, uint64_t run, int64_t checkpoint) noexcept nogil:
    cdef void *block = NULL
    cdef WalFrameHeader *header
    cdef int error
    if posix_memalign(&block, WAL_BLOCK, WAL_BLOCK) != 0:
        return -ENOMEM
    memset(block, 0, WAL_BLOCK)
    header = <WalFrameHeader *>block
    header.magic = WAL_TRAILER_MAGIC
    header.frame_bytes = WAL_BLOCK
    header.run = run
    header.checkpoint = checkpoint
    header.crc = crc32c_update(0, <uint8_t *>block + 8, <int64_t>sizeof(WalFrameHeader) - 8)
    error = write_durably(fd, <uint8_t *>block, WAL_BLOCK, size_bytes - WAL_BLOCK)
    free(block)
    return error


cdef int write_durably(int fd, uint8_t *data, int64_t size_bytes, int64_t position) noexcept nogil:
    """Writes the rest of a frame with plain durable writes. After a short write, partial blocks are written again."""
    cdef int64_t done = 0
    cdef int64_t n
    cdef int fruitless = 0
    while done < size_bytes:
        n = file_ops.write_durable(fd, data + done, size_bytes - done, position + done)
        if n < 0:
            return <int>n
        fruitless = 0 if n >= WAL_BLOCK else fruitless + 1
        if fruitless == FRUITLESS_MAX:
            return -EIO
        done += n
        if done < size_bytes:
            done -= done % WAL_BLOCK
    return 0


cdef bint device_complete(const WalGroup *group) noexcept nogil:
    cdef int32_t i
    for i in range(group.count):
        if group.done[i] < group.sizes[i]:
            return False
    return True


cdef int device_finish(WalGroup *group) noexcept nogil:
    cdef int32_t i
    cdef int64_t done
    cdef int error = group.error
    for i in range(group.count):
        if error == 0 and group.done[i] < group.sizes[i]:
            done = group.done[i] - group.done[i] % WAL_BLOCK
            error = write_durably(group.fds[i], group.frames[i].data + done, group.sizes[i] - done,
                                  group.positions[i] + done)
    return error


cdef int device_write(WalDevice *device, WalGroup *group) noexcept nogil:
    cdef uint8_t *data[WAL_DEPTH]
    cdef int32_t i
    group.error = 0
    for i in range(group.count):
        group.done[i] = 0
        data[i] = group.frames[i].data
    # One frame alone goes by pwrite: this thread then waits for write and flush itself, with its short slice. With
    # io_uring a kernel worker does, and on a busy machine that has to wait for its turn twice.
    if device.ring != NULL and group.count > 1:
        group.error = ring_write(<Ring *>device.ring, group.count, group.fds, data, group.sizes, group.positions,
                                 group.done)
    return device_finish(group)
