"""OffsetFetch of one group."""
from libc.stdint cimport int32_t


cdef class OffsetQuery:
    cdef readonly str group_id
    cdef readonly str member_id             # None: no member asks
    cdef readonly int32_t member_epoch      # -1: none
    cdef readonly bint require_stable
    cdef readonly int version
    cdef public list names                  # of topics, in order; None until the caller has looked ids up
    cdef readonly list topic_ids            # bytes of 16; None: the request has names
    cdef list indexes                       # of partitions, a list for each topic
