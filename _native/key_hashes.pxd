"""Hashes of record keys by which producers choose partitions, inline.

murmur2 is what Kafka's Java producer uses; CRC-32 and FNV-1a are librdkafka's `consistent` and `fnv1a`.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

cdef enum:
    MURMUR2_SEED = 0x9747B28C
    MURMUR2_M = 0x5BD1E995
    CRC32_REFLECTED = 0xEDB88320
    FNV1A_BASIS = 0x811C9DC5
    FNV1A_PRIME = 0x01000193


cdef inline uint32_t murmur2_hash(const uint8_t *at, int64_t length) noexcept nogil:
    """32-bit MurmurHash2 with Kafka's seed."""
    cdef int64_t left = length
    cdef uint32_t h = <uint32_t>MURMUR2_SEED ^ <uint32_t>length
    cdef uint32_t k
    while left >= 4:
        memcpy(&k, at, 4)
        k *= <uint32_t>MURMUR2_M
        k ^= k >> 24
        k *= <uint32_t>MURMUR2_M
        h = (h * <uint32_t>MURMUR2_M) ^ k
        at += 4
        left -= 4
    if left > 0:
        if left == 3:
            h ^= <uint32_t>at[2] << 16
        if left >= 2:
            h ^= <uint32_t>at[1] << 8
        h = (h ^ at[0]) * <uint32_t>MURMUR2_M
    h = (h ^ (h >> 13)) * <uint32_t>MURMUR2_M
    return h ^ (h >> 15)


cdef inline uint32_t crc32_hash(const uint8_t *at, int64_t length) noexcept nogil:
    """CRC-32 as zlib has it. Bit by bit: keys are short, and few topics are partitioned by it."""
    cdef uint32_t crc = 0xFFFFFFFF
    cdef int64_t i
    cdef int bit
    for i in range(length):
        crc ^= at[i]
        for bit in range(8):
            crc = (crc >> 1) ^ (<uint32_t>CRC32_REFLECTED & (0 - (crc & 1)))
    return ~crc


cdef inline uint32_t fnv1a_hash(const uint8_t *at, int64_t length) noexcept nogil:
    """32-bit FNV-1a, made positive as librdkafka and Sarama do it."""
    cdef uint32_t h = <uint32_t>FNV1A_BASIS
    cdef int64_t i
    for i in range(length):
        h = (h ^ at[i]) * <uint32_t>FNV1A_PRIME
    return 0 - h if h > 0x7FFFFFFF else h
