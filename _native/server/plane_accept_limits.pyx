"""PlaneAcceptLimits, the control thread's interface to the limits of a data plane's connections."""
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.server.accept_limits cimport accept_count_excess, accept_listeners
from bowstring._native.server.accept_types cimport HOST_BYTES, AcceptLimits, HostLimit, ListenerLimits
from bowstring._native.server.accept_types cimport NO_LIMIT as _NO_LIMIT
from bowstring._native.server.data_plane cimport DataPlane
from bowstring._native.server.mailbox cimport wake

NO_LIMIT = _NO_LIMIT


cdef class PlaneAcceptLimits:
    """Limits of the connections of one data plane.

    Args:
        plane: The data plane. All of its listeners are bound.
    """

    cdef DataPlane owner
    cdef AcceptLimits *limits

    def __init__(self, DataPlane plane not None):
        self.owner = plane
        self.limits = &plane.plane.accept
        if self.limits.listeners == NULL and not accept_listeners(self.limits, len(plane.sockets)):
            raise MemoryError

    def set(self, *, int64_t most, double rate, int64_t most_of_host, double rate_of_host, dict hosts not None,
            list listeners not None):
        """Sets all limits. Connections beyond them that are open stay, but those that make room for brokers.

        Args:
            most: ``max.connections``.
            rate: ``max.connection.creation.rate``, of all listeners together.
            most_of_host: ``max.connections.per.ip``.
            rate_of_host: ``connection_creation_rate`` of hosts by default; 0: no limit.
            hosts: ``{address: (connections, rate)}`` of hosts with limits of their own; -1 and 0: as others have. An
                address has 16 bytes, and one of IPv4 is mapped.
            listeners: ``[(connections, rate, whether brokers use it)]`` of each listener.

        Raises:
            ValueError: An address does not have 16 bytes, or there are more or fewer listeners.
        """
        cdef int32_t i, n = len(hosts)
        cdef HostLimit *found
        cdef ListenerLimits *listener
        if len(listeners) != self.limits.listener_count or any(len(each) != HOST_BYTES for each in hosts):
            raise ValueError("limits are for each listener, and for addresses of 16 bytes")
        found = <HostLimit *>malloc((n + 1) * sizeof(HostLimit))
        if found == NULL:
            raise MemoryError
        for i, (address, (connections, host_rate)) in enumerate(sorted(hosts.items())):
            memcpy(found[i].host, PyBytes_AS_STRING(address), HOST_BYTES)
            found[i].most = connections
            found[i].rate = host_rate
        pthread_mutex_lock(&self.limits.lock)
        self.limits.most, self.limits.rate = most, rate
        self.limits.most_of_host, self.limits.rate_of_host = most_of_host, rate_of_host
        free(self.limits.host_limits)
        self.limits.host_limits = found
        self.limits.host_limit_count = n
        for i in range(self.limits.listener_count):
            listener = &self.limits.listeners[i]
            listener.most, listener.rate, listener.protected = listeners[i]
        accept_count_excess(self.limits)
        pthread_mutex_unlock(&self.limits.lock)
        for i in range(self.owner.plane.reactor_count):
            wake(self.owner.plane.reactors[i].mailbox.event_fd)

    def counters(self):
        """Returns counts since the start.

        Returns:
            dict: ``refused`` (the host had too many), ``refused_later`` (those of the host came too fast), ``delayed`` and
            ``delayed_ms`` (connections came too fast), ``ended`` (made room for brokers), and ``listeners`` (open now, a
            list).
        """
        cdef int32_t i
        pthread_mutex_lock(&self.limits.lock)
        try:
            return {
                "refused": self.limits.refused, "refused_later": self.limits.refused_later,
                "delayed": self.limits.delayed, "delayed_ms": self.limits.delayed_ms, "ended": self.limits.ended,
                "listeners": [self.limits.listeners[i].connections for i in range(self.limits.listener_count)],
            }
        finally:
            pthread_mutex_unlock(&self.limits.lock)
