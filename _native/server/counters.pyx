"""Adds up the reactors' counters, and collects the events that they report."""
from libc.stdint cimport int64_t
from libc.string cimport memset
from bowstring._native.base.atomics cimport load_i32, load_i64
from bowstring._native.server.lease_types cimport LEASED_APIS, LEASED_CONSUMER_GROUP_HEARTBEAT, LEASED_HEARTBEAT
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock


cdef dict _api_counters(ApiCounters *total):
    cdef int i
    return {
        "requests": total.requests,
        "errors": total.errors,
        "total_us": total.total_us,
        "latency_buckets": [total.buckets[i] for i in range(LATENCY_BUCKETS)],
    }


cdef void _add_counters(ApiCounters *total, ApiCounters *more):
    cdef int i
    total.requests += load_i64(&more.requests)
    total.errors += load_i64(&more.errors)
    total.total_us += load_i64(&more.total_us)
    for i in range(LATENCY_BUCKETS):
        total.buckets[i] += load_i64(&more.buckets[i])


cdef dict counters_of(Plane *plane):
    cdef int i
    cdef Reactor *r
    cdef ApiCounters produce, fetch, list_offsets
    cdef ApiCounters leased[LEASED_APIS]
    cdef int api
    cdef int64_t connections = 0, accepted = 0, received = 0, sent = 0, sessions = 0, timers = 0
    cdef int64_t session_bytes = 0, handshakes = 0, resumed = 0, failures = 0, deferred = 0, deferred_bytes = 0
    memset(&produce, 0, sizeof(produce))
    memset(&fetch, 0, sizeof(fetch))
    memset(&list_offsets, 0, sizeof(list_offsets))
    memset(leased, 0, sizeof(leased))
    for i in range(plane.reactor_count):
        r = &plane.reactors[i]
        connections += load_i64(&r.connections_open)
        accepted += load_i64(&r.connections_accepted)
        received += load_i64(&r.received_bytes)
        sent += load_i64(&r.sent_bytes)
        sessions += load_i32(&r.session_count)
        session_bytes += load_i64(&r.session_bytes)
        timers += load_i32(&r.timers.count)
        handshakes += load_i64(&r.tls_handshakes)
        resumed += load_i64(&r.tls_resumed)
        failures += load_i64(&r.tls_failures)
        deferred += load_i64(&r.deferred_batches)
        deferred_bytes += load_i64(&r.deferred_bytes)
        _add_counters(&produce, &r.produce)
        _add_counters(&fetch, &r.fetch)
        _add_counters(&list_offsets, &r.list_offsets)
        for api in range(LEASED_APIS):
            _add_counters(&leased[api], &r.leased[api])
    return {
        "connections": connections, "accepted": accepted, "received_bytes": received, "sent_bytes": sent,
        "fetch_sessions": sessions, "fetch_session_bytes": session_bytes, "timers": timers,
        "tls": {"handshakes": handshakes, "resumed": resumed, "failures": failures},
        "followed_bytes": load_i64(&plane.followed_bytes),
        "storage": {
            "reads": load_i64(&plane.storage.reads), "read_bytes": load_i64(&plane.storage.read_bytes),
            "failed_reads": load_i64(&plane.storage.failed_reads),
            "corrupt_ranges": load_i64(&plane.storage.corrupt_ranges),
        },
        "slow_batches": {
            "waiting_bytes": load_i64(&plane.slow_waiting_bytes), "working_bytes": load_i64(&plane.slow_working_bytes),
            "parked_connections": load_i32(&plane.slow_parked),
        },
        "deferred_batches": {"batches": deferred, "waiting_bytes": deferred_bytes},
        "produce": _api_counters(&produce), "fetch": _api_counters(&fetch),
        "list_offsets": _api_counters(&list_offsets),
        "heartbeat": _api_counters(&leased[LEASED_HEARTBEAT]),
        "consumer_group_heartbeat": _api_counters(&leased[LEASED_CONSUMER_GROUP_HEARTBEAT]),
    }


cdef list events_of(Plane *plane):
    cdef int i
    cdef list events = []
    cdef int64_t dropped
    pthread_mutex_lock(&plane.control_lock)
    for i in range(plane.event_count):
        events.append((("info", "warning", "error")[plane.events[i].level],
                       (<bytes>plane.events[i].name).decode(),
                       (<bytes>plane.events[i].detail).decode("utf-8", "replace")))
    dropped = plane.events_dropped
    plane.event_count = 0
    plane.events_dropped = 0
    pthread_mutex_unlock(&plane.control_lock)
    if dropped:
        events.append(("warning", "events-dropped",
                       f"{dropped} further events were not logged because too many came at once"))
    return events
