"""The health of one directory of log.dirs, see directory_health.pxd."""
import os

from cython cimport no_gc_clear
from libc.errno cimport EACCES, EBADMSG, EFBIG, EISDIR, EMFILE, ENAMETOOLONG, ENFILE, ENOENT, ENOMEM, EOPNOTSUPP, EPERM
from libc.stdint cimport int64_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memset
from posix.unistd cimport write
from bowstring._native.base.atomics cimport add_i32, add_i64, load_i32, load_i64, store_i32, store_i64
from bowstring._native.disk.file_ops cimport file_ops
from bowstring._native.disk.tail_pool cimport TailMemory
from bowstring._native.disk.thread_pool cimport storage_init, storage_stop

cdef enum:
    CLAIMED = 0x10000            # in `failed` while the first to fail writes down why


cdef bint is_of_directory(int error) noexcept nogil:
    return error < 0 and -error not in (
        EACCES, EBADMSG, EFBIG, EISDIR, EMFILE, ENAMETOOLONG, ENFILE, ENOENT, ENOMEM, EOPNOTSUPP, EPERM)


cdef void directory_tell(LogDirectory *directory) noexcept nogil:
    cdef uint64_t one = 1
    if directory.event_fd >= 0:
        write(directory.event_fd, &one, 8)               # full or closed: the listener looks anyway


cdef void directory_fail(LogDirectory *directory, int error, const char *doing, const char *where) noexcept nogil:
    if load_i32(&directory.failed) or add_i32(&directory.failed, CLAIMED) != CLAIMED:
        return                                           # any non-zero value counts as failed
    directory.error = -error
    snprintf(directory.doing, sizeof(directory.doing), b"%s", doing)
    snprintf(directory.where, sizeof(directory.where), b"%s", where)
    store_i32(&directory.failed, 1)
    directory_tell(directory)


cdef void directory_took(LogDirectory *directory, int64_t ns) noexcept nogil:
    if directory == NULL or directory.slow_ns == 0 or ns <= directory.slow_ns:
        return
    add_i64(&directory.slow_operations, 1)
    if ns > load_i64(&directory.slowest_ns):
        store_i64(&directory.slowest_ns, ns)             # of two concurrent stores either may win: near enough
    directory_tell(directory)


@no_gc_clear
cdef class DirectoryHealth:
    """The health of a log directory, shared by all its PartitionLogs.

    Args:
        path: The directory, for messages.
        event_fd: An eventfd that becomes readable when the directory fails or is slow; -1 for none.
        slow_ms: Longer writes and syncs count as slow; 0 counts none.
    """

    def __cinit__(self, str path not None, *, int event_fd=-1, int64_t slow_ms=0):
        memset(&self.directory, 0, sizeof(LogDirectory))
        self.path = path
        self.directory.event_fd = event_fd
        self.directory.slow_ns = slow_ms * 1000000

    def __dealloc__(self):
        if self.directory.behind != NULL:
            storage_stop(&self.behind)

    @property
    def failed(self):
        """Whether an I/O error took the directory out of service."""
        return load_i32(&self.directory.failed) != 0

    @property
    def failure(self):
        """(errno, operation, path) of the first I/O error; None if there was none."""
        if load_i32(&self.directory.failed) != 1:
            return None
        return (self.directory.error, (<bytes>self.directory.doing).decode("utf-8", "replace"),
                (<bytes>self.directory.where).decode("utf-8", "replace"))

    def fail(self, int error, str doing not None, str where not None):
        """Takes the directory out of service. `error` is an errno; `doing` (the operation) and `where` (a path) are for the
        broker's log."""
        cdef bytes what = doing.encode()
        cdef bytes place = where.encode("utf-8", "surrogateescape")
        directory_fail(&self.directory, -error, what, place)

    def stage_tails(self, TailMemory tails, TailMemory wal_tails):
        """Has the directory's logs stage their tails in `tails` in os mode, in `wal_tails` in commit mode; None: not at all.
        Call it before the logs are opened."""
        self.tails = tails
        self.wal_tails = wal_tails
        self.directory.tails = NULL if tails is None else tails.pool
        self.directory.wal_tails = NULL if wal_tails is None else wal_tails.pool

    def write_behind(self, *, bint all_logs):
        """Has the directory's logs write back what is appended, and give up its page cache, until end_writing_behind(): what
        followers append, or with `all_logs` everything. Call it before the logs are opened."""
        if self.directory.behind == NULL:
            self.directory.behind_all = all_logs
            storage_init(&self.behind)
            self.directory.behind = &self.behind

    def end_writing_behind(self):
        """Waits for what runs, and ends the threads. Call it when the logs are closed."""
        if self.directory.behind != NULL:
            with nogil:
                storage_stop(&self.behind)
            self.directory.behind = NULL

    @property
    def slow_operations(self):
        """Number of writes and syncs so far that took longer than slow_ms."""
        return load_i64(&self.directory.slow_operations)

    def take_slowest_ms(self):
        """Returns the duration in ms of the slowest slow operation since the last call; 0 if there was none."""
        cdef int64_t ns = load_i64(&self.directory.slowest_ns)
        store_i64(&self.directory.slowest_ns, 0)
        return ns / 1e6

    def stop_telling(self):
        """Stops using the eventfd, which is about to be closed."""
        self.directory.event_fd = -1


def is_device_error(int error):
    """Returns whether an errno concerns the whole directory, not memory, descriptors or a single file."""
    return is_of_directory(-error)


def sync_file_system(path not None):
    """Makes everything written to the file system of ``path`` durable, with one call (syncfs). The GIL is released.

    Raises:
        OSError: The kernel could not write some data, perhaps of another program.
    """
    cdef bytes name = os.fsencode(path)
    cdef const char *c_name = name
    cdef int error
    with nogil:
        error = file_ops.sync_file_system(c_name)
    if error != 0:
        raise OSError(-error, os.strerror(-error), str(path))
