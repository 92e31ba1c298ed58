/* product.c - see product.h.
 *
 * b is packed once, in panels of GF_PANEL columns as the library packs its embeddings. Each task owns a block of rows of c; for
 * every DEPTH of k it packs its part of a (with rows that do not fall into the same cache sets), then walks along the columns in
 * chunks whose panels stay in the second-level cache.
 */
#include "support/product.h"

#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "util/array.h"
#include "util/parallel.h"

#define DEPTH 128         /* k at a time: a panel of b is 16 KiB then, half of a first-level cache */
#define CHUNK 1024        /* columns at a time */
#define ROWS_MAX 128      /* of a task */
#define A_LD (DEPTH + 16) /* either way round: ROWS_MAX is not larger than DEPTH */

typedef struct job {
    float *c;
    int64_t c_ld;
    matrix a, b;
    int64_t m, n, k, rows; /* rows: of a task */
    float *b_pack;         /* [n / GF_PANEL][k][GF_PANEL] */
    float *a_pack;         /* [threads][DEPTH][A_LD] */
} job;

static void pack_b(void *arg, int64_t panel, int thread) {
    const job *x = arg;
    const int64_t j0 = panel * GF_PANEL;
    float *out = x->b_pack + panel * x->k * GF_PANEL;
    (void)thread;
    for (int64_t i = 0; i < x->k; i++) {
        if (x->b.transposed)
            for (int64_t j = 0; j < GF_PANEL; j++) out[i * GF_PANEL + j] = x->b.at[(j0 + j) * x->b.ld + i];
        else memcpy(out + i * GF_PANEL, x->b.at + i * x->b.ld + j0, sizeof(float) * GF_PANEL);
    }
}

/* Rows [i0, i0+rows) and [k0, k0+depth) of a, in the order it is stored in. */
static void pack_a(const job *x, float *out, int64_t i0, int64_t rows, int64_t k0, int64_t depth) {
    const int64_t first = x->a.transposed ? k0 : i0, lines = x->a.transposed ? depth : rows;
    const int64_t from = x->a.transposed ? i0 : k0, length = x->a.transposed ? rows : depth;
    for (int64_t i = 0; i < lines; i++)
        memcpy(out + i * A_LD, x->a.at + (first + i) * x->a.ld + from, sizeof(float) * (size_t)length);
}

static void multiply_rows(void *arg, int64_t task, int thread) {
    const job *x = arg;
    const gf_tile_ops *ops = gf_cpu_kernels_get()->tile;
    const int64_t i0 = task * x->rows, rows = GF_MIN(x->rows, x->m - i0);
    float *a = x->a_pack + (int64_t)thread * DEPTH * A_LD;
    const size_t a_row = x->a.transposed ? 1 : A_LD, a_k = x->a.transposed ? A_LD : 1, panel = (size_t)x->k * GF_PANEL;
    for (int64_t k0 = 0; k0 < x->k; k0 += DEPTH) {
        const int64_t depth = GF_MIN(DEPTH, x->k - k0);
        pack_a(x, a, i0, rows, k0, depth);
        for (int64_t j0 = 0; j0 < x->n; j0 += CHUNK) {
            const float *b = x->b_pack + j0 * x->k + k0 * GF_PANEL;
            ops->product(x->c + i0 * x->c_ld + j0, (size_t)x->c_ld, a, a_row, a_k, b, GF_PANEL, panel, (int)rows,
                         (int)GF_MIN(CHUNK, x->n - j0), (int)depth, k0 > 0);
        }
    }
}

/* Large blocks while there are some for every thread. */
static int64_t task_rows(int64_t m, int threads) {
    int64_t rows = ROWS_MAX;
    while (rows > GF_PANEL && m / rows < 4 * (int64_t)threads) rows /= 2;
    return rows;
}

void product(memory_pool *p, float *c, int64_t c_ld, matrix a, matrix b, int64_t m, int64_t n, int64_t k, int threads) {
    job x = {.c = c, .c_ld = c_ld, .a = a, .b = b, .m = m, .n = n, .k = k, .rows = task_rows(m, threads)};
    x.b_pack = pool_take(p, sizeof(float) * (size_t)(n * k));
    x.a_pack = pool_take(p, sizeof(float) * (size_t)threads * DEPTH * A_LD);
    gf_parallel(threads, n / GF_PANEL, pack_b, &x);
    gf_parallel(threads, (m + x.rows - 1) / x.rows, multiply_rows, &x);
    pool_give(p, x.a_pack);
    pool_give(p, x.b_pack);
}
