"""Structures of the write-ahead log of one log directory: batches of all its partitions in one sequential, durable stream.

log_append stages a batch under Log.lock. The batch is durable once `durable_frame` has reached its frame. Everything that was
staged while the previous writes ran goes out together (group commit), so nothing waits for a timer. Reactors start
writes themselves and get an event when they end; the write-ahead log's own thread does what may block, and works for
threads that are no reactors. Up to WAL_GROUPS groups are on their way at once; they may end in any order, and become durable
in the order in which they were taken.

Locking: Wal.lock is a leaf, taken under Log.lock, and never held during a write.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint64_t
from bowstring._native.base.pthread cimport pthread_cond_t, pthread_mutex_t, pthread_t

cdef extern from "wal/frame.h" nogil:
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
        int16_t kind
        uint16_t moves
        int64_t offset
        int64_t size_bytes
        int64_t part_position

cdef enum:
    WAL_APPEND = 1                  # whole batches
    WAL_TRUNCATE = 2                # the log was truncated to `offset`
    WAL_START = 3                   # the log was emptied and continues at `offset`
    WAL_PART = 4                    # a piece, from `part_position` on, of a batch that is too large for a frame
    WAL_LEFT = 5                    # this log left the write-ahead log: its earlier entries are in synced files

cdef enum:
    WAL_FRAME_BYTES = 1 << 20       # size of a frame, unless segments are too small for it
    WAL_DEPTH = 4                   # frames of a group, written at once
    WAL_GROUPS = 4                  # groups on their way at once, a power of two
    # Who may be woken: reactors by their index, the control thread (what it waits for is durable, or never will be), and
    # the supply thread (a segment is wanted).
    WAL_REACTORS_MAX = 16
    WAL_CONTROL = WAL_REACTORS_MAX
    WAL_SUPPLY = WAL_CONTROL + 1
    WAL_WAKES = WAL_SUPPLY + 1
    # What a waiting thread does when it is woken.
    WAL_WAITS = 1
    WAL_LEADS = 2                   # it also begins the next write

cdef struct WalBuffer:
    # One frame being filled or written; `data` is aligned for O_DIRECT.
    WalBuffer *next
    uint8_t *data
    int64_t size_bytes              # header and entries so far
    int64_t payload_bytes           # of the entries, without headers and padding
    int64_t frame
    int32_t entries

cdef struct WalSegment:
    # A file of the write-ahead log: written completely once when it is created, then reused.
    WalSegment *next
    int fd
    int32_t number
    int64_t last_frame              # newest frame in it; 0: none of this run
    int8_t used                     # has frames of this run: before reuse, a trailer must record that they are not needed

cdef struct WalDevice:
    # How frames reach the medium.
    void *ring                      # the thread's io_uring, or NULL: durable writes through FileOps
    char *liburing                  # path of the library, for the rings of reactors; NULL without io_uring
    int32_t direct                  # files are opened with O_DIRECT

cdef struct Wal

cdef enum WalGroupState:
    WAL_WRITING                     # who took it writes it
    WAL_UNFINISHED                  # its writes were short: the thread finishes them
    WAL_ENDED

cdef struct WalGroup:
    # Frames on their way to the medium. `state` is guarded by the lock, the rest belongs to who took the group.
    Wal *wal
    WalGroupState state
    int32_t count
    int32_t left                    # writes that have not ended
    int error                       # a negated errno
    WalBuffer *frames[WAL_DEPTH]
    int[WAL_DEPTH] fds
    int64_t[WAL_DEPTH] sizes
    int64_t[WAL_DEPTH] positions
    int64_t[WAL_DEPTH] done         # bytes written by the first try

cdef struct Wal:
    # ---- first, so that addresses of groups are aligned
    WalGroup groups[WAL_GROUPS]     # a ring: from `oldest_group` on
    # ---- atomics
    int64_t durable_frame           # all frames up to this one are on the medium
    int64_t staged_frame            # newest frame that has an entry
    int32_t failed                  # errno after a failure: nothing more becomes durable
    int32_t waiting[WAL_WAKES]      # threads to wake when durable_frame moves: WAL_WAITS or WAL_LEADS
    int32_t groups_under_way        # stored under lock
    int32_t wants_segment           # requests that the supply thread make or free a segment
    int64_t staged_bytes            # not yet durable
    # counters
    int64_t frames
    int64_t written_bytes
    int64_t payload_bytes
    int64_t waited_for_segment
    # ---- constant
    int32_t index                   # of this log among the broker's write-ahead logs
    int wake_fds[WAL_WAKES]
    int64_t segment_bytes
    int64_t frame_bytes             # capacity of every frame
    int64_t staged_max_bytes
    uint64_t run
    char *directory
    WalDevice device
    # ---- taken before `lock` to write a trailer, so that a trailer's checkpoint never decreases
    pthread_mutex_t trailer_lock
    # ---- guarded by lock
    pthread_mutex_t lock
    pthread_cond_t work             # the thread sleeps here
    int8_t idle                     # the thread sleeps and must be signalled
    int8_t asked                    # the thread, not a reactor, shall write what is staged
    int8_t taking                   # the thread takes a group and may have released the lock: no other may be taken
    int32_t oldest_group
    int8_t stopping
    int64_t last_frame              # the highest frame number in use
    int64_t checkpoint_frame        # frames up to this one are in synced partition files
    WalBuffer *open                 # being filled
    WalBuffer *sealed               # full, oldest first
    WalBuffer *sealed_tail
    WalBuffer *pool
    int32_t pool_count
    WalSegment *free                # may be overwritten; least recently used first
    WalSegment *free_tail
    WalSegment *full                # oldest first
    WalSegment *full_tail
    WalSegment *current
    int64_t position                # in current
    int32_t segments
    pthread_t thread
    int8_t started
