"""The plane: what its reactors and the control thread share. Read this first.

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
- A Subject is shared. A connection has a reference to it; see subject_types.pxd.
- A Fetcher and its FollowParts belong to one reactor.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint32_t
from bowstring._native.base.pthread cimport pthread_mutex_t, pthread_rwlock_t
from bowstring._native.disk.thread_pool cimport StoragePool
from bowstring._native.wal.types cimport WAL_REACTORS_MAX

cdef enum:
    MAX_REACTORS = WAL_REACTORS_MAX
    MAX_API_KEY = 128               # exclusive
    EVENTS_KEPT = 64                # events that wait for the control thread to log them

# Before the cimports: structs of these files point to each other.
cdef struct TopicTable
cdef struct PlaneEvent
cdef struct ApiRange
cdef struct Plane

from bowstring._native.server.access_types cimport PlaneAccess
from bowstring._native.server.accept_types cimport AcceptLimits
from bowstring._native.server.control_types cimport ControlMessage
from bowstring._native.server.follow_types cimport Dial
from bowstring._native.server.partition_types cimport Partition, Topic
from bowstring._native.server.quota_types cimport QuotaTable
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.server.replica_types cimport Endpoint, ReplicaEvent
from bowstring._native.server.replication_settings cimport ReplicationSettings
from bowstring._native.server.subject_types cimport SubjectTable
from bowstring._native.tls.stream_types cimport TlsPort

cdef struct TopicTable:
    Topic **by_name
    Topic **by_id
    uint32_t mask
    int32_t count
    int64_t serials                 # given to topics so far

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
    TlsPort **tls_ports             # by listener, NULL for plain text; guarded by table_lock
    int8_t *authenticates           # by listener: connections begin in PHASE_AUTHENTICATING
    int64_t sasl_max_bytes          # sasl.server.max.receive.size
    int64_t authentication_max_ms   # a connection that stays longer in PHASE_AUTHENTICATING is closed
    SubjectTable subjects
    PlaneAccess access
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
    Dial *dials                     # connections that fetchers need; guarded by control_lock
    Partition *advanced             # whose watched offset the high watermark has reached; guarded by control_lock
    int64_t followed_bytes          # appended as a follower
    QuotaTable quotas
    AcceptLimits accept
    StoragePool storage
