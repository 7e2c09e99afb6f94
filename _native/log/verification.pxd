"""Transactions to be verified by the coordinator before a producer's first batch is appended (KIP-890). Call under Log.lock.

A partition keeps a row for each producer to be verified. The row has a token: a batch may begin a transaction only if it
carries the token of the row. The row goes when its transaction has begun and no batch waits any more, or with a marker: an answer
that came before the marker begins nothing after it.
"""
from libc.stdint cimport int16_t, int32_t, int64_t
from bowstring._native.log.types cimport Producers, Verification
from bowstring._native.record.batch cimport BatchInfo

cdef enum:
    NOT_VERIFIED = -1               # token of an append that the broker does not verify
    VERIFICATIONS_MAX = 1024        # rows of a partition; beyond it, rows without waiting batches are dropped

cdef Verification *verification_find(const Producers *producers, int64_t producer_id) noexcept nogil    # NULL: none
# Adds the batch to the row of its producer, which is made if there is none. Returns the token; 0 when memory ran out.
cdef int64_t verification_begin(
    Producers *producers, const BatchInfo *info, bint adds, int64_t now_ms) noexcept nogil
# One waiting batch has its answer.
cdef void verification_done(Producers *producers, int64_t producer_id, int64_t token) noexcept nogil
# A transactional batch is appended: the row goes unless others wait, which later batches must not pass.
cdef void verification_used(Producers *producers, int64_t producer_id) noexcept nogil
# A marker ends the producer's transaction: its tokens are void. `raises_epoch`: the marker's epoch is that of the next
# transaction (transaction version 2), whose first batches may wait already; their tokens stay.
cdef void verification_forget(Producers *producers, const BatchInfo *marker, bint raises_epoch) noexcept nogil
cdef bint verifications_copy(Producers *to, const Producers *of) noexcept nogil     # False when memory ran out
cdef void verifications_expire(Producers *producers, int64_t now_ms, int64_t expiration_ms) noexcept nogil
