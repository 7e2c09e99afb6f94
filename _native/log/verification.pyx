"""Verifications of transactions, see verification.pxd."""
from libc.stdint cimport INT16_MAX, INT32_MAX, int32_t, int64_t
from libc.stdlib cimport realloc
from bowstring._native.record.batch cimport BatchInfo


cdef Verification *verification_find(const Producers *producers, int64_t producer_id) noexcept nogil:
    cdef int32_t i
    for i in range(producers.verification_count):
        if producers.verifications[i].producer_id == producer_id:
            return &producers.verifications[i]
    return NULL


cdef void drop(Producers *producers, int32_t i) noexcept nogil:
    producers.verification_count -= 1
    producers.verifications[i] = producers.verifications[producers.verification_count]


cdef void drop_idle(Producers *producers) noexcept nogil:
    """Makes room among very many producers: one that is verified again gets a new row."""
    cdef int32_t i = producers.verification_count - 1
    while i >= 0:
        if producers.verifications[i].waiting == 0:
            drop(producers, i)
        i -= 1


cdef Verification *add(Producers *producers, int64_t producer_id) noexcept nogil:
    cdef Verification *grown
    cdef Verification *row
    cdef int32_t capacity = producers.verification_capacity
    if producers.verification_count >= VERIFICATIONS_MAX:
        drop_idle(producers)
    if producers.verification_count == capacity:
        capacity = capacity * 2 + 4
        grown = <Verification *>realloc(producers.verifications, capacity * sizeof(Verification))
        if grown == NULL:
            return NULL
        producers.verifications = grown
        producers.verification_capacity = capacity
    row = &producers.verifications[producers.verification_count]
    producers.verification_count += 1
    producers.last_token += 1
    row.producer_id = producer_id
    row.token = producers.last_token
    row.waiting = 0
    row.epoch = -1
    return row


cdef int64_t verification_begin(
        Producers *producers, const BatchInfo *info, bint adds, int64_t now_ms) noexcept nogil:
    cdef Verification *row = verification_find(producers, info.producer_id)
    if row == NULL:
        row = add(producers, info.producer_id)
    if row == NULL:
        return 0
    if info.producer_epoch > row.epoch:
        row.epoch = info.producer_epoch
        row.lowest_sequence = info.base_sequence if info.base_sequence >= 0 else INT32_MAX
    elif info.producer_epoch == row.epoch and 0 <= info.base_sequence < row.lowest_sequence:
        row.lowest_sequence = info.base_sequence
    row.adds = adds
    row.started_ms = now_ms
    row.waiting += 1
    return row.token


cdef void verification_done(Producers *producers, int64_t producer_id, int64_t token) noexcept nogil:
    cdef Verification *row = verification_find(producers, producer_id)
    if row != NULL and row.token == token and row.waiting > 0:
        row.waiting -= 1


cdef void verification_forget(Producers *producers, const BatchInfo *marker, bint raises_epoch) noexcept nogil:
    cdef Verification *row = verification_find(producers, marker.producer_id)
    if row != NULL and not (raises_epoch and row.epoch >= marker.producer_epoch and row.epoch < INT16_MAX):
        drop(producers, <int32_t>(row - producers.verifications))


cdef void verification_used(Producers *producers, int64_t producer_id) noexcept nogil:
    cdef Verification *row = verification_find(producers, producer_id)
    if row != NULL and row.waiting == 0:
        drop(producers, <int32_t>(row - producers.verifications))


cdef void verifications_expire(Producers *producers, int64_t now_ms, int64_t expiration_ms) noexcept nogil:
    cdef int32_t i = producers.verification_count - 1
    while i >= 0:
        if producers.verifications[i].waiting == 0 and now_ms - producers.verifications[i].started_ms >= expiration_ms:
            drop(producers, i)
        i -= 1


cdef bint verifications_copy(Producers *to, const Producers *of) noexcept nogil:
    cdef Verification *row
    cdef int32_t i
    to.last_token = of.last_token
    for i in range(of.verification_count):
        row = add(to, of.verifications[i].producer_id)
        if row == NULL:
            return False
        row[0] = of.verifications[i]
    to.last_token = of.last_token
    return True
