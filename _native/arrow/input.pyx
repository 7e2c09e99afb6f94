"""Reads columns lent through Arrow's C data interface: checks types, finds the bytes, encodes headers of rows.

Formats: https://arrow.apache.org/docs/format/CDataInterface.html#data-type-description-format-strings
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memset, strcmp, strncmp
from bowstring._native.base.varint cimport put_varint, varint_size
from bowstring._native.base.wire cimport Writer, grow, put_raw
from bowstring._native.record.encode cimport (
    COLUMN_FIXED, COLUMN_OFFSETS_32, COLUMN_OFFSETS_64, COLUMN_VIEWS, BinaryColumn, bit_set, column_get)

_NAMES = {
    "n": "null", "b": "bool", "c": "int8", "C": "uint8", "s": "int16", "S": "uint16", "i": "int32", "I": "uint32",
    "l": "int64", "L": "uint64", "e": "float16", "f": "float32", "g": "float64", "z": "binary", "Z": "large_binary",
    "u": "string", "U": "large_string", "vz": "binary_view", "vu": "string_view", "tdD": "date32", "tdm": "date64",
    "+l": "list", "+L": "large_list", "+vl": "list_view", "+s": "struct", "+m": "map", "+r": "run_end_encoded",
}


cdef str type_name(const ArrowSchema *schema):
    """Returns the name of a type, as pyarrow spells it."""
    cdef str text = schema.format.decode()
    if schema.dictionary != NULL:
        return f"dictionary of {type_name(schema.dictionary)}"
    if text.startswith("w:"):
        return f"fixed_size_binary[{text[2:]}]"
    if text.startswith("ts"):
        return f"timestamp[{dict(s='s', m='ms', u='us', n='ns').get(text[2], text)}]"
    return _NAMES.get(text, f"of format {text!r}")


cdef bint is_bytes(const ArrowSchema *schema):
    cdef const char *f = schema.format
    return (strcmp(f, "z") == 0 or strcmp(f, "u") == 0 or strcmp(f, "Z") == 0 or strcmp(f, "U") == 0
            or strcmp(f, "vz") == 0 or strcmp(f, "vu") == 0 or strncmp(f, "w:", 2) == 0 or strcmp(f, "n") == 0)


cdef int integer_bytes(const ArrowSchema *schema) noexcept:
    """Returns the width of an integer type in bytes, 0 for other types."""
    cdef char first = schema.format[0]
    if schema.format[0] == 0 or schema.format[1] != 0 or schema.dictionary != NULL:
        return 0
    if first == c"c" or first == c"C":
        return 1
    if first == c"s" or first == c"S":
        return 2
    if first == c"i" or first == c"I":
        return 4
    if first == c"l" or first == c"L":
        return 8
    return 0


cdef object bytes_type_problem(const ArrowSchema *schema):
    """Accepts binary and string of every layout, and dictionaries of them."""
    cdef const ArrowSchema *plain = schema if schema.dictionary == NULL else schema.dictionary
    if is_bytes(plain) and plain.dictionary == NULL:
        return None
    return (f"is {type_name(schema)}: keys and values must be binary or string, in any layout; cast it, or give a "
            "format, for example value=bowstring.Json(schema)")


cdef object timestamp_type_problem(const ArrowSchema *schema):
    """Accepts timestamps of any unit and zone, date64, and int64 milliseconds."""
    if schema.dictionary == NULL and (
            strncmp(schema.format, "ts", 2) == 0 or strcmp(schema.format, "tdm") == 0 or strcmp(schema.format, "l") == 0
            or strcmp(schema.format, "n") == 0):
        return None
    return f"is {type_name(schema)}: timestamps must be timestamp of any unit, date64, or int64 of milliseconds"


cdef object integer_type_problem(const ArrowSchema *schema):
    """Accepts integers of any width."""
    if integer_bytes(schema) or strcmp(schema.format, "n") == 0:
        return None
    return f"is {type_name(schema)}: partitions must be integers, preferably int32"


cdef object headers_type_problem(const ArrowSchema *schema):
    """Accepts a map, or a list of structs of two fields: a name and bytes."""
    cdef const char *f = schema.format
    cdef const ArrowSchema *pair
    if strcmp(f, "n") == 0:
        return None
    if strcmp(f, "+l") == 0 or strcmp(f, "+L") == 0 or strcmp(f, "+m") == 0:
        pair = schema.children[0]
        if strcmp(pair.format, "+s") == 0 and pair.n_children == 2:
            if bytes_type_problem(pair.children[0]) is None and bytes_type_problem(pair.children[1]) is None:
                return None
    return (f"is {type_name(schema)}: headers must be list<struct<key: string, value: binary>>, or a map of string to "
            "binary")

# ---------------------------------------------------------------- where the bytes are


cdef const uint8_t *validity_of(const ArrowArray *array) noexcept:
    if array.null_count == 0:
        return NULL
    return <const uint8_t *>array.buffers[0]


cdef void bind_plain(const ArrowSchema *schema, const ArrowArray *array, int64_t offset, BinaryColumn *out) noexcept:
    cdef const char *f = schema.format
    cdef int64_t width = 0
    if f[0] == c"n":
        return                                           # no offsets: every row is null
    out.validity = validity_of(array)
    out.validity_offset = offset
    if f[0] == c"v":
        out.kind = COLUMN_VIEWS
        out.offsets = <const uint8_t *>array.buffers[1] + 16 * offset
        out.buffers = <const uint8_t *const *>(array.buffers + 2)
    elif f[0] == c"w":
        out.kind = COLUMN_FIXED
        f += 2
        while f[0] != 0:
            width = width * 10 + (f[0] - c"0")
            f += 1
        out.width = <int32_t>width
        out.data = <const uint8_t *>array.buffers[1] + width * offset
        out.offsets = out.data
    elif f[0] == c"Z" or f[0] == c"U":
        out.kind = COLUMN_OFFSETS_64
        out.offsets = <const int64_t *>array.buffers[1] + offset
        out.data = <const uint8_t *>array.buffers[2]
    else:
        out.kind = COLUMN_OFFSETS_32
        out.offsets = <const int32_t *>array.buffers[1] + offset
        out.data = <const uint8_t *>array.buffers[2]


cdef void bind_bytes(const ArrowSchema *schema, const ArrowArray *array, int64_t skip, BinaryColumn *out) noexcept:
    cdef int64_t offset = array.offset + skip
    cdef ArrowSchema index
    memset(out, 0, sizeof(BinaryColumn))
    if array.length == 0:
        return                                           # an empty array may have no buffers at all
    if schema.dictionary == NULL:
        bind_plain(schema, array, offset, out)
        return
    index = schema[0]
    index.dictionary = NULL
    out.index_bytes = <int8_t>integer_bytes(&index)
    out.indices = <const uint8_t *>array.buffers[1] + out.index_bytes * offset
    out.index_validity = validity_of(array)
    out.index_validity_offset = offset
    if array.dictionary.length > 0:
        bind_plain(schema.dictionary, array.dictionary, array.dictionary.offset, out)


cdef void bind_numbers(const ArrowSchema *schema, const ArrowArray *array, int64_t skip, NumberColumn *out) noexcept:
    cdef const char *f = schema.format
    memset(out, 0, sizeof(NumberColumn))
    out.multiplier = out.divisor = 1
    if f[0] == c"n" or array.length == 0:
        return
    out.offset = array.offset + skip
    out.values = array.buffers[1]
    out.validity = validity_of(array)
    out.validity_offset = out.offset
    out.bytes = 8
    out.is_signed = True
    if f[0] == c"t" and f[1] == c"s":
        out.multiplier = 1000 if f[2] == c"s" else 1
        out.divisor = 1000 if f[2] == c"u" else 1000000 if f[2] == c"n" else 1
    elif f[0] != c"t":
        out.bytes = <int8_t>integer_bytes(schema)
        out.is_signed = f[0] >= c"a"                     # unsigned types have capital letters


cdef int64_t number_get(const NumberColumn *c, int64_t row, bint *valid) noexcept nogil:
    cdef int64_t value, below
    row += c.offset
    valid[0] = c.values != NULL and (c.validity == NULL or bit_set(c.validity, row))
    if not valid[0]:
        return 0
    if c.bytes == 8:
        value = (<const int64_t *>c.values)[row]
    elif c.bytes == 4:
        value = (<const int32_t *>c.values)[row] if c.is_signed else (<const uint32_t *>c.values)[row]
    elif c.bytes == 2:
        value = (<const int16_t *>c.values)[row] if c.is_signed else (<const uint16_t *>c.values)[row]
    else:
        value = (<const int8_t *>c.values)[row] if c.is_signed else (<const uint8_t *>c.values)[row]
    if c.divisor > 1:
        below = value % c.divisor                        # C's remainder: negative before 1970
        return value // c.divisor - (1 if below < 0 else 0)
    return value * c.multiplier

# ---------------------------------------------------------------- headers


cdef int64_t pack_rows(
        Writer *packed, int64_t *ends, const ArrowArray *lists, int64_t skip, int64_t rows, bint wide,
        const BinaryColumn *names, const BinaryColumn *values) noexcept nogil:
    cdef const uint8_t *validity = NULL
    cdef int64_t row, i, begin, end, offset = lists.offset + skip
    if lists.null_count != 0:
        validity = <const uint8_t *>lists.buffers[0]
    packed.size = 0
    packed.failed = False
    ends[0] = 0
    for row in range(rows):
        if validity == NULL or bit_set(validity, offset + row):
            if wide:
                begin = (<const int64_t *>lists.buffers[1])[offset + row]
                end = (<const int64_t *>lists.buffers[1])[offset + row + 1]
            else:
                begin = (<const int32_t *>lists.buffers[1])[offset + row]
                end = (<const int32_t *>lists.buffers[1])[offset + row + 1]
            if end > begin:
                put_number(packed, end - begin)
            for i in range(begin, end):
                if not put_bytes(packed, names, i) or packed.failed:
                    return -2 if packed.failed else row
                put_bytes(packed, values, i)
        ends[row + 1] = packed.size
    return -2 if packed.failed else -1


cdef void put_number(Writer *w, int64_t number) noexcept nogil:
    cdef uint8_t *at = grow(w, varint_size(number))
    if at != NULL:
        put_varint(at, number)


cdef bint put_bytes(Writer *w, const BinaryColumn *column, int64_t row) noexcept nogil:
    """Writes length and bytes of a row; False: it is null."""
    cdef const uint8_t *at
    cdef int64_t length = column_get(column, row, &at)
    put_number(w, length)
    put_raw(w, at, length)
    return length >= 0
