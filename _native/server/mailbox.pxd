"""Passes messages from other threads to a reactor: a list under a lock, and an eventfd that wakes its epoll."""
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport realloc
from posix.unistd cimport write
from bowstring._native.server.mail_types cimport Mail, Mailbox
from bowstring._native.server.plane_types cimport Plane
from bowstring._native.server.reactor_types cimport REACTOR_SHIFT
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock


cdef inline void wake(int event_fd) noexcept nogil:
    cdef uint64_t one = 1
    write(event_fd, &one, 8)


cdef inline bint put(Mailbox *box, int32_t kind, int64_t a, int64_t b, void *data, bint holds) noexcept nogil:
    """Appends one mail; wakes the owner, unless that was done since it last looked. False when memory ran out.

    ``holds``: leaves the waking to the next mail, or to :func:`release`, which the caller calls soon."""
    cdef int32_t capacity
    cdef Mail *mails
    cdef bint wakes
    pthread_mutex_lock(&box.lock)
    if box.count == box.capacity:
        capacity = box.capacity * 2 if box.capacity > 0 else 64
        mails = <Mail *>realloc(box.mails, capacity * sizeof(Mail))
        if mails == NULL:
            pthread_mutex_unlock(&box.lock)
            return False
        box.mails = mails
        box.capacity = capacity
    if box.count == 0:
        box.held = True
    box.mails[box.count].kind = kind
    box.mails[box.count].a = a
    box.mails[box.count].b = b
    box.mails[box.count].data = data
    box.count += 1
    wakes = box.held and not holds
    if wakes:
        box.held = False
    pthread_mutex_unlock(&box.lock)
    if wakes:
        wake(box.event_fd)
    return True


cdef inline bint post(Mailbox *box, int32_t kind, int64_t a, int64_t b, void *data) noexcept nogil:
    """Appends one mail, and wakes the owner. False when memory ran out."""
    return put(box, kind, a, b, data, False)


cdef inline void release(Mailbox *box) noexcept nogil:
    """Wakes the owner if mail is held."""
    cdef bint wakes
    pthread_mutex_lock(&box.lock)
    wakes = box.held and box.count > 0
    box.held = False
    pthread_mutex_unlock(&box.lock)
    if wakes:
        wake(box.event_fd)


cdef inline bint post_to(Plane *plane, int32_t kind, int64_t connection_id, int64_t b, void *data,
                         bint holds=False) noexcept nogil:
    """Sends mail about a connection to its reactor. False when memory ran out."""
    return put(&plane.reactors[(connection_id >> REACTOR_SHIFT) % plane.reactor_count].mailbox, kind,
               connection_id & ((<int64_t>1 << REACTOR_SHIFT) - 1), b, data, holds)
