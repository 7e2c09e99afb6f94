"""Client quotas of a plane, see client_quotas.pxd.

The level of a client's quota is the first of Kafka's eight that has a rule: (user, client id), (user, any client id), user,
(any user, client id), (any user, any client id), any user, client id, any client id. Clients share a rate per user, per
client id, or per pair of both, as the level says.
"""
from libc.stdint cimport int32_t, int64_t, int8_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memchr, memcmp, memcpy, memset
from bowstring._native.base.atomics cimport load_i32, load_i64
from bowstring._native.base.clock cimport monotonic_ms
from bowstring._native.base.pthread cimport (
    pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock)
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.control_types cimport RequestHeader
from bowstring._native.server.quota_types cimport (
    BUCKET_NAMES_MAX, BUCKETS_MAX, NAME_ABSENT, NAME_DEFAULT, NAME_GIVEN, QUOTA_CHAINS, QUOTA_KINDS, QUOTA_REQUEST, QuotaBucket, QuotaClient,
    QuotaKind, QuotaRule, QuotaTable)
from bowstring._native.server.subject_types cimport Subject
from bowstring._native.server.subjects cimport subject_at
from bowstring._native.server.quota_window cimport QuotaSample, window_excess_ms, window_record, window_sum

cdef enum:
    KEEP_MS = 600000                # an idle rate is kept for its metrics
    SWEEP_MS = 10000
    SWEEP_FULL_MS = 1000
    THROTTLE_MAX_MS = 0x7FFFFFFF

# ---------------------------------------------------------------- hash tables


cdef uint32_t hash_of(int kind, const uint8_t *user, int32_t user_length, const uint8_t *client,
                      int32_t client_length) noexcept nogil:
    cdef uint32_t h = 2166136261u ^ <uint32_t>kind
    cdef int32_t i
    for i in range(user_length):
        h = (h ^ user[i]) * 16777619u
    h = (h ^ 0xFF) * 16777619u                           # is in no UTF-8 text
    for i in range(client_length):
        h = (h ^ client[i]) * 16777619u
    return (h ^ (h >> 16)) % QUOTA_CHAINS


cdef bint same(const void *a, int32_t a_length, const void *b, int32_t b_length) noexcept nogil:
    return a_length == b_length and (a_length == 0 or memcmp(a, b, a_length) == 0)


cdef inline uint8_t *rule_names(QuotaRule *rule) noexcept nogil:
    return <uint8_t *>(rule + 1)


cdef inline uint8_t *bucket_names(QuotaBucket *b) noexcept nogil:
    return <uint8_t *>(b + 1)


cdef inline uint8_t *client_names(QuotaClient *q) noexcept nogil:
    return <uint8_t *>(q + 1)


cdef inline void put_names(uint8_t *to, const uint8_t *user, int32_t user_length, const uint8_t *client,
                           int32_t client_length) noexcept nogil:
    if user_length > 0:
        memcpy(to, user, user_length)
    if client_length > 0:
        memcpy(to + user_length, client, client_length)

# ---------------------------------------------------------------- rules


cdef bint quotas_init(QuotaTable *t, int32_t samples, int64_t window_ms):
    memset(t, 0, sizeof(QuotaTable))
    pthread_mutex_init(&t.lock, NULL)
    t.samples = samples
    t.window_ms = window_ms
    return True


cdef void quotas_free(QuotaTable *t) noexcept nogil:
    cdef int i
    cdef QuotaBucket *b
    quotas_drop_rules(t)
    free(t.rules)
    if t.buckets != NULL:
        for i in range(QUOTA_CHAINS):
            while t.buckets[i] != NULL:
                b = t.buckets[i]
                t.buckets[i] = b.next
                bucket_free(b)
        free(t.buckets)
    pthread_mutex_destroy(&t.lock)


cdef void quotas_drop_rules(QuotaTable *t) noexcept nogil:
    """Removes all rules. Call it with the lock, but at the end."""
    cdef int i
    cdef QuotaRule *rule
    if t.rules == NULL:
        return
    for i in range(QUOTA_CHAINS):
        while t.rules[i] != NULL:
            rule = t.rules[i]
            t.rules[i] = rule.next
            free(rule)


cdef bint quotas_add(QuotaTable *t, int kind, int user_is, const uint8_t *user, int32_t user_length, int client_is,
                     const uint8_t *client, int32_t client_length, double bound) noexcept nogil:
    """Adds a rule. Call it with the lock; False when memory ran out."""
    cdef QuotaRule *rule
    cdef uint32_t at = hash_of(kind, user, user_length, client, client_length)
    if t.rules == NULL:
        t.rules = <QuotaRule **>calloc(QUOTA_CHAINS, sizeof(QuotaRule *))
        t.buckets = <QuotaBucket **>calloc(QUOTA_CHAINS, sizeof(QuotaBucket *))
    rule = <QuotaRule *>malloc(sizeof(QuotaRule) + user_length + client_length)
    if t.rules == NULL or t.buckets == NULL or rule == NULL:
        free(rule)
        return False
    rule.kind = <int8_t>kind
    rule.user_is = <int8_t>user_is
    rule.client_is = <int8_t>client_is
    rule.user_length = user_length
    rule.client_length = client_length
    rule.bound = bound
    put_names(rule_names(rule), user, user_length, client, client_length)
    rule.next = t.rules[at]
    t.rules[at] = rule
    return True


cdef QuotaRule *find_rule(QuotaTable *t, int kind, int user_is, const uint8_t *user, int32_t user_length, int client_is,
                          const uint8_t *client, int32_t client_length) noexcept nogil:
    cdef QuotaRule *rule
    if user_is != NAME_GIVEN:
        user_length = 0
    if client_is != NAME_GIVEN:
        client_length = 0
    rule = t.rules[hash_of(kind, user, user_length, client, client_length)]
    while rule != NULL:
        if (rule.kind == kind and rule.user_is == user_is and rule.client_is == client_is
                and same(rule_names(rule), rule.user_length, user, user_length)
                and same(rule_names(rule) + rule.user_length, rule.client_length, client, client_length)):
            return rule
        rule = rule.next
    return NULL

# ---------------------------------------------------------------- buckets


cdef void bucket_free(QuotaBucket *b) noexcept nogil:
    pthread_mutex_destroy(&b.lock)
    free(b)


cdef bint full(const QuotaTable *t) noexcept nogil:
    return t.bucket_count >= BUCKETS_MAX or t.bucket_names >= BUCKET_NAMES_MAX


cdef void sweep(QuotaTable *t, int64_t now_ms) noexcept nogil:
    """Frees idle rates. One whose window is empty is the same as none, so a full table keeps no others."""
    cdef int64_t keep_ms = t.samples * t.window_ms if full(t) else KEEP_MS
    cdef QuotaBucket **at
    cdef QuotaBucket *b
    cdef int i
    t.sweep_due_ms = now_ms + (SWEEP_FULL_MS if full(t) else SWEEP_MS)
    for i in range(QUOTA_CHAINS):
        at = &t.buckets[i]
        while at[0] != NULL:
            b = at[0]
            if b.refs == 0 and now_ms - b.used_ms >= keep_ms:
                at[0] = b.next
                t.bucket_count -= 1
                t.bucket_names -= b.user_length + b.client_length
                bucket_free(b)
            else:
                at = &b.next


cdef QuotaBucket *bucket_of(QuotaTable *t, int kind, const uint8_t *user, int32_t user_length, const uint8_t *client,
                            int32_t client_length, double bound) noexcept nogil:
    """Returns the rate of an entity with a reference; NULL when memory ran out. Call it with the table's lock."""
    cdef QuotaBucket *b
    cdef int64_t now_ms = monotonic_ms()
    cdef uint32_t at
    cdef int64_t names
    if now_ms >= t.sweep_due_ms:
        sweep(t, now_ms)
    at = hash_of(kind, user, user_length, client, client_length)
    b = t.buckets[at]
    while b != NULL and not (b.kind == kind and same(bucket_names(b), b.user_length, user, user_length)
                             and same(bucket_names(b) + b.user_length, b.client_length, client, client_length)):
        b = b.next
    if b == NULL and full(t) and user_length + client_length > 0:
        return bucket_of(t, kind, NULL, 0, NULL, 0, bound)   # shared by those that are too many
    if b == NULL:
        names = (user_length + client_length + 7) & ~<int64_t>7
        b = <QuotaBucket *>calloc(1, sizeof(QuotaBucket) + names + (t.samples + 1) * sizeof(QuotaSample))
        if b == NULL:
            return NULL
        pthread_mutex_init(&b.lock, NULL)
        b.kind = <int8_t>kind
        b.user_length = user_length
        b.client_length = client_length
        put_names(bucket_names(b), user, user_length, client, client_length)
        b.window.ring = <QuotaSample *>(bucket_names(b) + names)
        b.window.samples = t.samples
        b.window.window_ms = t.window_ms
        b.used_ms = now_ms
        b.next = t.buckets[at]
        t.buckets[at] = b
        t.bucket_count += 1
        t.bucket_names += user_length + client_length
    b.refs += 1
    pthread_mutex_lock(&b.lock)
    b.bound = bound
    pthread_mutex_unlock(&b.lock)
    return b


cdef QuotaBucket *resolve(QuotaTable *t, int kind, const uint8_t *user, int32_t user_length, const uint8_t *client,
                          int32_t client_length) noexcept nogil:
    """Returns the rate for a client with a reference; NULL: it has no quota. Call it with the table's lock."""
    cdef int user_is = NAME_GIVEN, client_is, step
    cdef QuotaRule *rule
    if user_length == 0:
        user_is = NAME_DEFAULT
    while user_is >= NAME_ABSENT:
        for step in range(3):
            client_is = NAME_GIVEN - step                # given, default, absent
            if client_is != NAME_ABSENT and client_length == 0:
                continue                                 # as in Kafka: the default is not for clients without an id
            rule = find_rule(t, kind, user_is, user, user_length, client_is, client, client_length)
            if rule != NULL:
                return bucket_of(t, kind, user, user_length if user_is != NAME_ABSENT else 0, client,
                                 client_length if client_is != NAME_ABSENT else 0, rule.bound)
        user_is -= 1
    return NULL

# ---------------------------------------------------------------- clients


cdef void drop_buckets(QuotaClient *q) noexcept nogil:
    """Call it with the table's lock."""
    cdef int kind
    for kind in range(QUOTA_KINDS):
        if q.buckets[kind] != NULL:
            q.buckets[kind].refs -= 1
            q.buckets[kind] = NULL


cdef void refresh(QuotaClient *q) noexcept nogil:
    """Finds the client's rates with the rules of now."""
    cdef QuotaTable *t = q.table
    cdef int kind
    pthread_mutex_lock(&t.lock)
    drop_buckets(q)
    q.generation = t.generation
    if t.rules != NULL:
        for kind in range(QUOTA_KINDS):
            if load_i32(&t.kinds) & (1 << kind):
                q.buckets[kind] = resolve(t, kind, client_names(q), q.user_length, client_names(q) + q.user_length,
                                          q.client_length)
    pthread_mutex_unlock(&t.lock)


cdef inline QuotaBucket *bucket(QuotaClient *q, QuotaKind kind) noexcept nogil:
    if q.generation != load_i64(&q.table.generation):
        refresh(q)
    return q.buckets[<int>kind]


cdef QuotaClient *quota_client_new(QuotaTable *t, const uint8_t *user, int32_t user_length, const uint8_t *client,
                                   int32_t client_length) noexcept nogil:
    """Returns what quotas apply to a client, with one reference; NULL when memory ran out."""
    cdef QuotaClient *q = <QuotaClient *>calloc(1, sizeof(QuotaClient) + user_length + client_length)
    if q == NULL:
        return NULL
    q.refs = 1
    q.table = t
    q.user_length = user_length
    q.client_length = client_length
    put_names(client_names(q), user, user_length, client, client_length)
    refresh(q)
    return q


cdef void quota_client_release(QuotaClient *q) noexcept nogil:
    if q == NULL:
        return
    q.refs -= 1
    if q.refs > 0:
        return
    pthread_mutex_lock(&q.table.lock)
    drop_buckets(q)
    pthread_mutex_unlock(&q.table.lock)
    free(q)


cdef void quota_identify(Connection *c, const RequestHeader *header) noexcept nogil:
    """Sets the connection's QuotaClient to that of a request."""
    cdef QuotaClient *q = c.quota
    cdef int32_t length = header.client_id_length if header.client_id_length > 0 else 0
    cdef const Subject *subject = subject_at(&c.reactor.plane.subjects, c.subject)
    cdef const char *colon
    cdef int32_t kind_length = 0
    if (q != NULL and q.subject == c.subject and q.subject_generation == subject.generation
            and same(client_names(q) + q.user_length, q.client_length, header.client_id, length)):
        return
    colon = <const char *>memchr(subject.principal, 58, subject.principal_length)
    if colon != NULL:
        kind_length = <int32_t>(colon + 1 - subject.principal)
    quota_client_release(q)
    c.quota = quota_client_new(&c.reactor.plane.quotas, <const uint8_t *>subject.principal + kind_length,
                               subject.principal_length - kind_length, header.client_id, length)
    if c.quota != NULL:
        c.quota.subject = c.subject
        c.quota.subject_generation = subject.generation

# ---------------------------------------------------------------- use


cdef int64_t bounded(QuotaClient *q, QuotaKind kind, double wait_ms) noexcept nogil:
    """Rounds a time to wait. As in Kafka, that for request time is bounded."""
    cdef double most = q.table.window_ms if kind == QUOTA_REQUEST else <double>THROTTLE_MAX_MS
    return <int64_t>(min(wait_ms, most) + 0.5)


cdef int64_t quota_use(QuotaClient *q, QuotaKind kind, double value, int64_t now_ms) noexcept nogil:
    cdef QuotaBucket *b
    cdef double wait_ms
    if q == NULL:
        return 0
    b = bucket(q, kind)
    if b == NULL:
        return 0
    pthread_mutex_lock(&b.lock)
    window_record(&b.window, value, now_ms)
    b.used_ms = now_ms
    wait_ms = window_excess_ms(&b.window, b.bound, now_ms)
    pthread_mutex_unlock(&b.lock)
    return bounded(q, kind, wait_ms)


cdef int64_t quota_use_or_leave(QuotaClient *q, QuotaKind kind, double value, int64_t now_ms) noexcept nogil:
    cdef QuotaBucket *b
    cdef double wait_ms
    cdef int64_t elapsed_ms
    cdef bint unused
    if q == NULL:
        return 0
    b = bucket(q, kind)
    if b == NULL:
        return 0
    pthread_mutex_lock(&b.lock)
    unused = not window_sum(&b.window, now_ms, &elapsed_ms) > 0
    window_record(&b.window, value, now_ms)
    b.used_ms = now_ms
    wait_ms = 0 if unused else window_excess_ms(&b.window, b.bound, now_ms)
    if wait_ms >= 0.5:
        window_record(&b.window, -value, now_ms)
    pthread_mutex_unlock(&b.lock)
    return bounded(q, kind, wait_ms)


cdef void quota_record(QuotaClient *q, QuotaKind kind, double value, int64_t now_ms) noexcept nogil:
    cdef QuotaBucket *b
    if q == NULL:
        return
    b = bucket(q, kind)
    if b == NULL:
        return
    pthread_mutex_lock(&b.lock)
    window_record(&b.window, value, now_ms)
    b.used_ms = now_ms
    pthread_mutex_unlock(&b.lock)


cdef double quota_most(QuotaClient *q, QuotaKind kind) noexcept nogil:
    cdef QuotaBucket *b = bucket(q, kind) if q != NULL else NULL
    if b == NULL:
        return <double>0x7FFFFFFFFFFFFFFF
    return b.bound * max(1, q.table.samples - 1) * q.table.window_ms / 1000


cdef void quota_throttled(QuotaClient *q, QuotaKind kind, int64_t throttle_ms) noexcept nogil:
    cdef QuotaBucket *b = bucket(q, kind) if q != NULL else NULL
    if b == NULL:
        return
    pthread_mutex_lock(&b.lock)
    b.throttles += 1
    b.throttled_ms += throttle_ms
    pthread_mutex_unlock(&b.lock)
