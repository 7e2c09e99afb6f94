"""Topics and their partitions, which reactors share; see plane_types.pxd for who owns what."""
from libc.stdint cimport int32_t, int64_t, int8_t, uint8_t
from bowstring._native.base.pthread cimport pthread_mutex_t
from bowstring._native.log cimport Log
from bowstring._native.record.schema_types cimport SchemaIds
from bowstring._native.replica.in_sync_replicas cimport ReplicaSet
from cpython.object cimport PyObject

# Before the cimports: structs of these files point to each other.
cdef struct Topic
cdef struct PendingList
cdef struct Partition

from bowstring._native.server.fetch_types cimport Waiter
from bowstring._native.server.plane_types cimport Plane
from bowstring._native.server.produce_types cimport ProducePart

cdef struct Topic:
    uint8_t id[16]
    int32_t name_length
    uint8_t *name                   # NUL-terminated, for log lines
    int64_t serial                  # of no other topic of this process, also if it has the same name
    int8_t internal                 # clients may not produce to it
    SchemaIds *key_schemas          # that keys may have, where LogConfig.schemas requires one; NULL: none is known
    SchemaIds *value_schemas
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
