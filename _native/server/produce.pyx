"""Produce: parses requests, checks batches, gathers them by partition, writes and answers them.

A request's batches stay in the connection's receive buffer. They are checked as they are read, linked to their
partition, and written when FLUSH_BYTES have gathered or the pass ends: one log write per partition, however many frames
and connections they came from. Batches that need Python (another compression.type, or checks of compressed records) go
through the control thread, and so do later batches of the same partition, which keeps the order.

Contents, in the order of a request's life, and where reactors enter each part:

    parse    produce_blocked, produce_receive    a frame was received: its batches are checked and gathered
    append   produce_flush                       the pass ends: batches are written, durable ends move
    resume   produce_acknowledged, produce_slow_batch_done, produce_timed_out, produce_abandon
                                                 a batch's wait has ended, or can never end
    answer   called by all of these              answer_or_wait() ends one batch, finish() the request
"""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset
from bowstring._native.base.atomics cimport add_i32, bump_i64, load_i32, load_i64, store_i64
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.base.bigendian cimport load_be16, load_be64
from bowstring._native.base.error_codes cimport (
    INVALID_PRODUCER_ID_MAPPING, INVALID_RECORD, INVALID_REQUIRED_ACKS, INVALID_TOPIC_EXCEPTION, KAFKA_STORAGE_ERROR,
    NOT_LEADER_OR_FOLLOWER, OUT_OF_ORDER_SEQUENCE_NUMBER, REQUEST_TIMED_OUT, TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, UNSUPPORTED_COMPRESSION_TYPE)
from bowstring._native.base.wire cimport Reader
from bowstring._native.log cimport (
    NOT_VERIFIED, NOW, AppendEntry, log_advance_high_watermark, log_append, log_durable_to, log_verified, log_verify)
from bowstring._native.record.batch cimport (
    ATTR_COMPRESSION_MASK, ATTR_TRANSACTIONAL, BATCH_ATTRIBUTES, BATCH_HEADER_BYTES, BATCH_PRODUCER_EPOCH,
    BATCH_PRODUCER_ID, CODEC_ZSTD, BatchRules, batch_correct, batch_validate)
from bowstring._native.record.compressed_frame cimport framing_ok
from bowstring._native.record.schema_types cimport SchemaRules
from bowstring._native.replica.rules cimport produce_refused
from bowstring._native.server.client_quotas cimport (
    quota_client_release, quota_percent, quota_retain, quota_throttled, quota_use, quotas_on)
from bowstring._native.server.access cimport is_controlled, topic_allowed, transaction_allowed
from bowstring._native.server.access_types cimport ACCESS_WRITE
from bowstring._native.server.commit_queue cimport (
    commit_pending, commit_pop, commit_push, commit_queue, commits_begin, commits_full)
from bowstring._native.server.connection cimport (
    connection_answer, connection_answer_bytes, connection_condemn, connection_end, connection_find, connection_hold,
    connection_mute)
from bowstring._native.server.counters cimport count_request
from bowstring._native.server.deferred_batches cimport (
    SLICE_NS, deferred_next, deferred_take, deferred_wanted)
from bowstring._native.server.id_table cimport id_add, id_remove
from bowstring._native.server.produce_reader cimport (
    ProduceReader, next_part, next_topic, produce_reader_begin, topic_of)
from bowstring._native.server.produce_response cimport produce_encode, record_errors_free, record_errors_hold
from bowstring._native.server.slow_batches cimport slow_finished, slow_free, slow_needed, slow_send
from bowstring._native.server.timers cimport timer_add, timers_sweep
from bowstring._native.server.replica_leader cimport (
    followers_wake, leader_advance, leader_enough, replicated_durable)
from bowstring._native.server.topic_table cimport (
    ack_waiter_add, ack_waiter_remove, partition_advanced, partition_release, partition_retain, topic_partition)
from bowstring._native.server.commit_types cimport CommitItem, CommitQueue
from bowstring._native.server.connection_limits cimport HELD_MIN_BYTES
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.control_types cimport RequestHeader
from bowstring._native.server.partition_types cimport Partition, PendingList, Topic
from bowstring._native.server.produce_types cimport (
    ADDING_PRODUCE_VERSION, ENTRIES_MAX, ZSTD_PRODUCE_VERSION, ProducePart, ProduceRequest, ProduceTopic)
from bowstring._native.server.quota_types cimport QUOTA_PRODUCE, QUOTA_REQUEST
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.wal.group_commit cimport wal_full
from bowstring._native.wal.types cimport Wal

cdef enum:
    HEADER_BYTES = 10               # of a request, without the client id
    PIPELINED_MS = 1000             # a batch that was sent before a refusal was known is here within this time

cdef struct Shape:
    # The counts that measure() finds, so that the request is allocated in one block.
    int32_t topics
    int32_t parts
    int64_t name_bytes
    # Of transactional batches: the producer of the first, and whether others are of another one.
    int64_t producer_id
    int16_t producer_epoch
    bint has_transaction
    bint mixes_producers

# ---------------------------------------------------------------- parse


cdef bint measure(ProduceReader reader, Shape *shape) noexcept nogil:
    """Counts the topics and parts; False when the request is malformed, or has too many."""
    memset(shape, 0, sizeof(Shape))
    while next_topic(&reader):
        if shape.topics + shape.parts + reader.part_count >= ENTRIES_MAX:
            return False
        while next_part(&reader):
            if reader.batch_bytes >= BATCH_HEADER_BYTES:
                note_producer(shape, reader.batch)
        shape.topics += 1
        shape.parts += reader.part_count
        shape.name_bytes += reader.name_length
    return not reader.body.bad


cdef void note_producer(Shape *shape, const uint8_t *batch) noexcept nogil:
    cdef int64_t producer_id = load_be64(batch + BATCH_PRODUCER_ID)
    cdef int16_t epoch = load_be16(batch + BATCH_PRODUCER_EPOCH)
    if not load_be16(batch + BATCH_ATTRIBUTES) & ATTR_TRANSACTIONAL or producer_id < 0:
        return
    if not shape.has_transaction:
        shape.has_transaction = True
        shape.producer_id = producer_id
        shape.producer_epoch = epoch
    elif producer_id != shape.producer_id or epoch != shape.producer_epoch:
        shape.mixes_producers = True


cdef int64_t request_bytes(const Shape *shape) noexcept nogil:
    return (sizeof(ProduceRequest) + shape.topics * <int64_t>sizeof(ProduceTopic)
            + shape.parts * <int64_t>sizeof(ProducePart) + shape.name_bytes)


cdef ProduceRequest *allocate(const Shape *shape) noexcept nogil:
    """Allocates the request, its topics, parts and topic names in one block; freed by free()."""
    cdef int64_t size = request_bytes(shape)
    cdef ProduceRequest *request = <ProduceRequest *>malloc(size)
    if request == NULL:
        return NULL
    memset(request, 0, sizeof(ProduceRequest))
    request.parts = <ProducePart *>(request + 1)
    request.topics = <ProduceTopic *>(request.parts + shape.parts)
    request.names = <uint8_t *>(request.topics + shape.topics)
    return request


cdef Wal *produce_blocked(Reactor *r, const RequestHeader *header, Reader body) noexcept nogil:
    """Returns the write-ahead log that is too full for a request's batches; NULL when it need not wait."""
    cdef ProduceReader reader
    cdef Topic *topic
    cdef Partition *p
    cdef Wal *full = NULL
    if not commits_full(r):
        return NULL
    produce_reader_begin(&reader, body, header.api_version)
    while next_topic(&reader):
        topic = topic_of(&reader, &r.plane.table)
        while next_part(&reader):
            p = topic_partition(topic, reader.index)
            if p != NULL and p.log != NULL and p.log.wal != NULL and wal_full(p.log.wal):
                full = p.log.wal
    return NULL if reader.body.bad else full


cdef bint produce_receive(Reactor *r, Connection *c, const RequestHeader *header, Reader *body) noexcept nogil:
    """Parses one Produce request and checks its batches; False when it is malformed (the caller closes)."""
    cdef ProduceReader reader
    cdef Shape shape
    cdef ProduceRequest *request
    cdef int32_t id_length
    cdef int64_t size_bytes = body.end - body.at + HEADER_BYTES + max(header.client_id_length, 0)
    produce_reader_begin(&reader, body[0], header.api_version)
    if not measure(reader, &shape):
        return False
    id_length = reader.transactional_id_length
    shape.name_bytes += max(id_length, 0)
    request = allocate(&shape)
    if request == NULL:
        return False
    request.transactional_id_length = id_length
    request.transactional_id = request.names + shape.name_bytes - max(id_length, 0)
    if id_length > 0:
        memcpy(request.transactional_id, reader.transactional_id, id_length)
    request.reactor = r
    request.connection_id = c.id
    request.slot = c.tail_slot - 1
    request.correlation_id = header.correlation_id
    request.version = header.api_version
    request.acks = reader.acks
    request.timeout_ms = reader.timeout_ms
    request.started_ns = monotonic_ns()
    request.quota = quota_retain(c.quota)
    request.size_bytes = size_bytes
    request.id = -1
    request.topic_count = shape.topics
    request.part_count = shape.parts
    request.remaining = shape.parts + 1                  # one for this function
    if request_bytes(&shape) >= HELD_MIN_BYTES:
        connection_hold(c, request.slot, request_bytes(&shape))
    read_parts(r, request, &reader, &shape, c.subject)
    if request.quota != NULL:
        request.spent_ns += monotonic_ns() - request.started_ns
    finish(r, request)
    return True


cdef int16_t topic_refused(Reactor *r, int32_t subject, const ProduceReader *reader, const Topic *known) noexcept nogil:
    """Returns the error of a topic that the sender may not write to. An id of no topic gets its own error, as in Kafka."""
    if not is_controlled(r) or (known == NULL and reader.by_id):
        return 0
    if topic_allowed(r, subject, ACCESS_WRITE, known, reader.name, reader.name_length):
        return 0
    return TOPIC_AUTHORIZATION_FAILED


cdef int16_t request_refused(Reactor *r, int32_t subject, const ProduceReader *reader, const Shape *shape) noexcept nogil:
    """Returns the error of all batches of a request whose sender may not use its transactional id."""
    if not is_controlled(r) or not shape.has_transaction:
        return 0
    if reader.transactional_id_length >= 0 and transaction_allowed(
            r, subject, reader.transactional_id, reader.transactional_id_length):
        return 0
    return TRANSACTIONAL_ID_AUTHORIZATION_FAILED


cdef void read_parts(Reactor *r, ProduceRequest *request, ProduceReader *reader, const Shape *shape,
                     int32_t subject) noexcept nogil:
    """Reads and admits the batches; as in Kafka, none if transactions of several producers are among them."""
    cdef int16_t refused = request_refused(r, subject, reader, shape), denied
    cdef uint8_t *names = request.names
    cdef ProduceTopic *topic = request.topics
    cdef ProducePart *part = request.parts
    cdef Topic *known
    cdef int16_t error
    while next_topic(reader):
        topic.name = NULL
        topic.name_length = reader.name_length
        topic.part_count = reader.part_count
        if reader.by_id:
            memcpy(topic.id, reader.id, 16)
        else:
            memcpy(names, reader.name, reader.name_length)
            topic.name = names
            names += reader.name_length
        known = topic_of(reader, &r.plane.table)
        denied = refused if refused != 0 else topic_refused(r, subject, reader, known)
        while next_part(reader):
            memset(part, 0, sizeof(ProducePart))
            part.request = request
            part.log_start_offset = -1
            part.index = reader.index
            error = (denied if denied != 0 else INVALID_PRODUCER_ID_MAPPING if shape.mixes_producers
                     else admit(r, request, part, known, <uint8_t *>reader.batch, reader.batch_bytes))
            if error != 0:                               # else another thread may own the part now
                part.error = error
                request.remaining -= 1
            part += 1
        topic += 1


cdef int16_t admit(Reactor *r, ProduceRequest *request, ProducePart *part, Topic *topic, uint8_t *data,
                   int64_t n) noexcept nogil:
    """Checks one batch and queues it for the log. Returns 0, or the error code of a refused batch."""
    cdef Partition *p = topic_partition(topic, part.index)
    cdef BatchRules rules
    cdef int16_t error
    if request.acks < -1 or request.acks > 1:
        return INVALID_REQUIRED_ACKS
    if p == NULL:
        return UNKNOWN_TOPIC_ID if request.version >= 13 and topic == NULL else UNKNOWN_TOPIC_OR_PARTITION
    if topic.internal:
        part.reason = b"Clients may not produce to an internal topic."
        return INVALID_TOPIC_EXCEPTION
    if p.log == NULL:
        return KAFKA_STORAGE_ERROR
    if p.is_leader:
        part.log_start_offset = load_i64(&p.log.log_start_offset)
    error = produce_refused(request.acks, p.is_leader, p.in_sync_replicas, p.min_insync_replicas)
    if error != 0:
        if error == NOT_LEADER_OR_FOLLOWER:
            store_i64(&p.refused_ms, r.now_ms)
        return error
    if n < 0:
        part.reason = b"A produce request must carry exactly one record batch for each partition."
        return INVALID_RECORD
    rules.max_message_bytes = p.log.config.max_message_bytes
    rules.key_required = p.log.config.compacted
    rules.log_append_time = p.log.config.log_append_time
    rules.timestamp_before_max_ms = p.log.config.timestamp_before_max_ms
    rules.timestamp_after_max_ms = p.log.config.timestamp_after_max_ms
    rules.schemas = SchemaRules(p.log.config.schemas, False, topic.key_schemas, topic.value_schemas)
    error = batch_validate(data, n, &rules, r.wall_ms, &part.entry.info, &part.reason, &part.record_errors)
    if error != 0:
        bump_i64(&p.failed_produces, 1)
        record_errors_hold(r, part)
        return error
    if part.entry.info.attributes & ATTR_TRANSACTIONAL and request.transactional_id_length <= 0:
        return TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if (part.entry.info.attributes & ATTR_COMPRESSION_MASK) == CODEC_ZSTD and request.version < ZSTD_PRODUCE_VERSION:
        part.reason = b"Produce requests before version 7 cannot use zstd; upgrade the client or use another codec."
        return UNSUPPORTED_COMPRESSION_TYPE
    if part.entry.info.attributes & ATTR_COMPRESSION_MASK and not framing_ok(
            part.entry.info.attributes & ATTR_COMPRESSION_MASK, data + BATCH_HEADER_BYTES, n - BATCH_HEADER_BYTES):
        part.reason = b"The compressed records do not have the format of the batch's compression codec."
        return INVALID_RECORD
    batch_correct(data, n, &part.entry.info)
    part.entry.data = data
    part.partition = p
    partition_retain(p)
    if verify_needed(r, part) or slow_needed(p, &part.entry.info, r.wall_ms):
        if not enlist(r, request) or not slow_send(r, part, data, n):
            end_verification(part)
            partition_release(p)
            part.partition = NULL
            return REQUEST_TIMED_OUT
        return 0
    return 0 if enqueue_or_defer(r, p, part) else REQUEST_TIMED_OUT


cdef bint enqueue_or_defer(Reactor *r, Partition *p, ProducePart *part) noexcept nogil:
    """Adds a checked batch to those of this pass, or of a later one; False when memory ran out."""
    if deferred_wanted(r, part) and enlist(r, part.request) and deferred_take(r, part):
        return True
    return enqueue(r, p, part)


cdef bint verify_needed(Reactor *r, ProducePart *part) noexcept nogil:
    """Whether the control thread must verify a batch that may begin a transaction here with the coordinator (KIP-890)."""
    cdef bint adds = part.request.version >= ADDING_PRODUCE_VERSION
    part.entry.verification = NOT_VERIFIED
    if not part.entry.info.attributes & ATTR_TRANSACTIONAL or not (adds or r.plane.verifies):
        return False
    part.entry.verification = log_verify(part.partition.log, &part.entry.info, adds, r.wall_ms)
    part.verifying = part.entry.verification > 0
    return part.verifying


cdef void end_verification(ProducePart *part) noexcept nogil:
    if part.verifying:
        part.verifying = False
        log_verified(part.partition.log, part.entry.info.producer_id, part.entry.verification)


cdef bint enqueue(Reactor *r, Partition *p, ProducePart *part) noexcept nogil:
    """Adds a checked batch to its partition's list for this pass; False when memory ran out."""
    cdef PendingList *pending = &p.pending[r.index]
    cdef Partition **grown
    if pending.count == 0:
        if r.dirty_count == r.dirty_capacity:
            grown = <Partition **>realloc(r.dirty, (r.dirty_capacity * 2 + 64) * sizeof(Partition *))
            if grown == NULL:
                return False
            r.dirty = grown
            r.dirty_capacity = r.dirty_capacity * 2 + 64
        r.dirty[r.dirty_count] = p
        r.dirty_count += 1
        pending.head = part
    else:
        pending.tail.next = part
    part.next = NULL
    pending.tail = part
    pending.count += 1
    r.pending_bytes += part.entry.info.size_bytes
    return True

# ---------------------------------------------------------------- append


cdef void produce_flush(Reactor *r) noexcept nogil:
    """Writes all batches gathered in this pass, one log_append per partition, and answers finished requests."""
    flush_dirty(r)
    if r.commits != NULL:
        commits_begin(r)
        release_commits(r)


cdef void flush_dirty(Reactor *r) noexcept nogil:
    cdef int32_t i
    for i in range(r.dirty_count):
        flush_partition(r, r.dirty[i])
    r.dirty_count = 0
    r.pending_bytes = 0


cdef void produce_continue(Reactor *r) noexcept nogil:
    """Appends deferred batches, for SLICE_NS."""
    cdef int64_t until_ns = monotonic_ns() + SLICE_NS
    cdef ProducePart *part
    cdef int16_t error
    while monotonic_ns() < until_ns:
        error = deferred_next(r, &part)
        if part == NULL:
            break
        if error == 0 and not enqueue(r, part.partition, part):
            error = REQUEST_TIMED_OUT
        if error != 0:
            part.error = error
            answer_or_wait(r, part.partition, part)
        flush_dirty(r)


cdef bint entries_reserve(Reactor *r, int32_t n) noexcept nogil:
    cdef AppendEntry **grown
    if n > r.entries_capacity:
        grown = <AppendEntry **>realloc(r.entries, n * 2 * sizeof(AppendEntry *))
        if grown == NULL:
            return False
        r.entries = grown
        r.entries_capacity = n * 2
    return True


cdef void flush_partition(Reactor *r, Partition *p) noexcept nogil:
    cdef PendingList *pending = &p.pending[r.index]
    cdef ProducePart *part = pending.head
    cdef ProducePart *following
    cdef int32_t n = 0
    cdef Wal *wal = p.log.wal
    cdef int64_t before = load_i64(&p.log.appended_bytes), bytes
    cdef bint moved = p.replicas == NULL
    cdef int64_t started_ns = monotonic_ns() if quotas_on(&r.plane.quotas, QUOTA_REQUEST) else 0
    if not entries_reserve(r, pending.count):
        while part != NULL:                              # out of memory: nothing is written, and the error is retriable
            following = part.next
            part.error = REQUEST_TIMED_OUT
            answer_or_wait(r, p, part)
            part = following
        pending[0] = PendingList(NULL, NULL, 0)
        return
    while part != NULL:
        r.entries[n] = &part.entry
        n += 1
        part = part.next
    log_append(p.log, r.entries, n, p.leader_epoch, r.wall_ms)
    if started_ns > 0:
        count_time(pending.head, (monotonic_ns() - started_ns) // n)
    bytes = load_i64(&p.log.appended_bytes) - before
    if p.replicas != NULL:
        followers_wake(p, bytes, r)                          # they may have it before it is durable here
    if wal != NULL and await_commit(r, p, wal, n, bytes):
        return
    if not p.replicated:
        log_advance_high_watermark(p.log, load_i64(&p.log.log_end_offset))
    elif p.replicas != NULL:
        moved = leader_advance(p, r.now_ms)
    part = pending.head
    pending[0] = PendingList(NULL, NULL, 0)
    while part != NULL:
        following = part.next
        part.error = error_of(p, part, r.now_ms)
        answer_or_wait(r, p, part)
        part = following
    if moved:
        partition_advanced(p, bytes, r)


cdef void count_time(ProducePart *part, int64_t each_ns) noexcept nogil:
    while part != NULL:
        part.request.spent_ns += each_ns
        part = part.next


cdef int16_t error_of(Partition *p, ProducePart *part, int64_t now_ms) noexcept nogil:
    """Returns the error of an append.

    A producer's batch may follow others that this broker has refused right before it became the leader. The producer
    repeats all of them in order after NOT_LEADER_OR_FOLLOWER. OUT_OF_ORDER_SEQUENCE_NUMBER, which Kafka answers, lets
    librdkafka raise its epoch, and store twice what other leaders have stored and not acknowledged yet.
    """
    if part.entry.error == OUT_OF_ORDER_SEQUENCE_NUMBER and now_ms - load_i64(&p.refused_ms) < PIPELINED_MS:
        return NOT_LEADER_OR_FOLLOWER
    return part.entry.error


cdef bint await_commit(Reactor *r, Partition *p, Wal *wal, int32_t n, int64_t bytes) noexcept nogil:
    """Delays the work after an append until the write-ahead log is durable; False when it need not wait."""
    cdef PendingList *pending = &p.pending[r.index]
    cdef ProducePart *part = pending.head
    cdef ProducePart *following
    cdef CommitQueue *queue
    cdef int64_t frame = 0, end_offset = 0
    cdef int32_t i
    for i in range(n):
        if r.entries[i].error == 0:
            frame = max(frame, r.entries[i].wal_frame)
            end_offset = max(end_offset, r.entries[i].base_offset + r.entries[i].info.last_offset_delta + 1)
    if frame == 0:                                       # all batches were refused, or the append synced them
        log_durable_to(p.log, NOW, end_offset, not p.replicated)
        return False
    pending[0] = PendingList(NULL, NULL, 0)
    queue = commit_queue(r, wal)
    if queue != NULL and commit_push(queue, frame, p, end_offset, bytes, NULL):
        partition_retain(p)
    while part != NULL:
        following = part.next
        part.next = NULL
        part.error = error_of(p, part, r.now_ms)
        part.leader_epoch = p.leader_epoch
        if part.owned != NULL:
            slow_free(part)
        if part.error == 0 and (part.request.acks != 0 or not read_later(r, part, queue, frame)):
            if queue != NULL and enlist(r, part.request) and commit_push(queue, frame, NULL, 0, 0, part):
                part = following
                continue
            part.error = REQUEST_TIMED_OUT               # the batch may still become durable, but is never acknowledged
        answer_or_wait(r, p, part)
        part = following
    return True


cdef bint read_later(Reactor *r, ProducePart *part, CommitQueue *queue, int64_t frame) noexcept nogil:
    """A batch with acks=0 is answered before it is on the medium, but the connection's next read must see it: that waits for
    the frame (STALL_SYNC). False when the connection waits for a frame of another write-ahead log."""
    cdef Connection *c = connection_find(r, part.request.connection_id)
    if c == NULL or queue == NULL:
        return True
    if c.unsynced != NULL and c.unsynced != queue and commit_pending(c.unsynced, c.unsynced_frame):
        return False
    c.unsynced = queue
    c.unsynced_frame = frame
    return True


cdef void release_commits(Reactor *r) noexcept nogil:
    """Moves durable ends and answers requests whose frames are durable."""
    cdef CommitQueue *queue = r.commits
    cdef CommitItem item
    cdef Partition *p
    cdef bint failed = False
    while queue != NULL:
        while commit_pop(r, queue, &item, &failed):
            if item.part != NULL:
                p = item.part.partition
                if failed:
                    item.part.error = KAFKA_STORAGE_ERROR
                elif load_i32(&p.deleted):
                    item.part.error = UNKNOWN_TOPIC_OR_PARTITION
                elif item.part.request.acks == -1 and item.part.leader_epoch != p.leader_epoch:
                    item.part.error = NOT_LEADER_OR_FOLLOWER    # it may have been truncated meanwhile
                answer_or_wait(r, p, item.part)
                continue
            p = item.partition
            if not failed:
                log_durable_to(p.log, item.cuts, item.end_offset, not p.replicated)
                if p.replicated:
                    replicated_durable(p, r.now_ms)
                partition_advanced(p, item.bytes, r)
            partition_release(p)
        queue = queue.next

# ---------------------------------------------------------------- resume


cdef void produce_acknowledged(Reactor *r, ProducePart *part) noexcept nogil:
    """MAIL_ACK: the high watermark has passed the batch, or its partition was deleted."""
    cdef Partition *p = part.partition
    if load_i32(&p.deleted):
        part.error = UNKNOWN_TOPIC_OR_PARTITION
    elif not p.is_leader or p.log == NULL or load_i64(&p.log.high_watermark) < part.required_offset:
        part.error = NOT_LEADER_OR_FOLLOWER              # the wait ended when it followed, though it may lead again by now
    elif p.replicas != NULL:
        part.error = leader_enough(p)
    part_done(r, part)


cdef void produce_slow_batch_done(Reactor *r, ProducePart *part) noexcept nogil:
    """MAIL_SLOW_BATCH: the control thread has set part.error and its message, or part.owned and part.entry."""
    cdef Partition *p = part.partition
    slow_finished(r, part)
    if part.verifying:
        end_verification(part)                           # later batches of the producer need not follow this way
    else:
        add_i32(&p.slow_batches, -1)
    if part.error == 0 and load_i32(&p.deleted):
        part.error = UNKNOWN_TOPIC_OR_PARTITION
    if part.error == 0 and not p.is_leader:
        part.error = NOT_LEADER_OR_FOLLOWER
    # Not deferred: its place in its partition is the one in which the control thread has passed it back.
    if part.error == 0 and enqueue(r, p, part):
        return
    if part.error == 0:
        part.error = REQUEST_TIMED_OUT
    slow_free(part)
    bump_i64(&p.failed_produces, 1)
    record_errors_hold(r, part)
    part_done(r, part)


cdef void produce_timed_out(Reactor *r, void *found) noexcept nogil:
    """timeout.ms has passed: batches that still wait for replicas get REQUEST_TIMED_OUT but stay in the log."""
    cdef ProduceRequest *request = <ProduceRequest *>found
    cdef ProducePart *part
    cdef int32_t i
    request.remaining += 1                               # keeps the request while its parts are walked
    for i in range(request.part_count):
        part = &request.parts[i]
        if part.partition != NULL and part.listed and ack_waiter_remove(part):
            part.error = REQUEST_TIMED_OUT
            part_done(r, part)
    finish(r, request)


cdef void produce_abandon(Reactor *r) noexcept nogil:
    """Frees requests that still wait after the thread has ended. They stay unanswered; their batches may be in the log."""
    cdef ProduceRequest *request
    cdef ProducePart *part
    cdef int32_t k, i
    for k in range(r.produces.used):
        request = <ProduceRequest *>r.produces.items[k]
        if request == NULL:
            continue
        for i in range(request.part_count):
            part = &request.parts[i]
            if part.partition != NULL:
                ack_waiter_remove(part)
                partition_release(part.partition)
            free(part.owned)
            free(part.record_errors)
        quota_client_release(request.quota)
        id_remove(&r.produces, request.id)
        free(request)

# ---------------------------------------------------------------- answer


cdef void answer_or_wait(Reactor *r, Partition *p, ProducePart *part) noexcept nogil:
    """Sets the result of a batch that is in the log or refused, or makes it wait for the high watermark."""
    part.next = NULL
    if part.owned != NULL:
        slow_free(part)
    if part.error != 0:
        bump_i64(&p.failed_produces, 1)
    else:
        part.log_start_offset = load_i64(&p.log.log_start_offset)
        if part.request.acks == -1:
            part.required_offset = part.entry.base_offset + part.entry.info.last_offset_delta + 1
            if load_i64(&p.log.high_watermark) < part.required_offset and ack_waiter_add(part):
                arm_timeout(r, part.request)
                return
            if p.replicas != NULL:
                part.error = leader_enough(p)
    part_done(r, part)


cdef bint enlist(Reactor *r, ProduceRequest *request) noexcept nogil:
    """Registers a request that outlives the pass for its timer and produce_abandon; False when memory ran out."""
    if request.id < 0:
        request.id = id_add(&r.produces, request)
    return request.id >= 0


cdef void arm_timeout(Reactor *r, ProduceRequest *request) noexcept nogil:
    if not request.timed and enlist(r, request):
        timers_sweep(r)
        request.timed = timer_add(&r.timers, r.now_ms + (request.timeout_ms if request.timeout_ms > 0 else 0),
                                  -request.id)


cdef void part_done(Reactor *r, ProducePart *part) noexcept nogil:
    if part.partition != NULL:
        partition_release(part.partition)
        part.partition = NULL
    finish(r, part.request)


cdef int64_t throttle_of(Reactor *r, ProduceRequest *request) noexcept nogil:
    """Counts the request for its client's quotas, and returns how long the client waits. As in Kafka, the time for requests
    without an answer is not limited."""
    cdef int64_t bytes_ms = quota_use(request.quota, QUOTA_PRODUCE, request.size_bytes, r.now_ms), time_ms = 0
    if request.acks != 0:
        time_ms = quota_use(request.quota, QUOTA_REQUEST, quota_percent(request.spent_ns), r.now_ms)
    if bytes_ms > time_ms:
        quota_throttled(request.quota, QUOTA_PRODUCE, bytes_ms)
        return bytes_ms
    if time_ms > 0:
        quota_throttled(request.quota, QUOTA_REQUEST, time_ms)
    return time_ms


cdef void finish(Reactor *r, ProduceRequest *request) noexcept nogil:
    """Call it when one part (or the parser) is done; the last call answers and frees the request."""
    cdef Connection *c
    cdef int32_t i
    cdef int failed = 0
    request.remaining -= 1
    if request.remaining > 0:
        return
    if request.id >= 0:
        id_remove(&r.produces, request.id)
    for i in range(request.part_count):
        if request.parts[i].error != 0:
            failed = 1
    count_request(&r.produce, request.started_ns, failed)
    c = connection_find(r, request.connection_id)
    if request.quota != NULL:
        request.throttle_ms = throttle_of(r, request)
        quota_client_release(request.quota)
        if c != NULL:
            connection_mute(c, request.throttle_ms)
    if c != NULL and request.acks == 0:
        if failed:                                       # the only way to signal an error to a client that expects no reply
            connection_end(c, request.slot, b"produce-failed", b"a batch sent with acks=0 was refused")
        else:
            connection_answer(c, request.slot, NULL)
    elif c != NULL:
        r.scratch.size = 0
        produce_encode(&r.scratch, request)
        if r.scratch.failed:
            r.scratch.failed = False
            connection_condemn(c)
        else:
            connection_answer_bytes(c, request.slot, r.scratch.data, r.scratch.size)
    if failed:
        record_errors_free(request)
    free(request)
