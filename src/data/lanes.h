/* lanes.h - integer loops over pixels, compiled twice on x86-64: plain, and for AVX2 where the CPU has it.
 *
 * The body is one always-inlined function in plain C; the compiler vectorises it under each target. Results are the same bits:
 * bodies use integers, or floating point without contraction and without sums that could be reordered.
 *     GF_LANES_BODY void scale_body(uint8_t *x, size_t n) { ... }
 *     GF_LANES(static, scale, (uint8_t *x, size_t n), (x, n))          defines static void scale(uint8_t *x, size_t n)
 */
#ifndef GF_DATA_LANES_H
#define GF_DATA_LANES_H

#define GF_LANES_BODY static inline __attribute__((always_inline))

#if defined(__x86_64__) && defined(__GNUC__)
#define GF_LANES(linkage, name, params, args)                                              \
    __attribute__((target("avx2"))) static void name##_avx2 params { name##_body args; }   \
    static void name##_plain params { name##_body args; }                                  \
    linkage void name params {                                                             \
        if (__builtin_cpu_supports("avx2"))                                                \
            name##_avx2 args;                                                              \
        else                                                                               \
            name##_plain args;                                                             \
    }
#else
#define GF_LANES(linkage, name, params, args) \
    linkage void name params { name##_body args; }
#endif

#endif
