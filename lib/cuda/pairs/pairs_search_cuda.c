/* pairs_search_cuda.c - see pairs_search.h: discovery on the GPU, with the bits of the CPU. Kernels: pairs_kernels.h.
 *
 * find: on Hopper one sweep over the pairs collects candidates (pairs_collector.c). Elsewhere, and where that is not
 * possible, thresholds need complete rows, so a first pass computes all of them; a second one, with all thresholds known, needs
 * every pair once and counts mutual ones. Given thresholds need one pass. Without cuBLASLt every similarity is a float32 one, and
 * slow.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/pairs/pairs_cuda.h"
#include "util/array.h"

/* ---------- Embeddings to the GPU ---------- */

#define CHUNK_BYTES ((size_t)64 << 20) /* of rows on their way */

int64_t gf_cuda_pairs_padded(int64_t n) { return (n + GF_PAIRS_GROUP - 1) / GF_PAIRS_GROUP * GF_PAIRS_GROUP; }

static int64_t padded_dim(int64_t dim) { return (dim + 31) / 32 * 32; }

size_t gf_cuda_pairs_embeddings(int64_t n, int64_t dim) {
    return (size_t)gf_cuda_pairs_padded(n) * ((size_t)padded_dim(dim) * (sizeof(float) + sizeof(uint16_t)) + sizeof(float));
}

/* Rows [first, first + count) of v one after the other: where they lie already, or gathered into `copy`. */
static const float *contiguous(const gf_vectors *v, int64_t first, int64_t count, float *copy) {
    const int32_t *row = v->row ? v->row + first : NULL;
    int64_t run = 1;
    if (!row) return v->x + first * v->dim;
    while (run < count && row[run] == row[0] + run) run++;
    if (run == count) return v->x + (int64_t)row[0] * v->dim;
    for (int64_t i = 0; i < count; i++) memcpy(copy + i * v->dim, v->x + (int64_t)row[i] * v->dim, (size_t)v->dim * sizeof *copy);
    return copy;
}

static glofnd_status upload_rows(gf_error *err, gf_cuda_pairs *c, const gf_vectors *v, float *copy, float *raw, int64_t chunk,
                                 gf_pairs_side *to) {
    for (int64_t first = 0; first < to->n; first += chunk) {
        const int64_t count = to->n - first < chunk ? to->n - first : chunk;
        const float *from = contiguous(v, first, count, copy);
        CUDA_TRY_AS(err, cudaMemcpyAsync(raw, from, (size_t)(count * to->dim) * sizeof *raw, cudaMemcpyHostToDevice, c->stream),
                    "embeddings to the device");
        CUDA_TRY_AS(err, gf_pairs_unit(raw, count, first, to, c->stream), "unit vectors");
        CUDA_TRY_AS(err, cudaStreamSynchronize(c->stream), "unit vectors");
    }
    return GLOFND_OK;
}

glofnd_status gf_cuda_pairs_side_alloc(gf_error *err, gf_cuda_pairs *c, int64_t n, int64_t dim, gf_pairs_side *s) {
    const size_t rows = (size_t)gf_cuda_pairs_padded(n);
    *s = (gf_pairs_side){.n = n, .dim = (int)dim, .ld = (int)padded_dim(dim)};
    cudaError_t e = cudaMalloc((void **)&s->x, rows * (size_t)s->ld * sizeof *s->x);
    if (e == cudaSuccess && c->fast) e = cudaMalloc(&s->half, rows * (size_t)s->ld * sizeof(uint16_t));
    if (e == cudaSuccess) e = cudaMalloc((void **)&s->lost, rows * sizeof *s->lost);
    FAIL_IF(err, e != cudaSuccess, GLOFND_E_MEMORY, "%lld x %lld embeddings take %.2f GB on the GPU: %s; use device=cpu",
            (long long)n, (long long)dim, (double)gf_cuda_pairs_embeddings(n, dim) / 1e9, cudaGetErrorString(e));
    const size_t tail = rows - (size_t)n, at = (size_t)n * (size_t)s->ld;
    CUDA_TRY_AS(err, cudaMemsetAsync(s->x + at, 0, tail * (size_t)s->ld * sizeof *s->x, c->stream), "padding");
    if (s->half)
        CUDA_TRY_AS(err, cudaMemsetAsync((uint16_t *)s->half + at, 0, tail * (size_t)s->ld * sizeof(uint16_t), c->stream),
                    "padding");
    return GLOFND_OK;
}

/* Embeddings of out->dim numbers to the device. Free in any case. */
static glofnd_status upload_side(gf_error *err, gf_cuda_pairs *c, const gf_vectors *v, gf_pairs_side *out) {
    const size_t row_bytes = (size_t)v->dim * sizeof(float);
    int64_t chunk = (int64_t)(CHUNK_BYTES / row_bytes);
    if (chunk < 1) chunk = 1;
    if (chunk > v->n) chunk = v->n;
    float *raw = NULL, *copy = NULL;
    TRY(gf_cuda_pairs_side_alloc(err, c, v->n, v->dim, out));
    cudaError_t e = cudaMalloc((void **)&raw, (size_t)chunk * row_bytes);
    copy = malloc((size_t)chunk * row_bytes);
    const glofnd_status status = e == cudaSuccess && copy
                                     ? upload_rows(err, c, v, copy, raw, chunk, out)
                                     : gf_fail(err, GLOFND_E_MEMORY, "no memory to copy embeddings to the GPU");
    cudaFree(raw);
    free(copy);
    return status;
}

void gf_cuda_pairs_side_free(gf_pairs_side *s) {
    cudaFree(s->x);
    cudaFree(s->half);
    cudaFree(s->lost);
    *s = (gf_pairs_side){0};
}

glofnd_status gf_cuda_pairs_lost_max(gf_error *err, gf_cuda_pairs *c) {
    float *max = NULL;
    CUDA_TRY_AS(err, cudaMalloc((void **)&max, sizeof *max), "memory");
    cudaError_t e = cudaMemsetAsync(max, 0, sizeof *max, c->stream);
    if (e == cudaSuccess) e = gf_pairs_largest(c->k.lost, c->k.n, max, c->stream);
    if (e == cudaSuccess) e = cudaMemcpyAsync(&c->lost_max, max, sizeof *max, cudaMemcpyDeviceToHost, c->stream);
    if (e == cudaSuccess) e = cudaStreamSynchronize(c->stream);
    cudaFree(max);
    CUDA_TRY_AS(err, e, "roundings of the embeddings");
    return GLOFND_OK;
}

static glofnd_status open_product(gf_error *err, gf_pairs_product *p);

glofnd_status gf_cuda_pairs_create(gf_error *err, int64_t n, int64_t dim, gf_cuda_pairs **out) {
    char why[200];
    *out = NULL;
    FAIL_IF(err, gf_cuda_devices(why, sizeof why) == 0, GLOFND_E_DEVICE, "no CUDA device: %s; use device=cpu", why);
    FAIL_IF(err, n < 1 || n >= INT32_MAX || dim < 1 || dim > 1 << 20, GLOFND_E_ARGUMENT,
            "%lld embeddings of %lld numbers; expected 1 .. 2^31 - 2 of 1 .. 2^20", (long long)n, (long long)dim);
    gf_cuda_pairs *c = calloc(1, sizeof *c);
    FAIL_IF(err, !c, GLOFND_E_MEMORY, "no memory for embeddings");
    c->fast = open_product(err, &c->product) == GLOFND_OK;
    const cudaError_t e = cudaStreamCreate(&c->stream);
    const glofnd_status status = e == cudaSuccess ? GLOFND_OK : gf_cuda_fail(err, e, "stream");
    if (status == GLOFND_OK) *out = c;
    else gf_cuda_pairs_close(c);
    return status;
}

static glofnd_status open_pairs(gf_error *err, const gf_vectors *rows, int threads, void **state) {
    gf_cuda_pairs *c = NULL;
    (void)threads;
    TRY(gf_cuda_pairs_create(err, rows->n, rows->dim, &c));
    glofnd_status status = upload_side(err, c, rows, &c->k);
    if (status == GLOFND_OK && c->fast) status = gf_cuda_pairs_lost_max(err, c);
    if (status == GLOFND_OK) *state = c;
    else gf_cuda_pairs_close(c);
    return status;
}

void gf_cuda_pairs_close(void *state) {
    gf_cuda_pairs *c = state;
    if (!c) return;
    gf_cuda_pairs_side_free(&c->k);
    /* a zeroed one is fine */
    gf_pairs_product *p = &c->product;
    const gf_blas_lib *l = &p->libs;
    if (p->preference) l->cublasLtMatmulPreferenceDestroy(p->preference);
    if (p->desc) l->cublasLtMatmulDescDestroy(p->desc);
    if (p->blas) l->cublasLtDestroy(p->blas);
    cudaFree(p->workspace);
    gf_blas_lib_close(&p->libs);
    memset(p, 0, sizeof *p);
    if (c->stream) cudaStreamDestroy(c->stream);
    free(c);
}

/* ---------- Similarities of a strip by cuBLASLt ----------
 *
 * It is column-major, so it computes the transpose of s, s' = k q'.
 */

#define PRODUCT_BYTES ((size_t)64 << 20)

#define BLAS_TRY(err, call, at)                                                                                     \
    do {                                                                                                            \
        const cublasStatus_t blas_try_ = (call);                                                                    \
        FAIL_IF(err, blas_try_ != CUBLAS_STATUS_SUCCESS, GLOFND_E_DEVICE, "cuBLASLt: %s failed with status %d", at, \
                (int)blas_try_);                                                                                    \
    } while (0)

/* E_UNSUPPORTED where cuBLASLt is missing. Close in any case. */
static glofnd_status open_product(gf_error *err, gf_pairs_product *p) {
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const size_t max = PRODUCT_BYTES;
    memset(p, 0, sizeof *p);
    TRY(gf_blas_lib_open(err, &p->libs));
    const gf_blas_lib *l = &p->libs;
    BLAS_TRY(err, l->cublasLtCreate(&p->blas), "opening it");
    BLAS_TRY(err, l->cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product");
    BLAS_TRY(err, l->cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
             "a product");
    BLAS_TRY(err, l->cublasLtMatmulPreferenceCreate(&p->preference), "a preference");
    BLAS_TRY(err,
             l->cublasLtMatmulPreferenceSetAttribute(p->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &max, sizeof max),
             "a preference");
    const cudaError_t e = cudaMalloc(&p->workspace, PRODUCT_BYTES);
    FAIL_IF(err, e != cudaSuccess, GLOFND_E_MEMORY, "no memory for products on the GPU: %s", cudaGetErrorString(e));
    return GLOFND_OK;
}

static glofnd_status multiply_strip(gf_error *err, gf_pairs_product *p, const gf_pairs_job *a, const cublasLtMatrixLayout_t *m,
                                    cudaStream_t stream) {
    const gf_blas_lib *l = &p->libs;
    const uint16_t *k = a->k.half, *q = a->q.half;
    const float one = 1.0f, zero = 0.0f;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    BLAS_TRY(err, l->cublasLtMatmulAlgoGetHeuristic(p->blas, p->desc, m[0], m[1], m[2], m[2], p->preference, 1, &found, &count),
             "choice of an algorithm");
    FAIL_IF(err, count < 1, GLOFND_E_UNSUPPORTED, "cuBLASLt has no algorithm for %d x %lld similarities of %d numbers", a->rows,
            (long long)(a->k.n - a->col0), a->k.dim);
    BLAS_TRY(err,
             l->cublasLtMatmul(p->blas, p->desc, &one, k + a->col0 * a->k.ld, m[0], q + a->row0 * a->q.ld, m[1], &zero, a->s,
                               m[2], a->s, m[2], &found.algo, p->workspace, PRODUCT_BYTES, stream),
             "a product");
    return GLOFND_OK;
}

glofnd_status gf_pairs_product_run(gf_error *err, gf_pairs_product *p, const gf_pairs_job *a, cudaStream_t stream) {
    const gf_blas_lib *l = &p->libs;
    const uint64_t cols = (uint64_t)(gf_cuda_pairs_padded(a->k.n) - a->col0), rows = (uint64_t)a->rows, ld = (uint64_t)a->k.ld;
    cublasLtMatrixLayout_t m[3] = {NULL, NULL, NULL};
    cublasStatus_t made = l->cublasLtMatrixLayoutCreate(&m[0], CUDA_R_16F, ld, cols, a->k.ld);
    if (made == CUBLAS_STATUS_SUCCESS) made = l->cublasLtMatrixLayoutCreate(&m[1], CUDA_R_16F, ld, rows, a->q.ld);
    if (made == CUBLAS_STATUS_SUCCESS) made = l->cublasLtMatrixLayoutCreate(&m[2], CUDA_R_32F, cols, rows, a->pitch);
    const glofnd_status status = made == CUBLAS_STATUS_SUCCESS
                                     ? multiply_strip(err, p, a, m, stream)
                                     : gf_fail(err, GLOFND_E_DEVICE, "cuBLASLt: a matrix failed with status %d", (int)made);
    for (int i = 0; i < 3; i++)
        if (m[i]) l->cublasLtMatrixLayoutDestroy(m[i]);
    return status;
}

/* ---------- The search ---------- */

#define STRIP_BYTES ((size_t)16 << 30) /* similarities and lists of a strip: more is not faster */
#define STRIP_ROWS 8192
#define LIST 32768 /* similarities of a row that roundings may leave open, beside the most similar ones */

enum { BLOCKS_MAX = 32 };

typedef struct work {
    gf_cuda_pairs *c;
    const gf_pairs_task *t;
    const gf_pairs_found *f;
    gf_pairs_job a;
    int64_t strip;           /* rows */
    int fast;                /* by tensor cores */
    int dense;               /* some group of rows is */
    gf_job_progress watch;   /* of this pass */
    void *block[BLOCKS_MAX]; /* device memory to free */
    int blocks;
} work;

/* ----- memory ----- */

static int64_t list_capacity(int64_t n, int64_t top) { return GF_MIN(n, LIST + 4 * top); }

/* Bytes of one row of a strip. top: those below count, too. */
static size_t row_bytes(int64_t n, int64_t top) {
    return (size_t)gf_cuda_pairs_padded(n) * sizeof(float) + (size_t)list_capacity(n, top) * sizeof(uint64_t) +
           (size_t)top * (sizeof(int32_t) + sizeof(float)) + 4 * sizeof(float) + sizeof(int32_t);
}

/* A multiple of GF_PAIRS_GROUP, and that at least. */
static int64_t strip_rows(int64_t rows, int64_t n, int64_t top, size_t memory) {
    const size_t limit = memory < STRIP_BYTES ? memory : STRIP_BYTES;
    const int64_t fit = GF_MIN((int64_t)(limit / row_bytes(n, top)), STRIP_ROWS) / GF_PAIRS_GROUP * GF_PAIRS_GROUP;
    return GF_MIN(fit > 0 ? fit : GF_PAIRS_GROUP, gf_cuda_pairs_padded(rows));
}

/* Upper bound of the bytes of one anchor: threshold, four counts, two trees, skip, label, group. */
#define ANCHOR_BYTES (10 * sizeof(float))

/* Bytes of everything but the embeddings, where so much is free. */
static size_t work_bytes(int64_t n, int64_t top, size_t memory) {
    return (size_t)strip_rows(n, n, top, memory) * row_bytes(n, top) + (size_t)n * ANCHOR_BYTES + ((size_t)128 << 20);
}

/* cudaMalloc; release() frees it. */
static cudaError_t take(work *w, void *at, size_t bytes) {
    void *p = NULL;
    const cudaError_t e = cudaMalloc(&p, bytes > 0 ? bytes : 1);
    if (e == cudaSuccess) w->block[w->blocks++] = p;
    memcpy(at, &p, sizeof p);
    return e;
}

static void release(work *w, int keep) {
    while (w->blocks > keep) cudaFree(w->block[--w->blocks]);
}

#define TAKE(field, count) (e = e == cudaSuccess ? take(w, &(field), (size_t)(count) * sizeof *(field)) : e)

static glofnd_status take_anchors(gf_error *err, work *w, int trees) {
    gf_pairs_job *a = &w->a;
    const size_t n = (size_t)a->q.n, groups = n / GF_PAIRS_GROUP + 1;
    cudaError_t e = cudaSuccess;
    int32_t **const counts[] = {&a->above, &a->hits, &a->copies, &a->mutual};
    TAKE(a->lambda, n);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        TAKE(*counts[i], n);
        if (e == cudaSuccess) e = cudaMemsetAsync(*counts[i], 0, n * sizeof **counts[i], w->c->stream);
    }
    TAKE(a->dense, groups);
    TAKE(a->dense_n, 1);
    if (e == cudaSuccess) e = cudaMemsetAsync(a->dense, 0, groups * sizeof *a->dense, w->c->stream);
    if (trees) {
        TAKE(a->mutual_root, n);
        TAKE(a->copy_root, n);
        if (e == cudaSuccess) e = gf_pairs_forest(a->mutual_root, a->q.n, w->c->stream);
        if (e == cudaSuccess) e = gf_pairs_forest(a->copy_root, a->q.n, w->c->stream);
    }
    CUDA_TRY_AS(err, e, "memory for anchors");
    return GLOFND_OK;
}

/* Copies n host numbers of 4 bytes to the device and puts their address into the pointer at `at`. */
static glofnd_status upload_numbers(gf_error *err, work *w, const void *from, int64_t n, void *at) {
    void *to = NULL;
    cudaError_t e = take(w, &to, (size_t)n * 4);
    if (e == cudaSuccess) e = cudaMemcpyAsync(to, from, (size_t)n * 4, cudaMemcpyHostToDevice, w->c->stream);
    CUDA_TRY_AS(err, e, "numbers to the device");
    memcpy(at, &to, sizeof to);
    return GLOFND_OK;
}

/* ----- a strip ----- */

static glofnd_status similarities(gf_error *err, work *w) {
    cudaStream_t stream = w->c->stream;
    CUDA_TRY_AS(err, gf_pairs_slack(&w->a, stream), "bounds");
    if (w->fast) return gf_pairs_product_run(err, &w->c->product, &w->a, stream);
    CUDA_TRY_AS(err, gf_pairs_exact(&w->a, 1, stream), "similarities");
    return GLOFND_OK;
}

/* Cells [rows][width] of 4 bytes of this strip to their place among those of all. */
static glofnd_status fetch_cells(gf_error *err, const work *w, void *to, const void *cells, int64_t width) {
    if (width == 0 || !to) return GLOFND_OK;
    CUDA_TRY_AS(err,
                cudaMemcpyAsync((char *)to + w->a.row0 * width * 4, cells, (size_t)(w->a.rows * width) * 4,
                                cudaMemcpyDeviceToHost, w->c->stream),
                "neighbours");
    return GLOFND_OK;
}

/* Thresholds, counts above them, duplicates and the most similar ones of the rows of a strip. */
static glofnd_status select_rows(gf_error *err, work *w) {
    const gf_pairs_job *a = &w->a;
    cudaStream_t stream = w->c->stream;
    int32_t dense = 0;
    if (a->rank == 0 && a->top == 0 && a->dup > 2.0f) return GLOFND_OK;
    CUDA_TRY_AS(err, cudaMemsetAsync(a->dense_n, 0, sizeof dense, stream), "a count");
    CUDA_TRY_AS(err, gf_pairs_brackets(a, stream), "brackets of thresholds");
    CUDA_TRY_AS(err, gf_pairs_gather(a, stream), "candidates");
    CUDA_TRY_AS(err, cudaMemcpyAsync(&dense, a->dense_n, sizeof dense, cudaMemcpyDeviceToHost, stream), "a count");
    CUDA_TRY_AS(err, cudaStreamSynchronize(stream), "candidates");
    if (dense > 0) {
        w->dense = 1;
        CUDA_TRY_AS(err, gf_pairs_exact(a, 0, stream), "similarities of dense rows");
        CUDA_TRY_AS(err, gf_pairs_select(a, 1, stream), "dense rows");
    }
    CUDA_TRY_AS(err, gf_pairs_select(a, 0, stream), "rows");
    TRY(fetch_cells(err, w, w->f->other, a->other, a->top));
    TRY(fetch_cells(err, w, w->f->similarity, a->similarity, a->top));
    TRY(fetch_cells(err, w, w->f->below_other, a->below_other, a->below));
    return fetch_cells(err, w, w->f->below_similarity, a->below_similarity, a->below);
}

static glofnd_status report(gf_error *err, work *w, double share) {
    if (!w->watch.progress && !w->watch.stop) return GLOFND_OK;
    CUDA_TRY_AS(err, cudaStreamSynchronize(w->c->stream), "a strip");
    gf_job_report(&w->watch, share);
    FAIL_IF(err, gf_job_stopped(&w->watch), GLOFND_E_CANCELLED, "cancelled");
    return GLOFND_OK;
}

/* Complete rows; with `compare` also against the thresholds of the columns. */
static glofnd_status sweep_rows(gf_error *err, work *w, int compare) {
    gf_pairs_job *a = &w->a;
    for (a->row0 = 0; a->row0 < a->q.n; a->row0 += w->strip) {
        a->rows = (int)GF_MIN(w->strip, a->q.n - a->row0);
        TRY(similarities(err, w));
        TRY(select_rows(err, w));
        if (compare) CUDA_TRY_AS(err, gf_pairs_compare(a, w->c->stream), "mutual pairs");
        TRY(report(err, w, (double)(a->row0 + a->rows) / (double)a->q.n));
    }
    return GLOFND_OK;
}

/* Every pair once, with thresholds of both. */
static glofnd_status sweep_pairs(gf_error *err, work *w) {
    gf_pairs_job *a = &w->a;
    const double n = (double)a->q.n;
    a->half = 1;
    for (a->row0 = 0; a->row0 < a->q.n; a->row0 += w->strip) {
        a->rows = (int)GF_MIN(w->strip, a->q.n - a->row0);
        a->col0 = a->row0;
        TRY(similarities(err, w));
        if (w->dense && w->fast) CUDA_TRY_AS(err, gf_pairs_exact(a, 0, w->c->stream), "similarities of dense rows");
        CUDA_TRY_AS(err, gf_pairs_compare(a, w->c->stream), "mutual pairs");
        const double left = 1.0 - (double)(a->row0 + a->rows) / n;
        TRY(report(err, w, 1.0 - left * left));
    }
    return GLOFND_OK;
}

/* ----- results ----- */

static glofnd_status fetch_counts(gf_error *err, work *w, const int32_t *from, int64_t *to, int32_t *copy) {
    const int64_t n = w->a.q.n;
    if (!to) return GLOFND_OK;
    CUDA_TRY_AS(err, cudaMemcpyAsync(copy, from, (size_t)n * sizeof *copy, cudaMemcpyDeviceToHost, w->c->stream), "counts");
    CUDA_TRY_AS(err, cudaStreamSynchronize(w->c->stream), "counts");
    for (int64_t i = 0; i < n; i++) to[i] = copy[i];
    return GLOFND_OK;
}

static glofnd_status fetch_tree(gf_error *err, work *w, int32_t *from, int32_t *to) {
    if (!to || !from) return GLOFND_OK;
    CUDA_TRY_AS(err, gf_pairs_flatten(from, w->a.q.n, w->c->stream), "connected components");
    CUDA_TRY_AS(err, cudaMemcpyAsync(to, from, (size_t)w->a.q.n * sizeof *to, cudaMemcpyDeviceToHost, w->c->stream),
                "connected components");
    return GLOFND_OK;
}

static glofnd_status fetch_anchors(gf_error *err, work *w, int32_t *copy) {
    const gf_pairs_job *a = &w->a;
    const gf_pairs_found *f = w->f;
    TRY(fetch_counts(err, w, a->above, f->above, copy));
    TRY(fetch_counts(err, w, a->hits, f->hits, copy));
    TRY(fetch_counts(err, w, a->copies, f->copies, copy));
    TRY(fetch_counts(err, w, a->mutual, f->mutual, copy));
    TRY(fetch_tree(err, w, a->mutual_root, f->mutual_root));
    TRY(fetch_tree(err, w, a->copy_root, f->copy_root));
    CUDA_TRY_AS(err,
                cudaMemcpyAsync(f->lambda, a->lambda, (size_t)a->q.n * sizeof *f->lambda, cudaMemcpyDeviceToHost, w->c->stream),
                "thresholds");
    CUDA_TRY_AS(err, cudaStreamSynchronize(w->c->stream), "results");
    return GLOFND_OK;
}

static glofnd_status fetch_results(gf_error *err, work *w) {
    int32_t *copy = malloc((size_t)w->a.q.n * sizeof *copy);
    FAIL_IF(err, !copy, GLOFND_E_MEMORY, "no memory for %lld results", (long long)w->a.q.n);
    const glofnd_status status = fetch_anchors(err, w, copy);
    free(copy);
    return status;
}

/* ----- find_pairs, query_rows ----- */

static glofnd_status begin_search(gf_error *err, work *w, const gf_pairs_side *q, int trees) {
    gf_cuda_pairs *c = w->c;
    const gf_pairs_task *t = w->t;
    const int64_t top = w->f->top, others = c->k.n - (q->x == c->k.x || t->skip);
    FAIL_IF(err, top > GF_PAIRS_TOP, GLOFND_E_ARGUMENT,
            "the GPU keeps at most %d most similar ones of an anchor, not %lld; lower top, or use device=cpu", GF_PAIRS_TOP,
            (long long)top);
    FAIL_IF(err, top > others, GLOFND_E_ARGUMENT, "an anchor has %lld others; the %lld most similar are asked for",
            (long long)others, (long long)top);
    w->watch = t->watch, w->fast = c->fast && !t->exact;
    w->a = (gf_pairs_job){.q = *q,
                          .k = c->k,
                          .rank = t->rank,
                          .top = (int)top,
                          .below = t->lambda ? 0 : (int)t->below,
                          .dup = t->dup,
                          .lost_max = c->lost_max,
                          .pitch = gf_cuda_pairs_padded(c->k.n),
                          .cap = (int)(t->list ? t->list : list_capacity(c->k.n, top))};
    if (!w->fast) w->a.q.half = w->a.k.half = NULL;
    w->a.reach = GF_MIN(t->rank + w->a.below - (w->a.below > 0), others);
    /* a sum of dim products: rounded once each on the CPU, truncated at worst by the tensor cores */
    w->a.chain = (float)(1.01 * c->k.ld * (ldexp(1.0, -24) + ldexp(1.0, -23)) + 1e-6);
    TRY(take_anchors(err, w, trees));
    if (t->label) TRY(upload_numbers(err, w, t->label, c->k.n, &w->a.label));
    if (t->skip) TRY(upload_numbers(err, w, t->skip, q->n, &w->a.skip));
    /* The largest strip that fits. */
    const gf_pairs_job *a = &w->a;
    const int kept = w->blocks;
    w->strip = strip_rows(a->q.n, a->k.n, a->top + a->below, w->t->memory);
    for (;;) {
        gf_pairs_job *job = &w->a;
        cudaError_t e = cudaSuccess;
        const size_t rows = (size_t)w->strip;
        TAKE(job->s, rows * (size_t)job->pitch);
        TAKE(job->list, rows * (size_t)job->cap);
        TAKE(job->list_n, rows);
        TAKE(job->slack, rows);
        TAKE(job->low, rows);
        TAKE(job->high, rows);
        TAKE(job->top_low, rows);
        TAKE(job->other, rows * (size_t)job->top);
        TAKE(job->similarity, rows * (size_t)job->top);
        TAKE(job->below_other, rows * (size_t)job->below);
        TAKE(job->below_similarity, rows * (size_t)job->below);
        if (e == cudaSuccess) return GLOFND_OK;
        (void)cudaGetLastError();
        release(w, kept);
        FAIL_IF(err, w->strip <= GF_PAIRS_GROUP, GLOFND_E_MEMORY,
                "%d rows of %lld similarities, %.2f GB, do not fit the GPU along with %.2f GB of embeddings: %s", GF_PAIRS_GROUP,
                (long long)a->k.n, GF_PAIRS_GROUP * (double)row_bytes(a->k.n, a->top + a->below) / 1e9,
                (double)gf_cuda_pairs_embeddings(a->k.n, a->k.dim) / 1e9, cudaGetErrorString(e));
        w->strip = (w->strip / 2 + GF_PAIRS_GROUP - 1) / GF_PAIRS_GROUP * GF_PAIRS_GROUP;
    }
}

static glofnd_status find_all(gf_error *err, work *w) {
    gf_pairs_job *a = &w->a;
    TRY(begin_search(err, w, &w->c->k, 1));
    a->self = 1, a->col_lambda = a->lambda;
    if (w->t->lambda) {
        CUDA_TRY_AS(err,
                    cudaMemcpyAsync(a->lambda, w->t->lambda, (size_t)a->q.n * sizeof *a->lambda, cudaMemcpyHostToDevice,
                                    w->c->stream),
                    "thresholds");
        a->rank = a->reach = 0, a->recount = 1;
        TRY(sweep_rows(err, w, 1));
        return fetch_results(err, w);
    }
    w->watch = gf_job_part(&w->t->watch, 0.0, 0.75);
    TRY(sweep_rows(err, w, 0));
    w->watch = gf_job_part(&w->t->watch, 0.75, 1.0);
    TRY(sweep_pairs(err, w));
    return fetch_results(err, w);
}

static glofnd_status find_pairs(gf_error *err, void *state, const gf_pairs_task *t, gf_pairs_found *f) {
    work w = {.c = state, .t = t, .f = f};
    int done = 0;
    if (!t->only_dup) TRY(gf_pairs_check_rank(err, t, f->n - 1));
    TRY(gf_cuda_pairs_find_collected(err, state, t, f, &done));
    if (done == GF_FOUND_ALL) return GLOFND_OK;
    gf_pairs_found mutual = {.n = f->n, .lambda = f->lambda, .mutual = f->mutual, .mutual_root = f->mutual_root};
    gf_pairs_task known = *t;
    w.t = &known;
    if (done == GF_FOUND_TOO_LITTLE) known.watch.stage = "pairs again: the lists were too short";
    if (done == GF_FOUND_BUT_MUTUAL) {
        known.watch.stage = "mutual pairs, by a second sweep";
        known.lambda = f->lambda, known.dup = INFINITY;
        w.f = &mutual;
    }
    const glofnd_status status = find_all(err, &w);
    cudaStreamSynchronize(w.c->stream);
    release(&w, 0);
    return status;
}

static glofnd_status query_all(gf_error *err, work *w, const gf_pairs_side *q) {
    TRY(begin_search(err, w, q, 0));
    if (w->t->lambda) TRY(upload_numbers(err, w, w->t->lambda, w->c->k.n, &w->a.col_lambda));
    w->a.label = NULL;
    TRY(sweep_rows(err, w, w->t->lambda != NULL));
    return fetch_results(err, w);
}

static glofnd_status query_rows(gf_error *err, void *state, const gf_vectors *rows, const gf_pairs_task *t, gf_pairs_found *f) {
    gf_cuda_pairs *c = state;
    work w = {.c = c, .t = t, .f = f};
    gf_pairs_side q = {0};
    TRY(gf_pairs_check_query(err, t, c->k.n));
    FAIL_IF(err, rows->dim != c->k.dim, GLOFND_E_ARGUMENT, "embeddings of %lld numbers against embeddings of %d",
            (long long)rows->dim, c->k.dim);
    glofnd_status status = upload_side(err, c, rows, &q);
    if (status == GLOFND_OK) status = query_all(err, &w, &q);
    cudaStreamSynchronize(c->stream);
    release(&w, 0);
    gf_cuda_pairs_side_free(&q);
    return status;
}

/* Lists are short-lived and part of the strips. */
static gf_pairs_plan plan_search(int64_t n, int64_t dim, const gf_pairs_task *t) {
    const int one = !t->lambda && gf_pairs_can_fuse();
    const size_t beside =
        one ? gf_collector_bytes(n, dim, t->rank + t->below, t->top, t->memory) : work_bytes(n, t->top + t->below, t->memory);
    return (gf_pairs_plan){
        .results = gf_pairs_found_bytes(n, t->top),
        .scratch = (size_t)n * sizeof(int32_t),
        .passes = one || t->lambda ? 1 : 2,
        .device = gf_cuda_pairs_embeddings(n, dim) + beside,
    };
}

static glofnd_status check_speed(gf_error *err) {
    gf_blas_lib l;
    const glofnd_status status = gf_blas_lib_open(err, &l);
    gf_blas_lib_close(&l);
    return status;
}

static const gf_pairs_search search = {
    .name = "cuda",
    .plan = plan_search,
    .open = open_pairs,
    .find = find_pairs,
    .query = query_rows,
    .close = gf_cuda_pairs_close,
    .check_speed = check_speed,
    .stream = &gf_cuda_pairs_stream,
};

const gf_pairs_search *const gf_pairs_search_cuda = &search;
