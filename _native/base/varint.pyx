"""Varints in bulk, for tools, tests and benches; the inline functions are in varint.pxd."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy


def encode_varlongs(values):
    """Returns the int64s in the buffer `values` encoded as varlongs, one after the other."""
    cdef Py_buffer view
    cdef int64_t i, n, value, size = 0
    cdef uint8_t *at
    cdef bytes out
    PyObject_GetBuffer(values, &view, PyBUF_SIMPLE)
    try:
        n = view.len // 8
        for i in range(n):
            memcpy(&value, <const uint8_t *>view.buf + 8 * i, 8)
            size += varint_size(value)
        out = PyBytes_FromStringAndSize(NULL, size)
        at = <uint8_t *>PyBytes_AS_STRING(out)
        with nogil:
            for i in range(n):
                memcpy(&value, <const uint8_t *>view.buf + 8 * i, 8)
                at = put_varint(at, value)
    finally:
        PyBuffer_Release(&view)
    return out


def decode_varlongs(data, values):
    """Decodes varlongs from `data` into the writable buffer of int64s `values` until either ends; returns their number.

    ValueError if one is truncated or longer than VARLONG_MAX_BYTES.
    """
    cdef Py_buffer source, target
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef int64_t n = 0, room, value = 0
    cdef bint good = True
    PyObject_GetBuffer(data, &source, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(values, &target, PyBUF_SIMPLE | PyBUF_WRITABLE)
        try:
            at = <const uint8_t *>source.buf
            end = at + source.len
            room = target.len // 8
            with nogil:
                while good and at < end and n < room:
                    good = get_varlong(&at, end, False, &value)
                    if good:
                        memcpy(<uint8_t *>target.buf + 8 * n, &value, 8)
                        n += 1
        finally:
            PyBuffer_Release(&target)
    finally:
        PyBuffer_Release(&source)
    if not good:
        raise ValueError(f"varlong number {n} is truncated or longer than {VARLONG_MAX_BYTES} bytes")
    return n
