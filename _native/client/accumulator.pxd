"""Records on their way out, gathered in batches by partition: the states of batches and queues, and who changes them.

The GIL is the lock. A method of these classes never releases it between looking at a queue's open batch, the
counters and the lists of batches, and changing them; so any number of threads may send, and the sender thread
takes batches beside them. What may run Python code (encoding text, packing headers, looking up a topic,
waiting for room) comes before; what was read before such a call is read again after it.

Callers call `open_batch`, `add`, `route`, `queue`, `flushing`, `waiting` and `ask`. Everything else belongs to the holder of the sender's turn (see sender_loop.pxd).
"""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.client.partitioner cimport Chooser
from bowstring._native.client.producer_batch cimport Batch
from bowstring._native.client.window_counts cimport WindowCounts

cdef enum:
    # Room a record takes besides key, value and headers, near enough for deciding when a buffer is full.
    RECORD_OVERHEAD_BYTES = 24


cdef class PartitionQueue:
    """The batches of one partition, oldest first, and its producer state: `waiting` to be sent, `in_flight` sent and
    unanswered."""
    cdef readonly object partition
    cdef readonly object waiting
    cdef readonly object in_flight
    cdef Batch open                      # the last of `waiting` when records may still be added to it
    cdef bint listed                     # in Accumulator.active
    cdef int64_t order
    cdef readonly tuple producer         # (id, epoch) that its batches are numbered for (KIP-98)
    cdef readonly int32_t next_sequence
    cdef readonly bint epoch_bump        # numbers have been skipped: what follows begins again in the next epoch
    cdef readonly bint known             # the broker has stored a batch of `producer`
    cdef readonly bint stale             # `producer` is not the accumulator's any more
    cdef readonly object sent_to         # the broker that its last batch went to
    cdef readonly object leader          # the broker that leads the partition, None when that is unknown
    cdef readonly int64_t leader_version # of the metadata that says so
    cdef readonly object last_error      # why its last batch was refused
    cdef readonly int64_t joined         # the last transaction that the partition belongs to
    cdef readonly int64_t joining        # the last transaction that it was to be added to

    cpdef double due_in_s(self, double now, double linger_s, int64_t batch_bytes, bint hurry)
    cpdef int32_t sequence(self, Batch batch, tuple producer)


cdef class TopicRoute:
    """Where records of a topic go, by one version of its metadata."""
    cdef readonly str topic
    cdef readonly int64_t version
    cdef readonly list queues             # by partition number, None where nothing was sent yet
    cdef readonly list available         # partitions with a leader
    cdef Chooser chooser

    cdef void rechoose(self)
    cdef void choose_any(self, int64_t piece_bytes)


cdef class Accumulator:
    """What a producer's callers and its sender thread share. See accumulator.pyx."""
    cdef readonly dict queues             # TopicPartition → PartitionQueue
    cdef readonly dict active            # queues with something waiting, in the order they are looked at
    cdef readonly set unfinished         # batches that are not done
    cdef public WindowCounts counts      # of acknowledged records, for the audit of counts; None: not counted
    cdef readonly list completed         # batches with an outcome that is not published yet
    cdef dict routes                     # topic → TopicRoute
    cdef object last_topic               # of the last send, and its route: most senders stay with one
    cdef TopicRoute last_route
    cdef object partition_type           # TopicPartition, and the Python class that completes Batch
    cdef object batch_type
    cdef readonly object partitioner     # a caller's own function, else None
    cdef Chooser rule                    # what each topic's chooser begins as
    cdef double delivery_timeout_s
    cdef readonly int64_t batch_bytes
    cdef readonly int64_t request_bytes
    cdef readonly int64_t buffer_memory
    cdef int64_t room_bytes              # waiting callers go on when the buffer holds no more
    cdef bint idempotent
    cdef readonly bint transactional     # batches belong to transactions (KIP-98)
    cdef public bint outside             # no transaction takes records: every send looks why
    cdef public int64_t transaction      # number of the present one
    cdef public bint adds_partitions     # a partition is added to the transaction before its first batch goes
    cdef int codec
    cdef object codec_level
    cdef readonly tuple producer         # (id, epoch) to number batches for, (-1, -1) when unknown
    cdef public int64_t buffered_bytes
    cdef public int64_t metadata_version # what routes and leaders must have; another makes them be looked up again
    cdef public int64_t record_count     # handed in so far
    cdef readonly bint halted            # closed, failed or forked: every send looks why
    cdef readonly bint sleeping          # the sender waits, or is about to: what it must see has to wake it
    cdef readonly bint asked             # a caller needs a pass of the sender's thread: metadata, room
    cdef public bint callers_send        # who opens a batch sends it, if it can (linger is 0)
    cdef PartitionQueue direct_queue                # whose open batch has yet to be sent so
    cdef public int wake_descriptor      # -1 when there is nobody to wake
    cdef bint turn_due                   # a batch was filled: the sender may have its turn at the GIL
    cdef readonly int flushes            # threads in `flush`
    cdef readonly int waiters            # threads that wait for room or metadata
    cdef readonly int room_waiters       # those that wait for room

    cdef void tell_of(self, PartitionQueue queue)
    cdef void list_batch(self, PartitionQueue queue, Batch batch)
    cdef Batch open_batch(self, PartitionQueue queue, Batch full)
    cdef PartitionQueue queue_of(self, TopicRoute route, int32_t number)
    cpdef void wake(self)
    cpdef void listen(self)
    cdef bint in_hurry(self) noexcept
    cdef bint identified(self)
    cpdef take(self, PartitionQueue queue)
    cpdef pass_over(self, PartitionQueue queue)
    cdef void put_back(self, PartitionQueue queue, Batch batch)
    cdef void remove(self, PartitionQueue queue, Batch batch)
    cpdef int seal(self, list batches, double now) except -1
    cpdef complete(self, Batch batch, error, int64_t base_offset=?, int64_t log_append_time_ms=?)
    cpdef bint publish(self)
