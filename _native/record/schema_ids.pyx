"""Makes and reads sets of schema ids, see schema_ids.pxd."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp
from bowstring._native.base.varint cimport get_varint
from bowstring._native.record.batch cimport Record, record_read
from bowstring._native.record.schema_types cimport SCHEMA_IN_KEY, SCHEMA_IN_VALUE, SchemaIds

cdef enum:
    SLOTS_MIN = 16
    HEADER_KEY_BYTES = 15                   # of __key_schema_id
    HEADER_VALUE_BYTES = 17                 # of __value_schema_id


cdef SchemaIds *schema_ids_new(list ids) except NULL:
    """Makes a set with one reference of ids (int, 0 to 2³²-1) and guids (16 bytes)."""
    cdef SchemaIds *made
    cdef uint64_t id, at, slots = SLOTS_MIN
    cdef int64_t i
    while slots < 2 * <uint64_t>len(ids):
        slots *= 2
    made = <SchemaIds *>malloc(sizeof(SchemaIds) + slots * sizeof(uint64_t))
    if made == NULL:
        raise MemoryError
    made.references = 1
    made.count = 0
    made.mask = slots - 1
    made.slots = <uint64_t *>(made + 1)
    for i in range(<int64_t>slots):
        made.slots[i] = SCHEMA_NONE
    try:
        for each in ids:
            id = id_of(each)
            at = (id * 0x9E3779B97F4A7C15u >> 20) & made.mask
            while made.slots[at] != SCHEMA_NONE and made.slots[at] != id:
                at = (at + 1) & made.mask
            made.count += made.slots[at] == SCHEMA_NONE
            made.slots[at] = id
    except BaseException:
        free(made)
        raise
    return made


cdef uint64_t id_of(object each) except? 0:
    if isinstance(each, bytes):
        if len(each) != SCHEMA_GUID_BYTES - 1:
            raise ValueError(f"a guid has 16 bytes, not {len(each)}")
        return guid_folded(<const uint8_t *><char *>(<bytes>each))
    if not 0 <= each <= 0xFFFFFFFF:
        raise ValueError(f"a schema id lies in 0 to 2**32 - 1; this is {each}")
    return each


cdef SchemaIds *schema_ids_shared(SchemaIds *ids) noexcept nogil:
    if ids != NULL:
        ids.references += 1
    return ids


cdef void schema_ids_release(SchemaIds *ids) noexcept nogil:
    if ids != NULL:
        ids.references -= 1
        if ids.references == 0:
            free(ids)


cdef const uint8_t *schema_header(const Record *r, bint of_key, int32_t *length) noexcept nogil:
    cdef const uint8_t *at = r.headers
    cdef const uint8_t *name
    cdef const uint8_t *found = NULL
    cdef int32_t i, n, value
    cdef int32_t wanted = HEADER_KEY_BYTES if of_key else HEADER_VALUE_BYTES
    length[0] = -1
    for i in range(r.header_count):
        if not get_varint(&at, r.end, False, &n):
            return found
        name = at
        at += n
        if not get_varint(&at, r.end, False, &value):
            return found
        if n == wanted and value >= 0 and memcmp(
                name, <const char *>(b"__key_schema_id" if of_key else b"__value_schema_id"), wanted) == 0:
            length[0] = value                            # the last one counts
            found = at
        if value > 0:
            at += value
    return found


cdef tuple missing_ids(
        records, int32_t count, int wanted, const SchemaIds *keys, const SchemaIds *values, int32_t most):
    cdef Py_buffer view
    cdef const uint8_t *at
    cdef Record r
    cdef int32_t i
    of_keys = set()
    of_values = set()
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    try:
        at = <const uint8_t *>view.buf
        for i in range(count):
            if not record_read(&at, <const uint8_t *>view.buf + view.len, &r):
                break
            if wanted & SCHEMA_IN_KEY and r.key_length >= 0 and len(of_keys) < most:
                note_missing(&r, True, keys, of_keys)
            if wanted & SCHEMA_IN_VALUE and r.value_length >= 0 and len(of_values) < most:
                note_missing(&r, False, values, of_values)
    finally:
        PyBuffer_Release(&view)
    return of_keys, of_values


cdef bint note_missing(const Record *r, bint of_key, const SchemaIds *ids, set found) except False:
    cdef int32_t length = -1
    cdef const uint8_t *at
    cdef uint64_t id = schema_of(r, of_key)
    if id == SCHEMA_NONE or schema_ids_have(ids, id):
        return True
    if id & SCHEMA_GUID:                                 # only headers have them
        at = schema_header(r, of_key, &length)
        found.add(<bytes>(<char *>at)[1:SCHEMA_GUID_BYTES])
    else:
        found.add(id)
    return True
