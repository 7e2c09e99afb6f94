"""File descriptors kept for files, see descriptors.pxd."""
from libc.errno cimport EMFILE, ENFILE
from libc.stdint cimport int32_t, int64_t, uint64_t
from posix.unistd cimport close, write
from bowstring._native.base.atomics cimport add_i64, load_i32, load_i64, store_i32
from bowstring._native.base.pthread cimport (
    pthread_mutex_init, pthread_mutex_lock, pthread_mutex_t, pthread_mutex_unlock)

cdef extern from *:
    """
    #include <fcntl.h>
    #include <unistd.h>
    /* The first descriptor of the reserve is a file of its own, the others are its duplicates: the system's table of open
       files, which all processes share, gets one entry. */
    static int keep_one(int other) {
        return other >= 0 ? fcntl(other, F_DUPFD_CLOEXEC, 0) : open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    """
    int keep_one(int other) nogil

cdef enum:
    RESERVE_MAX = 4096
    LISTENERS_MAX = 64

# Guarded by `lock`, a leaf; `short` and the counters are atomic.
cdef pthread_mutex_t lock
cdef int[RESERVE_MAX] held
cdef int32_t held_count = 0
cdef int32_t wanted = 1             # one at least: to accept a connection that is refused
cdef int32_t users = 0
cdef int[LISTENERS_MAX] listeners
cdef int32_t listener_count = 0
cdef int32_t short = 0
cdef int64_t shortages = 0
cdef int64_t refused = 0
pthread_mutex_init(&lock, NULL)


cdef void begin_shortage() noexcept nogil:
    """Call it under the lock."""
    cdef uint64_t one = 1
    cdef int32_t i
    if load_i32(&short):
        return
    store_i32(&short, 1)
    add_i64(&shortages, 1)
    for i in range(listener_count):
        write(listeners[i], &one, 8)                     # full: the listener looks anyway


cdef int take_lowest() noexcept nogil:
    """Removes the lowest descriptor: a limit that was lowered meanwhile allows only low ones to be opened again."""
    global held_count
    cdef int32_t i, at = 0
    cdef int fd
    for i in range(1, held_count):
        if held[i] < held[at]:
            at = i
    fd = held[at]
    held_count -= 1
    held[at] = held[held_count]
    return fd


cdef bint descriptors_lend(int error) noexcept nogil:
    cdef int fd = -1
    if error != -EMFILE and error != -ENFILE:
        return False
    pthread_mutex_lock(&lock)
    begin_shortage()
    if error == -EMFILE and held_count > 0:
        fd = take_lowest()
    pthread_mutex_unlock(&lock)
    if fd >= 0:
        close(fd)
    return fd >= 0


cdef bint descriptors_short() noexcept nogil:
    return load_i32(&short) != 0


cdef bint descriptors_refill() noexcept nogil:
    global held_count
    cdef int fd
    cdef bint full
    pthread_mutex_lock(&lock)
    while held_count < wanted:
        fd = keep_one(held[held_count - 1] if held_count > 0 else -1)
        if fd < 0:
            break
        held[held_count] = fd
        held_count += 1
    full = held_count >= wanted
    if full:
        store_i32(&short, 0)
    pthread_mutex_unlock(&lock)
    return full


cdef void descriptors_refused() noexcept nogil:
    add_i64(&refused, 1)


def lend(int error):
    """Gives up one descriptor of the reserve.

    Args:
        error: The errno of the call that failed.

    Returns:
        bool: Whether the caller should try again.
    """
    return descriptors_lend(-error)


def refill():
    """Fills the reserve as far as possible; returns whether it is full, which ends a shortage."""
    return descriptors_refill()


def reserve(int32_t n, int event_fd):
    """Keeps at least `n` descriptors, 4096 at most, until `release`. An eventfd is written to when a shortage begins.

    Returns:
        bool: Whether so many descriptors are there.
    """
    global wanted, users, listener_count
    pthread_mutex_lock(&lock)
    users += 1
    if listener_count < LISTENERS_MAX:
        listeners[listener_count] = event_fd
        listener_count += 1
    wanted = max(wanted, min(n, <int32_t>RESERVE_MAX))
    pthread_mutex_unlock(&lock)
    return descriptors_refill()


def release(int event_fd):
    """Ends what `reserve` began; the last one closes the reserve."""
    global wanted, users, listener_count, held_count
    cdef int32_t i
    pthread_mutex_lock(&lock)
    users -= 1
    for i in range(listener_count):
        if listeners[i] == event_fd:
            listener_count -= 1
            listeners[i] = listeners[listener_count]
            break
    if users == 0:
        wanted = 1
        for i in range(held_count):
            close(held[i])
        held_count = 0
        store_i32(&short, 0)
    pthread_mutex_unlock(&lock)


def stats():
    """Returns the counters: how many descriptors are held of how many wanted, whether they are short, how often they were,
    and how many connections were refused meanwhile."""
    return {
        "held": held_count,
        "wanted": wanted,
        "short": load_i32(&short) != 0,
        "shortages": load_i64(&shortages),
        "refused_connections": load_i64(&refused),
    }
