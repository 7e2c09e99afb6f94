"""Produce requests that are not answered yet."""
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint8_t
from bowstring._native.log cimport AppendEntry
from bowstring._native.record.batch cimport RecordErrors

cdef enum:
    ENTRIES_MAX = 100000            # most topics and partitions of one Produce, and most batches
    ZSTD_PRODUCE_VERSION = 7        # KIP-110: older clients do not support the codec
    ADDING_PRODUCE_VERSION = 12     # KIP-890: the broker adds the partition to the transaction

# Before the cimports: structs of these files point to each other.
cdef struct ProducePart
cdef struct ProduceTopic
cdef struct ProduceRequest

from bowstring._native.server.partition_types cimport Partition
from bowstring._native.server.quota_types cimport QuotaClient
from bowstring._native.server.reactor_types cimport Reactor

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
    uint8_t *owned                  # memory of a slow or deferred batch, freed once it is in the log
    int8_t uncounted                # `owned` is not part of Plane.slow_working_bytes
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
    QuotaClient *quota              # NULL: there were no quotas when it came
    int64_t size_bytes              # of the request
    int64_t spent_ns                # by the reactor
    int64_t throttle_ms             # in the answer
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
