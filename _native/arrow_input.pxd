"""Columns that other libraries lend through Arrow's C data interface, as the encoder takes them.

Nothing is copied: the columns are valid until the array they came from is released.
"""
from libc.stdint cimport int8_t, int64_t, uint8_t
from bowstring._native.encode cimport BinaryColumn

cdef extern from "arrow_c_data.h":
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
    # Integers of 1, 2, 4 or 8 bytes; of timestamps with what makes milliseconds of them.
    const void *values            # NULL: every row is null
    const uint8_t *validity
    int64_t validity_offset
    int64_t offset                # of row 0 in `values`
    int64_t multiplier
    int64_t divisor
    int8_t bytes
    int8_t is_signed

# What is wrong with a column's type for its role, as a text that follows the column's name; None when nothing is.
cdef object bytes_type_problem(const ArrowSchema *schema)
cdef object timestamp_type_problem(const ArrowSchema *schema)
cdef object integer_type_problem(const ArrowSchema *schema)
cdef object headers_type_problem(const ArrowSchema *schema)

# `skip` is how many rows of the array come before row 0: the offset of the struct it is a child of.
cdef void bind_bytes(const ArrowSchema *schema, const ArrowArray *array, int64_t skip, BinaryColumn *out) noexcept
cdef void bind_numbers(const ArrowSchema *schema, const ArrowArray *array, int64_t skip, NumberColumn *out) noexcept

# Rows of a number column; `valid` says whether there is one.
cdef int64_t number_get(const NumberColumn *c, int64_t row, bint *valid) noexcept nogil
