"""Record batches on their way out, and the futures of their records. The GIL guards both (see accumulator.pxd)."""
from libc.stdint cimport int32_t, int64_t, uint32_t
from bowstring._native.record.encode cimport BatchWriter
from bowstring._native.base.wire cimport Writer

# Memory that a batch gave back, or none yet; and its way back. Under the GIL.
cdef void produce_memory_take(Writer *w) noexcept
cdef void produce_memory_give(Writer *w) noexcept


# Where a batch is on its way; changed by the accumulator (see accumulator.pyx) and, at the end, by `finish`.
cdef enum BatchState:
    BATCH_OPEN
    BATCH_WAITING
    BATCH_IN_FLIGHT
    BATCH_RETRYING
    BATCH_DIVIDED
    BATCH_COMPLETED
    BATCH_DONE


cdef class Batch:
    """One record batch: open for appending, then taken by the sender, then done."""
    cdef BatchState state
    cdef BatchWriter writer              # its records, while they are not in `encoded`; and always their count
    cdef bint summed                     # it is complete, and this is the CRC-32C of its records
    cdef uint32_t records_crc
    cdef Py_ssize_t views                # buffers lent out: the memory stays until they are given back
    cdef readonly object partition
    cdef public object encoded           # the batch as bytes, when compressed or handed in ready-made
    cdef public int64_t size_bytes       # counted in Accumulator.buffered_bytes
    cdef readonly double created_at
    cdef public double deadline
    cdef public double retry_at
    cdef public double sent_at
    cdef public int attempts
    cdef public object producer          # (id, epoch) it was last sealed with
    cdef public int32_t base_sequence
    cdef public bint transactional       # it is sealed as part of a transaction (KIP-98)
    cdef public int64_t order
    cdef readonly bint sealed
    cdef readonly bint done
    cdef readonly object error
    cdef readonly int64_t base_offset
    cdef readonly int64_t log_append_time_ms
    cdef readonly object parts           # two batches, when it was too large for the broker and split
    cdef Batch whole                     # the batch that this is a part of
    cdef object callback                 # a function and its argument; None: no callback, or done
    cdef object argument
    cdef list callbacks                  # further (function, argument) pairs, or None
    cdef object event

    cdef void give_memory_back(self) noexcept
    cdef int64_t wire_size(self) noexcept
    cpdef seal(self, tuple producer, int32_t base_sequence, int codec, level)
    cpdef wire(self)
    cpdef finish(self, error, int64_t base_offset=?, int64_t log_append_time_ms=?)
    cdef int note_callback(self, object callback, object argument) except -1
    cdef void inherit(self, Batch before) noexcept
    cdef part_done(self)
    cdef Batch leaf(self, int32_t *index)


cdef class RecordFuture:
    """The outcome of one record: a place in a batch."""
    cdef Batch batch
    cdef int32_t index
    cdef int64_t timestamp
