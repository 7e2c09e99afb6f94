"""Arrow data to record batches: rows are placed in partitions and encoded without the GIL, in large pieces.

An `ArrowRecords` steps through a stream: `next_array` takes a record batch of it, `next_slice` places some of its rows
in partitions, `spans` says which partition got how many, and `send_span` encodes them. Rows keep their order in
their partition.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset
from bowstring._native.arrow.input cimport (
    ArrowArray, ArrowArrayStream, ArrowSchema, NumberColumn, bind_bytes, bind_numbers, bytes_type_problem,
    headers_type_problem, integer_type_problem, number_get, pack_rows, timestamp_type_problem)
from bowstring._native.base.clock cimport wall_clock_ms
from bowstring._native.base.crc cimport crc32c_update
from bowstring._native.base.wire cimport Writer, reserve, writer_free
from bowstring._native.client.accumulator cimport RECORD_OVERHEAD_BYTES, Accumulator, TopicRoute
from bowstring._native.client.partitioner cimport (
    NULL_RANDOM, NULL_ROUND_ROBIN, Chooser, chooser_by_key, chooser_keyed, chooser_random)
from bowstring._native.client.producer_batch cimport Batch, produce_memory_give, produce_memory_take
from bowstring._native.client.record_sender cimport RecordSender
from bowstring._native.record.batch cimport BATCH_HEADER_BYTES
from bowstring._native.record.encode cimport (
    BinaryColumn, RecordColumns, RecordSpan, column_get, columns_encode, columns_row_bytes)

cdef enum:
    SLICE_ROWS = 65536
    SLICE_ROWS_MAX = 1048576
    MEASURED_ROWS = 1024          # a span this short is measured, so that its batch takes no more than it needs
    PIECES_MAX = 64               # batches encoded without the GIL at a time
    PIECES_BYTES = 524288

ROLES = ("key", "value", "timestamp", "partition", "headers")


class ArrowStreamError(Exception):
    """The stream that rows are read from failed; the message has what it said."""


class ArrowInputError(ValueError):
    """Arrow data that cannot become records; the message names the column, and the row where it is one."""


cdef enum Placed:
    PLACED_ALL
    PLACED_STICKY_USED_UP         # the next partition for rows without a key has to be chosen
    PLACED_NO_PARTITION
    PLACED_TOO_LARGE

cdef struct Piece:
    # A batch that has been encoded and is not an object yet.
    Writer out
    RecordSpan span
    uint32_t records_crc

cdef struct Slice:
    # Rows [begin, begin + rows) of the array and where they go.
    int64_t begin
    int64_t rows
    int32_t *partition            # by row of the slice
    int32_t *order                # rows of the array by partition, each partition's in their order
    int64_t *starts               # partitions + 1 places in `order`
    int64_t *timestamps           # ms, when there is a column of them
    int32_t *available            # partitions with a leader
    int64_t available_count
    int64_t bad_row
    int64_t bad_value


cdef class ArrowRecords:
    """The rows of Arrow data as records."""
    cdef ArrowArrayStream stream
    cdef ArrowSchema schema
    cdef ArrowArray array
    cdef int streaming            # arrays come from `stream`; else the one there is, is in `array`
    cdef int children[5]          # by role, -1 for none
    cdef RecordColumns columns    # of the array
    cdef NumberColumn times
    cdef NumberColumn targets
    cdef Writer packed            # headers as they are on the wire, and where each row's end
    cdef int64_t *packed_ends
    cdef Slice slice
    cdef int64_t capacity         # rows that the slice's memory is for
    cdef readonly int64_t rows_before   # of arrays that are done with
    cdef bint drained

    def __cinit__(self, source, dict names not None, tuple ignored=()):
        """`names` has column names by role; a role it lacks is not there. Columns in `ignored` may be there."""
        memset(&self.stream, 0, sizeof(ArrowArrayStream))
        memset(&self.schema, 0, sizeof(ArrowSchema))
        memset(&self.array, 0, sizeof(ArrowArray))
        memset(&self.slice, 0, sizeof(Slice))
        memset(&self.packed, 0, sizeof(Writer))
        if hasattr(source, "__arrow_c_stream__"):
            self.take_stream(source.__arrow_c_stream__())
        elif hasattr(source, "__arrow_c_array__"):
            schema, array = source.__arrow_c_array__()
            self.take_array(schema, array)
        else:
            raise ArrowInputError(
                f"a {type(source).__name__} is no Arrow data: give a pyarrow, Polars, pandas or DuckDB table, or "
                "anything that has __arrow_c_stream__ or __arrow_c_array__")
        self.bind_schema(names, ignored)

    def __dealloc__(self):
        if self.array.release != NULL:
            self.array.release(&self.array)
        if self.schema.release != NULL:
            self.schema.release(&self.schema)
        if self.stream.release != NULL:
            self.stream.release(&self.stream)
        writer_free(&self.packed)
        free(self.packed_ends)
        free(self.slice.partition)
        free(self.slice.order)
        free(self.slice.starts)
        free(self.slice.timestamps)
        free(self.slice.available)

    # ------------------------------------------------------------ the stream

    cdef take_stream(self, capsule):
        cdef ArrowArrayStream *lent = <ArrowArrayStream *>PyCapsule_GetPointer(capsule, "arrow_array_stream")
        self.stream = lent[0]
        lent.release = NULL                              # moved: the capsule has nothing to release any more
        self.streaming = True
        if self.stream.get_schema(&self.stream, &self.schema) != 0:
            raise ArrowStreamError(f"the stream has no schema: {self.stream_error()}")

    cdef take_array(self, schema, array):
        cdef ArrowSchema *lent_schema = <ArrowSchema *>PyCapsule_GetPointer(schema, "arrow_schema")
        cdef ArrowArray *lent_array = <ArrowArray *>PyCapsule_GetPointer(array, "arrow_array")
        self.schema = lent_schema[0]
        lent_schema.release = NULL
        self.array = lent_array[0]
        lent_array.release = NULL

    cdef str stream_error(self):
        cdef const char *said = self.stream.get_last_error(&self.stream)
        return "no reason given" if said == NULL else said.decode(errors="replace").partition("\n")[0]

    cdef bind_schema(self, dict names, tuple ignored):
        """Finds the column of each role, and refuses what cannot be sent."""
        cdef int64_t i
        cdef list problems = []
        if self.schema.format == NULL or self.schema.format != b"+s":
            raise ArrowInputError("the data has no columns: give a table or record batch, not an array")
        roles = {name: role for role, name in names.items()}
        for i in range(5):
            self.children[i] = -1
        for i in range(self.schema.n_children):
            name = self.schema.children[i].name.decode() if self.schema.children[i].name != NULL else ""
            role = roles.get(name)
            if role is None:
                if name not in ignored:
                    problems.append(f"column {name!r} has no part in a record")
                continue
            if self.children[ROLES.index(role)] >= 0:
                problems.append(f"there are two columns {name!r}")
                continue
            self.children[ROLES.index(role)] = <int>i
            problem = role_problem(role, self.schema.children[i])
            if problem is not None:
                problems.append(f"column {name!r} {problem}")
        if self.children[0] < 0 and self.children[1] < 0:
            problems.append(f"there is neither a column {names.get('value')!r} nor {names.get('key')!r}")
        if problems:
            raise ArrowInputError("; ".join(problems))

    def next_array(self):
        """Goes on to the next record batch of the data; False after the last."""
        cdef int code
        self.rows_before += self.array.length if self.drained else 0
        if self.streaming:
            if self.array.release != NULL:
                self.array.release(&self.array)
            memset(&self.array, 0, sizeof(ArrowArray))
            with nogil:
                code = self.stream.get_next(&self.stream, &self.array)
            if code != 0:
                raise ArrowStreamError(f"reading the stream failed after {self.rows_before} rows: {self.stream_error()}")
        elif self.drained:
            return False
        if self.array.release == NULL:
            return False
        self.drained = True
        self.bind_array()
        return True

    cdef bind_array(self):
        cdef int i
        cdef BinaryColumn *column
        if self.array.null_count > 0 and self.array.n_buffers > 0 and self.array.buffers[0] != NULL:
            raise ArrowInputError("rows of the data are null as a whole: drop them")
        memset(&self.columns, 0, sizeof(RecordColumns))
        memset(&self.times, 0, sizeof(NumberColumn))
        memset(&self.targets, 0, sizeof(NumberColumn))
        for i in range(2):
            column = &self.columns.key if i == 0 else &self.columns.value
            if self.children[i] >= 0:
                bind_bytes(self.schema.children[self.children[i]], self.array.children[self.children[i]],
                           self.array.offset, column)
        if self.children[2] >= 0:
            bind_numbers(self.schema.children[self.children[2]], self.array.children[self.children[2]],
                         self.array.offset, &self.times)
        if self.children[3] >= 0:
            bind_numbers(self.schema.children[self.children[3]], self.array.children[self.children[3]],
                         self.array.offset, &self.targets)
        if self.children[4] >= 0:
            self.pack_headers(self.schema.children[self.children[4]], self.array.children[self.children[4]])
        self.slice.begin = 0
        self.slice.rows = 0

    # ------------------------------------------------------------ headers

    cdef pack_headers(self, const ArrowSchema *schema, const ArrowArray *array):
        """Headers of all rows, encoded as records have them."""
        cdef BinaryColumn names, values
        cdef int64_t bad
        cdef const ArrowSchema *pair
        cdef bint wide = schema.format[1] == c"L"
        if schema.format[0] == c"n" or self.array.length == 0:
            return
        pair = schema.children[0]
        bind_bytes(pair.children[0], array.children[0].children[0], array.children[0].offset, &names)
        bind_bytes(pair.children[1], array.children[0].children[1], array.children[0].offset, &values)
        free(self.packed_ends)
        self.packed_ends = <int64_t *>malloc((self.array.length + 1) * sizeof(int64_t))
        if self.packed_ends == NULL:
            raise MemoryError("no memory for the headers")
        with nogil:
            bad = pack_rows(&self.packed, self.packed_ends, array, self.array.offset, self.array.length,
                            wide, &names, &values)
        if bad == -2:
            raise MemoryError("no memory for the headers")
        if bad >= 0:
            raise ArrowInputError(f"row {self.rows_before + bad} has a header without a name")
        self.columns.headers.data = self.packed.data
        self.columns.headers.offsets = self.packed_ends
        self.columns.headers.kind = 1                    # offsets of 64 bits

    # ------------------------------------------------------------ placing

    cdef int make_room(self, int64_t rows, int64_t partitions) except -1:
        cdef Slice *s = &self.slice
        if rows > self.capacity:
            s.partition = <int32_t *>realloc(s.partition, rows * sizeof(int32_t))
            s.order = <int32_t *>realloc(s.order, rows * sizeof(int32_t))
            s.timestamps = <int64_t *>realloc(s.timestamps, rows * sizeof(int64_t))
            self.capacity = rows
        s.starts = <int64_t *>realloc(s.starts, (partitions + 1) * sizeof(int64_t))
        s.available = <int32_t *>realloc(s.available, partitions * sizeof(int32_t))
        if (s.partition == NULL or s.order == NULL or s.timestamps == NULL or s.starts == NULL
                or s.available == NULL):
            raise MemoryError("no memory for the places of the rows")
        return 0

    def next_slice(self, Accumulator shared not None, str topic not None):
        """Places the next rows of the array in partitions; False when there are no more. The accumulator has the
        topic's route."""
        cdef TopicRoute route = shared.routes[topic]
        cdef int64_t partitions = len(route.queues), at = 0, rows, number
        cdef int64_t piece_bytes = shared.batch_bytes, limit = shared.request_bytes
        cdef Slice *s = &self.slice
        cdef Placed placed
        cdef bint asked = shared.partitioner is not None
        s.begin += s.rows
        rows = min(self.array.length - s.begin, min(SLICE_ROWS_MAX, SLICE_ROWS * max(1, partitions // 8)))
        s.rows = max(0, rows)
        if rows <= 0:
            return False
        if self.array.length > INT32_MAX:
            raise ArrowInputError(f"a record batch of {self.array.length} rows is too large: slice it")
        self.make_room(rows, partitions)
        s.available_count = len(route.available)
        for number in range(s.available_count):
            s.available[number] = route.available[number]
        self.columns.timestamp = wall_clock_ms()
        if asked:
            self.ask(shared.partitioner, route)
        while True:
            with nogil:
                placed = place(&self.columns, &self.targets, &route.chooser, s, &at, limit, asked)
            if placed != PLACED_STICKY_USED_UP:
                break
            route.choose_any(piece_bytes)
        if placed == PLACED_NO_PARTITION:
            raise ArrowInputError(
                f"row {self.rows_before + s.bad_row} is for partition {s.bad_value}, the topic has partitions 0 to {partitions - 1}")
        if placed == PLACED_TOO_LARGE:
            raise ArrowInputError(
                f"the record of row {self.rows_before + s.bad_row} has {s.bad_value} bytes, more than "
                f"max_request_size={limit}")
        with nogil:
            if self.times.values != NULL:
                self.read_times()
            sort_rows(s, partitions)
        self.columns.rows = s.order
        return True

    cdef void read_times(self) noexcept nogil:
        cdef int64_t i
        cdef bint valid
        for i in range(self.slice.rows):
            self.slice.timestamps[i] = number_get(&self.times, self.slice.begin + i, &valid)
            if not valid:
                self.slice.timestamps[i] = self.columns.timestamp

    cdef ask(self, partitioner, TopicRoute route):
        """Has a function of the caller's place the rows of the slice that name no partition themselves."""
        cdef const uint8_t *at
        cdef int64_t i, length
        cdef bint valid
        everywhere = list(range(len(route.queues)))
        for i in range(self.slice.rows):
            self.slice.partition[i] = -1
            number_get(&self.targets, self.slice.begin + i, &valid)
            if not valid:
                length = column_get(&self.columns.key, self.slice.begin + i, &at)
                key = None if length < 0 else PyBytes_FromStringAndSize(<const char *>at, length)
                self.slice.partition[i] = partitioner(key, everywhere, route.available)

    def spans(self):
        """(partition, begin, end) of each partition that got rows of the slice, for `send_span`."""
        cdef int64_t i = 0
        found = []
        while self.slice.starts[i] < self.slice.rows:
            if self.slice.starts[i + 1] > self.slice.starts[i]:
                found.append((i, self.slice.starts[i], self.slice.starts[i + 1]))
            i += 1
        return found

    # ------------------------------------------------------------ encoding

    def send_span(self, RecordSender producer not None, place not None, int64_t begin, int64_t end, list sent not None):
        """Encodes the rows of a span into batches, hands each to `producer` for the partition `place`, and adds it
        to `sent`. Small batches are encoded several at a time: letting the GIL go for each would cost more."""
        cdef Accumulator shared = producer.accumulator
        cdef Piece pieces[PIECES_MAX]
        cdef Batch batch
        cdef int wanted = <int>max(1, min(<int64_t>PIECES_MAX, PIECES_BYTES // max(shared.batch_bytes, 1))), count, i
        while begin < end:
            count = self.encode_pieces(pieces, wanted, begin, end, shared.batch_bytes)
            try:
                for i in range(count):
                    batch = shared.batch_type(place, shared.delivery_timeout_s)
                    batch.writer.out = pieces[i].out
                    memset(&pieces[i].out, 0, sizeof(Writer))
                    batch.writer.count = pieces[i].span.rows
                    batch.writer.base_timestamp = pieces[i].span.base_timestamp
                    batch.writer.min_timestamp = pieces[i].span.min_timestamp
                    batch.writer.max_timestamp = pieces[i].span.max_timestamp
                    batch.size_bytes = pieces[i].span.size_bytes
                    batch.records_crc = pieces[i].records_crc
                    batch.summed = True
                    begin += pieces[i].span.rows
                    producer.submit(place[0], place[1], batch)
                    sent.append(batch)
            finally:
                for i in range(count):                   # those that no batch has taken
                    produce_memory_give(&pieces[i].out)

    cdef int encode_pieces(self, Piece *pieces, int wanted, int64_t begin, int64_t end, int64_t max_bytes) except -1:
        """How many batches the rows from `begin` on made, `wanted` at most; each piece has the memory of one."""
        cdef RecordColumns columns = self.columns
        cdef int i, count = 0
        cdef bint failed = False
        if self.times.values != NULL:
            columns.timestamps = self.slice.timestamps - self.slice.begin   # `order` has rows of the array
        for i in range(wanted):
            produce_memory_take(&pieces[i].out)
        with nogil:
            while count < wanted and begin < end:
                failed = not encode_piece(&columns, begin, end, max_bytes, &pieces[count])
                if failed:
                    break
                begin += pieces[count].span.rows
                count += 1
        for i in range(0 if failed else count, wanted):
            pieces[i].out.failed = False
            produce_memory_give(&pieces[i].out)
        if failed:
            raise MemoryError(f"no memory for batches of {max_bytes} bytes")
        return count


cdef bint encode_piece(
        const RecordColumns *columns, int64_t begin, int64_t end, int64_t max_bytes, Piece *piece) noexcept nogil:
    """As many rows of a span from `begin` on as `max_bytes` take, or one; False when memory ran out."""
    cdef int64_t capacity = max(max_bytes, columns_row_bytes(columns, begin))
    if end - begin <= MEASURED_ROWS:
        columns_encode(columns, begin, end, NULL, capacity, &piece.span)
        capacity = piece.span.size_bytes
    if reserve(&piece.out, capacity) == NULL:
        return False
    columns_encode(columns, begin, end, piece.out.data, capacity, &piece.span)
    piece.out.size = piece.span.size_bytes
    # While they are in the cache, and without the GIL; the header's part comes when the batch is sent.
    piece.records_crc = crc32c_update(0, piece.out.data + BATCH_HEADER_BYTES, piece.out.size - BATCH_HEADER_BYTES)
    return True


cdef object role_problem(str role, const ArrowSchema *schema):
    if role == "timestamp":
        return timestamp_type_problem(schema)
    if role == "partition":
        return integer_type_problem(schema)
    if role == "headers":
        return headers_type_problem(schema)
    return bytes_type_problem(schema)

# ---------------------------------------------------------------- loops over rows


cdef Placed place(
        const RecordColumns *columns, const NumberColumn *targets, Chooser *chooser, Slice *s, int64_t *at,
        int64_t limit, bint asked) noexcept nogil:
    """Places rows from *at on: where they say, by their key, or by what is chosen for those without one.

    With `asked`, the rows that do not name a partition have been placed already.
    """
    cdef const uint8_t *key
    cdef const uint8_t *other
    cdef int64_t key_length, value_length, headers_bytes, size, number
    cdef bint told
    while at[0] < s.rows:
        s.bad_row = s.begin + at[0]
        key_length = column_get(&columns.key, s.bad_row, &key)
        value_length = column_get(&columns.value, s.bad_row, &other)
        headers_bytes = column_get(&columns.headers, s.bad_row, &other)
        size = RECORD_OVERHEAD_BYTES + (key_length if key_length > 0 else 0)
        size += (value_length if value_length > 0 else 0) + (headers_bytes if headers_bytes > 0 else 0)
        if size > limit:
            s.bad_value = size
            return PLACED_TOO_LARGE
        number = number_get(targets, s.bad_row, &told)
        if not told:
            if asked:
                number = s.partition[at[0]]
            elif chooser_by_key(chooser, key_length):
                number = chooser_keyed(chooser, key, key_length)
            elif chooser.null_rule == NULL_RANDOM:
                number = s.available[chooser_random(chooser) % <uint64_t>s.available_count]
            elif chooser.null_rule == NULL_ROUND_ROBIN:
                chooser.sticky = (chooser.sticky + 1) & INT32_MAX
                number = s.available[chooser.sticky % s.available_count]
            elif chooser.sticky_left <= 0:
                return PLACED_STICKY_USED_UP
            else:
                chooser.sticky_left -= size
                number = chooser.sticky
        if number < 0 or number >= chooser.partitions:
            s.bad_value = number
            return PLACED_NO_PARTITION
        s.partition[at[0]] = <int32_t>number
        at[0] += 1
    return PLACED_ALL


cdef void sort_rows(Slice *s, int64_t partitions) noexcept nogil:
    """Rows by partition: counted, summed up, dealt out in their order."""
    cdef int64_t i, before = 0, count
    memset(s.starts, 0, (partitions + 1) * sizeof(int64_t))
    for i in range(s.rows):
        s.starts[s.partition[i]] += 1
    for i in range(partitions):
        count = s.starts[i]
        s.starts[i] = before
        before += count
    for i in range(s.rows):
        s.order[s.starts[s.partition[i]]] = <int32_t>(s.begin + i)
        s.starts[s.partition[i]] += 1
    for i in range(partitions, 0, -1):                   # each start has moved to the next one's place
        s.starts[i] = s.starts[i - 1]
    s.starts[0] = 0
