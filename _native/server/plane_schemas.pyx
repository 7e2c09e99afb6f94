"""What the control thread does for topics that require registered schemas, see schema_types.pxd."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t
from bowstring._native.base.pthread cimport pthread_rwlock_unlock, pthread_rwlock_wrlock
from bowstring._native.record.schema_ids cimport schema_ids_new, schema_ids_release
from bowstring._native.record.schema_types cimport SchemaIds
from bowstring._native.server.control_request cimport SlowBatch
from bowstring._native.server.data_plane cimport DataPlane
from bowstring._native.server.partition_types cimport Topic
from bowstring._native.server.topic_table cimport topic_by_name


def suspend_batch(SlowBatch slow not None):
    """Gives back the memory that DataPlane.begin_batch reserved, while the batch waits for something else."""
    slow.count_working(0)


def take_schemas(SlowBatch slow not None, *, bint all_known):
    """Lets the next `repack` of a batch check with the schemas that its topic has now; `all_known`: there are no others,
    so records with others are refused. Returns whether the batch's partition is still served here."""
    slow.rules.schemas.all_known = all_known
    return slow.take_schemas()


def set_schemas(DataPlane plane not None, str topic, list keys, list values):
    """Sets the schemas that records of a topic may have where its log config asks for schemas.

    Args:
        keys, values: ids (int) and guids (16 bytes) of a schema registry.

    Raises:
        KeyError: No such topic here.
    """
    cdef bytes name = topic.encode()
    cdef Topic *found = topic_by_name(
        &plane.plane.table, <uint8_t *>PyBytes_AS_STRING(name), <int32_t>PyBytes_GET_SIZE(name))
    cdef SchemaIds *new_keys
    cdef SchemaIds *new_values
    if found == NULL:
        raise KeyError(f"topic {topic} is not served here")
    new_keys = schema_ids_new(keys)
    try:
        new_values = schema_ids_new(values)
    except BaseException:
        schema_ids_release(new_keys)
        raise
    with nogil:
        pthread_rwlock_wrlock(&plane.plane.table_lock)
    found.key_schemas, new_keys = new_keys, found.key_schemas
    found.value_schemas, new_values = new_values, found.value_schemas
    pthread_rwlock_unlock(&plane.plane.table_lock)
    schema_ids_release(new_keys)
    schema_ids_release(new_values)
