"""Fetch requests that are not answered yet, fetch sessions, and reads by storage threads."""
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint32_t, uint8_t
from bowstring._native.disk.thread_pool cimport StorageJob
from bowstring._native.log cimport ColdRead, Log, LogSlice, ReadCursor

cdef enum:
    FETCH_ENTRIES_MAX = 65536       # topics, or partitions, of one Fetch or session
    ZSTD_FETCH_VERSION = 10

# Before the cimports: structs of these files point to each other.
cdef struct Waiter
cdef struct ColdJob
cdef struct FetchPart
cdef struct FetchTopic
cdef struct Places
cdef struct FetchSet
cdef struct FetchSession
cdef struct FetchRequest

from bowstring._native.server.partition_types cimport Partition
from bowstring._native.server.quota_types cimport QuotaClient
from bowstring._native.server.reactor_types cimport Reactor

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
    int32_t subject                 # whose it is, as of the current evaluation
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
    QuotaClient *quota              # of a consumer; NULL: there were no quotas when it came
    int64_t spent_ns                # by the reactor
    int64_t throttle_ms             # in the answer
    FetchSession *session
    FetchSet own                    # used when session is NULL
    FetchRequest *next_ready
