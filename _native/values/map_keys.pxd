"""Removes duplicate keys from maps: the last entry of each key stays (Protobuf's encoding guide)."""
from bowstring._native.values.column cimport Column

cdef bint keep_last_entries(Column *column) noexcept nogil
