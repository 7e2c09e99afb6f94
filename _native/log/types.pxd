"""The structures of one partition's log. The first part is for callers outside this package (log/__init__.pxd), the second
for the modules of this package and for cleaner/.

Contents: structures for callers · LogState and its parts · helpers (state_of, lock_with_gil, log_out_of_service).

Ownership: a Log belongs to its PartitionLog. Its LogState, the Segments and everything they point to are guarded by
Log.lock, except Segment.file of a segment that is not the active one, which the lock of segment_files.pyx guards (its
cache of open files may close any of them).
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
from bowstring._native.base.atomics cimport load_i32
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_t, pthread_mutex_trylock
from bowstring._native.disk.directory_health cimport LogDirectory
from bowstring._native.disk.staged_tail cimport StagedTail
from bowstring._native.record.batch cimport BatchInfo
from bowstring._native.wal.types cimport Wal

# ---------------------------------------------------------------- structures for callers

cdef struct SegmentFile:
    # An open .log file, shared by its segment and the replies that are sent from it. Closed when refs reaches 0.
    int fd
    int32_t refs
    int32_t stepping              # write_behind.pyx has a job for it; atomic
    int64_t behind                # up to here it was begun to be written back; -1: unknown. With Log.lock
    StagedTail tail               # its last bytes, if they are still in memory

cdef struct LogConfig:
    # The topic settings that the log itself applies; PartitionLog.configure replaces all of them.
    int64_t segment_bytes
    int64_t segment_ms
    int64_t segment_jitter_ms
    int64_t segment_index_bytes
    int32_t index_interval_bytes
    int32_t max_message_bytes
    int32_t max_decompressed_message_bytes    # of one record in a compressed batch
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
    int8_t schemas                # SCHEMA_IN_KEY, SCHEMA_IN_VALUE or both: produced records need schemas of a registry
    int8_t compression            # -1: as the producer sent it; else the codec's number (0 none 1 gzip 2 snappy 3 lz4 4 zstd)

cdef struct AppendEntry:
    # One validated batch on its way into the log. `data` is patched in place (offset, epoch, stamp).
    uint8_t *data
    BatchInfo info
    # Output: 0 or a Kafka error code; for a duplicate 0, with the base offset of the stored batch.
    int16_t error
    int8_t duplicate
    int64_t base_offset
    int64_t log_append_time_ms    # -1 under CreateTime; for a duplicate, the largest timestamp of the first batch
    int64_t wal_frame             # durable once this frame of the write-ahead log is; 0: waits for no frame
    # Input, of transactional batches (verification.pxd) and of markers:
    int64_t verification          # the token with which a transaction may begin here; 0: none; NOT_VERIFIED
    int8_t transaction_version    # of the marker's coordinator: from 2 on a marker raises the producer epoch

cdef struct ByteRange:
    int64_t start
    int64_t end

cdef struct WarmRange:
    # A range that was just read from the disk and checked for one reader. The reader gets it without a check
    # whether it is in memory: with a page cache that is too small, it would wait for ever. Empty: end is 0.
    int64_t segment_base_offset
    int64_t start
    int64_t end
    int64_t next_offset           # of the batch at `end`, -1 when unknown
    int64_t truncations

cdef struct ReadCursor:
    # Where the previous read of the same reader ended, so that the next read needs no index lookup.
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
    int64_t next_offset           # offset that follows the range; -1 when finding it would take a search
    int8_t cold                   # no bytes yet: they must be read from the disk or checked first (disk_read.pxd)
    int64_t segment_base_offset   # of the segment to read; a `position` of -1 must be looked up

cdef struct Log:
    int64_t log_start_offset
    int64_t log_end_offset        # next offset to be written
    int64_t high_watermark        # in commit mode never above durable_end_offset
    int64_t last_stable_offset
    int64_t durable_end_offset    # commit mode: records below it are on the medium; otherwise unused
    int64_t size_bytes            # of all segments
    int32_t leader_epoch          # of the newest entry in the leader-epoch cache; -1 when empty
    int32_t failed                # 1 after an I/O error: appends get KAFKA_STORAGE_ERROR
    # counters, one writer at a time (under the lock), read freely
    int64_t appended_batches
    int64_t appended_records
    int64_t appended_bytes
    int64_t truncations
    LogConfig config
    LogDirectory *directory       # NULL: a log outside any log directory
    # ---- guarded by lock
    pthread_mutex_t lock
    void *state                   # LogState: private to log/ and cleaner/
    Wal *wal                      # commit mode: the write-ahead log that makes appends durable; NULL in os mode
    int64_t staged_frame          # the newest frame with a batch of this log
    int64_t cuts                  # truncations since the log was opened
    int64_t cut_frame             # of the last one; 0: none
    int64_t cut_offset            # frames from before it make nothing durable above this
    int64_t lowest_cut            # the lowest truncation since a copy of this log was last adapted to it
    int32_t moves                 # of the partition between directories, since the broker's start
    int32_t partition             # identifies this log in the write-ahead log, with topic_id
    uint8_t topic_id[16]

# ---------------------------------------------------------------- LogState and its parts

cdef enum:
    NO_TIMESTAMP = -1
    UNREAD = -2                     # a timestamp that was not read yet
    OFFSET_ENTRY_BYTES = 8
    TIME_ENTRY_BYTES = 12
    ABORTED_ENTRY_BYTES = 34
    REMEMBERED_BATCHES = 5          # per producer
    VERIFIED_RANGES = 4             # separate ranges per segment: enough for four readers at distant positions
    LOOKS_MAX = 16                  # retries of a search while the log is compacted or truncated

cdef struct Segment:
    int64_t base_offset
    int64_t size_bytes              # of its .log
    int64_t largest_timestamp       # NO_TIMESTAMP when it has none
    int64_t largest_timestamp_offset  # last offset of the first batch that has it
    int64_t first_timestamp         # of its first batch: rolling by time counts from it
    int64_t created_ms              # when first_timestamp is NO_TIMESTAMP, rolling counts from here
    SegmentFile *file               # NULL: not open
    # which of its bytes are checked, bad or in memory: verified_ranges.pxd
    int64_t appended_from           # bytes from here on were written, and so checked, by this process
    int64_t written_clock           # io_clock() when it was last appended to
    int64_t index_clock             # io_clock() when its .index was last read completely; NEVER_READ
    ByteRange verified[VERIFIED_RANGES]     # read and checked: good unless listed in `corrupt`
    ByteRange *corrupt              # batches that must not be served; ascending, without overlap
    int32_t corrupt_count
    int8_t has_aborted              # it has a .txnindex
    int8_t index_unsound            # its .index contradicts its .log: searches begin at the start
    int8_t index_rebuilt            # this process rebuilt its index once and does not try again
    int8_t swapping                 # compaction is swapping it in: its files are still named *.swap

cdef struct Index:
    # An .index or .timeindex: entries in the file, then a tail that is not written yet (active segment only).
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
    int64_t txn_first_offset        # -1: no ongoing transaction
    int32_t coordinator_epoch
    int16_t epoch                   # -1: none seen
    int8_t batch_count
    int8_t oldest                   # index into batches, a ring
    RememberedBatch batches[REMEMBERED_BATCHES]

cdef struct Transaction:
    int64_t producer_id
    int64_t first_offset
    int64_t last_offset             # of the marker; -1 while the transaction is ongoing

cdef struct TransactionList:
    # Sorted by first_offset.
    Transaction *items
    int32_t count
    int32_t capacity

cdef struct Verification:
    int64_t producer_id
    int64_t token
    int64_t started_ms              # when the last batch began to wait
    int32_t lowest_sequence         # of all batches that have waited in this epoch
    int32_t waiting                 # batches whose answer is not here
    int16_t epoch
    int8_t adds                     # transaction version 2: a producer that is not known here begins at sequence 0

cdef struct Producers:
    # KIP-98's state of a partition: an open-addressed table by producer id, allocated with the first producer.
    Producer **table
    uint32_t mask
    int32_t count
    TransactionList ongoing
    TransactionList unreplicated    # ended, marker not yet below the high watermark
    Verification *verifications     # in no order; see verification.pxd
    int32_t verification_count
    int32_t verification_capacity
    int64_t last_token
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
    # Damage that was found when the log was opened; PartitionLog.take_findings() returns it to be logged.
    LogFinding *next
    const char *what                # a static string
    const char *suffix              # of the file; NULL: there is none
    int64_t base_offset             # of the file's segment
    int64_t position
    int64_t size_bytes
    int64_t first_offset            # affected offsets: [first_offset, end_offset); -1 when unknown
    int64_t end_offset
    int8_t out_of_service           # the range stays in the file but is never read

cdef struct CheckpointSnapshot:
    # A producer snapshot inside the active segment, written by a checkpoint: recovery starts from it.
    int64_t offset                  # -1: none
    int8_t empty                    # it has no producers

cdef struct LogState:
    char *directory
    Segment **segments              # ascending; the last one is active
    int32_t segment_count
    int32_t segment_capacity
    Index offset_index              # of the active segment
    Index time_index
    int64_t bytes_since_index       # of the active segment
    int8_t activated                # the end of the active segment was read (segment_activate)
    int8_t closed
    int8_t indexing_anew            # new index files of the active segment are being written beside the old ones
    int8_t replaying                # batches are being restored from the write-ahead log: not checked again
    int8_t deleting                 # the directory is marked for deletion: no more writes
    int8_t moved                    # another log has replaced it: appends and retention are refused
    int8_t rescued                  # it has failed, but everything appended before was synced
    int8_t refuses                  # the last append was refused, and changed nothing, for want of descriptors or memory
    int32_t roll_jitter_ms          # of the active segment
    int64_t reserved_bytes          # blocks of the active segment's .log are reserved up to this position; 0: none
    int8_t reserve_failed           # they are not: the disk is full, or its file system does not reserve
    int64_t recovery_point          # offsets below it survive power loss; atomic
    int64_t synced_segment          # base offset of the newest segment whose name in the directory is synced
    int64_t quiet_since_offset      # log end at the last housekeeping; if unchanged, the log is quiet
    int64_t first_unstable_offset   # -1: none
    int64_t limit_offset            # cache of one lookup: batches below limit_offset end at limit_position
    int64_t limit_position
    int64_t limit_segment
    Producers producers
    EpochCache epochs
    DeletedFile *deleted
    int failed_errno
    const char *failed_doing        # the operation that failed, for stats()
    # counters of the repairs at opening
    int64_t recovered_segments
    int64_t recovered_bytes
    int64_t truncated_bytes
    int64_t rebuilt_indexes
    int64_t dropped_segments
    LogFinding *findings            # the newest first
    CheckpointSnapshot[2] checkpoints   # the last two, the newer second: a crash may need either

# ---------------------------------------------------------------- helpers

cdef inline LogState *state_of(const Log *log) noexcept nogil:
    return <LogState *>log.state

# Takes Log.lock for a caller that holds the GIL. The lock's owner may wait for the disk, so this releases the GIL while it
# waits.
cdef inline void lock_with_gil(Log *log) noexcept:
    if pthread_mutex_trylock(&log.lock) != 0:
        with nogil:
            pthread_mutex_lock(&log.lock)

# Whether the log refuses appends because it, or its log directory, has failed.
cdef inline bint log_out_of_service(const Log *log) noexcept nogil:
    return load_i32(&log.failed) or (log.directory != NULL and load_i32(&log.directory.failed))
