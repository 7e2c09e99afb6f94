"""Opens and creates the logs of many partitions without the GIL: to take it again after each of their file operations would
cost more than the operations, and waits for whoever has it.
"""
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free
from libc.stdio cimport snprintf
from posix.fcntl cimport O_CREAT, O_TRUNC, O_WRONLY
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from bowstring._native.base.clock cimport wall_clock_ms
from bowstring._native.disk.file_ops cimport FILE_PATH_BYTES, file_ops, write_range
from bowstring._native.disk.directory_health cimport DirectoryHealth
from bowstring._native.log.loader cimport log_create, log_free, log_open
from bowstring._native.log.partition_log cimport DIRECTORY_MAX_BYTES, owned
from bowstring._native.log.python_values cimport read_config
from bowstring._native.log.types cimport Log, LogConfig
import os
from bowstring._native.log.python_values import LogError

cdef struct Job:
    # One log to open or to create. The strings are owned by Python objects that outlive it.
    const char *directory
    const char *metadata            # of partition.metadata
    int64_t metadata_bytes
    int64_t recovery_point
    int64_t log_start_offset
    Log *log
    int error                       # of opening the log
    int made_error                  # of its directory or partition.metadata


cdef int write_metadata(const Job *job) noexcept nogil:
    cdef char[FILE_PATH_BYTES] path
    cdef int fd, error
    snprintf(path, sizeof(path), b"%s/partition.metadata", job.directory)
    fd = file_ops.open(path, O_WRONLY | O_CREAT | O_TRUNC)
    if fd < 0:
        return fd
    error = write_range(fd, job.metadata, job.metadata_bytes, 0)
    file_ops.close(fd)
    return error


cdef bint create(Job *job, const LogConfig *config, int64_t now_ms) noexcept nogil:
    job.made_error = file_ops.make_directory(job.directory)
    if job.made_error == 0:
        job.made_error = write_metadata(job)
    if job.made_error != 0:
        return False
    job.log = log_create(job.directory, config, now_ms, &job.error)
    return job.error == 0


cdef bytes path_of(directory):
    cdef bytes path = os.fsencode(directory)
    if len(path) > DIRECTORY_MAX_BYTES:
        raise ValueError(f"the path of a log directory may have {DIRECTORY_MAX_BYTES} bytes at most, not {len(path)}")
    return path


cdef object log_of(Job *job, DirectoryHealth health):
    """Returns the PartitionLog, or the LogError of opening it."""
    cdef Log *log = job.log
    job.log = NULL
    if log == NULL:
        raise MemoryError("no memory for a log")
    try:
        return owned(log, health, job.error)
    except LogError as error:
        return error


cdef void free_jobs(Job *jobs, int32_t n):
    """Frees the jobs, and logs that nobody has taken."""
    cdef int32_t i
    for i in range(n):
        if jobs[i].log != NULL:
            log_free(jobs[i].log)
    free(jobs)


def open_logs(list places not None, dict config not None, *, bint clean_shutdown, DirectoryHealth health not None):
    """Opens existing logs of one log directory, as the constructor of PartitionLog does.

    Args:
        places: ``[(directory, recovery point, log start offset)]``.
        config: As for PartitionLog.

    Returns:
        list: A PartitionLog for each, or the LogError that its constructor would raise.
    """
    cdef LogConfig settings = read_config(config)
    cdef int32_t i, n = <int32_t>len(places)
    cdef list paths = [path_of(directory) for directory, _, _ in places]
    cdef Job *jobs = <Job *>calloc(n + 1, sizeof(Job))
    cdef int64_t now_ms = wall_clock_ms()
    if jobs == NULL:
        raise MemoryError("no memory to open logs")
    try:
        for i in range(n):
            jobs[i].directory = PyBytes_AS_STRING(paths[i])
            jobs[i].recovery_point = places[i][1]
            jobs[i].log_start_offset = places[i][2]
        with nogil:
            for i in range(n):
                jobs[i].log = log_open(jobs[i].directory, &settings, jobs[i].recovery_point, clean_shutdown,
                                       jobs[i].log_start_offset, now_ms, &jobs[i].error)
        return [log_of(&jobs[i], health) for i in range(n)]
    finally:
        free_jobs(jobs, n)


def create_logs(list places not None, dict config not None, *, DirectoryHealth health not None):
    """Makes the directories of new partitions, each with its partition.metadata and an empty log.

    The index files come with the first batch. Ends at the first failure; a directory without partition.metadata is left for
    the caller to remove.

    Args:
        places: ``[(directory, content of partition.metadata)]``.
        config: As for PartitionLog.

    Returns:
        tuple: The PartitionLogs of the first places; then None, or the OSError or LogError of the place behind them.
    """
    cdef LogConfig settings = read_config(config)
    cdef int32_t i, done = 0, n = <int32_t>len(places)
    cdef list paths = [path_of(directory) for directory, _ in places]
    cdef list found = []
    cdef Job *jobs = <Job *>calloc(n + 1, sizeof(Job))
    cdef int64_t now_ms = wall_clock_ms()
    if jobs == NULL:
        raise MemoryError("no memory to create logs")
    try:
        for i in range(n):
            jobs[i].directory = PyBytes_AS_STRING(paths[i])
            jobs[i].metadata = PyBytes_AS_STRING(places[i][1])
            jobs[i].metadata_bytes = PyBytes_GET_SIZE(<bytes?>places[i][1])
        with nogil:
            while done < n and create(&jobs[done], &settings, now_ms):
                done += 1
        for i in range(done):
            found.append(log_of(&jobs[i], health))
        if done == n:
            return found, None
        if jobs[done].made_error != 0:
            return found, OSError(-jobs[done].made_error, os.strerror(-jobs[done].made_error), places[done][0])
        return found, log_of(&jobs[done], health)
    finally:
        free_jobs(jobs, n)
