"""Who connections belong to: interned pairs of a principal and a host."""
from libc.stdint cimport int32_t, uint32_t
from bowstring._native.base.pthread cimport pthread_mutex_t
from bowstring._native.server.connection_limits cimport PEER_BYTES

cdef enum:
    SUBJECT_BLOCK = 1024            # entries of a block
    SUBJECT_BLOCKS = 1024           # blocks at most: a million subjects
    NO_SUBJECT = -1
    PRINCIPAL_BYTES_MAX = 32767

cdef struct Subject:
    # `principal` and `host` do not change while refs > 0.
    int32_t refs                    # connections, and requests on their way to the control thread
    uint32_t generation             # goes up when the entry is freed: what is remembered of an earlier subject is void
    uint32_t hash
    int32_t next                    # in its bucket, or in the list of free entries; NO_SUBJECT ends it
    int32_t principal_length
    char *principal                 # UTF-8 such as User:alice, terminated; NULL: the entry is free
    char host[PEER_BYTES]           # the address without the port

cdef struct SubjectTable:
    # Blocks never move, so that an entry with a reference is read without the lock, which guards all else.
    pthread_mutex_t lock
    Subject *blocks[SUBJECT_BLOCKS]
    int32_t *buckets
    uint32_t mask                   # of the buckets
    int32_t used                    # entries of the blocks, also free ones
    int32_t free_head
    int32_t count                   # entries with references
