"""CRC-32C (Castagnoli), see crc32c.h; the Python functions are for tests, tools and benches."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef extern from "base/crc32c.h" nogil:
    ctypedef uint32_t (*crc32c_kernel_fn)(uint32_t remainder, const uint8_t *data, size_t size) noexcept nogil
    ctypedef struct Kernel "typeof(crc32c_kernels[0])":
        const char *name
        crc32c_kernel_fn kernel
        int (*supported)() noexcept nogil
    const Kernel crc32c_kernels[]
    int CRC32C_KERNELS
    uint32_t crc32c_extend(uint32_t crc, const uint8_t *data, size_t size)


cdef uint32_t crc32c_update(uint32_t crc, const uint8_t *data, int64_t size) noexcept nogil:
    return crc32c_extend(crc, data, <size_t>size)


# ---------------------------------------------------------------- joining two pieces

# A CRC is the remainder of a division by the polynomial. Appending n bytes multiplies the remainder by x**(8 * n).
# Integers represent polynomials as in the CRC itself: the highest bit is x**0.

cdef enum:
    POLYNOMIAL = 0x82F63B78
    POWERS = 64

cdef uint32_t powers[POWERS]                             # x**(2**i)


cdef uint32_t product(uint32_t a, uint32_t b) noexcept nogil:
    cdef uint32_t bit = <uint32_t>1 << 31, result = 0
    while True:
        if a & bit:
            result ^= b
            if a & (bit - 1) == 0:
                return result
        bit >>= 1
        if bit == 0:
            return result
        b = (b >> 1) ^ <uint32_t>POLYNOMIAL if b & 1 else b >> 1


cdef void find_powers() noexcept:
    cdef int i
    powers[0] = <uint32_t>1 << 30
    for i in range(1, POWERS):
        powers[i] = product(powers[i - 1], powers[i - 1])

find_powers()


cdef uint32_t crc32c_factor(int64_t size) noexcept nogil:
    cdef uint32_t factor = <uint32_t>1 << 31
    cdef int power = 3                                   # a byte is x**8
    while size > 0:
        if size & 1:
            factor = product(powers[power], factor)
        size >>= 1
        power += 1
    return factor


cdef uint32_t crc32c_joined(uint32_t crc, uint32_t following, uint32_t factor) noexcept nogil:
    return product(factor, crc) ^ following

# ---------------------------------------------------------------- Python functions


def crc32c_combine(uint32_t crc, uint32_t following, int64_t size):
    """Returns the CRC-32C of two adjacent pieces: `crc` is that of the first, `following` that of the second, which
    has `size` bytes. ValueError for a negative size.

    >>> crc32c_combine(crc32c(b"12345"), crc32c(b"6789"), 4) == crc32c(b"123456789")
    True
    """
    if size < 0:
        raise ValueError(f"size is {size}, it must not be negative")
    return crc32c_joined(crc, following, crc32c_factor(size))


cdef uint32_t of_buffer(crc32c_kernel_fn kernel, object data, uint32_t crc) except? 0:
    """Computes with `kernel`, or with the chosen kernel if it is NULL. Releases the GIL: buffers can be large."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        with nogil:
            if kernel == NULL:
                crc = crc32c_extend(crc, <const uint8_t *>view.buf, <size_t>view.len)
            else:
                crc = <uint32_t>~kernel(~crc, <const uint8_t *>view.buf, <size_t>view.len)
    finally:
        PyBuffer_Release(&view)
    return crc


def crc32c(data, uint32_t crc=0):
    """Returns the CRC-32C of bytes-like `data`; `crc` is that of the bytes before it, 0 if there are none.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    return of_buffer(NULL, data, crc)


def implementations():
    """Returns the names of the kernels that this processor can run, slowest first; the last one is in use."""
    return [crc32c_kernels[i].name.decode() for i in range(CRC32C_KERNELS) if crc32c_kernels[i].supported()]


def crc32c_by(str name not None, data, uint32_t crc=0):
    """Computes crc32c() with the kernel `name`, one of implementations(); ValueError for any other name."""
    cdef int i
    for i in range(CRC32C_KERNELS):
        if crc32c_kernels[i].name.decode() == name and crc32c_kernels[i].supported():
            return of_buffer(crc32c_kernels[i].kernel, data, crc)
    raise ValueError(f"this processor has no CRC-32C kernel {name!r}; it has {', '.join(implementations())}")
