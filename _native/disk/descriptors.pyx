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
    #include <sys/resource.h>
    #include <unistd.h>
    static int64_t limit_now(void) {
        struct rlimit limit;
        return getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT32_MAX ? INT32_MAX : (int64_t)limit.rlim_cur;
    }
    /* The first descriptor of the reserve is a file of its own, the others are its duplicates: the system's table of open
       files, which all processes share, gets one entry. */
    static int keep_one(int other, int from) {
        int fd;
        if (other < 0)
            return open("/dev/null", O_RDONLY | O_CLOEXEC);
        fd = fcntl(other, F_DUPFD_CLOEXEC, from);
        return fd < 0 && from > 0 ? fcntl(other, F_DUPFD_CLOEXEC, 0) : fd;
    }
    static __thread int takes_last = 0;
    """
    int takes_last
    int keep_one(int other, int start) nogil
    int64_t limit_now() nogil

cdef enum:
    RESERVE_MIN = 16
    RESERVE_MAX = 1024
    LAST = 8                        # descriptors of the reserve that files of partitions do not get
    SHARE = 8                       # the reserve's part of the limit: one in so many
    LOW_MAX = 64                    # descriptors of the reserve below HIGH: of use when the limit is lowered
    HIGH = 4096                     # the others begin here: what waits with select(2) in this process needs those below 1,024
    LISTENERS_MAX = 64

# Guarded by `lock`, a leaf; `short` and the counters are atomic.
cdef pthread_mutex_t lock
cdef int[RESERVE_MAX] held
cdef int32_t held_count = 0
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


cdef bint lend_above(int32_t kept, int error) noexcept nogil:
    """Gives up one descriptor unless no more than `kept` are in the reserve."""
    cdef int fd = -1
    if error != -EMFILE and error != -ENFILE:
        return False
    pthread_mutex_lock(&lock)
    begin_shortage()
    if error == -EMFILE and held_count > (kept if users > 0 else 0):
        fd = take_lowest()
    pthread_mutex_unlock(&lock)
    if fd >= 0:
        close(fd)
    return fd >= 0


cdef bint descriptors_lend(int error) noexcept nogil:
    return lend_above(0 if takes_last else LAST, error)


cdef bint descriptors_lend_last(int error) noexcept nogil:
    return lend_above(0, error)


cdef bint descriptors_allow() noexcept nogil:
    cdef bint allowed
    if not load_i32(&short) or takes_last:
        return True
    pthread_mutex_lock(&lock)
    allowed = users == 0 or held_count >= LAST
    pthread_mutex_unlock(&lock)
    return allowed


cdef bint descriptors_short() noexcept nogil:
    return load_i32(&short) != 0


cdef int32_t size_under(int64_t limit) noexcept nogil:
    """Returns how many descriptors are kept under a limit on open files."""
    return <int32_t>min(<int64_t>RESERVE_MAX, max(<int64_t>RESERVE_MIN, limit // SHARE))


cdef int32_t drop_above(int64_t limit, int32_t high) noexcept nogil:
    """Closes what a lowered limit has made useless. Returns how many of the others are below `high`. Call it under the lock."""
    global held_count
    cdef int32_t i = 0, low = 0
    while i < held_count:
        if held[i] >= limit:
            close(held[i])
            held_count -= 1
            held[i] = held[held_count]
            continue
        low += held[i] < high
        i += 1
    return low


cdef bint descriptors_refill() noexcept nogil:
    global held_count
    cdef int fd
    cdef int32_t wanted, high, low
    cdef int64_t limit = limit_now()
    cdef bint enough
    pthread_mutex_lock(&lock)
    wanted = size_under(limit) if users > 0 else 1           # one, to accept connections that are refused
    high = <int32_t>max(<int64_t>0, min(<int64_t>HIGH, limit - max(wanted - LOW_MAX, 0)))
    low = drop_above(limit, high)
    while held_count > wanted:
        held_count -= 1
        close(held[held_count])
    while held_count < wanted:
        fd = keep_one(held[held_count - 1] if held_count > 0 else -1, 0 if low < LOW_MAX else high)
        if fd < 0:
            break
        held[held_count] = fd
        held_count += 1
        low += 1
    enough = 2 * held_count >= wanted
    if enough:
        store_i32(&short, 0)
    pthread_mutex_unlock(&lock)
    return enough


cdef void descriptors_refused() noexcept nogil:
    add_i64(&refused, 1)


def lend(int error):
    """Gives up one descriptor of the reserve, also of the last.

    Args:
        error: The errno of the call that failed.

    Returns:
        bool: Whether the caller should try again.
    """
    return descriptors_lend_last(-error)


def this_thread_takes_last():
    """Lets native code of the calling thread have the last descriptors: the node cannot go on without what it opens."""
    global takes_last
    takes_last = 1


def make_room(int32_t n):
    """Gives up descriptors of the reserve, also of the last, until ``n`` can be opened.

    Args:
        n: At most 8.

    Returns:
        bool: Whether they can.
    """
    cdef int[LAST] opened
    cdef int32_t i, count = 0
    assert 0 <= n <= LAST
    while count < n:
        opened[count] = keep_one(-1, 0)
        if opened[count] >= 0:
            count += 1
        elif not descriptors_lend_last(-EMFILE):
            break
    for i in range(count):
        close(opened[i])
    return count == n


def refill():
    """Fills the reserve as far as possible; returns whether it is half full, which ends a shortage."""
    return descriptors_refill()


def size(int64_t limit):
    """Returns how many descriptors are kept under a limit on open files."""
    return size_under(limit)


def reserve(int event_fd):
    """Keeps descriptors until `release`. An eventfd is written to when a shortage begins.

    Returns:
        bool: Whether half of them are there.
    """
    global users, listener_count
    pthread_mutex_lock(&lock)
    users += 1
    if listener_count < LISTENERS_MAX:
        listeners[listener_count] = event_fd
        listener_count += 1
    pthread_mutex_unlock(&lock)
    return descriptors_refill()


def release(int event_fd):
    """Ends what `reserve` began; the last one closes the reserve."""
    global users, listener_count, held_count
    cdef int32_t i
    pthread_mutex_lock(&lock)
    users -= 1
    for i in range(listener_count):
        if listeners[i] == event_fd:
            listener_count -= 1
            listeners[i] = listeners[listener_count]
            break
    if users == 0:
        for i in range(held_count):
            close(held[i])
        held_count = 0
        store_i32(&short, 0)
    pthread_mutex_unlock(&lock)


def stats():
    """Returns the counters: how many descriptors are held, whether they are short, how often they were, and how many
    connections were refused meanwhile."""
    return {
        "held": held_count,
        "short": load_i32(&short) != 0,
        "shortages": load_i64(&shortages),
        "refused_connections": load_i64(&refused),
    }
