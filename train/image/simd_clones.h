/* simd_clones.h - loops over pixels, compiled several times on x86-64: plain, for AVX2 and for AVX-512, chosen by what the CPU
 * has. On aarch64 once: NEON is part of it.
 *
 * The body is one always-inlined function in plain C; the compiler vectorises it under each target. Results are the same bits:
 * bodies use integers, or floating point without contraction and without sums that could be reordered.
 *     GF_LANES_BODY void scale_body(uint8_t *x, size_t n) { ... }
 *     GF_LANES(static, scale, (uint8_t *x, size_t n), (x, n))          defines static void scale(uint8_t *x, size_t n)
 * GF_PORTABLE_PIXELS: plain loops alone, for tests that compare with them.
 */
#pragma once

#define GF_LANES_BODY static inline __attribute__((always_inline))

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* gcc contracts nothing in standard C */
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(GF_PORTABLE_PIXELS)
#ifdef __clang__
#define GF_LANES_WIDE "avx512f,avx512bw,avx512dq,avx512vl"
#else
#define GF_LANES_WIDE "avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"
#endif
#define GF_LANES(linkage, name, params, args)                                                                               \
    __attribute__((target(GF_LANES_WIDE))) static void name##_avx512 params { name##_body args; }                           \
    __attribute__((target("avx2"))) static void name##_avx2 params { name##_body args; }                                    \
    static void name##_plain params { name##_body args; }                                                                   \
    linkage void name params {                                                                                              \
        if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) \
            name##_avx512 args;                                                                                             \
        else if (__builtin_cpu_supports("avx2")) name##_avx2 args;                                                          \
        else name##_plain args;                                                                                             \
    }
#else
#define GF_LANES(linkage, name, params, args) \
    linkage void name params { name##_body args; }
#endif
