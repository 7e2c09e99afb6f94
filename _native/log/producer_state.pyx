"""Producer state, see producer_state.pxd.

Contents: the table · checks (with the errors of Kafka's ProducerAppendInfo) · updates · snapshots · recall (the batches
that a snapshot lacks).
"""
from libc.errno cimport EBADMSG, ENOMEM
from libc.stdint cimport INT16_MAX, INT32_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memmove
from bowstring._native.base.bigendian cimport load_be16, load_be32, load_be64, store_be16, store_be32, store_be64
from bowstring._native.base.crc cimport crc32c_update
from bowstring._native.base.error_codes cimport (
    INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, OUT_OF_ORDER_SEQUENCE_NUMBER, TRANSACTION_COORDINATOR_FENCED)
from bowstring._native.disk.file_ops cimport PATH_BYTES, file_ops, read_file, replace_file
from bowstring._native.log.index cimport offset_index_floor
from bowstring._native.log.segment cimport Walk, active_segment, last_offset_of, walk_peek, walk_start
from bowstring._native.log.segment_files cimport segment_file, segment_file_release, segment_path
from bowstring._native.log.types cimport REMEMBERED_BATCHES, Segment, SegmentFile, Verification, state_of
from bowstring._native.log.verification cimport (
    NOT_VERIFIED, verification_begin, verification_find, verification_forget, verification_used, verifications_expire)
from bowstring._native.record.batch cimport (
    ATTR_COMPRESSION_MASK, ATTR_CONTROL, ATTR_TRANSACTIONAL, BATCH_HEADER_BYTES, Record, record_read)

cdef enum:
    SNAPSHOT_VERSION = 1
    SNAPSHOT_CRC = 2
    SNAPSHOT_CHECKED = 6
    SNAPSHOT_ENTRY_BYTES = 46
    MARKER_KEY_BYTES = 4            # version int16, type int16: 0 abort, 1 commit
    MARKER_VALUE_BYTES = 6          # version int16, coordinator epoch int32
    # Bytes to read at the end: five batches of the usual largest size, and batches of others in between.
    RECALL_BYTES = 8388608
    # A producer without writes for this long no longer retries: Java's delivery.timeout.ms is two minutes.
    RETRY_MAX_MS = 900000

# ---------------------------------------------------------------- the table


cdef uint32_t slot_of(int64_t producer_id) noexcept nogil:
    return <uint32_t>((<uint64_t>producer_id * <uint64_t>0x9E3779B97F4A7C15) >> 32)


cdef Producer *producer_find(const Producers *producers, int64_t producer_id) noexcept nogil:
    cdef uint32_t i
    if producers.count == 0:
        return NULL
    i = slot_of(producer_id) & producers.mask
    while producers.table[i] != NULL:
        if producers.table[i].producer_id == producer_id:
            return producers.table[i]
        i = (i + 1) & producers.mask
    return NULL


cdef void place(Producer **table, uint32_t mask, Producer *producer) noexcept nogil:
    cdef uint32_t i = slot_of(producer.producer_id) & mask
    while table[i] != NULL:
        i = (i + 1) & mask
    table[i] = producer


cdef bint reserve(Producers *producers) noexcept nogil:
    """Makes room for one more entry, at a load of at most one half."""
    cdef Producer **table
    cdef uint32_t i, size
    if producers.table != NULL and <uint32_t>(producers.count + 1) * 2 <= producers.mask + 1:
        return True
    size = (producers.mask + 1) * 2 if producers.table != NULL else 4
    table = <Producer **>calloc(size, sizeof(Producer *))
    if table == NULL:
        return False
    if producers.table != NULL:
        for i in range(producers.mask + 1):
            if producers.table[i] != NULL:
                place(table, size - 1, producers.table[i])
        free(producers.table)
    producers.table = table
    producers.mask = size - 1
    return True


cdef Producer *find_or_add(Producers *producers, int64_t producer_id) noexcept nogil:
    cdef Producer *producer = producer_find(producers, producer_id)
    if producer == NULL and reserve(producers):
        producer = <Producer *>calloc(1, sizeof(Producer))
        if producer != NULL:
            producer.producer_id = producer_id
            producer.epoch = -1
            producer.coordinator_epoch = -1
            producer.last_timestamp = -1
            producer.txn_first_offset = -1
            place(producers.table, producers.mask, producer)
            producers.count += 1
    return producer


cdef int32_t producers_expire(Producers *producers, int64_t now_ms, int64_t expiration_ms) noexcept nogil:
    """Removes producers without writes for `expiration_ms` and without an ongoing transaction; returns their number."""
    cdef Producer **old = producers.table
    cdef Producer *producer
    cdef uint32_t i
    cdef int32_t gone = 0
    verifications_expire(producers, now_ms, expiration_ms)
    for i in range(producers.mask + 1 if old != NULL else 0):
        producer = old[i]
        if producer != NULL and producer.txn_first_offset < 0 \
                and now_ms - producer.last_timestamp >= expiration_ms:
            free(producer)
            old[i] = NULL
            gone += 1
    if gone == 0:
        return 0
    producers.count -= gone                              # chains are broken now: insert the others again
    producers.table = NULL
    if producers.count > 0:
        producers.table = <Producer **>calloc(producers.mask + 1, sizeof(Producer *))
        if producers.table == NULL:                      # no memory for a new table: repair the chains in place
            producers.table = old
            rechain(producers)
            return gone
        for i in range(producers.mask + 1):
            if old[i] != NULL:
                place(producers.table, producers.mask, old[i])
    else:
        producers.mask = 0
    free(old)
    return gone


cdef void rechain(Producers *producers) noexcept nogil:
    """Removes and inserts each producer again, until nothing moves."""
    cdef uint32_t i
    cdef bint moved = True
    cdef Producer *producer
    while moved:
        moved = False
        for i in range(producers.mask + 1):
            producer = producers.table[i]
            if producer != NULL:
                producers.table[i] = NULL
                place(producers.table, producers.mask, producer)
                moved = moved or producers.table[i] != producer


cdef void producers_clear(Producers *producers) noexcept nogil:
    cdef uint32_t i
    for i in range(producers.mask + 1 if producers.table != NULL else 0):
        free(producers.table[i])
    free(producers.table)
    producers.table = NULL
    producers.mask = 0
    producers.count = 0
    producers.ongoing.count = producers.unreplicated.count = 0
    producers.verification_count = 0


cdef void producers_free(Producers *producers) noexcept nogil:
    producers_clear(producers)
    free(producers.ongoing.items)
    free(producers.unreplicated.items)
    free(producers.verifications)
    free(producers.snapshots)
    producers.ongoing.items = producers.unreplicated.items = NULL
    producers.snapshots = NULL
    producers.verifications = NULL

# ---------------------------------------------------------------- checks


cdef int32_t last_sequence(const BatchInfo *info) noexcept nogil:
    """Sequences wrap from 2**31 - 1 to 0."""
    if info.base_sequence < 0:
        return -1
    return <int32_t>((<int64_t>info.base_sequence + info.last_offset_delta) & INT32_MAX)


cdef int32_t first_sequence(const RememberedBatch *batch) noexcept nogil:
    return <int32_t>((<int64_t>batch.last_sequence - batch.offset_delta) & INT32_MAX)


cdef const RememberedBatch *newest_batch(const Producer *producer) noexcept nogil:
    if producer.batch_count == 0:
        return NULL
    return &producer.batches[(producer.oldest + producer.batch_count - 1) % REMEMBERED_BATCHES]


cdef const RememberedBatch *remembered(const Producer *producer, const BatchInfo *info) noexcept nogil:
    cdef int i
    cdef const RememberedBatch *batch
    for i in range(producer.batch_count):
        batch = &producer.batches[(producer.oldest + i) % REMEMBERED_BATCHES]
        if batch.last_sequence == last_sequence(info) and first_sequence(batch) == info.base_sequence:
            return batch
    return NULL


cdef int16_t check_sequence(const Producer *producer, const BatchInfo *info) noexcept nogil:
    """An unknown or expired producer may begin at any sequence; a new epoch begins at 0."""
    cdef const RememberedBatch *newest
    cdef int64_t last
    if producer.epoch < 0:
        return 0
    if info.producer_epoch != producer.epoch:
        return 0 if info.base_sequence == 0 else OUT_OF_ORDER_SEQUENCE_NUMBER
    newest = newest_batch(producer)
    last = newest.last_sequence if newest != NULL else -1
    if info.base_sequence == last + 1 or (info.base_sequence == 0 and last == INT32_MAX):
        return 0
    return OUT_OF_ORDER_SEQUENCE_NUMBER


cdef bint is_ongoing(const Producer *producer, const BatchInfo *info) noexcept nogil:
    return producer != NULL and producer.txn_first_offset >= 0 and producer.epoch == info.producer_epoch


cdef const RememberedBatch *duplicate_of(const Producer *producer, const BatchInfo *info) noexcept nogil:
    if producer == NULL or info.base_sequence < 0 or info.producer_epoch != producer.epoch:
        return NULL
    return remembered(producer, info)


cdef int16_t check_verified(const Producers *producers, const Producer *producer, const BatchInfo *info,
                            int64_t verification) noexcept nogil:
    """Whether the coordinator has confirmed that this batch begins a transaction here."""
    cdef const Verification *row = verification_find(producers, info.producer_id)
    if row == NULL or row.token != verification:
        return INVALID_TXN_STATE
    if info.base_sequence < 0:
        return 0
    if row.adds and producer == NULL and info.base_sequence != 0:
        return OUT_OF_ORDER_SEQUENCE_NUMBER
    if info.producer_epoch == row.epoch and info.base_sequence > row.lowest_sequence:
        return OUT_OF_ORDER_SEQUENCE_NUMBER
    return 0


cdef int16_t producer_check(const Producers *producers, const BatchInfo *info, int64_t verification,
                            const RememberedBatch **duplicate) noexcept nogil:
    cdef const Producer *producer = producer_find(producers, info.producer_id)
    cdef bint transactional = info.attributes & ATTR_TRANSACTIONAL != 0
    cdef int16_t error = 0
    duplicate[0] = duplicate_of(producer, info)
    if duplicate[0] != NULL:
        return 0
    if transactional and verification != NOT_VERIFIED and not is_ongoing(producer, info):
        error = check_verified(producers, producer, info, verification)
    if error != 0 or producer == NULL:
        return error
    if info.producer_epoch < producer.epoch:
        return INVALID_PRODUCER_EPOCH
    if info.base_sequence >= 0:
        error = check_sequence(producer, info)
    if error == 0 and producer.txn_first_offset >= 0 and not transactional:
        return INVALID_TXN_STATE
    return error


cdef int64_t producer_verify(
        Producers *producers, const BatchInfo *info, bint adds, int64_t now_ms) noexcept nogil:
    cdef const Producer *producer = producer_find(producers, info.producer_id)
    cdef const Verification *row = verification_find(producers, info.producer_id)
    cdef int64_t token
    if row == NULL or row.waiting == 0:                  # else it follows the batches that wait
        if is_ongoing(producer, info):
            return 0
    token = verification_begin(producers, info, adds, now_ms)
    return token if token != 0 else -1


cdef int16_t marker_check(const Producers *producers, const BatchInfo *info, const Marker *marker,
                          int8_t transaction_version) noexcept nogil:
    cdef const Producer *producer = producer_find(producers, info.producer_id)
    if producer == NULL:
        return 0
    if info.producer_epoch < producer.epoch:
        return INVALID_PRODUCER_EPOCH
    if (transaction_version >= 2 and info.producer_epoch == producer.epoch and producer.txn_first_offset >= 0
            and producer.epoch < INT16_MAX):
        return INVALID_PRODUCER_EPOCH
    if marker.coordinator_epoch < producer.coordinator_epoch:
        return TRANSACTION_COORDINATOR_FENCED
    return 0


cdef bint marker_read(const uint8_t *batch, const BatchInfo *info, Marker *marker) noexcept nogil:
    """Reads a control batch. Other kinds (KRaft's) have other types; the cleaner leaves empty ones."""
    cdef const uint8_t *at = batch + BATCH_HEADER_BYTES
    cdef Record record
    cdef int16_t kind
    if not info.attributes & ATTR_CONTROL or info.attributes & ATTR_COMPRESSION_MASK or info.record_count < 1:
        return False
    if not record_read(&at, batch + info.size_bytes, &record):
        return False
    if record.key_length < MARKER_KEY_BYTES or record.value_length < MARKER_VALUE_BYTES:
        return False
    kind = load_be16(record.key + 2)
    if kind != 0 and kind != 1:
        return False
    marker.aborted = kind == 0
    marker.coordinator_epoch = load_be32(record.value + 2)
    return True

# ---------------------------------------------------------------- updates


cdef bint transaction_add(TransactionList *list, const Transaction *item) noexcept nogil:
    cdef Transaction *grown
    cdef int32_t i = list.count
    if list.count == list.capacity:
        grown = <Transaction *>realloc(list.items, (list.capacity * 2 + 2) * sizeof(Transaction))
        if grown == NULL:
            return False
        list.items = grown
        list.capacity = list.capacity * 2 + 2
    while i > 0 and list.items[i - 1].first_offset > item.first_offset:
        i -= 1
    memmove(list.items + i + 1, list.items + i, (list.count - i) * sizeof(Transaction))
    list.items[i] = item[0]
    list.count += 1
    return True


cdef void transaction_remove(TransactionList *list, int32_t i) noexcept nogil:
    memmove(list.items + i, list.items + i + 1, (list.count - i - 1) * sizeof(Transaction))
    list.count -= 1


cdef void set_epoch(Producer *producer, int16_t epoch) noexcept nogil:
    if producer.epoch != epoch:
        producer.batch_count = 0
        producer.oldest = 0
        producer.epoch = epoch


cdef bint producer_update(Producers *producers, const BatchInfo *info) noexcept nogil:
    cdef Producer *producer = find_or_add(producers, info.producer_id)
    cdef RememberedBatch *batch
    cdef Transaction started
    if producer == NULL:
        return False
    set_epoch(producer, info.producer_epoch)
    if producer.batch_count == REMEMBERED_BATCHES:
        batch = &producer.batches[producer.oldest]
        producer.oldest = (producer.oldest + 1) % REMEMBERED_BATCHES
    else:
        batch = &producer.batches[(producer.oldest + producer.batch_count) % REMEMBERED_BATCHES]
        producer.batch_count += 1
    batch.last_offset = info.base_offset + info.last_offset_delta
    batch.timestamp = info.max_timestamp
    batch.last_sequence = last_sequence(info)
    batch.offset_delta = info.last_offset_delta
    producer.last_timestamp = info.max_timestamp
    if info.attributes & ATTR_TRANSACTIONAL:
        verification_used(producers, info.producer_id)
    if info.attributes & ATTR_TRANSACTIONAL and producer.txn_first_offset < 0:
        producer.txn_first_offset = info.base_offset
        started.producer_id = info.producer_id
        started.first_offset = info.base_offset
        started.last_offset = -1
        return transaction_add(&producers.ongoing, &started)
    return True


cdef int64_t stable_after(const Producers *producers, int64_t producer_id, int64_t last_offset) noexcept nogil:
    cdef int32_t i
    for i in range(producers.ongoing.count):
        if producers.ongoing.items[i].producer_id != producer_id:
            return producers.ongoing.items[i].first_offset
    return last_offset + 1


cdef bint producer_end_transaction(Producers *producers, const BatchInfo *info, const Marker *marker,
                                   bint raises_epoch, CompletedTransaction *out) noexcept nogil:
    cdef Producer *producer = find_or_add(producers, info.producer_id)
    cdef Transaction done
    cdef int32_t i
    out.first_offset = -1
    verification_forget(producers, info, raises_epoch)
    if producer == NULL:
        return False
    out.producer_id = info.producer_id
    out.first_offset = producer.txn_first_offset
    out.last_offset = info.base_offset
    out.aborted = marker.aborted
    set_epoch(producer, info.producer_epoch)
    producer.coordinator_epoch = marker.coordinator_epoch
    producer.txn_first_offset = -1
    producer.last_timestamp = info.max_timestamp
    if out.first_offset < 0:
        return True
    out.last_stable_offset = stable_after(producers, info.producer_id, info.base_offset)
    for i in range(producers.ongoing.count):
        if producers.ongoing.items[i].first_offset == out.first_offset:
            done = producers.ongoing.items[i]
            done.last_offset = info.base_offset
            transaction_remove(&producers.ongoing, i)
            return transaction_add(&producers.unreplicated, &done)
    return True


cdef int64_t first_unstable_offset(const Producers *producers) noexcept nogil:
    cdef int64_t found = -1
    if producers.ongoing.count > 0:
        found = producers.ongoing.items[0].first_offset
    if producers.unreplicated.count > 0 and (found < 0 or producers.unreplicated.items[0].first_offset < found):
        found = producers.unreplicated.items[0].first_offset
    return found


cdef void producers_on_high_watermark(Producers *producers, int64_t offset) noexcept nogil:
    cdef int32_t i = 0
    while i < producers.unreplicated.count:
        if producers.unreplicated.items[i].last_offset < offset:
            transaction_remove(&producers.unreplicated, i)
        else:
            i += 1

# ---------------------------------------------------------------- snapshots


cdef int64_t snapshot_newest(const Producers *producers) noexcept nogil:
    return producers.snapshots[producers.snapshot_count - 1] if producers.snapshot_count > 0 else -1


cdef bint snapshot_known(Producers *producers, int64_t offset) noexcept nogil:
    cdef int64_t *grown
    cdef int32_t i = producers.snapshot_count
    while i > 0 and producers.snapshots[i - 1] > offset:
        i -= 1
    if i > 0 and producers.snapshots[i - 1] == offset:
        return True
    if producers.snapshot_count == producers.snapshot_capacity:
        grown = <int64_t *>realloc(producers.snapshots, (producers.snapshot_capacity * 2 + 2) * sizeof(int64_t))
        if grown == NULL:
            return False
        producers.snapshots = grown
        producers.snapshot_capacity = producers.snapshot_capacity * 2 + 2
    memmove(producers.snapshots + i + 1, producers.snapshots + i,
            (producers.snapshot_count - i) * sizeof(int64_t))
    producers.snapshots[i] = offset
    producers.snapshot_count += 1
    return True


cdef void snapshot_forget(Producers *producers, int64_t offset) noexcept nogil:
    cdef int32_t i
    for i in range(producers.snapshot_count):
        if producers.snapshots[i] == offset:
            memmove(producers.snapshots + i, producers.snapshots + i + 1,
                    (producers.snapshot_count - i - 1) * sizeof(int64_t))
            producers.snapshot_count -= 1
            return


cdef void write_entry(uint8_t *at, const Producer *producer) noexcept nogil:
    cdef const RememberedBatch *newest = newest_batch(producer)
    store_be64(at, producer.producer_id)
    store_be16(at + 8, producer.epoch)
    store_be32(at + 10, newest.last_sequence if newest != NULL else -1)
    store_be64(at + 14, newest.last_offset if newest != NULL else -1)
    store_be32(at + 22, newest.offset_delta if newest != NULL else 0)
    store_be64(at + 26, producer.last_timestamp)
    store_be32(at + 34, producer.coordinator_epoch)
    store_be64(at + 38, producer.txn_first_offset)


cdef int snapshot_take(LogState *state) noexcept nogil:
    """Writes <end offset>.snapshot unless it is there; does not sync the file: a flush does."""
    cdef char[PATH_BYTES] path
    cdef Producers *producers = &state.producers
    cdef int64_t size_bytes = SNAPSHOT_HEADER_BYTES + <int64_t>producers.count * SNAPSHOT_ENTRY_BYTES
    cdef uint8_t *data
    cdef uint8_t *at
    cdef uint32_t i
    cdef int error
    if producers.end_offset <= snapshot_newest(producers) or producers.end_offset == 0:
        return 0
    data = <uint8_t *>malloc(size_bytes)
    if data == NULL:
        return -ENOMEM
    store_be16(data, SNAPSHOT_VERSION)
    store_be32(data + SNAPSHOT_CHECKED, producers.count)
    at = data + SNAPSHOT_HEADER_BYTES
    for i in range(producers.mask + 1 if producers.table != NULL else 0):
        if producers.table[i] != NULL:
            write_entry(at, producers.table[i])
            at += SNAPSHOT_ENTRY_BYTES
    store_be32(data + SNAPSHOT_CRC, <int32_t>crc32c_update(0, data + SNAPSHOT_CHECKED, size_bytes - SNAPSHOT_CHECKED))
    error = replace_file(segment_path(path, state, producers.end_offset, b".snapshot"), data, size_bytes, False)
    free(data)
    if error == 0 and not snapshot_known(producers, producers.end_offset):
        error = -ENOMEM
    return error


cdef bint snapshot_rename(LogState *state, int64_t old, int64_t new) noexcept nogil:
    cdef char[PATH_BYTES] old_path
    cdef char[PATH_BYTES] new_path
    if file_ops.rename(segment_path(old_path, state, old, b".snapshot"),
                       segment_path(new_path, state, new, b".snapshot")) != 0:
        return False
    snapshot_forget(&state.producers, old)
    return snapshot_known(&state.producers, new)


cdef bint load_entry(Producers *producers, const uint8_t *at, int64_t now_ms, int64_t expiration_ms) noexcept nogil:
    cdef Producer *producer
    cdef Transaction started
    cdef int64_t last_offset = load_be64(at + 14)
    started.first_offset = load_be64(at + 38)
    started.producer_id = load_be64(at)
    started.last_offset = -1
    if started.first_offset < 0 and now_ms - load_be64(at + 26) >= expiration_ms:
        return True
    producer = find_or_add(producers, started.producer_id)
    if producer == NULL:
        return False
    producer.epoch = load_be16(at + 8)
    producer.last_timestamp = load_be64(at + 26)
    producer.coordinator_epoch = load_be32(at + 34)
    producer.txn_first_offset = started.first_offset if started.first_offset >= 0 else -1
    producer.oldest = 0
    producer.batch_count = 1 if last_offset >= 0 else 0
    producer.batches[0].last_offset = last_offset
    producer.batches[0].timestamp = producer.last_timestamp
    producer.batches[0].last_sequence = load_be32(at + 10)
    producer.batches[0].offset_delta = load_be32(at + 22)
    return started.first_offset < 0 or transaction_add(&producers.ongoing, &started)


cdef int snapshot_load(LogState *state, int64_t offset, int64_t now_ms, int64_t expiration_ms) noexcept nogil:
    """Replaces the state with the file's. -EBADMSG: the file is damaged, and the state is empty."""
    cdef char[PATH_BYTES] path
    cdef uint8_t *data = NULL
    cdef int64_t size_bytes = read_file(segment_path(path, state, offset, b".snapshot"), &data)
    cdef int64_t i, n
    cdef int error = 0
    producers_clear(&state.producers)
    if size_bytes < 0:
        return <int>size_bytes
    if size_bytes < SNAPSHOT_HEADER_BYTES or load_be16(data) != SNAPSHOT_VERSION:
        error = -EBADMSG
    elif <uint32_t>load_be32(data + SNAPSHOT_CRC) != crc32c_update(
            0, data + SNAPSHOT_CHECKED, size_bytes - SNAPSHOT_CHECKED):
        error = -EBADMSG
    else:
        n = load_be32(data + SNAPSHOT_CHECKED)
        if n < 0 or SNAPSHOT_HEADER_BYTES + n * SNAPSHOT_ENTRY_BYTES != size_bytes:
            error = -EBADMSG
        else:
            for i in range(n):
                if not load_entry(&state.producers, data + SNAPSHOT_HEADER_BYTES + i * SNAPSHOT_ENTRY_BYTES,
                                  now_ms, expiration_ms):
                    error = -ENOMEM
                    break
    free(data)
    if error != 0:
        producers_clear(&state.producers)
    state.producers.end_offset = offset
    return error

# ---------------------------------------------------------------- recall
#
# After a restart, Kafka has only the newest batch of each producer. A producer with several requests in flight whose
# answers were lost then gets OUT_OF_ORDER_SEQUENCE_NUMBER for batches that are stored, continues in a new epoch, and
# stores them again (KIP-360).


cdef bint some_may_retry(const Producers *producers, int64_t now_ms) noexcept nogil:
    """Whether a producer that wrote recently has fewer than five known batches."""
    cdef uint32_t i
    if producers.count == 0:
        return False
    for i in range(producers.mask + 1):
        if producers.table[i] != NULL and producers.table[i].batch_count < REMEMBERED_BATCHES \
                and now_ms - producers.table[i].last_timestamp < RETRY_MAX_MS:
            return True
    return False


cdef void remember(Producer *producer, const BatchInfo *info) noexcept nogil:
    """Inserts the batch among the known ones, unless all five are newer."""
    cdef RememberedBatch[REMEMBERED_BATCHES] known
    cdef int n = producer.batch_count, place = 0, i
    cdef int64_t last_offset = last_offset_of(info)
    for i in range(n):
        known[i] = producer.batches[(producer.oldest + i) % REMEMBERED_BATCHES]
        if known[i].last_offset == last_offset:
            return
        if known[i].last_offset < last_offset:
            place = i + 1
    if place == n or (n == REMEMBERED_BATCHES and place == 0):
        return                                           # newer batches come from the snapshot only
    if n == REMEMBERED_BATCHES:
        place -= 1
        for i in range(place):
            known[i] = known[i + 1]
    else:
        for i in range(n, place, -1):
            known[i] = known[i - 1]
        n += 1
    known[place].last_offset = last_offset
    known[place].timestamp = info.max_timestamp
    known[place].last_sequence = <int32_t>((<int64_t>info.base_sequence + info.last_offset_delta) & INT32_MAX)
    known[place].offset_delta = info.last_offset_delta
    for i in range(n):
        producer.batches[i] = known[i]
    producer.oldest = 0
    producer.batch_count = n


cdef int64_t where_to_begin(LogState *state, Segment *segment, int64_t end_offset, int64_t most_bytes) noexcept nogil:
    """Position of a batch about `most_bytes` before the segment's end, or 0."""
    cdef int64_t back = 1024, indexed = -1, position = segment.size_bytes
    while segment.size_bytes - position < most_bytes and end_offset - back > segment.base_offset:
        position = offset_index_floor(state, segment, end_offset - back, &indexed)
        back *= 4
    return position if segment.size_bytes - position >= most_bytes else 0


cdef int recall_from(LogState *state, Segment *segment, int64_t end_offset, int64_t most_bytes) noexcept nogil:
    cdef Walk walk
    cdef BatchInfo info
    cdef Producer *producer
    cdef int error = 0
    cdef SegmentFile *file = segment_file(state, segment, segment == active_segment(state), &error)
    if file == NULL:
        return error
    walk_start(&walk, file.fd, where_to_begin(state, segment, end_offset, most_bytes), segment.size_bytes)
    walk.segment = segment
    error = walk_peek(&walk, &info)
    while error > 0:
        if info.producer_id >= 0 and info.base_sequence >= 0:
            producer = producer_find(&state.producers, info.producer_id)
            if producer != NULL and producer.epoch == info.producer_epoch and producer.batch_count > 0:
                remember(producer, &info)
        walk.position += info.size_bytes
        error = walk_peek(&walk, &info)
    segment_file_release(file)
    return 0 if error == -EBADMSG else error             # damage is reported elsewhere


cdef int producers_recall(Log *log, int64_t now_ms) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef int64_t end_offset = state.producers.end_offset, left_bytes = RECALL_BYTES
    cdef int32_t i = state.segment_count
    cdef int error = 0
    while error == 0 and i > 0 and left_bytes > 0 and some_may_retry(&state.producers, now_ms):
        i -= 1                                           # the five batches may be in several segments
        if state.segments[i].size_bytes > 0:
            error = recall_from(state, state.segments[i], end_offset, left_bytes)
        left_bytes -= state.segments[i].size_bytes
        end_offset = state.segments[i].base_offset
    return error
