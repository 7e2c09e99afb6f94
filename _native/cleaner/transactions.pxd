"""Transaction state of the cleaner while it walks a log: Kafka's CleanedTransactionMetadata.

Removes data of aborted transactions, and markers of transactions without remaining data.
"""
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from bowstring._native.log cimport LogState
from bowstring._native.record.batch cimport BatchInfo

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
    # A producer with an ongoing transaction at this point of the walk.
    int64_t producer_id
    int32_t aborted                 # index of its entry in Transactions.aborted; -1: none, so it will be committed
    int8_t used                     # the slot is taken
    int8_t data                     # the walk found data of it

cdef struct Transactions:
    AbortedList aborted             # by first offset
    int32_t next_aborted            # the first that the walk has not reached
    Seen *seen                      # open addressing by producer id, entries are never removed
    int32_t slots
    int32_t seen_count
    int8_t failed                   # no memory

cdef int aborted_add(AbortedList *list, const Aborted *item) noexcept nogil
# Adds the transactions in the segments' .txnindex files that overlap [from_offset, to_offset). Call it under Log.lock.
# Returns 0 or a negated errno.
cdef int transactions_load(
    Transactions *transactions, const LogState *state, int64_t from_offset, int64_t to_offset) noexcept nogil
# Clears the aborted transactions and starts a new walk.
cdef void transactions_clear(Transactions *transactions) noexcept nogil
# Returns whether a batch of records belongs to an aborted transaction.
cdef bint transactions_data(Transactions *transactions, const BatchInfo *info) noexcept nogil
# Returns whether a control batch is no longer needed. Sets *ended to the aborted transaction that it ends, if the walk
# found data of it; else to NULL.
cdef bint transactions_control(
    Transactions *transactions, const uint8_t *batch, const BatchInfo *info, const Aborted **ended) noexcept nogil
