"""The write-ahead log's Python face; what it does is in wal_commit.pyx, its files in wal_files.pyx, putting back what
they hold after a crash in wal_replay.pyx."""
import os

from libc.stdint cimport int32_t, int64_t
from libc.string cimport strerror
from bowstring._native.atomics cimport full_fence, load_i32, load_i64, store_i32
from bowstring._native.wal_commit cimport commit_once, segment_push, wal_free, wal_new, wal_run
from bowstring._native.wal_files cimport device_open_ring, segment_open, write_trailer
from bowstring._native.wal_types cimport (
    WAL_BLOCK, WAL_CONTROL, WAL_FRAME_BYTES, WAL_SUPPLY, WAL_WAKES, WalSegment, pthread_cond_t, pthread_mutex_t, pthread_t)

cdef extern from "threads.h" nogil:
    int start_thread(pthread_t *thread, void *(*run)(void *) noexcept nogil, void *argument, const char *name)

cdef extern from *:
    """
    static int32_t take_flag(int32_t *p) { return __atomic_exchange_n(p, 0, __ATOMIC_ACQ_REL); }
    """
    int32_t take_flag(int32_t *p) nogil
    int pthread_join(pthread_t thread, void **result) nogil
    int pthread_mutex_lock(pthread_mutex_t *m) nogil
    int pthread_mutex_unlock(pthread_mutex_t *m) nogil
    int pthread_cond_signal(pthread_cond_t *c) nogil
    int pthread_cond_broadcast(pthread_cond_t *c) nogil


CONTROL = WAL_CONTROL
SUPPLY = WAL_SUPPLY


class WalError(OSError):
    """The write-ahead log could not be read or written; the message names the file."""


cdef class WriteAheadLog:
    """One log directory's write-ahead log.

    Made after :func:`bowstring._native.wal_replay.replay` and ``supersede`` have put back what an unclean end left in the files. Segments
    that are there are used again, in any order: what they hold counts no more.

    Args:
        path: The log directory.
        last_frame: The greatest frame number the directory has seen.
        segment_bytes: Size of a segment file.
        staged_max_bytes: Appends wait while more than this is on its way to the medium.
        io: "auto" takes io_uring where it is allowed, "io_uring" insists, "pwrite" writes with RWF_DSYNC.
        liburing: Path of liburing's extension module; None when it is not installed.

    Attributes:
        io: What is used: "io_uring" or "pwrite".
        io_reason: Why it is not io_uring; None when it is, or was not asked for.

    Raises:
        WalError: io_uring was insisted on and is refused.
    """

    def __cinit__(self, path, *, int64_t last_frame=0, int64_t segment_bytes=64 << 20,
                  int64_t staged_max_bytes=32 << 20, str io="auto", liburing=None):
        cdef bytes name = os.fsencode(path)
        cdef bytes library = os.fsencode(liburing) if liburing else b""
        cdef const char *why = b"the package liburing is not installed"
        if segment_bytes < 4 * WAL_FRAME_BYTES or segment_bytes % WAL_BLOCK != 0:
            raise ValueError(f"segment_bytes must be a multiple of {WAL_BLOCK} and at least {4 * WAL_FRAME_BYTES}")
        if io not in ("auto", "io_uring", "pwrite"):
            raise ValueError(f"io must be auto, io_uring or pwrite, not {io!r}")
        self.path = path
        self.wal = wal_new(name, segment_bytes, staged_max_bytes)
        if self.wal == NULL:
            raise MemoryError
        self.wal.run = int.from_bytes(os.urandom(8), "little")
        self.wal.last_frame = self.wal.staged_frame = last_frame
        self.wal.durable_frame = self.wal.checkpoint_frame = last_frame
        self.io, self.io_reason = "pwrite", None
        if io != "pwrite":
            if library and device_open_ring(&self.wal.device, library, &why):
                self.io = "io_uring"
            else:
                self.io_reason = (<bytes>why).decode()
                if io == "io_uring":
                    raise WalError(f"io_uring is not to be had: {self.io_reason}")

    def __dealloc__(self):
        if self.wal != NULL:
            self.stop()
            wal_free(self.wal)

    def start(self):
        """Starts the thread that commits."""
        if start_thread(&self.wal.thread, wal_run, self.wal, b"wal") != 0:
            raise WalError("cannot start the thread of the write-ahead log; is the limit on threads reached?")
        self.wal.started = True

    def stop(self):
        """Ends the thread once everything staged is on the medium (or no segment is left for it)."""
        pthread_mutex_lock(&self.wal.lock)
        self.wal.stopping = True
        pthread_cond_broadcast(&self.wal.work)
        pthread_cond_broadcast(&self.wal.room)
        pthread_mutex_unlock(&self.wal.lock)
        if self.wal.started:
            with nogil:
                pthread_join(self.wal.thread, NULL)
            self.wal.started = False

    def mark_clean(self):
        """After :meth:`stop`, with everything in synced partition files: nothing in here is replayed any more."""
        cdef int error = 0
        if self.wal.current != NULL:
            error = write_trailer(self.wal.current.fd, self.wal.segment_bytes, self.wal.run, self.wal.last_frame)
        if error < 0:
            raise WalError(-error, f"the write-ahead log in {self.path} could not be marked clean")

    def commit(self):
        """One group commit on the calling thread, for a log whose own is not started: whether there was one.

        Raises:
            WalError: It could not be written; the log has failed.
        """
        cdef int done
        with nogil:
            done = commit_once(self.wal, False)
        if done < 0:
            raise WalError(-done, f"the write-ahead log in {self.path} cannot be written: "
                                  f"{(<bytes>strerror(-done)).decode()}")
        return done == 1

    # ------------------------------------------------------------ segments

    def add_segment(self, int32_t number, *, bint make=True):
        """Opens segment file ``number``, or makes it (writing it through once, which takes a moment).

        Raises:
            WalError: It cannot be made; the message says why.
        """
        cdef WalSegment *segment
        cdef int error = 0
        with nogil:
            segment = segment_open(self.wal, number, make, &error)
        if segment == NULL:
            raise WalError(-error, f"{self.path}/bowstring.wal.{number} cannot be "
                                   f"{'made' if make else 'opened'}: {(<bytes>strerror(-error)).decode()}")
        pthread_mutex_lock(&self.wal.lock)
        segment_push(&self.wal.free, &self.wal.free_tail, segment)
        self.wal.segments += 1
        pthread_cond_signal(&self.wal.work)
        pthread_mutex_unlock(&self.wal.lock)

    def released(self, int64_t frame):
        """Partition files hold everything up to ``frame``, synced: segments with nothing newer are free again."""
        cdef WalSegment *segment
        pthread_mutex_lock(&self.wal.lock)
        if frame > self.wal.checkpoint_frame:
            self.wal.checkpoint_frame = frame
        while self.wal.full != NULL and self.wal.full.last_frame <= frame:
            segment = self.wal.full
            self.wal.full = segment.next
            segment_push(&self.wal.free, &self.wal.free_tail, segment)
        pthread_cond_signal(&self.wal.work)
        pthread_mutex_unlock(&self.wal.lock)

    def take_wants_segment(self):
        """Whether the thread has asked for a segment since the last call."""
        return take_flag(&self.wal.wants_segment) != 0

    # ------------------------------------------------------------ waking and figures

    def wake_by(self, int who, int event_fd):
        """Who waits is woken through ``event_fd``: a reactor's index, CONTROL, or SUPPLY, who makes segments."""
        if not 0 <= who < WAL_WAKES:
            raise ValueError(f"nobody has the index {who}")
        self.wal.wake_fds[who] = event_fd

    def control_waits(self):
        """The control thread wants to be woken by the next commit."""
        store_i32(&self.wal.waiting[WAL_CONTROL], 1)
        full_fence()

    @property
    def durable_frame(self):
        """Everything up to this frame is on the medium."""
        return load_i64(&self.wal.durable_frame)

    @property
    def staged_frame(self):
        """The newest frame anything was staged into."""
        return load_i64(&self.wal.staged_frame)

    @property
    def closed_frame(self):
        """The newest frame that takes no more entries: a checkpoint that begins now covers everything up to it."""
        cdef int64_t frame
        pthread_mutex_lock(&self.wal.lock)
        frame = self.wal.last_frame if self.wal.open == NULL else self.wal.open.frame - 1
        pthread_mutex_unlock(&self.wal.lock)
        return frame

    @property
    def failure(self):
        """What ended it, or None."""
        cdef int error = load_i32(&self.wal.failed)
        return (<bytes>strerror(error)).decode() if error else None

    def stats(self):
        """Counters and sizes, see wal.pyi."""
        cdef int free_segments_ = 0, full_segments = 0
        cdef WalSegment *segment
        pthread_mutex_lock(&self.wal.lock)
        segment = self.wal.free
        while segment != NULL:
            free_segments_ += 1
            segment = segment.next
        segment = self.wal.full
        while segment != NULL:
            full_segments += 1
            segment = segment.next
        pthread_mutex_unlock(&self.wal.lock)
        return {
            "segments": self.wal.segments, "free_segments": free_segments_, "full_segments": full_segments,
            "frames": load_i64(&self.wal.frames), "written_bytes": load_i64(&self.wal.written_bytes),
            "payload_bytes": load_i64(&self.wal.payload_bytes), "staged_bytes": load_i64(&self.wal.staged_bytes),
            "waited_for_segment": self.wal.waited_for_segment, "checkpoint_frame": self.wal.checkpoint_frame,
        }
