"""Decodes strings of requests, see texts.pxd."""
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, uint8_t
from bowstring._native.base.wire cimport STRING_MAX, Reader, read_string

cdef object EMPTY = ""


cdef object text_of(Reader *r, bint compact, bint nullable):
    cdef const uint8_t *at
    cdef int32_t n = read_string(r, compact, &at)
    if n < 0:
        if not nullable:
            r.bad = True
        return None
    if n == 0:
        return EMPTY
    if n > STRING_MAX:
        r.bad = True
        return None
    try:
        return PyUnicode_DecodeUTF8(<const char *>at, n, NULL)
    except UnicodeDecodeError:
        r.bad = True
        return None
