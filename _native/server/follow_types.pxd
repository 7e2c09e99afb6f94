"""The partitions that a reactor follows, and its connections to their leaders."""
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint8_t
from bowstring._native.base.wire cimport Writer
from bowstring._native.disk.thread_pool cimport StorageJob

# Before the cimports: structs of these files point to each other.
cdef struct FollowPart
cdef struct Fetcher
cdef struct FollowOrder
cdef struct TruncateJob
cdef struct Dial
cdef struct FollowLink

from bowstring._native.server.connection_limits cimport PEER_BYTES
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.partition_types cimport Partition
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.tls.stream_types cimport TlsStream

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
    FollowLink *link                # the next connection, which the control thread has made; NULL: none
    int64_t dial                    # the order to make one that is unanswered; 0: none
    int64_t dials                   # orders so far
    int64_t dial_due_ms             # its answer is lost then
    int64_t renew_ms                # the login of `connection` holds until some time later; 0: for good
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

cdef struct Dial:
    # To the control thread: connect to a leader whose listener has TLS or SASL.
    Dial *next
    int32_t reactor
    int32_t leader_id
    int32_t number
    int64_t dial                    # Fetcher.dial

cdef struct FollowLink:
    # From the control thread: the connection of a Dial, or why there is none. Whoever has it owns socket and session.
    int32_t leader_id
    int32_t number
    int64_t dial
    int fd                          # -1: there is none
    TlsStream *tls                  # NULL: no TLS
    int64_t renew_ms                # when to replace it; 0: never
    char why[300]

cdef struct TruncateJob:
    StorageJob base
    Reactor *reactor
    Partition *partition            # held
    int32_t leader_epoch
    int64_t follow_id
    int64_t offset
    int8_t fully                    # empty the log and start at `offset`
    int error
