"""A reactor: its thread, its tables and queues, its counters."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint8_t
from bowstring._native.base.pthread cimport pthread_t
from bowstring._native.base.wire cimport Writer
from bowstring._native.log cimport AppendEntry

cdef enum:
    REACTOR_SHIFT = 48              # outside a reactor, connection ids have its index above this bit
    POOL_CLASSES = 10               # receive buffers: RECEIVE_BUFFER_BYTES << class
    POOL_KEEP_MAX = 16              # free buffers kept of each class
    SESSION_BUCKETS = 1024          # of a reactor's hash table of fetch sessions
    LATENCY_BUCKETS = 28            # bucket i counts requests that took < 2**i microseconds

# Before the cimports: structs of these files point to each other.
cdef struct Timer
cdef struct TimerHeap
cdef struct IdTable
cdef struct ApiCounters
cdef struct BufferPool
cdef struct Reactor

from bowstring._native.server.access_types cimport ACCESS_KINDS, AccessDecision
from bowstring._native.server.commit_types cimport CommitQueue
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.fetch_types cimport FetchRequest, FetchSession
from bowstring._native.server.follow_types cimport Fetcher
from bowstring._native.server.lease_types cimport LEASED_APIS
from bowstring._native.server.mail_types cimport Mailbox
from bowstring._native.server.pacing cimport Pacer
from bowstring._native.server.partition_types cimport Partition
from bowstring._native.server.plane_types cimport Plane
from bowstring._native.server.produce_types cimport ProducePart
from bowstring._native.server.tls_types cimport TlsWork

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

cdef struct BufferPool:
    # Receive buffers by size class: RECEIVE_BUFFER_BYTES << class.
    uint8_t *free[POOL_CLASSES][POOL_KEEP_MAX]
    int32_t count[POOL_CLASSES]

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
    TimerHeap mutes                 # ids of connections that are read from again then
    int64_t now_ms                  # CLOCK_MONOTONIC, refreshed each pass
    int64_t wall_ms                 # CLOCK_REALTIME, refreshed each pass
    Partition **dirty               # partitions with pending batches of this reactor
    int32_t dirty_count
    int32_t dirty_capacity
    int64_t pending_bytes
    ProducePart *deferred_head      # batches that later passes append (deferred_batches.pxd)
    ProducePart *deferred_tail
    int64_t deferred_bytes
    int32_t pass_cost               # of the batches that this pass has admitted
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
    AccessDecision *decisions       # DECISIONS of them; NULL: none was needed yet
    int64_t idle_check_due_ms
    int32_t unauthenticated         # connections that are not in PHASE_OPEN
    int64_t accept_again_ms         # reactor 0: listeners accept again then; 0: they accept now
    int64_t accept_due_ms           # reactor 0: accept_resume() has something to do then; 0: nothing
    TimerHeap refusals              # reactor 0: sockets that are closed then, unread
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
    TlsWork *tls                    # NULL: it has had no connection with TLS
    # counters: this thread writes, any may read
    int64_t connections_open
    int64_t connections_accepted
    int64_t received_bytes
    int64_t sent_bytes
    int64_t deferred_batches        # so far
    int64_t denied[ACCESS_KINDS]
    int64_t tls_handshakes          # that succeeded
    int64_t tls_resumed             # of these, by a ticket
    int64_t tls_failures            # handshakes that did not succeed
    ApiCounters produce
    ApiCounters fetch
    ApiCounters list_offsets        # without those that the control thread answers
    ApiCounters leased[LEASED_APIS] # answered by leases
