"""Connections and their replies. Each belongs to one reactor."""
from libc.stdint cimport int32_t, int64_t, int8_t, uint8_t
from bowstring._native.log cimport SegmentFile
from bowstring._native.wal.types cimport Wal

# Before the cimports: structs of these files point to each other.
cdef struct Chunk
cdef struct Slot
cdef struct Connection

from bowstring._native.server.accept_types cimport HostEntry
from bowstring._native.server.commit_types cimport CommitQueue
from bowstring._native.server.connection_limits cimport PEER_BYTES
from bowstring._native.server.fetch_types cimport FetchRequest
from bowstring._native.server.follow_types cimport Fetcher
from bowstring._native.server.lease_types cimport Lease
from bowstring._native.server.partition_types cimport Partition
from bowstring._native.server.quota_types cimport QuotaClient
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.tls.stream_types cimport TlsStream

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

cdef enum Phase:
    # What a connection may send.
    PHASE_OPEN                      # every request: it is authenticated, or its listener does not authenticate
    PHASE_CERTIFICATE               # nothing: the control thread maps its certificate to a principal
    PHASE_AUTHENTICATING            # ApiVersions, SaslHandshake and SaslAuthenticate
    PHASE_RAW_TOKENS                # SASL tokens without request headers, after SaslHandshake of version 0

cdef struct Connection:
    int fd
    int64_t id
    Reactor *reactor
    int32_t listener
    char peer[PEER_BYTES]
    int32_t subject                 # whose it is: an index in Plane.subjects; NO_SUBJECT for a Fetcher
    int8_t phase                    # a Phase
    int64_t phase_from_ms           # when PHASE_AUTHENTICATING began
    int64_t admitted_ms             # when it last ended; 0: never
    int64_t session_ends_ms         # KIP-368: requests after it must authenticate again; 0: never
    TlsStream *tls                  # NULL: plain text, or the handshake has not begun
    int8_t handshaking              # its events are in an epoll of TlsWork, and it is in a list there
    int64_t handshake_from_ms
    uint8_t host_group              # of its host, in TlsWork.begun_of
    Connection *next_handshake
    Connection *previous_handshake
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
    HostEntry *host                 # where it counts; NULL: this broker opened it
    int8_t gives_way                # it ends because brokers need room
    Lease *lease                    # of the request that its reactor may answer; NULL: none
    QuotaClient *quota              # of its last request; NULL: there were no quotas then
    int64_t muted_until_ms          # its requests are not read until then, as a quota is exceeded; 0: they are
    int8_t alone                    # its unanswered request is not a Produce, and so the only one
    int8_t watches_hangup           # EPOLLRDHUP is on
    int8_t ends_later               # the client has closed its side while muted, and sent requests before
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
