/* cpu_kernels.h - all kernels of this folder for one instruction set, and the choice among them.
 *
 * The folder is compiled once per instruction set; tile_table.c lists what each has. passes/cpu_kernels.c chooses.
 */
#pragma once

#include "cpu/kernels/batchnorm_kernels.h"
#include "cpu/kernels/tile.h"
#include "cpu/kernels/token_kernels.h"
#include "cpu/kernels/winograd_kernels.h"

typedef struct gf_cpu_kernels {
    const char *isa;         /* "avx512", "avx2", "neon", "base" */
    const gf_tile_ops *tile; /* similarities: products, sums, weights */
    const gf_norm_ops *norm; /* batch norm */
    const gf_row_ops *row;   /* rows of tokens: layer norm, activations, softmax */
    const gf_wino_ops *wino; /* 3 x 3 convolutions */
} gf_cpu_kernels;

/* The best ones for this CPU. */
const gf_cpu_kernels *gf_cpu_kernels_get(void);
/* By instruction set; NULL: not compiled in, or not supported by this CPU. */
const gf_cpu_kernels *gf_cpu_kernels_find(const char *isa);
