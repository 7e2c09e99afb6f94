/* Atomic loads and stores for fields that several threads read without a lock. */
#pragma once
#include <stdint.h>
static inline int64_t load_i64(const int64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline void store_i64(int64_t *p, int64_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
static inline int64_t add_i64(int64_t *p, int64_t v) { return __atomic_add_fetch(p, v, __ATOMIC_ACQ_REL); }
/* Stores `v` if *p is `expected`; returns whether it did. */
static inline int cas_i64(int64_t *p, int64_t expected, int64_t v) {
    return __atomic_compare_exchange_n(p, &expected, v, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}
static inline int32_t load_i32(const int32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline void store_i32(int32_t *p, int32_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
static inline int32_t add_i32(int32_t *p, int32_t v) { return __atomic_add_fetch(p, v, __ATOMIC_ACQ_REL); }
static inline void *load_pointer(void *const *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline void store_pointer(void **p, void *v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
/* Adds to a counter that has one writer: readers may see an old value, but never a torn one. */
static inline void bump_i64(int64_t *p, int64_t v) { __atomic_store_n(p, __atomic_load_n(p, __ATOMIC_RELAXED) + v, __ATOMIC_RELAXED); }
/* Orders a store before a later load of something else (publish, then look for waiters). */
static inline void full_fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
