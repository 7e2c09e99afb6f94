"""Constants of the records of committed offsets."""

cdef enum:
    RECORD_TYPE = 1
    UUID_BYTES = 16
