"""The cleaner's table of keys, see offset_map.pxd."""
from libc.errno cimport EAGAIN, ENOMEM, errno
from libc.stdlib cimport calloc, free

cdef extern from "sys/random.h" nogil:
    ssize_t getrandom(void *data, size_t size_bytes, unsigned int flags)


cdef int keymap_open(KeyMap *map, int64_t memory_bytes, double load_factor, int64_t keys_max) noexcept nogil:
    cdef double wanted = <double>keys_max / load_factor + 2
    cdef int64_t slots = memory_bytes // <int64_t>sizeof(KeyEntry)
    map.entries = NULL
    map.count = 0
    if wanted < <double>slots:
        slots = <int64_t>wanted
    if slots < 2:
        slots = 2
    map.slots = <uint64_t>slots
    map.count_max = <int64_t>(<double>slots * load_factor)
    if map.count_max >= slots:                           # a search ends at an empty slot
        map.count_max = slots - 1
    if map.count_max < 1:
        map.count_max = 1
    if getrandom(map.secret, sizeof(map.secret), 0) != sizeof(map.secret):
        return -errno if errno != 0 else -EAGAIN
    map.entries = <KeyEntry *>calloc(<size_t>slots, sizeof(KeyEntry))
    return 0 if map.entries != NULL else -ENOMEM


cdef void keymap_close(KeyMap *map) noexcept nogil:
    free(map.entries)
    map.entries = NULL


def siphash128(bytes key not None, bytes secret not None):
    """Returns the 128-bit SipHash-1-3 of `key` under a 16-byte `secret`, as the table uses it: 16 bytes, little-endian.
    ValueError if the secret has another size."""
    cdef uint64_t[2] words
    cdef KeyHash hash
    if len(secret) != 16:
        raise ValueError(f"the secret must have 16 bytes, not {len(secret)}")
    memcpy(words, <const char *>secret, 16)
    hash = key_hash(words, <const uint8_t *><const char *>key, len(key))
    return (<const char *>&hash)[:16]


cdef class OffsetMap:
    """A table of keys for tests and measurements.

    Args:
        memory_bytes: Largest size.
        load_factor: Largest share of used slots, below 1.
        keys_max: Largest number of keys; a table for fewer keys is smaller.
    """
    cdef KeyMap map

    def __cinit__(self, int64_t memory_bytes, double load_factor=0.9, int64_t keys_max=1 << 62):
        if keymap_open(&self.map, memory_bytes, load_factor, keys_max) != 0:
            raise MemoryError(f"no memory for a table of {memory_bytes} bytes")

    def __dealloc__(self):
        keymap_close(&self.map)

    def __len__(self):
        return self.map.count

    @property
    def capacity(self):
        """Number of keys that fit."""
        return self.map.count_max

    def put(self, bytes key not None, int64_t offset):
        """Sets the key's newest offset; False when the table is full."""
        return keymap_put(&self.map, key_hash(self.map.secret, <const uint8_t *><const char *>key, len(key)), offset)

    def get(self, bytes key not None):
        """Returns the key's newest offset; -1 when it is not in the table."""
        return keymap_get(&self.map, key_hash(self.map.secret, <const uint8_t *><const char *>key, len(key)))
