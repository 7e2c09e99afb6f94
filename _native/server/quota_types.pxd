"""Client quotas: the rules that the control thread publishes, and the rates that reactors measure against them."""
from libc.stdint cimport int32_t, int64_t, int8_t, uint32_t
from bowstring._native.base.pthread cimport pthread_mutex_t
from bowstring._native.server.quota_window cimport QuotaWindow

cdef enum QuotaKind:
    QUOTA_PRODUCE                   # bytes of Produce requests per second
    QUOTA_FETCH                     # bytes of Fetch responses per second
    QUOTA_REQUEST                   # percent of one thread
    QUOTA_KINDS

cdef enum QuotaName:
    NAME_ABSENT
    NAME_DEFAULT
    NAME_GIVEN

cdef enum:
    QUOTA_CHAINS = 1024             # of a hash table
    BUCKETS_MAX = 32768             # further entities share one rate for each kind
    BUCKET_NAMES_MAX = 16777216     # the same, by the bytes of all names: a client id may have 32,767

# Before the cimports: structs of these files point to each other.
cdef struct QuotaRule
cdef struct QuotaBucket
cdef struct QuotaTable
cdef struct QuotaClient

cdef struct QuotaRule:
    # The quota of an entity. The names follow the struct.
    QuotaRule *next
    int8_t kind
    int8_t user_is                  # a QuotaName
    int8_t client_is
    int32_t user_length
    int32_t client_length
    double bound

cdef struct QuotaBucket:
    # The rate of an entity that a rule is for. The names follow the struct, and then the ring of the window.
    QuotaBucket *next               # in its chain
    int32_t refs                    # of QuotaClients; guarded by QuotaTable.lock
    int8_t kind
    int32_t user_length
    int32_t client_length
    pthread_mutex_t lock            # guards the fields below; nothing is taken under it
    double bound
    int64_t used_ms
    int64_t throttles
    int64_t throttled_ms
    QuotaWindow window

cdef struct QuotaTable:
    int32_t kinds                   # bits of the kinds that have rules; 0: quotas are off. Read without a lock
    int64_t generation              # of the rules. Read without a lock
    pthread_mutex_t lock            # guards the fields below. A bucket's lock is taken under it
    QuotaRule **rules               # QUOTA_CHAINS chains; NULL: none yet
    QuotaBucket **buckets           # the same
    int32_t bucket_count
    int64_t bucket_names            # bytes
    int64_t sweep_due_ms
    int32_t samples
    int64_t window_ms

cdef struct QuotaClient:
    # What quotas apply to the requests of a connection with one user and client id. One reactor owns it; the connection
    # and its unanswered requests hold it. The names follow the struct.
    int32_t refs
    int64_t generation              # of the rules that its buckets are for
    QuotaTable *table
    QuotaBucket *buckets[3]         # NULL: no quota
    int32_t subject                 # of the connection, and the generation of its entry
    uint32_t subject_generation
    int32_t user_length
    int32_t client_length
