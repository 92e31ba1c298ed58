/* pairs_collector.c - one sweep over the pairs collects candidates, windows and lists decide: see pairs_cuda.h and pairs_kernels.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/pairs/pairs_cuda.h"
#include "util/array.h"
#include "util/components.h"
#include "util/rng.h"

/* ---------- Sample, windows, lists, sweep ---------- */

enum { SAMPLE_MIN = 1 << 14, SAMPLE_SMALL = 1 << 16, SAMPLE = 1 << 17, SAMPLE_MAX = 1 << 19, SEED = 1 };
enum { SAMPLE_SHARE = 8 };            /* one row in so many, between these numbers: more cost more than they save */
#define STRIP_BYTES ((size_t)4 << 30) /* similarities to the sample */
#define RESERVE ((size_t)1 << 30)     /* bytes of the GPU that stay free */

/* ----- the sample ----- */

/* Chernoff: a Poisson number of mean p is at least (r > p) or at most (r < p) r with a probability below exp of minus this. */
static double surprise(double r, double p) { return r > 0.0 ? r * log(r / p) - r + p : p; }

/* Smallest rank that the p-th of all, in the mean, does not reach in any of `rows` samples, but for one in ten searches. */
static int64_t rank_below(double p, int64_t rows) {
    int64_t r = (int64_t)ceil(p) + 1;
    while (surprise((double)r, p) < log(10.0 * (double)rows)) r++;
    return r;
}

static int64_t rank_above(double p, int64_t rows) {
    int64_t r = (int64_t)floor(p) - 1;
    while (r > 0 && surprise((double)r, p) < log(10.0 * (double)rows)) r--;
    return r > 0 ? r : 0;
}

static gf_pairs_sampling sample_ranks(const gf_collector *x) {
    const gf_pairs_collect *c = &x->c;
    const double share = (double)x->others / (double)GF_MIN(x->sample.n, x->others);
    gf_pairs_sampling p = {
        .rank = c->rank, .reach = c->reach, .top = c->only_dup ? 0 : c->top, .share = share, .others = x->others};
    if (x->sample.n >= x->n) return p;
    if (c->rank > 0) p.rank = rank_above((double)c->rank / share, x->n), p.reach = rank_below((double)c->reach / share, x->n);
    if (p.top > 0) p.top = rank_below((double)c->top / share, x->n);
    return p;
}

/* Guess for the lists with a sample of m rows, without what lies closer to a threshold than roundings. */
static double list_bytes(const gf_collector *x, int64_t m) {
    const double share = (double)x->n / (double)m, p = (double)GF_MAX(x->c.reach, x->c.top) / share;
    const double r = (double)rank_below(p, x->n), listed = p < 100.0 ? r : r - (double)rank_above(p, x->n);
    return (double)sizeof(uint64_t) * (double)x->c.q.n * share * (listed + 5.0 * sqrt(listed + 1.0) + 6.0);
}

/* Rows of the sample: the more, the narrower are the windows, and the shorter the lists. */
static int64_t sample_rows(const gf_collector *x, size_t memory) {
    const double rank = (double)GF_MAX(x->c.reach, x->c.top);
    const int64_t most = rank * SAMPLE_SMALL / (double)x->n < 100.0 ? SAMPLE_SMALL : SAMPLE;
    int64_t m = GF_MIN(most, GF_MAX(x->n / SAMPLE_SHARE, SAMPLE_MIN));
    while (m < SAMPLE_MAX && 1.4 * list_bytes(x, m) > (double)memory) m *= 2;
    return GF_MIN(m, x->n);
}

size_t gf_collector_bytes(int64_t n, int64_t dim, int64_t reach, int64_t top, size_t memory) {
    gf_collector x = {.n = n, .c = {.q = {.n = n}, .reach = reach, .top = (int)GF_MIN(top, GF_PAIRS_TOP)}};
    const int64_t m = sample_rows(&x, memory);
    const size_t anchor = sizeof(gf_pairs_window) + 14 * sizeof(float) + (size_t)top * 2 * sizeof(float);
    const double strip = fmin(fmin((double)memory, (double)STRIP_BYTES), (double)n * (double)m * sizeof(float));
    const double lists = fmin(fmin(2.0 * list_bytes(&x, m), (double)memory), (double)n * (double)n * sizeof(uint64_t));
    return (size_t)fmax(lists, strip) + gf_cuda_pairs_embeddings(m, dim) + (size_t)n * anchor + ((size_t)128 << 20);
}

glofnd_status gf_collector_choose(gf_error *err, gf_collector *x, size_t memory) {
    const int64_t m = x->sample_rows ? GF_MIN(x->sample_rows, x->n) : sample_rows(x, memory);
    x->chosen = malloc((size_t)m * sizeof *x->chosen);
    FAIL_IF(err, !x->chosen, GLOFND_E_MEMORY, "no memory for a sample of %lld rows", (long long)m);
    for (int64_t i = 0; i < m; i++) x->chosen[i] = m < x->n ? (int32_t)gf_permute(SEED, 2, x->n, i) : (int32_t)i;
    x->sample.n = m;
    return GLOFND_OK;
}

/* Place of every row of q in the sample, or -1. */
static glofnd_status upload_skips(gf_error *err, gf_collector *x, int32_t **skip) {
    const int64_t n = x->c.q.n;
    int32_t *at = malloc((size_t)n * sizeof *at);
    FAIL_IF(err, !at, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)n);
    for (int64_t i = 0; i < n; i++) at[i] = -1;
    for (int64_t i = 0; i < x->sample.n; i++) {
        const int64_t row = x->chosen[i] - x->c.first;
        if (row >= 0 && row < n) at[row] = (int32_t)i;
    }
    cudaError_t e = gf_blocks_take(&x->blocks, cudaSuccess, skip, (size_t)n * sizeof *at);
    if (e == cudaSuccess) e = cudaMemcpy(*skip, at, (size_t)n * sizeof *at, cudaMemcpyHostToDevice);
    free(at);
    CUDA_TRY_AS(err, e, "the sample");
    return GLOFND_OK;
}

/* ----- windows ----- */

static glofnd_status sweep_sample(gf_error *err, gf_collector *x, gf_pairs_job *a, int64_t strip, int32_t *need) {
    const gf_pairs_sampling p = sample_ranks(x);
    for (a->row0 = 0; a->row0 < a->q.n; a->row0 += strip) {
        a->rows = (int)GF_MIN(strip, a->q.n - a->row0);
        CUDA_TRY_AS(err, gf_pairs_slack(a, x->p->stream), "bounds");
        if (x->fast) TRY(gf_pairs_product_run(err, &x->p->product, a, x->p->stream));
        else CUDA_TRY_AS(err, gf_pairs_exact(a, 1, x->p->stream), "similarities");
        CUDA_TRY_AS(err, gf_pairs_windows(a, &x->c, &p, need, x->p->stream), "windows");
    }
    return GLOFND_OK;
}

/* Lists of the lengths in need [q.n], one after the other. *fits: into `memory` bytes. */
static glofnd_status lay_lists(gf_error *err, gf_collector *x, const int32_t *need, size_t memory, int64_t limit, int *fits) {
    const size_t n = (size_t)x->c.q.n;
    int32_t *length = malloc(n * sizeof *length);
    int64_t *start = malloc((n + 1) * sizeof *start), *to = NULL;
    cudaError_t e =
        length && start ? cudaMemcpy(length, need, n * sizeof *length, cudaMemcpyDeviceToHost) : cudaErrorMemoryAllocation;
    for (size_t i = 0; e == cudaSuccess && i <= n; i++)
        start[i] = i == 0 ? 0 : start[i - 1] + (limit ? GF_MIN(limit, length[i - 1]) : length[i - 1]);
    *fits = e == cudaSuccess && (double)start[n] * sizeof(uint64_t) <= (double)memory;
    if (*fits) {
        e = gf_blocks_take(&x->blocks, e, &to, (n + 1) * sizeof *to);
        if (e == cudaSuccess) e = cudaMemcpy(to, start, (n + 1) * sizeof *to, cudaMemcpyHostToDevice);
        if (e == cudaSuccess) e = gf_blocks_take(&x->blocks, e, &x->c.entry, (size_t)start[n] * sizeof(uint64_t));
        if (e == cudaErrorMemoryAllocation) *fits = 0, e = cudaSuccess, (void)cudaGetLastError();
        x->c.start = to, x->entries = start[n];
    }
    free(length);
    free(x->start);
    x->start = start;
    CUDA_TRY_AS(err, e, "lists of candidates");
    return GLOFND_OK;
}

/* ----- the sweep ----- */

static glofnd_status report_sweep(gf_error *err, const gf_collector *x, const gf_job_progress *watch, double share) {
    if (!watch->progress && !watch->stop) return GLOFND_OK;
    CUDA_TRY_AS(err, cudaStreamSynchronize(x->p->stream), "pairs");
    gf_job_report(watch, x->c.both ? 1.0 - (1.0 - share) * (1.0 - share) : share);
    FAIL_IF(err, gf_job_stopped(watch), GLOFND_E_CANCELLED, "cancelled");
    return GLOFND_OK;
}

/* Columns pass by all thread blocks at about the same time: a band has as many rows as these take at once. */
static glofnd_status sweep_bands(gf_error *err, gf_collector *x, const gf_job_progress *watch) {
    gf_pairs_collect *c = &x->c;
    int device = 0, processors = 0;
    CUDA_TRY_AS(err, cudaGetDevice(&device), "the device");
    CUDA_TRY_AS(err, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "the device");
    const int64_t rows = GF_MAX(processors / 2, 1) * GF_COLLECT_ALIGN;
    for (c->band0 = 0; c->band0 < c->q.n; c->band0 += rows) {
        c->band_n = GF_MIN(rows, c->q.n - c->band0);
        CUDA_TRY_AS(err, gf_pairs_collect_fused(c, x->p->stream), "pairs");
        TRY(report_sweep(err, x, watch, (double)(c->band0 + c->band_n) / (double)c->q.n));
    }
    return GLOFND_OK;
}

/* Without the fused kernel: similarities of some rows at a time, in memory. */
static glofnd_status sweep_strips(gf_error *err, gf_collector *x, const gf_job_progress *watch) {
    const int kept = x->blocks.count;
    gf_pairs_job a = {
        .q = x->c.q, .k = x->c.k, .pitch = gf_cuda_pairs_padded(x->c.k.n), .lost_max = x->p->lost_max, .chain = x->chain};
    const size_t row = (size_t)a.pitch * sizeof(float);
    int64_t strip = (int64_t)(STRIP_BYTES / row) / GF_PAIRS_GROUP * GF_PAIRS_GROUP;
    strip = GF_MIN(GF_MAX(strip, GF_PAIRS_GROUP), gf_cuda_pairs_padded(a.q.n));
    cudaError_t e = gf_blocks_take(&x->blocks, cudaSuccess, &a.s, (size_t)strip * row);
    e = gf_blocks_take(&x->blocks, e, &a.slack, (size_t)strip * sizeof *a.slack);
    CUDA_TRY_AS(err, e, "memory for similarities");
    for (a.row0 = 0; a.row0 < a.q.n; a.row0 += strip) {
        a.rows = (int)GF_MIN(strip, a.q.n - a.row0);
        if (x->fast) TRY(gf_pairs_product_run(err, &x->p->product, &a, x->p->stream));
        else CUDA_TRY_AS(err, gf_pairs_exact(&a, 1, x->p->stream), "similarities");
        CUDA_TRY_AS(err, gf_pairs_collect_strip(&a, &x->c, x->p->stream), "pairs");
        TRY(report_sweep(err, x, watch, (double)(a.row0 + a.rows) / (double)a.q.n));
    }
    CUDA_TRY_AS(err, cudaStreamSynchronize(x->p->stream), "pairs");
    gf_blocks_release(&x->blocks, kept);
    return GLOFND_OK;
}

glofnd_status gf_collector_sweep(gf_error *err, gf_collector *x, const gf_job_progress *watch) {
    return x->fast && gf_pairs_can_fuse() ? sweep_bands(err, x, watch) : sweep_strips(err, x, watch);
}

/* ----- anchors ----- */

static size_t padded_anchors(int64_t n) { return (size_t)(n + GF_COLLECT_ALIGN - 1) / GF_COLLECT_ALIGN * GF_COLLECT_ALIGN; }

#define TAKE_ANCHORS(field, number) (e = gf_blocks_take(&x->blocks, e, &(field), (size_t)(number) * sizeof *(field)))
#define ZERO_ANCHORS(field, number) \
    (e = e == cudaSuccess ? cudaMemsetAsync((field), 0, (size_t)(number) * sizeof *(field), x->p->stream) : e)

static glofnd_status take_anchors(gf_error *err, gf_collector *x, size_t *left) {
    gf_pairs_collect *c = &x->c;
    const int64_t n = c->q.n;
    cudaError_t e = cudaSuccess;
    TAKE_ANCHORS(c->window, n);
    TAKE_ANCHORS(c->min, padded_anchors(n));
    TAKE_ANCHORS(c->slack, n);
    TAKE_ANCHORS(c->count, n);
    TAKE_ANCHORS(c->lambda, n);
    TAKE_ANCHORS(c->above, n);
    TAKE_ANCHORS(c->hits, n);
    TAKE_ANCHORS(c->copies, n);
    TAKE_ANCHORS(c->mutual, n);
    TAKE_ANCHORS(c->failed, n);
    TAKE_ANCHORS(c->failed_n, 1);
    TAKE_ANCHORS(c->other, n * c->top);
    TAKE_ANCHORS(c->similarity, n * c->top);
    TAKE_ANCHORS(c->below_other, n * c->below);
    TAKE_ANCHORS(c->below_similarity, n * c->below);
    ZERO_ANCHORS(c->count, n);
    ZERO_ANCHORS(c->above, n);
    ZERO_ANCHORS(c->hits, n);
    ZERO_ANCHORS(c->copies, n);
    ZERO_ANCHORS(c->mutual, n);
    ZERO_ANCHORS(c->failed_n, 1);
    CUDA_TRY_AS(err, e, "memory for anchors");
    size_t free_bytes = 0;
    CUDA_TRY_AS(err, gf_cuda_memory_left(&free_bytes), "memory");
    *left = free_bytes > RESERVE ? free_bytes - RESERVE : 0;
    return GLOFND_OK;
}

glofnd_status gf_collector_begin(gf_error *err, gf_collector *x, size_t memory, int64_t limit, int *fits) {
    size_t left = 0;
    TRY(take_anchors(err, x, &left));
    const size_t room = GF_MIN(memory, left);
    const int kept = x->blocks.count;
    const size_t n = (size_t)x->c.q.n, row = (size_t)gf_cuda_pairs_padded(x->sample.n) * sizeof(float);
    gf_pairs_job a = {.q = x->c.q, .k = x->sample, .pitch = gf_cuda_pairs_padded(x->sample.n), .dup = x->c.dup};
    int32_t *need = NULL, *skip = NULL;
    int64_t strip = (int64_t)(GF_MIN(room, STRIP_BYTES) / row) / GF_PAIRS_GROUP * GF_PAIRS_GROUP;
    strip = GF_MIN(GF_MAX(strip, GF_PAIRS_GROUP), gf_cuda_pairs_padded(a.q.n));
    if (!x->fast) a.q.half = a.k.half = NULL;
    a.lost_max = x->p->lost_max, a.chain = x->chain;
    TRY(upload_skips(err, x, &skip));
    a.skip = skip;
    cudaError_t e = gf_blocks_take(&x->blocks, cudaSuccess, &need, n * sizeof *need);
    e = gf_blocks_take(&x->blocks, e, &a.slack, (size_t)strip * sizeof *a.slack);
    e = gf_blocks_take(&x->blocks, e, &a.s, (size_t)strip * row);
    CUDA_TRY_AS(err, e, "memory for similarities to a sample");
    TRY(sweep_sample(err, x, &a, strip, need));
    CUDA_TRY_AS(err, gf_pairs_window_min(&x->c, x->p->stream), "windows");
    CUDA_TRY_AS(err, cudaStreamSynchronize(x->p->stream), "windows");
    gf_blocks_release(&x->blocks, kept + 2);
    return lay_lists(err, x, need, room, limit, fits);
}

/* The same with windows that let everything in: for a few anchors, whose own windows failed. */
static glofnd_status begin_wide(gf_error *err, gf_collector *x) {
    const size_t n = (size_t)x->c.q.n;
    size_t left = 0;
    int fits = 0;
    int32_t *need = NULL, *length = malloc(n * sizeof *length);
    FAIL_IF(err, !length, GLOFND_E_MEMORY, "no memory for %zu anchors", n);
    for (size_t i = 0; i < n; i++) length[i] = (int32_t)x->others;
    glofnd_status status = take_anchors(err, x, &left);
    cudaError_t e = gf_blocks_take(&x->blocks, cudaSuccess, &need, n * sizeof *need);
    if (e == cudaSuccess) e = cudaMemcpy(need, length, n * sizeof *need, cudaMemcpyHostToDevice);
    free(length);
    TRY(status);
    CUDA_TRY_AS(err, e, "memory for anchors");
    CUDA_TRY_AS(err, gf_pairs_wide_windows(&x->c, x->p->lost_max, x->chain, x->p->stream), "windows");
    TRY(lay_lists(err, x, need, left, 0, &fits));
    FAIL_IF(err, !fits, GLOFND_E_MEMORY, "%zu lists of all %lld pairs of an anchor do not fit the GPU; use device=cpu", n,
            (long long)x->others);
    return GLOFND_OK;
}

void gf_collector_end(gf_collector *x) {
    cudaStreamSynchronize(x->p->stream);
    gf_blocks_release(&x->blocks, 0);
    gf_cuda_pairs_side_free(&x->sample);
    free(x->chosen);
    free(x->start);
    x->chosen = NULL, x->start = NULL;
}

float gf_collector_chain(int ld) { return (float)(1.01 * ld * (ldexp(1.0, -24) + ldexp(1.0, -23)) + 1e-6); }

/* ---------- Results to the host ---------- */

static glofnd_status fetch_counts(gf_error *err, gf_collector *x, const int32_t *from, int64_t *to, int32_t *copy) {
    const size_t n = (size_t)x->c.q.n;
    if (!to) return GLOFND_OK;
    CUDA_TRY_AS(err, cudaMemcpy(copy, from, n * sizeof *copy, cudaMemcpyDeviceToHost), "counts");
    for (size_t i = 0; i < n; i++) to[i] = copy[i];
    return GLOFND_OK;
}

static glofnd_status fetch_cells(gf_error *err, const void *from, void *to, int64_t cells) {
    if (!to || cells == 0) return GLOFND_OK;
    CUDA_TRY_AS(err, cudaMemcpy(to, from, (size_t)cells * 4, cudaMemcpyDeviceToHost), "neighbours");
    return GLOFND_OK;
}

glofnd_status gf_collector_fetch_tree(gf_error *err, gf_collector *x, int32_t *root, int32_t *to) {
    if (!to || !root) return GLOFND_OK;
    CUDA_TRY_AS(err, gf_pairs_flatten(root, x->n, x->p->stream), "connected components");
    CUDA_TRY_AS(err, cudaStreamSynchronize(x->p->stream), "connected components");
    return fetch_cells(err, root, to, x->n);
}

static glofnd_status fetch_all(gf_error *err, gf_collector *x, const gf_pairs_found *f, int32_t *copy) {
    const gf_pairs_collect *c = &x->c;
    const int64_t n = c->q.n;
    TRY(fetch_counts(err, x, c->above, f->above, copy));
    TRY(fetch_counts(err, x, c->hits, f->hits, copy));
    TRY(fetch_counts(err, x, c->copies, f->copies, copy));
    TRY(fetch_counts(err, x, c->mutual, f->mutual, copy));
    TRY(fetch_cells(err, c->lambda, f->lambda, n));
    TRY(fetch_cells(err, c->other, f->other, n * c->top));
    TRY(fetch_cells(err, c->similarity, f->similarity, n * c->top));
    TRY(fetch_cells(err, c->below_other, f->below_other, n * c->below));
    return fetch_cells(err, c->below_similarity, f->below_similarity, n * c->below);
}

glofnd_status gf_collector_fetch_rows(gf_error *err, gf_collector *x, const gf_pairs_found *f) {
    int32_t *copy = malloc((size_t)x->c.q.n * sizeof *copy);
    FAIL_IF(err, !copy, GLOFND_E_MEMORY, "no memory for %lld results", (long long)x->c.q.n);
    CUDA_TRY_AS(err, cudaStreamSynchronize(x->p->stream), "pairs");
    const glofnd_status status = fetch_all(err, x, f, copy);
    free(copy);
    return status;
}

/* Only mutual and mutual_root. */
static glofnd_status fetch_mutual(gf_error *err, gf_collector *x, const gf_pairs_found *f) {
    int32_t *copy = malloc((size_t)x->c.q.n * sizeof *copy);
    FAIL_IF(err, !copy, GLOFND_E_MEMORY, "no memory for %lld results", (long long)x->c.q.n);
    glofnd_status status = gf_cuda_try(err, cudaStreamSynchronize(x->p->stream), "mutual pairs");
    if (status == GLOFND_OK) status = fetch_counts(err, x, x->c.mutual, f->mutual, copy);
    free(copy);
    return status == GLOFND_OK ? gf_collector_fetch_tree(err, x, x->c.mutual_root, f->mutual_root) : status;
}

static glofnd_status fetch_results(gf_error *err, gf_collector *x, const gf_pairs_found *f) {
    TRY(gf_collector_fetch_rows(err, x, f));
    TRY(gf_collector_fetch_tree(err, x, x->c.mutual_root, f->mutual_root));
    return gf_collector_fetch_tree(err, x, x->c.copy_root, f->copy_root);
}

void gf_collector_copy_row(const gf_pairs_found *from, int64_t i, const gf_pairs_found *to, int64_t at) {
    to->lambda[at] = from->lambda[i];
    to->above[at] = from->above[i], to->hits[at] = from->hits[i], to->copies[at] = from->copies[i];
    const size_t cells = (size_t)to->top * sizeof *to->other, below = (size_t)to->below * sizeof *to->below_other;
    memcpy(to->other + at * to->top, from->other + i * to->top, cells);
    memcpy(to->similarity + at * to->top, from->similarity + i * to->top, cells);
    if (below == 0) return;
    memcpy(to->below_other + at * to->below, from->below_other + i * to->below, below);
    memcpy(to->below_similarity + at * to->below, from->below_similarity + i * to->below, below);
}

/* ---------- Anchors whose window or list was too small ----------
 *
 * They are computed again, with all of their pairs listed.
 */

enum { GROUP_MAX = 256 }; /* anchors at a time */
#define GROUP_BYTES ((size_t)8 << 30)

glofnd_status gf_collector_failed(gf_error *err, gf_collector *x, int32_t **row, int32_t *count) {
    *row = NULL, *count = 0;
    CUDA_TRY_AS(err, cudaMemcpyAsync(count, x->c.failed_n, sizeof *count, cudaMemcpyDeviceToHost, x->p->stream), "a count");
    CUDA_TRY_AS(err, cudaStreamSynchronize(x->p->stream), "thresholds");
    if (*count == 0) return GLOFND_OK;
    *row = malloc((size_t)*count * sizeof **row);
    FAIL_IF(err, !*row, GLOFND_E_MEMORY, "no memory for %d anchors", (int)*count);
    CUDA_TRY_AS(err, cudaMemcpy(*row, x->c.failed, (size_t)*count * sizeof **row, cudaMemcpyDeviceToHost), "anchors");
    qsort(*row, (size_t)*count, sizeof **row, gf_order_int32);
    return GLOFND_OK;
}

/* Rows `row` [count] of x to y, with their positions. */
static glofnd_status take_failed(gf_error *err, gf_collector *x, const int32_t *row, int64_t count, gf_collector *y) {
    int32_t *from = NULL, *position = NULL, at[GROUP_MAX];
    for (int64_t i = 0; i < count; i++) at[i] = (int32_t)(x->c.first + row[i]);
    const size_t bytes = (size_t)count * sizeof *at;
    cudaError_t e = gf_blocks_take(&y->blocks, cudaSuccess, &from, bytes);
    e = gf_blocks_take(&y->blocks, e, &position, bytes);
    if (e == cudaSuccess) e = cudaMemcpy(from, row, bytes, cudaMemcpyHostToDevice);
    if (e == cudaSuccess) e = cudaMemcpy(position, at, bytes, cudaMemcpyHostToDevice);
    CUDA_TRY_AS(err, e, "anchors");
    TRY(gf_cuda_pairs_side_alloc(err, x->p, count, x->c.q.dim, &y->sample)); /* freed with y */
    CUDA_TRY_AS(err, gf_pairs_take_rows(&x->c.q, from, &y->sample, x->p->stream), "anchors");
    y->c.q = y->sample, y->c.position = position;
    if (!x->fast) y->c.q.half = NULL;
    return GLOFND_OK;
}

int64_t gf_collector_group(const gf_collector *x) {
    const int64_t fit = (int64_t)(GROUP_BYTES / sizeof(uint64_t)) / x->others;
    return GF_MIN(GF_MAX(fit, 1), GROUP_MAX);
}

glofnd_status gf_collector_rescue(gf_error *err, gf_collector *x, const int32_t *row, int64_t count, gf_collector *y) {
    *y = (gf_collector){.p = x->p, .n = x->n, .others = x->others, .fast = x->fast, .chain = x->chain};
    y->c = (gf_pairs_collect){.k = x->c.k,
                              .col0 = x->c.col0,
                              .label = x->c.label,
                              .rank = x->c.rank,
                              .reach = x->c.reach,
                              .top = x->c.top,
                              .below = x->c.below,
                              .dup = x->c.dup,
                              .whole = x->c.whole,
                              .only_dup = x->c.only_dup,
                              .refined = x->c.refined,
                              .copy_root = x->c.copy_root};
    TRY(take_failed(err, x, row, count, y));
    return begin_wide(err, y);
}

/* ---------- Mutual pairs where some anchors were computed again ----------
 *
 * A pair was counted in the sweep if it lies above both windows, and else by gf_pairs_agree from the lists of its ends. The
 * anchors that were computed again have no list. Their pairs above are known here, with float32 similarities; so are all
 * thresholds. For a mutual pair of such an anchor i with j, the count of j lacks it just if the pair is not in the list of j,
 * hence above the window of j, and not above that of i. Whether it is above the window of i may depend on a rounding: then all
 * pairs are compared again.
 */

typedef struct rescued { /* pairs above of anchors that were computed again */
    int64_t anchors;
    int64_t *start;  /* [anchors + 1] */
    uint64_t *entry; /* with float32 similarities */
    size_t start_capacity, capacity;
    int many; /* 1: too many, they are not kept */
} rescued;

enum { PAIRS_MAX = 1 << 17 }; /* more are faster compared again */

/* a zeroed one is fine */
static void free_rescued(rescued *r) {
    free(r->start);
    free(r->entry);
    *r = (rescued){0};
}

/* Appends those of y, whose lists are as gf_pairs_settle leaves them with `whole`. */
static glofnd_status add_rescued(gf_error *err, rescued *r, const gf_collector *y) {
    const int64_t n = y->c.q.n;
    int32_t *count = malloc((size_t)n * sizeof *count);
    FAIL_IF(err, !count, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)n);
    cudaError_t e = cudaMemcpy(count, y->c.count, (size_t)n * sizeof *count, cudaMemcpyDeviceToHost);
    int there = 1;
    for (int64_t i = 0; i < n && e == cudaSuccess && there && !r->many; i++) {
        const size_t used = r->anchors ? (size_t)r->start[r->anchors] : 0, all = used + (size_t)count[i];
        r->many = all > PAIRS_MAX;
        there = gf_grow(&r->start, &r->start_capacity, (size_t)r->anchors + 2, sizeof *r->start) &&
                gf_grow(&r->entry, &r->capacity, all + 1, sizeof *r->entry);
        if (!there || r->many) break;
        e = cudaMemcpy(r->entry + used, y->c.entry + y->start[i], (size_t)count[i] * sizeof *r->entry, cudaMemcpyDeviceToHost);
        r->start[r->anchors] = (int64_t)used, r->start[++r->anchors] = (int64_t)all;
    }
    free(count);
    FAIL_IF(err, !there, GLOFND_E_MEMORY, "no memory for pairs");
    CUDA_TRY_AS(err, e, "pairs");
    return GLOFND_OK;
}

/* ----- what the search has of an anchor ----- */

/* 1: the list of row j of x has position i. list: a buffer that grows. */
static glofnd_status is_listed(gf_error *err, const gf_collector *x, const int32_t *count, int64_t j, int64_t i, uint64_t **list,
                               size_t *capacity, int *yes) {
    FAIL_IF(err, !gf_grow(list, capacity, (size_t)count[j] + 1, sizeof **list), GLOFND_E_MEMORY, "no memory for pairs");
    CUDA_TRY_AS(err, cudaMemcpy(*list, x->c.entry + x->start[j], (size_t)count[j] * sizeof **list, cudaMemcpyDeviceToHost),
                "pairs");
    *yes = 0;
    for (int32_t k = 0; k < count[j] && !*yes; k++) *yes = (int64_t)((uint32_t)(*list)[k] & GF_ENTRY_POSITION) == i;
    return GLOFND_OK;
}

typedef struct repair {
    const gf_collector *x;
    const rescued *r;
    const int32_t *row; /* [r->anchors] rising */
    const gf_pairs_found *f;
    gf_pairs_window window; /* of the anchor */
    float slack;
    int32_t *count; /* [n] entries of the lists */
    uint64_t *list;
    size_t capacity;
} repair;

/* Mutual pairs of rescued anchor k. *clear 0: roundings leave one open. */
static glofnd_status repair_anchor(gf_error *err, repair *p, int64_t k, int *clear) {
    const int32_t i = p->row[k];
    const gf_pairs_found *f = p->f;
    const float above = p->window.high + p->slack, below = p->window.high - p->slack;
    f->mutual[i] = 0;
    *clear = f->lambda[i] + 3.0f * p->slack <= p->window.high; /* else some were taken for certainly above */
    for (int64_t e = p->r->start[k]; e < p->r->start[k + 1] && *clear; e++) {
        const int32_t j = (int32_t)((uint32_t)p->r->entry[e] & GF_ENTRY_POSITION);
        const uint32_t bits = (uint32_t)(p->r->entry[e] >> 32);
        const uint32_t plain = bits >> 31 ? bits & 0x7fffffffu : ~bits;
        float v;
        memcpy(&v, &plain, sizeof v);
        int listed = 1;
        if (!(v > f->lambda[j])) continue;
        f->mutual[i]++;
        gf_components_join(f->mutual_root, i, j);
        if (bsearch(&j, p->row, (size_t)p->r->anchors, sizeof *p->row, gf_order_int32) || v > above) continue;
        TRY(is_listed(err, p->x, p->count, j, i, &p->list, &p->capacity, &listed));
        if (!listed && !(v < below)) *clear = 0;
        f->mutual[j] += !listed;
    }
    return GLOFND_OK;
}

static glofnd_status repair_all(gf_error *err, repair *p, int *clear) {
    const gf_pairs_collect *c = &p->x->c;
    CUDA_TRY_AS(err, cudaMemcpy(p->count, c->count, (size_t)c->q.n * sizeof *p->count, cudaMemcpyDeviceToHost), "lists");
    for (int64_t k = 0; k < p->r->anchors && *clear; k++) {
        const int64_t i = p->row[k];
        CUDA_TRY_AS(err, cudaMemcpy(&p->window, c->window + i, sizeof p->window, cudaMemcpyDeviceToHost), "windows");
        CUDA_TRY_AS(err, cudaMemcpy(&p->slack, c->slack + i, sizeof p->slack, cudaMemcpyDeviceToHost), "windows");
        TRY(repair_anchor(err, p, k, clear));
    }
    gf_components_flatten(p->f->mutual_root, p->f->n);
    return GLOFND_OK;
}

/* Mutual pairs of x, whose rows row [r->anchors] were computed again: f has their results, and those of the others but for mutual
 * and mutual_root, which are set. *clear 0: roundings leave some of them undecided, and all pairs must be compared again. */
static glofnd_status repair_mutual(gf_error *err, gf_collector *x, const int32_t *row, const rescued *r, const gf_pairs_found *f,
                                   int *clear) {
    repair p = {.x = x, .r = r, .row = row, .f = f};
    *clear = !r->many;
    if (r->many) return GLOFND_OK;
    for (int64_t k = 0; k < r->anchors; k++)
        CUDA_TRY_AS(err,
                    cudaMemcpyAsync(x->c.lambda + row[k], &f->lambda[row[k]], sizeof *f->lambda, cudaMemcpyHostToDevice,
                                    x->p->stream),
                    "thresholds");
    CUDA_TRY_AS(err, gf_pairs_agree(&x->c, x->p->stream), "mutual pairs");
    TRY(fetch_mutual(err, x, f));
    p.count = malloc((size_t)f->n * sizeof *p.count);
    const glofnd_status status =
        p.count ? repair_all(err, &p, clear) : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)f->n);
    free(p.count);
    free(p.list);
    return status;
}

/* ---------- All pairs of one set in one sweep ----------
 *
 * Each product serves both ends of a pair.
 */

enum { FAILED_SHARE = 1000 }; /* more than one anchor in so many: the other way is faster */

/* The result of anchor i of y becomes that of anchor row[i] of f. */
static glofnd_status fetch_rescued(gf_error *err, gf_collector *y, const int32_t *row, const gf_pairs_found *f) {
    gf_pairs_found g;
    TRY(gf_pairs_found_alloc(err, &g, y->c.q.n, f->top));
    glofnd_status status = f->below ? gf_pairs_found_below(err, &g, f->below) : GLOFND_OK;
    if (status == GLOFND_OK) status = gf_collector_fetch_rows(err, y, &g);
    for (int64_t i = 0; i < g.n && status == GLOFND_OK; i++) gf_collector_copy_row(&g, i, f, row[i]);
    gf_pairs_found_free(&g);
    return status;
}

/* Also the pairs above of these anchors, for mutual ones. */
static glofnd_status rescue_rows(gf_error *err, gf_collector *x, const int32_t *row, int64_t count, const gf_pairs_found *f,
                                 rescued *pairs) {
    const int64_t group = gf_collector_group(x);
    for (int64_t i = 0; i < count; i += group) {
        gf_collector y;
        int32_t failed = 0, *again = NULL;
        const gf_job_progress quiet = {0};
        glofnd_status status = gf_collector_rescue(err, x, row + i, GF_MIN(group, count - i), &y);
        y.c.whole = !x->c.only_dup;
        if (status == GLOFND_OK) status = gf_collector_sweep(err, &y, &quiet);
        if (status == GLOFND_OK) status = gf_cuda_try(err, gf_pairs_settle(&y.c, y.others, y.p->stream), "thresholds");
        if (status == GLOFND_OK) status = gf_collector_failed(err, &y, &again, &failed);
        if (status == GLOFND_OK && failed) status = gf_fail(err, GLOFND_E_DEVICE, "%d anchors have no threshold", (int)failed);
        if (status == GLOFND_OK) status = fetch_rescued(err, &y, row + i, f);
        if (status == GLOFND_OK && y.c.whole) status = add_rescued(err, pairs, &y);
        free(again);
        gf_collector_end(&y);
        TRY(status);
    }
    return count ? gf_collector_fetch_tree(err, x, x->c.copy_root, f->copy_root) : GLOFND_OK;
}

/* The result of all anchors, of which row [failed] are computed again. */
static glofnd_status finish_pairs(gf_error *err, gf_collector *x, const int32_t *row, int32_t failed, const gf_pairs_found *f,
                                  int *done) {
    rescued pairs = {0};
    int clear = 1;
    if (failed == 0) CUDA_TRY_AS(err, gf_pairs_agree(&x->c, x->p->stream), "mutual pairs");
    TRY(fetch_results(err, x, f));
    glofnd_status status = rescue_rows(err, x, row, failed, f, &pairs);
    if (status == GLOFND_OK && failed && !x->c.only_dup) status = repair_mutual(err, x, row, &pairs, f, &clear);
    free_rescued(&pairs);
    *done = clear ? GF_FOUND_ALL : GF_FOUND_BUT_MUTUAL;
    return status;
}

static glofnd_status find_pairs(gf_error *err, gf_collector *x, const gf_pairs_task *t, const gf_pairs_found *f, int *done) {
    gf_pairs_collect *c = &x->c;
    const size_t bytes = (size_t)x->n * sizeof(int32_t);
    int32_t failed = 0, *label = NULL, *chosen = NULL, *row = NULL;
    int fits = 0;
    cudaError_t e = gf_blocks_take(&x->blocks, cudaSuccess, &c->mutual_root, bytes);
    e = gf_blocks_take(&x->blocks, e, &c->copy_root, bytes);
    if (e == cudaSuccess) e = gf_pairs_forest(c->mutual_root, x->n, x->p->stream);
    if (e == cudaSuccess) e = gf_pairs_forest(c->copy_root, x->n, x->p->stream);
    if (t->label) e = gf_blocks_take(&x->blocks, e, &label, bytes);
    if (e == cudaSuccess && label) e = cudaMemcpy(label, t->label, bytes, cudaMemcpyHostToDevice);
    CUDA_TRY_AS(err, e, "memory for anchors");
    c->label = label;
    /* The sample is some rows of those on the device. */
    TRY(gf_collector_choose(err, x, t->memory));
    TRY(gf_cuda_pairs_side_alloc(err, x->p, x->sample.n, c->k.dim, &x->sample));
    e = gf_blocks_take(&x->blocks, cudaSuccess, &chosen, (size_t)x->sample.n * sizeof *chosen);
    if (e == cudaSuccess) e = cudaMemcpy(chosen, x->chosen, (size_t)x->sample.n * sizeof *chosen, cudaMemcpyHostToDevice);
    if (e == cudaSuccess) e = gf_pairs_take_rows(&c->k, chosen, &x->sample, x->p->stream);
    CUDA_TRY_AS(err, e, "the sample");
    TRY(gf_collector_begin(err, x, t->memory, t->list, &fits));
    FAIL_IF(err, !fits && t->only_dup, GLOFND_E_MEMORY,
            "lists of duplicates do not fit memory, or the GPU; raise it, or use device=cpu");
    if (!fits) return GLOFND_OK;
    TRY(gf_collector_sweep(err, x, &t->watch));
    CUDA_TRY_AS(err, gf_pairs_settle(c, x->others, x->p->stream), "thresholds");
    glofnd_status status = gf_collector_failed(err, x, &row, &failed);
    *done = GF_FOUND_TOO_LITTLE;
    if (status == GLOFND_OK && (failed <= x->n / FAILED_SHARE + 1 || t->only_dup))
        status = finish_pairs(err, x, row, failed, f, done);
    free(row);
    return status;
}

glofnd_status gf_cuda_pairs_find_collected(gf_error *err, gf_cuda_pairs *p, const gf_pairs_task *t, gf_pairs_found *f,
                                           int *done) {
    const int64_t n = p->k.n, others = n - 1;
    const int fast = p->fast && !t->exact, fits = n < GF_COLLECT_MAX && f->top <= GF_PAIRS_TOP && f->top <= others;
    *done = GF_FOUND_NOTHING;
    FAIL_IF(err, t->only_dup && !fits, GLOFND_E_ARGUMENT,
            "%lld rows, %lld listed duplicates of each: the GPU takes fewer than 2^29, and lists %d; use device=cpu",
            (long long)n, (long long)f->top, GF_PAIRS_TOP);
    if (t->lambda || !fits || (!t->only_dup && (!fast || !gf_pairs_can_fuse()))) return GLOFND_OK;
    gf_collector x = {
        .p = p, .n = n, .others = others, .sample_rows = t->sample, .fast = fast, .chain = gf_collector_chain(p->k.ld)};
    x.c = (gf_pairs_collect){.q = p->k,
                             .k = p->k,
                             .both = 1,
                             .rank = t->only_dup ? 0 : t->rank,
                             .reach = t->only_dup ? 0 : GF_MIN(t->rank + t->below - (t->below > 0), others),
                             .only_dup = t->only_dup,
                             .top = (int)f->top,
                             .below = (int)t->below,
                             .dup = t->dup};
    if (!fast) x.c.q.half = x.c.k.half = NULL;
    const glofnd_status status = find_pairs(err, &x, t, f, done);
    if (t->only_dup) f->compared = n * others;
    gf_collector_end(&x);
    return status;
}
