"""Hashes of keys for Python; what native code uses is inline in partitioner.pxd."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t


def murmur2(bytes data not None):
    """32-bit MurmurHash2 with Kafka's seed, as an unsigned number."""
    return murmur2_hash(<const uint8_t *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
