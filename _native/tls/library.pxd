"""Loads OpenSSL, see library.pyx."""

cdef str last_reason()
