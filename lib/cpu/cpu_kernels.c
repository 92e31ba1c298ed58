/* cpu_kernels.c - the choice of instruction set at run time; see cpu/kernels/cpu_kernels.h. */
#include "cpu/kernels/cpu_kernels.h"

#include <string.h>

extern const gf_cpu_kernels gf_cpu_kernels_base;
#ifdef GF_HAVE_X86_TILES
extern const gf_cpu_kernels gf_cpu_kernels_avx2, gf_cpu_kernels_avx512;

static int has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

static int has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#endif
#ifdef GF_HAVE_NEON_TILES
extern const gf_cpu_kernels gf_cpu_kernels_neon; /* every aarch64 has it */
#endif

const gf_cpu_kernels *gf_cpu_kernels_find(const char *isa) {
#ifdef GF_HAVE_X86_TILES
    if (strcmp(isa, "avx512") == 0) return has_avx512() ? &gf_cpu_kernels_avx512 : NULL;
    if (strcmp(isa, "avx2") == 0) return has_avx2() ? &gf_cpu_kernels_avx2 : NULL;
#endif
#ifdef GF_HAVE_NEON_TILES
    if (strcmp(isa, "neon") == 0) return &gf_cpu_kernels_neon;
#endif
    return strcmp(isa, "base") == 0 ? &gf_cpu_kernels_base : NULL;
}

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const gf_cpu_kernels *gf_cpu_kernels_get(void) {
#ifdef GF_ONLY_ISA /* tests: these kernels, whatever the CPU could do better */
    const gf_cpu_kernels *only = gf_cpu_kernels_find(TEXT(GF_ONLY_ISA));
    if (only) return only;
#endif
#ifdef GF_HAVE_X86_TILES
    if (has_avx512()) return &gf_cpu_kernels_avx512;
    if (has_avx2()) return &gf_cpu_kernels_avx2;
#endif
#ifdef GF_HAVE_NEON_TILES
    return &gf_cpu_kernels_neon;
#else
    return &gf_cpu_kernels_base;
#endif
}
