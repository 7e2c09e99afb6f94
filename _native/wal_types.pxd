"""The structures of the write-ahead log of one log directory: batches of all its partitions in one sequential, durable stream.

A batch is staged by whoever appends it (log_append, under Log.lock) and is durable once `durable_frame` has
reached the frame it was staged into. Frames are written by the log's own thread, everything staged while
the one before was on its way together (group commit), so nothing waits for a timer.

Locking: Wal.lock is a leaf, taken under Log.lock; the thread never holds it across a write.
"""
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t

cdef extern from "pthread.h" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    ctypedef unsigned long pthread_t

cdef extern from "wal_frame.h" nogil:
    enum:
        WAL_BLOCK
        WAL_MAGIC
        WAL_TRAILER_MAGIC
    ctypedef struct WalFrameHeader:
        unsigned int magic
        unsigned int crc
        unsigned int payload_bytes
        unsigned int frame_bytes
        uint64_t run
        int64_t frame
        int64_t checkpoint
        int64_t durable
        int32_t entries
    ctypedef struct WalEntryHeader:
        uint8_t topic_id[16]
        int32_t partition
        int32_t kind
        int64_t offset
        int64_t size_bytes

cdef enum:
    WAL_APPEND = 1
    WAL_TRUNCATE = 2                # the log was cut at `offset`
    WAL_START = 3                   # the log was emptied and goes on at `offset`

cdef enum:
    WAL_FRAME_BYTES = 1 << 20       # a frame is sealed at about this size; larger batches get one of their own
    WAL_DEPTH = 4                   # frames written at once
    WAL_WAKES = 18                  # reactors, and
    WAL_CONTROL = 16                # the control thread: something it waits for is durable, or nothing will be
    WAL_SUPPLY = 17                 # the supply thread: a segment is wanted

cdef struct WalBuffer:
    # One frame being filled or written; `data` is aligned for O_DIRECT.
    WalBuffer *next
    uint8_t *data
    int64_t capacity
    int64_t size_bytes              # header and entries so far
    int64_t frame
    int32_t entries

cdef struct WalSegment:
    # A file of the log: pre-written once, used again and again.
    WalSegment *next
    int fd
    int32_t number
    int64_t last_frame              # newest frame in it; 0: none of this run
    int8_t used                     # frames of this run were in it: a trailer must say that they are not needed

cdef struct WalDevice:
    # How frames get onto the medium.
    void *ring                      # io_uring, or NULL: durable writes through FileOps
    int32_t direct                  # files are opened with O_DIRECT

cdef struct Wal:
    # ---- atomics
    int64_t durable_frame           # on the medium up to here
    int64_t staged_frame            # newest frame that has an entry
    int32_t failed                  # errno that ended it: nothing more becomes durable
    int32_t waiting[18]             # who wants to be woken when durable_frame moves
    int32_t wants_segment           # of the supply thread: that it makes or frees one
    int64_t staged_bytes            # not yet durable
    # counters
    int64_t frames
    int64_t written_bytes
    int64_t payload_bytes
    int64_t waited_for_segment
    # ---- constant
    int32_t index                   # of this log among the broker's
    int wake_fds[18]
    int64_t segment_bytes
    int64_t staged_max_bytes
    uint64_t run
    char *directory
    WalDevice device
    # ---- guarded by lock
    pthread_mutex_t lock
    pthread_cond_t work             # the thread sleeps here
    pthread_cond_t room             # those who staged too much
    int8_t idle                     # the thread sleeps and must be signalled
    int8_t stopping
    int64_t last_frame              # given out
    int64_t checkpoint_frame        # synced in partition files up to here
    WalBuffer *open                 # being filled
    WalBuffer *sealed               # full, oldest first
    WalBuffer *sealed_tail
    WalBuffer *pool
    int32_t pool_count
    WalSegment *free                # may be written over, the one longest out of use first
    WalSegment *free_tail
    WalSegment *full                # oldest first
    WalSegment *full_tail
    WalSegment *current
    int64_t position                # in current
    int32_t segments
    pthread_t thread
    int8_t started
