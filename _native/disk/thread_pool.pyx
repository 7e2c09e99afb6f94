"""Storage threads, see thread_pool.pxd."""
from libc.string cimport memset
from bowstring._native.base.pthread cimport (
    pthread_cond_broadcast, pthread_cond_init, pthread_cond_signal, pthread_cond_wait, pthread_join,
    pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock)
from bowstring._native.base.threads cimport be_background, start_thread


cdef void *work(void *argument) noexcept nogil:
    cdef StoragePool *pool = <StoragePool *>argument
    cdef StorageJob *job
    cdef bint dropped
    be_background()                                      # reactors answer producers meanwhile
    pthread_mutex_lock(&pool.lock)
    while True:
        while pool.head == NULL and not pool.stopping:
            pool.idle += 1
            pthread_cond_wait(&pool.ready, &pool.lock)
            pool.idle -= 1
        job = pool.head
        if job == NULL:
            break
        pool.head = job.next
        dropped = pool.stopping
        pthread_mutex_unlock(&pool.lock)
        job.run(job, dropped)
        pthread_mutex_lock(&pool.lock)
    pthread_mutex_unlock(&pool.lock)
    return NULL


cdef void storage_init(StoragePool *pool) noexcept nogil:
    memset(pool, 0, sizeof(StoragePool))
    pthread_mutex_init(&pool.lock, NULL)
    pthread_cond_init(&pool.ready, NULL)


cdef bint storage_submit(StoragePool *pool, StorageJob *job) noexcept nogil:
    cdef bint taken
    pthread_mutex_lock(&pool.lock)
    if pool.idle == 0 and pool.thread_count < STORAGE_THREADS and not pool.stopping \
            and start_thread(&pool.threads[pool.thread_count], work, pool, b"storage") == 0:
        pool.thread_count += 1
    taken = pool.thread_count > 0 and not pool.stopping
    if taken:
        job.next = NULL
        if pool.head == NULL:
            pool.head = job
        else:
            pool.tail.next = job
        pool.tail = job
        pthread_cond_signal(&pool.ready)
    pthread_mutex_unlock(&pool.lock)
    return taken


cdef void storage_stop(StoragePool *pool) noexcept nogil:
    cdef int32_t i
    pthread_mutex_lock(&pool.lock)
    pool.stopping = True
    pthread_cond_broadcast(&pool.ready)
    pthread_mutex_unlock(&pool.lock)
    for i in range(pool.thread_count):
        pthread_join(pool.threads[i], NULL)
    pool.thread_count = 0
