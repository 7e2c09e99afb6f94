"""What a partition remembers of its idempotent and transactional producers (KIP-98, KIP-360, KIP-890).

Kafka's ProducerStateManager: the last five batches of each producer, ongoing transactions, and the
.snapshot files. Everything with Log.lock held.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from bowstring._native.batch cimport BatchInfo
from bowstring._native.log_types cimport LogState, Producer, Producers, RememberedBatch, Transaction, TransactionList

cdef struct Marker:
    # The record of a control batch that ends a transaction.
    int32_t coordinator_epoch
    int8_t aborted

cdef struct CompletedTransaction:
    int64_t producer_id
    int64_t first_offset            # -1: the marker ended nothing
    int64_t last_offset             # the marker's
    int64_t last_stable_offset      # as it is once the marker counts
    int8_t aborted

# The producer, entered when it is new; NULL without memory.
cdef Producer *find_or_add(Producers *producers, int64_t producer_id) noexcept nogil
cdef bint transaction_add(TransactionList *list, const Transaction *item) noexcept nogil   # False without memory
cdef Producer *producer_find(const Producers *producers, int64_t producer_id) noexcept nogil

# Whether Kafka would take this batch from a client: 0 or an error code; *duplicate is the remembered batch
# when it was written before. Changes nothing.
cdef int16_t producer_check(
    const Producers *producers, const BatchInfo *info, const RememberedBatch **duplicate) noexcept nogil
cdef int16_t marker_check(const Producers *producers, const BatchInfo *info, const Marker *marker) noexcept nogil
# Whether the control batch ends a transaction; then *marker is filled.
cdef bint marker_read(const uint8_t *batch, const BatchInfo *info, Marker *marker) noexcept nogil

# The batch is in the log: remember it. False without memory.
cdef bint producer_update(Producers *producers, const BatchInfo *info) noexcept nogil
cdef bint producer_end_transaction(
    Producers *producers, const BatchInfo *info, const Marker *marker, CompletedTransaction *out) noexcept nogil

# First offset that is not decided or whose marker readers cannot see yet; -1 for none.
cdef int64_t first_unstable_offset(const Producers *producers) noexcept nogil
cdef void producers_on_high_watermark(Producers *producers, int64_t offset) noexcept nogil
cdef int32_t producers_expire(Producers *producers, int64_t now_ms, int64_t expiration_ms) noexcept nogil
cdef void producers_clear(Producers *producers) noexcept nogil
cdef void producers_free(Producers *producers) noexcept nogil

# Snapshots. All answer 0 or a negated errno.
cdef int snapshot_take(LogState *state) noexcept nogil
cdef int snapshot_load(LogState *state, int64_t offset, int64_t now_ms, int64_t expiration_ms) noexcept nogil
cdef bint snapshot_known(Producers *producers, int64_t offset) noexcept nogil    # enters it; False without memory
cdef int64_t snapshot_newest(const Producers *producers) noexcept nogil          # -1: none
cdef void snapshot_forget(Producers *producers, int64_t offset) noexcept nogil
