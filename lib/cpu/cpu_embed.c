/* cpu_embed.c - embeddings of the caller as unit rows, and packed in panels; sizes of the buffers that passes need. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "cpu/cpu_passes.h"
#include "cpu/cpu_tiles.h"
#include "util/parallel.h"

/* ---- embeddings ---- */

/* Full panels plus half a panel: rows then start 16 floats apart modulo the cache's set size, so that the rows of a product do
 * not fall into the same few sets. */
int64_t gf_cpu_embed_ld(int64_t dim) { return gf_pad(dim) + GF_PANEL / 2; }

int64_t gf_cpu_embed_ld16(int64_t dim) { return gf_pad(dim) / 2 + GF_PANEL / 2; }

typedef struct embed_job {
    const gf_embed *e;
    const gf_source *h;
    int64_t rows, first, step;
    int normalize;
    float *norm;
    _Atomic int64_t bad; /* smallest bad row so far; rows if none */
} embed_job;

#define UNIT_TOLERANCE 4e-3 /* rounding to bf16 moves a length by up to 2^-8 */

static void note_bad(embed_job *job, int64_t r) {
    int64_t seen = atomic_load(&job->bad);
    while (r < seen && !atomic_compare_exchange_weak(&job->bad, &seen, r)) {}
}

static void embed_row(embed_job *job, int64_t r) {
    const gf_embed *e = job->e;
    const int64_t at = job->first + r * job->step;
    float *z = e->row + at * e->ld;
    const float *h = gf_source_row(job->h, r);
    double square = 0.0;
    if (job->h->dtype != GLOFND_F32) {
        gf_dtype_to_float(job->h->dtype, z, gf_source_row(job->h, r), e->dim);
        h = z;
    }
    for (int64_t i = 0; i < e->dim; i++) square += (double)h[i] * (double)h[i];
    const double length = sqrt(square);
    if (!isfinite(square) || (!job->normalize && fabs(length - 1.0) > UNIT_TOLERANCE)) {
        note_bad(job, r);
        return;
    }
    const double norm = job->normalize ? fmax(length, 1e-12) : 1.0;
    job->norm[at] = (float)norm;
    for (int64_t i = 0; i < e->dim; i++) z[i] = (float)((double)h[i] / norm);
    memset(z + e->dim, 0, sizeof(float) * (size_t)(e->ld - e->dim));
}

#define EMBED_ROWS 64 /* rows per task */

static void embed_task(void *arg, int64_t task, int thread) {
    embed_job *job = arg;
    (void)thread;
    for (int64_t r = task * EMBED_ROWS; r < job->rows && r < (task + 1) * EMBED_ROWS; r++) embed_row(job, r);
}

int64_t gf_cpu_embed(const gf_embed *e, const gf_source *h, int64_t rows, int64_t first, int64_t step, int normalize, float *norm,
                     int threads) {
    embed_job job = {e, h, rows, first, step, normalize, norm, rows};
    gf_parallel(threads, (rows + EMBED_ROWS - 1) / EMBED_ROWS, embed_task, &job);
    const int64_t bad = atomic_load(&job.bad);
    return bad < rows ? bad : -1;
}

static void pack_panel(void *arg, int64_t panel, int thread) {
    const gf_embed *e = arg;
    const float *row = e->row + panel * GF_PANEL * e->ld;
    float *col = e->col + panel * GF_PANEL * e->dim;
    (void)thread;
    for (int64_t i = 0; i < e->dim; i++)
        for (int64_t c = 0; c < GF_PANEL; c++) col[i * GF_PANEL + c] = row[c * e->ld + i];
}

/* The rounded copies of one panel; rows are zero from dim to ld. */
static void round_panel(void *arg, int64_t panel, int thread) {
    const gf_embed *e = arg;
    const gf_tile_ops *ops = gf_cpu_kernels_get()->tile;
    const int64_t r0 = panel * GF_PANEL, words = (e->dim + 1) / 2;
    const float *row = e->row + r0 * e->ld;
    uint32_t *row16 = e->row16 + r0 * e->ld16, *col16 = e->col16 + panel * GF_PANEL * words;
    (void)thread;
    for (int64_t r = 0; r < GF_PANEL; r++) ops->round((uint16_t *)(void *)(row16 + r * e->ld16), row + r * e->ld, gf_pad(e->dim));
    for (int64_t r = 0; r < GF_PANEL; r += 2)
        ops->words(e->pair + (r0 + r) / 2 * e->ld, row + r * e->ld, row + (r + 1) * e->ld, gf_pad(e->dim));
    for (int64_t i = 0; i < words; i++)
        for (int64_t c = 0; c < GF_PANEL; c++) col16[i * GF_PANEL + c] = row16[c * e->ld16 + i];
}

void gf_cpu_pack(const gf_embed *e, int threads) {
    const int64_t pad = gf_pad(e->rows) - e->rows;
    memset(e->row + e->rows * e->ld, 0, sizeof(float) * (size_t)(pad * e->ld));
    if (e->col) gf_parallel(threads, gf_pad(e->rows) / GF_PANEL, pack_panel, (void *)(uintptr_t)e);
    if (e->row16) gf_parallel(threads, gf_pad(e->rows) / GF_PANEL, round_panel, (void *)(uintptr_t)e);
}

/* ---- sizes ---- */

size_t gf_cpu_scratch_bytes(int64_t tile, int threads) { return gf_tile_scratch_bytes(tile) * (size_t)threads; }

size_t gf_cpu_tiles_bytes(int64_t rows, int64_t cols, int64_t tile, int symmetric) {
    const int64_t m = (rows + tile - 1) / tile, n = (cols + tile - 1) / tile;
    return sizeof(float) * (size_t)(tile * tile) * (size_t)(symmetric ? m * (m + 1) / 2 : m * n);
}
