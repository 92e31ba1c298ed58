/* cpu_wino.c - which transforms of short convolutions this CPU gets; see cpu/kernels/tile_wino.h. */
#include <string.h>

#include "cpu/kernels/tile.h"
#include "cpu/kernels/tile_wino.h"

extern const gf_wino_ops gf_wino_ops_base;
#ifdef GF_HAVE_X86_TILES
extern const gf_wino_ops gf_wino_ops_avx2, gf_wino_ops_avx512;
#endif

const gf_wino_ops *gf_wino_ops_find(const char *isa) {
    if (!gf_tile_ops_find(isa)) return NULL;
#ifdef GF_HAVE_X86_TILES
    if (strcmp(isa, "avx512") == 0) return &gf_wino_ops_avx512;
    if (strcmp(isa, "avx2") == 0) return &gf_wino_ops_avx2;
#endif
    return &gf_wino_ops_base;
}

const gf_wino_ops *gf_wino_ops_get(void) { return gf_wino_ops_find(gf_tile_ops_get()->isa); }
