"""Replicas, the control thread's interface to replication: who leads, who follows whom, and what happens to them.

Call all methods on the control thread.
"""
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_SetName
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from posix.unistd cimport close
from bowstring._native.base.atomics cimport add_i32, load_i64, store_i32, store_i64
from bowstring._native.base.clock cimport monotonic_ms
from bowstring._native.base.pthread cimport (
    pthread_mutex_lock, pthread_mutex_trylock, pthread_mutex_unlock, pthread_rwlock_unlock, pthread_rwlock_wrlock)
from bowstring._native.log cimport PartitionLog
from bowstring._native.replica.replica_quota cimport quota_set
from bowstring._native.replica.in_sync_replicas cimport (
    Replica, ReplicaSet, replica_begin, replica_find, replica_set_new, replica_set_state, replica_try_join,
    replicas_low_watermark)
from bowstring._native.server.data_plane cimport DataPlane
from bowstring._native.server.mailbox cimport post
from bowstring._native.server.replica_events cimport dials_take, replica_events_take
from bowstring._native.server.replica_leader cimport leader_advance, leader_check_lag
from bowstring._native.server.topic_table cimport (
    partition_advanced, partition_release, partition_retain, topic_remove)
from bowstring._native.server.fetcher cimport link_drop
from bowstring._native.server.follow_types cimport Dial, FollowLink, FollowOrder
from bowstring._native.server.mail_types cimport MAIL_FOLLOW, MAIL_LINK
from bowstring._native.server.partition_types cimport Partition, Topic
from bowstring._native.server.plane_types cimport Plane
from bowstring._native.server.replica_types cimport (
    FETCH_FAILED, REPLICA_LAGS, REPLICA_MAY_JOIN, REPLICA_TRUNCATED, Endpoint, ReplicaEvent)
from bowstring._native.tls.stream_types cimport TlsStream

cdef dict KINDS = {
    REPLICA_MAY_JOIN: "may-join", REPLICA_LAGS: "lags", FETCH_FAILED: "fetch-failed", REPLICA_TRUNCATED: "truncated",
}


cdef class Replicas:
    """Leads and follows the partitions of one data plane.

    Args:
        plane: It must outlive this object.
        broker_id: Of this broker.
        broker_epoch: Of its registration.
        fetchers: ``num.replica.fetchers``, connections to each leader.
        wait_max_ms: ``replica.fetch.wait.max.ms``.
        min_bytes: ``replica.fetch.min.bytes``.
        part_max_bytes: ``replica.fetch.max.bytes``.
        response_max_bytes: ``replica.fetch.response.max.bytes``.
        backoff_ms: ``replica.fetch.backoff.ms``.
        socket_timeout_ms: ``replica.socket.timeout.ms``.
        lag_max_ms: ``replica.lag.time.max.ms``.
        is_secured: Leaders' listeners have TLS or SASL: :meth:`take_dials` returns those to connect to.
    """

    cdef DataPlane owner
    cdef Plane *plane
    cdef bint together              # inside change_roles
    cdef bint held                  # the table lock, inside change_roles
    cdef bint look_later            # fetchers are to look again when that ends

    def __init__(self, DataPlane plane not None, *, int32_t broker_id, int64_t broker_epoch=-1, int32_t fetchers=1,
                 int32_t wait_max_ms=500, int32_t min_bytes=1, int32_t part_max_bytes=1048576,
                 int32_t response_max_bytes=10485760, int64_t backoff_ms=1000, int64_t lag_max_ms=30000,
                 int64_t socket_timeout_ms=30000, bint is_secured=False):
        if broker_id < 0 or fetchers < 1:
            raise ValueError(f"broker id {broker_id} must not be negative, and fetchers {fetchers} must be at least 1")
        self.owner = plane
        self.plane = &plane.plane
        self._lock()
        self.plane.replication.broker_id = broker_id
        self.plane.replication.broker_epoch = broker_epoch
        self.plane.replication.fetchers = fetchers
        self.plane.replication.wait_max_ms = wait_max_ms
        self.plane.replication.min_bytes = min_bytes
        self.plane.replication.part_max_bytes = part_max_bytes
        self.plane.replication.response_max_bytes = response_max_bytes
        self.plane.replication.backoff_ms = backoff_ms
        self.plane.replication.lag_max_ms = lag_max_ms
        self.plane.replication.is_secured = is_secured
        self.plane.replication.socket_timeout_ms = max(socket_timeout_ms, wait_max_ms + 1)
        pthread_rwlock_unlock(&self.plane.table_lock)

    cdef void _lock(self):
        with nogil:
            pthread_rwlock_wrlock(&self.plane.table_lock)

    cdef void _lock_role(self, Partition *p):
        """Waits until no thread truncates the log, then until no reactor is in a pass."""
        if self.held and pthread_mutex_trylock(&p.truncate_lock) == 0:
            return
        self._release()                                  # reactors need not wait for the disk
        with nogil:
            pthread_mutex_lock(&p.truncate_lock)
            pthread_rwlock_wrlock(&self.plane.table_lock)
        self.held = self.together

    cdef void _unlock_role(self, Partition *p):
        if not self.held:
            pthread_rwlock_unlock(&self.plane.table_lock)
        pthread_mutex_unlock(&p.truncate_lock)

    cdef void _release(self):
        if self.held:
            self.held = False
            pthread_rwlock_unlock(&self.plane.table_lock)

    def change_roles(self, list changes not None):
        """Makes calls of :meth:`lead`, :meth:`follow` and :meth:`set_isr` in one stop of the reactors: waiting for the end
        of their passes, and waking them, costs more than a role. Pass some dozens: the reactors do nothing meanwhile.

        Args:
            changes: ``[(bound method, arguments, named arguments)]``.

        Raises:
            KeyError: A partition is not served here. The later calls were not made.
        """
        if not changes:
            return
        self._lock()
        self.together = self.held = True
        try:
            for method, arguments, named in changes:
                method(*arguments, **named)
        finally:
            self.together = False
            self._release()
            if self.look_later:
                self.look_later = False
                self._look_again()

    def set_broker_epoch(self, int64_t broker_epoch):
        """Sets the epoch of this broker's registration, which its fetches name."""
        self._lock()
        self.plane.replication.broker_epoch = broker_epoch
        pthread_rwlock_unlock(&self.plane.table_lock)

    def set_fetchers(self, int32_t fetchers):
        """Sets ``num.replica.fetchers``, for partitions that are followed in a new epoch from now on.

        Raises:
            ValueError: It must be at least 1.
        """
        if fetchers < 1:
            raise ValueError(f"fetchers must be at least 1, not {fetchers}")
        self._lock()
        self.plane.replication.fetchers = fetchers
        pthread_rwlock_unlock(&self.plane.table_lock)

    def set_endpoints(self, endpoints):
        """Sets the addresses that answers name to clients of another leader (KIP-951), and the racks that consumers may
        be sent to (KIP-392).

        Args:
            endpoints: ``[(broker id, host or None, port, rack or None)]`` of all brokers that are not fenced, also this
                one. Without a host no answer names the broker's address; its rack counts all the same.
        """
        cdef Endpoint *made = <Endpoint *>calloc(len(endpoints) + 1, sizeof(Endpoint))
        cdef Endpoint *old
        cdef bytes text
        cdef int32_t i
        if made == NULL:
            raise MemoryError
        for i, (broker_id, host, port, rack) in enumerate(endpoints):
            made[i].id = broker_id
            made[i].port = port
            text = (host or "").encode()[:sizeof(made[i].host)]
            made[i].host_length = <int32_t>len(text)
            memcpy(made[i].host, PyBytes_AS_STRING(text), len(text))
            made[i].rack_length = -1
            if rack is not None:
                text = rack.encode()[:sizeof(made[i].rack)]
                made[i].rack_length = <int32_t>len(text)
                memcpy(made[i].rack, PyBytes_AS_STRING(text), len(text))
        self._lock()
        old = self.plane.endpoints
        self.plane.endpoints = made
        self.plane.endpoint_count = <int32_t>len(endpoints)
        pthread_rwlock_unlock(&self.plane.table_lock)
        free(old)

    def set_rack_aware(self, bint rack_aware):
        """Sets whether consumers that name a rack are sent to an in-sync replica there (``replica.selector.class``, KIP-392)."""
        self._lock()
        self.plane.replication.rack_aware = rack_aware
        pthread_rwlock_unlock(&self.plane.table_lock)

    # ------------------------------------------------------------ quotas

    def set_quota(self, *, leader_rate=None, follower_rate=None):
        """Sets how fast throttled replicas are copied (KIP-73).

        Args:
            leader_rate: Bytes per second that all followers together get from this broker
                (``leader.replication.throttled.rate``); None for no limit.
            follower_rate: Bytes per second that this broker fetches (``follower.replication.throttled.rate``).
        """
        self._lock()
        quota_set(&self.plane.replication.leader_quota, 0 if leader_rate is None else max(1, leader_rate))
        quota_set(&self.plane.replication.follower_quota, 0 if follower_rate is None else max(1, follower_rate))
        pthread_rwlock_unlock(&self.plane.table_lock)
        self._look_again()

    def set_throttled(self, str topic, int partition, *, bint leader, bint follower):
        """Sets on which sides the quotas count for a replica of this broker. Only while it, or the follower, lags.

        Args:
            leader: ``leader.replication.throttled.replicas`` names this broker's replica.
            follower: ``follower.replication.throttled.replicas`` does.

        Raises:
            KeyError: The partition is not served here.
        """
        cdef Partition *p = self.owner._find(topic, partition)
        cdef bint freed = p.follower_throttled and not follower
        self._lock()
        p.leader_throttled = leader
        p.follower_throttled = follower
        pthread_rwlock_unlock(&self.plane.table_lock)
        if freed:
            self._look_again()

    # ------------------------------------------------------------ leading

    def lead(self, str topic, int partition, *, int32_t leader_epoch, replicas, isr, broker_epochs=None, ineligible=()):
        """Leads a partition in an epoch, or changes its followers within the same epoch.

        Args:
            replicas: Ids of all replicas, with or without this broker.
            isr: Ids of the committed ISR.
            broker_epochs: ``{broker id: epoch}`` of the registrations; a fetch of an older one is refused.
            ineligible: Ids that may not join the ISR: fenced brokers, and those that shut down.

        Raises:
            KeyError: The partition is not served here.
        """
        cdef Partition *p = self.owner._find(topic, partition)
        cdef list others = [each for each in replicas if each != self.plane.replication.broker_id]
        cdef ReplicaSet *s = replica_set_new(<int32_t>len(others))
        cdef ReplicaSet *old
        cdef int64_t now_ms = monotonic_ms()
        cdef bint renewed
        cdef int32_t i
        if s == NULL:
            raise MemoryError
        for i, broker_id in enumerate(others):
            s.items[i].broker_id = broker_id
            s.items[i].in_sync = broker_id in isr
            s.items[i].eligible = broker_id not in ineligible
            s.items[i].broker_epoch = (broker_epochs or {}).get(broker_id, -1)
        s.leader_epoch = leader_epoch
        s.lag_max_ms = self.plane.replication.lag_max_ms
        s.min_in_sync = p.min_insync_replicas
        self._lock_role(p)
        old = p.replicas
        renewed = old == NULL or old.leader_epoch != leader_epoch or not p.is_leader
        if p.log != NULL:
            s.epoch_start_offset = load_i64(&p.log.log_end_offset) if renewed else old.epoch_start_offset
            if renewed:
                try:
                    (<PartitionLog><object>p.log_owner).assign_epoch(leader_epoch, s.epoch_start_offset)
                except BaseException:
                    self._unlock_role(p)
                    free(s)
                    raise
        for i in range(s.count):
            replica_begin(&s.items[i], replica_find(old, s.items[i].broker_id) if not renewed else NULL, now_ms)
        store_i32(&p.leader_epoch, leader_epoch)
        store_i32(&p.is_leader, True)
        store_i32(&p.replicated, s.count > 0)
        store_i32(&p.in_sync_replicas, <int32_t>len(isr))
        p.leader_id = self.plane.replication.broker_id
        p.replicas = s if s.count > 0 else NULL
        self._unlock_role(p)
        if p.replicas == NULL:
            free(s)
        free(old)
        if p.log != NULL:
            self._advance(p, now_ms)
        self._look_again()
        partition_advanced(p, 0, NULL)

    cdef void _advance(self, Partition *p, int64_t now_ms):
        if p.replicas != NULL:
            leader_advance(p, now_ms)
        else:
            (<PartitionLog><object>p.log_owner).advance_high_watermark(load_i64(&p.log.log_end_offset))

    def set_isr(self, str topic, int partition, isr, *, joining=(), leaving=(), bint changing=False, ineligible=None):
        """Sets the committed ISR, and the change of it that is under way.

        Args:
            isr: Ids of the committed ISR.
            joining: Ids that the change adds. The high watermark waits for them, too (the maximal ISR).
            leaving: Ids that the change removes. They do not count for min.insync.replicas any more.
            changing: A change is under way: no other is proposed.
            ineligible: Ids that may not join; None leaves it as it is.

        Raises:
            KeyError: The partition is not served here.
        """
        cdef Partition *p = self.owner._find(topic, partition)
        cdef Replica *replica
        cdef int32_t i
        if p.replicas == NULL:
            return
        pthread_mutex_lock(&p.replicas_lock)
        for i in range(p.replicas.count):
            replica = &p.replicas.items[i]
            replica_set_state(
                replica, replica.broker_id in isr, replica.broker_id in joining, replica.broker_id in leaving, changing)
            if ineligible is not None:
                replica.eligible = replica.broker_id not in ineligible
        p.replicas.changing = changing
        pthread_mutex_unlock(&p.replicas_lock)
        store_i32(&p.in_sync_replicas, <int32_t>len(isr))
        if leader_advance(p, monotonic_ms()):
            partition_advanced(p, 0, NULL)

    def try_join(self, str topic, int partition, int broker_id, *, int leader_epoch):
        """Begins to add a follower to the ISR, if it still has all that is committed and this broker leads in that epoch.
        From then on the high watermark waits for the follower. :meth:`set_isr` says how the change goes on.

        Returns:
            bool: Whether it may join.

        Raises:
            KeyError: The partition is not served here.
        """
        cdef Partition *p = self.owner._find(topic, partition)
        cdef Replica *replica
        cdef bint joins = False
        if p.replicas == NULL or p.log == NULL or p.leader_epoch != leader_epoch:
            return False
        pthread_mutex_lock(&p.replicas_lock)
        replica = replica_find(p.replicas, broker_id)
        if replica != NULL:
            joins = replica_try_join(p.replicas, replica, load_i64(&p.log.high_watermark))
        pthread_mutex_unlock(&p.replicas_lock)
        return joins

    def set_min_in_sync(self, str topic, int partition, int min_insync_replicas):
        """Sets ``min.insync.replicas``.

        Raises:
            KeyError: The partition is not served here.
        """
        cdef Partition *p = self.owner._find(topic, partition)
        store_i32(&p.min_insync_replicas, min_insync_replicas)
        if p.replicas != NULL:
            pthread_mutex_lock(&p.replicas_lock)
            p.replicas.min_in_sync = min_insync_replicas
            pthread_mutex_unlock(&p.replicas_lock)
            if leader_advance(p, monotonic_ms()):
                partition_advanced(p, 0, NULL)

    def check_lag(self):
        """Looks which in-sync followers of all partitions lag; :meth:`take_events` returns them. Kafka does it twice in
        ``replica.lag.time.max.ms``."""
        cdef int64_t now_ms = monotonic_ms()
        cdef Topic *topic
        cdef Partition *p
        cdef uint32_t bucket
        cdef int32_t i
        if self.plane.table.by_name == NULL:
            return
        for bucket in range(self.plane.table.mask + 1):
            topic = self.plane.table.by_name[bucket]
            while topic != NULL:
                for i in range(topic.partition_count):
                    p = topic.partitions[i]
                    if p != NULL and p.replicas != NULL and p.log != NULL:
                        leader_check_lag(self.plane, p, now_ms)
                topic = topic.next_by_name

    # ------------------------------------------------------------ following

    def follow(self, str topic, int partition, *, int32_t leader_epoch, int32_t leader_id=-1, str host=None, int port=0):
        """Follows a leader in an epoch. Without a host it fetches from nobody: there is no leader, or no address of it.

        Args:
            host: A numeric address.

        Raises:
            KeyError: The partition is not served here.
            ValueError: The host is too long to be a numeric address.
        """
        cdef Partition *p = self.owner._find(topic, partition)
        cdef FollowOrder *order = NULL
        cdef ReplicaSet *old
        cdef bytes address = host.encode() if host is not None else b""
        cdef int32_t number
        if len(address) >= sizeof(order.host):
            raise ValueError(f"{host} is not a numeric address")
        if address and p.log != NULL:
            order = <FollowOrder *>calloc(1, sizeof(FollowOrder))
            if order == NULL:
                raise MemoryError
        self._lock_role(p)
        old = p.replicas
        p.replicas = NULL
        store_i32(&p.is_leader, False)
        store_i32(&p.replicated, True)
        if p.leader_epoch != leader_epoch or order == NULL:
            p.follow_number = 0                          # a running part of a fetcher is over
        if order != NULL and p.follow_number == 0:
            p.follow_number = <int32_t>(
                (hash(topic) ^ (partition * 31)) & 0x7FFFFFFF) % self.plane.replication.fetchers + 1
        store_i32(&p.leader_epoch, leader_epoch)
        p.leader_id = leader_id
        store_i64(&p.leader_high_watermark, -1)
        self._unlock_role(p)
        free(old)
        if order != NULL:
            number = p.follow_number - 1
            order.partition = p
            partition_retain(p)
            order.leader_epoch = leader_epoch
            order.leader_id = leader_id
            order.number = number
            order.port = port
            memcpy(order.host, PyBytes_AS_STRING(address), len(address))
            if not post(&self.plane.reactors[(leader_id + number) % self.plane.reactor_count].mailbox, MAIL_FOLLOW, 0,
                        0, order):
                partition_release(p)
                free(order)
                raise MemoryError
        else:
            self._look_again()
        partition_advanced(p, 0, NULL)

    cdef void _look_again(self):
        """Lets the fetchers drop partitions that are over."""
        cdef FollowOrder *order
        cdef int32_t i
        if self.together:
            self.look_later = True
            return
        for i in range(self.plane.reactor_count):
            order = <FollowOrder *>calloc(1, sizeof(FollowOrder))
            if order == NULL or not post(&self.plane.reactors[i].mailbox, MAIL_FOLLOW, 0, 0, order):
                free(order)                              # they drop them with the next answer

    def stop(self, str topic, int partition):
        """Stops serving a partition. On return no reactor uses its log, and requests that waited are answered.

        Raises:
            KeyError: The partition is not served here.
        """
        cdef Partition *p = self.owner._find(topic, partition)
        cdef Topic *found = p.topic
        cdef int32_t i, left = 0
        self._lock_role(p)
        store_i32(&p.deleted, 1)
        found.partitions[partition] = NULL
        for i in range(found.partition_count):
            left += found.partitions[i] != NULL
        if left == 0:
            topic_remove(&self.plane.table, found)
        self._unlock_role(p)
        partition_advanced(p, 0, NULL)
        p.next_dead = self.plane.dead
        self.plane.dead = p
        add_i32(&p.refs, -1)
        self._look_again()
        self.owner._sweep(False)

    # ------------------------------------------------------------ secured connections

    def take_dials(self):
        """Returns the connections to leaders that are needed since the last call; ``control_fd`` of the plane is readable
        then. Answer each by :meth:`give_link` or :meth:`refuse_dial`.

        Returns:
            list: ``(leader id, reactor, number, dial)``.
        """
        cdef Dial *dial = dials_take(self.plane)
        cdef Dial *following
        cdef list found = []
        while dial != NULL:
            following = dial.next
            found.append((dial.leader_id, dial.reactor, dial.number, dial.dial))
            free(dial)
            dial = following
        return found

    def give_link(self, tuple dial not None, int fd, stream, *, int64_t renew_after_ms=0):
        """Gives a connection to a leader, logged in, with all received bytes read and all written ones sent.

        Args:
            dial: Of :meth:`take_dials`.
            fd: A non-blocking socket, owned by this object from now on, also if it fails.
            stream: What ``TlsSession.release`` returns; None without TLS.
            renew_after_ms: After this time another one is needed; 0 for never.
        """
        cdef FollowLink *link = self._link(dial, fd)
        if stream is not None:
            link.tls = <TlsStream *>PyCapsule_GetPointer(stream, b"bowstring.tls.stream")
            PyCapsule_SetName(stream, b"taken")
        link.renew_ms = monotonic_ms() + renew_after_ms if renew_after_ms > 0 else 0
        self._post_link(dial, link)

    def refuse_dial(self, tuple dial not None, str why not None):
        """Sets why there is no connection. The follower pauses, and requests one again.

        Args:
            dial: Of :meth:`take_dials`.
        """
        cdef FollowLink *link = self._link(dial, -1)
        cdef bytes text = why.encode()
        snprintf(link.why, sizeof(link.why), b"%s", <const char *>text)
        self._post_link(dial, link)

    cdef FollowLink *_link(self, tuple dial, int fd) except NULL:
        cdef FollowLink *link = <FollowLink *>calloc(1, sizeof(FollowLink))
        if link == NULL:
            if fd >= 0:
                close(fd)
            raise MemoryError
        link.fd = fd
        link.leader_id = dial[0]
        link.number = dial[2]
        link.dial = dial[3]
        return link

    cdef int _post_link(self, tuple dial, FollowLink *link) except -1:
        if not post(&self.plane.reactors[<int32_t>dial[1]].mailbox, MAIL_LINK, 0, 0, link):
            link_drop(link)
            raise MemoryError
        return 0

    # ------------------------------------------------------------ what happened

    def take_events(self):
        """Returns what happened to replicas since the last call; ``control_fd`` of the plane is readable then.

        Returns:
            list: ``(kind, topic, partition, leader epoch, a, b)``. Kinds: "may-join" (broker id, its epoch), "lags" (broker
            id, its log end), "fetch-failed" (error code, leader id), "truncated" (1 if there was nothing to cut, the new log end).
        """
        cdef ReplicaEvent *event = replica_events_take(self.plane)
        cdef ReplicaEvent *following
        cdef list found = []
        while event != NULL:
            following = event.next
            if not event.partition.deleted:
                found.append((
                    KINDS[event.kind], event.partition.topic.name[:event.partition.topic.name_length].decode(),
                    event.partition.index, event.leader_epoch, event.a, event.b))
            partition_release(event.partition)
            free(event)
            event = following
        return found

    def followers(self, str topic, int partition):
        """Returns ``{broker id: (log end, log start, in sync, ms since it was last caught up)}`` of a led partition.

        Raises:
            KeyError: The partition is not served here.
        """
        cdef Partition *p = self.owner._find(topic, partition)
        cdef Replica *replica
        cdef int64_t now_ms = monotonic_ms()
        cdef int32_t i
        cdef dict found = {}
        if p.replicas == NULL:
            return found
        pthread_mutex_lock(&p.replicas_lock)
        for i in range(p.replicas.count):
            replica = &p.replicas.items[i]
            found[replica.broker_id] = (replica.log_end_offset, replica.log_start_offset, bool(replica.in_sync),
                                        now_ms - replica.caught_up_ms)
        pthread_mutex_unlock(&p.replicas_lock)
        return found

    def low_watermark(self, str topic, int partition):
        """Returns the smallest log start of all replicas that are alive: DeleteRecords waits for it.

        Raises:
            KeyError: The partition is not served here.
        """
        cdef Partition *p = self.owner._find(topic, partition)
        cdef int64_t found = load_i64(&p.log.log_start_offset)
        if p.replicas != NULL:
            pthread_mutex_lock(&p.replicas_lock)
            found = replicas_low_watermark(p.replicas, found)
            pthread_mutex_unlock(&p.replicas_lock)
        return found

    def lag(self, str topic, int partition):
        """Returns how many records a followed partition's log end is behind its leader's high watermark.

        Raises:
            KeyError: The partition is not served here.
        """
        cdef Partition *p = self.owner._find(topic, partition)
        return max(0, load_i64(&p.leader_high_watermark) - load_i64(&p.log.log_end_offset))
