"""Atomic access to fields that several threads read without a lock."""
from libc.stdint cimport int32_t, int64_t

cdef extern from "base/atomics.h" nogil:
    int64_t load_i64(const int64_t *p)
    void store_i64(int64_t *p, int64_t v)
    int64_t add_i64(int64_t *p, int64_t v)
    bint cas_i64(int64_t *p, int64_t expected, int64_t v)
    int32_t load_i32(const int32_t *p)
    void store_i32(int32_t *p, int32_t v)
    int32_t add_i32(int32_t *p, int32_t v)
    void bump_i64(int64_t *p, int64_t v)
    void *load_pointer(void **p)
    void store_pointer(void **p, void *v)
    void full_fence()
