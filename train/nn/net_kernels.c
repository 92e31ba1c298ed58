/* net_kernels.c - the choice of the kernels of networks at run time; see nn/cpu/kernels/net_kernels.h. */
#include "nn/cpu/kernels/net_kernels.h"

#include <string.h>

extern const gf_net_kernels gf_net_kernels_base;
#ifdef GF_HAVE_X86_TILES
extern const gf_net_kernels gf_net_kernels_avx2, gf_net_kernels_avx512;
#endif
#ifdef GF_HAVE_NEON_TILES
extern const gf_net_kernels gf_net_kernels_neon;
#endif

static const gf_net_kernels *const compiled[] = {
#ifdef GF_HAVE_X86_TILES
    &gf_net_kernels_avx512, &gf_net_kernels_avx2,
#endif
#ifdef GF_HAVE_NEON_TILES
    &gf_net_kernels_neon,
#endif
    &gf_net_kernels_base};

const gf_net_kernels *gf_net_kernels_find(const char *isa) {
    if (!gf_cpu_kernels_find(isa)) return NULL; /* asks the CPU */
    for (size_t i = 0; i < sizeof compiled / sizeof *compiled; i++)
        if (strcmp(compiled[i]->isa, isa) == 0) return compiled[i];
    return NULL;
}

const gf_net_kernels *gf_net_kernels_get(void) { return gf_net_kernels_find(gf_cpu_kernels_get()->isa); }
