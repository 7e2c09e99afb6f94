"""Turns the JSON of REST produce requests into records, and their outcomes into lines of JSON, without an object for each.

Requests are JSON objects one after the other, with or without white space between them, as in Confluent's REST API, v3:
`{"partition_id": 1, "headers": [{"name": "n", "value": base64}], "key": {"type": "STRING", "data": "k"}, "value": {"type":
"JSON", "data": {…}}, "timestamp": "2026-11-30T10:00:00Z"}`. Each gets one answer, in the order of the requests.

Ownership: `feed` and `take` belong to one task and its thread, `answers` to another; the GIL guards what they share. While
`take` waits for room in the producer's memory, nothing else may call `feed`.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport INT32_MAX, int32_t, int64_t, int8_t, uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memmove, memset
from bowstring._native.base.clock cimport wall_clock_ms
from bowstring._native.base.varint cimport put_varint, varint_size
from bowstring._native.base.wire cimport Writer, grow, put_i8, put_raw, writer_free
from bowstring._native.client.producer_batch cimport Batch
from bowstring._native.client.record_sender cimport RecordSender
from bowstring._native.rest.json_text cimport put_decimal, put_instant, put_json_string, take_base64
from bowstring._native.values.json_scan cimport (
    Scan, json_bad, json_literal, json_number, json_peek, json_skip, json_string, json_take)
from bowstring._native.values.rfc3339 cimport parse_timestamp

cdef enum Kind:
    KIND_ABSENT                   # there is no key or value
    KIND_BINARY
    KIND_JSON
    KIND_STRING
    KIND_SCHEMA                   # Python encodes it

cdef enum:
    HEADERS_MAX = 10000
    REFUSED_AS_JSON = 400
    REFUSED_WITHOUT_PARTITION = 40402
    REFUSED_AS_TOO_LARGE = 413
    ANSWERED = 200

cdef struct Part:
    # A key or value of the request at hand. Pointers are into the input, or into `copied`.
    Kind kind
    bint named                    # it has a type
    bint has_schema               # it has members that only types with a schema have
    const uint8_t *text           # of the whole object
    int64_t text_size
    const uint8_t *data           # JSON text of `data`; NULL: there is none
    int64_t data_size
    const uint8_t *sent           # what the record gets
    int64_t sent_size             # -1: null
    Writer copied

cdef struct Line:
    Part key
    Part value
    bint has_partition
    int64_t partition
    bint has_timestamp
    int64_t timestamp_ms
    Writer headers                # as a record has them; empty: none

cdef struct Answer:
    PyObject *batch               # NULL: the record was refused
    PyObject *detail              # of a refusal its line; with schemas the members of the answer; else NULL
    int32_t index                 # in the batch
    int32_t key_size
    int32_t value_size
    int8_t key_kind
    int8_t value_kind
    int64_t timestamp_ms

cdef uint64_t YEAR_9999_ENDS_S = 253402300799

cdef tuple KINDS = (b"", b'"type":"BINARY",', b'"type":"JSON",', b'"type":"STRING",', b"")


cdef class ProduceLines:
    """Records of one request.

    Args:
        sender: the producer.
        topic: where records go.
        place: members of every answer, such as `"cluster_id":"c","topic_name":"t",`.
        explain: code and message of an answer by the error of a record.
        changed: called in the producer's thread when answers may be ready.
        encode: encodes a key (True) or value whose type needs a schema, given its JSON.
        value_bytes_max: size of a request's JSON at most.
    """
    cdef RecordSender sender
    cdef object topic, explain, changed, encode
    cdef bytes place
    cdef int64_t value_bytes_max
    cdef Writer input
    cdef int64_t at               # in the input: where the next value begins
    cdef int64_t looked           # how far its end was looked for
    cdef int depth
    cdef bint in_string
    cdef bint ended
    cdef readonly bint broken     # the input is no JSON from here on
    cdef readonly int64_t refused # records
    cdef readonly int64_t sent
    cdef Scan scan
    cdef Line line
    cdef Answer *answers_at
    cdef int64_t capacity, first, count
    cdef set noted                # batches that call back
    cdef object last_error
    cdef bytes last_line

    def __init__(self, RecordSender sender not None, str topic not None, bytes place not None, explain, changed, encode,
                 int64_t value_bytes_max):
        self.sender, self.topic, self.place = sender, topic, place
        self.explain, self.changed, self.encode = explain, changed, encode
        self.value_bytes_max = value_bytes_max
        self.noted = set()

    def __cinit__(self, *args):
        memset(&self.input, 0, sizeof(Writer))
        memset(&self.scan, 0, sizeof(Scan))
        memset(&self.line, 0, sizeof(Line))

    def __dealloc__(self):
        self.drop_answers()
        free(self.answers_at)
        free(self.scan.text)
        writer_free(&self.input)
        writer_free(&self.line.key.copied)
        writer_free(&self.line.value.copied)
        writer_free(&self.line.headers)

    cdef void drop_answers(self) noexcept:
        cdef Answer *a
        while self.count > 0:
            a = &self.answers_at[self.first]
            self.first += 1
            self.count -= 1
            if a.batch != NULL:
                Py_DECREF(<object>a.batch)
            if a.detail != NULL:
                Py_DECREF(<object>a.detail)

    @property
    def waiting(self):
        """Records without an answer."""
        return self.count

    # ------------------------------------------------------------ input

    def feed(self, bytes data not None):
        """Adds input."""
        if self.broken:
            return
        if self.at > 0:
            memmove(self.input.data, self.input.data + self.at, self.input.size - self.at)
            self.input.size -= self.at
            self.looked -= self.at
            self.at = 0
        put_raw(&self.input, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
        if self.input.failed:
            raise MemoryError("no memory for the body of a request")

    def end(self):
        """Says that there is no more input."""
        self.ended = True

    def take(self, int most, refusal=None):
        """Sends the records of at most so many values that are there as a whole; returns their number.

        Waits as `Producer.send` does. Errors become answers.

        Args:
            most: values.
            refusal: code and message; then records are not sent, and answered by it.
        """
        cdef int taken = 0
        cdef int64_t size
        while taken < most and not self.broken:
            size = self.value_size()
            if size <= 0:
                break
            taken += 1
            self.take_one(self.input.data + self.at, size, refusal)
            self.at += size
            self.looked = self.at
        return taken

    cdef int64_t value_size(self) except -1:
        """The size of the next value, once it is there as a whole; 0: not yet."""
        cdef const uint8_t *data = self.input.data
        cdef int64_t i = self.looked
        cdef uint8_t c
        if self.depth == 0:
            while i < self.input.size and (data[i] == c' ' or data[i] == c'\n' or data[i] == c'\r' or data[i] == c'\t'):
                i += 1
            self.at = self.looked = i
            if i == self.input.size:
                return 0
            if data[i] != c'{':
                self.stop(REFUSED_AS_JSON, "Error processing JSON: a record must be a JSON object, and records must follow "
                          "each other without anything but white space between them")
                return 0
        while i < self.input.size:
            c = data[i]
            if self.in_string:
                if c == c'\\':
                    if i + 1 == self.input.size:
                        break
                    i += 1
                elif c == c'"':
                    self.in_string = False
            elif c == c'"':
                self.in_string = True
            elif c == c'{' or c == c'[':
                self.depth += 1
            elif c == c'}' or c == c']':
                self.depth -= 1
                if self.depth == 0:
                    return i + 1 - self.at
            i += 1
        self.looked = i
        if i - self.at > self.value_bytes_max:
            self.stop(REFUSED_AS_TOO_LARGE, f"a record of more than {self.value_bytes_max} bytes of JSON is too large")
        elif self.ended:
            self.stop(REFUSED_AS_JSON, "Error processing JSON: the request ends in the middle of a record")
        return 0

    cdef stop(self, int code, str message):
        """Answers for what cannot be read, and takes no more."""
        self.broken = True
        self.at = self.looked = self.input.size = 0
        self.refuse(code, message)

    # ------------------------------------------------------------ a record

    cdef take_one(self, const uint8_t *at, int64_t size, refusal):
        cdef Line *l = &self.line
        cdef const uint8_t *headers = NULL
        cdef int64_t timestamp_ms
        cdef int32_t index = 0
        cdef Batch batch
        cdef const char *fault
        cdef Answer *a
        if refusal is not None:
            self.refuse(refusal[0], refusal[1])
            return
        if size > self.value_bytes_max:
            self.refuse(REFUSED_AS_TOO_LARGE, f"a record of more than {self.value_bytes_max} bytes of JSON is too large")
            return
        fault = self.parse(at, size)
        if fault != NULL:
            self.refuse(REFUSED_AS_JSON, (<bytes>fault).decode())
            return
        if l.has_partition and not 0 <= l.partition <= INT32_MAX:
            self.refuse(REFUSED_WITHOUT_PARTITION, "Partition not found.")
            return
        detail = None
        timestamp_ms = l.timestamp_ms if l.has_timestamp else wall_clock_ms()
        try:
            if l.key.kind == KIND_SCHEMA or l.value.kind == KIND_SCHEMA:
                detail = self.encoded()
            if l.headers.size:
                headers = l.headers.data
            batch = self.sender.append(
                self.topic, None, l.key.sent, l.key.sent_size, l.value.sent, l.value.sent_size, headers, l.headers.size,
                timestamp_ms, l.partition if l.has_partition else None, &index)
        except MemoryError:
            raise
        except Exception as error:
            code, message = self.explain(error)
            self.refuse(code, message)
            return
        a = self.next_answer()
        Py_INCREF(batch)
        a.batch = <PyObject *>batch
        if detail is not None:
            Py_INCREF(detail)
            a.detail = <PyObject *>detail
        a.index = index
        a.key_kind, a.value_kind = <int8_t>l.key.kind, <int8_t>l.value.kind
        a.key_size, a.value_size = <int32_t>l.key.sent_size, <int32_t>l.value.sent_size
        a.timestamp_ms = timestamp_ms
        self.sent += 1
        if batch not in self.noted:
            self.noted.add(batch)
            batch.note_callback(self.batch_done, batch)

    def batch_done(self, batch):
        """In the producer's thread."""
        self.noted.discard(batch)
        self.changed()

    cdef tuple encoded(self):
        """Has Python encode what needs a schema; returns members of the answer for key and value."""
        members = []
        members.append(self.encoded_part(&self.line.key, True))
        members.append(self.encoded_part(&self.line.value, False))
        return tuple(members)

    cdef bytes encoded_part(self, Part *part, bint is_key):
        if part.kind != KIND_SCHEMA:
            return None
        data, members = self.encode(is_key, PyBytes_FromStringAndSize(<const char *>part.text, part.text_size))
        part.sent_size = -1
        if data is not None:
            part.copied.size = 0
            put_raw(&part.copied, PyBytes_AS_STRING(<bytes>data), len(data))
            if part.copied.failed:
                raise MemoryError("no memory for a record")
            part.sent, part.sent_size = part.copied.data, part.copied.size
        return members

    cdef Answer *next_answer(self) except NULL:
        cdef Answer *grown
        if self.first + self.count == self.capacity:
            if self.first > self.count:                  # more than half of it is free
                memmove(self.answers_at, self.answers_at + self.first, self.count * sizeof(Answer))
                self.first = 0
            else:
                grown = <Answer *>realloc(self.answers_at, max(<int64_t>64, self.capacity * 2) * sizeof(Answer))
                if grown == NULL:
                    raise MemoryError("no memory for the answers of records")
                self.answers_at = grown
                self.capacity = max(<int64_t>64, self.capacity * 2)
        grown = &self.answers_at[self.first + self.count]
        memset(grown, 0, sizeof(Answer))
        self.count += 1
        return grown

    def refuse(self, int code, str message not None):
        """Adds an answer for a record that is not sent."""
        cdef Answer *a = self.next_answer()
        line = error_line(code, message)
        Py_INCREF(line)
        a.detail = <PyObject *>line
        self.refused += 1

    # ------------------------------------------------------------ answers

    def answers(self, int64_t bytes_max):
        """Returns the lines of answers that are known, in order; about `bytes_max` bytes at most."""
        cdef Writer out
        cdef Answer *a
        cdef Answer answer
        memset(&out, 0, sizeof(Writer))
        try:
            while self.count > 0 and out.size < bytes_max:
                a = &self.answers_at[self.first]
                if a.batch != NULL and not (<Batch>a.batch).done:
                    break
                answer = a[0]
                self.first += 1
                self.count -= 1
                if self.count == 0:
                    self.first = 0
                batch = <object>answer.batch if answer.batch != NULL else None
                detail = <object>answer.detail if answer.detail != NULL else None
                if answer.batch != NULL:
                    Py_DECREF(batch)
                if answer.detail != NULL:
                    Py_DECREF(detail)
                if batch is None:
                    put_raw(&out, PyBytes_AS_STRING(<bytes>detail), len(<bytes>detail))
                else:
                    self.put_answer(&out, &answer, batch, detail)
            if out.failed:
                raise MemoryError("no memory for the answers of records")
            return PyBytes_FromStringAndSize(<const char *>out.data, out.size)
        finally:
            writer_free(&out)

    cdef put_answer(self, Writer *out, const Answer *a, Batch batch, tuple detail):
        cdef int32_t index = a.index
        batch = batch.leaf(&index)
        if batch.error is not None:
            if batch.error is not self.last_error:
                code, message = self.explain(batch.error)
                self.last_line = error_line(code, message)
                self.last_error = batch.error
            put_raw(out, PyBytes_AS_STRING(self.last_line), len(self.last_line))
            self.refused += 1
            return
        put_raw(out, b'{"error_code":200,', 18)
        put_raw(out, PyBytes_AS_STRING(self.place), PyBytes_GET_SIZE(self.place))
        put_raw(out, b'"partition_id":', 15)
        put_decimal(out, batch.partition[1])
        put_raw(out, b',"offset":', 10)
        put_decimal(out, batch.base_offset + index if batch.base_offset >= 0 else -1)
        put_raw(out, b',"timestamp":', 13)
        put_instant(out, batch.log_append_time_ms if batch.log_append_time_ms >= 0 else a.timestamp_ms)
        if a.key_kind:
            put_raw(out, b',"key":{', 8)
            put_part(out, a.key_kind, a.key_size, detail[0] if detail is not None else None)
        if a.value_kind:
            put_raw(out, b',"value":{', 10)
            put_part(out, a.value_kind, a.value_size, detail[1] if detail is not None else None)
        put_raw(out, b"}\r\n", 3)

    def give_up(self):
        """Forgets all answers: nobody waits for them."""
        self.drop_answers()
        self.broken = True
        self.at = self.looked = self.input.size = 0

    # ------------------------------------------------------------ parsing

    cdef const char *parse(self, const uint8_t *at, int64_t size) noexcept:
        """Reads a request into `line`; NULL, or what is wrong with it."""
        cdef Scan *s = &self.scan
        cdef Line *l = &self.line
        l.has_partition = l.has_timestamp = False
        l.key.kind = l.value.kind = KIND_ABSENT
        l.key.sent_size = l.value.sent_size = -1
        l.key.sent = l.value.sent = NULL
        l.headers.size = 0
        s.begin = s.at = at
        s.end = at + size
        s.fault = NULL
        if parse_members(s, l) and serialize(s, &l.key) and serialize(s, &l.value):
            if not (l.headers.failed or l.key.copied.failed or l.value.copied.failed):
                return NULL
            l.headers.failed = l.key.copied.failed = l.value.copied.failed = False
            s.fault = b"no memory for the record"
        if s.fault == NULL:
            s.fault = b"not JSON"
        return s.fault


cdef bytes error_line(int code, str message):
    cdef Writer out
    cdef bytes text = message.encode("utf-8", "replace")
    memset(&out, 0, sizeof(Writer))
    put_raw(&out, b'{"error_code":', 14)
    put_decimal(&out, code)
    put_raw(&out, b',"message":', 11)
    put_json_string(&out, <const uint8_t *>PyBytes_AS_STRING(text), len(text))
    put_raw(&out, b"}\r\n", 3)
    try:
        if out.failed:
            raise MemoryError("no memory for an answer")
        return PyBytes_FromStringAndSize(<const char *>out.data, out.size)
    finally:
        writer_free(&out)


cdef put_part(Writer *out, int8_t kind, int32_t size, bytes members):
    cdef bytes text = KINDS[kind] if members is None else members
    put_raw(out, PyBytes_AS_STRING(text), len(text))
    put_raw(out, b'"size":', 7)
    put_decimal(out, size)
    put_i8(out, c'}')


cdef inline bint is_text(const Scan *s, const char *text, int64_t size) noexcept nogil:
    return s.string_size == size and memcmp(s.string, text, size) == 0


cdef bint take_null(Scan *s) noexcept nogil:
    """Takes null, if it is next."""
    return json_peek(s) == c'n' and json_literal(s, b"null", 4)


cdef bint parse_members(Scan *s, Line *l) noexcept nogil:
    if not json_take(s, c'{', "a record must be a JSON object"):
        return False
    if json_peek(s) == c'}':
        s.at += 1
        return True
    while True:
        if not (json_string(s) and json_take(s, c':', "':' is missing") and parse_member(s, l)):
            return False
        if json_peek(s) != c',':
            return json_take(s, c'}', "',' or the end of the record is missing")
        s.at += 1
        json_peek(s)


cdef bint parse_member(Scan *s, Line *l) noexcept nogil:
    """The value of a member whose name was read."""
    if is_text(s, b"value", 5):
        return parse_part(s, &l.value)
    if is_text(s, b"key", 3):
        return parse_part(s, &l.key)
    if is_text(s, b"partition_id", 12):
        if take_null(s):
            return True
        if not json_number(s):
            return json_bad(s, "partition_id must be an integer")
        if not s.integer or not s.fits or s.magnitude > INT32_MAX:
            return json_bad(s, "partition_id must be an integer of 32 bits")
        l.has_partition = True
        l.partition = -<int64_t>s.magnitude if s.negative else <int64_t>s.magnitude
        return True
    if is_text(s, b"timestamp", 9):
        return take_null(s) or parse_time(s, l)
    if is_text(s, b"headers", 7):
        return take_null(s) or parse_headers(s, &l.headers)
    if is_text(s, b"id", 2):                             # of an entry of a batch
        return json_skip(s, 0)
    return json_bad(s, "unrecognized field: a record has partition_id, headers, key, value and timestamp")


cdef bint parse_time(Scan *s, Line *l) noexcept nogil:
    """RFC 3339, or seconds since 1970."""
    cdef int64_t seconds, nanoseconds
    if json_peek(s) != c'"':
        if not json_number(s) or not s.integer or not s.fits or s.magnitude > YEAR_9999_ENDS_S:
            return json_bad(s, "timestamp must be a time such as 2026-11-30T10:00:00Z, or seconds since 1970")
        l.timestamp_ms = 1000 * (-<int64_t>s.magnitude if s.negative else <int64_t>s.magnitude)
    else:
        if not json_string(s):
            return False
        if not parse_timestamp(s.string, s.string_size, &seconds, &nanoseconds):
            return json_bad(s, "timestamp must be a time such as 2026-11-30T10:00:00Z")
        l.timestamp_ms = seconds * 1000 + nanoseconds // 1000000
    if l.timestamp_ms < 0:
        return json_bad(s, "timestamp must not be before 1970")
    l.has_timestamp = True
    return True


cdef bint parse_part(Scan *s, Part *part) noexcept nogil:
    """A key or value: its type, and where its data is."""
    part.kind = KIND_ABSENT
    if take_null(s):
        return True
    json_peek(s)
    part.text = s.at
    if not json_take(s, c'{', "key and value must be objects with type and data"):
        return False
    part.kind = KIND_SCHEMA
    part.data = NULL
    part.named = part.has_schema = False
    if json_peek(s) == c'}':
        s.at += 1
    else:
        while True:
            if not (json_string(s) and json_take(s, c':', "':' is missing") and parse_part_member(s, part)):
                return False
            if json_peek(s) != c',':
                if not json_take(s, c'}', "',' or the end of a key or value is missing"):
                    return False
                break
            s.at += 1
            json_peek(s)
    part.text_size = s.at - part.text
    if part.kind != KIND_SCHEMA and part.has_schema:
        return json_bad(s, "BINARY, JSON and STRING have no schema: leave out subject, schema_id, schema_version and schema")
    return True


cdef bint parse_part_member(Scan *s, Part *part) noexcept nogil:
    if is_text(s, b"data", 4):
        json_peek(s)
        part.data = s.at
        if not json_skip(s, 2):
            return False
        part.data_size = s.at - part.data
        return True
    if is_text(s, b"type", 4):
        return take_null(s) or parse_type(s, part)
    if (is_text(s, b"schema_id", 9) or is_text(s, b"schema_version", 14) or is_text(s, b"schema", 6)
            or is_text(s, b"subject", 7) or is_text(s, b"subject_name_strategy", 21)):
        if take_null(s):
            return True
        part.has_schema = True
        return json_skip(s, 2)
    return json_bad(s, "unrecognized field: key and value have type, subject, subject_name_strategy, schema_id, "
                    "schema_version, schema and data")


cdef bint parse_type(Scan *s, Part *part) noexcept nogil:
    if not json_string(s):
        return json_bad(s, "type must be a string")
    part.named = True
    if is_text(s, b"JSON", 4):
        part.kind = KIND_JSON
    elif is_text(s, b"STRING", 6):
        part.kind = KIND_STRING
    elif is_text(s, b"BINARY", 6):
        part.kind = KIND_BINARY
    elif is_text(s, b"AVRO", 4) or is_text(s, b"JSONSCHEMA", 10) or is_text(s, b"PROTOBUF", 8):
        part.kind = KIND_SCHEMA
    else:
        return json_bad(s, "type must be one of BINARY, JSON, STRING, AVRO, JSONSCHEMA, PROTOBUF")
    return True


cdef bint serialize(Scan *s, Part *part) noexcept nogil:
    """Finds or makes the bytes of a key or value without a schema."""
    part.sent_size = -1
    if part.kind == KIND_ABSENT or part.kind == KIND_SCHEMA or part.data == NULL or part.data[0] == c'n':
        return True
    part.copied.size = 0
    if part.kind == KIND_JSON:
        return serialize_json(part)
    if part.data[0] != c'"':
        return json_bad(s, "data is not a base64 string" if part.kind == KIND_BINARY else "data is not a string")
    s.at = part.data
    s.end = part.data + part.data_size
    json_string(s)
    if part.kind == KIND_BINARY:
        if not take_base64(&part.copied, s.string, s.string_size):
            return part.copied.failed or json_bad(s, "data is not a valid base64 string")
        part.sent, part.sent_size = part.copied.data, part.copied.size
    elif s.string == s.text and s.string != NULL:        # the next string overwrites it
        put_raw(&part.copied, s.string, s.string_size)
        part.sent, part.sent_size = part.copied.data, part.copied.size
    else:
        part.sent, part.sent_size = s.string, s.string_size
    return True


cdef bint serialize_json(Part *part) noexcept nogil:
    """JSON without the white space between its tokens."""
    cdef const uint8_t *p = part.data
    cdef const uint8_t *end = part.data + part.data_size
    cdef const uint8_t *start = p
    cdef bint in_string = False
    while p < end:
        if in_string:
            if p[0] == c'\\':
                p += 1
            elif p[0] == c'"':
                in_string = False
        elif p[0] == c'"':
            in_string = True
        elif p[0] <= c' ':
            put_raw(&part.copied, start, p - start)
            start = p + 1
        p += 1
    if start == part.data:
        part.sent, part.sent_size = part.data, part.data_size
        return True
    put_raw(&part.copied, start, end - start)
    part.sent, part.sent_size = part.copied.data, part.copied.size
    return True


cdef bint parse_headers(Scan *s, Writer *headers) noexcept nogil:
    """[{"name": …, "value": base64 or null}, …], as a record has headers: their number, then each."""
    cdef int64_t count = 0
    cdef Writer all_of_them
    cdef uint8_t *at
    cdef bint read
    headers.size = 0
    memset(&all_of_them, 0, sizeof(Writer))
    if not json_take(s, c'[', "headers must be a list"):
        return False
    if json_peek(s) == c']':
        s.at += 1
        return True
    read = parse_each_header(s, &all_of_them, &count)
    if read:
        at = grow(headers, varint_size(count))
        if at != NULL:
            put_varint(at, count)
        put_raw(headers, all_of_them.data, all_of_them.size)
        headers.failed = headers.failed or all_of_them.failed
    writer_free(&all_of_them)
    return read


cdef bint parse_each_header(Scan *s, Writer *out, int64_t *count) noexcept nogil:
    while True:
        if not parse_header(s, out):
            return False
        count[0] += 1
        if count[0] > HEADERS_MAX:
            return json_bad(s, "a record has at most 10000 headers")
        if json_peek(s) != c',':
            return json_take(s, c']', "',' or the end of headers is missing")
        s.at += 1


cdef void put_sized(Writer *out, const uint8_t *at, int64_t size) noexcept nogil:
    cdef uint8_t *place = grow(out, varint_size(size))
    if place != NULL:
        put_varint(place, size)
    put_raw(out, at, size)


cdef bint parse_header(Scan *s, Writer *out) noexcept nogil:
    cdef Writer name, value
    cdef bint has_name = False, has_value = False, read
    memset(&name, 0, sizeof(Writer))
    memset(&value, 0, sizeof(Writer))
    read = parse_header_members(s, &name, &value, &has_name, &has_value)
    if read and not has_name:
        read = json_bad(s, "a header has no name")
    if read:
        put_sized(out, name.data, name.size)
        if has_value:
            put_sized(out, value.data, value.size)
        else:
            put_sized(out, NULL, -1)
        out.failed = out.failed or name.failed or value.failed
    writer_free(&name)
    writer_free(&value)
    return read


cdef bint parse_header_members(Scan *s, Writer *name, Writer *value, bint *has_name, bint *has_value) noexcept nogil:
    if not json_take(s, c'{', "a header must be an object with a name and a value"):
        return False
    if json_peek(s) == c'}':
        s.at += 1
        return True
    while True:
        if not (json_string(s) and json_take(s, c':', "':' is missing")):
            return False
        if is_text(s, b"name", 4):
            if json_peek(s) != c'"' or not json_string(s):
                return json_bad(s, "the name of a header must be a string")
            name.size = 0
            put_raw(name, s.string, s.string_size)
            has_name[0] = True
        elif is_text(s, b"value", 5):
            value.size = 0
            has_value[0] = False
            if not take_null(s):
                if json_peek(s) != c'"' or not json_string(s):
                    return json_bad(s, "the value of a header must be base64, or null")
                if not take_base64(value, s.string, s.string_size):
                    return json_bad(s, "the value of a header is not a valid base64 string")
                has_value[0] = True
        else:
            return json_bad(s, "unrecognized field: a header has name and value")
        if json_peek(s) != c',':
            return json_take(s, c'}', "',' or the end of a header is missing")
        s.at += 1
        json_peek(s)
