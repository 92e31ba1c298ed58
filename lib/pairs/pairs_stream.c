/* pairs_stream.c - see pairs_stream.h. */
#include "pairs/pairs_stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "pairs/pairs_lists.h"
#include "util/array.h"
#include "util/components.h"
#include "util/parallel.h"

enum { CHUNK_MIN = 1024, GROUP = 128, FINISH = 64 }; /* rows: of chunks; that share columns; of a task */

_Static_assert(GF_ROW_PIECE % GF_PANEL == 0 && CHUNK_MIN % GF_PANEL == 0, "panels are packed piece by piece");

/* ----- rows ----- */

glofnd_status gf_pairs_stream_open(gf_error *err, const gf_row_source *source, const int32_t *row, int64_t n, size_t memory,
                                   int threads, gf_pairs_stream *out) {
    const size_t bytes = (size_t)source->dim * sizeof(float);
    gf_pairs_stream s = {.source = source, .row = row, .n = n, .dim = source->dim, .threads = threads, .first = -1};
    (void)err;
    const size_t fit = memory / bytes / GF_PANEL * GF_PANEL;
    s.chunk = fit >= (size_t)n ? n : GF_MAX((int64_t)fit, CHUNK_MIN);
    *out = s;
    return GLOFND_OK;
}

void gf_pairs_stream_close(gf_pairs_stream *s) {
    gf_panels_free(&s->columns);
    *s = (gf_pairs_stream){0};
}

/* Unit vectors of positions [first, first + count). */
static glofnd_status pack_rows(gf_error *err, const gf_pairs_stream *s, int64_t first, int64_t count, gf_panels *out) {
    return gf_row_source_pack(err, s->source, s->row + first, count, GF_ROW_PIECE, s->threads, out);
}

static glofnd_status load_chunk(gf_error *err, gf_pairs_stream *s, int64_t first) {
    if (s->first == first) return GLOFND_OK;
    gf_panels_free(&s->columns);
    s->first = -1;
    TRY(pack_rows(err, s, first, GF_MIN(s->chunk, s->n - first), &s->columns));
    s->first = first;
    return GLOFND_OK;
}

/* ----- sweeps of anchors ----- */

typedef struct sweep {
    gf_pairs_stream *s;
    const gf_pairs_task *t;
    const gf_tile_ops *ops;
    int64_t first; /* anchor */
    int64_t from;  /* first column of the chunk */
    gf_pairs_found *f;
    gf_best best;    /* [anchors] */
    int64_t *mutual; /* [anchors] */
    uint64_t *above; /* [anchors][rank - 1] or NULL */
    int32_t *root;   /* [threads][n] */
} sweep;

static glofnd_status sweep_chunks(gf_error *err, sweep *x, int64_t rows, gf_strip_visit visit) {
    gf_pairs_stream *s = x->s;
    gf_panels own = {0};
    glofnd_status status = GLOFND_OK;
    if (s->chunk < s->n) status = pack_rows(err, s, x->first, rows, &own);
    for (x->from = 0; x->from < s->n && status == GLOFND_OK; x->from += s->chunk) {
        status = load_chunk(err, s, x->from);
        if (status != GLOFND_OK) break;
        const gf_panels anchors = own.x ? own : (gf_panels){.n = rows, .dim = s->dim, .x = s->columns.x + x->first * s->dim};
        const double n = (double)s->n;
        const gf_sweep_job job = {.threads = s->threads,
                                  .watch = gf_job_part(&x->t->watch, (double)x->from / n,
                                                       (double)GF_MIN(x->from + s->chunk, s->n) / n)};
        status = gf_sweep_rows(err, &anchors, &s->columns, GROUP, &job, visit, x);
    }
    gf_panels_free(&own);
    return status;
}

static glofnd_status make_roots(gf_error *err, sweep *x) {
    const int64_t n = x->s->n;
    x->root = malloc((size_t)x->s->threads * (size_t)n * sizeof *x->root);
    FAIL_IF(err, !x->root, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)n);
    for (int t = 0; t < x->s->threads; t++) gf_components_init(x->root + t * n, n);
    return GLOFND_OK;
}

static void merge_roots(const sweep *x, int32_t *root) {
    for (int t = 0; t < x->s->threads; t++) gf_components_merge(root, x->root + t * x->s->n, x->s->n);
}

/* ----- candidates ----- */

static void visit_candidates(void *user, const gf_strip *t, int thread) {
    sweep *x = user;
    int32_t at[GF_STRIP_COLS];
    int32_t *root = x->root + thread * x->s->n;
    for (int r = 0; r < t->rows; r++) {
        const int64_t i = t->r0 + r, self = x->first + i;
        const float *s = t->s + (size_t)r * t->ld;
        const int found = x->ops->reach(at, s, (int)gf_pad(t->cols), fminf(x->best.limit[i], x->t->dup), NULL);
        for (int k = 0; k < found && at[k] < t->cols; k++) {
            const int64_t j = x->from + t->c0 + at[k];
            const float v = s[at[k]];
            if (j == self) continue;
            if (v >= x->best.limit[i]) gf_best_push(&x->best, i, v, j);
            if (!(v >= x->t->dup)) continue;
            x->f->copies[i]++;
            if (j > self) gf_components_join(root, (int32_t)self, (int32_t)j);
        }
    }
}

static void finish_rows(void *arg, int64_t task, int thread) {
    sweep *x = arg;
    gf_pairs_found *f = x->f;
    const int32_t *label = x->t->label;
    (void)thread;
    for (int64_t i = task * FINISH; i < GF_MIN((task + 1) * FINISH, f->n); i++) {
        const uint64_t *key = x->best.key + i * x->best.capacity;
        const int32_t own = label ? label[x->first + i] : -1;
        f->lambda[i] = gf_best_ranked(&x->best, i, x->t->rank);
        gf_lists_edge(&x->best, i, f, i);
        for (int64_t k = 0; k < x->best.count[i]; k++) {
            if (!(gf_best_value(key[k]) > f->lambda[i])) continue;
            if (x->above) x->above[i * (x->t->rank - 1) + f->above[i]] = key[k];
            f->above[i]++;
            f->hits[i] += own >= 0 && label[gf_best_other(key[k])] == own;
        }
        gf_lists_top(&x->best, i, f, i);
    }
}

glofnd_status gf_pairs_stream_thresholds(gf_error *err, gf_pairs_stream *s, const gf_pairs_task *t, int64_t first, int64_t rows,
                                         gf_pairs_found *found, int32_t *copy_root, uint64_t *above) {
    sweep x = {.s = s, .t = t, .ops = gf_cpu_kernels_get()->tile, .first = first, .f = found, .above = above};
    TRY(gf_pairs_check_rank(err, t, s->n - 1));
    glofnd_status status = gf_best_alloc(err, &x.best, rows, GF_MAX(GF_MAX(gf_lists_keep(t), t->top), 1));
    if (status == GLOFND_OK) status = make_roots(err, &x);
    if (status == GLOFND_OK) status = sweep_chunks(err, &x, rows, visit_candidates);
    if (status == GLOFND_OK) {
        gf_parallel(s->threads, (rows + FINISH - 1) / FINISH, finish_rows, &x);
        merge_roots(&x, copy_root);
    }
    gf_best_free(&x.best);
    free(x.root);
    return status;
}

/* ----- mutual pairs ----- */

static void visit_mutual(void *user, const gf_strip *t, int thread) {
    sweep *x = user;
    int32_t at[GF_STRIP_COLS];
    int32_t *root = x->root + thread * x->s->n;
    const float *lambda = x->t->lambda;
    for (int r = 0; r < t->rows; r++) {
        const int64_t i = t->r0 + r, self = x->first + i;
        const float *s = t->s + (size_t)r * t->ld;
        const int found = x->ops->reach(at, s, (int)gf_pad(t->cols), lambda[self], NULL);
        for (int k = 0; k < found && at[k] < t->cols; k++) {
            const int64_t j = x->from + t->c0 + at[k];
            const float v = s[at[k]];
            if (j == self || !(v > lambda[self] && v > lambda[j])) continue;
            x->mutual[i]++;
            if (j > self) gf_components_join(root, (int32_t)self, (int32_t)j);
        }
    }
}

glofnd_status gf_pairs_stream_mutual(gf_error *err, gf_pairs_stream *s, const gf_pairs_task *t, int64_t first, int64_t rows,
                                     int64_t *mutual, int32_t *root) {
    sweep x = {.s = s, .t = t, .ops = gf_cpu_kernels_get()->tile, .first = first, .mutual = mutual};
    memset(mutual, 0, (size_t)rows * sizeof *mutual);
    glofnd_status status = make_roots(err, &x);
    if (status == GLOFND_OK) status = sweep_chunks(err, &x, rows, visit_mutual);
    if (status == GLOFND_OK) merge_roots(&x, root);
    free(x.root);
    return status;
}

/* ----- the table ----- */

static glofnd_status open_state(gf_error *err, const gf_row_source *source, const int32_t *row, int64_t n, size_t memory,
                                int threads, void **state) {
    gf_pairs_stream *s = calloc(1, sizeof *s);
    FAIL_IF(err, !s, GLOFND_E_MEMORY, "no memory for rows");
    const glofnd_status status = gf_pairs_stream_open(err, source, row, n, memory, threads, s);
    if (status == GLOFND_OK) *state = s;
    else free(s);
    return status;
}

static int64_t chunks(const void *state) {
    const gf_pairs_stream *s = state;
    return (s->n + s->chunk - 1) / s->chunk;
}

static glofnd_status thresholds(gf_error *err, void *state, const gf_pairs_task *t, int64_t first, int64_t rows,
                                gf_pairs_found *found, int32_t *copy_root, uint64_t *above) {
    return gf_pairs_stream_thresholds(err, state, t, first, rows, found, copy_root, above);
}

static glofnd_status mutual(gf_error *err, void *state, const gf_pairs_task *t, int64_t first, int64_t rows, int64_t *count,
                            int32_t *root) {
    return gf_pairs_stream_mutual(err, state, t, first, rows, count, root);
}

static void close_state(void *state) {
    if (state) gf_pairs_stream_close(state);
    free(state);
}

const gf_stream_search gf_stream_search_cpu = {
    .open = open_state, .chunks = chunks, .thresholds = thresholds, .mutual = mutual, .close = close_state};
