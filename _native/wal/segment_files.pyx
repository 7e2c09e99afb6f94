"""Segments and devices of the write-ahead log, see segment_files.pxd.

io_uring is reached through the PyPI package liburing, whose extension exports liburing's C functions: its file is
loaded with dlopen, which costs a start less than importing the package would.

Contents: devices (io_uring) · segments · frames (trailers, device_write).
"""
from libc.errno cimport EINVAL, EIO, ENOMEM
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from posix.fcntl cimport O_CREAT, O_RDWR
from posix.stdlib cimport posix_memalign
from bowstring._native.base.crc cimport crc32c_update
from bowstring._native.disk.file_ops cimport FILE_PATH_BYTES, file_ops, iovec, is_full, sync_path
from bowstring._native.wal.types cimport WAL_BLOCK, WAL_DEPTH, WAL_TRAILER_MAGIC, WalFrameHeader

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <dlfcn.h>
    #include <errno.h>
    #include <fcntl.h>
    #include <stdint.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/uio.h>
    #include <linux/io_uring.h>
    #ifndef RWF_DSYNC
    #define RWF_DSYNC 2
    #endif

    typedef struct {
        void *library;
        int (*submit_and_wait)(void *ring, unsigned n);
        struct io_uring_sqe *(*get_sqe)(void *ring);
        int (*wait_cqe)(void *ring, struct io_uring_cqe **cqe);
        void (*cqe_seen)(void *ring, struct io_uring_cqe *cqe);
        void (*queue_exit)(void *ring);
        /* liburing's struct io_uring has 216 bytes in 2.x; the spare room is for later versions. */
        uint64_t ring[128];
    } Ring;

    static Ring *ring_open(const char *path, unsigned depth, const char **why) {
        Ring *r = (Ring *)calloc(1, sizeof(Ring));
        int (*init)(unsigned, void *, unsigned);
        int error;
        if (r == NULL) { *why = "no memory"; return NULL; }
        r->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (r->library == NULL) { *why = "the package liburing cannot be loaded"; free(r); return NULL; }
        init = (int (*)(unsigned, void *, unsigned))dlsym(r->library, "io_uring_queue_init");
        r->submit_and_wait = (int (*)(void *, unsigned))dlsym(r->library, "io_uring_submit_and_wait");
        r->get_sqe = (struct io_uring_sqe *(*)(void *))dlsym(r->library, "io_uring_get_sqe");
        r->wait_cqe = (int (*)(void *, struct io_uring_cqe **))dlsym(r->library, "io_uring_wait_cqe");
        r->cqe_seen = (void (*)(void *, struct io_uring_cqe *))dlsym(r->library, "io_uring_cqe_seen");
        r->queue_exit = (void (*)(void *))dlsym(r->library, "io_uring_queue_exit");
        if (!init || !r->submit_and_wait || !r->get_sqe || !r->wait_cqe || !r->cqe_seen || !r->queue_exit) {
            *why = "the package liburing is too old: it lacks a function";
            dlclose(r->library);
            free(r);
            return NULL;
        }
        error = init(depth, r->ring, 0);
        if (error != 0) {
            *why = error == -EPERM || error == -ENOSYS ? "the kernel does not allow io_uring here" : strerror(-error);
            dlclose(r->library);
            free(r);
            return NULL;
        }
        return r;
    }
    static void ring_close(Ring *r) {
        r->queue_exit(r->ring);
        dlclose(r->library);
        free(r);
    }
    /* Submits all writes and waits for all. done[] gets the bytes that each wrote, so short writes can be finished. */
    static int ring_write(Ring *r, int n, const int *fds, uint8_t *const *data, const int64_t *sizes,
                          const int64_t *positions, int64_t *done) {
        struct io_uring_cqe *cqe;
        int i, error = 0, result;
        for (i = 0; i < n; i++) {
            struct io_uring_sqe *sqe = r->get_sqe(r->ring);
            if (sqe == NULL)
                return -EIO;
            memset(sqe, 0, sizeof(*sqe));
            sqe->opcode = IORING_OP_WRITE;
            sqe->fd = fds[i];
            sqe->addr = (uint64_t)(uintptr_t)data[i];
            sqe->len = (uint32_t)sizes[i];
            sqe->off = (uint64_t)positions[i];
            sqe->rw_flags = RWF_DSYNC;
            sqe->user_data = (uint64_t)i;
        }
        do
            result = r->submit_and_wait(r->ring, (unsigned)n);
        while (result == -EINTR);
        if (result < 0)
            return result;
        for (i = 0; i < n; i++) {
            do
                result = r->wait_cqe(r->ring, &cqe);
            while (result == -EINTR);
            if (result < 0)
                return result;
            if (cqe->res == -EINTR || cqe->res == -EAGAIN)
                ;                       /* not written: the caller writes it with pwrite */
            else if (cqe->res < 0)
                error = cqe->res;
            else
                done[cqe->user_data] = cqe->res;
            r->cqe_seen(r->ring, cqe);
        }
        return error;
    }
    """
    ctypedef struct Ring:
        pass
    Ring *ring_open(const char *path, unsigned depth, const char **why) nogil
    void ring_close(Ring *ring) nogil
    int ring_write(Ring *ring, int n, const int *fds, uint8_t **data, const int64_t *sizes, const int64_t *positions,
                   int64_t *done) nogil
    int O_DIRECT

cdef enum:
    PREPARE_BYTES = 1 << 20
    FRUITLESS_MAX = 4               # consecutive writes without progress of a block


cdef bint device_open_ring(WalDevice *device, const char *liburing_path, const char **why) noexcept nogil:
    device.ring = ring_open(liburing_path, WAL_DEPTH, why)
    return device.ring != NULL


cdef void device_close(WalDevice *device) noexcept nogil:
    if device.ring != NULL:
        ring_close(<Ring *>device.ring)
        device.ring = NULL

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


cdef int device_write(WalDevice *device, int32_t n, const int *fds, WalBuffer **frames, const int64_t *sizes,
                      const int64_t *positions) noexcept nogil:
    cdef int64_t[WAL_DEPTH] done
    cdef uint8_t *data[WAL_DEPTH]
    cdef int32_t i
    cdef int error = 0
    for i in range(n):
        done[i] = 0
        data[i] = frames[i].data
    if device.ring != NULL:
        error = ring_write(<Ring *>device.ring, n, fds, data, sizes, positions, done)
    for i in range(n):
        if error == 0 and done[i] < sizes[i]:
            done[i] -= done[i] % WAL_BLOCK
            error = write_durably(fds[i], frames[i].data + done[i], sizes[i] - done[i], positions[i] + done[i])
    return error
