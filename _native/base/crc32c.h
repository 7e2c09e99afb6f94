/* CRC-32C (Castagnoli), as Kafka's record batches and RFC 3720 use it: reflected polynomial 0x82f63b78,
 * initial value and final xor all ones.
 *
 * A kernel continues a raw remainder: no inversion before or after. crc32c_choose() runs when the shared
 * object is loaded and points crc32c_kernel at the fastest one this processor has; crc.pyx includes this
 * file once and exports the result, so that there is one set of tables and one choice per process.
 *
 * Folding (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction"): 16 bytes
 * are carried d bytes forward by multiplying their first half by x^(8d+31) mod P and their second half by
 * x^(8d-33) mod P, both bit-reflected, and adding what they land on.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "crc32c.h is written for little-endian machines"
#endif

typedef uint32_t (*crc32c_kernel_fn)(uint32_t remainder, const uint8_t *data, size_t size);

#define CRC32C_POLYNOMIAL 0x82f63b78u

static inline uint64_t crc32c_load64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* ---------------------------------------------------------------- portable: slicing by 8 */

static uint32_t crc32c_table[8][256];

static void crc32c_fill_table(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t r = byte;
        for (int bit = 0; bit < 8; bit++)
            r = (r >> 1) ^ ((r & 1) ? CRC32C_POLYNOMIAL : 0);
        crc32c_table[0][byte] = r;
    }
    for (int slice = 1; slice < 8; slice++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t r = crc32c_table[slice - 1][byte];
            crc32c_table[slice][byte] = (r >> 8) ^ crc32c_table[0][r & 0xff];
        }
}

static uint32_t crc32c_portable(uint32_t r, const uint8_t *p, size_t n) {
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t v = crc32c_load64(p) ^ r;
        r = crc32c_table[7][v & 0xff] ^ crc32c_table[6][(v >> 8) & 0xff] ^ crc32c_table[5][(v >> 16) & 0xff] ^
            crc32c_table[4][(v >> 24) & 0xff] ^ crc32c_table[3][(v >> 32) & 0xff] ^
            crc32c_table[2][(v >> 40) & 0xff] ^ crc32c_table[1][(v >> 48) & 0xff] ^ crc32c_table[0][v >> 56];
    }
    for (; n > 0; p++, n--)
        r = (r >> 8) ^ crc32c_table[0][(r ^ *p) & 0xff];
    return r;
}

#if defined(__x86_64__)
/* ---------------------------------------------------------------- x86-64 */
#include <immintrin.h>

#define CRC32C_SSE42 __attribute__((target("sse4.2")))
#define CRC32C_PCLMUL __attribute__((target("sse4.2,pclmul")))
#define CRC32C_AVX512 __attribute__((target("sse4.2,pclmul,vpclmulqdq,avx512f,avx512vl,avx512dq,avx512bw")))

/* Below this size, one dependent chain of crc32 instructions is faster than the wider kernels. */
#define CRC32C_WIDE_MIN_BYTES 512

CRC32C_SSE42 static uint32_t crc32c_sse42(uint32_t r, const uint8_t *p, size_t n) {
    uint64_t r64 = r;
    for (; n >= 8; p += 8, n -= 8)
        r64 = _mm_crc32_u64(r64, crc32c_load64(p));
    for (; n > 0; p++, n--)
        r64 = _mm_crc32_u8((uint32_t)r64, *p);
    return (uint32_t)r64;
}

/* x^n mod P, bit-reflected, by square and multiply (after Fulton's "Efficient CRC32C"). */
CRC32C_PCLMUL static uint32_t crc32c_power(uint64_t n) {
    uint64_t stack = ~(uint64_t)1;
    uint32_t r;
    for (; n > 191; n = (n >> 1) - 16)
        stack = (stack << 1) + (n & 1);
    stack = ~stack;
    r = 0x80000000u >> (n & 31);
    for (n >>= 5; n > 0; n--)
        r = _mm_crc32_u32(r, 0);
    for (;;) {
        uint64_t low = stack & 1;
        __m128i x;
        stack >>= 1;
        if (stack == 0)
            return r;
        x = _mm_cvtsi32_si128((int)r);
        r = (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(x, x, 0)) << low);
    }
}

/* Returns the value to xor into the next 8 data bytes, which moves a remainder `bytes` ahead (including those 8). */
CRC32C_PCLMUL static uint64_t crc32c_carry(uint32_t remainder, size_t bytes) {
    __m128i factor = _mm_cvtsi32_si128((int)crc32c_power(bytes * 8 - 33));
    return (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(_mm_cvtsi32_si128((int)remainder), factor, 0));
}

/* Three interleaved chains hide the 3-cycle latency of crc32; PCLMUL joins them. */
CRC32C_PCLMUL static uint32_t crc32c_3way(uint32_t r, const uint8_t *p, size_t n) {
    if (n >= CRC32C_WIDE_MIN_BYTES) {
        size_t lane = (n - 8) / 24 * 8;
        uint64_t a = r, b = 0, c = 0;
        for (size_t i = 0; i < lane; i += 8) {
            a = _mm_crc32_u64(a, crc32c_load64(p + i));
            b = _mm_crc32_u64(b, crc32c_load64(p + lane + i));
            c = _mm_crc32_u64(c, crc32c_load64(p + 2 * lane + i));
        }
        p += 3 * lane;
        r = (uint32_t)_mm_crc32_u64(c, crc32c_load64(p) ^ crc32c_carry((uint32_t)a, 2 * lane + 8) ^
                                           crc32c_carry((uint32_t)b, lane + 8));
        p += 8;
        n -= 3 * lane + 8;
    }
    return crc32c_sse42(r, p, n);
}

/* Factors that carry 16 bytes ahead; the low half is for the first 8 of them. */
#define CRC32C_FOLD_16 0x493c7d27u, 0xf20c0dfeu
#define CRC32C_FOLD_64 0x9e4addf8u, 0x740eef02u
#define CRC32C_FOLD_256 0xb9e02b86u, 0xdcb17aa4u

CRC32C_PCLMUL static inline __m128i crc32c_factors(uint32_t high, uint32_t low) {
    return _mm_set_epi64x((long long)high, (long long)low);
}

CRC32C_PCLMUL static inline __m128i crc32c_fold128(__m128i x, __m128i factors, __m128i onto) {
    return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, factors, 0x00),
                                       _mm_clmulepi64_si128(x, factors, 0x11)), onto);
}

CRC32C_AVX512 static inline __m512i crc32c_fold512(__m512i x, __m512i factors, __m512i onto) {
    const int XOR3 = 0x96;
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, factors, 0x00),
                                     _mm512_clmulepi64_epi128(x, factors, 0x11), onto, XOR3);
}

/* Four registers of 64 bytes fold 256 bytes ahead, then into one, then into 16 bytes. */
CRC32C_AVX512 static uint32_t crc32c_avx512(uint32_t r, const uint8_t *p, size_t n) {
    __m512i x0, x1, x2, x3, by256, by64;
    __m128i y, by16;
    if (n < CRC32C_WIDE_MIN_BYTES)
        return crc32c_sse42(r, p, n);
    by256 = _mm512_broadcast_i32x4(crc32c_factors(CRC32C_FOLD_256));
    by64 = _mm512_broadcast_i32x4(crc32c_factors(CRC32C_FOLD_64));
    by16 = crc32c_factors(CRC32C_FOLD_16);
    x0 = _mm512_xor_si512(_mm512_zextsi128_si512(_mm_cvtsi32_si128((int)r)), _mm512_loadu_si512(p));
    x1 = _mm512_loadu_si512(p + 64);
    x2 = _mm512_loadu_si512(p + 128);
    x3 = _mm512_loadu_si512(p + 192);
    for (p += 256, n -= 256; n >= 256; p += 256, n -= 256) {
        x0 = crc32c_fold512(x0, by256, _mm512_loadu_si512(p));
        x1 = crc32c_fold512(x1, by256, _mm512_loadu_si512(p + 64));
        x2 = crc32c_fold512(x2, by256, _mm512_loadu_si512(p + 128));
        x3 = crc32c_fold512(x3, by256, _mm512_loadu_si512(p + 192));
    }
    x0 = crc32c_fold512(crc32c_fold512(crc32c_fold512(x0, by64, x1), by64, x2), by64, x3);
    for (; n >= 64; p += 64, n -= 64)
        x0 = crc32c_fold512(x0, by64, _mm512_loadu_si512(p));
    y = crc32c_fold128(_mm512_castsi512_si128(x0), by16, _mm512_extracti64x2_epi64(x0, 1));
    y = crc32c_fold128(y, by16, _mm512_extracti64x2_epi64(x0, 2));
    y = crc32c_fold128(y, by16, _mm512_extracti64x2_epi64(x0, 3));
    r = (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(y));
    r = (uint32_t)_mm_crc32_u64(r, (uint64_t)_mm_extract_epi64(y, 1));
    return crc32c_sse42(r, p, n);
}

static int crc32c_has_sse42(void) { return __builtin_cpu_supports("sse4.2"); }
static int crc32c_has_pclmul(void) { return crc32c_has_sse42() && __builtin_cpu_supports("pclmul"); }
static int crc32c_has_avx512(void) {
    return crc32c_has_pclmul() && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw");
}

#elif defined(__aarch64__) && defined(__linux__)
/* ---------------------------------------------------------------- ARMv8 */
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

__attribute__((target("+crc"))) static uint32_t crc32c_armv8(uint32_t r, const uint8_t *p, size_t n) {
    for (; n >= 8; p += 8, n -= 8)
        r = __crc32cd(r, crc32c_load64(p));
    for (; n > 0; p++, n--)
        r = __crc32cb(r, *p);
    return r;
}

static int crc32c_has_armv8(void) { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
#endif

/* ---------------------------------------------------------------- choice */

static int crc32c_always(void) { return 1; }

/* Slowest first; the last one the processor supports is used. */
static const struct {
    const char *name;
    crc32c_kernel_fn kernel;
    int (*supported)(void);
} crc32c_kernels[] = {
    {"portable", crc32c_portable, crc32c_always},
#if defined(__x86_64__)
    {"sse4.2", crc32c_sse42, crc32c_has_sse42},
    {"sse4.2 3-way", crc32c_3way, crc32c_has_pclmul},
    {"avx512 vpclmulqdq", crc32c_avx512, crc32c_has_avx512},
#elif defined(__aarch64__) && defined(__linux__)
    {"armv8 crc", crc32c_armv8, crc32c_has_armv8},
#endif
};

enum { CRC32C_KERNELS = sizeof(crc32c_kernels) / sizeof(crc32c_kernels[0]) };

static crc32c_kernel_fn crc32c_kernel = crc32c_portable;

__attribute__((constructor)) static void crc32c_choose(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
#endif
    crc32c_fill_table();
    for (int i = 0; i < CRC32C_KERNELS; i++)
        if (crc32c_kernels[i].supported())
            crc32c_kernel = crc32c_kernels[i].kernel;
}

/* `crc` is what an earlier call returned for the bytes before these, or 0. */
static inline uint32_t crc32c_extend(uint32_t crc, const uint8_t *data, size_t size) {
    return ~crc32c_kernel(~crc, data, size);
}
