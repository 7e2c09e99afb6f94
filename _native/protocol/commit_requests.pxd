"""OffsetCommit of clients, and its records."""
from libc.stdint cimport int32_t, int64_t


cdef class CommitRequest:
    cdef readonly str group_id
    cdef readonly str member_id
    cdef readonly str instance_id           # None: no static member
    cdef readonly int32_t generation        # or the member epoch
    cdef readonly int version
    cdef readonly list topics               # a CommittedTopic for each, with different names or ids
    cdef readonly int64_t size_bytes        # of the request's body: an upper bound of that of all metadata


cdef class CommittedTopic:
    cdef public str name                    # None until the caller has looked the id up
    cdef public bytes topic_id              # None until the caller has looked the name up
    cdef readonly list partitions           # (index, offset, leader epoch, metadata)
    cdef readonly int32_t highest           # of the indexes; -1: one is negative
    cdef readonly Py_ssize_t longest        # metadata, in characters; above every limit if it is not ASCII
