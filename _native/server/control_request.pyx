"""The requests and slow batches that DataPlane.take_requests() returns, see control_request.pxd."""
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, int16_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy
from cython cimport no_gc_clear
from bowstring._native.base.atomics cimport load_i32
from bowstring._native.base.clock cimport wall_clock_ms
from bowstring._native.base.error_codes cimport REQUEST_TIMED_OUT
from bowstring._native.base.wire cimport STRING_MAX
from bowstring._native.record.batch cimport (
    ATTR_COMPRESSION_MASK, RECORD_ERRORS_MESSAGE_BYTES, batch_reason, batch_validate)
from bowstring._native.record.schema_ids cimport schema_ids_release, schema_ids_shared
from bowstring._native.server.connection_types cimport PHASE_OPEN
from bowstring._native.server.control_queue cimport message_free
from bowstring._native.server.mailbox cimport post, post_to
from bowstring._native.server.subject_types cimport NO_SUBJECT, Subject
from bowstring._native.server.subjects cimport subject_at, subject_release
from bowstring._native.server.slow_batches cimport slow_cost, slow_look_inside, slow_waiting_gone, slow_working_add
from bowstring._native.server.mail_types cimport MAIL_REPLY, MAIL_SLOW_BATCH
from bowstring._native.server.partition_types cimport Partition

cdef enum:
    REPLACED_MAX = STRING_MAX // 3  # bytes that fit even if each is replaced by U+FFFD


@no_gc_clear
cdef class LargeBody:
    """A read-only buffer with the reactor's copy of a request body. Its memory is counted until it is freed."""

    def __len__(self):
        return self.message.body_bytes

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.message.body, self.message.body_bytes, True, flags)

    def __dealloc__(self):
        if self.message != NULL:
            slow_waiting_gone(self.plane, self.message.counted_bytes)
            free(self.message)


cdef class ControlRequest:
    """One request for the control thread."""

    def drop_body(self):
        """Drops the body. Call it after decoding; values that still point into the body keep its memory."""
        self.body = None

    def __repr__(self):
        return (f"ControlRequest(api_key={self.api_key}, api_version={self.api_version}, "
                f"correlation_id={self.correlation_id}, peer={self.peer!r}, {self.body_bytes} bytes)")


@no_gc_clear
cdef class SlowBatch:
    """A produced batch that Python must recompress, or whose compressed records Python must check.

    DataPlane.finish_batch() answers it. Dropping it without an answer only frees its memory.
    """

    def __dealloc__(self):
        self.release()
        self.count_working(0)
        schema_ids_release(self.rules.schemas.keys)
        schema_ids_release(self.rules.schemas.values)
        free(self.result)
        free(self.record_errors)

    def __repr__(self):
        return f"SlowBatch({self.topic}-{self.partition}, {self.size_bytes} bytes)"

    @property
    def batch(self):
        """A copy of the batch as produced; ValueError once its memory is freed."""
        if self.message == NULL:
            raise ValueError("the memory of this batch was already freed")
        return PyBytes_FromStringAndSize(<char *>self.message.body, self.message.body_bytes)

    @property
    def needs_work(self):
        """Whether the batch needs a check or recompression; else it only waits for the slow batches before it."""
        return self.look_inside or self.info.schemas_missing or self.wanted_codec not in (-1, self.codec)

    cdef void release(self):
        """Frees the batch as produced."""
        if self.message != NULL:
            slow_waiting_gone(self.plane, slow_cost(self.message.body_bytes))
            free(self.message)
            self.message = NULL

    cdef void count_working(self, int64_t n):
        """Sets the counted bytes to `n`."""
        if n != self.working_bytes:
            slow_working_add(self.plane, n - self.working_bytes)
            self.working_bytes = n

    cdef bint take_schemas(self):
        """Takes the schemas that its topic has now; returns False, with none, if its partition is not served here any
        more."""
        cdef Partition *p = self.part.partition if self.part != NULL else NULL
        schema_ids_release(self.rules.schemas.keys)
        schema_ids_release(self.rules.schemas.values)
        self.rules.schemas.keys = self.rules.schemas.values = NULL
        if p == NULL or load_i32(&p.deleted):
            return False
        self.rules.schemas.keys = schema_ids_shared(p.topic.key_schemas)
        self.rules.schemas.values = schema_ids_shared(p.topic.value_schemas)
        return True

    cdef bint replace(self, bytes batch) except False:
        """Sets `batch` as the batch to store, after the checks of a batch from a client."""
        cdef const char *reason = NULL
        cdef int16_t error
        cdef int64_t n = PyBytes_GET_SIZE(batch)
        cdef uint8_t *data = <uint8_t *>malloc(n if n > 0 else 1)
        if data == NULL:
            raise MemoryError
        memcpy(data, PyBytes_AS_STRING(batch), n)
        self.rules.max_message_bytes = INT32_MAX
        self.rules.key_required = False
        self.rules.log_append_time = True                # keys, timestamps and schemas were checked before
        self.rules.schemas.wanted = 0
        error = batch_validate(data, n, &self.rules, 0, &self.info, &reason, &self.record_errors)
        if error != 0:
            free(data)
            raise ValueError(f"recompressed batch is not valid: {batch_reason(reason, self.record_errors)}")
        free(self.result)
        self.result = data
        return True

    cdef bint finish(self, int error, str reason) except False:
        """Sends the outcome to the batch's reactor: the batch to store, or the error and the reason."""
        cdef ProducePart *part = self.part
        if part == NULL:
            raise ValueError("this batch was already answered")
        self.part = NULL
        if error == 0 and self.result == NULL and self.message == NULL:
            error, reason = REQUEST_TIMED_OUT, "The broker could not process this batch; nothing was stored. Send it again."
        if error == 0:
            part.entry.info = self.info
            if self.result != NULL:
                part.owned = part.entry.data = self.result
                self.result = NULL
            else:
                part.owned = <uint8_t *>self.message
                part.entry.data = self.message.body
                slow_waiting_gone(self.plane, slow_cost(self.message.body_bytes))
                self.message = NULL
            self.count_working(self.info.size_bytes)     # slow_free subtracts it
            self.working_bytes = 0
        else:
            part.record_errors = self.record_errors
            self.record_errors = NULL
            if part.record_errors == NULL and reason is not None:
                part.record_errors = told(reason)
            self.count_working(0)
        if not self.busy:
            self.release()
        part.error = <int16_t>error
        if not post(&part.request.reactor.mailbox, MAIL_SLOW_BATCH, 0, 0, part):
            raise MemoryError("no memory to answer a produced batch; its connection waits until the client closes it")
        return True


cdef RecordErrors *told(str reason):
    """Creates RecordErrors with a message and no records; NULL when memory ran out."""
    cdef bytes text = reason.encode()[:RECORD_ERRORS_MESSAGE_BYTES - 1]
    cdef RecordErrors *errors = <RecordErrors *>calloc(1, sizeof(RecordErrors))
    if errors != NULL:
        memcpy(errors.message, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
    return errors


cdef str decoded_id(const char *at, int64_t length):
    """A client id as Java decodes it. One that could not be written again is cut."""
    cdef str text = at[:length].decode("utf-8", "replace")
    if length > REPLACED_MAX and len(text.encode()) > STRING_MAX:
        text = at[:REPLACED_MAX].decode("utf-8", "replace")
    return text


cdef str principal_of(Plane *plane, ControlMessage *m):
    """Returns the principal of a message's connection, and gives the message's reference back."""
    cdef Subject *subject
    cdef str principal = "User:ANONYMOUS"
    if m.subject != NO_SUBJECT:
        subject = subject_at(&plane.subjects, m.subject)
        principal = subject.principal[:subject.principal_length].decode("utf-8", "replace")
        subject_release(&plane.subjects, m.subject)
        m.subject = NO_SUBJECT
    return principal


cdef ControlRequest new_request(ControlMessage *m, Plane *plane, object owner):
    cdef ControlRequest request = ControlRequest.__new__(ControlRequest)
    cdef LargeBody body
    request.connection_id = m.connection_id
    request.slot = m.slot
    request.body_bytes = m.body_bytes
    request.api_key = m.header.api_key
    request.api_version = m.header.api_version
    request.correlation_id = m.header.correlation_id
    if m.header.client_id_length >= 0:
        request.client_id = decoded_id(<char *>m.header.client_id, m.header.client_id_length)
    request.received_ns = m.received_ns
    request.peer = (<bytes>m.peer).decode("ascii")
    request.listener = m.listener
    request.principal = principal_of(plane, m)
    request.authenticating = m.phase != PHASE_OPEN
    if m.counted_bytes == 0:
        request.body = PyBytes_FromStringAndSize(<char *>m.body, m.body_bytes)
        free(m)
    else:
        body = LargeBody.__new__(LargeBody)
        body.message = m
        body.plane = plane
        body.owner = owner
        request.body = body
    return request


cdef SlowBatch new_slow_batch(ControlMessage *m, Plane *plane, object owner):
    cdef SlowBatch slow = SlowBatch.__new__(SlowBatch)
    cdef Partition *p = m.part.partition
    slow.plane = plane
    slow.owner = owner
    slow.part = m.part
    slow.info = m.part.entry.info
    slow.size_bytes = <int>m.body_bytes
    slow.codec = slow.info.attributes & ATTR_COMPRESSION_MASK
    slow.wanted_codec = p.log.config.compression
    slow.key_required = p.log.config.compacted
    slow.look_inside = slow.codec != 0 and slow_look_inside(&p.log.config, &slow.info, wall_clock_ms())
    slow.record_max_bytes = p.log.config.max_decompressed_message_bytes
    slow.rules.max_message_bytes = p.log.config.max_message_bytes
    slow.rules.key_required = p.log.config.compacted
    slow.rules.log_append_time = p.log.config.log_append_time
    slow.rules.timestamp_before_max_ms = p.log.config.timestamp_before_max_ms
    slow.rules.timestamp_after_max_ms = p.log.config.timestamp_after_max_ms
    slow.rules.schemas.wanted = p.log.config.schemas
    slow.take_schemas()
    slow.partition = p.index
    slow.topic = "" if load_i32(&p.deleted) else (<char *>p.topic.name)[:p.topic.name_length].decode()
    if m.part.verifying:
        slow.transaction = (
            m.part.request.transactional_id[:m.part.request.transactional_id_length].decode("utf-8", "replace"),
            slow.info.producer_id, slow.info.producer_epoch, m.part.request.version)
    slow.message = m
    return slow


cdef object take_message(ControlMessage *m, Plane *plane, object owner):
    cdef ProducePart *part = m.part
    try:
        if part != NULL:
            return new_slow_batch(m, plane, owner)
        return new_request(m, plane, owner)
    except MemoryError:
        if part == NULL:
            post_to(plane, MAIL_REPLY, m.connection_id, m.slot, NULL)
            if m.counted_bytes > 0:
                slow_waiting_gone(plane, m.counted_bytes)
        else:
            part.error = REQUEST_TIMED_OUT
            post(&part.request.reactor.mailbox, MAIL_SLOW_BATCH, 0, 0, part)
            slow_waiting_gone(plane, slow_cost(m.body_bytes))
        message_free(plane, m)
        return None
