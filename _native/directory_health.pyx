"""The health of one directory of log.dirs, see directory_health.pxd."""
from libc.errno cimport (
    EACCES, EBADMSG, EFBIG, EISDIR, EMFILE, ENAMETOOLONG, ENFILE, ENOENT, ENOMEM, EOPNOTSUPP, EPERM)
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memset, strerror
from posix.unistd cimport write
from bowstring._native.atomics cimport add_i32, add_i64, load_i32, load_i64, store_i32, store_i64

cdef enum:
    CLAIMED = 0x10000            # in `failed` while the first to fail writes down why


cdef bint is_of_directory(int error) noexcept nogil:
    return error < 0 and -error not in (
        EACCES, EBADMSG, EFBIG, EISDIR, EMFILE, ENAMETOOLONG, ENFILE, ENOENT, ENOMEM, EOPNOTSUPP, EPERM)


cdef void tell(LogDirectory *directory) noexcept nogil:
    cdef uint64_t one = 1
    if directory.event_fd >= 0:
        write(directory.event_fd, &one, 8)               # full or gone: whoever listens looks anyway


cdef void directory_fail(LogDirectory *directory, int error, const char *doing, const char *where) noexcept nogil:
    if load_i32(&directory.failed) or add_i32(&directory.failed, CLAIMED) != CLAIMED:
        return                                           # non-zero counts as failed from the first moment on
    directory.error = -error
    snprintf(directory.doing, sizeof(directory.doing), b"%s", doing)
    snprintf(directory.where, sizeof(directory.where), b"%s", where)
    store_i32(&directory.failed, 1)
    tell(directory)


cdef void directory_took(LogDirectory *directory, int64_t ns) noexcept nogil:
    if directory == NULL or directory.slow_ns == 0 or ns <= directory.slow_ns:
        return
    add_i64(&directory.slow_operations, 1)
    if ns > load_i64(&directory.slowest_ns):
        store_i64(&directory.slowest_ns, ns)             # two at once: one of them is kept, which is near enough
    tell(directory)


cdef class DirectoryHealth:
    """Whether a log directory takes writes, shared by every PartitionLog made with it.

    Args:
        path: The directory, for messages.
        event_fd: An eventfd that becomes readable when the directory fails or is slow; -1 for none.
        slow_ms: A write or sync that takes longer is counted as slow; 0 counts none.
    """

    def __cinit__(self, str path not None, *, int event_fd=-1, int64_t slow_ms=0):
        memset(&self.directory, 0, sizeof(LogDirectory))
        self.path = path
        self.directory.event_fd = event_fd
        self.directory.slow_ns = slow_ms * 1000000

    @property
    def failed(self):
        """Whether an I/O error has taken the directory out of service."""
        return load_i32(&self.directory.failed) != 0

    @property
    def failure(self):
        """(errno, what was being done, where) of the first I/O error; None while there was none."""
        if load_i32(&self.directory.failed) != 1:
            return None
        return (self.directory.error, (<bytes>self.directory.doing).decode("utf-8", "replace"),
                (<bytes>self.directory.where).decode("utf-8", "replace"))

    def fail(self, int error, str doing not None, str where not None):
        """Takes the directory out of service: `error` is an errno, `doing` and `where` are for people."""
        cdef bytes what = doing.encode()
        cdef bytes place = where.encode("utf-8", "surrogateescape")
        directory_fail(&self.directory, -error, what, place)

    @property
    def slow_operations(self):
        """Writes and syncs so far that took longer than slow_ms."""
        return load_i64(&self.directory.slow_operations)

    def take_slowest_ms(self):
        """Milliseconds that the slowest of them took since this was last asked; 0 when there was none."""
        cdef int64_t ns = load_i64(&self.directory.slowest_ns)
        store_i64(&self.directory.slowest_ns, 0)
        return ns / 1e6

    def set_slow_ms(self, int64_t slow_ms):
        """Another bound from now on."""
        store_i64(&self.directory.slow_ns, slow_ms * 1000000)

    def stop_telling(self):
        """The eventfd is about to be closed."""
        self.directory.event_fd = -1


def is_device_error(int error):
    """Whether an errno speaks of the whole directory: not of memory, descriptors or a single file."""
    return is_of_directory(-error)
