"""PlaneQuotas, the control thread's interface to the client quotas of a data plane, see client_quotas.pxd."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from cython cimport no_gc_clear
from bowstring._native.base.atomics cimport add_i64, load_i32, store_i32
from bowstring._native.base.clock cimport monotonic_ms
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.server.client_quotas cimport (
    quota_client_new, quota_client_release, quota_percent, quota_record, quota_throttled, quota_use, quotas_add,
    quotas_drop_rules)
from bowstring._native.server.data_plane cimport DataPlane
from bowstring._native.server.quota_types cimport (
    NAME_ABSENT, NAME_DEFAULT, NAME_GIVEN, QUOTA_CHAINS, QUOTA_FETCH, QUOTA_PRODUCE, QUOTA_REQUEST, QuotaBucket, QuotaClient,
    QuotaKind, QuotaTable)
from bowstring._native.server.quota_window cimport window_rate

DEFAULT = ""
PRODUCE = QUOTA_PRODUCE
FETCH = QUOTA_FETCH
REQUEST = QUOTA_REQUEST


cdef enum:
    CLIENTS_MAX = 1024              # that are remembered
    REMEMBERED_BYTES_MAX = 1024     # of both names
    CLIENTS_MS = 60000              # after this they are looked up anew, so that idle ones are let go


@no_gc_clear
cdef class Client:
    """What quotas apply to a user with a client id, for the control thread."""

    cdef QuotaClient *client
    cdef DataPlane owner                                 # has the table

    def __dealloc__(self):
        quota_client_release(self.client)


cdef int name_is(str name):
    if name is None:
        return NAME_ABSENT
    return NAME_GIVEN if name else NAME_DEFAULT


cdef class PlaneQuotas:
    """The client quotas of one data plane.

    Args:
        plane: The data plane.
    """

    cdef DataPlane owner
    cdef QuotaTable *table
    cdef dict clients                                    # by user and client id
    cdef int64_t clients_end_ms

    def __init__(self, DataPlane plane not None):
        self.owner = plane
        self.table = &plane.plane.quotas
        self.clients = {}

    def set(self, list rules not None):
        """Replaces the rules. Rates that were measured stay; clients that wait now wait as long as before.

        Args:
            rules: ``[(PRODUCE, FETCH or REQUEST, user, client id, bound)]``. A name is text, ``DEFAULT``, or None where the
                entity has no such part. Bounds are bytes per second, or percent of one thread.
        """
        cdef bytes user_text, client_text
        cdef int32_t kinds = 0
        cdef bint added = True
        cdef list ready = [
            (kind, name_is(user), (user or "").encode(), name_is(client), (client or "").encode(), <double>bound)
            for kind, user, client, bound in rules
        ]
        pthread_mutex_lock(&self.table.lock)             # held for a short time by reactors, so with the GIL
        try:
            quotas_drop_rules(self.table)
            for kind, user_is, user_text, client_is, client_text, bound in ready:
                added = added and quotas_add(
                    self.table, kind, user_is, <uint8_t *>PyBytes_AS_STRING(user_text),
                    <int32_t>PyBytes_GET_SIZE(user_text), client_is, <uint8_t *>PyBytes_AS_STRING(client_text),
                    <int32_t>PyBytes_GET_SIZE(client_text), bound)
                kinds |= 1 << <int>kind
            store_i32(&self.table.kinds, kinds)
            add_i64(&self.table.generation, 1)
        finally:
            pthread_mutex_unlock(&self.table.lock)
        if not added:
            raise MemoryError

    @property
    def limits_bytes(self):
        """Whether a client's Fetch has a quota."""
        return load_i32(&self.table.kinds) & (1 << <int>QUOTA_FETCH) != 0

    @property
    def limits_time(self):
        """Whether a client's request time has a quota."""
        return load_i32(&self.table.kinds) & (1 << <int>QUOTA_REQUEST) != 0

    cdef Client _client(self, tuple names, int64_t now_ms):
        cdef Client found = self.clients.get(names)
        cdef bytes user_text, client_text
        if found is not None and now_ms < self.clients_end_ms:
            return found
        if now_ms >= self.clients_end_ms or len(self.clients) >= CLIENTS_MAX:
            self.clients.clear()
            self.clients_end_ms = now_ms + CLIENTS_MS
        user_text = (<str?>names[0]).encode("utf-8", "surrogatepass")
        client_text = (<str?>names[1]).encode("utf-8", "surrogatepass")
        found = Client.__new__(Client)
        found.owner = self.owner
        found.client = quota_client_new(
            self.table, <uint8_t *>PyBytes_AS_STRING(user_text), <int32_t>PyBytes_GET_SIZE(user_text),
            <uint8_t *>PyBytes_AS_STRING(client_text), <int32_t>PyBytes_GET_SIZE(client_text))
        if found.client == NULL:
            raise MemoryError
        if len(user_text) + len(client_text) <= REMEMBERED_BYTES_MAX:
            self.clients[names] = found
        return found

    cdef int64_t _use(self, str user, str client_id, QuotaKind kind, double value, bint waits) except -1:
        cdef int64_t now_ms = monotonic_ms(), throttle_ms = 0
        cdef Client found = self._client((user, client_id), now_ms)     # holds it: long names are not remembered
        cdef QuotaClient *q = found.client
        if waits:
            throttle_ms = quota_use(q, kind, value, now_ms)
            if throttle_ms > 0:
                quota_throttled(q, kind, throttle_ms)
        else:
            quota_record(q, kind, value, now_ms)
        return throttle_ms

    def use_time(self, str user not None, str client_id not None, int64_t spent_ns):
        """Counts time of the control thread for a client; returns the milliseconds that the client has to wait."""
        return self._use(user, client_id, QUOTA_REQUEST, quota_percent(spent_ns), True)

    def note_time(self, str user not None, str client_id not None, int64_t spent_ns):
        """Counts time of the control thread for a client, which does not wait for it now."""
        self._use(user, client_id, QUOTA_REQUEST, quota_percent(spent_ns), False)

    def use_bytes(self, str user not None, str client_id not None, int64_t size_bytes):
        """Counts bytes that a client fetches through the control thread; returns the milliseconds that it has to wait."""
        return self._use(user, client_id, QUOTA_FETCH, size_bytes, True)

    def rates(self, int most):
        """Returns at most ``most`` entities whose use is measured: ``[(kind, user, client id, bound, rate, throttles,
        milliseconds throttled)]``. The name of what the entity does not have is empty."""
        cdef list found = []
        cdef QuotaBucket *b
        cdef int64_t now_ms = monotonic_ms()
        cdef int i
        cdef const char *names
        pthread_mutex_lock(&self.table.lock)
        try:
            if self.table.buckets == NULL:
                return found
            for i in range(QUOTA_CHAINS):
                b = self.table.buckets[i]
                while b != NULL and len(found) < most:
                    names = <const char *>(b + 1)
                    pthread_mutex_lock(&b.lock)
                    found.append((b.kind, names[:b.user_length], names[b.user_length:b.user_length + b.client_length],
                                  b.bound, window_rate(&b.window, now_ms), b.throttles, b.throttled_ms))
                    pthread_mutex_unlock(&b.lock)
                    b = b.next
        finally:
            pthread_mutex_unlock(&self.table.lock)
        return [(kind, user.decode("utf-8", "replace"), client.decode("utf-8", "replace"), *rest)
                for kind, user, client, *rest in found]
