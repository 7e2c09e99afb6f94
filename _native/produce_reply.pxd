"""The bytes of a Produce response."""
from bowstring._native.plane cimport ProduceRequest
from bowstring._native.wire cimport Writer

# With length and header; writer.failed when memory ran out.
cdef void produce_encode(Writer *w, const ProduceRequest *request) noexcept nogil
