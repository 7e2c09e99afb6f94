"""Finds topics and partitions, counts references to them, and wakes requests that wait for a log to grow."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from bowstring._native.server.fetch_types cimport Waiter
from bowstring._native.server.partition_types cimport Partition, Topic
from bowstring._native.server.plane_types cimport Plane, TopicTable
from bowstring._native.server.produce_types cimport ProducePart
from bowstring._native.server.reactor_types cimport Reactor

# Lookup; the caller holds Plane.table_lock (every reactor pass does)
cdef Topic *topic_by_name(const TopicTable *table, const uint8_t *name, int32_t length) noexcept nogil
cdef Topic *topic_by_id(const TopicTable *table, const uint8_t *id) noexcept nogil
cdef Partition *topic_partition(const Topic *topic, int32_t index) noexcept nogil

# Changing the table; the caller holds Plane.table_lock for writing
cdef Topic *topic_add(TopicTable *table, const uint8_t *name, int32_t length, const uint8_t *id) noexcept nogil
cdef bint topic_set_partition(Topic *topic, int32_t index, Partition *partition) noexcept nogil
cdef void topic_remove(TopicTable *table, Topic *topic) noexcept nogil
cdef Partition *partition_new(Topic *topic, int32_t index, int32_t reactors) noexcept nogil
cdef void partition_free(Partition *p) noexcept nogil

cdef void partition_retain(Partition *p) noexcept nogil
cdef void partition_release(Partition *p) noexcept nogil

# Waiters. `here` is the reactor whose thread calls, or NULL on the control thread.
cdef void waiter_add(Waiter *w, Partition *p) noexcept nogil
cdef void waiter_remove(Waiter *w) noexcept nogil
cdef bint ack_waiter_add(ProducePart *part) noexcept nogil
cdef bint ack_waiter_remove(ProducePart *part) noexcept nogil
cdef void partition_advanced(Partition *p, int64_t bytes, Reactor *here) noexcept nogil

# On the control thread: requests one event when the high watermark has reached `offset` (above 0), or the partition
# is deleted or led elsewhere. The lowest of several offsets stands. False: it has reached it already.
cdef bint partition_watch(Plane *plane, Partition *p, int64_t offset) noexcept nogil
# Removes and returns a partition with such an event, held for the caller; NULL: there is none.
cdef Partition *partition_take_advanced(Plane *plane) noexcept nogil
