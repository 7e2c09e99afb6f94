"""Maps whose keys come once: of entries with the same key the last one stays (Protobuf's encoding guide)."""
from bowstring._native.value_column cimport Column

cdef bint keep_last_entries(Column *column) noexcept nogil
