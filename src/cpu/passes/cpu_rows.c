/* cpu_rows.c - which kernels for rows of tokens this CPU gets; see cpu/kernels/tile_rows.h. */
#include <string.h>

#include "cpu/kernels/tile.h"
#include "cpu/kernels/tile_rows.h"

extern const gf_row_ops gf_row_ops_base;
#ifdef GF_HAVE_X86_TILES
extern const gf_row_ops gf_row_ops_avx2, gf_row_ops_avx512;
#endif

const gf_row_ops *gf_row_ops_find(const char *isa) {
    if (!gf_tile_ops_find(isa)) return NULL;
#ifdef GF_HAVE_X86_TILES
    if (strcmp(isa, "avx512") == 0) return &gf_row_ops_avx512;
    if (strcmp(isa, "avx2") == 0) return &gf_row_ops_avx2;
#endif
    return &gf_row_ops_base;
}

const gf_row_ops *gf_row_ops_get(void) { return gf_row_ops_find(gf_tile_ops_get()->isa); }
