"""DataPlane, the Python class of the reactors: the control thread starts them, answers requests and reads counters.

Call all methods on the control thread; the reactors run in parallel and never take the GIL.
"""
import socket

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from posix.unistd cimport close, read
from bowstring._native.access.acl_table cimport AclTable
from bowstring._native.base.atomics cimport add_i32, load_i32, load_i64, load_pointer, store_i32
from bowstring._native.base.clock cimport monotonic_ms, monotonic_ns
from bowstring._native.base.error_codes cimport NOT_ENOUGH_REPLICAS, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT
from bowstring._native.base.pthread cimport (
    pthread_mutex_destroy, pthread_mutex_init, pthread_rwlock_destroy, pthread_rwlock_t, pthread_rwlock_unlock,
    pthread_rwlock_wrlock)
from bowstring._native.disk.thread_pool cimport storage_init, storage_stop
from bowstring._native.log cimport NOT_VERIFIED, PartitionLog, log_advance_high_watermark
from bowstring._native.server.accept_limits cimport accept_free, accept_init, accept_listeners
from bowstring._native.server.client_quotas cimport quotas_free, quotas_init
from bowstring._native.server.access_reports cimport access_free, denied_access, taken_access
from bowstring._native.server.chunks cimport chunks_free
from bowstring._native.server.control_queue cimport control_take_all, message_free
from bowstring._native.server.control_request cimport SlowBatch, take_message
from bowstring._native.server.counters cimport counters_of, events_of
from bowstring._native.server.mailbox cimport post, post_to, release
from bowstring._native.server.reactor cimport (
    reactor_accept, reactor_close_connections, reactor_free, reactor_init, reactor_start, reactor_stop)
from bowstring._native.server.reply_chunks cimport reply_chunk
from bowstring._native.server.slow_batches cimport slow_begin
from bowstring._native.server.replica_leader cimport followers_wake, leader_advance, replicated_durable
from bowstring._native.server.topic_table cimport (
    partition_advanced, partition_free, partition_new, partition_release, partition_take_advanced, partition_watch,
    topic_add, topic_by_name, topic_partition, topic_remove, topic_set_partition)
from bowstring._native.server.connection_types cimport Chunk
from bowstring._native.server.control_types cimport ControlMessage
from bowstring._native.server.mail_types cimport (
    MAIL_ACCESS, MAIL_ADMIT, MAIL_CLOSE, MAIL_FINISH, MAIL_MUTE, MAIL_REPLY, MAIL_SKIP, Admission)
from bowstring._native.server.partition_types cimport Partition, Topic
from bowstring._native.server.plane_types cimport MAX_API_KEY, MAX_REACTORS, Plane
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.server.follow_types cimport Dial
from bowstring._native.server.replica_types cimport ReplicaEvent
from bowstring._native.server.subject_types cimport PRINCIPAL_BYTES_MAX
from bowstring._native.server.subjects cimport subjects_free, subjects_init
from bowstring._native.tls.stream_types cimport TlsPort
from bowstring._native.wal.write_ahead_log cimport WriteAheadLog
from bowstring._native.log.durability import join
from bowstring._native.log.partition_log import LogError

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <pthread.h>
    #include <sys/eventfd.h>
    static int new_control_fd(void) { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }
    /* A waiting writer precedes later readers: otherwise reactors, which take the lock again at once, would starve it. */
    static void init_table_lock(pthread_rwlock_t *lock) {
        pthread_rwlockattr_t a;
        pthread_rwlockattr_init(&a);
        pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
        pthread_rwlock_init(lock, &a);
        pthread_rwlockattr_destroy(&a);
    }
    """
    int new_control_fd()
    void init_table_lock(pthread_rwlock_t *lock)

cdef enum:
    BACKLOG = 1024                  # connections that the kernel queues before they are accepted
    HELD_MAX_NS = 100000            # about as long replies wait for others, so that reactors wake once for all of them


def _cannot_listen(error, host, port):
    return OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror or error}")


cdef TlsPort *port_of(object tls) except? NULL:
    return NULL if tls is None else <TlsPort *>PyCapsule_GetPointer(tls.capsule, "bowstring.tls.port")


cdef int enter_partition(Plane *plane, Topic *topic, int index, PartitionLog log, int leader_epoch,
                         int min_insync_replicas, int in_sync_replicas, bint is_leader, bint replicated) except -1:
    cdef Partition *p = partition_new(topic, index, plane.reactor_count)
    if p == NULL:
        raise MemoryError
    p.log = log.log if log is not None else NULL
    p.log_owner = <PyObject *>log                        # also for None, which is reference-counted
    p.leader_epoch = leader_epoch
    p.min_insync_replicas = min_insync_replicas
    p.in_sync_replicas = in_sync_replicas
    p.is_leader = is_leader
    p.replicated = replicated
    if not topic_set_partition(topic, index, p):
        partition_free(p)
        raise MemoryError
    Py_INCREF(log)
    return 0


cdef class DataPlane:
    """Reactor threads, their listeners, and the partitions they serve.

    Args:
        apis: ``{api key: (lowest version, highest version, first flexible version)}`` of the offered APIs.
        is_controller: It serves controllers: the control thread answers Fetch, which is that of the metadata log.
        reactors: Number of threads, 1 to 16.
        request_max_bytes: ``socket.request.max.bytes``.
        fetch_max_bytes: ``fetch.max.bytes`` of the broker.
        session_slots: ``max.incremental.fetch.session.cache.slots``, divided among the reactors.
        session_min_idle_ms: How long a fetch session must be idle before another may replace it.
        connections_max_idle_ms: ``connections.max.idle.ms``; 0 or less keeps idle connections for ever.
        slow_max_bytes: Most bytes of slow batches and large requests that wait for the control thread, over all
            connections, and most bytes of memory for processing the batches. Clients wait until there is room.
        quota_samples, quota_window_ms: ``quota.window.num``, and ``quota.window.size.seconds`` in milliseconds.
        session_bytes: Memory for the partitions of all fetch sessions, divided among the reactors.
        sasl_max_bytes: ``sasl.server.max.receive.size``, of requests in the authentication phase.
        authentication_max_ms: A connection that stays longer in that phase is closed.

    Raises:
        ValueError: A setting out of range.
        OSError: The kernel refused a file descriptor.
    """

    def __cinit__(self):
        memset(&self.plane, 0, sizeof(Plane))
        self.plane.control_fd = -1

    def __init__(self, *, apis, bint is_controller=False, int reactors=1, int64_t request_max_bytes=104857600,
                 int64_t fetch_max_bytes=57671680, int session_slots=1000, int64_t session_min_idle_ms=120000,
                 int64_t connections_max_idle_ms=600000, int64_t slow_max_bytes=67108864, int64_t session_bytes=67108864,
                 int quota_samples=11, int64_t quota_window_ms=1000,
                 int64_t sasl_max_bytes=524288, int64_t authentication_max_ms=30000):
        cdef int i
        if not 1 <= reactors <= MAX_REACTORS:
            raise ValueError(f"num.network.threads must be 1 to {MAX_REACTORS}, not {reactors}")
        for i in range(MAX_API_KEY):
            self.plane.apis[i].highest = -1
        for key, (lowest, highest, flexible_from) in apis.items():
            if not 0 <= key < MAX_API_KEY:
                raise ValueError(f"api key {key} is not 0 to {MAX_API_KEY - 1}")
            self.plane.apis[key].lowest = lowest
            self.plane.apis[key].highest = highest
            self.plane.apis[key].flexible_from = flexible_from
        self.plane.is_controller = is_controller
        self.sockets = []
        self.authenticating = []
        self.tls = []
        self.plane.sasl_max_bytes = sasl_max_bytes
        self.plane.authentication_max_ms = authentication_max_ms
        self.ended = []
        self.replaced = {}
        self.plane.request_max_bytes = request_max_bytes
        self.plane.fetch_max_bytes = fetch_max_bytes
        self.plane.session_slots = max(1, session_slots // reactors)
        self.plane.session_min_idle_ms = session_min_idle_ms
        self.plane.session_bytes_max = max(1 << 20, session_bytes // reactors)
        self.plane.connections_max_idle_ms = connections_max_idle_ms
        self.plane.slow_max_bytes = slow_max_bytes
        self.plane.replication.broker_id = -1
        if not subjects_init(&self.plane.subjects):
            raise MemoryError
        init_table_lock(&self.plane.table_lock)
        quotas_init(&self.plane.quotas, quota_samples, quota_window_ms)
        if not accept_init(&self.plane.accept, quota_samples, quota_window_ms):
            raise MemoryError
        storage_init(&self.plane.storage)
        pthread_mutex_init(&self.plane.control_lock, NULL)
        self.plane.control_fd = new_control_fd()
        self.plane.reactors = <Reactor *>calloc(reactors, sizeof(Reactor))
        if self.plane.reactors == NULL or self.plane.control_fd < 0:
            raise OSError("no memory or file descriptor for the data plane; raise ulimit -n")
        for i in range(reactors):
            self.plane.reactors[i].epoll_fd = self.plane.reactors[i].mailbox.event_fd = -1
        self.plane.reactor_count = reactors
        for i in range(reactors):
            if not reactor_init(&self.plane.reactors[i], &self.plane, i):
                raise OSError("no file descriptor for a reactor thread; raise ulimit -n")

    def __dealloc__(self):
        cdef int i
        if self.plane.reactors != NULL:
            self._stop_threads()
            for i in range(self.plane.reactor_count):
                reactor_free(&self.plane.reactors[i])
            free(self.plane.reactors)
        self._free_table()
        access_free(&self.plane)
        free(self.plane.listeners)
        free(self.plane.authenticates)
        free(self.plane.tls_ports)
        free(self.plane.endpoints)
        if self.plane.subjects.buckets != NULL:
            subjects_free(&self.plane.subjects)
        if self.plane.control_fd >= 0:
            close(self.plane.control_fd)
            pthread_mutex_destroy(&self.plane.control_lock)
            pthread_rwlock_destroy(&self.plane.table_lock)
            quotas_free(&self.plane.quotas)
            accept_free(&self.plane.accept)

    cdef void _free_table(self):
        cdef ControlMessage *m = control_take_all(&self.plane) if self.plane.control_fd >= 0 else NULL
        cdef ControlMessage *following
        cdef ReplicaEvent *event
        cdef Dial *dial
        while m != NULL:
            following = m.next
            message_free(&self.plane, m)
            m = following
        while self.plane.replica_events != NULL:
            event = self.plane.replica_events
            self.plane.replica_events = event.next
            free(event)
        while self.plane.dials != NULL:
            dial = self.plane.dials
            self.plane.dials = dial.next
            free(dial)
        if self.plane.table.by_name != NULL:
            for i in range(self.plane.table.mask + 1):
                while self.plane.table.by_name[i] != NULL:
                    self._bury(self.plane.table.by_name[i])
            free(self.plane.table.by_name)
            free(self.plane.table.by_id)
        self._sweep(True)

    # ------------------------------------------------------------ life

    @property
    def control_fd(self):
        """eventfd that is readable when :meth:`take_requests` or :meth:`take_events` has something."""
        return self.plane.control_fd

    def listen(self, str host, int port, *, tls=None, bint authenticates=False):
        """Binds a TCP listener and returns its port (``port`` 0: any free port). Call it before :meth:`start`. Connections
        are refused until :meth:`accept`: a client that connected would wait for its answers instead of trying others.

        Args:
            tls: Connections begin with a TLS handshake, by this TlsContext of a server. The certificate of a client that
                gives one comes as a request with the API key -2, which :meth:`admit` answers, unless ``authenticates``.
            authenticates: Connections begin in the authentication phase, in which ApiVersions, SaslHandshake and
                SaslAuthenticate are their only requests, until :meth:`admit`. A SASL token without a request header
                (after SaslHandshake of version 0) comes as SaslAuthenticate of version -1, and so does its answer.

        Raises:
            OSError: The address is in use or not this machine's; the message names it.
        """
        if self.started:
            raise RuntimeError("call listen() before start()")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.socket(family)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.bind((host, port))
        except OSError as error:
            bound.close()
            raise _cannot_listen(error, host, port) from error
        bound.setblocking(False)
        self.sockets.append(bound)
        self.authenticating.append(authenticates)
        self.tls.append(tls)
        return bound.getsockname()[1]

    def set_tls(self, int listener, tls not None):
        """Replaces the keys and settings of a TLS listener for connections whose handshake begins from now on.

        Args:
            listener: Its index: the order of the calls of :meth:`listen`.
            tls: A server's TlsContext.

        Raises:
            ValueError: The listener has no TLS.
        """
        cdef TlsPort *port = port_of(tls)
        if self.tls[listener] is None:
            raise ValueError(f"listener {listener} has no TLS")
        if self.plane.tls_ports != NULL:
            with nogil:
                pthread_rwlock_wrlock(&self.plane.table_lock)
            self.plane.tls_ports[listener] = port
            pthread_rwlock_unlock(&self.plane.table_lock)
        self.tls[listener] = tls                         # no reactor uses the former one

    def start(self, *, bint accepts=True):
        """Starts the reactor threads. Without ``accepts``, connections are refused until :meth:`accept`.

        Raises:
            OSError: As :meth:`accept`, or a thread cannot be started.
        """
        cdef int i
        self.plane.listeners = <int *>malloc((len(self.sockets) + 1) * sizeof(int))
        self.plane.authenticates = <int8_t *>calloc(len(self.sockets) + 1, 1)
        if self.plane.accept.listeners == NULL and not accept_listeners(&self.plane.accept, len(self.sockets)):
            raise MemoryError
        self.plane.tls_ports = <TlsPort **>calloc(len(self.sockets) + 1, sizeof(TlsPort *))
        if self.plane.listeners == NULL or self.plane.authenticates == NULL or self.plane.tls_ports == NULL:
            raise MemoryError
        for i, bound in enumerate(self.sockets):
            self.plane.listeners[i] = bound.fileno()
            self.plane.authenticates[i] = self.authenticating[i]
            self.plane.tls_ports[i] = port_of(self.tls[i])
        self.plane.listener_count = len(self.sockets)
        self.started = True
        for i in range(self.plane.reactor_count):
            if not reactor_start(&self.plane.reactors[i]):
                raise OSError("cannot start a reactor thread; raise the limit on threads (ulimit -u)")
        if accepts:
            self.accept()

    def accept(self):
        """Begins to accept connections. Call it once, after :meth:`start`.

        Raises:
            OSError: Another process has begun to listen on an address since it was bound here; the message names it.
        """
        for bound in self.sockets:
            try:
                bound.listen(BACKLOG)
            except OSError as error:
                raise _cannot_listen(error, *bound.getsockname()[:2]) from error
        if not reactor_accept(&self.plane.reactors[0]):
            raise OSError("the kernel does not watch the listeners; raise ulimit -n")

    cdef void _stop_threads(self):
        cdef int i
        if not self.started or self.stopped:
            return
        self.stopped = True
        with nogil:
            for i in range(self.plane.reactor_count):
                reactor_stop(&self.plane.reactors[i])
            storage_stop(&self.plane.storage)

    def stop(self):
        """Stops accepting, ends the threads after their current pass and closes every connection. Afterwards no reactor
        accesses a log."""
        cdef int i
        self._stop_threads()
        for i in range(self.plane.reactor_count):
            reactor_close_connections(&self.plane.reactors[i])
        for bound in self.sockets:
            bound.close()

    # ------------------------------------------------------------ requests and replies

    def take_requests(self):
        """Returns all :class:`ControlRequest` and :class:`SlowBatch` objects since the last call, as a list."""
        cdef uint64_t count
        cdef ControlMessage *m
        cdef ControlMessage *following
        cdef list requests = []
        read(self.plane.control_fd, &count, 8)
        m = control_take_all(&self.plane)
        while m != NULL:
            following = m.next
            if m.ended:
                self.ended.append(m.connection_id)
                free(m)
                m = following
                continue
            taken = take_message(m, &self.plane, self)
            if taken is not None:
                requests.append(taken)
            m = following
        if self.plane.dead != NULL:
            self._sweep(False)
        return requests

    def take_ended(self):
        """Returns the ids of connections that have ended, of those that sent a ShareFetch or SaslHandshake. Call it after
        :meth:`take_requests`, which has returned all of their requests."""
        ended, self.ended = self.ended, []
        return ended

    def reply(self, int64_t connection_id, int64_t slot, payload, *, int64_t throttle_ms=0):
        """Answers a request, and reads no others from its connection for ``throttle_ms`` (KIP-219). ``payload`` is the
        response header and body without the length: bytes, or a finished Encoding, whose memory the reply takes over. None
        closes the connection."""
        cdef int64_t now_ns
        cdef Chunk *chunk = reply_chunk(payload)
        if throttle_ms > 0:
            post_to(&self.plane, MAIL_MUTE, connection_id, throttle_ms, NULL, self.holds)
        if not post_to(&self.plane, MAIL_REPLY, connection_id, slot, chunk, self.holds):
            chunks_free(chunk)
            raise MemoryError
        if self.holds:
            now_ns = monotonic_ns()
            if self.held_ns == 0:
                self.held_ns = now_ns
            elif now_ns - self.held_ns >= HELD_MAX_NS:
                self._release()

    def hold_replies(self):
        """Sends replies together from now on, those of 100 µs at a time: waking a reactor costs as much as a small
        answer. Call :meth:`release_replies` soon."""
        self.holds = True

    def release_replies(self):
        """Sends the replies that are held, and each one at once from now on."""
        self.holds = False
        self._release()

    cdef void _release(self):
        cdef int i
        self.held_ns = 0
        for i in range(self.plane.reactor_count):
            release(&self.plane.reactors[i].mailbox)

    def skip(self, int64_t connection_id, int64_t slot):
        """Ends a request that gets no answer."""
        post_to(&self.plane, MAIL_SKIP, connection_id, slot, NULL)

    def disconnect(self, int64_t connection_id):
        """Closes a connection."""
        post_to(&self.plane, MAIL_CLOSE, connection_id, 0, NULL)

    def finish(self, int64_t connection_id):
        """Closes a connection once the replies to its requests are sent, and handles no more of its requests."""
        post_to(&self.plane, MAIL_FINISH, connection_id, 0, NULL)

    def admit(self, int64_t connection_id, str principal, *, int64_t lifetime_ms=0):
        """Ends the authentication phase of a connection: it belongs to ``principal`` from now on. It takes effect before a
        reply that is sent later.

        Args:
            principal: Such as ``User:alice``.
            lifetime_ms: The connection must authenticate again within that time (KIP-368); 0: no limit.

        Raises:
            ValueError: The principal is longer than 32,767 bytes.
        """
        cdef bytes text = principal.encode("utf-8", "replace")
        cdef Admission *whom
        if len(text) > PRINCIPAL_BYTES_MAX:
            raise ValueError(f"a principal has {len(text)} bytes; {PRINCIPAL_BYTES_MAX} are allowed")
        whom = <Admission *>malloc(sizeof(Admission) + len(text))
        if whom == NULL:
            raise MemoryError
        whom.length = <int32_t>len(text)
        memcpy(whom.principal, PyBytes_AS_STRING(text), len(text))
        if not post_to(&self.plane, MAIL_ADMIT, connection_id, lifetime_ms, whom):
            free(whom)
            raise MemoryError

    def begin_batch(self, SlowBatch slow, int64_t working_bytes, *, bint anyway=False):
        """Reserves memory for processing a batch. False when there is not enough, unless ``anyway`` is set; then
        ``control_fd`` becomes readable once there may be enough."""
        slow.count_working(0)
        if anyway:
            slow.count_working(working_bytes)
        elif slow_begin(&self.plane, working_bytes):
            slow.working_bytes = working_bytes
        else:
            return False
        return True

    def finish_batch(self, SlowBatch slow, bytes batch=None, int error=0, str reason=None):
        """Answers a :class:`SlowBatch`, once: with the result of :func:`repack`, with ``batch`` instead, or with a Kafka
        error code and the reason (together with the refused records that :func:`repack` found).

        Raises:
            ValueError: ``batch`` fails the broker's own checks (a bug in the code that created it; the producer gets an
                error and retries), or the batch was already answered.
        """
        if batch is not None:
            try:
                slow.replace(batch)
            except BaseException:
                slow.finish(REQUEST_TIMED_OUT, None)
                raise
        slow.finish(error, reason)

    def take_events(self):
        """Returns the events of the reactors since the last call: a list of ``(level, event, detail)``."""
        return events_of(&self.plane)

    # ------------------------------------------------------------ partitions

    def add_partition(self, str topic, bytes topic_id, int partition, PartitionLog log, *,
                      int leader_epoch=0, int min_insync_replicas=1, int in_sync_replicas=1, bint is_leader=True,
                      bint replicated=False):
        """Begins to serve a partition. ``replicated``: appends do not move the high watermark; the caller of
        :meth:`notify` does. ``log`` None: its directory is offline, so Produce and Fetch get KAFKA_STORAGE_ERROR.

        Raises:
            ValueError: The topic id has the wrong size, or the partition is already served.
        """
        self.add_partitions(topic, topic_id, [(partition, log, leader_epoch, min_insync_replicas, in_sync_replicas,
                                               is_leader)], replicated=replicated)

    def add_partitions(self, str topic, bytes topic_id, list partitions, *, bint replicated=False):
        """Begins to serve partitions of a topic, in one stop of the reactors.

        Args:
            partitions: ``[(index, log, leader epoch, min.insync.replicas, number of in-sync replicas, is leader)]``, as for
                :meth:`add_partition`.

        Raises:
            ValueError: The topic id has the wrong size, or one of the partitions is already served. None is served then.
        """
        cdef bytes name = topic.encode()
        cdef Topic *found
        cdef int partition
        if len(topic_id) != 16 or any(each[0] < 0 for each in partitions):
            raise ValueError("a topic id must have 16 bytes, and a partition index must not be negative")
        found = topic_by_name(&self.plane.table, <uint8_t *>PyBytes_AS_STRING(name), <int32_t>len(name))
        for partition, *_ in partitions:
            if topic_partition(found, partition) != NULL:
                raise ValueError(f"{topic}-{partition} is already served")
        with nogil:
            pthread_rwlock_wrlock(&self.plane.table_lock)
        try:
            if found == NULL:
                found = topic_add(&self.plane.table, <uint8_t *>PyBytes_AS_STRING(name), <int32_t>len(name),
                                  <uint8_t *>PyBytes_AS_STRING(topic_id))
            if found == NULL:
                raise MemoryError
            for index, log, leader_epoch, min_insync_replicas, in_sync_replicas, is_leader in partitions:
                enter_partition(&self.plane, found, index, log, leader_epoch, min_insync_replicas, in_sync_replicas,
                                is_leader, replicated)
        finally:
            pthread_rwlock_unlock(&self.plane.table_lock)

    cdef Partition *_find(self, str topic, int partition) except NULL:
        cdef bytes name = topic.encode()
        cdef Partition *p = topic_partition(
            topic_by_name(&self.plane.table, <uint8_t *>PyBytes_AS_STRING(name), <int32_t>len(name)), partition)
        if p == NULL:
            raise KeyError(f"{topic}-{partition} is not served here")
        return p

    def update_partition(self, str topic, int partition, *, leader_epoch=None, min_insync_replicas=None,
                         in_sync_replicas=None, is_leader=None, replicated=None):
        """Changes the given fields of a partition; None leaves a field unchanged.

        Raises:
            KeyError: The partition is not served here.
        """
        cdef Partition *p = self._find(topic, partition)
        if leader_epoch is not None:
            store_i32(&p.leader_epoch, leader_epoch)
        if min_insync_replicas is not None:
            store_i32(&p.min_insync_replicas, min_insync_replicas)
        if in_sync_replicas is not None:
            store_i32(&p.in_sync_replicas, in_sync_replicas)
        if is_leader is not None:
            store_i32(&p.is_leader, is_leader)
        if replicated is not None:
            store_i32(&p.replicated, replicated)
        partition_advanced(p, 0, NULL)

    def wake_by(self, WriteAheadLog wal not None):
        """Lets ``wal`` wake the reactors when batches become durable. Call it before a log that uses ``wal`` is served."""
        cdef int i
        for i in range(self.plane.reactor_count):
            wal.wake_by(i, self.plane.reactors[i].mailbox.event_fd)

    def set_durability(self, str topic, int partition, PartitionLog log not None, WriteAheadLog wal):
        """Joins a served log to a write-ahead log, or with None separates it from its write-ahead log.

        Raises:
            KeyError: The partition is not served here.
        """
        cdef Partition *p = self._find(topic, partition)
        with nogil:
            pthread_rwlock_wrlock(&self.plane.table_lock)
        try:
            join(log, wal, PyBytes_FromStringAndSize(<char *>p.topic.id, 16), partition)
        finally:
            pthread_rwlock_unlock(&self.plane.table_lock)
        if wal is None:
            log.advance_high_watermark(log.log_end_offset)
            partition_advanced(p, 0, NULL)

    def notify(self, str topic, int partition, int64_t appended_bytes=0):
        """Wakes waiting fetches and acks after the control thread has appended or moved the high watermark."""
        partition_advanced(self._find(topic, partition), appended_bytes, NULL)

    # ------------------------------------------------------------ writing on the control thread

    cdef Partition *_lookup(self, str topic, int partition) except? NULL:
        """Returns a partition with a log, or NULL."""
        cdef bytes name = topic.encode()
        cdef Partition *p = topic_partition(
            topic_by_name(&self.plane.table, <uint8_t *>PyBytes_AS_STRING(name), <int32_t>len(name)), partition)
        return p if p != NULL and p.log != NULL else NULL

    def led_epoch(self, str topic, int partition):
        """Returns the epoch in which this broker leads the partition; -1 when it does not."""
        cdef Partition *p = self._lookup(topic, partition)
        return p.leader_epoch if p != NULL and p.is_leader else -1

    def verify_transactions(self, bint enabled):
        """Sets ``transaction.partition.verification.enable``: whether clients older than KIP-890's protocol are verified."""
        store_i32(&self.plane.verifies, enabled)

    def append(self, str topic, int partition, batch, *, int32_t leader_epoch, int64_t now_ms,
               int64_t verification=NOT_VERIFIED, int8_t transaction_version=0):
        """Appends one encoded batch as a producer with acks=all does, and returns its base offset.

        Followers are woken. The batch is committed once the high watermark has passed it: see :meth:`watch`. In commit mode
        call :meth:`durable` when it is on the medium.

        Args:
            leader_epoch: The epoch in which the caller has read the log.
            verification, transaction_version: As for :meth:`PartitionLog.append`.

        Raises:
            LogError: The batch is refused. NOT_LEADER_OR_FOLLOWER: this broker does not lead in that epoch.
                NOT_ENOUGH_REPLICAS: fewer than ``min.insync.replicas`` are in sync.
        """
        cdef Partition *p = self._lookup(topic, partition)
        cdef int64_t before, appended_bytes
        cdef bint moved = True
        if p == NULL or not p.is_leader or p.leader_epoch != leader_epoch:
            raise LogError(NOT_LEADER_OR_FOLLOWER,
                           f"this broker does not lead {topic}-{partition} in epoch {leader_epoch}")
        if p.in_sync_replicas < p.min_insync_replicas:
            raise LogError(NOT_ENOUGH_REPLICAS, f"{topic}-{partition} has {p.in_sync_replicas} in-sync replicas, "
                                                f"and min.insync.replicas is {p.min_insync_replicas}")
        before = load_i64(&p.log.appended_bytes)
        base_offset = (<PartitionLog><object>p.log_owner).append(
            batch, leader_epoch, now_ms, verification=verification, transaction_version=transaction_version)
        appended_bytes = load_i64(&p.log.appended_bytes) - before
        if p.replicas != NULL:
            followers_wake(p, appended_bytes, NULL)
            moved = leader_advance(p, monotonic_ms())
        elif not p.replicated:
            log_advance_high_watermark(p.log, load_i64(&p.log.log_end_offset))
        if moved:
            partition_advanced(p, appended_bytes, NULL)
        return base_offset

    def durable(self, str topic, int partition):
        """Moves the high watermark as far as replicas allow, after the log's durable end has moved. A partition that is
        not served is left alone."""
        cdef Partition *p = self._lookup(topic, partition)
        if p == NULL:
            return
        if not p.replicated:
            log_advance_high_watermark(p.log, load_i64(&p.log.log_end_offset))
        else:
            replicated_durable(p, monotonic_ms())
        partition_advanced(p, 0, NULL)

    def watch(self, str topic, int partition, int64_t offset):
        """Requests one event when the high watermark has reached ``offset``: ``control_fd`` becomes readable, and
        :meth:`take_advanced` names the partition. It also does when the partition is led elsewhere from then on.

        Returns:
            bool: False when the high watermark is there already, or the partition is not served.
        """
        cdef Partition *p = self._lookup(topic, partition)
        return p != NULL and partition_watch(&self.plane, p, offset)

    def take_advanced(self):
        """Returns ``[(topic, partition)]`` of the events requested by :meth:`watch` since the last call."""
        cdef Partition *p
        cdef list found = []
        if load_pointer(<void **>&self.plane.advanced) == NULL:   # one that is linked now writes to control_fd afterwards
            return found
        p = partition_take_advanced(&self.plane)
        while p != NULL:
            if not p.deleted:
                found.append((p.topic.name[:p.topic.name_length].decode(), p.index))
            partition_release(p)
            p = partition_take_advanced(&self.plane)
        return found

    # ------------------------------------------------------------ access control

    def set_access(self, AclTable table not None):
        """Has Produce and Fetch decided by these rules from now on. Without a call everything is allowed."""
        with nogil:
            pthread_rwlock_wrlock(&self.plane.table_lock)
        self.plane.access.rules = &table.rules
        self.plane.access.generation += 1
        pthread_rwlock_unlock(&self.plane.table_lock)
        self.access_table = table                        # frees the one before

    def change_access(self, list added, list removed):
        """Changes the rules of :meth:`set_access`, as ``AclTable.add`` and ``remove``."""
        cdef AclTable table = self.access_table
        with nogil:
            pthread_rwlock_wrlock(&self.plane.table_lock)
        try:
            for rule in removed:
                table.remove(rule)
            for rule in added:
                table.add(rule)
        finally:
            self.plane.access.generation += 1
            pthread_rwlock_unlock(&self.plane.table_lock)

    def recheck_access(self):
        """Has the reactors answer waiting fetches that have lost a permission."""
        cdef int i
        for i in range(self.plane.reactor_count):
            post(&self.plane.reactors[i].mailbox, MAIL_ACCESS, 0, 0, NULL)

    def report_allowed_access(self, bint reports):
        """Whether :meth:`take_access` names also what is allowed."""
        self.plane.access.reports_allowed = reports

    def take_access(self):
        """Returns ``(reports, dropped)``: each report is ``(principal, host, kind, name, allowed)``, where kind is an index
        of :meth:`denied_access`. The same decision is reported again in another minute. ``dropped``: reports that did not
        find room since the last call."""
        return taken_access(&self.plane)

    def denied_access(self):
        """Returns how often reactors have denied to write to topics, to read them, to use transactional ids, and to fetch as
        a follower."""
        return denied_access(&self.plane)

    # ------------------------------------------------------------ removing

    def remove_topic(self, str topic):
        """Stops serving a topic. On return no reactor uses its logs, and requests that waited are answered.

        Raises:
            KeyError: No such topic here.
        """
        cdef bytes name = topic.encode()
        cdef Topic *found = topic_by_name(&self.plane.table, <uint8_t *>PyBytes_AS_STRING(name), <int32_t>len(name))
        if found == NULL:
            raise KeyError(f"topic {topic} is not served here")
        self._bury(found)
        self._sweep(False)

    cdef void _bury(self, Topic *topic):
        cdef int i, n = topic.partition_count
        cdef Partition *p
        cdef Partition *first = NULL
        with nogil:
            pthread_rwlock_wrlock(&self.plane.table_lock)
        for i in range(n):
            p = topic.partitions[i]
            if p != NULL:
                store_i32(&p.deleted, 1)
                p.next_dead = first
                first = p
        topic_remove(&self.plane.table, topic)
        pthread_rwlock_unlock(&self.plane.table_lock)
        while first != NULL:
            p = first
            first = p.next_dead
            partition_advanced(p, 0, NULL)
            p.next_dead = self.plane.dead
            self.plane.dead = p
            add_i32(&p.refs, -1)

    cdef void _sweep(self, bint all):
        """Frees removed partitions without references (all of them once the threads have ended)."""
        cdef Partition **at = &self.plane.dead
        cdef Partition *p
        while at[0] != NULL:
            p = at[0]
            if load_i32(&p.refs) == 0 or all:
                at[0] = p.next_dead
                Py_DECREF(<object>p.log_owner)
                if self.replaced is not None:            # None while the object is being destroyed
                    self.replaced.pop(<size_t>p, None)
                partition_free(p)
            else:
                at = &p.next_dead

    # ------------------------------------------------------------ counters

    def counters(self):
        """Returns totals over the reactors, read without locks.

        Returns:
            dict: ``connections`` (open now), ``accepted``, ``received_bytes``, ``sent_bytes``,
            ``fetch_sessions``, ``timers`` (entries in the reactors' heaps, also expired ones), ``followed_bytes`` (appended
            as a follower), ``tls`` (a dict of ``handshakes``, ``resumed`` and ``failures``), ``slow_batches`` (a dict of ``waiting_bytes``, ``working_bytes`` and ``parked_connections``), and for ``produce`` and ``fetch`` a dict of ``requests``, ``errors``,
            ``total_us`` and ``latency_buckets`` (count below 2**i microseconds).
        """
        return counters_of(&self.plane)

    def partition_counters(self, str topic, int partition):
        """Returns ``(appended_records, appended_bytes, fetched_records, fetched_bytes, failed_produces, failed_fetches)``
        since the start of the broker."""
        cdef Partition *p = self._find(topic, partition)
        if p.log == NULL:
            return 0, 0, 0, 0, 0, 0
        return (load_i64(&p.log.appended_records), load_i64(&p.log.appended_bytes),
                load_i64(&p.fetched_records), load_i64(&p.fetched_bytes),
                load_i64(&p.failed_produces), load_i64(&p.failed_fetches))
