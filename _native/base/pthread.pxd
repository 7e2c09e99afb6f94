"""POSIX threads: what the native code uses of <pthread.h>."""

cdef extern from "pthread.h" nogil:
    ctypedef struct pthread_cond_t:
        pass
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_rwlock_t:
        pass
    ctypedef unsigned long pthread_t

    int pthread_atfork(
        void (*prepare)() noexcept nogil, void (*parent)() noexcept nogil, void (*child)() noexcept nogil)
    int pthread_join(pthread_t thread, void **result)

    int pthread_cond_broadcast(pthread_cond_t *condition)
    int pthread_cond_destroy(pthread_cond_t *condition)
    int pthread_cond_init(pthread_cond_t *condition, const void *attributes)
    int pthread_cond_signal(pthread_cond_t *condition)
    int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)

    int pthread_mutex_destroy(pthread_mutex_t *mutex)
    int pthread_mutex_init(pthread_mutex_t *mutex, const void *attributes)
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_trylock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)

    int pthread_rwlock_destroy(pthread_rwlock_t *lock)
    int pthread_rwlock_rdlock(pthread_rwlock_t *lock)
    int pthread_rwlock_unlock(pthread_rwlock_t *lock)
    int pthread_rwlock_wrlock(pthread_rwlock_t *lock)
