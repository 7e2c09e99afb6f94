"""Write-behind, see write_behind.pxd."""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from posix.fcntl cimport POSIX_FADV_DONTNEED
from bowstring._native.base.atomics cimport load_i32, store_i32
from bowstring._native.disk.file_ops cimport file_ops
from bowstring._native.disk.staged_tail cimport tail_start
from bowstring._native.disk.thread_pool cimport StorageJob, StoragePool, storage_submit
from bowstring._native.log.segment_files cimport segment_file_release, segment_file_retain

cdef enum:
    STEP_BYTES = 8 << 20
    # Behind the write position, what is still being written back or just read by a consumer.
    KEPT_BYTES = 2 * STEP_BYTES
    # Each page is given up once for each step in here: the kernel keeps one that is not on the disk yet.
    TRIED_BYTES = 16 * STEP_BYTES

cdef struct Behind:
    StorageJob base                 # first: a StorageJob * is a Behind *
    SegmentFile *file               # held
    int64_t start
    int64_t end


cdef void run(StorageJob *job, bint dropped) noexcept nogil:
    cdef Behind *step = <Behind *>job
    cdef int64_t kept = step.start - KEPT_BYTES
    cdef int64_t first = kept - TRIED_BYTES if kept > TRIED_BYTES else 0
    if not dropped:
        # Errors are left to the syncs, which report them.
        file_ops.write_back(step.file.fd, step.start, step.end - step.start)
        if kept > 0:
            file_ops.advise(step.file.fd, first, kept - first, POSIX_FADV_DONTNEED)
    store_i32(&step.file.stepping, 0)
    segment_file_release(step.file)
    free(step)


cdef void write_behind(Log *log, SegmentFile *file, int64_t end, bint followed) noexcept nogil:
    cdef StoragePool *threads = log.directory.behind if log.directory != NULL else NULL
    cdef Behind *step
    if threads == NULL or not (followed or log.directory.behind_all):
        return
    end = tail_start(&file.tail, end)
    if file.behind < 0 or file.behind > end:             # it was just opened, or cut
        file.behind = end - end % STEP_BYTES
    if end - file.behind < STEP_BYTES or load_i32(&file.stepping):
        return
    step = <Behind *>malloc(sizeof(Behind))
    if step == NULL:
        return
    step.base.run = run
    step.file = file
    step.start = file.behind
    step.end = end = end - end % STEP_BYTES
    segment_file_retain(file)
    store_i32(&file.stepping, 1)
    if storage_submit(threads, &step.base):
        file.behind = end                                # the step may have ended, and is freed then
    else:
        store_i32(&file.stepping, 0)
        segment_file_release(file)
        free(step)
