"""Reads columns that other libraries lend through Arrow's C data interface, in the form that the encoder needs.

Only headers are copied. The other columns are valid until the array they came from is released.
"""
from libc.stdint cimport int8_t, int64_t, uint8_t
from bowstring._native.base.wire cimport Writer
from bowstring._native.record.encode cimport BinaryColumn

cdef extern from "arrow/c_data.h":
    struct ArrowSchema:
        const char *format
        const char *name
        int64_t n_children
        ArrowSchema **children
        ArrowSchema *dictionary
        void (*release)(ArrowSchema *)
    struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_buffers
        int64_t n_children
        const void **buffers
        ArrowArray **children
        ArrowArray *dictionary
        void (*release)(ArrowArray *)
    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream *, ArrowSchema *out) noexcept nogil
        int (*get_next)(ArrowArrayStream *, ArrowArray *out) noexcept nogil
        const char *(*get_last_error)(ArrowArrayStream *) noexcept nogil
        void (*release)(ArrowArrayStream *)

cdef struct NumberColumn:
    # Integers of 1, 2, 4 or 8 bytes; for timestamps with the factor or divisor that converts to milliseconds.
    const void *values            # NULL: every row is null
    const uint8_t *validity
    int64_t validity_offset
    int64_t offset                # of row 0 in `values`
    int64_t multiplier
    int64_t divisor
    int8_t bytes
    int8_t is_signed

# Each returns why a column's type does not fit its role, as text to follow the column's name; None if it fits.
cdef object bytes_type_problem(const ArrowSchema *schema)
cdef object timestamp_type_problem(const ArrowSchema *schema)
cdef object integer_type_problem(const ArrowSchema *schema)
cdef object headers_type_problem(const ArrowSchema *schema)

# `skip` is the number of rows of the array before row 0: the offset of its parent struct.
cdef void bind_bytes(const ArrowSchema *schema, const ArrowArray *array, int64_t skip, BinaryColumn *out) noexcept
cdef void bind_numbers(const ArrowSchema *schema, const ArrowArray *array, int64_t skip, NumberColumn *out) noexcept

# Returns the number of a row; sets `valid` to whether the row is not null.
cdef int64_t number_get(const NumberColumn *c, int64_t row, bint *valid) noexcept nogil

# Writes the headers of each row to `packed`, encoded as in records (nothing for a row without headers), and the end of
# each row to `ends`. `lists` has (name, value) pairs; `wide`: its offsets have 64 bits. Returns -1, or the first row with
# a header without a name, or -2 when memory ran out.
cdef int64_t pack_rows(
    Writer *packed, int64_t *ends, const ArrowArray *lists, int64_t skip, int64_t rows, bint wide,
    const BinaryColumn *names, const BinaryColumn *values) noexcept nogil
