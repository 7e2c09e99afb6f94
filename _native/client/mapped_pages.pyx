"""Pages of a mapped file brought into memory, off the GIL: the disk may take its time."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EINTR, EINVAL, errno
from libc.stdint cimport uintptr_t

cdef extern from *:
    """
    #include <sys/mman.h>
    #ifndef MADV_POPULATE_READ
    #define MADV_POPULATE_READ 22
    #endif
    """
    int madvise(void *address, size_t size, int advice) nogil
    int MADV_POPULATE_READ
    int MADV_SEQUENTIAL

cdef enum:
    PAGE_BYTES = 4096


def expect_sequential(memory):
    """The whole mapping will be read from its beginning to its end: more is read ahead where it is not in memory."""
    cdef Py_buffer view
    PyObject_GetBuffer(memory, &view, PyBUF_SIMPLE)
    madvise(view.buf, view.len, MADV_SEQUENTIAL)         # advice only: nothing depends on it
    PyBuffer_Release(&view)


def populate(memory):
    """Loads the pages of a part of a mapping: returns 0, or the errno of the failure (EFAULT behind the file's end, EIO
    or EHWPOISON where it cannot be read). Kernels before 5.14 lack this: 0."""
    cdef Py_buffer view
    cdef uintptr_t start, end
    cdef int error = 0
    PyObject_GetBuffer(memory, &view, PyBUF_SIMPLE)
    start = <uintptr_t>view.buf & ~<uintptr_t>(PAGE_BYTES - 1)
    end = <uintptr_t>view.buf + view.len
    with nogil:
        while madvise(<void *>start, end - start, MADV_POPULATE_READ) != 0:
            error = errno
            if error != EINTR:
                break
            error = 0
    PyBuffer_Release(&view)
    return 0 if error == EINVAL else error
