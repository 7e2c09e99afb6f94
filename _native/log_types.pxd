"""The structures of one partition's log. Structs only: log.pxd publishes the first part, the rest is for
log.pyx and its parts (log_files, log_index, log_segment, log_producers, log_epochs, log_open, …).

Ownership: a Log belongs to its PartitionLog. Its LogState, the Segments and everything they point to are
guarded by Log.lock, except Segment.file of a segment that is not the active one, which log_files' own lock
guards (its cache of open files may close any of them).
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
from bowstring._native.batch cimport BatchInfo
from bowstring._native.wal_types cimport Wal, pthread_mutex_t

# ---------------------------------------------------------------- published by log.pxd

cdef struct SegmentFile:
    # An open .log file shared by its segment and by replies being sent from it. Closed when refs falls to 0.
    int fd
    int32_t refs

cdef struct LogConfig:
    # The topic settings the log itself obeys; replaced whole by PartitionLog.configure.
    int64_t segment_bytes
    int64_t segment_ms
    int64_t segment_jitter_ms
    int64_t segment_index_bytes
    int32_t index_interval_bytes
    int32_t max_message_bytes
    int64_t retention_ms          # -1: for ever
    int64_t retention_bytes       # -1: no limit
    int64_t file_delete_delay_ms
    int64_t timestamp_before_max_ms
    int64_t timestamp_after_max_ms
    int64_t producer_id_expiration_ms
    int64_t flush_messages
    int64_t flush_ms
    int8_t log_append_time        # message.timestamp.type
    int8_t compacted              # cleanup.policy has compact: keys are required
    int8_t delete_enabled         # cleanup.policy has delete
    int8_t compression            # -1: as the producer sent it; else the codec's number (0 none 1 gzip 2 snappy 3 lz4 4 zstd)

cdef struct AppendEntry:
    # One validated batch on its way into the log. `data` is patched in place (offset, epoch, stamp).
    uint8_t *data
    BatchInfo info
    # Out: 0 or a Kafka error code; a duplicate of a remembered batch is 0 with the first base offset.
    int16_t error
    int8_t duplicate
    int64_t base_offset
    int64_t log_append_time_ms    # -1 under CreateTime; of a duplicate the first batch's largest timestamp
    int64_t wal_frame             # durable once the write-ahead log is past it; 0: it does not wait for one

cdef struct ByteRange:
    int64_t start
    int64_t end

cdef struct WarmRange:
    # What was read from the disk and checked for one reader a moment ago: it may have this without asking again
    # whether it is in memory, or a page cache too small would keep it waiting for ever. Empty: end is 0.
    int64_t segment_base_offset
    int64_t start
    int64_t end
    int64_t next_offset           # of the batch at `end`, -1 when unknown
    int64_t truncations

cdef struct ReadCursor:
    # Where the previous read of the same reader ended, so that the next one needs no index lookup.
    # All -1 when unknown. Stale cursors are detected, never trusted.
    int64_t segment_base_offset
    int64_t offset
    int64_t position
    int64_t truncations           # Log.truncations when it was taken
    WarmRange warm

cdef struct LogSlice:
    # A range of whole batches inside one segment file. The caller releases `file` with segment_file_release.
    SegmentFile *file             # NULL when size_bytes is 0
    int64_t position
    int64_t size_bytes
    int64_t next_offset           # offset that follows the range; -1 when it was not cheap to know
    int8_t cold                   # nothing is given: it has to be read from the disk, or checked, first (log_cold.pxd)
    int64_t segment_base_offset   # where that is, `position` in it: -1, it has to be looked up

cdef struct LogDirectory:
    # One directory of log.dirs, shared by the logs in it. Belongs to its DirectoryHealth, which lives as long as
    # any of those logs. Changed by directory_fail and directory_took only (directory_health.pxd).
    int32_t failed                # 1 after an I/O error: no log in it takes appends until the next start
    int error                     # errno of what failed first
    int event_fd                  # readable when something has happened here; -1: nobody listens
    int64_t slow_ns               # an operation that takes longer counts as slow; 0: none does
    int64_t slow_operations
    int64_t slowest_ns            # of them, since somebody asked
    char[64] doing
    char[512] where

cdef struct Log:
    int64_t log_start_offset
    int64_t log_end_offset        # next offset to be written
    int64_t high_watermark        # in commit mode never above durable_end_offset
    int64_t last_stable_offset
    int64_t durable_end_offset    # commit mode: on the medium up to here; else it means nothing
    int64_t size_bytes            # of all segments
    int32_t leader_epoch          # of the newest entry in the leader-epoch cache; -1 when empty
    int32_t failed                # 1 after an I/O error: appends answer KAFKA_STORAGE_ERROR
    # counters, one writer at a time (under the lock), read freely
    int64_t appended_batches
    int64_t appended_records
    int64_t appended_bytes
    int64_t truncations
    LogConfig config
    LogDirectory *directory       # NULL: a log on its own
    # ---- guarded by lock
    pthread_mutex_t lock
    void *state                   # LogState: private to log.pyx and its parts
    Wal *wal                      # commit mode: what makes appends durable; NULL in os mode
    int64_t staged_frame          # the newest frame with a batch of this log
    int32_t partition             # by what the write-ahead log knows this log
    uint8_t topic_id[16]

# ---------------------------------------------------------------- private to log*.pyx

cdef enum LogError_:
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    RECORD_LIST_TOO_LARGE = 18
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    TRANSACTION_COORDINATOR_FENCED = 52
    KAFKA_STORAGE_ERROR = 56

cdef enum:
    PATH_BYTES = 4096
    NO_TIMESTAMP = -1
    UNREAD = -2                     # a timestamp that nobody has looked up yet
    OFFSET_ENTRY_BYTES = 8
    TIME_ENTRY_BYTES = 12
    ABORTED_ENTRY_BYTES = 34
    REMEMBERED_BATCHES = 5          # per producer
    VERIFIED_RANGES = 4             # kept apart for each segment: as many readers far from each other

cdef struct Segment:
    int64_t base_offset
    int64_t size_bytes              # of its .log
    int64_t largest_timestamp       # NO_TIMESTAMP when it has none
    int64_t largest_timestamp_offset  # last offset of the first batch that has it
    int64_t first_timestamp         # of its first batch: what rolling by time counts from
    int64_t created_ms              # when first_timestamp is NO_TIMESTAMP, rolling counts from here
    SegmentFile *file               # NULL: not open
    # what is known of its bytes: log_checked.pxd
    int64_t appended_from           # those from here on were written by this process, which has checked them
    int64_t written_clock           # io_clock() when it was last appended to
    int64_t index_clock             # io_clock() when its .index was last read whole; NEVER_READ
    ByteRange verified[4]           # read and checked: what is not in `corrupt` is good
    ByteRange *corrupt              # batches that are not to be served; ascending, apart
    int32_t corrupt_count
    int8_t has_aborted              # it has a .txnindex
    int8_t index_unsound            # its .index contradicts its .log: search from the start
    int8_t index_rebuilt            # once by this process: not again
    int8_t swapping                 # its files are still named *.swap: compaction is taking it in

cdef struct Index:
    # An .index or .timeindex: entries in the file, then a tail that is not there yet (active segment only).
    int32_t filed
    int32_t tail_count
    int32_t tail_capacity
    int32_t entry_bytes
    uint8_t *tail                   # big-endian, as in the file
    int64_t last_key                # offset index: last offset; time index: last timestamp
    int64_t last_offset             # time index: its offset

cdef struct RememberedBatch:
    int64_t last_offset
    int64_t timestamp               # largest of the batch
    int32_t last_sequence
    int32_t offset_delta

cdef struct Producer:
    int64_t producer_id
    int64_t last_timestamp
    int64_t txn_first_offset        # -1: no transaction under way
    int32_t coordinator_epoch
    int16_t epoch                   # -1: none seen
    int8_t batch_count
    int8_t oldest                   # index into batches, a ring
    RememberedBatch batches[5]

cdef struct Transaction:
    int64_t producer_id
    int64_t first_offset
    int64_t last_offset             # of the marker; -1 while under way

cdef struct TransactionList:
    # Sorted by first_offset.
    Transaction *items
    int32_t count
    int32_t capacity

cdef struct Producers:
    # Open-addressed table by producer id, empty until the first producer; KIP-98's per-partition state.
    Producer **table
    uint32_t mask
    int32_t count
    TransactionList ongoing
    TransactionList unreplicated    # decided, marker not yet below the high watermark
    int64_t end_offset              # the state covers the log up to here
    int64_t *snapshots              # offsets of the .snapshot files, ascending
    int32_t snapshot_count
    int32_t snapshot_capacity

cdef struct EpochEntry:
    int32_t epoch
    int64_t start_offset

cdef struct EpochCache:
    EpochEntry *entries             # ascending in both fields
    int32_t count
    int32_t capacity
    int8_t dirty                    # not yet in leader-epoch-checkpoint

cdef struct DeletedFile:
    DeletedFile *next
    int64_t due_ms
    char name[48]

cdef struct LogFinding:
    # Damage that opening the log came upon, for people: PartitionLog.findings() gives it away.
    LogFinding *next
    const char *what                # a static string
    const char *suffix              # of the file; NULL: there is none
    int64_t base_offset             # of the file's segment
    int64_t position
    int64_t size_bytes
    int64_t first_offset            # offsets concerned: [first_offset, end_offset); -1 when unknown
    int64_t end_offset
    int8_t out_of_service           # the range stays in the file, and is not to be read

cdef struct CheckpointSnapshot:
    # A producer snapshot inside the active segment, left by a checkpoint for recovery to begin with.
    int64_t offset                  # -1: none
    int8_t empty                    # no producer is in it

cdef struct LogState:
    char *directory
    Segment **segments              # ascending; the last one is active
    int32_t segment_count
    int32_t segment_capacity
    Index offset_index              # of the active segment
    Index time_index
    int64_t bytes_since_index       # of the active segment
    int8_t activated                # the active segment's end has been looked at
    int8_t closed
    int8_t indexing_anew            # the active segment's index files are made beside the old ones
    int8_t replaying                # batches come back from the write-ahead log: not checked again
    int8_t deleting                 # the directory is marked for deletion: nothing is written any more
    int8_t moved                    # another log has taken its place: appends and retention are refused
    int32_t roll_jitter_ms          # of the active segment
    int64_t reserved_bytes          # blocks of the active segment's .log are reserved up to here; 0: none
    int64_t recovery_point          # what is below survives power loss
    int64_t synced_segment          # base offset of the newest segment whose name in the directory is synced
    int64_t quiet_since_offset      # log end when housekeeping last looked: still so, and the log is quiet
    int64_t first_unstable_offset   # -1: none
    int64_t limit_offset            # one remembered answer: batches below limit_offset end at limit_position
    int64_t limit_position
    int64_t limit_segment
    Producers producers
    EpochCache epochs
    DeletedFile *deleted
    int failed_errno
    const char *failed_doing        # what failed, for stats()
    # what open did
    int64_t recovered_segments
    int64_t recovered_bytes
    int64_t truncated_bytes
    int64_t rebuilt_indexes
    int64_t dropped_segments
    LogFinding *findings            # the newest first
    CheckpointSnapshot[2] checkpoints   # the last two, the newer second: a crash may need either
