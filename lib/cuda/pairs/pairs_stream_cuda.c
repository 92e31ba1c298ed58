/* pairs_stream_cuda.c - see pairs_search.h: anchors against rows that pass by the GPU in chunks, with the bits of the CPU.
 *
 * Thresholds: candidates are collected chunk by chunk (pairs_kernels.h). If there are several, the candidates of a chunk
 * get their float32 values before the next one takes its place. Mutual pairs: similarities in strips against known thresholds.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/pairs/pairs_cuda.h"
#include "pairs/best.h"
#include "util/array.h"
#include "util/components.h"

enum { PIECE = 8192, CHUNK_MIN = 1024 }; /* rows: read at once; of chunks */
#define CHUNK_SHARE 0.6                  /* of the GPU's free memory */

typedef struct cuda_stream {
    const gf_row_source *source;
    const int32_t *row; /* [n] */
    int64_t n, chunk;
    gf_cuda_pairs *p; /* p->k: the chunk in memory */
    int64_t first;    /* position of its first row; -1: none */
    float *x, *raw;   /* [PIECE][dim] on the host; on the device */
    int32_t *chosen;  /* of the sample; NULL: not chosen yet */
    gf_pairs_side sample;
} cuda_stream;

/* ----- rows ----- */

/* Upper bound of gf_pairs_side.lost of any row: half a unit in the last place of every number, or of the smallest one. */
static float lost_bound(int64_t dim) { return (float)(1.002 * (ldexp(1.0, -11) + sqrt((double)dim) * ldexp(1.0, -25)) + 2e-8); }

static void close_stream(void *state) {
    cuda_stream *s = state;
    if (!s) return;
    if (s->p && s->p->stream) cudaStreamSynchronize(s->p->stream);
    gf_cuda_pairs_side_free(&s->sample);
    cudaFree(s->raw);
    gf_cuda_pairs_close(s->p);
    free(s->chosen);
    free(s->x);
    free(s);
}

static glofnd_status set_up(gf_error *err, cuda_stream *s, size_t memory) {
    const int64_t dim = s->source->dim;
    const size_t bytes = (size_t)dim * sizeof(float);
    size_t left = 0;
    TRY(gf_cuda_pairs_create(err, s->n, dim, &s->p));
    CUDA_TRY_AS(err, gf_cuda_memory_left(&left), "memory");
    const size_t each = gf_cuda_pairs_embeddings(GF_PAIRS_GROUP, dim) / GF_PAIRS_GROUP;
    const int64_t fit = (int64_t)fmin(CHUNK_SHARE * (double)left / (double)each, (double)memory / (double)bytes);
    s->chunk = fit >= s->n ? s->n : GF_MAX(fit / GF_PAIRS_GROUP * GF_PAIRS_GROUP, CHUNK_MIN);
    s->x = malloc((size_t)PIECE * bytes);
    FAIL_IF(err, !s->x, GLOFND_E_MEMORY, "no memory to read rows of %lld numbers", (long long)dim);
    CUDA_TRY_AS(err, cudaMalloc((void **)&s->raw, (size_t)PIECE * bytes), "memory for rows");
    return GLOFND_OK;
}

static glofnd_status open_stream(gf_error *err, const gf_row_source *source, const int32_t *row, int64_t n, size_t memory,
                                 int threads, void **state) {
    (void)threads;
    FAIL_IF(err, n >= GF_COLLECT_MAX, GLOFND_E_ARGUMENT, "%lld rows; the GPU takes fewer than 2^29; use device=cpu",
            (long long)n);
    cuda_stream *s = calloc(1, sizeof *s);
    FAIL_IF(err, !s, GLOFND_E_MEMORY, "no memory for rows");
    s->source = source, s->row = row, s->n = n, s->first = -1;
    const glofnd_status status = set_up(err, s, memory);
    if (status == GLOFND_OK) *state = s;
    else close_stream(s);
    return status;
}

static int64_t chunks(const void *state) {
    const cuda_stream *s = state;
    return (s->n + s->chunk - 1) / s->chunk;
}

/* Rows of the positions at[0 .. count) to s->x: neighbours in the source with one call. */
static glofnd_status read_piece(gf_error *err, const cuda_stream *s, const int32_t *at, int64_t first, int64_t count) {
    for (int64_t done = 0, run; done < count; done += run) {
        const int64_t start = s->row[at ? at[done] : first + done];
        for (run = 1; done + run < count && s->row[at ? at[done + run] : first + done + run] == start + run; run++) continue;
        TRY(s->source->read(err, s->source->user, start, run, s->x + done * s->source->dim));
    }
    return GLOFND_OK;
}

/* Rows of `count` positions to the device: those in `at`, or from `first` on. Free in any case. */
static glofnd_status load(gf_error *err, cuda_stream *s, const int32_t *at, int64_t first, int64_t count, gf_pairs_side *to) {
    TRY(gf_cuda_pairs_side_alloc(err, s->p, count, s->source->dim, to));
    for (int64_t done = 0, some; done < count; done += some) {
        some = GF_MIN(PIECE, count - done);
        TRY(read_piece(err, s, at ? at + done : NULL, first + done, some));
        CUDA_TRY_AS(err,
                    cudaMemcpyAsync(s->raw, s->x, (size_t)(some * to->dim) * sizeof *s->x, cudaMemcpyHostToDevice, s->p->stream),
                    "embeddings to the device");
        CUDA_TRY_AS(err, gf_pairs_unit(s->raw, some, done, to, s->p->stream), "unit vectors");
        CUDA_TRY_AS(err, cudaStreamSynchronize(s->p->stream), "unit vectors");
    }
    return GLOFND_OK;
}

static glofnd_status load_chunk(gf_error *err, cuda_stream *s, int64_t first) {
    if (s->first == first) return GLOFND_OK;
    gf_cuda_pairs_side_free(&s->p->k);
    s->first = -1;
    TRY(load(err, s, NULL, first, GF_MIN(s->chunk, s->n - first), &s->p->k));
    if (s->p->fast && s->chunk == s->n) TRY(gf_cuda_pairs_lost_max(err, s->p));
    if (s->p->fast && s->chunk < s->n) s->p->lost_max = lost_bound(s->source->dim);
    s->first = first;
    return GLOFND_OK;
}

/* Rows [first, first + rows): of the chunk, or loaded into `own`, which is to be freed. */
static glofnd_status anchors(gf_error *err, cuda_stream *s, int64_t first, int64_t rows, gf_pairs_side *own, gf_pairs_side *q) {
    *own = (gf_pairs_side){0};
    if (s->chunk < s->n) {
        const glofnd_status status = load(err, s, NULL, first, rows, own);
        *q = *own;
        return status;
    }
    *q = s->p->k;
    q->x += first * q->ld, q->lost += first, q->n = rows;
    if (q->half) q->half = (uint16_t *)q->half + first * q->ld;
    return GLOFND_OK;
}

/* ----- thresholds ----- */

/* All columns, chunk by chunk. */
static glofnd_status sweep(gf_error *err, cuda_stream *s, gf_collector *x, const gf_job_progress *watch) {
    int32_t *done = NULL;
    const size_t bytes = (size_t)x->c.q.n * sizeof *done;
    const double n = (double)s->n;
    if (s->chunk < s->n) {
        cudaError_t e = gf_blocks_take(&x->blocks, cudaSuccess, &done, bytes);
        if (e == cudaSuccess) e = cudaMemsetAsync(done, 0, bytes, s->p->stream);
        CUDA_TRY_AS(err, e, "memory for anchors");
    }
    for (int64_t from = 0; from < s->n; from += s->chunk) {
        const gf_job_progress part = gf_job_part(watch, (double)from / n, fmin((double)(from + s->chunk), n) / n);
        TRY(load_chunk(err, s, from));
        x->c.k = s->p->k, x->c.col0 = from;
        if (!x->fast) x->c.k.half = NULL;
        TRY(gf_collector_sweep(err, x, &part));
        if (done) CUDA_TRY_AS(err, gf_pairs_refine(&x->c, done, s->p->stream), "float32 similarities");
    }
    x->c.refined = done != NULL;
    CUDA_TRY_AS(err, gf_pairs_settle(&x->c, x->others, s->p->stream), "thresholds");
    return GLOFND_OK;
}

/* Those above the threshold of every anchor, as settle leaves them, as keys of best.h. */
static glofnd_status fetch_above(gf_error *err, const gf_collector *x, int64_t width, const int32_t *row, const int64_t *count,
                                 uint64_t *above) {
    const size_t bytes = (size_t)x->entries * sizeof(uint64_t);
    uint64_t *entry = malloc(bytes ? bytes : 1);
    FAIL_IF(err, !entry, GLOFND_E_MEMORY, "no memory for %lld pairs", (long long)x->entries);
    const cudaError_t e = cudaMemcpy(entry, x->c.entry, bytes, cudaMemcpyDeviceToHost);
    for (int64_t i = 0; i < x->c.q.n && e == cudaSuccess; i++) {
        const int64_t at = row ? row[i] : i;
        for (int64_t k = 0; k < GF_MIN(count[i], width); k++) {
            const uint64_t one = entry[x->start[i] + k];
            above[at * width + k] = (one & 0xffffffff00000000u) | (UINT32_MAX - ((uint32_t)one & GF_ENTRY_POSITION));
        }
    }
    free(entry);
    CUDA_TRY_AS(err, e, "pairs");
    return GLOFND_OK;
}

static glofnd_status rescue(gf_error *err, cuda_stream *s, gf_collector *x, const int32_t *row, int64_t count, gf_pairs_found *f,
                            int64_t width, uint64_t *above) {
    gf_collector y;
    gf_pairs_found g = {0};
    const gf_job_progress quiet = {0};
    int32_t failed = 0, *again = NULL;
    glofnd_status status = gf_pairs_found_alloc(err, &g, count, f->top);
    if (status == GLOFND_OK && f->below) status = gf_pairs_found_below(err, &g, f->below);
    y = (gf_collector){.p = s->p};
    if (status == GLOFND_OK) status = gf_collector_rescue(err, x, row, count, &y);
    if (status == GLOFND_OK) status = sweep(err, s, &y, &quiet);
    if (status == GLOFND_OK) status = gf_collector_failed(err, &y, &again, &failed);
    if (status == GLOFND_OK && failed) status = gf_fail(err, GLOFND_E_DEVICE, "%d anchors have no threshold", (int)failed);
    if (status == GLOFND_OK) status = gf_collector_fetch_rows(err, &y, &g);
    if (status == GLOFND_OK && above) status = fetch_above(err, &y, width, row, g.above, above);
    for (int64_t i = 0; i < count && status == GLOFND_OK; i++) gf_collector_copy_row(&g, i, f, row[i]);
    free(again);
    gf_collector_end(&y);
    gf_pairs_found_free(&g);
    return status;
}

static glofnd_status finish(gf_error *err, cuda_stream *s, gf_collector *x, gf_pairs_found *f, int32_t *copy_root,
                            uint64_t *above) {
    int32_t failed = 0, *row = NULL, *root = malloc((size_t)s->n * sizeof *root);
    const int64_t width = x->c.rank - 1, group = gf_collector_group(x);
    glofnd_status status = root ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)s->n);
    if (status == GLOFND_OK) status = gf_collector_failed(err, x, &row, &failed);
    if (status == GLOFND_OK) status = gf_collector_fetch_rows(err, x, f);
    if (status == GLOFND_OK && above) status = fetch_above(err, x, width, NULL, f->above, above);
    for (int64_t i = 0; i < failed && status == GLOFND_OK; i += group)
        status = rescue(err, s, x, row + i, GF_MIN(group, failed - i), f, width, above);
    if (status == GLOFND_OK) status = gf_collector_fetch_tree(err, x, x->c.copy_root, root);
    if (status == GLOFND_OK) gf_components_merge(copy_root, root, s->n);
    free(row);
    free(root);
    return status;
}

/* *fits 0: the lists of so many anchors do not fit. */
static glofnd_status search(gf_error *err, cuda_stream *s, gf_collector *x, const gf_pairs_task *t, gf_pairs_found *f,
                            int32_t *copy_root, uint64_t *above, int *fits) {
    int32_t *label = NULL, *root = NULL;
    const size_t bytes = (size_t)s->n * sizeof *label;
    cudaError_t e = gf_blocks_take(&x->blocks, cudaSuccess, &root, bytes);
    if (e == cudaSuccess) e = gf_pairs_forest(root, s->n, s->p->stream);
    if (t->label) e = gf_blocks_take(&x->blocks, e, &label, bytes);
    if (e == cudaSuccess && label) e = cudaMemcpy(label, t->label, bytes, cudaMemcpyHostToDevice);
    CUDA_TRY_AS(err, e, "memory for anchors");
    x->c.label = label, x->c.copy_root = root;
    if (!s->chosen) {
        TRY(gf_collector_choose(err, x, t->memory));
        s->chosen = x->chosen;
        qsort(s->chosen, (size_t)x->sample.n, sizeof *s->chosen, gf_order_int32);
        TRY(load(err, s, s->chosen, 0, x->sample.n, &s->sample));
    }
    x->chosen = s->chosen, x->sample = s->sample;
    TRY(gf_collector_begin(err, x, t->memory, t->list, fits));
    if (!*fits) return GLOFND_OK;
    TRY(sweep(err, s, x, &t->watch));
    return finish(err, s, x, f, copy_root, above);
}

static glofnd_status thresholds(gf_error *err, void *state, const gf_pairs_task *t, int64_t first, int64_t rows,
                                gf_pairs_found *found, int32_t *copy_root, uint64_t *above) {
    cuda_stream *s = state;
    gf_pairs_side own;
    int fits = 1;
    const int64_t others = s->n - 1;
    TRY(gf_pairs_check_rank(err, t, others));
    FAIL_IF(err, found->top > GF_PAIRS_TOP, GLOFND_E_ARGUMENT,
            "the GPU keeps at most %d most similar ones of an anchor, not %lld; lower top, or use device=cpu", GF_PAIRS_TOP,
            (long long)found->top);
    if (s->chunk >= s->n) TRY(load_chunk(err, s, 0));
    gf_collector x = {.p = s->p, .n = s->n, .others = others, .sample_rows = t->sample, .fast = s->p->fast && !t->exact};
    x.c = (gf_pairs_collect){.first = first,
                             .rank = t->rank,
                             .reach = GF_MIN(t->rank + t->below - (t->below > 0), others),
                             .top = (int)found->top,
                             .below = (int)t->below,
                             .dup = t->dup,
                             .whole = above != NULL};
    glofnd_status status = anchors(err, s, first, rows, &own, &x.c.q);
    x.chain = gf_collector_chain(x.c.q.ld);
    if (s->chunk < s->n) s->p->lost_max = lost_bound(s->source->dim);
    if (!x.fast) x.c.q.half = NULL;
    if (status == GLOFND_OK) status = search(err, s, &x, t, found, copy_root, above, &fits);
    x.chosen = NULL, x.sample = (gf_pairs_side){0}; /* of s */
    gf_collector_end(&x);
    gf_cuda_pairs_side_free(&own);
    if (status != GLOFND_OK || fits) return status;
    const int64_t half = rows / 2 / GF_PANEL * GF_PANEL;
    FAIL_IF(err, half < 1, GLOFND_E_MEMORY,
            "the lists of %lld anchors do not fit the GPU, or memory; raise it, or use device=cpu", (long long)rows);
    gf_pairs_found parts[2] = {gf_pairs_found_part(found, 0, half), gf_pairs_found_part(found, half, rows - half)};
    TRY(thresholds(err, state, t, first, half, &parts[0], copy_root, above));
    return thresholds(err, state, t, first + half, rows - half, &parts[1], copy_root,
                      above ? above + half * (t->rank - 1) : NULL);
}

/* ----- mutual pairs ----- */

#define STRIP_BYTES ((size_t)4 << 30)

typedef struct mutual_job {
    cuda_stream *s;
    const gf_pairs_task *t;
    gf_pairs_job a;
    int64_t first, strip;
    int fast;
    int32_t *skip, *skips; /* [rows] column that is the anchor itself, on the device; on the host */
    float *lambda;         /* [n] on the device */
    gf_pairs_blocks blocks;
} mutual_job;

static glofnd_status take_mutual(gf_error *err, mutual_job *j) {
    gf_pairs_job *a = &j->a;
    const size_t n = (size_t)j->s->n, rows = (size_t)a->q.n, row = (size_t)gf_cuda_pairs_padded(j->s->chunk) * sizeof(float);
    j->strip = (int64_t)(STRIP_BYTES / row) / GF_PAIRS_GROUP * GF_PAIRS_GROUP;
    j->strip = GF_MIN(GF_MAX(j->strip, GF_PAIRS_GROUP), gf_cuda_pairs_padded(a->q.n));
    cudaError_t e = gf_blocks_take(&j->blocks, cudaSuccess, &a->s, (size_t)j->strip * row);
    e = gf_blocks_take(&j->blocks, e, &a->slack, (size_t)j->strip * sizeof *a->slack);
    e = gf_blocks_take(&j->blocks, e, &j->skip, rows * sizeof *j->skip);
    e = gf_blocks_take(&j->blocks, e, &a->mutual, rows * sizeof *a->mutual);
    e = gf_blocks_take(&j->blocks, e, &j->lambda, n * sizeof *j->lambda);
    e = gf_blocks_take(&j->blocks, e, &a->mutual_root, n * sizeof *a->mutual_root);
    if (e == cudaSuccess) e = cudaMemsetAsync(a->mutual, 0, rows * sizeof *a->mutual, j->s->p->stream);
    if (e == cudaSuccess) e = cudaMemcpy(j->lambda, j->t->lambda, n * sizeof *j->lambda, cudaMemcpyHostToDevice);
    if (e == cudaSuccess) e = gf_pairs_forest(a->mutual_root, j->s->n, j->s->p->stream);
    CUDA_TRY_AS(err, e, "memory for mutual pairs");
    a->lambda = j->lambda + j->first, a->skip = j->skip, a->row_position = j->first;
    return GLOFND_OK;
}

static glofnd_status compare_chunk(gf_error *err, mutual_job *j, int64_t from, const gf_job_progress *watch) {
    gf_pairs_job *a = &j->a;
    const gf_cuda_pairs *p = j->s->p;
    a->k = p->k, a->pitch = gf_cuda_pairs_padded(a->k.n), a->lost_max = p->lost_max, a->chain = gf_collector_chain(a->k.ld);
    a->col_lambda = j->lambda + from, a->col_position = from;
    if (!j->fast) a->q.half = a->k.half = NULL;
    for (int64_t i = 0; i < a->q.n; i++) {
        const int64_t own = j->first + i - from;
        j->skips[i] = own >= 0 && own < a->k.n ? (int32_t)own : -1;
    }
    CUDA_TRY_AS(err, cudaMemcpy(j->skip, j->skips, (size_t)a->q.n * sizeof *j->skips, cudaMemcpyHostToDevice), "anchors");
    for (a->row0 = 0; a->row0 < a->q.n; a->row0 += j->strip) {
        a->rows = (int)GF_MIN(j->strip, a->q.n - a->row0);
        CUDA_TRY_AS(err, gf_pairs_slack(a, p->stream), "bounds");
        if (j->fast) TRY(gf_pairs_product_run(err, &j->s->p->product, a, p->stream));
        else CUDA_TRY_AS(err, gf_pairs_exact(a, 1, p->stream), "similarities");
        CUDA_TRY_AS(err, gf_pairs_compare(a, p->stream), "mutual pairs");
        CUDA_TRY_AS(err, cudaStreamSynchronize(p->stream), "mutual pairs");
        gf_job_report(watch, (double)(a->row0 + a->rows) / (double)a->q.n);
        FAIL_IF(err, gf_job_stopped(watch), GLOFND_E_CANCELLED, "cancelled");
    }
    return GLOFND_OK;
}

static glofnd_status fetch_mutual(gf_error *err, mutual_job *j, int64_t *mutual, int32_t *root) {
    const int64_t rows = j->a.q.n, n = j->s->n;
    int32_t *copy = malloc((size_t)n * sizeof *copy);
    FAIL_IF(err, !copy, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)n);
    cudaError_t e = cudaMemcpy(copy, j->a.mutual, (size_t)rows * sizeof *copy, cudaMemcpyDeviceToHost);
    for (int64_t i = 0; i < rows && e == cudaSuccess; i++) mutual[i] = copy[i];
    if (e == cudaSuccess) e = gf_pairs_flatten(j->a.mutual_root, n, j->s->p->stream);
    if (e == cudaSuccess) e = cudaStreamSynchronize(j->s->p->stream);
    if (e == cudaSuccess) e = cudaMemcpy(copy, j->a.mutual_root, (size_t)n * sizeof *copy, cudaMemcpyDeviceToHost);
    if (e == cudaSuccess) gf_components_merge(root, copy, n);
    free(copy);
    CUDA_TRY_AS(err, e, "mutual pairs");
    return GLOFND_OK;
}

static glofnd_status count_mutual(gf_error *err, mutual_job *j, int64_t *mutual, int32_t *root) {
    const cuda_stream *s = j->s;
    const double n = (double)s->n;
    TRY(take_mutual(err, j));
    for (int64_t from = 0; from < s->n; from += s->chunk) {
        const gf_job_progress part = gf_job_part(&j->t->watch, (double)from / n, fmin((double)(from + s->chunk), n) / n);
        TRY(load_chunk(err, j->s, from));
        TRY(compare_chunk(err, j, from, &part));
    }
    return fetch_mutual(err, j, mutual, root);
}

static glofnd_status mutual(gf_error *err, void *state, const gf_pairs_task *t, int64_t first, int64_t rows, int64_t *count,
                            int32_t *root) {
    cuda_stream *s = state;
    gf_pairs_side own;
    mutual_job j = {.s = s, .t = t, .first = first, .fast = s->p->fast && !t->exact};
    if (s->chunk >= s->n) TRY(load_chunk(err, s, 0));
    j.skips = malloc((size_t)rows * sizeof *j.skips);
    FAIL_IF(err, !j.skips, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)rows);
    glofnd_status status = anchors(err, s, first, rows, &own, &j.a.q);
    if (status == GLOFND_OK) status = count_mutual(err, &j, count, root);
    cudaStreamSynchronize(s->p->stream);
    gf_blocks_release(&j.blocks, 0);
    gf_cuda_pairs_side_free(&own);
    free(j.skips);
    return status;
}

const gf_stream_search gf_cuda_pairs_stream = {
    .open = open_stream, .chunks = chunks, .thresholds = thresholds, .mutual = mutual, .close = close_stream};
