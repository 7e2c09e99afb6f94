"""Transactions during a walk of the cleaner, see transactions.pxd."""
from libc.errno cimport EIO, ENOENT, ENOMEM
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free, qsort, realloc
from bowstring._native.base.bigendian cimport load_be64
from bowstring._native.disk.file_ops cimport PATH_BYTES, read_file
from bowstring._native.log cimport (
    ABORTED_ENTRY_BYTES, ENTRY_FIRST_OFFSET, ENTRY_LAST_OFFSET, ENTRY_LAST_STABLE_OFFSET, ENTRY_PRODUCER_ID,
    Marker, marker_read, segment_file_path)
from bowstring._native.record.batch cimport ATTR_TRANSACTIONAL


cdef int aborted_add(AbortedList *list, const Aborted *item) noexcept nogil:
    cdef Aborted *grown
    if list.count == list.capacity:
        grown = <Aborted *>realloc(list.items, (list.capacity * 2 + 16) * sizeof(Aborted))
        if grown == NULL:
            return -ENOMEM
        list.items = grown
        list.capacity = list.capacity * 2 + 16
    list.items[list.count] = item[0]
    list.count += 1
    return 0


cdef int by_first_offset(const void *a, const void *b) noexcept nogil:
    cdef int64_t x = (<const Aborted *>a).first_offset, y = (<const Aborted *>b).first_offset
    return (x > y) - (x < y)


cdef int transactions_load(Transactions *transactions, const LogState *state, int64_t from_offset,
                           int64_t to_offset) noexcept nogil:
    cdef char[PATH_BYTES] path
    cdef uint8_t *data
    cdef int64_t size_bytes, at
    cdef Aborted item
    cdef int32_t i
    cdef int error = 0
    for i in range(state.segment_count):
        if error != 0 or not state.segments[i].has_aborted:
            continue
        size_bytes = read_file(segment_file_path(path, state, state.segments[i], b".txnindex"), &data)
        if size_bytes < 0:
            return -EIO if size_bytes == -ENOENT else <int>size_bytes
        at = 0
        while at + ABORTED_ENTRY_BYTES <= size_bytes and error == 0:
            item.producer_id = load_be64(data + at + ENTRY_PRODUCER_ID)
            item.first_offset = load_be64(data + at + ENTRY_FIRST_OFFSET)
            item.last_offset = load_be64(data + at + ENTRY_LAST_OFFSET)
            item.last_stable_offset = load_be64(data + at + ENTRY_LAST_STABLE_OFFSET)
            if item.last_offset >= from_offset and item.first_offset < to_offset:
                error = aborted_add(&transactions.aborted, &item)
            at += ABORTED_ENTRY_BYTES
        free(data)
    if error == 0 and transactions.aborted.count > 1:
        qsort(transactions.aborted.items, transactions.aborted.count, sizeof(Aborted), &by_first_offset)
    return error


cdef void transactions_clear(Transactions *transactions) noexcept nogil:
    free(transactions.aborted.items)
    free(transactions.seen)
    transactions.aborted.items = NULL
    transactions.aborted.count = transactions.aborted.capacity = 0
    transactions.seen = NULL
    transactions.next_aborted = transactions.slots = transactions.seen_count = 0
    transactions.failed = False

# ---------------------------------------------------------------- producers with open transactions


cdef Seen *slot_of(Seen *seen, int32_t slots, int64_t producer_id) noexcept nogil:
    cdef uint32_t i = <uint32_t>((<uint64_t>producer_id * <uint64_t>0x9E3779B97F4A7C15) >> 32) & <uint32_t>(slots - 1)
    while seen[i].used and seen[i].producer_id != producer_id:
        i = (i + 1) & <uint32_t>(slots - 1)
    return &seen[i]


cdef Seen *producer_seen(Transactions *transactions, int64_t producer_id) noexcept nogil:
    """Finds or creates the producer's entry; NULL when memory ran out."""
    cdef Seen *grown
    cdef Seen *found
    cdef int32_t i, slots
    if transactions.seen_count * 2 >= transactions.slots:
        slots = transactions.slots * 2 if transactions.slots else 64
        grown = <Seen *>calloc(slots, sizeof(Seen))
        if grown == NULL:
            transactions.failed = True
            return NULL
        for i in range(transactions.slots):
            if transactions.seen[i].used:
                slot_of(grown, slots, transactions.seen[i].producer_id)[0] = transactions.seen[i]
        free(transactions.seen)
        transactions.seen = grown
        transactions.slots = slots
    found = slot_of(transactions.seen, transactions.slots, producer_id)
    if not found.used:
        found.used = True
        found.producer_id = producer_id
        found.aborted = -1
        transactions.seen_count += 1
    return found


cdef void reach(Transactions *transactions, int64_t offset) noexcept nogil:
    """Marks aborted transactions that begin at or below `offset` as ongoing."""
    cdef Seen *found
    while transactions.next_aborted < transactions.aborted.count \
            and transactions.aborted.items[transactions.next_aborted].first_offset <= offset:
        found = producer_seen(transactions, transactions.aborted.items[transactions.next_aborted].producer_id)
        if found == NULL:
            return
        if found.aborted < 0:
            found.aborted = transactions.next_aborted
            found.data = False
        transactions.next_aborted += 1


cdef bint transactions_data(Transactions *transactions, const BatchInfo *info) noexcept nogil:
    cdef Seen *found
    reach(transactions, info.base_offset + info.last_offset_delta)
    if not info.attributes & ATTR_TRANSACTIONAL:
        return False
    found = producer_seen(transactions, info.producer_id)
    if found == NULL:
        return False
    found.data = True
    return found.aborted >= 0


cdef bint transactions_control(Transactions *transactions, const uint8_t *batch, const BatchInfo *info,
                               const Aborted **ended) noexcept nogil:
    cdef Marker marker
    cdef Seen *found
    cdef bint needless
    ended[0] = NULL
    reach(transactions, info.base_offset + info.last_offset_delta)
    if not marker_read(batch, info, &marker):
        return info.record_count == 0                    # it is kept only for its producer's sequence
    found = producer_seen(transactions, info.producer_id)
    if found == NULL:
        return False
    if marker.aborted:
        needless = found.aborted < 0 or not found.data
        if not needless:
            ended[0] = &transactions.aborted.items[found.aborted]
        if found.aborted >= 0:
            found.data = False
        found.aborted = -1
        return needless
    needless = found.aborted >= 0 or not found.data
    if found.aborted < 0:
        found.data = False
    return needless
