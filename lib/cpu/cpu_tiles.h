/* cpu_tiles.h - inside the CPU backend: making tiles, and visiting all of them in an order that needs no locks. */
#pragma once

#include "cpu/kernels/cpu_kernels.h"
#include "device/pair_passes.h"

typedef struct gf_sweep gf_sweep;
typedef void (*gf_visit)(gf_sweep *w, int64_t i, int64_t j, gf_tile_scratch *x);

struct gf_sweep {
    gf_pass *p;
    const gf_tile_ops *ops;
    gf_visit visit; /* tile of row block i and column block j */
    int64_t q_blocks, k_blocks;
    int64_t round;
    const gf_rounded *rounded; /* NULL, or tiles are made of these integers, where q is k */
};

/* Bytes of scratch per thread for tiles of `tile` rows, and the scratch of one thread. */
size_t gf_tile_scratch_bytes(int64_t tile);
gf_tile_scratch *gf_tile_scratch_of(void *scratch, int64_t tile, int thread);

/* s [rows][ld]: rows of q from r0 on with the columns of k from c0 on, a multiple of GF_PANEL; of bf16 numbers where both have
 * them. All passes and selections make similarities here: equal bits everywhere. */
void gf_tile_similarities(float *s, size_t ld, const gf_embed *q, int64_t r0, const gf_embed *k, int64_t c0, int rows, int cols);

/* The same of integers, rows and columns of one set of embeddings: close to those, not equal. */
void gf_tile_rounded(float *s, size_t ld, const gf_rounded *x, int64_t dim, int64_t r0, int64_t c0, int rows, int cols);

/* Similarities of row block i and column block j, NaN where there is no pair; in p->tiles with GF_KEEP_TILES, else in x. */
gf_tile gf_tile_make(const gf_sweep *w, int64_t i, int64_t j, gf_tile_scratch *x);
/* The same from p->tiles (GF_REUSE_TILES), or made again. */
gf_tile gf_tile_again(const gf_sweep *w, int64_t i, int64_t j, gf_tile_scratch *x);

/* Visits every tile (symmetric: every unordered pair of blocks). Contributions reach each row block, and each column block where
 * `columns` is set, in an order that depends on the shape alone: same bits for any number of threads. */
void gf_sweep_run(gf_sweep *w, int columns);
