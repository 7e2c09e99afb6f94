"""Headers out of Arrow data; see arrow_headers.pyx."""
from libc.stdint cimport int64_t
from bowstring._native.arrow_input cimport ArrowArray
from bowstring._native.encode cimport BinaryColumn
from bowstring._native.wire cimport Writer

# Headers of each row as records have them, none for none, into `packed`, and where each row's end into `ends`; -1, or
# the first row with a header that has no name, or -2 when memory ran out. `wide`: lists have offsets of 64 bits.
cdef int64_t pack_rows(
    Writer *packed, int64_t *ends, const ArrowArray *lists, int64_t skip, int64_t rows, bint wide,
    const BinaryColumn *names, const BinaryColumn *values) noexcept nogil
