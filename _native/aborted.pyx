"""Aborted transactions, as a reader that walks on through a partition leaves them out."""
from bowstring._native.batch cimport ATTR_CONTROL, ATTR_TRANSACTIONAL, BATCH_HEADER_BYTES
from bowstring._native.bigendian cimport load_be16
from bowstring._native.records cimport Record, record_read

cdef enum:
    CONTROL_ABORT = 0             # type of an end-of-transaction marker, the second int16 of its key
    CONTROL_KEY_BYTES = 4


cdef bint is_abort(const uint8_t *at, const uint8_t *end):
    """Whether a control batch ends a transaction by aborting it."""
    cdef Record r
    return record_read(&at, end, &r) and r.key_length >= CONTROL_KEY_BYTES and load_be16(r.key + 2) == CONTROL_ABORT


cdef class Aborted:
    """Which batches belong to aborted transactions, walking on in offset order (KIP-98).

    Made of (producer id, first offset) of each transaction, as a fetch response lists them.
    """

    def __init__(self, transactions):
        self.coming = sorted(((first, producer) for producer, first in transactions), reverse=True)
        self.open = set()

    cdef bint holds(self, const uint8_t *at, const BatchInfo *info):
        cdef Py_ssize_t last = len(self.coming) - 1
        while last >= 0 and self.coming[last][0] <= info.base_offset + info.last_offset_delta:
            self.open.add(self.coming.pop()[1])
            last -= 1
        if info.attributes & ATTR_CONTROL:
            if info.producer_id in self.open and is_abort(at + BATCH_HEADER_BYTES, at + info.size_bytes):
                self.open.discard(info.producer_id)
            return False
        return info.attributes & ATTR_TRANSACTIONAL and info.producer_id in self.open
