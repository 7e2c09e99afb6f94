"""Records on their way out, gathered in batches by partition: who owns what.

The GIL is the lock. A method of these classes never lets it go between looking at a lane's open batch, the
counters and the lists of batches, and changing them; so any number of threads may send, and the sender thread
takes batches beside them. What may run Python code (encoding text, packing headers, looking up a topic,
waiting for room) comes before; what was read before such a call is read again after it.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t
from bowstring._native.partition_choice cimport Chooser
from bowstring._native.produce_batch cimport Batch


cdef class Lane:
    """The batches of one partition, oldest first: `waiting` to be sent, `in_flight` sent and unanswered."""
    cdef readonly object partition
    cdef readonly object waiting
    cdef readonly object in_flight
    cdef Batch open               # the last of `waiting` when records may still be added to it
    cdef bint listed                     # in Accumulator.active
    cdef int64_t order
    cdef readonly tuple producer         # (id, epoch) that its batches are numbered for (KIP-98)
    cdef readonly int32_t next_sequence
    cdef public bint epoch_bump          # numbers have been skipped: what follows begins again in the next epoch
    cdef object leader                   # the broker that leads the partition, as the sender last looked it up
    cdef int64_t leader_version          # in metadata of this version

    cpdef double due_in_s(self, double now, double linger_s, int64_t batch_bytes, bint hurry)
    cpdef int32_t sequence(self, Batch batch, tuple producer)


cdef class TopicRoute:
    """Where records of a topic go, by one version of its metadata."""
    cdef readonly str topic
    cdef readonly int64_t version
    cdef readonly list lanes             # by partition number, None where nothing was sent yet
    cdef readonly list available         # partitions with a leader
    cdef Chooser chooser

    cdef void rechoose(self)
    cdef void choose_any(self, int64_t piece_bytes)


cdef class Accumulator:
    """What a producer's callers and its sender thread share. See accumulator.pyx."""
    cdef readonly dict lanes             # TopicPartition → Lane
    cdef readonly dict active            # lanes with something waiting, in the order they are looked at
    cdef readonly set unfinished         # batches without an outcome
    cdef dict routes                     # topic → TopicRoute
    cdef object last_topic               # of the last send, and its route: most senders stay with one
    cdef TopicRoute last_route
    cdef object lane_type                # Python classes that complete Lane and Batch
    cdef object batch_type
    cdef readonly object partitioner     # a caller's own function, else None
    cdef Chooser rule                    # what each topic's chooser begins as
    cdef double delivery_timeout_s
    cdef readonly int64_t batch_bytes
    cdef readonly int64_t request_bytes
    cdef readonly int64_t buffer_memory
    cdef public int64_t buffered_bytes
    cdef public int64_t metadata_version # what routes must have; another makes them be looked up again
    cdef public int64_t record_count     # handed in so far
    cdef public bint halted              # closed, failed or forked: every send looks why
    cdef public bint sleeping            # the sender waits, or is about to: what it must see has to wake it
    cdef public object direct            # a DirectSender when who opens a batch is to send it too (linger is 0)
    cdef Lane direct_lane                # whose open batch has yet to be sent so
    cdef public int wake_descriptor      # -1 when there is nobody to wake
    cdef bint turn_due                   # a batch was filled: the sender may have its turn at the GIL
    cdef public int waiters              # threads that wait for room or metadata

    cdef void tell_of(self, Lane lane)
    cdef void list_batch(self, Lane lane, Batch batch)
    cdef Batch open_batch(self, Lane lane, Batch full)
    cdef Lane lane_of(self, TopicRoute route, int32_t number)
    cpdef void wake(self)
    cpdef take(self, Lane lane)
    cpdef pass_over(self, Lane lane)
    cpdef drop(self, Lane lane, Batch batch)
    cpdef settle(self, Batch batch)


cdef class RecordSender:
    """The half of Producer that is called for every record. See accumulator.pyx."""
    cdef public Accumulator accumulator
    cdef public object key_serializer
    cdef public object value_serializer

    cdef Batch append(
        self, object topic, object key, const uint8_t *key_at, int64_t key_length, const uint8_t *value_at,
        int64_t value_length, const uint8_t *headers_at, int64_t headers_length, int64_t timestamp_ms,
        object partition, int32_t *index)
    cdef Lane choose(
        self, Accumulator shared, object topic, object key, const uint8_t *key_at, int64_t key_length,
        int64_t size, object partition)
    cdef int32_t unkeyed(self, TopicRoute route, int64_t size) except -1
