"""Which batches belong to aborted transactions (KIP-98)."""
from libc.stdint cimport uint8_t
from bowstring._native.batch cimport BatchInfo


cdef class Aborted:
    cdef list coming              # (first offset, producer id), newest first
    cdef set open

    # Told of every batch in offset order, `at` its header: whether its records are to be left out. Asked twice in
    # a row for the same batch, it answers the same.
    cdef bint holds(self, const uint8_t *at, const BatchInfo *info)
