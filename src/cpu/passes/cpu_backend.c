/* cpu_backend.c - the CPU behind the vtable: choice of kernels, embeddings in and packed. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "cpu/passes/cpu_isa.h"
#include "cpu/passes/cpu_passes.h"
#include "cpu/passes/cpu_tiles.h"
#include "util/parallel.h"

/* ---- which kernels ---- */

extern const gf_tile_ops gf_tile_ops_base;
#ifdef GF_HAVE_X86_TILES
extern const gf_tile_ops gf_tile_ops_avx2, gf_tile_ops_avx512;

static int has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

static int has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#endif

const gf_tile_ops *gf_tile_ops_find(const char *isa) {
#ifdef GF_HAVE_X86_TILES
    if (strcmp(isa, "avx512") == 0) return has_avx512() ? &gf_tile_ops_avx512 : NULL;
    if (strcmp(isa, "avx2") == 0) return has_avx2() ? &gf_tile_ops_avx2 : NULL;
#endif
    return strcmp(isa, "base") == 0 ? &gf_tile_ops_base : NULL;
}

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const gf_tile_ops *gf_tile_ops_get(void) {
#ifdef GF_ONLY_ISA /* tests: these kernels, whatever the CPU could do better */
    const gf_tile_ops *only = gf_tile_ops_find(TEXT(GF_ONLY_ISA));
    if (only) return only;
#endif
#ifdef GF_HAVE_X86_TILES
    if (has_avx512()) return &gf_tile_ops_avx512;
    if (has_avx2()) return &gf_tile_ops_avx2;
#endif
    return &gf_tile_ops_base;
}

const char *gf_cpu_isa_name(void) { return gf_tile_ops_get()->isa; }

/* ---- embeddings ---- */

/* Whole panels plus half a panel: rows then start 16 floats apart modulo the cache's set size, so that the rows a product walks
 * down do not fall into the same few sets. */
static int64_t embed_ld(int64_t dim) { return gf_pad(dim) + GF_PANEL / 2; }

typedef struct embed_job {
    const gf_embed *e;
    const gf_source *h;
    int64_t rows, first, step;
    int normalize;
    float *norm;
    _Atomic int64_t bad; /* smallest bad row so far; rows if none */
} embed_job;

#define UNIT_TOLERANCE 1e-3 /* float32 unit vectors are within 1e-6; bf16 ones within this */

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

static int64_t embed(const gf_embed *e, const gf_source *h, int64_t rows, int64_t first, int64_t step, int normalize, float *norm,
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

static void pack(const gf_embed *e, int threads) {
    const int64_t pad = gf_pad(e->rows) - e->rows;
    memset(e->row + e->rows * e->ld, 0, sizeof(float) * (size_t)(pad * e->ld));
    if (e->col) gf_parallel(threads, gf_pad(e->rows) / GF_PANEL, pack_panel, (void *)(uintptr_t)e);
}

/* ---- sizes ---- */

static size_t scratch_bytes(int64_t tile, int threads) { return gf_tile_scratch_bytes(tile) * (size_t)threads; }

static size_t select_bytes(int64_t best, int threads) { return gf_cpu_select_scratch(best) * (size_t)threads; }

static size_t tiles_bytes(int64_t rows, int64_t cols, int64_t tile, int symmetric) {
    const int64_t m = (rows + tile - 1) / tile, n = (cols + tile - 1) / tile;
    return sizeof(float) * (size_t)(tile * tile) * (size_t)(symmetric ? m * (m + 1) / 2 : m * n);
}

const gf_backend gf_backend_cpu = {
    .name = "cpu",
    .embed_ld = embed_ld,
    .embed = embed,
    .pack = pack,
    .scratch_bytes = scratch_bytes,
    .select_bytes = select_bytes,
    .tiles_bytes = tiles_bytes,
    .stats = gf_cpu_stats,
    .settle = gf_cpu_settle,
    .grad = gf_cpu_grad,
    .select = gf_cpu_select,
    .mask = gf_cpu_mask,
};
