"""Error numbers that Cython's libc.errno lacks."""

cdef extern from "errno.h" nogil:
    int ECANCELED
    int EDQUOT
