"""DataPlane, for other native modules of the control thread."""
from libc.stdint cimport int64_t
from bowstring._native.access.acl_table cimport AclTable
from bowstring._native.server.partition_types cimport Partition, Topic
from bowstring._native.server.plane_types cimport Plane

cdef class DataPlane:
    cdef Plane plane
    cdef list sockets
    cdef list tls                   # by listener: its TlsContext, or None
    cdef list authenticating        # by listener: whether connections authenticate with SASL
    cdef dict replaced              # by Partition *: its earlier logs, which readers may still use
    cdef bint started, stopped
    cdef AclTable access_table      # the rules in use, or None
    cdef list ended                 # connections that have ended since take_ended()
    cdef bint holds                 # replies are sent together, between hold_replies() and release_replies()
    cdef int64_t held_ns            # when the first of them came; 0: none is held

    cdef void _free_table(self)
    cdef void _stop_threads(self)
    cdef Partition *_find(self, str topic, int partition) except NULL  # KeyError: it is not served here
    cdef Partition *_lookup(self, str topic, int partition) except? NULL  # NULL: it is not served here, or has no log
    cdef void _bury(self, Topic *topic)
    cdef void _sweep(self, bint all)
    cdef void _release(self)
