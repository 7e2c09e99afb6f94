"""Common code of the decoders of values: the loop over rows, Confluent's framing, bad values."""
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memset
from bowstring._native.base.bigendian cimport load_be32
from bowstring._native.values.column cimport Columns, Input, column_clear, column_reserve, rows_get
from bowstring._native.values.map_keys cimport keep_last_entries


def frame_ids(Input values):
    """Returns the schema ids of values with Confluent's framing."""
    cdef int64_t row, size = 0
    cdef const uint8_t *at = NULL
    cdef int64_t last = -1, found
    ids = set()
    for row in range(values.rows.count):
        if rows_get(&values.rows, row, &at, &size) and size >= FRAME_BYTES and at[0] == 0:
            found = <uint32_t>load_be32(at + 1)
            if found != last:
                last = found
                ids.add(found)
    return ids


cdef inline bint begin(Reading *r, const uint8_t *at, int64_t size, bint framed) noexcept nogil:
    r.begin = r.at = at
    r.end = at + size
    r.fault = NULL
    r.where = -1
    if framed:
        if size < FRAME_BYTES or at[0] != 0:
            return bad(r, -1, "the value lacks Confluent's framing: a zero byte and the schema's id")
        r.at += FRAME_BYTES
    return True


cdef class Decoder(Plan):
    """Decodes arrays of values; a subclass for each format.

    Args:
        columns: the description of the columns (see value_column.Columns).
        framed: values begin with a zero byte and a schema's id.
    """

    def __cinit__(self, tuple columns, bint framed, *rest):
        self.columns = Columns(columns)
        self.framed = framed

    cdef bint value(self, Reading *r, int64_t row) noexcept nogil:
        return bad(r, -1, "a format has to say what its values are")

    cdef str message(self, const Reading *r):
        text = f"at byte {r.at - r.begin}: {r.fault.decode()}"
        path = "" if r.where < 0 else self.paths[r.where]
        return f"{text} in {path}" if path else text

    cdef bint one(self, Reading *r, const uint8_t *at, int64_t size) noexcept nogil:
        return begin(r, at, size, self.framed) and self.value(r, 0)

    def decode(self, Input values):
        """Decodes values. Returns the columns as Columns.finish() does, and [(row, reason)] of bad values. Not thread-safe.

        OverflowError: strings of 2 GiB or lists of 2**31 items in one column.
        """
        cdef Reading r
        cdef int64_t row, size = 0, rows = values.rows.count
        cdef const uint8_t *at = NULL
        cdef bint good
        errors = []
        memset(&r, 0, sizeof(Reading))
        try:
            if not column_reserve(self.columns.root, rows):
                raise MemoryError
            with nogil:
                for row in range(rows):
                    if not rows_get(&values.rows, row, &at, &size):
                        continue
                    good = begin(&r, at, size, self.framed) and self.value(&r, row)
                    if not good:
                        column_clear(self.columns.root, row)
                        with gil:
                            if r.fault == NULL:
                                raise OverflowError
                            errors.append((row, self.message(&r)))
                good = keep_last_entries(self.columns.root)
            if not good:
                raise MemoryError
        except BaseException:
            self.columns.finish(0)
            raise
        return self.columns.finish(rows), errors
