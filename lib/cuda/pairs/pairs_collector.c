/* pairs_collector.c - see pairs_collector.h. */
#include "cuda/pairs/pairs_collector.h"

#include <math.h>
#include <stdlib.h>

#include "util/array.h"
#include "util/rng.h"

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

gf_pairs_sampling gf_collector_ranks(const gf_collector *x) {
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
    PAIRS_TRY(err, e, "the sample");
    return GLOFND_OK;
}

/* ----- windows ----- */

static glofnd_status sweep_sample(gf_error *err, gf_collector *x, gf_pairs_job *a, int64_t strip, int32_t *need) {
    const gf_pairs_sampling p = gf_collector_ranks(x);
    for (a->row0 = 0; a->row0 < a->q.n; a->row0 += strip) {
        a->rows = (int)GF_MIN(strip, a->q.n - a->row0);
        PAIRS_TRY(err, gf_pairs_slack(a, x->p->stream), "bounds");
        if (x->fast) TRY(gf_pairs_product_run(err, &x->p->product, a, x->p->stream));
        else PAIRS_TRY(err, gf_pairs_exact(a, 1, x->p->stream), "similarities");
        PAIRS_TRY(err, gf_pairs_windows(a, &x->c, &p, need, x->p->stream), "windows");
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
    PAIRS_TRY(err, e, "lists of candidates");
    return GLOFND_OK;
}

static glofnd_status make_windows(gf_error *err, gf_collector *x, size_t memory, int64_t limit, int *fits) {
    const int kept = x->blocks.count;
    const size_t n = (size_t)x->c.q.n, row = (size_t)gf_cuda_pairs_padded(x->sample.n) * sizeof(float);
    gf_pairs_job a = {.q = x->c.q, .k = x->sample, .pitch = gf_cuda_pairs_padded(x->sample.n), .dup = x->c.dup};
    int32_t *need = NULL, *skip = NULL;
    int64_t strip = (int64_t)(GF_MIN(memory, STRIP_BYTES) / row) / GF_PAIRS_GROUP * GF_PAIRS_GROUP;
    strip = GF_MIN(GF_MAX(strip, GF_PAIRS_GROUP), gf_cuda_pairs_padded(a.q.n));
    if (!x->fast) a.q.half = a.k.half = NULL;
    a.lost_max = x->p->lost_max, a.chain = x->chain;
    TRY(upload_skips(err, x, &skip));
    a.skip = skip;
    cudaError_t e = gf_blocks_take(&x->blocks, cudaSuccess, &need, n * sizeof *need);
    e = gf_blocks_take(&x->blocks, e, &a.slack, (size_t)strip * sizeof *a.slack);
    e = gf_blocks_take(&x->blocks, e, &a.s, (size_t)strip * row);
    PAIRS_TRY(err, e, "memory for similarities to a sample");
    TRY(sweep_sample(err, x, &a, strip, need));
    PAIRS_TRY(err, gf_pairs_window_min(&x->c, x->p->stream), "windows");
    PAIRS_TRY(err, cudaStreamSynchronize(x->p->stream), "windows");
    gf_blocks_release(&x->blocks, kept + 2);
    return lay_lists(err, x, need, memory, limit, fits);
}

/* ----- the sweep ----- */

/* Columns pass by all thread blocks at about the same time: a band has as many rows as these take at once. */
static glofnd_status band_rows(gf_error *err, int64_t *rows) {
    int device = 0, processors = 0;
    PAIRS_TRY(err, cudaGetDevice(&device), "the device");
    PAIRS_TRY(err, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "the device");
    *rows = GF_MAX(processors / 2, 1) * GF_COLLECT_ALIGN;
    return GLOFND_OK;
}

static glofnd_status report(gf_error *err, const gf_collector *x, const gf_job_progress *watch, double share) {
    if (!watch->progress && !watch->stop) return GLOFND_OK;
    PAIRS_TRY(err, cudaStreamSynchronize(x->p->stream), "pairs");
    gf_job_report(watch, x->c.both ? 1.0 - (1.0 - share) * (1.0 - share) : share);
    FAIL_IF(err, gf_job_stopped(watch), GLOFND_E_ARGUMENT, "stopped");
    return GLOFND_OK;
}

static glofnd_status sweep_bands(gf_error *err, gf_collector *x, const gf_job_progress *watch) {
    gf_pairs_collect *c = &x->c;
    int64_t rows = 0;
    TRY(band_rows(err, &rows));
    for (c->band0 = 0; c->band0 < c->q.n; c->band0 += rows) {
        c->band_n = GF_MIN(rows, c->q.n - c->band0);
        PAIRS_TRY(err, gf_pairs_collect_fused(c, x->p->stream), "pairs");
        TRY(report(err, x, watch, (double)(c->band0 + c->band_n) / (double)c->q.n));
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
    PAIRS_TRY(err, e, "memory for similarities");
    for (a.row0 = 0; a.row0 < a.q.n; a.row0 += strip) {
        a.rows = (int)GF_MIN(strip, a.q.n - a.row0);
        if (x->fast) TRY(gf_pairs_product_run(err, &x->p->product, &a, x->p->stream));
        else PAIRS_TRY(err, gf_pairs_exact(&a, 1, x->p->stream), "similarities");
        PAIRS_TRY(err, gf_pairs_collect_strip(&a, &x->c, x->p->stream), "pairs");
        TRY(report(err, x, watch, (double)(a.row0 + a.rows) / (double)a.q.n));
    }
    PAIRS_TRY(err, cudaStreamSynchronize(x->p->stream), "pairs");
    gf_blocks_release(&x->blocks, kept);
    return GLOFND_OK;
}

glofnd_status gf_collector_sweep(gf_error *err, gf_collector *x, const gf_job_progress *watch) {
    return x->fast && gf_pairs_can_fuse() ? sweep_bands(err, x, watch) : sweep_strips(err, x, watch);
}

/* ----- anchors ----- */

static size_t padded(int64_t n) { return (size_t)(n + GF_COLLECT_ALIGN - 1) / GF_COLLECT_ALIGN * GF_COLLECT_ALIGN; }

#define TAKE(field, number) (e = gf_blocks_take(&x->blocks, e, &(field), (size_t)(number) * sizeof *(field)))
#define ZERO(field, number) \
    (e = e == cudaSuccess ? cudaMemsetAsync((field), 0, (size_t)(number) * sizeof *(field), x->p->stream) : e)

static glofnd_status take_anchors(gf_error *err, gf_collector *x, size_t *left) {
    gf_pairs_collect *c = &x->c;
    const int64_t n = c->q.n;
    cudaError_t e = cudaSuccess;
    TAKE(c->window, n);
    TAKE(c->min, padded(n));
    TAKE(c->slack, n);
    TAKE(c->count, n);
    TAKE(c->lambda, n);
    TAKE(c->above, n);
    TAKE(c->hits, n);
    TAKE(c->copies, n);
    TAKE(c->mutual, n);
    TAKE(c->failed, n);
    TAKE(c->failed_n, 1);
    TAKE(c->other, n * c->top);
    TAKE(c->similarity, n * c->top);
    TAKE(c->edge_other, n * c->edge);
    TAKE(c->edge_similarity, n * c->edge);
    ZERO(c->count, n);
    ZERO(c->above, n);
    ZERO(c->hits, n);
    ZERO(c->copies, n);
    ZERO(c->mutual, n);
    ZERO(c->failed_n, 1);
    PAIRS_TRY(err, e, "memory for anchors");
    size_t free_bytes = 0;
    PAIRS_TRY(err, gf_cuda_memory_left(&free_bytes), "memory");
    *left = free_bytes > RESERVE ? free_bytes - RESERVE : 0;
    return GLOFND_OK;
}

glofnd_status gf_collector_begin(gf_error *err, gf_collector *x, size_t memory, int64_t limit, int *fits) {
    size_t left = 0;
    TRY(take_anchors(err, x, &left));
    return make_windows(err, x, GF_MIN(memory, left), limit, fits);
}

glofnd_status gf_collector_begin_wide(gf_error *err, gf_collector *x) {
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
    PAIRS_TRY(err, e, "memory for anchors");
    PAIRS_TRY(err, gf_pairs_wide_windows(&x->c, x->p->lost_max, x->chain, x->p->stream), "windows");
    TRY(lay_lists(err, x, need, left, 0, &fits));
    FAIL_IF(err, !fits, GLOFND_E_MEMORY, "%zu lists of all %lld pairs of an anchor do not fit the GPU; use --device cpu", n,
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
