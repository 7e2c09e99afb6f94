"""Which partition a record goes to, inline: by its key's hash, or one partition after another.

Records without a key stick to one partition until `sticky_bytes` have gone there; the next is drawn at random,
fewer times the longer its queue is (KIP-794).
"""
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from bowstring._native.key_hashes cimport crc32_hash, fnv1a_hash, murmur2_hash

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
