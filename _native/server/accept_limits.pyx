"""Limits of connections, see accept_limits.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset
from bowstring._native.base.atomics cimport add_i32, load_i32, store_i32
from bowstring._native.base.pthread cimport (
    pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock)
from bowstring._native.server.accept_types cimport (
    ACCEPT_LATER, ACCEPT_REFUSE, ACCEPT_REFUSE_LATER, ACCEPT_SERVE, HOST_BYTES, HOST_CHAINS, NO_LIMIT, AcceptLimits,
    HostEntry, HostLimit, ListenerLimits, Verdict)
from bowstring._native.server.quota_window cimport QuotaSample, QuotaWindow, window_excess_ms, window_record

cdef extern from *:
    """
    #include <netinet/in.h>
    #include <string.h>
    #include <sys/socket.h>

    static void peer_host(int fd, unsigned char *host) {
        struct sockaddr_storage a;
        socklen_t n = sizeof a;
        memset(host, 0, 16);
        if (getpeername(fd, (struct sockaddr *)&a, &n) != 0)
            return;
        if (a.ss_family == AF_INET) {
            host[10] = host[11] = 0xFF;
            memcpy(host + 12, &((struct sockaddr_in *)&a)->sin_addr, 4);
        } else if (a.ss_family == AF_INET6)
            memcpy(host, &((struct sockaddr_in6 *)&a)->sin6_addr, 16);
    }
    """
    void peer_host(int fd, uint8_t *host) nogil

cdef enum:
    SWEEP_PAUSE_MS = 1000

# ---------------------------------------------------------------- life


cdef bint ring_new(AcceptLimits *a, QuotaWindow *w) noexcept nogil:
    w.ring = <QuotaSample *>calloc(a.samples + 1, sizeof(QuotaSample))
    w.samples = a.samples
    w.window_ms = a.window_ms
    w.count = w.current = 0
    return w.ring != NULL


cdef bint accept_init(AcceptLimits *a, int32_t samples, int64_t window_ms):
    """False when memory ran out."""
    memset(a, 0, sizeof(AcceptLimits))
    pthread_mutex_init(&a.lock, NULL)
    a.samples = samples
    a.window_ms = window_ms
    a.most = a.most_of_host = NO_LIMIT
    a.rate = NO_LIMIT
    a.hosts = <HostEntry **>calloc(HOST_CHAINS, sizeof(HostEntry *))
    return a.hosts != NULL and ring_new(a, &a.window)


cdef bint accept_listeners(AcceptLimits *a, int32_t count):
    """Sets how many listeners there are, once; False when memory ran out."""
    cdef int32_t i
    a.listeners = <ListenerLimits *>calloc(count + 1, sizeof(ListenerLimits))
    if a.listeners == NULL:
        return False
    a.listener_count = count
    for i in range(count):
        a.listeners[i].most = NO_LIMIT
        a.listeners[i].rate = NO_LIMIT
        a.listeners[i].held_fd = -1
        if not ring_new(a, &a.listeners[i].window):
            return False
    return True


cdef void accept_free(AcceptLimits *a) noexcept nogil:
    cdef int32_t i
    cdef HostEntry *host
    if a.hosts != NULL:
        for i in range(HOST_CHAINS):
            while a.hosts[i] != NULL:
                host = a.hosts[i]
                a.hosts[i] = host.next
                host_free(host)
        free(a.hosts)
    for i in range(a.listener_count):
        free(a.listeners[i].window.ring)
    free(a.listeners)
    free(a.host_limits)
    free(a.window.ring)
    pthread_mutex_destroy(&a.lock)

# ---------------------------------------------------------------- hosts


cdef void host_free(HostEntry *host) noexcept nogil:
    free(host.window.ring)
    free(host)


cdef uint32_t chain_of(const uint8_t *host) noexcept nogil:
    cdef uint32_t h = 2166136261u
    cdef int i
    for i in range(HOST_BYTES):
        h = (h ^ host[i]) * 16777619u
    return (h ^ (h >> 16)) % HOST_CHAINS


cdef void sweep_hosts(AcceptLimits *a, int64_t now_ms) noexcept nogil:
    """Frees hosts without connections whose rate is over."""
    cdef HostEntry **at
    cdef HostEntry *host
    cdef int i
    a.sweep_due_ms = now_ms + SWEEP_PAUSE_MS
    for i in range(HOST_CHAINS):
        at = &a.hosts[i]
        while at[0] != NULL:
            host = at[0]
            if host.connections == 0 and now_ms - host.used_ms >= a.samples * a.window_ms:
                at[0] = host.next
                host_free(host)
                a.host_count -= 1
            else:
                at = &host.next


cdef HostEntry *host_of(AcceptLimits *a, const uint8_t *address, int64_t now_ms) noexcept nogil:
    """Returns the entry of a host; NULL when memory ran out."""
    cdef HostEntry **chain
    cdef HostEntry *host
    if now_ms >= a.sweep_due_ms:
        sweep_hosts(a, now_ms)
    chain = &a.hosts[chain_of(address)]
    host = chain[0]
    while host != NULL and memcmp(host.host, address, HOST_BYTES) != 0:
        host = host.next
    if host == NULL:
        host = <HostEntry *>calloc(1, sizeof(HostEntry))
        if host == NULL:
            return NULL
        memcpy(host.host, address, HOST_BYTES)
        host.next = chain[0]
        chain[0] = host
        a.host_count += 1
    host.used_ms = now_ms
    return host


cdef const HostLimit *limit_of(const AcceptLimits *a, const uint8_t *host) noexcept nogil:
    """Returns the limits that a host has for itself, or NULL. They are in the order of the addresses."""
    cdef int32_t low = 0, high = a.host_limit_count, middle
    cdef int order
    while low < high:
        middle = (low + high) // 2
        order = memcmp(a.host_limits[middle].host, host, HOST_BYTES)
        if order == 0:
            return &a.host_limits[middle]
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return NULL

# ---------------------------------------------------------------- decisions


cdef bint has_room(const AcceptLimits *a, int32_t listener) noexcept nogil:
    cdef const ListenerLimits *l = &a.listeners[listener]
    return l.connections < l.most and (l.protected or a.connections < a.most)


cdef bint accept_begins(AcceptLimits *a, int32_t listener) noexcept nogil:
    cdef bint begins
    pthread_mutex_lock(&a.lock)
    begins = has_room(a, listener)
    if not begins:
        add_i32(&a.waiting, 1)                           # under the lock: a connection that ends now sees it
    pthread_mutex_unlock(&a.lock)
    return begins


cdef bint accept_resumes(AcceptLimits *a, int32_t listener) noexcept nogil:
    cdef bint resumes
    pthread_mutex_lock(&a.lock)
    resumes = has_room(a, listener)
    if resumes:
        add_i32(&a.waiting, -1)
    pthread_mutex_unlock(&a.lock)
    return resumes


cdef int64_t record(AcceptLimits *a, QuotaWindow *w, double rate, int64_t now_ms) noexcept nogil:
    """Counts a connection; returns the milliseconds by which it came too early. As in Kafka, at most a sample."""
    cdef double wait_ms
    if rate >= NO_LIMIT:
        return 0
    window_record(w, 1, now_ms)
    wait_ms = window_excess_ms(w, rate, now_ms)
    return <int64_t>(min(wait_ms, <double>a.window_ms) + 0.5)


cdef Verdict accept_paced(AcceptLimits *a, int32_t listener, int64_t now_ms, int64_t *wait_ms) noexcept nogil:
    cdef ListenerLimits *l = &a.listeners[listener]
    pthread_mutex_lock(&a.lock)
    wait_ms[0] = 0
    if not l.protected:
        wait_ms[0] = record(a, &a.window, a.rate, now_ms)
    wait_ms[0] = max(wait_ms[0], record(a, &l.window, l.rate, now_ms))
    if wait_ms[0] > 0:
        a.delayed += 1
        a.delayed_ms += wait_ms[0]
    pthread_mutex_unlock(&a.lock)
    return ACCEPT_LATER if wait_ms[0] > 0 else ACCEPT_SERVE


cdef Verdict accept_decide(AcceptLimits *a, int32_t listener, int fd, int64_t now_ms, HostEntry **host,
                           int64_t *wait_ms) noexcept nogil:
    cdef ListenerLimits *l = &a.listeners[listener]
    cdef uint8_t address[HOST_BYTES]
    cdef Verdict verdict = ACCEPT_SERVE
    peer_host(fd, address)
    pthread_mutex_lock(&a.lock)
    host[0] = host_of(a, address, now_ms)
    if host[0] == NULL:
        verdict = ACCEPT_REFUSE
    else:
        verdict = decide(a, l, host[0], now_ms, wait_ms)
    pthread_mutex_unlock(&a.lock)
    return verdict


cdef Verdict decide(AcceptLimits *a, ListenerLimits *l, HostEntry *host, int64_t now_ms, int64_t *wait_ms) noexcept nogil:
    cdef const HostLimit *limit = limit_of(a, host.host)
    cdef int64_t most = limit.most if limit != NULL and limit.most >= 0 else a.most_of_host
    cdef double rate = limit.rate if limit != NULL and limit.rate > 0 else a.rate_of_host
    if 0 < rate < NO_LIMIT and (host.window.ring != NULL or ring_new(a, &host.window)):
        wait_ms[0] = record(a, &host.window, rate, now_ms)
        if wait_ms[0] > 0:                               # not accepted, so not counted
            window_record(&host.window, -1, now_ms)
            if not l.protected and a.rate < NO_LIMIT:
                window_record(&a.window, -1, now_ms)
            if l.rate < NO_LIMIT:
                window_record(&l.window, -1, now_ms)
            a.refused_later += 1
            return ACCEPT_REFUSE_LATER
    if host.connections >= most:
        a.refused += 1
        return ACCEPT_REFUSE
    host.connections += 1
    a.connections += 1
    l.connections += 1
    accept_count_excess(a)
    return ACCEPT_SERVE


cdef void accept_count_excess(AcceptLimits *a) noexcept nogil:
    cdef int64_t others = 0
    cdef int32_t i
    if a.connections - a.ending <= a.most:
        if load_i32(&a.excess) != 0:
            store_i32(&a.excess, 0)
        return
    for i in range(a.listener_count):
        if not a.listeners[i].protected:
            others += a.listeners[i].connections
    store_i32(&a.excess, <int32_t>min(others, a.connections - a.most) - <int32_t>a.ending)


cdef bint accept_ended(AcceptLimits *a, int32_t listener, HostEntry *host, bint gave_way) noexcept nogil:
    cdef bint waited
    pthread_mutex_lock(&a.lock)
    a.ending -= gave_way
    host.connections -= 1
    a.connections -= 1
    a.listeners[listener].connections -= 1
    waited = load_i32(&a.waiting) > 0
    pthread_mutex_unlock(&a.lock)
    return waited


cdef bint accept_claim(AcceptLimits *a) noexcept nogil:
    cdef bint claimed
    pthread_mutex_lock(&a.lock)
    claimed = load_i32(&a.excess) > 0
    if claimed:
        add_i32(&a.excess, -1)
        a.ended += 1
        a.ending += 1
    pthread_mutex_unlock(&a.lock)
    return claimed
