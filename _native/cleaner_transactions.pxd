"""What the cleaner knows of transactions while it walks a log: Kafka's CleanedTransactionMetadata.

Data of aborted transactions goes; the marker of a transaction none of whose data is left may go, too.
"""
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from bowstring._native.batch cimport BatchInfo
from bowstring._native.log_types cimport LogState

cdef struct Aborted:
    # An entry of a .txnindex.
    int64_t producer_id
    int64_t first_offset
    int64_t last_offset
    int64_t last_stable_offset

cdef struct AbortedList:
    Aborted *items
    int32_t count
    int32_t capacity

cdef struct Seen:
    # A producer with a transaction under way at this point of the walk.
    int64_t producer_id
    int32_t aborted                 # index of its entry in Transactions.aborted; -1: none, so it will be committed
    int8_t used                     # the slot is taken
    int8_t data                     # data of it was met

cdef struct Transactions:
    AbortedList aborted             # by first offset
    int32_t next_aborted            # the first that the walk has not reached
    Seen *seen                      # open addressing by producer id, entries are never removed
    int32_t slots
    int32_t seen_count
    int8_t failed                   # no memory

cdef int aborted_add(AbortedList *list, const Aborted *item) noexcept nogil
# Adds what the segments' .txnindex files say of transactions that overlap [from_offset, to_offset). With Log.lock
# held. 0 or a negated errno.
cdef int transactions_load(
    Transactions *transactions, const LogState *state, int64_t from_offset, int64_t to_offset) noexcept nogil
# Begins a walk anew; the aborted transactions go.
cdef void transactions_clear(Transactions *transactions) noexcept nogil
# A batch of records: whether it belongs to an aborted transaction.
cdef bint transactions_data(Transactions *transactions, const BatchInfo *info) noexcept nogil
# A control batch: whether nothing needs it any more. *ended is the aborted transaction it ends if data of it was
# met on the way, else NULL.
cdef bint transactions_control(
    Transactions *transactions, const uint8_t *batch, const BatchInfo *info, const Aborted **ended) noexcept nogil
