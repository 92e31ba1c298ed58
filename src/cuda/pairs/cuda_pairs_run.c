/* cuda_pairs_run.c - strip after strip of similarities on the GPU; see cuda_pairs.h and pairs.h.
 *
 * find: thresholds need whole rows, so a first pass computes all of them; a second one, with all thresholds known, needs every
 * pair once and counts mutual ones. Thresholds that are given make one pass of it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/pairs/cuda_pairs_state.h"

#define STRIP_BYTES ((size_t)16 << 30) /* similarities and lists of a strip: more does not make it faster */
#define STRIP_ROWS 8192
#define LIST 32768 /* similarities of a row that roundings may leave open, beside the most similar ones */

enum { MOST_BLOCKS = 32 };

typedef struct work {
    gf_cuda_pairs *c;
    const gf_cuda_pairs_task *t;
    const gf_cuda_pairs_found *f;
    gf_pairs_job a;
    int64_t strip;            /* rows */
    int fast;                 /* by tensor cores */
    int dense;                /* some group of rows is */
    double from, to;          /* part of the work that this pass is */
    void *block[MOST_BLOCKS]; /* device memory to free */
    int blocks;
} work;

/* ----- memory ----- */

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t list_room(int64_t n, int64_t top) { return smaller(n, LIST + 4 * top); }

/* Of one row of a strip. */
static size_t row_bytes(int64_t n, int64_t top) { /* top: and edge */
    return (size_t)gf_cuda_pairs_padded(n) * sizeof(float) + (size_t)list_room(n, top) * sizeof(uint64_t) +
           (size_t)top * (sizeof(int32_t) + sizeof(float)) + 4 * sizeof(float) + sizeof(int32_t);
}

/* A multiple of GF_PAIRS_GROUP, and that at least. */
static int64_t strip_rows(int64_t rows, int64_t n, int64_t top, size_t memory) {
    const size_t room = memory < STRIP_BYTES ? memory : STRIP_BYTES;
    const int64_t fit = smaller((int64_t)(room / row_bytes(n, top)), STRIP_ROWS) / GF_PAIRS_GROUP * GF_PAIRS_GROUP;
    return smaller(fit > 0 ? fit : GF_PAIRS_GROUP, gf_cuda_pairs_padded(rows));
}

/* Of one anchor: threshold, four counts, two trees, skip, label, group; generously. */
#define ANCHOR_BYTES (10 * sizeof(float))

size_t gf_cuda_pairs_work(int64_t n, int64_t top, size_t memory) {
    return (size_t)strip_rows(n, n, top, memory) * row_bytes(n, top) + (size_t)n * ANCHOR_BYTES + ((size_t)128 << 20);
}

/* cudaMalloc of count elements, to be freed by release(). */
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

static cudaError_t take_strip(work *w) {
    gf_pairs_job *a = &w->a;
    cudaError_t e = cudaSuccess;
    const size_t rows = (size_t)w->strip;
    TAKE(a->s, rows * (size_t)a->pitch);
    TAKE(a->list, rows * (size_t)a->cap);
    TAKE(a->list_n, rows);
    TAKE(a->slack, rows);
    TAKE(a->low, rows);
    TAKE(a->high, rows);
    TAKE(a->top_low, rows);
    TAKE(a->other, rows * (size_t)a->top);
    TAKE(a->similarity, rows * (size_t)a->top);
    TAKE(a->edge_other, rows * (size_t)a->edge);
    TAKE(a->edge_similarity, rows * (size_t)a->edge);
    return e;
}

/* The largest strip that fits. */
static glofnd_status take_strips(gf_error *err, work *w) {
    const gf_pairs_job *a = &w->a;
    const int kept = w->blocks;
    w->strip = strip_rows(a->q.n, a->k.n, a->top + a->edge, w->t->memory);
    for (;;) {
        const cudaError_t e = take_strip(w);
        if (e == cudaSuccess) return GLOFND_OK;
        (void)cudaGetLastError();
        release(w, kept);
        FAIL_IF(err, w->strip <= GF_PAIRS_GROUP, GLOFND_E_MEMORY,
                "%d rows of %lld similarities, %.2f GB, do not fit the GPU beside %.2f GB of embeddings: %s", GF_PAIRS_GROUP,
                (long long)a->k.n, GF_PAIRS_GROUP * (double)row_bytes(a->k.n, a->top + a->edge) / 1e9,
                (double)gf_cuda_pairs_embeddings(a->k.n, a->k.dim) / 1e9, cudaGetErrorString(e));
        w->strip = (w->strip / 2 + GF_PAIRS_GROUP - 1) / GF_PAIRS_GROUP * GF_PAIRS_GROUP;
    }
}

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
    SEEK_TRY(err, e, "memory for anchors");
    return GLOFND_OK;
}

/* A copy of host numbers of 4 bytes. */
static glofnd_status give(gf_error *err, work *w, const void *from, int64_t n, void *at) {
    void *to = NULL;
    cudaError_t e = take(w, &to, (size_t)n * 4);
    if (e == cudaSuccess) e = cudaMemcpyAsync(to, from, (size_t)n * 4, cudaMemcpyHostToDevice, w->c->stream);
    SEEK_TRY(err, e, "numbers to the device");
    memcpy(at, &to, sizeof to);
    return GLOFND_OK;
}

/* ----- a strip ----- */

static glofnd_status similarities(gf_error *err, work *w) {
    cudaStream_t stream = w->c->stream;
    SEEK_TRY(err, gf_pairs_slack(&w->a, stream), "bounds");
    if (w->fast) return gf_pairs_product_run(err, &w->c->product, &w->a, stream);
    SEEK_TRY(err, gf_pairs_exact(&w->a, 1, stream), "similarities");
    return GLOFND_OK;
}

/* Cells [rows][width] of 4 bytes of this strip to their place among those of all. */
static glofnd_status fetch_cells(gf_error *err, const work *w, void *to, const void *cells, int64_t width) {
    if (width == 0 || !to) return GLOFND_OK;
    SEEK_TRY(err,
             cudaMemcpyAsync((char *)to + w->a.row0 * width * 4, cells, (size_t)(w->a.rows * width) * 4, cudaMemcpyDeviceToHost,
                             w->c->stream),
             "neighbours");
    return GLOFND_OK;
}

static glofnd_status fetch_neighbours(gf_error *err, const work *w) {
    const gf_pairs_job *a = &w->a;
    TRY(fetch_cells(err, w, w->f->other, a->other, a->top));
    TRY(fetch_cells(err, w, w->f->similarity, a->similarity, a->top));
    TRY(fetch_cells(err, w, w->f->edge_other, a->edge_other, a->edge));
    return fetch_cells(err, w, w->f->edge_similarity, a->edge_similarity, a->edge);
}

/* Thresholds, what is above, duplicates, most similar ones. */
static glofnd_status look(gf_error *err, work *w) {
    const gf_pairs_job *a = &w->a;
    cudaStream_t stream = w->c->stream;
    int32_t dense = 0;
    if (a->rank == 0 && a->top == 0 && a->dup > 2.0f) return GLOFND_OK;
    SEEK_TRY(err, cudaMemsetAsync(a->dense_n, 0, sizeof dense, stream), "a count");
    SEEK_TRY(err, gf_pairs_brackets(a, stream), "brackets of thresholds");
    SEEK_TRY(err, gf_pairs_gather(a, stream), "candidates");
    SEEK_TRY(err, cudaMemcpyAsync(&dense, a->dense_n, sizeof dense, cudaMemcpyDeviceToHost, stream), "a count");
    SEEK_TRY(err, cudaStreamSynchronize(stream), "candidates");
    if (dense > 0) {
        w->dense = 1;
        SEEK_TRY(err, gf_pairs_exact(a, 0, stream), "similarities of dense rows");
        SEEK_TRY(err, gf_pairs_select(a, 1, stream), "dense rows");
    }
    SEEK_TRY(err, gf_pairs_select(a, 0, stream), "rows");
    return fetch_neighbours(err, w);
}

static glofnd_status told(gf_error *err, work *w, double share) {
    if (!w->t->step) return GLOFND_OK;
    SEEK_TRY(err, cudaStreamSynchronize(w->c->stream), "a strip");
    FAIL_IF(err, w->t->step(w->t->user, w->from + share * (w->to - w->from)), GLOFND_E_ARGUMENT, "stopped");
    return GLOFND_OK;
}

/* Whole rows; with `judge` also against the thresholds of the columns. */
static glofnd_status sweep_rows(gf_error *err, work *w, int judge) {
    gf_pairs_job *a = &w->a;
    for (a->row0 = 0; a->row0 < a->q.n; a->row0 += w->strip) {
        a->rows = (int)smaller(w->strip, a->q.n - a->row0);
        TRY(similarities(err, w));
        TRY(look(err, w));
        if (judge) SEEK_TRY(err, gf_pairs_compare(a, w->c->stream), "mutual pairs");
        TRY(told(err, w, (double)(a->row0 + a->rows) / (double)a->q.n));
    }
    return GLOFND_OK;
}

/* Every pair once, with thresholds of both. */
static glofnd_status sweep_pairs(gf_error *err, work *w) {
    gf_pairs_job *a = &w->a;
    const double n = (double)a->q.n;
    a->half = 1;
    for (a->row0 = 0; a->row0 < a->q.n; a->row0 += w->strip) {
        a->rows = (int)smaller(w->strip, a->q.n - a->row0);
        a->col0 = a->row0;
        TRY(similarities(err, w));
        if (w->dense && w->fast) SEEK_TRY(err, gf_pairs_exact(a, 0, w->c->stream), "similarities of dense rows");
        SEEK_TRY(err, gf_pairs_compare(a, w->c->stream), "mutual pairs");
        const double left = 1.0 - (double)(a->row0 + a->rows) / n;
        TRY(told(err, w, 1.0 - left * left));
    }
    return GLOFND_OK;
}

/* ----- results ----- */

static glofnd_status fetch(gf_error *err, work *w, const int32_t *from, int64_t *to, int32_t *room) {
    const int64_t n = w->a.q.n;
    if (!to) return GLOFND_OK;
    SEEK_TRY(err, cudaMemcpyAsync(room, from, (size_t)n * sizeof *room, cudaMemcpyDeviceToHost, w->c->stream), "counts");
    SEEK_TRY(err, cudaStreamSynchronize(w->c->stream), "counts");
    for (int64_t i = 0; i < n; i++) to[i] = room[i];
    return GLOFND_OK;
}

static glofnd_status fetch_tree(gf_error *err, work *w, int32_t *from, int32_t *to) {
    if (!to || !from) return GLOFND_OK;
    SEEK_TRY(err, gf_pairs_flatten(from, w->a.q.n, w->c->stream), "connected parts");
    SEEK_TRY(err, cudaMemcpyAsync(to, from, (size_t)w->a.q.n * sizeof *to, cudaMemcpyDeviceToHost, w->c->stream),
             "connected parts");
    return GLOFND_OK;
}

static glofnd_status fetch_all(gf_error *err, work *w, int32_t *room) {
    const gf_pairs_job *a = &w->a;
    const gf_cuda_pairs_found *f = w->f;
    TRY(fetch(err, w, a->above, f->above, room));
    TRY(fetch(err, w, a->hits, f->hits, room));
    TRY(fetch(err, w, a->copies, f->copies, room));
    TRY(fetch(err, w, a->mutual, f->mutual, room));
    TRY(fetch_tree(err, w, a->mutual_root, f->mutual_root));
    TRY(fetch_tree(err, w, a->copy_root, f->copy_root));
    SEEK_TRY(err, cudaMemcpyAsync(f->lambda, a->lambda, (size_t)a->q.n * sizeof *f->lambda, cudaMemcpyDeviceToHost, w->c->stream),
             "thresholds");
    SEEK_TRY(err, cudaStreamSynchronize(w->c->stream), "results");
    return GLOFND_OK;
}

static glofnd_status fetch_results(gf_error *err, work *w) {
    int32_t *room = malloc((size_t)w->a.q.n * sizeof *room);
    FAIL_IF(err, !room, GLOFND_E_MEMORY, "no memory for %lld results", (long long)w->a.q.n);
    const glofnd_status status = fetch_all(err, w, room);
    free(room);
    return status;
}

/* ----- find, query ----- */

static glofnd_status begin(gf_error *err, work *w, const gf_pairs_side *q, int trees) {
    gf_cuda_pairs *c = w->c;
    const gf_cuda_pairs_task *t = w->t;
    FAIL_IF(err, t->top > GF_PAIRS_TOP, GLOFND_E_ARGUMENT,
            "the GPU keeps at most %d most similar ones of an anchor, not %lld; "
            "lower --top, or take --device cpu",
            GF_PAIRS_TOP, (long long)t->top);
    FAIL_IF(err, t->top > c->k.n - (q->x == c->k.x || t->skip), GLOFND_E_ARGUMENT,
            "the %lld most similar ones of %lld embeddings", (long long)t->top, (long long)c->k.n);
    w->from = 0.0, w->to = 1.0, w->fast = c->fast && !t->exact;
    w->a = (gf_pairs_job){.q = *q,
                          .k = c->k,
                          .rank = t->rank,
                          .top = (int)t->top,
                          .edge = t->lambda ? 0 : (int)t->edge,
                          .dup = t->dup,
                          .lost_most = c->lost_most,
                          .pitch = gf_cuda_pairs_padded(c->k.n),
                          .cap = (int)(t->list ? t->list : list_room(c->k.n, t->top))};
    if (!w->fast) w->a.q.half = w->a.k.half = NULL;
    w->a.reach = smaller(t->rank + w->a.edge - (w->a.edge > 0), c->k.n - (q->x == c->k.x || t->skip));
    /* a sum of dim products: rounded once each on the CPU, truncated at worst by the tensor cores */
    w->a.chain = (float)(1.01 * c->k.ld * (ldexp(1.0, -24) + ldexp(1.0, -23)) + 1e-6);
    TRY(take_anchors(err, w, trees));
    if (t->label) TRY(give(err, w, t->label, c->k.n, &w->a.label));
    if (t->skip) TRY(give(err, w, t->skip, q->n, &w->a.skip));
    return take_strips(err, w);
}

static glofnd_status find_all(gf_error *err, work *w) {
    gf_pairs_job *a = &w->a;
    TRY(begin(err, w, &w->c->k, 1));
    a->self = 1, a->col_lambda = a->lambda;
    if (w->t->lambda) {
        SEEK_TRY(err,
                 cudaMemcpyAsync(a->lambda, w->t->lambda, (size_t)a->q.n * sizeof *a->lambda, cudaMemcpyHostToDevice,
                                 w->c->stream),
                 "thresholds");
        a->rank = a->reach = 0, a->recount = 1;
        TRY(sweep_rows(err, w, 1));
        return fetch_results(err, w);
    }
    w->to = 0.75;
    TRY(sweep_rows(err, w, 0));
    w->from = 0.75, w->to = 1.0;
    TRY(sweep_pairs(err, w));
    return fetch_results(err, w);
}

glofnd_status gf_cuda_pairs_find(gf_error *err, gf_cuda_pairs *c, const gf_cuda_pairs_task *t, const gf_cuda_pairs_found *f) {
    work w = {.c = c, .t = t, .f = f};
    const glofnd_status status = find_all(err, &w);
    cudaStreamSynchronize(c->stream);
    release(&w, 0);
    return status;
}

static glofnd_status query_all(gf_error *err, work *w, const gf_pairs_side *q) {
    TRY(begin(err, w, q, 0));
    if (w->t->lambda) TRY(give(err, w, w->t->lambda, w->c->k.n, &w->a.col_lambda));
    w->a.label = NULL;
    TRY(sweep_rows(err, w, w->t->lambda != NULL));
    return fetch_results(err, w);
}

glofnd_status gf_cuda_pairs_query(gf_error *err, gf_cuda_pairs *c, const float *x, const int32_t *row, int64_t n,
                                  const gf_cuda_pairs_task *t, const gf_cuda_pairs_found *f) {
    work w = {.c = c, .t = t, .f = f};
    gf_pairs_side q = {.dim = c->k.dim};
    glofnd_status status = gf_cuda_pairs_side(err, c, x, row, n, &q);
    if (status == GLOFND_OK) status = query_all(err, &w, &q);
    cudaStreamSynchronize(c->stream);
    release(&w, 0);
    gf_cuda_pairs_side_free(&q);
    return status;
}
