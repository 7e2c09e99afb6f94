"""Memory for staged tails, see tail_pool.pxd.

The pool is a row of slabs. A slab holds chunks of one size while any of them is taken.

The mapped file: a page that says of which boot it is, one header for each unit, the units. Only a process of the same
boot can use what it has: after a power cut or a crash of the system, nothing shows how much of it reached the disk.

Contents: the pool's file · chunks · TailMemory · restore().
"""
import contextlib
import errno
import fcntl
import os
import struct

from libc.errno cimport EIO, ENOENT, ENOMEM
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset, strlen, strrchr
from posix.fcntl cimport O_RDWR
from posix.mman cimport (
    MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, MAP_SHARED, PROT_READ, PROT_WRITE, mmap, munmap)
from posix.stat cimport fstat, struct_stat
from bowstring._native.base.atomics cimport add_i32, store_i32, store_i64
from bowstring._native.base.crc cimport crc32c_update
from bowstring._native.base.pthread cimport (
    pthread_cond_destroy, pthread_cond_init, pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock,
    pthread_mutex_unlock)
from bowstring._native.disk.file_ops cimport FILE_PATH_BYTES, file_ops, read_range, write_range

cdef enum:
    BOOT_PAGE_BYTES = 4096
    HEADER_BYTES = 512
    HEADERS_OF_SLAB = SLAB_UNITS * HEADER_BYTES
    MAGIC = 0x4C494154              # "TAIL"
    BOOT_BYTES = 64
    COMPARED_BYTES = 8192           # at once
    FROM_BYTES = 1 << 20
    REST_MS = 100

cdef extern from *:
    """
    #include <fcntl.h>
    """
    int posix_fallocate(int fd, int64_t position, int64_t size_bytes) nogil

cdef extern from "<linux/fs.h>":
    unsigned long FS_IOC_GETFLAGS, FS_IOC_SETFLAGS
    long FS_NOCOW_FL

# ---------------------------------------------------------------- the pool's file


cdef int64_t file_bytes(int64_t slabs) noexcept nogil:
    return BOOT_PAGE_BYTES + slabs * (HEADERS_OF_SLAB + SLAB_BYTES)


cdef uint32_t header_crc(const ChunkHeader *header) noexcept nogil:
    cdef const uint8_t *fields = <const uint8_t *>&header.inode
    return crc32c_update(0, fields, sizeof(ChunkHeader) - (fields - <const uint8_t *>header))


# Tests replace it.
_boot_file = "/proc/sys/kernel/random/boot_id"


cdef bytes this_boot():
    """Returns what identifies the time since the system started; empty if the system does not report it."""
    try:
        with open(_boot_file, "rb") as file:
            return file.read().strip()[:BOOT_BYTES - 1]
    except OSError:
        return b""

# ---------------------------------------------------------------- chunks


cdef int32_t chunks_of(int32_t size) noexcept nogil:
    return SLAB_UNITS >> (2 * size)


cdef int32_t find_free(TailPool *pool, int32_t size) noexcept nogil:
    """Returns a slab with a free chunk of this size, else one that is free; -1 when there is none."""
    cdef uint32_t all_taken = (1 << chunks_of(size)) - 1
    cdef int32_t i, empty = -1
    for i in range(pool.slab_count):
        if pool.slabs[i].size == size and pool.slabs[i].taken != all_taken:
            return i
        if empty < 0 and pool.slabs[i].size < 0:
            empty = i
    return empty


cdef TailChunk *chunk_take(TailPool *pool, int32_t size) noexcept nogil:
    cdef TailChunk *chunk = NULL
    cdef int32_t slab = -1, bit = 0, unit
    pthread_mutex_lock(&pool.lock)
    while size >= 0 and not pool.closed:
        slab = find_free(pool, size)
        if slab >= 0:
            break
        size -= 1
    if slab >= 0:
        pool.slabs[slab].size = size
        while pool.slabs[slab].taken & (1 << bit):
            bit += 1
        pool.slabs[slab].taken |= 1 << bit
        unit = slab * SLAB_UNITS + bit * (1 << (2 * size))
        chunk = &pool.chunks[unit]
        chunk.capacity = UNIT_BYTES << (2 * size)
        store_i32(&chunk.refs, 1)
    pthread_mutex_unlock(&pool.lock)
    return chunk


cdef void chunk_hold(TailChunk *chunk) noexcept nogil:
    add_i32(&chunk.refs, 1)


cdef void chunk_release(TailChunk *chunk) noexcept nogil:
    cdef TailPool *pool = chunk.pool
    cdef int32_t unit, slab
    if add_i32(&chunk.refs, -1) != 0:
        return
    pthread_mutex_lock(&pool.lock)
    unit = <int32_t>(chunk - pool.chunks)
    slab = unit // SLAB_UNITS
    pool.slabs[slab].taken &= ~(1 << (unit % SLAB_UNITS >> (2 * pool.slabs[slab].size)))
    if pool.slabs[slab].taken == 0:
        pool.slabs[slab].size = -1
    pthread_mutex_unlock(&pool.lock)


cdef void real_name(TailChunk *chunk, int64_t inode, int64_t position, int64_t base_offset,
                    const char *directory) noexcept nogil:
    cdef const char *slash = strrchr(directory, b'/')
    cdef const char *name = slash + 1 if slash != NULL else directory
    cdef size_t n = strlen(name)
    if chunk.header == NULL:
        return
    store_i64(&chunk.header.length, 0)
    memset(chunk.header.name, 0, NAME_BYTES)
    memcpy(chunk.header.name, name, n if n < NAME_BYTES else NAME_BYTES - 1)
    chunk.header.magic = MAGIC
    chunk.header.inode = inode
    chunk.header.position = position
    chunk.header.base_offset = base_offset
    chunk.header.crc = header_crc(chunk.header)


cdef void real_publish(TailChunk *chunk, int64_t length) noexcept nogil:
    if chunk.header != NULL:
        store_i64(&chunk.header.length, length)          # a release store: the bytes are there before it


chunk_ops.name = real_name
chunk_ops.publish = real_publish

# ---------------------------------------------------------------- TailMemory


cdef class TailMemory:
    """A pool of chunks for the staged tails of the logs in one log directory.

    Args:
        size_bytes: Of all chunks, at least 256 KiB; rounded down to whole slabs.
        path: The file to map, which is made or recycled; None for plain memory. restore() comes first: what the file
            has is gone afterwards.
        from_bytes: Files that are smaller have no tail: for a few batches it would only delay them.
        rest_ms: A partition without appends for so long is slow: its next batch goes to the file, and costs no chunk.

    Raises:
        OSError: The file cannot be made, memory is short, or the boot cannot be identified: then a killed
            process would leave bytes that restore() cannot trust.
        ValueError: `size_bytes` is too small.
    """

    def __cinit__(self, int64_t size_bytes, path=None, *, int64_t from_bytes=FROM_BYTES, int64_t rest_ms=REST_MS):
        cdef int64_t slabs = size_bytes // SLAB_BYTES
        cdef int32_t i
        self.pool = <TailPool *>calloc(1, sizeof(TailPool))
        if self.pool == NULL:
            raise MemoryError("no memory for a pool of staged tails")
        pthread_mutex_init(&self.pool.lock, NULL)
        pthread_cond_init(&self.pool.changed, NULL)
        if slabs < 1:
            raise ValueError(f"a pool of {size_bytes} bytes is too small; it needs {SLAB_BYTES} at least")
        self.pool.from_bytes = from_bytes
        self.pool.rest_ns = rest_ms * 1000000
        self.path = None if path is None else str(path)
        self.pool.slabs = <Slab *>calloc(slabs, sizeof(Slab))
        self.pool.chunks = <TailChunk *>calloc(slabs * SLAB_UNITS, sizeof(TailChunk))
        if self.pool.slabs == NULL or self.pool.chunks == NULL:
            raise MemoryError("no memory for a pool of staged tails")
        self._map(slabs)
        self.pool.slab_count = <int32_t>slabs
        for i in range(slabs):
            self.pool.slabs[i].size = -1
        for i in range(slabs * SLAB_UNITS):
            self.pool.chunks[i].pool = self.pool
            self.pool.chunks[i].data = self.pool.memory + <int64_t>i * UNIT_BYTES
            if self.pool.headers != NULL:
                self.pool.chunks[i].header = <ChunkHeader *>(self.pool.headers + <int64_t>i * HEADER_BYTES)
                store_i64(&self.pool.chunks[i].header.length, 0)

    def _map(self, int64_t slabs):
        cdef bytes boot = b""
        cdef void *memory
        cdef int64_t size_bytes = slabs * SLAB_BYTES
        cdef int fd
        if self.path is None:
            memory = mmap(NULL, <size_t>size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
            if memory == MAP_FAILED:
                raise MemoryError("no memory for a pool of staged tails")
            self.pool.memory = <uint8_t *>memory
            self.pool.mapped_bytes = size_bytes
            return
        boot = this_boot()
        if not boot:                                     # restore() would not trust the file
            raise OSError(errno.ENOTSUP, "the system does not tell its boot: /proc/sys/kernel/random/boot_id", self.path)
        size_bytes = file_bytes(slabs)
        fd = open_sized(self.path, size_bytes)
        memory = mmap(NULL, <size_t>size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
        os.close(fd)
        if memory == MAP_FAILED:
            raise OSError(ENOMEM, os.strerror(ENOMEM), self.path)
        self.pool.memory = <uint8_t *>memory + BOOT_PAGE_BYTES + slabs * HEADERS_OF_SLAB
        self.pool.headers = <uint8_t *>memory + BOOT_PAGE_BYTES
        self.pool.mapped_bytes = size_bytes
        memset(self.pool.headers, 0, slabs * HEADERS_OF_SLAB)
        memset(memory, 0, BOOT_PAGE_BYTES)
        memcpy(memory, <const char *>boot, len(boot))

    def __dealloc__(self):
        cdef uint8_t *mapped
        if self.pool == NULL or self.taken() > 0:
            return
        mapped = self.pool.memory
        if mapped != NULL:
            if self.pool.headers != NULL:
                mapped = self.pool.headers - BOOT_PAGE_BYTES
            munmap(mapped, <size_t>self.pool.mapped_bytes)
        free(self.pool.slabs)
        free(self.pool.chunks)
        pthread_cond_destroy(&self.pool.changed)
        pthread_mutex_destroy(&self.pool.lock)
        free(self.pool)

    cdef int64_t taken(self) noexcept:
        cdef int64_t taken = 0
        cdef int32_t i, bit
        pthread_mutex_lock(&self.pool.lock)
        for i in range(self.pool.slab_count):
            for bit in range(SLAB_UNITS):
                if self.pool.slabs[i].taken & (1 << bit):
                    taken += UNIT_BYTES << (2 * self.pool.slabs[i].size)
        pthread_mutex_unlock(&self.pool.lock)
        return taken

    def close(self):
        """Gives out no more chunks: appends go to their files from now on."""
        pthread_mutex_lock(&self.pool.lock)
        self.pool.closed = True
        pthread_mutex_unlock(&self.pool.lock)

    @property
    def taken_bytes(self):
        """Bytes of the chunks that are taken."""
        return self.taken()


cdef void keep_in_place(int fd):
    """Has btrfs write the empty file's blocks in place: a copy on write to a mapping on a full disk ends the process."""
    with contextlib.suppress(OSError):                   # other file systems refuse the flag, and need none
        flags, = struct.unpack("l", fcntl.ioctl(fd, FS_IOC_GETFLAGS, bytes(sizeof(long))))
        fcntl.ioctl(fd, FS_IOC_SETFLAGS, struct.pack("l", flags | FS_NOCOW_FL))


cdef int open_sized(str path, int64_t size_bytes) except -1:
    """Opens the pool's file with this size; all its blocks are there, so that no write to the mapping can fail."""
    cdef int fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    cdef int error = 0
    try:
        if os.fstat(fd).st_size != size_bytes:
            os.ftruncate(fd, 0)
            keep_in_place(fd)
        error = posix_fallocate(fd, 0, size_bytes)       # also in a file of this size: a copy of it may have holes
        if error != 0:
            raise OSError(error, os.strerror(error), path)
    except BaseException:
        os.close(fd)
        raise
    return fd

# ---------------------------------------------------------------- after kill -9


cdef int same_bytes(int fd, const uint8_t *data, int64_t size_bytes, int64_t position) noexcept nogil:
    """Whether the file has these bytes there: 1, 0, or a negated errno."""
    cdef uint8_t[COMPARED_BYTES] piece
    cdef int64_t done = 0, n
    while done < size_bytes:
        n = size_bytes - done if size_bytes - done < <int64_t>sizeof(piece) else <int64_t>sizeof(piece)
        n = read_range(fd, piece, n, position + done)
        if n < 0:
            return <int>n
        if n == 0 or memcmp(piece, data + done, <size_t>n) != 0:
            return 0
        done += n
    return 1


cdef int restore_chunk(const char *directory, const ChunkHeader *header, const uint8_t *data) noexcept nogil:
    """Writes the chunk's bytes to its .log. Returns 1, 0 when that is gone or has other bytes, or a negated errno."""
    cdef char[FILE_PATH_BYTES + NAME_BYTES] path
    cdef struct_stat found
    cdef int64_t there
    cdef int error = 0
    cdef int fd
    snprintf(path, sizeof(path), b"%s/%s/%020lld.log", directory, header.name, <long long>header.base_offset)
    fd = file_ops.open(path, O_RDWR)
    if fd < 0:
        return 0 if fd == -ENOENT else fd                # the topic or the segment was deleted
    if fstat(fd, &found) != 0:
        error = -EIO
    elif found.st_ino == <unsigned long>header.inode and found.st_size >= header.position:
        # Other bytes there: a broker without staged tails, or Kafka, has appended since.
        there = found.st_size - header.position
        error = same_bytes(fd, data, there if there < header.length else header.length, header.position)
        if error > 0:
            error = write_range(fd, data, header.length, header.position)
            error = 1 if error == 0 else error
    file_ops.close(fd)
    return error


def restore(path not None, directory not None):
    """Appends to the .log files of a log directory what a killed process had acknowledged and not written yet.

    Call it before the logs of the directory are opened, and before TailMemory recycles the file. The logs check the
    batches' CRCs when they are opened, as after any unclean stop.

    Args:
        path: The pool's file; a missing one, or one of an earlier boot, holds nothing to restore.
        directory: The log directory.

    Returns:
        The number of chunks written.

    Raises:
        OSError: A .log cannot be written. The pool's file is as it was: the next start tries again.
    """
    cdef bytes root = os.fsencode(directory)
    cdef const char *c_root = root
    cdef bytes boot = this_boot()
    cdef const uint8_t[::1] headers
    cdef const uint8_t[::1] data
    cdef const ChunkHeader *header
    cdef int64_t slabs, i
    cdef int32_t restored = 0
    cdef int found
    if not os.path.exists(path):
        return 0
    with open(path, "rb") as file:
        slabs = (os.fstat(file.fileno()).st_size - BOOT_PAGE_BYTES) // (HEADERS_OF_SLAB + SLAB_BYTES)
        page = file.read(BOOT_PAGE_BYTES)
        if slabs < 1 or not boot or page[:BOOT_BYTES].rstrip(b"\0") != boot:
            return 0
        content = file.read(slabs * HEADERS_OF_SLAB)
        if len(content) != slabs * HEADERS_OF_SLAB:
            return 0
        headers = content
        for i in range(slabs * SLAB_UNITS):
            header = <const ChunkHeader *><const void *>&headers[i * HEADER_BYTES]
            if (header.magic != MAGIC or header.crc != header_crc(header) or header.length <= 0
                    or header.length > min(SLAB_BYTES, (slabs * SLAB_UNITS - i) * UNIT_BYTES)):
                continue
            data = os.pread(file.fileno(), header.length, BOOT_PAGE_BYTES + slabs * HEADERS_OF_SLAB + i * UNIT_BYTES)
            if data.shape[0] != header.length:
                continue
            with nogil:
                found = restore_chunk(c_root, header, &data[0])
            if found < 0:
                name = (<const char *>header.name).decode("utf-8", "replace")
                raise OSError(-found, os.strerror(-found), os.path.join(str(directory), name))
            restored += found
    return restored
