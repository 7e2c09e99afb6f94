"""Makes Python objects of JSON values directly, by the plan of json_decode.pyx or without any.

The fast way gives up at whatever is unusual or wrong. The value is then decoded by columns, which gives the object, or
the reason that Arrow's column of errors has: the two can differ in nothing but speed.
"""
cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy
from bowstring._native.values.column cimport Input, column_clear, rows_get
from bowstring._native.values.column_objects cimport ColumnObjects, Shape, object_of
from bowstring._native.values.decimal cimport number_double
from bowstring._native.values.decoder cimport FRAME_BYTES
from bowstring._native.values.json_decode cimport JsonDecoder, Node, Parsing, non_finite, read_value
from bowstring._native.values.json_kinds cimport (
    J_BOOLEAN, J_DOUBLE, J_INTEGER, J_LIST, J_MAP, J_STRING, J_STRUCT)
from bowstring._native.values.json_scan cimport (
    JSON_DEPTH_MAX, Scan, json_bad, json_literal, json_number, json_peek, json_string, json_skip, json_take)
from bowstring._native.values.plan cimport text_is
from bowstring._native.values.utf8 cimport utf8_size, utf8_valid
from bowstring._native.base.object_decoder cimport ObjectDecoder

from bowstring._native.base.object_decoder import Undecodable

cdef extern from "Python.h":
    PyObject *PyUnicode_New(Py_ssize_t size, unsigned int most)
    PyObject *PyUnicode_DecodeUTF8(const char *at, Py_ssize_t size, const char *errors)
    void *PyUnicode_DATA(PyObject *text)
    PyObject *PyLong_FromLongLong(long long value)
    PyObject *PyLong_FromUnsignedLongLong(unsigned long long value)
    PyObject *PyLong_FromString(const char *text, char **end, int base)
    PyObject *PyFloat_FromDouble_ "PyFloat_FromDouble"(double value)
    PyObject *PyList_New_ "PyList_New"(Py_ssize_t size)
    int PyList_Append_ "PyList_Append"(PyObject *items, PyObject *item)
    PyObject *NewPresized "_PyDict_NewPresized"(Py_ssize_t size)
    int SetKnownHash "_PyDict_SetItem_KnownHash"(PyObject *fields, PyObject *key, PyObject *value, Py_hash_t hash)
    int SetItem "PyDict_SetItem"(PyObject *fields, PyObject *key, PyObject *value)
    Py_hash_t PyObject_Hash(PyObject *key)
    PyObject *PyErr_Occurred()
    void Py_INCREF(PyObject *made)
    void Py_DECREF(PyObject *made)
    void Py_XDECREF(PyObject *made)
    PyObject *Py_None
    PyObject *Py_True
    PyObject *Py_False

cdef extern from *:
    """
    /* A new reference becomes Cython's; NULL is an exception that is set. */
    #define taken_over(made) ((PyObject *)(made))
    """
    object taken "taken_over"(PyObject *made)

cdef enum:
    RECENT = 32                 # strings of one field that are kept, to be used again
    RECENT_MAX_BYTES = 15
    EXPECTED_MAX_BYTES = 32     # a multiple of 8
    NAMES = 512                 # names of fields that are kept, of values without a schema
    NAME_MAX_BYTES = 55
    NUMBER_MAX_BYTES = 4000     # Python limits the digits of integers, too

ctypedef struct Kept:
    uint8_t size                # of the string; 0: there is none
    uint8_t[RECENT_MAX_BYTES] bytes
    PyObject *text              # owned

ctypedef struct Name:
    PyObject *text              # owned; NULL: there is none
    uint8_t size
    uint8_t[NAME_MAX_BYTES] bytes

# Objects of one node of the plan.
ctypedef struct Fields:
    const Node *node
    const Shape *shape          # for what is made by way of the column
    PyObject *name              # borrowed from the shape
    Py_hash_t hash
    int expected_size           # of `expected`: the name as it stands in most texts, with quotes and colon; 0: none
    uint8_t[EXPECTED_MAX_BYTES] expected
    Fields *parts
    PyObject **made             # of a struct: the objects of its fields, until the dict is made
    Kept *recent                # of a string

# ---------------------------------------------------------------- leaves


cdef inline PyObject *text_object(const uint8_t *at, int64_t size) noexcept:
    """A string of well-formed UTF-8."""
    cdef const uint8_t *p = at
    cdef const uint8_t *end = at + size
    cdef uint64_t word, high = 0
    cdef PyObject *made
    while end - p >= 8:
        memcpy(&word, p, 8)
        high |= word
        p += 8
    while p < end:
        high |= p[0]
        p += 1
    if size < 2 or high & <uint64_t>0x8080808080808080:
        return PyUnicode_DecodeUTF8(<const char *>at, size, NULL)
    made = PyUnicode_New(size, 127)
    if made != NULL:
        memcpy(PyUnicode_DATA(made), at, size)
    return made


cdef inline PyObject *recent_text(Kept *recent, const uint8_t *at, int64_t size) noexcept:
    """A string that may have come before: fields often have few different ones."""
    cdef Kept *kept
    cdef PyObject *made
    if size == 0 or size > RECENT_MAX_BYTES:
        return text_object(at, size)
    kept = &recent[(size * 7 + at[size - 1] + 5 * at[size >> 1]) & (RECENT - 1)]
    if kept.size == size and memcmp(kept.bytes, at, size) == 0:
        Py_INCREF(kept.text)
        return kept.text
    made = text_object(at, size)
    if made != NULL:
        Py_XDECREF(kept.text)
        Py_INCREF(made)
        kept.text, kept.size = made, <uint8_t>size
        memcpy(kept.bytes, at, size)
    return made


cdef inline PyObject *same(PyObject *made) noexcept:
    Py_INCREF(made)
    return made


cdef inline bint is_number(int c) noexcept nogil:
    return c == c'-' or c'0' <= c <= c'9'


cdef PyObject *number_object(Scan *s) noexcept:
    """Any number: an int if it is written as one."""
    cdef double real = 0
    cdef char[NUMBER_MAX_BYTES + 1] text
    if not json_number(s):
        return NULL
    if not s.integer:
        if not number_double(s, &real):
            json_bad(s, "a shorter number is needed")
            return NULL
        return PyFloat_FromDouble_(real)
    if s.fits and not s.negative:
        return PyLong_FromUnsignedLongLong(s.magnitude)
    if s.fits and s.magnitude <= <uint64_t>1 << 63:
        return PyLong_FromLongLong(<int64_t>(0 - s.magnitude))
    if s.at - s.number > NUMBER_MAX_BYTES:
        json_bad(s, "a shorter number is needed")
        return NULL
    memcpy(text, s.number, s.at - s.number)
    text[s.at - s.number] = 0
    return PyLong_FromString(text, NULL, 10)


cdef inline PyObject *word_object(Scan *s, int c) noexcept:
    if c == c't':
        return same(Py_True) if json_literal(s, "true", 4) else NULL
    if c == c'f':
        return same(Py_False) if json_literal(s, "false", 5) else NULL
    return same(Py_None) if json_literal(s, "null", 4) else NULL

cdef inline bint begin(Scan *s, const uint8_t *at, int64_t size, bint framed) noexcept:
    """Begins a value; False if it lacks its framing."""
    s.begin = s.at = at
    s.end = at + size
    s.fault = NULL
    if not framed:
        return True
    s.at += FRAME_BYTES
    return size >= FRAME_BYTES and at[0] == 0


cdef inline PyObject *whole(Scan *s, PyObject *made) noexcept:
    """The object, if nothing but white space follows its value."""
    if made == NULL or (json_peek(s) == 0 and s.at >= s.end):
        return made
    Py_DECREF(made)
    json_bad(s, "text follows the value")
    return NULL

# ---------------------------------------------------------------- by a plan


cdef inline bint expects(const Scan *s, const Fields *field) noexcept:
    """Whether the text goes on with a field's name."""
    cdef uint64_t word, wanted
    cdef int size = field.expected_size
    if size == 0 or s.end - s.at < EXPECTED_MAX_BYTES:
        return False
    cdef const uint8_t *at = s.at
    cdef const uint8_t *name = field.expected
    while size >= 8:
        memcpy(&word, at, 8)
        memcpy(&wanted, name, 8)
        if word != wanted:
            return False
        at += 8
        name += 8
        size -= 8
    if size == 0:
        return True
    memcpy(&word, at, 8)
    memcpy(&wanted, name, 8)
    return (word ^ wanted) << (64 - 8 * size) == 0


cdef inline Fields *field_of(Fields *fields, const Scan *s, int *next_field) noexcept:
    """The field of the name taken last; NULL: not wanted."""
    cdef const Node *node = fields.node
    cdef int i = next_field[0]
    if i < node.n_fields and text_is(&node.fields[i].name, s.string, s.string_size):
        next_field[0] = i + 1
        return &fields.parts[i]
    for i in range(node.n_fields):
        if text_is(&node.fields[i].name, s.string, s.string_size):
            next_field[0] = i + 1
            return &fields.parts[i]
    return NULL


cdef void drop_fields(Fields *fields) noexcept:
    cdef int i
    for i in range(fields.node.n_fields):
        Py_XDECREF(fields.made[i])
        fields.made[i] = NULL


cdef bint scan_fields(Parsing *p, Fields *fields, int depth) noexcept:
    """Fills `made` from an object, up to and including its end."""
    cdef Scan *s = &p.scan
    cdef Fields *field
    cdef PyObject *made
    cdef int next_field = 0
    cdef Py_ssize_t place
    s.at += 1
    if json_peek(s) == c'}':
        s.at += 1
        return True
    while True:
        if next_field < fields.node.n_fields and expects(s, &fields.parts[next_field]):
            field = &fields.parts[next_field]
            next_field += 1
            s.at += field.expected_size
        else:
            if not json_string(s):
                return False
            field = field_of(fields, s, &next_field)
            if not json_take(s, c':', "':' is missing"):
                return False
        if field == NULL:
            if not json_skip(s, depth + 1):
                return False
        else:
            made = field_object(p, field, depth + 1)
            if made == NULL:
                return False
            place = field - fields.parts
            Py_XDECREF(fields.made[place])               # a name that comes twice: the last one counts
            fields.made[place] = made
        if json_peek(s) != c',':
            return json_take(s, c'}', "',' or '}' is missing")
        s.at += 1


cdef PyObject *struct_object(Parsing *p, Fields *fields, int depth) noexcept:
    cdef const Node *node = fields.node
    cdef PyObject *out
    cdef PyObject *made
    cdef int i
    if depth >= JSON_DEPTH_MAX or not scan_fields(p, fields, depth):
        drop_fields(fields)
        return NULL
    out = NewPresized(node.n_fields)
    for i in range(node.n_fields):
        made = fields.made[i]
        if out == NULL or (node.fields[i].required and (made == NULL or made == Py_None)):
            Py_XDECREF(out)
            drop_fields(fields)
            return NULL
        fields.made[i] = NULL
        if SetKnownHash(out, fields.parts[i].name, made if made != NULL else Py_None, fields.parts[i].hash) < 0:
            Py_DECREF(out)
            out = NULL
        Py_XDECREF(made)
    return out


cdef PyObject *list_object(Parsing *p, Fields *fields, int depth) noexcept:
    cdef Scan *s = &p.scan
    cdef PyObject *items = PyList_New_(0)
    cdef PyObject *made
    cdef int failed
    s.at += 1
    if items == NULL or json_peek(s) == c']':
        s.at += 1
        return items
    while True:
        made = field_object(p, &fields.parts[0], depth + 1)
        if made == NULL:
            break
        failed = PyList_Append_(items, made)
        Py_DECREF(made)
        if failed:
            break
        if json_peek(s) != c',':
            if json_take(s, c']', "',' or ']' is missing"):
                return items
            break
        s.at += 1
    Py_DECREF(items)
    return NULL


cdef PyObject *map_object(Parsing *p, Fields *fields, int depth) noexcept:
    cdef Scan *s = &p.scan
    cdef PyObject *entries = NewPresized(0)
    cdef PyObject *key
    cdef PyObject *made
    cdef int failed
    s.at += 1
    if entries == NULL or json_peek(s) == c'}':
        s.at += 1
        return entries
    while True:
        if not json_string(s):
            break
        key = text_object(s.string, s.string_size)
        made = NULL
        if key != NULL and json_take(s, c':', "':' is missing"):
            made = field_object(p, &fields.parts[0], depth + 1)
        failed = made == NULL or SetItem(entries, key, made)
        Py_XDECREF(key)
        Py_XDECREF(made)
        if failed:
            break
        if json_peek(s) != c',':
            if json_take(s, c'}', "',' or '}' is missing"):
                return entries
            break
        s.at += 1
    Py_DECREF(entries)
    return NULL


cdef PyObject *column_object(Parsing *p, Fields *fields, int depth) noexcept:
    """Makes what is rare by way of its column."""
    cdef PyObject *made = NULL
    if read_value(p, fields.node, 0, depth):
        try:
            found = object_of(fields.shape, 0)
            made = same(<PyObject *>found)
        except (ValueError, OverflowError):
            pass                                         # found again by columns, with a reason
    column_clear(fields.node.column, 0)
    return made


cdef PyObject *field_object(Parsing *p, Fields *fields, int depth) noexcept:
    """The object of the value that follows. NULL: the columns have to decode the whole."""
    cdef Scan *s = &p.scan
    cdef int c = json_peek(s)
    cdef const Node *node = fields.node
    cdef int kind = node.kind
    cdef double real = 0
    if c == c'n':
        return same(Py_None) if json_literal(s, "null", 4) else NULL
    if fields.shape.convert != NULL:
        return column_object(p, fields, depth)
    if kind == J_STRING:
        if c != c'"' or not json_string(s):
            return NULL
        return recent_text(fields.recent, s.string, s.string_size)
    if kind == J_INTEGER:
        if not is_number(c) or not json_number(s) or not s.fits or s.magnitude > (
                node.least if s.negative else node.most):
            return NULL
        if s.negative:
            return PyLong_FromLongLong(<int64_t>(0 - s.magnitude))
        return PyLong_FromUnsignedLongLong(s.magnitude)
    if kind == J_DOUBLE:
        if c == c'"':
            return PyFloat_FromDouble_(real) if json_string(s) and non_finite(s, &real) else NULL
        if not is_number(c) or not json_number(s) or not number_double(s, &real):
            return NULL
        return PyFloat_FromDouble_(real)
    if kind == J_BOOLEAN:
        return word_object(s, c) if c == c't' or c == c'f' else NULL
    if kind == J_STRUCT:
        return struct_object(p, fields, depth) if c == c'{' else NULL
    if kind == J_LIST:
        return list_object(p, fields, depth) if c == c'[' else NULL
    if kind == J_MAP:
        return map_object(p, fields, depth) if c == c'{' else NULL
    return column_object(p, fields, depth)


@cython.no_gc_clear
cdef class JsonObjects(ColumnObjects):
    """Makes objects of JSON values of a schema. Used by one thread at a time.

    Args:
        decoder, plan: as of ColumnObjects.
    """

    cdef Fields *root
    cdef bint busy              # the collector can run code that decodes, while a value is half made

    def __cinit__(self, JsonDecoder decoder not None, tuple plan, learn=None):
        self.root = <Fields *>self.memory.room(sizeof(Fields))
        self.fill(self.root, decoder.root, self.shape)

    def __dealloc__(self):
        if self.root != NULL:
            self.forget(self.root)

    cdef int fill(self, Fields *fields, const Node *node, const Shape *shape) except -1:
        cdef int i
        fields.node, fields.shape, fields.name = node, shape, <PyObject *>shape.name
        fields.hash = PyObject_Hash(fields.name)
        self.expect(fields, b'"' + (<bytes>node.name.at[:node.name.size]) + b'":')
        fields.recent = <Kept *>self.memory.room(RECENT * sizeof(Kept) if node.kind == J_STRING else 1)
        fields.made = <PyObject **>self.memory.room(node.n_fields * sizeof(PyObject *))
        fields.parts = <Fields *>self.memory.room(node.n_fields * sizeof(Fields))
        for i in range(node.n_fields):
            self.fill(&fields.parts[i], node.fields[i], shape.parts[1 if node.kind == J_MAP else i])
        return 0

    cdef int expect(self, Fields *fields, bytes text) except -1:
        """Sets the text of a name, unless it has what JSON escapes."""
        if len(text) > EXPECTED_MAX_BYTES or text.count(b'"') > 2 or b"\\" in text or min(text) < 32:
            return 0
        fields.expected_size = <int>len(text)
        memcpy(fields.expected, <const uint8_t *>text, len(text))
        return 0

    cdef void forget(self, Fields *fields) noexcept:
        cdef int i
        if fields.node == NULL:
            return
        if fields.node.kind == J_STRING and fields.recent != NULL:
            for i in range(RECENT):
                Py_XDECREF(fields.recent[i].text)
        if fields.parts != NULL:
            for i in range(fields.node.n_fields):
                self.forget(&fields.parts[i])

    cdef object decode(self, const uint8_t *at, int64_t size):
        cdef Parsing *p = &(<JsonDecoder>self.decoder).parsing
        cdef PyObject *made = NULL
        if self.busy:
            raise RuntimeError("a value is decoded while another one of the same consumer is")
        self.busy = True
        if begin(&p.scan, at, size, self.decoder.framed):
            made = whole(&p.scan, field_object(p, self.root, 0))
        self.busy = False
        if made != NULL:
            return taken(made)
        if PyErr_Occurred() != NULL:
            return taken(NULL)
        return self.by_columns(at, size)

# ---------------------------------------------------------------- without a schema


cdef class AnyJsonObjects(ObjectDecoder):
    """Makes objects of JSON values of any kind. Used by one thread at a time.

    Args:
        framed: values begin with a zero byte and a schema's id, which is ignored.
    """

    cdef Scan scan
    cdef bint framed
    cdef Name[NAMES] names

    def __cinit__(self, bint framed):
        self.framed = framed

    def __dealloc__(self):
        cdef int i
        free(self.scan.text)
        for i in range(NAMES):
            Py_XDECREF(self.names[i].text)

    cdef PyObject *name_object(self, const uint8_t *at, int64_t size) noexcept:
        """The string of a field's name; mostly it has come before. Borrowed until the next call if `size` fits."""
        cdef Name *name
        cdef PyObject *made
        cdef uint32_t hash = <uint32_t>size
        cdef int64_t i
        if size > NAME_MAX_BYTES:
            return text_object(at, size)
        for i in range(size):
            hash = (hash ^ at[i]) * <uint32_t>0x01000193
        name = &self.names[(hash ^ hash >> 15) & (NAMES - 1)]
        if name.text == NULL or name.size != size or memcmp(name.bytes, at, size) != 0:
            made = text_object(at, size)
            if made == NULL:
                return NULL
            Py_XDECREF(name.text)
            name.text, name.size = made, <uint8_t>size
            memcpy(name.bytes, at, size)
            PyObject_Hash(made)                          # kept in the string
        return same(name.text)

    cdef PyObject *items(self, int depth) noexcept:
        cdef Scan *s = &self.scan
        cdef PyObject *out = PyList_New_(0)
        cdef PyObject *made
        cdef int failed
        s.at += 1
        if out == NULL or json_peek(s) == c']':
            s.at += 1
            return out
        while True:
            made = self.any(depth + 1)
            failed = made == NULL or PyList_Append_(out, made)
            Py_XDECREF(made)
            if failed:
                break
            if json_peek(s) != c',':
                if json_take(s, c']', "',' or the end of an object or array is missing"):
                    return out
                break
            s.at += 1
        Py_DECREF(out)
        return NULL

    cdef PyObject *fields(self, int depth) noexcept:
        cdef Scan *s = &self.scan
        cdef PyObject *out = NewPresized(8)
        cdef PyObject *name
        cdef PyObject *made
        cdef int failed
        s.at += 1
        if out == NULL or json_peek(s) == c'}':
            s.at += 1
            return out
        while True:
            if not json_string(s):
                break
            name = self.name_object(s.string, s.string_size)
            made = NULL
            if name != NULL and json_take(s, c':', "':' is missing"):
                made = self.any(depth + 1)
            failed = made == NULL or SetItem(out, name, made)
            Py_XDECREF(name)
            Py_XDECREF(made)
            if failed:
                break
            if json_peek(s) != c',':
                if json_take(s, c'}', "',' or the end of an object or array is missing"):
                    return out
                break
            s.at += 1
        Py_DECREF(out)
        return NULL

    cdef PyObject *any(self, int depth) noexcept:
        cdef Scan *s = &self.scan
        cdef int c = json_peek(s)
        if c == c'"':
            return text_object(s.string, s.string_size) if json_string(s) else NULL
        if is_number(c):
            return number_object(s)
        if c == c'{' or c == c'[':
            if depth >= JSON_DEPTH_MAX:
                json_bad(s, "nested more than 1000 deep")
                return NULL
            return self.fields(depth) if c == c'{' else self.items(depth)
        if s.at >= s.end:
            json_bad(s, "the value is truncated" if depth > 0 else "empty")
            return NULL
        return word_object(s, c)

    cdef object decode(self, const uint8_t *at, int64_t size):
        cdef Scan *s = &self.scan
        cdef PyObject *made
        if not begin(s, at, size, self.framed):
            return Undecodable("at byte 0: the value lacks Confluent's framing: a zero byte and the schema's id")
        made = whole(s, self.any(0))
        if made != NULL or PyErr_Occurred() != NULL:
            return taken(made)
        return Undecodable(f"at byte {s.at - s.begin}: {s.fault.decode() if s.fault != NULL else 'not JSON'}")


cdef class TextObjects(ObjectDecoder):
    """Makes a string of each value, which is UTF-8."""

    cdef object decode(self, const uint8_t *at, int64_t size):
        if not utf8_valid(at, size):
            return Undecodable(not_utf8(at, size))
        return taken(text_object(at, size))


cdef str not_utf8(const uint8_t *at, int64_t size):
    """The reason, with the place of the first byte that is wrong."""
    cdef int64_t place = 0, step = 1
    while place < size and step > 0:
        step = 1 if at[place] < 0x80 else utf8_size(at + place, at + size)
        place += step
    return f"at byte {place}: not UTF-8"


def text_faults(Input values):
    """Returns [(row, reason)] of the values that are not UTF-8."""
    cdef const uint8_t *at = NULL
    cdef int64_t row, size = 0
    found = []
    for row in range(values.rows.count):
        if rows_get(&values.rows, row, &at, &size) and not utf8_valid(at, size):
            found.append((row, not_utf8(at, size)))
    return found
