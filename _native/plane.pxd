"""The structures that reactors share: read this first.

Ownership
- A Reactor owns its connections, their buffers and replies, and the requests waiting on it. Only its own
  thread touches them.
- A Partition is shared. `refs` counts who holds it: the table (one), and every waiting request or fetch
  session. The control thread frees it, never a reactor, because it holds a Python PartitionLog.
- `Plane.table_lock` is held for reading through each pass of a reactor's loop, never while it sleeps; the
  control thread takes it for writing to add or remove partitions. So a partition found during a pass stays
  usable until the pass ends, and one seen with `deleted` set is not touched again.
- Partition.waiters_lock guards its two waiter lists. It is a leaf but for Mailbox.lock.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
from cpython.object cimport PyObject
from bowstring._native.log cimport AppendEntry, Log, LogSlice, ReadCursor, SegmentFile
from bowstring._native.log_cold cimport ColdRead
from bowstring._native.pacing cimport Pacer
from bowstring._native.storage cimport StorageJob, StoragePool
from bowstring._native.wal_types cimport Wal
from bowstring._native.wire cimport Writer

cdef extern from "pthread.h" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_rwlock_t:
        pass
    ctypedef unsigned long pthread_t

cdef enum:
    MAX_REACTORS = 16
    MAX_API_KEY = 128
    RECEIVE_BUFFER_BYTES = 262144
    FLUSH_BYTES = 262144            # appended per partition pass: stays inside the L2 cache
    SENDFILE_MIN_BYTES = 16384      # below it one copy into the reply is cheaper than a second system call
    LATENCY_BUCKETS = 28            # bucket i counts requests that took < 2**i microseconds

cdef enum:
    CODEC_ZSTD = 4
    ZSTD_PRODUCE_VERSION = 7        # KIP-110: older clients do not know the codec
    ZSTD_FETCH_VERSION = 10

cdef enum ErrorCode:
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    INVALID_TOPIC_EXCEPTION = 17
    NOT_ENOUGH_REPLICAS = 19
    INVALID_REQUIRED_ACKS = 21
    INVALID_TXN_STATE = 48
    KAFKA_STORAGE_ERROR = 56
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    INVALID_RECORD = 87
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_TOPIC_ID = 103
    FETCH_SESSION_TOPIC_ID_ERROR = 106

# ---------------------------------------------------------------- topics and partitions

cdef struct Topic:
    uint8_t id[16]
    int32_t name_length
    uint8_t *name                   # NUL-terminated for the log's sake
    int8_t internal                 # clients may not produce to it
    int32_t partition_count
    Partition **partitions          # by index; NULL where this broker has none
    Topic *next_by_name             # hash chains
    Topic *next_by_id

cdef struct PendingList:
    # Batches that one reactor has validated for one partition and not yet written.
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
    int32_t replicated              # 1: high watermark is moved by replication, not by the append itself
    int32_t in_sync_replicas
    int32_t min_insync_replicas
    Log *log                        # NULL: it is in a log directory that could not be opened
    PyObject *log_owner             # the PartitionLog; dropped by the control thread
    pthread_mutex_t waiters_lock
    Waiter *fetch_waiters           # doubly linked
    ProducePart *ack_waiters        # acks=all, waiting for the high watermark
    int32_t slow_batches            # being checked or recompressed by the control thread: later ones queue behind
    PendingList *pending            # one for each reactor
    Partition *next_dead
    int64_t fetched_bytes           # counters, approximate across reactors
    int64_t fetched_records         # by offsets: what compaction has removed counts too
    int64_t failed_produces
    int64_t failed_fetches

cdef struct TopicTable:
    Topic **by_name
    Topic **by_id
    uint32_t mask
    int32_t count

# ---------------------------------------------------------------- connections

cdef struct Chunk:
    # A piece of a reply: bytes that follow the struct, or a range of a segment file.
    Chunk *next
    SegmentFile *file               # NULL: bytes
    int64_t position                # next byte to send, in data or in the file
    int64_t end
    int64_t capacity                # of the bytes
    uint8_t *data

cdef struct Slot:
    # Place of one request's reply in the order the requests came.
    int8_t ready
    int8_t ends                     # nothing follows: the connection is closed once what came before is sent
    Chunk *head
    int64_t held_bytes              # of the request, while the control thread has it

cdef struct Connection:
    int fd
    int64_t id
    Reactor *reactor
    int32_t listener
    char peer[64]
    uint8_t *buffer                 # borrowed from the reactor's pool while there are unread bytes
    int64_t capacity
    int64_t start
    int64_t end
    Slot *slots                     # ring of slot_capacity, a power of two
    int64_t slot_capacity
    int64_t head_slot               # oldest unanswered
    int64_t tail_slot               # next to be given out
    Chunk *out_head
    Chunk *out_tail
    int64_t out_bytes               # memory held by queued replies; file ranges count nothing
    int64_t held_bytes              # memory held by requests that the control thread has not answered
    int8_t in_flush_list
    int8_t reading                  # EPOLLIN is on
    int8_t writing                  # EPOLLOUT is on
    int8_t refusing                 # a slot ends it: what else is in the buffer is not looked at
    int8_t ending                   # and that slot's turn has come
    int8_t closing
    int8_t touched                  # in this pass's list of connections to settle
    FetchRequest *fetches           # waiting here
    int64_t last_active_ms
    int64_t requests

cdef struct BufferPool:
    # Receive buffers by size class: RECEIVE_BUFFER_BYTES << class.
    uint8_t *free[10][16]
    int32_t count[10]

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
    int8_t slow
    int16_t error
    int32_t bad_record
    const char *reason
    int64_t required_offset         # high watermark that answers it
    int64_t log_start_offset
    uint8_t *owned                  # a recompressed batch to free
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
    int64_t id                      # in Reactor.produces while it waits; -1: it never has
    int8_t timed                    # its timer runs
    ProduceTopic *topics
    ProducePart *parts
    uint8_t *names

cdef struct Waiter:
    # A fetch waiting on one partition.
    Waiter *next
    Waiter *previous
    Partition *partition
    Reactor *reactor
    FetchRequest *request           # touched by its own reactor only
    int64_t fetch_id                # what other threads name it by
    int8_t listed

cdef struct ColdJob:
    # What a storage thread reads for one FetchPart. Both hold it; it holds the partition, and so the log. The storage
    # thread writes reads[i] and errors[i] and then `pieces`; the reactor reads what is below `pieces`.
    StorageJob base
    int32_t refs
    int32_t pieces                  # done: 2, and the job is over
    int64_t fetch_id                # woken after each piece; 0: nobody
    Reactor *reactor
    Partition *partition
    Log *log                        # the partition's when the job began
    char topic[250]                 # its name, for events
    int8_t ahead                    # goes on after the first piece
    ColdRead reads[2]
    int errors[2]                   # negated errno; ESTALE: look again
    # the reactor's own
    int32_t taken
    int8_t wanted                   # a fetch waits, or has waited, for its first piece

cdef struct FetchPart:
    Partition *partition            # held; NULL while unknown
    int32_t topic                   # index into FetchSession.topics / FetchRequest.topics
    int32_t index
    int32_t max_bytes
    int32_t current_leader_epoch
    int32_t last_fetched_epoch
    int64_t fetch_offset
    ReadCursor cursor
    int8_t included                 # in the reply being written
    int64_t sent_high_watermark     # what the session last told the client
    int64_t sent_log_start_offset
    # result of the evaluation at hand
    int16_t error
    int32_t diverging_epoch
    int64_t diverging_end_offset
    int64_t high_watermark
    int64_t last_stable_offset
    int64_t log_start_offset
    LogSlice slice
    Waiter waiter
    ColdJob *cold                   # under way for this reader, or NULL
    int64_t cold_end                # size of the segment that cursor.warm is in

cdef struct FetchTopic:
    uint8_t *name                   # malloc'd; NULL when the request names the id
    int32_t name_length
    uint8_t id[16]

cdef struct Places:
    # Open addressing: place in an array + 1, 0 is free. Empty while the array is short enough to be searched.
    int32_t *slots
    uint32_t mask

cdef struct FetchSet:
    # The partitions of one fetch: a session's, or one request's own.
    FetchTopic *topics
    int32_t topic_count
    int32_t topic_capacity
    FetchPart *parts
    int32_t part_count
    int32_t part_capacity
    Places topic_places             # where in the arrays above each is
    Places part_places
    int32_t first                   # where the next evaluation begins, so that none starves
    bint by_id

cdef struct FetchSession:
    int32_t id
    int32_t epoch                   # the next request must carry it
    FetchSet set
    FetchRequest *waiting           # at most one
    int64_t last_used_ms
    FetchSession *next

cdef struct FetchRequest:
    int64_t id
    int64_t connection_id
    int64_t slot
    int32_t correlation_id
    int16_t version
    int8_t isolation
    int8_t incremental              # answer only what changed
    int8_t waiting                  # its waiters are listed
    int32_t replica_id              # -1: a consumer
    int8_t ready                    # in the reactor's ready list
    int8_t overdue                  # its time is over: it waits for a storage thread only
    int32_t max_wait_ms
    int32_t min_bytes
    int64_t max_bytes
    int32_t session_id              # in the reply
    int16_t error                   # top level
    int64_t arrived_bytes           # appended to its partitions since the last look
    int64_t missing_bytes           # what that look fell short of min_bytes
    int64_t deadline_ms
    int64_t started_ns
    FetchSession *session
    FetchSet own                    # used when session is NULL
    FetchRequest *next              # among its connection's
    FetchRequest *previous
    FetchRequest *next_ready

# ---------------------------------------------------------------- commit mode

cdef struct CommitItem:
    # What a reactor does once the write-ahead log has passed `frame`.
    int64_t frame
    Partition *partition            # held; its durable end moves to end_offset
    int64_t end_offset
    int64_t bytes                   # appended, for those who fetch
    ProducePart *part               # or NULL; then the batch is answered, too

cdef struct CommitQueue:
    # Appends of one reactor on their way to the medium, in the order of their frames: a ring.
    CommitQueue *next
    Wal *wal
    CommitItem *items
    int32_t head
    int32_t count
    int32_t capacity                # a power of two
    int8_t kicked                   # the write-ahead log knows of everything staged

# ---------------------------------------------------------------- reactors

cdef enum MailKind:
    MAIL_CONNECTION                 # a = fd, b = listener
    MAIL_REPLY                      # a = connection id, b = slot, data: chunk (NULL closes)
    MAIL_CLOSE                      # a = connection id
    MAIL_WAKE_FETCH                 # a = fetch id
    MAIL_ACK                        # data: ProducePart whose high watermark has come
    MAIL_SLOW_BATCH                 # data: ProducePart, its entry replaced or its error set
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
    int64_t id                      # fetch id, or -(produce id): looked up, may be gone

cdef struct TimerHeap:
    Timer *items
    int32_t count
    int32_t capacity

cdef struct IdTable:
    # Small integers to pointers with a generation, so that a stale id finds nothing.
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
    int64_t buckets[28]

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
    IdTable produces                # those waiting for a high watermark or a slow batch
    TimerHeap timers
    int64_t now_ms                  # CLOCK_MONOTONIC, refreshed each pass
    int64_t wall_ms                 # CLOCK_REALTIME, refreshed each pass
    Partition **dirty               # partitions with pending batches of this reactor
    int32_t dirty_count
    int32_t dirty_capacity
    int64_t pending_bytes
    AppendEntry **entries           # scratch for one log_append
    int32_t entries_capacity
    Connection **touched            # received from in this pass: settle their buffers after the flush
    int32_t touched_count
    int32_t touched_capacity        # of both lists: room for every open connection
    Connection **to_flush           # have something to send
    int32_t to_flush_count
    FetchRequest *ready_fetches
    FetchSession **sessions         # hash by id
    int32_t session_count
    uint32_t session_seed
    Writer scratch
    int64_t idle_check_due_ms
    int64_t accept_again_ms         # reactor 0: listeners rest until then; 0: they do not
    Pacer pacer
    CommitQueue *commits            # one for each write-ahead log it has appended to
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
    char peer[64]
    ProducePart *part               # not NULL: a batch to check or recompress; body is the batch
    uint8_t *body                   # follows the struct, after the client id
    int64_t body_bytes

cdef struct PlaneEvent:
    int8_t level                    # 0 info, 1 warning, 2 error
    char name[32]
    char detail[512]

cdef struct ApiRange:
    int16_t lowest
    int16_t highest                 # -1: not offered
    int16_t flexible_from

cdef struct Plane:
    int32_t reactor_count
    Reactor *reactors
    pthread_rwlock_t table_lock
    TopicTable table
    Partition *dead                 # removed, freed by the control thread once refs is 0
    ApiRange apis[128]
    int64_t request_max_bytes
    int64_t fetch_max_bytes
    int32_t session_slots
    int64_t session_min_idle_ms
    int64_t connections_max_idle_ms
    int32_t next_reactor
    int *listeners
    int32_t listener_count
    int connection_fd_max           # descriptors above it are left to the logs
    # requests for the control thread
    pthread_mutex_t control_lock
    int control_fd
    ControlMessage *control_head
    ControlMessage *control_tail
    PlaneEvent events[64]           # oldest kept; the rest are counted
    int32_t event_count
    int64_t events_dropped
    StoragePool storage
