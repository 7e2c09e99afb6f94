"""What a reactor has appended and the write-ahead log has not yet written."""
from libc.stdint cimport int32_t, int64_t, int8_t
from bowstring._native.wal.types cimport Wal

# Before the cimports: structs of these files point to each other.
cdef struct CommitItem
cdef struct CommitQueue

from bowstring._native.server.partition_types cimport Partition
from bowstring._native.server.produce_types cimport ProducePart

cdef struct CommitItem:
    # The work of a reactor once `frame` of the write-ahead log is on the medium.
    int64_t frame
    Partition *partition            # held; its durable end moves to end_offset
    int64_t end_offset
    int64_t cuts                    # Log.cuts then
    int64_t bytes                   # appended bytes, for waiting fetches
    ProducePart *part               # the part to answer; NULL: `partition` is set instead

cdef struct CommitQueue:
    # Appends of one reactor that are not durable yet, in the order of their frames: a ring.
    CommitQueue *next
    Wal *wal
    CommitItem *items
    int32_t head
    int32_t count
    int32_t capacity                # a power of two
    int8_t behind                   # something is staged that the write-ahead log's thread has no request to write
