"""The schemas that records of a topic may have: sets of ids and guids of a schema registry, see schema_ids.pxd."""
from libc.stdint cimport int32_t, int8_t, uint64_t

cdef enum:
    SCHEMA_IN_KEY = 1                       # of LogConfig.schemas: keys need a schema
    SCHEMA_IN_VALUE = 2

cdef struct SchemaIds:
    # Does not change once it is made. The GIL guards its references; reactors read it under Plane.table_lock.
    int32_t references
    int32_t count
    uint64_t mask
    uint64_t *slots                         # SCHEMA_NONE: empty

cdef struct SchemaRules:
    int8_t wanted                           # SCHEMA_IN_KEY, SCHEMA_IN_VALUE, both, or 0
    int8_t all_known                        # an id in neither set is refused; else BatchInfo.schemas_missing is set
    SchemaIds *keys                         # NULL: none
    SchemaIds *values
