"""Chooses the partition of a record: by a hash of its key, or one partition after another.

The hashes are those of other producers: murmur2 of Kafka's Java producer, CRC-32 and FNV-1a of librdkafka's
`consistent` and `fnv1a`. Records without a key stay with one partition until `sticky_bytes` have gone there; the next
is drawn at random, less often the longer its queue is (KIP-794).
"""
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

# ---------------------------------------------------------------- hashes of keys

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

# ---------------------------------------------------------------- the choice

cdef enum KeyRule:
    KEY_MURMUR2 = 0
    KEY_CRC32 = 1
    KEY_FNV1A = 2
    KEY_IGNORED = 3

cdef enum NullRule:
    NULL_STICKY = 0
    NULL_RANDOM = 1
    NULL_ROUND_ROBIN = 2
    NULL_HASHED = 3               # as an empty key

cdef struct Chooser:
    int8_t key_rule
    int8_t null_rule
    int8_t empty_is_null
    int32_t partitions            # of the topic
    int32_t sticky                # partition, -1: to be chosen
    int64_t sticky_left           # bytes until the next is chosen
    int64_t sticky_bytes
    uint64_t random               # state of xorshift64, never 0


cdef inline uint64_t chooser_random(Chooser *c) noexcept nogil:
    c.random ^= c.random << 13
    c.random ^= c.random >> 7
    c.random ^= c.random << 17
    return c.random


cdef inline uint32_t key_hash(int8_t rule, const uint8_t *key, int64_t length) noexcept nogil:
    """Of a rule other than KEY_IGNORED."""
    if rule == KEY_MURMUR2:
        return murmur2_hash(key, length) & 0x7FFFFFFF
    if rule == KEY_CRC32:
        return crc32_hash(key, length)
    return fnv1a_hash(key, length)


cdef inline bint chooser_by_key(const Chooser *c, int64_t key_length) noexcept nogil:
    """Whether the key decides; `key_length` -1 is null."""
    if c.key_rule == KEY_IGNORED:
        return False
    return c.null_rule == NULL_HASHED or key_length > 0 or (key_length == 0 and not c.empty_is_null)


cdef inline int32_t chooser_keyed(const Chooser *c, const uint8_t *key, int64_t length) noexcept nogil:
    return <int32_t>(key_hash(c.key_rule, key, length if length > 0 else 0) % <uint32_t>c.partitions)
