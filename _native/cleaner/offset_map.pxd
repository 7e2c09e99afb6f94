"""The cleaner's table of keys: for each key of the dirty part of a log, the offset of its newest record.

The table stores the 128-bit SipHash-1-3 of a key under a random secret of the run instead of its bytes. Two keys with the
same hash would lose a record; without the secret nobody can construct such keys
(https://www.aumasson.jp/siphash/siphash.pdf). Open addressing, linear probing, 24 bytes per slot.
"""
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #define key_rotl(v, n) (((v) << (n)) | ((v) >> (64 - (n))))
    #define key_prefetch(p) __builtin_prefetch((p), 1)
    static inline uint64_t key_scale(uint64_t v, uint64_t n) {
        return (uint64_t)(((unsigned __int128)v * n) >> 64);
    }
    """
    uint64_t key_rotl(uint64_t v, int n) nogil
    uint64_t key_scale(uint64_t v, uint64_t n) nogil      # v / 2**64 * n
    void key_prefetch(const void *p) nogil

cdef struct KeyHash:
    uint64_t low
    uint64_t high

cdef struct KeyEntry:
    KeyHash hash
    int64_t offset_after            # offset + 1, so that zeroed memory is an empty table

cdef struct KeyMap:
    KeyEntry *entries
    uint64_t slots
    int64_t count
    int64_t count_max               # keys that the load factor allows
    uint64_t[2] secret

# Creates an empty table of at most memory_bytes, no larger than keys_max keys need. Returns 0 or a negated errno.
cdef int keymap_open(KeyMap *map, int64_t memory_bytes, double load_factor, int64_t keys_max) noexcept nogil
cdef void keymap_close(KeyMap *map) noexcept nogil


cdef inline void sip_round(uint64_t *v) noexcept nogil:
    v[0] += v[1]
    v[1] = key_rotl(v[1], 13) ^ v[0]
    v[0] = key_rotl(v[0], 32)
    v[2] += v[3]
    v[3] = key_rotl(v[3], 16) ^ v[2]
    v[0] += v[3]
    v[3] = key_rotl(v[3], 21) ^ v[0]
    v[2] += v[1]
    v[1] = key_rotl(v[1], 17) ^ v[2]
    v[2] = key_rotl(v[2], 32)


cdef inline KeyHash key_hash(const uint64_t *secret, const uint8_t *key, int64_t size_bytes) noexcept nogil:
    """Computes SipHash-1-3 with 128 bits of output."""
    cdef uint64_t[4] v
    cdef uint64_t word
    cdef int64_t left = size_bytes
    cdef KeyHash out
    v[0] = secret[0] ^ 0x736f6d6570736575ULL
    v[1] = secret[1] ^ 0x646f72616e646f6dULL ^ 0xEE
    v[2] = secret[0] ^ 0x6c7967656e657261ULL
    v[3] = secret[1] ^ 0x7465646279746573ULL
    while left >= 8:
        memcpy(&word, key, 8)
        v[3] ^= word
        sip_round(v)
        v[0] ^= word
        key += 8
        left -= 8
    word = 0
    memcpy(&word, key, left)
    word |= <uint64_t>size_bytes << 56
    v[3] ^= word
    sip_round(v)
    v[0] ^= word
    v[2] ^= 0xEE
    sip_round(v)
    sip_round(v)
    sip_round(v)
    out.low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    sip_round(v)
    sip_round(v)
    sip_round(v)
    out.high = v[0] ^ v[1] ^ v[2] ^ v[3]
    return out


cdef inline KeyEntry *keymap_home(const KeyMap *map, KeyHash hash) noexcept nogil:
    """Returns the slot where a search for the key begins."""
    return map.entries + key_scale(hash.low, map.slots)


cdef inline KeyEntry *keymap_find(const KeyMap *map, KeyHash hash) noexcept nogil:
    """Returns the key's entry, or the empty entry for it. The table is never full."""
    cdef KeyEntry *at = keymap_home(map, hash)
    while at.offset_after != 0 and (at.hash.low != hash.low or at.hash.high != hash.high):
        at += 1
        if at == map.entries + map.slots:
            at = map.entries
    return at


cdef inline bint keymap_put(KeyMap *map, KeyHash hash, int64_t offset) noexcept nogil:
    """Sets the key's newest offset; False when there is no room for one more key."""
    cdef KeyEntry *at = keymap_find(map, hash)
    if at.offset_after == 0:
        if map.count >= map.count_max:
            return False
        at.hash = hash
        map.count += 1
    at.offset_after = offset + 1
    return True


cdef inline int64_t keymap_get(const KeyMap *map, KeyHash hash) noexcept nogil:
    """Returns the key's newest offset; -1 when it is not in the table."""
    return keymap_find(map, hash).offset_after - 1
