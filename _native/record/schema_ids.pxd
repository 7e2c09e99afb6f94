"""Finds the schemas of records: ids and guids of a schema registry, in Confluent's wire format.

    Value:   magic 0 · id int32 · payload
    Header:  __key_schema_id or __value_schema_id: magic 0 · id int32, or magic 1 · guid of 16 bytes
"""
from libc.stdint cimport int32_t, uint8_t, uint64_t
from bowstring._native.base.bigendian cimport load_be32, load_be64
from bowstring._native.record.batch cimport Record
from bowstring._native.record.schema_types cimport SchemaIds

cdef extern from *:
    """
    #define SCHEMA_GUID (1ULL << 63)
    #define SCHEMA_NONE (~0ULL)
    """
    uint64_t SCHEMA_GUID                    # marks guids among the ids of a set
    uint64_t SCHEMA_NONE                    # not the id of any schema

cdef enum:
    SCHEMA_ID_BYTES = 5
    SCHEMA_GUID_BYTES = 17

cdef SchemaIds *schema_ids_new(list ids) except NULL
# Takes a reference; NULL stays NULL. Call it with the GIL.
cdef SchemaIds *schema_ids_shared(SchemaIds *ids) noexcept nogil
# Gives a reference back; call it with the GIL.
cdef void schema_ids_release(SchemaIds *ids) noexcept nogil


cdef inline uint64_t guid_folded(const uint8_t *guid) noexcept nogil:
    """Folds a guid to 63 bits. Guids are hashes of schemas, so two of one topic do not meet."""
    return ((<uint64_t>load_be64(guid) ^ <uint64_t>load_be64(guid + 8) * 0x9E3779B97F4A7C15u) >> 2) | SCHEMA_GUID


cdef inline bint schema_ids_have(const SchemaIds *ids, uint64_t id) noexcept nogil:
    cdef uint64_t at
    if ids == NULL:
        return False
    at = (id * 0x9E3779B97F4A7C15u >> 20) & ids.mask
    while ids.slots[at] != SCHEMA_NONE:
        if ids.slots[at] == id:
            return True
        at = (at + 1) & ids.mask
    return False


cdef inline uint64_t framed_id(const uint8_t *at, int32_t length, bint is_header) noexcept nogil:
    """Returns the id at the beginning of a value or a header; SCHEMA_NONE: there is none."""
    if length >= SCHEMA_ID_BYTES and at[0] == 0:
        return <uint64_t>load_be32(at + 1) & 0xFFFFFFFFu
    if is_header and length >= SCHEMA_GUID_BYTES and at[0] == 1:
        return guid_folded(at + 1)
    return SCHEMA_NONE

# The header with the id of a record's key or value; *length is -1 where there is none. The record's headers were checked.
cdef const uint8_t *schema_header(const Record *r, bint of_key, int32_t *length) noexcept nogil


cdef inline uint64_t schema_of(const Record *r, bint of_key) noexcept nogil:
    """Returns the id of the schema of a key or value that is not null; SCHEMA_NONE: it has none. A header comes first."""
    cdef int32_t length = -1
    cdef const uint8_t *header
    if r.header_count > 0:
        header = schema_header(r, of_key, &length)
        if length >= 0:
            return framed_id(header, length, True)
    return framed_id(r.key, r.key_length, False) if of_key else framed_id(r.value, r.value_length, False)

# Returns (ids and guids of keys, ids and guids of values), as sets of int and bytes, that well-formed records have and
# `keys` and `values` do not: at most `most` of each.
cdef tuple missing_ids(
    records, int32_t count, int wanted, const SchemaIds *keys, const SchemaIds *values, int32_t most)
