"""Waits on the control thread until a partition has more to read.

A waiter is linked to its partition like a waiting fetch, with its own mailbox for wake-ups, so reactors need no extra
code or work. Call all methods on the control thread.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free
from posix.unistd cimport close, read
from bowstring._native.server.data_plane cimport DataPlane
from bowstring._native.server.topic_table cimport waiter_add, waiter_remove
from bowstring._native.server.fetch_types cimport Waiter
from bowstring._native.server.mail_types cimport Mail
from bowstring._native.server.partition_types cimport Partition
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.base.pthread cimport (
    pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock)

cdef extern from *:
    """
    #include <pthread.h>
    #include <sys/eventfd.h>
    static int new_waiters_fd(void) { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }
    """
    int new_waiters_fd()


@cython.no_gc_clear                 # deallocated in a cycle, it must still remove its waiters
cdef class LogWaiters:
    """The waiters, by number. Each is woken once.

    Raises:
        OSError: The kernel refused a descriptor.
    """

    cdef DataPlane plane                # outlives the waiters
    cdef Reactor *box                   # only its mailbox is used; it has no thread
    cdef dict waiters                   # number: address of the Waiter, which this object frees
    cdef int64_t next_number

    def __cinit__(self, DataPlane plane not None):
        self.plane = plane
        self.waiters = {}
        self.next_number = 1
        self.box = <Reactor *>calloc(1, sizeof(Reactor))
        if self.box == NULL:
            raise MemoryError
        self.box.mailbox.event_fd = new_waiters_fd()
        if self.box.mailbox.event_fd < 0:
            free(self.box)
            self.box = NULL
            raise OSError("no file descriptor for waiting local readers; raise ulimit -n")
        pthread_mutex_init(&self.box.mailbox.lock, NULL)

    def __dealloc__(self):
        if self.box != NULL:
            self.close()
            close(self.box.mailbox.event_fd)
            pthread_mutex_destroy(&self.box.mailbox.lock)
            free(self.box.mailbox.mails)
            free(self.box)

    @property
    def fd(self):
        """eventfd that is readable when take() has something."""
        return self.box.mailbox.event_fd

    def __len__(self):
        return len(self.waiters)

    def add(self, str topic, int partition):
        """Adds a waiter and returns its number. Check the log again after this call, or an append may be missed.

        Raises:
            KeyError: The partition is not served here.
        """
        cdef Partition *p = self.plane._find(topic, partition)
        cdef Waiter *waiter = <Waiter *>calloc(1, sizeof(Waiter))
        cdef int64_t number = self.next_number
        if waiter == NULL:
            raise MemoryError
        waiter.reactor = self.box
        waiter.fetch_id = number
        self.waiters[number] = <size_t>waiter
        self.next_number += 1
        waiter_add(waiter, p)
        return number

    def remove(self, int64_t number):
        """Removes a waiter, if it exists."""
        cdef size_t address = self.waiters.pop(number, 0)
        if address != 0:
            waiter_remove(<Waiter *>address)
            free(<Waiter *>address)

    def take(self):
        """Removes the waiters that were woken and returns their numbers."""
        cdef uint64_t count
        cdef Mail *mails
        cdef int32_t n, i
        read(self.box.mailbox.event_fd, &count, 8)
        pthread_mutex_lock(&self.box.mailbox.lock)
        mails = self.box.mailbox.mails
        n = self.box.mailbox.count
        self.box.mailbox.mails = NULL
        self.box.mailbox.count = self.box.mailbox.capacity = 0
        pthread_mutex_unlock(&self.box.mailbox.lock)
        woken = {mails[i].a for i in range(n)} & self.waiters.keys()
        free(mails)
        for number in woken:
            self.remove(number)
        return woken

    def close(self):
        """Removes all waiters. Call it before the data plane is freed."""
        for number in list(self.waiters):
            self.remove(number)
