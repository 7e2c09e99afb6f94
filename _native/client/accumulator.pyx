"""The states of a producer's batches and queues, and every step from one to the next.

| batch | where it is | entered by |
|---|---|---|
| open | last of its queue's `waiting`; records may be appended | `open_batch` |
| waiting | in `waiting`; complete | `open_batch` (of the next), `add` |
| in flight | in `in_flight`; numbered and sealed by `seal` | `take` |
| retrying | in `waiting`, before all that came after it | `retry` |
| divided | nowhere: its halves are retrying | `divide` |
| completed | in `completed`; it has an outcome | `complete` |
| done | nowhere; futures and callbacks have the outcome | `publish` |

| queue | means | entered by |
|---|---|---|
| unplaced | `leader_version` is not the metadata's: who leads it must be looked up | (new metadata) |
| placed | `leader` is a broker, or None while nobody leads it | `PartitionQueue.place` |
| muted | something is sent again, so nothing newer goes beside it | `retry`; ends with its answer |
| new | `known` is false: no batch of its id and epoch is acknowledged, so the first goes alone | `sequence` |
| stale | the producer has another id, which is used once all that is in flight is answered | `identify` |
| sequence gap | `epoch_bump`: numbers are missing, so the next batch begins the next epoch alone | `PartitionQueue.bump_epoch` |

See accumulator.pxd for threads and the GIL.
"""
cimport cython
from libc.stdint cimport INT32_MAX, int32_t, int64_t
from libc.string cimport memset
from posix.unistd cimport write
from bowstring._native.client.partitioner cimport Chooser, chooser_random
from bowstring._native.client.producer_batch cimport (
    BATCH_COMPLETED, BATCH_DIVIDED, BATCH_IN_FLIGHT, BATCH_RETRYING, BATCH_WAITING, Batch, produce_memory_take)

import os
from collections import deque

# Waiting callers go on when this share of buffer_memory is in use: not at once, so that they and the sender
# do not take turns for every batch.
cdef double ROOM_SHARE = 0.75
cdef double NEVER = float("inf")
cdef tuple NO_PRODUCER = (-1, -1)

# ---------------------------------------------------------------- queues and routes


cdef class PartitionQueue:
    """The batches of one partition, oldest first, and its producer state.

    While a batch is sent again nothing newer is sent beside it, so that order survives retries.
    """

    def __cinit__(self, partition):
        self.partition = partition
        self.waiting = deque()
        self.in_flight = deque()
        self.order = 0
        self.producer = NO_PRODUCER
        self.leader_version = -1

    def place(self, leader, int64_t version):
        """Notes who leads the partition by metadata of `version`; None when that is unknown."""
        self.leader = leader
        self.leader_version = version

    def join(self, int64_t transaction):
        """Notes that the partition is part of the transaction with this number: its batches may go."""
        self.joined = transaction

    def begin_join(self, int64_t transaction):
        """Notes that the partition will be added to the transaction: the loop does not name it again."""
        self.joining = transaction

    def bump_epoch(self):
        """Notes that sequence numbers are missing: `sequence` begins again in the next epoch (KIP-360)."""
        self.epoch_bump = True

    def skip_numbers(self, Batch batch not None):
        """Notes that the numbers of a batch that is given up may be missing.

        Not where others have been sent and are not answered for good: they may be stored, and numbered anew they would
        be stored twice. They keep their numbers; the broker refuses the first that comes after a gap.
        """
        cdef Batch other
        for other in list(self.in_flight) + list(self.waiting):
            if other is not batch and other.attempts and other.base_sequence >= 0:
                return
        self.epoch_bump = True

    def has_earlier(self, Batch batch not None):
        """Whether a batch that was made before this one has no outcome yet."""
        cdef Batch other
        for other in self.in_flight:
            if other.order < batch.order:
                return True
        for other in self.waiting:
            if other.order < batch.order:
                return True
        return False

    cpdef double due_in_s(self, double now, double linger_s, int64_t batch_bytes, bint hurry):
        """Seconds until the first waiting batch may go; infinite when an answer has to come before.

        Brokers store batches of a new producer whatever their numbers are. So the first goes alone:
        if it were refused, one after it could take its place.
        """
        cdef Batch first = self.waiting[0], other
        if self.in_flight:
            if first.attempts or self.epoch_bump or self.stale or (self.producer is not NO_PRODUCER and not self.known):
                return NEVER
            for other in self.in_flight:
                if other.attempts > 1:
                    return NEVER
        if first.attempts:
            return max(0.0, first.retry_at - now)
        if hurry or len(self.waiting) > 1 or first.encoded is not None or first.size_bytes >= batch_bytes:
            return 0.0
        return max(0.0, first.created_at + linger_s - now)

    cpdef int32_t sequence(self, Batch batch, tuple producer):
        """The sequence number for a batch about to be sent; its identity is `batch.producer` if the batch has been
        numbered before, else the queue's.

        After a gap all that is left starts again in the next epoch (KIP-360).
        """
        cdef Batch other
        cdef int32_t base_sequence
        if self.epoch_bump:                              # due_in_s has seen to it that `batch` is alone
            self.producer = (self.producer[0], self.producer[1] + 1)
            self.next_sequence = 0
            self.epoch_bump = False
            self.known = False
            batch.base_sequence = -1
            for other in self.waiting:
                other.base_sequence = -1
        if self.producer[0] != producer[0]:
            self.producer = producer
            self.next_sequence = 0
            self.stale = self.known = False
        if batch.base_sequence >= 0:
            return batch.base_sequence
        base_sequence = self.next_sequence
        self.next_sequence = <int32_t>((<int64_t>base_sequence + batch.writer.count) & INT32_MAX)
        return base_sequence


cdef class TopicRoute:
    """Where records of a topic go, by one version of its metadata."""

    cdef void rechoose(self):
        """Draws the partition for the next records without a key: the shorter its queue, the likelier (KIP-794)."""
        cdef PartitionQueue queue
        cdef int64_t longest = 0, total = 0, at
        cdef list weights = []
        cdef int32_t number
        cdef int i = 0
        for i in range(len(self.available)):
            number = self.available[i]
            queue = self.queues[number]
            at = 0 if queue is None else len(queue.waiting)
            longest = max(longest, at)
            weights.append(at)
        for i in range(len(weights)):
            weights[i] = longest + 1 - <int64_t>weights[i]
            total += <int64_t>weights[i]
        at = <int64_t>(chooser_random(&self.chooser) % <unsigned long long>total)
        for i in range(len(weights)):
            at -= <int64_t>weights[i]
            if at < 0:
                break
        self.chooser.sticky = self.available[i]
        self.chooser.sticky_left = self.chooser.sticky_bytes

    cdef void choose_any(self, int64_t piece_bytes):
        """The same, for a piece of many records."""
        self.rechoose()
        self.chooser.sticky_left = piece_bytes

# ---------------------------------------------------------------- what callers and the sender share


@cython.final
cdef class Waiting:
    """Counts a caller that waits. Native, so that no signal handler raises between the count and the `with`."""
    cdef Accumulator shared
    cdef bint flushes
    cdef bint for_room

    def __cinit__(self, Accumulator shared not None, bint flushes, bint for_room):
        self.shared, self.flushes, self.for_room = shared, flushes, for_room

    def __enter__(self):
        self.shared.flushes += self.flushes
        self.shared.waiters += not self.flushes
        self.shared.room_waiters += self.for_room
        if self.flushes:
            self.shared.wake()

    def __exit__(self, *_):
        self.shared.flushes -= self.flushes
        self.shared.waiters -= not self.flushes
        self.shared.room_waiters -= self.for_room


cdef class Accumulator:
    """Open and waiting batches by partition, and how much memory they hold.

    `settings` is a ProducerSettings. `partition_type` makes the key of a queue of (topic, number); `batch_type` is the
    Python class that completes Batch.
    """

    def __cinit__(self, partition_type, batch_type, settings):
        self.queues = {}
        self.active = {}
        self.unfinished = set()
        self.completed = []
        self.routes = {}
        self.partition_type = partition_type
        self.batch_type = batch_type
        self.partitioner = settings.partitioner
        self.delivery_timeout_s = settings.delivery_timeout_s
        self.batch_bytes = settings.batch_bytes
        self.request_bytes = settings.request_bytes
        self.buffer_memory = settings.buffer_memory
        self.room_bytes = <int64_t>(ROOM_SHARE * self.buffer_memory)
        self.idempotent = settings.idempotent
        self.transactional = self.outside = settings.transactional_id is not None
        self.codec = settings.compression
        self.codec_level = settings.compression_level
        self.producer = (-1, -1)
        self.wake_descriptor = -1
        memset(&self.rule, 0, sizeof(Chooser))
        self.rule.key_rule = settings.key_rule
        self.rule.null_rule = settings.null_rule
        self.rule.empty_is_null = settings.empty_is_null
        self.rule.sticky_bytes = max(1, settings.sticky_bytes)

    # ------------------------------------------------------------ the sender's sleep

    cpdef void listen(self):
        """The sender is about to look for work and then to sleep: what changes from here on wakes it."""
        self.sleeping = True

    def begin_pass(self):
        """`listen`, in a pass of the sender's thread, which handles every earlier call of `ask`."""
        self.asked = False
        self.listen()

    cpdef void wake(self):
        """Makes the sender look again, if it sleeps or is about to."""
        if self.sleeping:
            self.sleeping = False
            if self.wake_descriptor >= 0:
                # A full pipe means that a wake-up is on its way already.
                if write(self.wake_descriptor, b"\0", 1) < 0:
                    return

    def ask(self):
        """Makes the sender end its native loop and look again: a topic is wanted, for example."""
        self.asked = True
        self.wake()

    def flushing(self):
        """A context in which batches do not linger."""
        return Waiting(self, True, False)

    def waiting(self, bint for_room):
        """A context in which a caller waits for room, or else for metadata; batches do not linger while one waits for
        room."""
        return Waiting(self, False, for_room)

    def halt(self):
        """Takes no more records; what is there does not linger."""
        self.halted = True

    cdef bint in_hurry(self) noexcept:
        """Whether batches go at once."""
        return self.flushes > 0 or self.room_waiters > 0 or self.halted

    # ------------------------------------------------------------ the producer's identity

    def identify(self, int64_t producer_id, int epoch):
        """Numbers batches for this producer id from now on (KIP-98)."""
        cdef PartitionQueue queue
        self.producer = (producer_id, epoch)
        for queue in self.queues.values():
            queue.stale = <int64_t>queue.producer[0] >= 0 and <int64_t>queue.producer[0] != producer_id

    def renumber(self, int64_t producer_id, int epoch):
        """Numbers every partition's batches from 0 on, for this id and epoch (KIP-890). Nothing may be on its way."""
        cdef PartitionQueue queue
        self.producer = (producer_id, epoch)
        for queue in self.queues.values():
            queue.producer = NO_PRODUCER
            queue.next_sequence = 0
            queue.epoch_bump = queue.stale = queue.known = False

    def forget_identity(self):
        """The epochs of the producer id are used up: nothing is numbered before another one is there."""
        self.producer = (-1, -1)

    cdef bint identified(self):
        """Whether batches can be numbered, if they are to be."""
        return not self.idempotent or <int64_t>self.producer[0] >= 0

    @property
    def has_identity(self):
        """Whether batches can be numbered, if they are to be."""
        return self.identified()

    # ------------------------------------------------------------ topics

    def route(self, str topic not None, int64_t version, int32_t partitions, list available not None):
        """Notes what metadata of `version` says of a topic, for the sends that follow."""
        cdef TopicRoute before = self.routes.get(topic)
        cdef TopicRoute made = TopicRoute.__new__(TopicRoute)
        made.topic = topic
        made.version = version
        made.available = available
        made.queues = [None] * partitions
        if before is not None:
            made.queues[: len(before.queues)] = before.queues[:partitions]
            made.chooser = before.chooser
        else:
            made.chooser = self.rule
            made.chooser.random = int.from_bytes(os.urandom(8), "little") | 1
            made.chooser.sticky = -1
        if made.chooser.sticky not in available:
            made.chooser.sticky_left = 0
        made.chooser.partitions = partitions
        self.routes[topic] = made
        self.last_topic = topic
        self.last_route = made
        return made

    cdef PartitionQueue queue_of(self, TopicRoute route, int32_t number):
        """The queue of a partition in the metadata."""
        if not 0 <= number < len(route.queues):
            raise IndexError(number)
        if route.queues[number] is None:
            route.queues[number] = self.queue(route.topic, number)
        return route.queues[number]

    def partition_count(self, topic):
        """Partitions of a topic by current metadata; -1 when it has to be looked up."""
        cdef TopicRoute route = self.routes.get(topic)
        if self.halted or route is None or route.version != self.metadata_version:
            return -1
        return len(route.queues)

    def queue(self, str topic not None, int number):
        """The queue of a partition, made when there is none."""
        partition = (topic, number)
        found = self.queues.get(partition)
        if found is None:
            made = PartitionQueue(self.partition_type(topic, number))
            found = self.queues.setdefault(made.partition, made)
        return found

    # ------------------------------------------------------------ open, waiting

    cdef void tell_of(self, PartitionQueue queue):
        """Wakes the sender if a batch that was put last in the queue lets it do more than it could before.

        The first may have to linger, the second makes the first due. With more the sender has seen that one is
        due, and waits for something else: an answer, a retry's time, a leader.
        """
        if len(queue.waiting) <= 2:
            self.wake()

    cdef void list_batch(self, PartitionQueue queue, Batch batch):
        queue.order += 1
        batch.order = queue.order
        if queue.open is not None:
            queue.open.state = BATCH_WAITING
            queue.open = None
        queue.waiting.append(batch)
        self.unfinished.add(batch)
        if not queue.listed:
            queue.listed = True
            self.active[queue] = None

    cdef Batch open_batch(self, PartitionQueue queue, Batch full):
        """A batch to append to in the place of `full`, the queue's open batch or None; None when the producer halts.

        Wakes the sender: it has a batch to wait for, or one that is full to send.
        """
        # Making an object may collect garbage, which may run Python code: another thread may come first meanwhile.
        cdef Batch batch = self.batch_type(queue.partition, self.delivery_timeout_s)
        if self.halted or self.outside:
            return None
        if queue.open is not full:
            return queue.open if queue.open is not None else self.open_batch(queue, None)
        produce_memory_take(&batch.writer.out)
        self.list_batch(queue, batch)
        queue.open = batch
        if self.callers_send and self.direct_queue is None:
            self.direct_queue = queue
        else:
            self.tell_of(queue)
        self.turn_due = full is not None
        return batch

    def add(self, PartitionQueue queue not None, Batch batch not None):
        """Puts a batch last that nothing is appended to; what comes after it opens a new one. False when the
        producer has halted: nobody would send it."""
        if self.halted or self.outside:
            return False
        self.list_batch(queue, batch)
        batch.state = BATCH_WAITING
        self.buffered_bytes += batch.size_bytes
        self.record_count += batch.writer.count
        self.tell_of(queue)
        return True

    # ------------------------------------------------------------ in flight, retrying

    cpdef take(self, PartitionQueue queue):
        """Open, waiting or retrying → in flight: the queue's first waiting batch, which nothing is appended to now."""
        cdef Batch batch = queue.waiting.popleft()
        if batch is queue.open:
            queue.open = None
        batch.state = BATCH_IN_FLIGHT
        queue.in_flight.append(batch)
        queue.sent_to = queue.leader
        if not queue.waiting:
            queue.listed = False
            del self.active[queue]
        return batch

    cpdef pass_over(self, PartitionQueue queue):
        """Lets other queues come first at the next look."""
        if queue.listed:
            del self.active[queue]
            self.active[queue] = None

    cpdef int seal(self, list batches, double now) except -1:
        """Numbers batches in flight and seals those that are not sealed for the producer's present identity."""
        cdef Batch batch
        cdef PartitionQueue queue
        cdef tuple identity = NO_PRODUCER
        cdef int32_t base_sequence = -1
        for batch in batches:
            batch.attempts += 1
            batch.sent_at = now
            if self.idempotent:
                queue = self.queues[batch.partition]
                base_sequence = queue.sequence(batch, self.producer)
                identity = queue.producer if batch.base_sequence < 0 else batch.producer
            batch.transactional = self.transactional
            if not batch.sealed or batch.base_sequence != base_sequence or batch.producer != identity:
                batch.seal(identity, base_sequence, self.codec, self.codec_level)
        return 0

    cdef void put_back(self, PartitionQueue queue, Batch batch):
        """In flight → waiting or retrying, before the batches that came after it."""
        cdef Py_ssize_t at = 0
        if batch in queue.in_flight:
            queue.in_flight.remove(batch)
        while at < len(queue.waiting) and (<Batch>queue.waiting[at]).order < batch.order:
            at += 1
        batch.state = BATCH_RETRYING if batch.attempts else BATCH_WAITING
        queue.waiting.insert(at, batch)
        if not queue.listed:
            queue.listed = True
            self.active[queue] = None

    def retry(self, Batch batch not None, double retry_at):
        """In flight → retrying: sent again from `retry_at` on, before all that came after it. A batch that has an
        outcome already keeps it."""
        if batch.state >= BATCH_COMPLETED:
            return
        batch.retry_at = retry_at
        self.put_back(self.queues[batch.partition], batch)

    def note_error(self, Batch batch not None, error):
        """Keeps why a batch was refused, for what is said when its time is over."""
        (<PartitionQueue>self.queues[batch.partition]).last_error = error

    def divide(self, Batch batch not None):
        """In flight → divided: its records go on as two batches, numbered as it was; done when both are. A batch that has
        an outcome already keeps it."""
        cdef PartitionQueue queue = self.queues[batch.partition]
        cdef Batch first, second
        if batch.state >= BATCH_COMPLETED:
            return
        first, second = self.batch_type(batch.partition, 0.0), self.batch_type(batch.partition, 0.0)
        batch.divide(first, second)
        self.remove(queue, batch)
        batch.state = BATCH_DIVIDED
        self.unfinished.discard(batch)                   # its bytes count with the halves from now on
        for half in (second, first):
            self.unfinished.add(half)
            self.put_back(queue, half)

    # ------------------------------------------------------------ completed, done

    cdef void remove(self, PartitionQueue queue, Batch batch):
        """Takes a batch out of its queue, wherever it is."""
        if queue.in_flight and queue.in_flight[0] is batch:
            queue.in_flight.popleft()
        elif batch in queue.in_flight:
            queue.in_flight.remove(batch)
        elif batch in queue.waiting:
            queue.waiting.remove(batch)
        if queue.open is batch:
            queue.open = None
        if queue.listed and not queue.waiting:
            queue.listed = False
            del self.active[queue]

    cpdef complete(self, Batch batch, error, int64_t base_offset=-1, int64_t log_append_time_ms=-1):
        """Any state → completed: it is out of its queue and has an outcome, which `publish` reports. A batch that has
        one already keeps it."""
        cdef PartitionQueue queue
        if batch.state >= BATCH_COMPLETED:
            return
        queue = self.queues[batch.partition]
        self.remove(queue, batch)
        if error is None and batch.producer is queue.producer:
            queue.known = True
        batch.state = BATCH_COMPLETED
        batch.error = error
        batch.base_offset = base_offset
        batch.log_append_time_ms = log_append_time_ms
        self.completed.append(batch)
        if error is None and self.counts is not None:
            self.counts.note_batch(batch, log_append_time_ms)

    def complete_all(self, error):
        """Completes every batch that has no outcome yet."""
        for batch in list(self.unfinished):
            self.complete(batch, error)

    def late(self, double now):
        """What waits and has reached its deadline; and the seconds until the next does."""
        cdef PartitionQueue queue
        cdef Batch batch
        cdef double nearest = NEVER
        cdef list found = []
        for queue in list(self.active):
            for batch in queue.waiting:
                if now < batch.deadline:
                    nearest = min(nearest, batch.deadline - now)
                    break
                found.append(batch)
        return found, nearest

    def failures(self):
        """What was not delivered, of the completed."""
        cdef Batch batch
        return [batch for batch in self.completed if batch.error is not None]

    cpdef bint publish(self):
        """Completed → done: memory counts as free, who waits is woken, callbacks run (with any Python code).

        Returns:
            Whether callers that wait for room may go on.
        """
        cdef Batch batch
        cdef Py_ssize_t at = 0
        cdef list completed = self.completed
        if not completed:
            return False
        self.completed = []
        try:
            while at < len(completed):
                batch = completed[at]
                at += 1
                if batch in self.unfinished:             # before its callbacks, which may send again
                    self.buffered_bytes -= batch.size_bytes
                try:
                    batch.finish(batch.error, batch.base_offset, batch.log_append_time_ms)
                finally:
                    self.unfinished.discard(batch)
        finally:
            if at < len(completed):
                self.completed = completed[at:] + self.completed
        return self.waiters > 0 and (self.room_waiters == 0 or self.buffered_bytes <= self.room_bytes)

    def give_up(self, error):
        """Sets a failure everywhere, without waking or calling anything: for a forked process, whose threads are gone."""
        cdef Batch batch
        self.halt()
        self.wake_descriptor = -1
        for batch in self.unfinished:
            batch.give_up(error)
        self.unfinished.clear()
