"""Storage threads wait for the disk, so that reactors need not.

They start with the first job, sleep on a condition without one, and end by storage_stop. A job belongs to its owner: the
pool does not allocate or free it. It calls `run` once, with `dropped` when the pool is being stopped.
"""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.base.pthread cimport pthread_cond_t, pthread_mutex_t, pthread_t

cdef enum:
    STORAGE_THREADS = 2             # one may wait for the disk while the other reads cached data

cdef struct StorageJob:
    StorageJob *next
    void (*run)(StorageJob *job, bint dropped) noexcept nogil

cdef struct StoragePool:
    pthread_mutex_t lock
    pthread_cond_t ready
    StorageJob *head
    StorageJob *tail
    pthread_t[STORAGE_THREADS] threads
    int32_t thread_count
    int32_t idle                    # threads that sleep
    int32_t stopping
    # counters: atomic
    int64_t reads
    int64_t read_bytes
    int64_t failed_reads
    int64_t corrupt_ranges          # found
    int64_t failure_told_ms         # when an event last reported a failed read

cdef void storage_init(StoragePool *pool) noexcept nogil
# Queues a job. False when no thread exists and none can be started: the caller must then read itself.
cdef bint storage_submit(StoragePool *pool, StorageJob *job) noexcept nogil
# Waits for running jobs, drops the others, and ends the threads.
cdef void storage_stop(StoragePool *pool) noexcept nogil
