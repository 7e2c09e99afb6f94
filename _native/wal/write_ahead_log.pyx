"""WriteAheadLog, the Python class of the write-ahead log.

group_commit.pyx stages and commits, segment_files.pyx writes the files. After a crash log/wal_replay.pyx replays the
files.
"""
import os

from libc.stdint cimport int32_t, int64_t
from libc.string cimport strerror
from bowstring._native.base.atomics cimport full_fence, load_i32, load_i64, store_i32
from bowstring._native.base.pthread cimport (
    pthread_cond_broadcast, pthread_cond_signal, pthread_join, pthread_mutex_lock, pthread_mutex_unlock)
from bowstring._native.base.threads cimport start_thread
from bowstring._native.wal.group_commit cimport (
    commit_once, free_covered, segment_push, take_flag, wal_free, wal_new, wal_run)
from bowstring._native.wal.segment_files cimport device_open_ring, segment_open, write_trailer
from bowstring._native.wal.types cimport WAL_BLOCK, WAL_CONTROL, WAL_SUPPLY, WAL_WAKES, WalSegment


cdef enum:
    FRAME_LEAST_BYTES = 4 * WAL_BLOCK

CONTROL = WAL_CONTROL
SUPPLY = WAL_SUPPLY


class WalError(OSError):
    """The write-ahead log could not be read or written; the message names the file."""


cdef class WriteAheadLog:
    """One log directory's write-ahead log.

    Create it after :func:`bowstring._native.log.wal_replay.replay` and ``supersede``, which replay the files of an unclean
    stop. Existing segments are then reused in any order: their content is no longer needed.

    Args:
        path: The log directory.
        last_frame: The highest frame number that this directory has used.
        segment_bytes: Size of a segment file.
        staged_max_bytes: Produce requests wait while more bytes than this are staged but not yet durable.
        io: "auto" uses io_uring if it is available, "io_uring" requires it, "pwrite" writes with RWF_DSYNC.
        liburing: Path of liburing's extension module; None when it is not installed.

    Attributes:
        io: The method in use: "io_uring" or "pwrite".
        io_reason: Why io_uring is unavailable; None when it is in use or was not requested.

    Raises:
        WalError: `io` is "io_uring", which is unavailable.
    """

    def __cinit__(self, path, *, int64_t last_frame=0, int64_t segment_bytes=64 << 20,
                  int64_t staged_max_bytes=32 << 20, str io="auto", liburing=None):
        cdef bytes name = os.fsencode(path)
        cdef bytes library = os.fsencode(liburing) if liburing else b""
        cdef const char *why = b"the package liburing is not installed"
        if segment_bytes < 4 * FRAME_LEAST_BYTES or segment_bytes % WAL_BLOCK != 0:
            raise ValueError(f"segment_bytes must be a multiple of {WAL_BLOCK} and at least {4 * FRAME_LEAST_BYTES}")
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
                    raise WalError(f"io_uring is unavailable: {self.io_reason}; use io=pwrite or auto")

    def __dealloc__(self):
        if self.wal != NULL:
            self.stop()
            wal_free(self.wal)

    def start(self):
        """Starts the thread that commits."""
        if start_thread(&self.wal.thread, wal_run, self.wal, b"wal") != 0:
            raise WalError("cannot start the thread of the write-ahead log; raise the limit on threads (ulimit -u)")
        self.wal.started = True

    def stop(self):
        """Stops the thread once all staged batches are on the medium, or no segment is left for them."""
        pthread_mutex_lock(&self.wal.lock)
        self.wal.stopping = True
        pthread_cond_broadcast(&self.wal.work)
        pthread_mutex_unlock(&self.wal.lock)
        if self.wal.started:
            with nogil:
                pthread_join(self.wal.thread, NULL)
            self.wal.started = False

    def mark_clean(self):
        """Records that nothing needs a replay. Call it after :meth:`stop`, once all batches are in synced partition files.

        Raises:
            WalError: The record cannot be written.
        """
        cdef int error = 0
        if self.wal.current != NULL:
            error = write_trailer(self.wal.current.fd, self.wal.segment_bytes, self.wal.run, self.wal.last_frame)
        if error < 0:
            raise WalError(-error, f"the write-ahead log in {self.path} could not be marked clean")

    def commit(self):
        """Runs one group commit on the calling thread, for a log whose own thread is not started. Returns whether anything
        was staged.

        Raises:
            WalError: The write failed; the log accepts no more entries.
        """
        cdef int done
        with nogil:
            done = commit_once(self.wal, False)
        if done < 0:
            raise WalError(-done, f"the write-ahead log in {self.path} cannot be written: "
                                  f"{(<bytes>strerror(-done)).decode()}")
        return done > 0

    # ------------------------------------------------------------ segments

    def add_segment(self, int32_t number, *, bint make=True):
        """Opens segment file ``number``, or creates it with ``make`` (which writes the whole file once).

        Raises:
            WalError: The file cannot be created or opened; the message says why.
        """
        cdef WalSegment *segment
        cdef int error = 0
        with nogil:
            segment = segment_open(self.wal, number, make, &error)
        if segment == NULL:
            raise WalError(-error, f"{self.path}/bowstring.wal.{number} cannot be "
                                   f"{'created' if make else 'opened'}: {(<bytes>strerror(-error)).decode()}")
        pthread_mutex_lock(&self.wal.lock)
        segment_push(&self.wal.free, &self.wal.free_tail, segment)
        self.wal.segments += 1
        pthread_cond_signal(&self.wal.work)
        pthread_mutex_unlock(&self.wal.lock)

    def released(self, int64_t frame):
        """Records that synced partition files hold everything up to ``frame``, which frees older segments: at once, or when
        their last frame is durable."""
        pthread_mutex_lock(&self.wal.lock)
        if frame > self.wal.checkpoint_frame:
            self.wal.checkpoint_frame = frame
        free_covered(self.wal)
        pthread_cond_signal(&self.wal.work)
        pthread_mutex_unlock(&self.wal.lock)

    def take_wants_segment(self):
        """Returns whether the thread has requested a segment since the last call."""
        return take_flag(&self.wal.wants_segment) != 0

    # ------------------------------------------------------------ waking and figures

    def wake_by(self, int who, int event_fd):
        """Sets the eventfd that wakes a thread: a reactor by its index, CONTROL, or SUPPLY, the thread that creates
        segments."""
        if not 0 <= who < WAL_WAKES:
            raise ValueError(f"the index of a thread to wake must be 0 to {WAL_WAKES - 1}, not {who}")
        self.wal.wake_fds[who] = event_fd

    def control_waits(self):
        """Requests that the next commit wakes the control thread."""
        store_i32(&self.wal.waiting[WAL_CONTROL], 1)
        full_fence()

    @property
    def durable_frame(self):
        """The newest frame on the medium; all frames before it are there, too."""
        return load_i64(&self.wal.durable_frame)

    @property
    def staged_frame(self):
        """The newest frame with an entry."""
        return load_i64(&self.wal.staged_frame)

    @property
    def closed_frame(self):
        """The newest frame that accepts no more entries: a checkpoint that begins now covers all frames up to it."""
        cdef int64_t frame
        pthread_mutex_lock(&self.wal.lock)
        frame = self.wal.last_frame if self.wal.open == NULL else self.wal.open.frame - 1
        pthread_mutex_unlock(&self.wal.lock)
        return frame

    @property
    def failure(self):
        """The errno of the first write that failed; None if none has."""
        return load_i32(&self.wal.failed) or None

    def stats(self):
        """Returns counters and sizes, see write_ahead_log.pyi."""
        cdef int free_segments_ = 0, full_segments = 0
        cdef int32_t segments, groups
        cdef int64_t waited, checkpoint
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
        segments, groups = self.wal.segments, self.wal.groups_under_way
        waited, checkpoint = self.wal.waited_for_segment, self.wal.checkpoint_frame
        pthread_mutex_unlock(&self.wal.lock)
        return {
            "segments": segments, "free_segments": free_segments_, "full_segments": full_segments,
            "frames": load_i64(&self.wal.frames), "written_bytes": load_i64(&self.wal.written_bytes),
            "payload_bytes": load_i64(&self.wal.payload_bytes), "staged_bytes": load_i64(&self.wal.staged_bytes),
            "waited_for_segment": waited, "checkpoint_frame": checkpoint, "groups_under_way": groups,
        }
