"""Storage threads: they wait for the disk, so that reactors do not.

Started with the first job, asleep on a condition when there is none, ended by storage_stop. A job is its owner's: the
pool neither allocates nor frees, it calls `run` once, with `dropped` when the pool is being stopped.
"""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.log_types cimport pthread_mutex_t

cdef extern from "pthread.h" nogil:
    ctypedef struct pthread_cond_t:
        pass
    ctypedef unsigned long pthread_t

cdef enum:
    STORAGE_THREADS = 2             # one may be held up by a disk while the other reads what is in memory

cdef struct StorageJob:
    StorageJob *next
    void (*run)(StorageJob *job, bint dropped) noexcept nogil

cdef struct StoragePool:
    pthread_mutex_t lock
    pthread_cond_t ready
    StorageJob *head
    StorageJob *tail
    pthread_t[2] threads
    int32_t thread_count
    int32_t idle                    # of them, asleep
    int32_t stopping
    # counters: atomic
    int64_t reads
    int64_t read_bytes
    int64_t failed_reads
    int64_t corrupt_ranges          # found
    int64_t failure_told_ms         # when an event last told of a failed read

cdef void storage_init(StoragePool *pool) noexcept nogil
# False when there is no thread to run it, nor can one be had: the caller reads by itself.
cdef bint storage_submit(StoragePool *pool, StorageJob *job) noexcept nogil
# Waits for the jobs at hand, drops the others, and ends the threads.
cdef void storage_stop(StoragePool *pool) noexcept nogil
