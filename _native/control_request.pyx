"""What DataPlane.take_requests gives out: requests, and batches that need Python."""
from cpython.bytes cimport PyBytes_FromStringAndSize
from bowstring._native.atomics cimport load_i32
from bowstring._native.batch cimport ATTR_COMPRESSION_MASK
from bowstring._native.plane cimport ControlMessage, Partition


cdef class ControlRequest:
    """One request for the control thread."""

    def __repr__(self):
        return (f"ControlRequest(api_key={self.api_key}, api_version={self.api_version}, "
                f"correlation_id={self.correlation_id}, peer={self.peer!r}, body={len(self.body)} bytes)")


cdef class SlowBatch:
    """A produced batch that Python must look into: recompress it, or check keys inside compressed data."""


cdef object new_request(ControlMessage *m):
    cdef ControlRequest request = ControlRequest.__new__(ControlRequest)
    request.connection_id = m.connection_id
    request.slot = m.slot
    request.api_key = m.header.api_key
    request.api_version = m.header.api_version
    request.correlation_id = m.header.correlation_id
    if m.header.client_id_length >= 0:
        request.client_id = (<char *>m.header.client_id)[:m.header.client_id_length].decode("utf-8", "replace")
    request.body = PyBytes_FromStringAndSize(<char *>m.body, m.body_bytes)
    request.received_ns = m.received_ns
    request.peer = (<bytes>m.peer).decode("ascii")
    request.listener = m.listener
    request.principal = "User:ANONYMOUS"
    return request


cdef object new_slow_batch(ControlMessage *m):
    cdef SlowBatch slow = SlowBatch.__new__(SlowBatch)
    cdef Partition *p = m.part.partition
    slow.batch = PyBytes_FromStringAndSize(<char *>m.body, m.body_bytes)
    slow.part = m.part
    slow.codec = m.part.entry.info.attributes & ATTR_COMPRESSION_MASK
    slow.wanted_codec = p.log.config.compression
    slow.key_required = p.log.config.compacted
    slow.partition = p.index
    slow.topic = "" if load_i32(&p.deleted) else (<char *>p.topic.name)[:p.topic.name_length].decode()
    return slow
