"""State of a partition's idempotent and transactional producers (KIP-98, KIP-360, KIP-890).

Kafka's ProducerStateManager: the last five batches of each producer, ongoing transactions, and the
.snapshot files. Call all functions under Log.lock.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from bowstring._native.log.types cimport (
    Log, LogState, Producer, Producers, RememberedBatch, Transaction, TransactionList)
from bowstring._native.record.batch cimport BatchInfo

cdef enum:
    SNAPSHOT_HEADER_BYTES = 10      # of a .snapshot: version int16, CRC-32C of the bytes after it uint32, count int32

cdef struct Marker:
    # The record of a control batch that ends a transaction.
    int32_t coordinator_epoch
    int8_t aborted

cdef struct CompletedTransaction:
    int64_t producer_id
    int64_t first_offset            # -1: the marker ended nothing
    int64_t last_offset             # the marker's
    int64_t last_stable_offset      # after the marker
    int8_t aborted

# Finds the producer, or adds it; NULL when memory ran out.
cdef Producer *find_or_add(Producers *producers, int64_t producer_id) noexcept nogil
cdef bint transaction_add(TransactionList *list, const Transaction *item) noexcept nogil   # False when memory ran out
cdef Producer *producer_find(const Producers *producers, int64_t producer_id) noexcept nogil

# Checks a client's batch as Kafka does: 0 or an error code. Sets *duplicate if the batch was written before.
# Changes nothing. `verification` is the token that a transactional batch carries (verification.pxd). A batch of the group
# coordinator has no sequence numbers: none are checked then.
cdef int16_t producer_check(
    const Producers *producers, const BatchInfo *info, int64_t verification,
    const RememberedBatch **duplicate) noexcept nogil
# From transaction version 2 on, the marker's epoch is above that of the transaction (KIP-1228); a marker that is written
# again is accepted.
cdef int16_t marker_check(
    const Producers *producers, const BatchInfo *info, const Marker *marker, int8_t transaction_version) noexcept nogil
# Returns the token for the coordinator's verification of a transactional batch; 0 when none is needed, -1 when memory
# ran out. `adds`: the partition is added to the transaction, not only looked for in it.
cdef int64_t producer_verify(
    Producers *producers, const BatchInfo *info, bint adds, int64_t now_ms) noexcept nogil
# Whether the control batch ends a transaction; then fills *marker.
cdef bint marker_read(const uint8_t *batch, const BatchInfo *info, Marker *marker) noexcept nogil

# Records a batch that is now in the log. False when memory ran out.
cdef bint producer_update(Producers *producers, const BatchInfo *info) noexcept nogil
# `raises_epoch`: see verification_forget.
cdef bint producer_end_transaction(Producers *producers, const BatchInfo *info, const Marker *marker, bint raises_epoch,
                                   CompletedTransaction *out) noexcept nogil

# First offset of a transaction that is ongoing, or whose marker is not below the high watermark; -1: none.
cdef int64_t first_unstable_offset(const Producers *producers) noexcept nogil
cdef void producers_on_high_watermark(Producers *producers, int64_t offset) noexcept nogil
cdef int32_t producers_expire(Producers *producers, int64_t now_ms, int64_t expiration_ms) noexcept nogil
cdef void producers_clear(Producers *producers) noexcept nogil
cdef void producers_free(Producers *producers) noexcept nogil

# Snapshots. The functions return 0 or a negated errno.
cdef int snapshot_take(LogState *state) noexcept nogil
# Renames an empty snapshot, whose only content is the offset in its name. False: it is not there, or memory ran out.
cdef bint snapshot_rename(LogState *state, int64_t old, int64_t new) noexcept nogil
cdef int snapshot_load(LogState *state, int64_t offset, int64_t now_ms, int64_t expiration_ms) noexcept nogil
cdef bint snapshot_known(Producers *producers, int64_t offset) noexcept nogil    # adds it; False when memory ran out
cdef int64_t snapshot_newest(const Producers *producers) noexcept nogil          # -1: none
cdef void snapshot_forget(Producers *producers, int64_t offset) noexcept nogil

# Reads the batches that a snapshot lacks from the end of the log: a producer may retry any of its last five batches, but a
# snapshot in Kafka's format has only one. Returns 0 or a negated errno.
cdef int producers_recall(Log *log, int64_t now_ms) noexcept nogil
