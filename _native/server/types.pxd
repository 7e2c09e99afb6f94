"""The structures that reactors share: read this first.

Ownership
- A Reactor owns its connections, their buffers and replies, and the requests that wait in it. Only its own thread
  touches them.
- A Partition is shared. `refs` counts its holders: the table (one), and each waiting request or fetch session. The
  control thread frees it, never a reactor, because it owns a Python PartitionLog.
- A reactor holds `Plane.table_lock` for reading through each pass of its loop, and never while it sleeps or waits for
  the disk to sync. The control thread takes it for writing to add or remove partitions. So a partition found during a
  pass stays usable until the pass ends. A partition seen with `deleted` set is not used again.
- Partition.waiters_lock guards the two waiter lists. The only lock taken under it is Mailbox.lock.
- Partition.replicas_lock guards what Partition.replicas points to. Log.lock is taken under it, and no other. Only the
  control thread replaces the pointer, and whether this broker leads: both under Plane.table_lock for writing.
- A Fetcher and its FollowParts belong to one reactor.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
from cpython.object cimport PyObject
from bowstring._native.log cimport AppendEntry, ColdRead, Log, LogSlice, ReadCursor, SegmentFile
from bowstring._native.server.pacing cimport Pacer
from bowstring._native.base.pthread cimport pthread_mutex_t, pthread_rwlock_t, pthread_t
from bowstring._native.disk.thread_pool cimport StorageJob, StoragePool
from bowstring._native.base.error_codes cimport (
    OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT,
    INVALID_TOPIC_EXCEPTION, NOT_ENOUGH_REPLICAS, INVALID_REQUIRED_ACKS, INVALID_TXN_STATE, KAFKA_STORAGE_ERROR,
    FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
    UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID,
    FETCH_SESSION_TOPIC_ID_ERROR)
from bowstring._native.replica.replica_quota cimport ReplicaQuota
from bowstring._native.replica.replica_set cimport ReplicaSet
from bowstring._native.record.batch cimport CODEC_ZSTD, RecordErrors
from bowstring._native.wal.types cimport WAL_REACTORS_MAX, Wal
from bowstring._native.base.wire cimport Writer

cdef enum:
    MAX_REACTORS = WAL_REACTORS_MAX
    MAX_API_KEY = 128               # exclusive
    REACTOR_SHIFT = 48              # outside a reactor, connection ids have its index above this bit
    POOL_CLASSES = 10               # receive buffers: RECEIVE_BUFFER_BYTES << class
    POOL_KEEP_MAX = 16              # free buffers kept of each class
    SESSION_BUCKETS = 1024          # of a reactor's hash table of fetch sessions
    PEER_BYTES = 64                 # of a client's address as text
    EVENTS_KEPT = 64                # events that wait for the control thread to log them
    RECEIVE_BUFFER_BYTES = 262144
    FLUSH_BYTES = 262144            # bytes to gather before a write: they are still in the L2 cache then
    SENDFILE_MIN_BYTES = 16384      # a smaller range is copied: cheaper than a second system call
    ENTRIES_MAX = 100000            # most topics and partitions of one Produce, and most batches
    FETCH_ENTRIES_MAX = 65536       # topics, or partitions, of one Fetch or session
    HELD_BYTES_MAX = 1048576        # a connection with more bytes of unanswered requests is not read from
    LARGE_BODY_BYTES = 65536        # from this size on, requests for the control thread are counted over all connections
    HELD_MIN_BYTES = 65536          # smaller parsed requests are not counted as held
    LATENCY_BUCKETS = 28            # bucket i counts requests that took < 2**i microseconds

cdef enum:
    ZSTD_PRODUCE_VERSION = 7        # KIP-110: older clients do not support the codec
    ZSTD_FETCH_VERSION = 10
    ADDING_PRODUCE_VERSION = 12     # KIP-890: the broker adds the partition to the transaction

# ---------------------------------------------------------------- topics and partitions

cdef struct Topic:
    uint8_t id[16]
    int32_t name_length
    uint8_t *name                   # NUL-terminated, for log lines
    int8_t internal                 # clients may not produce to it
    int32_t partition_count
    Partition **partitions          # by index; NULL where this broker has none
    Topic *next_by_name             # hash chains
    Topic *next_by_id

cdef struct PendingList:
    # Batches that one reactor has validated for one partition but not yet written.
    ProducePart *head
    ProducePart *tail
    int32_t count

cdef struct Partition:
    Topic *topic                    # dangling once `deleted`
    int32_t index
    int32_t refs
    int32_t deleted
    int32_t leader_epoch
    int32_t is_leader
    int32_t replicated              # 1: replication moves the high watermark; 0: the append does
    int32_t in_sync_replicas
    int32_t min_insync_replicas
    int32_t leader_id               # -1: none, or unknown
    ReplicaSet *replicas            # its followers, while this broker leads it; NULL: it has none
    pthread_mutex_t replicas_lock
    pthread_mutex_t truncate_lock   # held while a follower's log is cut, and while the control thread changes its role or log
    int8_t leader_throttled         # leader.replication.throttled.replicas and the like name this broker's replica
    int8_t follower_throttled
    int64_t leader_high_watermark   # of a follower: the last one from its leader
    int32_t follow_number           # in this epoch, Fetcher.number + 1; 0: none yet. Only the control thread uses it.
    int32_t follow_reactor          # where the current FollowPart is
    int64_t follow_id               # 0: none
    Log *log                        # NULL: its log directory could not be opened
    PyObject *log_owner             # the PartitionLog; dropped by the control thread
    pthread_mutex_t waiters_lock
    Waiter *fetch_waiters           # doubly linked
    ProducePart *ack_waiters        # acks=all, waiting for the high watermark
    int64_t watched_offset          # the control thread gets an event once the high watermark reaches it; 0: none
    Plane *watching                 # set with watched_offset
    Partition *next_advanced        # in Plane.advanced
    int8_t is_advanced              # it is there, and held; guarded by Plane.control_lock like watched_offset's changes
    int64_t refused_ms              # when a batch was last refused because this broker did not lead; 0: never
    int32_t slow_batches            # batches that the control thread checks or recompresses; later ones queue after them
    PendingList *pending            # one for each reactor
    Partition *next_dead
    int64_t fetched_bytes           # counters, approximate across reactors
    int64_t fetched_records         # counted by offsets, including records that compaction has removed
    int64_t failed_produces
    int64_t failed_fetches

cdef struct TopicTable:
    Topic **by_name
    Topic **by_id
    uint32_t mask
    int32_t count

# ---------------------------------------------------------------- connections

cdef struct Chunk:
    # A piece of a reply: bytes after the struct (or in a separate block), or a range of a segment file.
    Chunk *next
    SegmentFile *file               # NULL: bytes
    int64_t position                # next byte to send, in data or in the file
    int64_t end
    int64_t capacity                # of the bytes
    uint8_t *data

cdef struct Slot:
    # The reply of one request, in the order of the requests.
    int8_t ready
    int8_t ends                     # the connection closes once the earlier replies are sent
    Chunk *head
    int64_t held_bytes              # of the request, while the control thread has it

cdef enum Stall:
    STALL_NONE
    STALL_WAL                       # a write-ahead log is full
    STALL_UNANSWERED                # too many requests are unanswered, or too many replies not received
    STALL_ORDER                     # requests before it are unanswered, see request_dispatch.pyx
    STALL_READY                     # they are answered: it goes on in the next pass, and is in Reactor.resume_head
    STALL_SYNC                      # its batches with acks=0 are not on the medium yet, so reads would miss them

cdef struct Connection:
    int fd
    int64_t id
    Reactor *reactor
    int32_t listener
    char peer[PEER_BYTES]
    uint8_t *buffer                 # borrowed from the reactor's pool while there are unread bytes
    int64_t capacity
    int64_t start
    int64_t end
    Slot *slots                     # ring of slot_capacity, a power of two
    int64_t slot_capacity
    int64_t head_slot               # oldest unanswered
    int64_t tail_slot               # slot of the next request
    Chunk *out_head
    Chunk *out_tail
    int64_t out_bytes               # memory held by queued replies; file ranges count nothing
    int64_t held_bytes              # memory held by requests that the control thread has not answered
    int8_t in_flush_list
    int8_t reading                  # EPOLLIN is on
    int8_t writing                  # EPOLLOUT is on
    int8_t refusing                 # a slot ends the connection: the rest of the buffer is ignored
    int8_t ending                   # that slot is the next to send
    int8_t closing
    int8_t touched                  # in this pass's list of connections whose buffer or end is due
    int8_t stalled                  # a Stall: why its next request stays in the buffer; it is in Reactor.stalled, but
                                    # for STALL_ORDER and STALL_READY
    Wal *stalled_on                 # the full write-ahead log, or NULL
    Connection *next_resume         # in Reactor.resume_head
    int8_t alone                    # its unanswered request is not a Produce, and so the only one
    int8_t watches_hangup           # EPOLLRDHUP is on
    int32_t unappended              # its batches that the control thread checks, recompresses or verifies
    Partition *unappended_to        # NULL: several
    CommitQueue *unsynced           # where its batches with acks=0 wait for the medium; NULL: nowhere
    int64_t unsynced_frame          # the last of them
    int8_t tells_end                # the control thread keeps something for it, and gets an event at its end
    int8_t parked                   # its next request waits for room (slow_batches.pyx)
    int64_t parked_bytes            # that the request needs
    Connection *next_parked
    Connection *previous_parked
    Fetcher *fetcher                # not NULL: this broker opened it, to a leader
    int8_t large_session            # it has used a fetch session that takes much memory
    FetchRequest *fetch             # the one that waits, or NULL
    int64_t last_active_ms
    int64_t requests

cdef struct BufferPool:
    # Receive buffers by size class: RECEIVE_BUFFER_BYTES << class.
    uint8_t *free[POOL_CLASSES][POOL_KEEP_MAX]
    int32_t count[POOL_CLASSES]

# ---------------------------------------------------------------- requests in flight

cdef struct RequestHeader:
    int16_t api_key
    int16_t api_version
    int32_t correlation_id
    int32_t client_id_length        # -1: null
    const uint8_t *client_id

cdef struct ProducePart:
    ProduceRequest *request
    ProducePart *next               # in a pending list, or among a partition's ack waiters
    ProducePart *previous
    Partition *partition            # held (refs) while waiting
    int32_t index
    int8_t listed                   # among partition.ack_waiters
    int16_t error
    RecordErrors *record_errors     # the refused records; NULL: none, or the whole batch is refused
    const char *reason
    int64_t required_offset         # high watermark at which the part is answered
    int32_t leader_epoch            # in which it was appended, for acks=all
    int64_t log_start_offset
    uint8_t *owned                  # memory of a slow batch, freed once it is in the log
    int8_t verifying                # the control thread verifies its transaction with the coordinator
    AppendEntry entry

cdef struct ProduceTopic:
    const uint8_t *name             # inside ProduceRequest.names
    int32_t name_length
    uint8_t id[16]
    int32_t part_count

cdef struct ProduceRequest:
    Reactor *reactor
    int64_t connection_id
    int64_t slot
    int32_t correlation_id
    int16_t version
    int16_t acks
    int32_t timeout_ms
    int64_t started_ns
    int32_t topic_count
    int32_t part_count
    int32_t remaining               # parts without a result
    int32_t records_named           # in the record_errors of its parts, at most RECORD_ERRORS_NAMED_MAX
    int64_t id                      # in Reactor.produces while it waits; -1: it never has
    int8_t timed                    # its timer is set
    int32_t transactional_id_length # -1: null
    uint8_t *transactional_id       # after the topic names
    ProduceTopic *topics
    ProducePart *parts
    uint8_t *names

cdef struct Waiter:
    # A fetch waiting on one partition.
    Waiter *next
    Waiter *previous
    Partition *partition
    Reactor *reactor
    FetchRequest *request           # used by its own reactor only
    int64_t fetch_id                # its id for other threads
    int8_t listed
    int8_t follower                 # it waits for the log end, not for the high watermark

cdef struct ColdJob:
    # A read by a storage thread for one FetchPart. Both hold it; it holds the partition, and so the log. The storage
    # thread writes reads[i] and errors[i], then `pieces`. The reactor reads entries below `pieces`.
    StorageJob base
    int32_t refs
    int32_t pieces                  # done: 2, and the job is over
    int64_t fetch_id                # fetch to wake after each piece; 0: none
    Reactor *reactor
    Partition *partition
    Log *log                        # the partition's log when the job began
    char topic[250]                 # its name, for events
    int64_t ahead_bytes             # of the second piece
    ColdRead reads[2]
    int errors[2]                   # negated errno; ESTALE: evaluate again
    # Only the reactor uses these:
    int64_t asked_bytes             # of the first piece
    int8_t committed                # for read_committed: aborted transactions are read as well
    int32_t taken
    int8_t wanted                   # a fetch waits, or has waited, for the first piece

cdef struct FetchPart:
    Partition *partition            # held; NULL while unknown
    int32_t topic                   # index into FetchSession.topics / FetchRequest.topics
    int32_t index
    int32_t max_bytes
    int32_t current_leader_epoch
    int32_t last_fetched_epoch
    int64_t fetch_offset
    int64_t follower_start_offset   # log start of the requesting follower
    ReadCursor cursor
    int8_t included                 # in the reply being written
    int8_t followed                 # its reader continues where the previous slice ended
    int8_t throttled                # a follower gets nothing now: the leader's quota is exceeded
    int32_t ahead_bytes             # of the last read-ahead; 0: none yet
    int64_t sent_high_watermark     # the value last sent to the session's client
    int64_t sent_log_start_offset
    # Result of the current evaluation:
    int16_t error
    int32_t diverging_epoch
    int64_t diverging_end_offset
    int32_t preferred_replica       # its consumer shall read from this broker; -1: from this one
    int64_t high_watermark
    int64_t last_stable_offset
    int64_t log_start_offset
    LogSlice slice
    int64_t *aborted                # (producer id, first offset) of the slice's aborted transactions; NULL: none
    int32_t aborted_count
    int8_t aborted_read             # a storage thread has just read them: do not wait for them again
    Waiter waiter
    ColdJob *cold                   # the read for this reader, or NULL
    int64_t cold_end                # size of the segment of cursor.warm

cdef struct FetchTopic:
    uint8_t *name                   # malloc'd; NULL when the request names the id
    int32_t name_length
    uint8_t id[16]

cdef struct Places:
    # A hash table with open addressing: index into an array + 1; 0 is free. Empty while the array is short enough to
    # search.
    int32_t *slots
    uint32_t mask

cdef struct FetchSet:
    # The partitions of one fetch: a session's, or one request's own.
    FetchTopic *topics
    int32_t topic_count
    int32_t topic_capacity
    int64_t name_bytes
    FetchPart *parts
    int32_t part_count
    int32_t part_capacity
    Places topic_places             # indices into the arrays above
    Places part_places
    int32_t first                   # the next evaluation begins there, so that no partition starves
    bint by_id

cdef struct FetchSession:
    int32_t id
    int32_t epoch                   # expected of the next request
    FetchSet set
    FetchRequest *waiting           # at most one
    int64_t connection_id           # the last connection that used it
    int64_t bytes                   # of memory
    int64_t last_used_ms
    FetchSession *next

cdef struct FetchRequest:
    int64_t id
    int64_t connection_id
    int64_t slot
    int32_t correlation_id
    int16_t version
    int8_t isolation
    int8_t incremental              # answer only with changes
    int8_t waiting                  # its waiters are linked
    int32_t replica_id              # -1: a consumer
    int64_t replica_epoch           # of the follower's registration; -1: unknown
    uint8_t *rack                   # of a consumer, in memory of its own; NULL: none, or unused
    int32_t rack_length
    int8_t fresh                    # not evaluated yet: the follower's offsets are still to be noted
    int8_t ready                    # in the reactor's ready list
    int8_t overdue                  # max_wait_ms has passed: it waits only for a storage thread
    int32_t max_wait_ms
    int32_t min_bytes
    int64_t max_bytes
    int32_t session_id              # in the reply
    int16_t error                   # top level
    int64_t arrived_bytes           # appended to its partitions since the last evaluation
    int64_t missing_bytes           # bytes that the last evaluation lacked of min_bytes
    int64_t cold_bytes              # bytes that storage threads are reading for it
    int64_t ahead_bytes             # bytes that this evaluation may still read ahead for its session
    int64_t throttled_ms            # until a partition is no longer throttled; 0: none is
    int64_t deadline_ms
    int64_t started_ns
    FetchSession *session
    FetchSet own                    # used when session is NULL
    FetchRequest *next_ready

# ---------------------------------------------------------------- commit mode

cdef struct CommitItem:
    # The work of a reactor once `frame` of the write-ahead log is on the medium.
    int64_t frame
    Partition *partition            # held; its durable end moves to end_offset
    int64_t end_offset
    int64_t cuts                    # Log.cuts then
    int64_t bytes                   # appended bytes, for waiting fetches
    ProducePart *part               # the part to answer; NULL: `partition` is set instead

cdef struct CommitQueue:
    # Appends of one reactor that are not durable yet, in the order of their frames: a ring.
    CommitQueue *next
    Wal *wal
    CommitItem *items
    int32_t head
    int32_t count
    int32_t capacity                # a power of two
    int8_t behind                   # something is staged that the write-ahead log's thread has no request to write

# ---------------------------------------------------------------- following

cdef enum FollowState:
    FOLLOW_FETCHING
    FOLLOW_DELAYED                  # until due_ms
    FOLLOW_ASKING                   # the leader's log start and end, after OFFSET_OUT_OF_RANGE
    FOLLOW_TRUNCATING               # a storage thread cuts the log
    FOLLOW_FAILED                   # until the control thread orders anew

cdef struct FollowPart:
    # A partition that this broker follows. Void once the partition is led, deleted or of another epoch.
    Partition *partition            # held
    Fetcher *fetcher
    int64_t id                      # in Reactor.follows
    uint8_t topic_id[16]
    int32_t leader_epoch
    int16_t told_error              # the last one that was reported to the control thread; 0: none
    int8_t failures                 # in a row; the pauses grow with them
    int8_t state
    int8_t in_session               # the leader's fetch session has it, with the next four values
    int8_t fetching                 # the request being written includes it
    int8_t included                 # and names it, because the session has other values
    int32_t sent_leader_epoch
    int32_t sent_fetched_epoch
    int64_t sent_offset
    int64_t sent_start_offset
    int64_t due_ms
    int64_t leader_end_offset       # the first answer of FOLLOW_ASKING; -1: not yet
    int64_t first_offset            # where the leader's log starts, within the batch that begins at the end of this
                                    # empty log; 0: the log end is fetched

cdef enum FetcherAsks:
    ASKS_NOTHING
    ASKS_FETCH
    ASKS_LEADER_END                 # ListOffsets, for part `asked`
    ASKS_LEADER_START

cdef struct Fetcher:
    # One of num.replica.fetchers connections to one leader, with the partitions that it fetches.
    Fetcher *next                   # of the reactor
    Reactor *reactor
    int32_t leader_id
    int32_t number
    char host[PEER_BYTES]           # numeric
    int32_t port
    Connection *connection          # NULL: not connected
    int64_t retry_ms                # no request before; FOLLOW_NEVER: nothing to request until something changes
    int64_t failures                # in a row
    int8_t throttled                # parts wait for the follower's quota
    int8_t asks                     # the request in flight
    int8_t unasked                  # parts were added since the request in flight was written
    int8_t hurries                  # the connection is closed because of them: no pause before the next one
    int64_t ordered_ms              # when a part was added last
    int64_t sent_ms                 # when it was sent
    int64_t asked                   # FollowPart.id of ListOffsets
    int32_t correlation_id
    int32_t session_id              # 0: none
    int32_t session_epoch           # of the next request
    FollowPart **parts
    int32_t count
    int32_t capacity
    int32_t synced                  # commit mode: parts[:synced] are on the medium
    int32_t asking                  # parts in FOLLOW_ASKING
    Writer request                  # scratch
    Writer forgotten                # partitions to remove from the session: 16 bytes of id and the index for each

cdef struct FollowOrder:
    # From the control thread: follow a partition.
    Partition *partition            # held
    int32_t leader_epoch
    int32_t leader_id
    int32_t number
    int32_t port
    char host[PEER_BYTES]

cdef struct TruncateJob:
    StorageJob base
    Reactor *reactor
    Partition *partition            # held
    int32_t leader_epoch
    int64_t follow_id
    int64_t offset
    int8_t fully                    # empty the log and start at `offset`
    int error

cdef struct ReplicationSettings:
    int32_t broker_id               # -1: no replication
    int64_t broker_epoch
    int32_t wait_max_ms             # replica.fetch.wait.max.ms
    int32_t min_bytes               # replica.fetch.min.bytes
    int32_t part_max_bytes          # replica.fetch.max.bytes
    int32_t response_max_bytes      # replica.fetch.response.max.bytes
    int64_t backoff_ms              # replica.fetch.backoff.ms
    int64_t socket_timeout_ms       # replica.socket.timeout.ms
    int64_t lag_max_ms              # replica.lag.time.max.ms
    int32_t fetchers                # num.replica.fetchers
    int8_t rack_aware               # replica.selector.class: consumers read in their rack
    ReplicaQuota leader_quota       # leader.replication.throttled.rate
    ReplicaQuota follower_quota     # follower.replication.throttled.rate

cdef enum:
    HINTED_MAX = 64                 # leaders named in one answer; clients look up the others

cdef struct LeaderHints:
    # The leaders that an answer names.
    int32_t count
    int32_t[HINTED_MAX] ids

cdef enum ReplicaEventKind:
    REPLICA_MAY_JOIN                # a: broker id, b: its epoch
    REPLICA_LAGS                    # a: broker id, b: its log end
    FETCH_FAILED                    # a: error code, b: leader id
    REPLICA_TRUNCATED               # a: 0, b: the new log end

cdef struct ReplicaEvent:
    ReplicaEvent *next
    int32_t kind
    Partition *partition            # held
    int32_t leader_epoch
    int64_t a
    int64_t b

cdef struct Endpoint:
    # A broker's address, for clients that reached the wrong one (KIP-951).
    int32_t id
    int32_t port
    int32_t rack_length             # -1: null
    int32_t host_length
    char host[256]
    char rack[256]

# ---------------------------------------------------------------- reactors

cdef enum MailKind:
    MAIL_CONNECTION                 # a = fd, b = listener
    MAIL_REPLY                      # a = connection id, b = slot, data: chunk (NULL closes)
    MAIL_CLOSE                      # a = connection id
    MAIL_WAKE_FETCH                 # a = fetch id
    MAIL_ACK                        # data: ProducePart that the high watermark has passed
    MAIL_SLOW_BATCH                 # data: ProducePart, its entry replaced or its error set
    MAIL_FOLLOW                     # data: FollowOrder
    MAIL_TRUNCATED                  # data: TruncateJob that is done
    MAIL_STOP

cdef struct Mail:
    int32_t kind
    int64_t a
    int64_t b
    void *data

cdef struct Mailbox:
    pthread_mutex_t lock
    int event_fd
    Mail *mails
    int32_t count
    int32_t capacity

cdef struct Timer:
    int64_t due_ms                  # CLOCK_MONOTONIC
    int64_t id                      # fetch id, or -(produce id); the request may no longer exist

cdef struct TimerHeap:
    Timer *items
    int32_t count
    int32_t capacity

cdef struct IdTable:
    # From ids to pointers. Ids carry a generation, so that a stale one finds nothing.
    void **items
    int32_t *generations
    int32_t *free
    int32_t free_count
    int32_t capacity
    int32_t used

cdef struct ApiCounters:
    int64_t requests
    int64_t errors
    int64_t total_us
    int64_t buckets[LATENCY_BUCKETS]

cdef struct Reactor:
    Plane *plane
    int32_t index
    int epoll_fd
    pthread_t thread
    int32_t running
    Mailbox mailbox
    BufferPool pool
    IdTable connections
    IdTable fetches
    IdTable produces                # requests that wait for a high watermark or a slow batch
    TimerHeap timers
    int64_t now_ms                  # CLOCK_MONOTONIC, refreshed each pass
    int64_t wall_ms                 # CLOCK_REALTIME, refreshed each pass
    Partition **dirty               # partitions with pending batches of this reactor
    int32_t dirty_count
    int32_t dirty_capacity
    int64_t pending_bytes
    AppendEntry **entries           # scratch for one log_append
    int32_t entries_capacity
    Connection **touched            # connections that received in this pass: their buffers are settled after the flush
    int32_t touched_count
    int32_t touched_capacity        # of each of the three lists: room for every open connection
    Connection **to_flush           # connections with data to send
    int32_t to_flush_count
    Connection **stalled            # the longest stalled first
    int32_t stalled_count
    int32_t stalled_on_wals         # how many of these wait for a write-ahead log
    Connection *resume_head         # connections whose earlier requests are answered: their next ones go on
    Connection *resume_tail
    FetchRequest *ready_fetches
    FetchSession **sessions         # SESSION_BUCKETS chains, by id
    int32_t session_count
    int64_t session_bytes           # memory of all sessions
    uint32_t session_seed
    Writer scratch
    int64_t idle_check_due_ms
    int64_t accept_again_ms         # reactor 0: listeners accept again then; 0: they accept now
    Pacer pacer
    CommitQueue *commits            # one for each write-ahead log it has appended to
    void *ring                      # writes frames of write-ahead logs; NULL: their threads do it
    Connection *parked_head         # connections that wait for room, in the order they were parked
    Connection *parked_tail
    int32_t parked_count
    int64_t slow_reserved           # counted for the current request and not used yet
    Fetcher *fetchers               # connections to leaders; NULL: this reactor follows nothing
    IdTable follows                 # FollowParts
    int64_t follow_due_ms           # the next time a fetcher acts by itself; 0: never
    # counters: this thread writes, any may read
    int64_t connections_open
    int64_t connections_accepted
    int64_t received_bytes
    int64_t sent_bytes
    ApiCounters produce
    ApiCounters fetch

cdef struct ControlMessage:
    ControlMessage *next
    int64_t connection_id
    int64_t slot
    RequestHeader header
    int32_t listener
    int64_t received_ns
    char peer[PEER_BYTES]
    ProducePart *part               # not NULL: a batch to check or recompress; body is the batch
    uint8_t *body                   # follows the struct, after the client id
    int64_t body_bytes
    int64_t counted_bytes           # in slow_waiting_bytes, for a request
    int8_t ended                    # not a request: the connection has ended

cdef struct PlaneEvent:
    int8_t level                    # 0 info, 1 warning, 2 error
    char name[32]
    char detail[512]

cdef struct ApiRange:
    int16_t lowest
    int16_t highest                 # -1: the API is not offered
    int16_t flexible_from

cdef struct Plane:
    int32_t reactor_count
    Reactor *reactors
    pthread_rwlock_t table_lock
    TopicTable table
    Partition *dead                 # removed partitions; the control thread frees them once refs is 0
    ApiRange apis[MAX_API_KEY]
    int8_t is_controller            # Fetch is that of the metadata log: the control thread answers it, too
    int64_t request_max_bytes
    int64_t fetch_max_bytes
    int32_t session_slots
    int64_t session_bytes_max       # of all sessions of a reactor; one session may have a quarter
    int64_t session_min_idle_ms
    int64_t connections_max_idle_ms
    int32_t next_reactor
    int *listeners
    int32_t listener_count
    # requests for the control thread
    pthread_mutex_t control_lock
    int control_fd
    ControlMessage *control_head
    ControlMessage *control_tail
    PlaneEvent events[EVENTS_KEPT]  # the oldest are kept, the rest are counted
    int32_t event_count
    int64_t events_dropped
    # slow batches over all connections, see slow_batches.pxd
    int64_t slow_max_bytes          # limit of each of the next two
    int64_t slow_waiting_bytes
    int64_t slow_working_bytes
    int32_t slow_parked             # connections
    int32_t slow_turn               # index + 1 of the reactor whose first parked connection is next; 0: any
    int32_t verifies                # transaction.partition.verification.enable
    int32_t slow_job_waits          # 1: wake the control thread when slow_working_bytes falls
    ReplicationSettings replication
    Endpoint *endpoints             # guarded by table_lock
    int32_t endpoint_count
    ReplicaEvent *replica_events    # guarded by control_lock; the oldest first
    ReplicaEvent *replica_events_tail
    Partition *advanced             # whose watched offset the high watermark has reached; guarded by control_lock
    int64_t followed_bytes          # appended as a follower
    StoragePool storage
