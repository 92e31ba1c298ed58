/* cpu_kernels.h - all kernels of this folder for one instruction set, and the choice among them.
 *
 * The folder is compiled once per instruction set; tile.c lists what each has. cpu_kernels.c chooses.
 */
#pragma once

#include "cpu/kernels/tile.h"

typedef struct gf_cpu_kernels {
    const char *isa;         /* "avx512", "avx2", "neon", "base" */
    const gf_tile_ops *tile; /* similarities: products, sums, weights */
} gf_cpu_kernels;

/* The best ones for this CPU. */
const gf_cpu_kernels *gf_cpu_kernels_get(void);
/* By instruction set; NULL: not compiled in, or not supported by this CPU. */
const gf_cpu_kernels *gf_cpu_kernels_find(const char *isa);
