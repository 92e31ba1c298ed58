/* discover_api.c - glofnd_discover() of the public header: embeddings in memory or in files, the result as arrays by row.
 *
 * The search works on positions of usable rows; here they become rows again.
 */
#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "discover/decide.h"
#include "discover/discover_files.h"
#include "discover/stored_result.h"
#include "discover/units.h"
#include "embeddings/embedding_set.h"
#include "glofnd_discover.h"
#include "util/array.h"
#include "util/dtype.h"
#include "util/parallel.h"
#include "util/text.h"

struct glofnd_discovery {
    gf_discover_spec s;
    gf_discover_data d, q;           /* q: new rows that were compared with d */
    const gf_discover_data *rows_of; /* &d or &q: the rows of the arrays */
    float *stored;                   /* thresholds of d, for a query */
    gf_discover_result r;
    glofnd_discovery_arrays view;
    void *block; /* the arrays of the view */
    gf_decide_spec decide;
    gf_decisions decisions;
    int decided;
    glofnd_decisions decided_view;
    void *decided_block;
    gf_row_source rows; /* of a search in parts, whose d.x is NULL */
    char *parts;        /* folder of its finished blocks; NULL: searched in memory */
};

/* ----- the spec ----- */

static size_t half_of_memory(void) {
    const double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return bytes > 0.0 ? (size_t)(0.5 * bytes) : (size_t)2000000000;
}

/* ----- rows ----- */

typedef struct rows_job {
    const char *x;
    int64_t dim, stride;
    glofnd_dtype dtype;
    float *to;
} rows_job;

static void copy_row(void *arg, int64_t i, int thread) {
    const rows_job *j = arg;
    const char *from = j->x + (size_t)(i * j->stride) * gf_dtype_bytes(j->dtype);
    float *to = j->to + i * j->dim;
    (void)thread;
    if (j->dtype == GLOFND_F32) memcpy(to, from, (size_t)j->dim * sizeof *to);
    else gf_dtype_to_float(j->dtype, to, (const uint16_t *)(const void *)from, j->dim);
}

static glofnd_status read_files(gf_error *err, void *user, int64_t first, int64_t rows, float *x) {
    return gf_embeddings_read(err, user, first, rows, x);
}

/* ----- progress ----- */

typedef struct watcher {
    const glofnd_discover_spec *q;
    atomic_int stop;
} watcher;

static void report(void *user, const char *stage, double share) {
    watcher *w = user;
    (void)stage;
    if (w->q->progress && w->q->progress(w->q->user, share)) atomic_store(&w->stop, 1);
}

/* ----- the view ----- */

typedef struct cursor {
    char *base; /* NULL: only count */
    size_t used;
} cursor;

static void *take(cursor *at, int64_t count, size_t size) {
    const size_t here = at->used;
    at->used += ((size_t)count * size + 63) / 64 * 64;
    return at->base ? at->base + here : NULL;
}

typedef struct arrays { /* as glofnd_discovery_arrays, to be written */
    float *threshold, *similarity, *pair_similarity, *dup_similarity;
    int64_t *above, *mutual, *hits, *copies, *first, *part[2][3];
    int32_t *neighbour, *component, *group, *other, *dup_a, *dup_b, *negative;
    float *negative_similarity;
    uint8_t *pair_mutual, *dup_exact;
} arrays;

#define TAKE(at, pointer, count) ((pointer) = take((at), (count), sizeof *(pointer)))

static size_t lay(const glofnd_discovery *x, int64_t duplicates, char *base, arrays *a) {
    cursor at = {base, 0};
    const int64_t n = x->rows_of->n, cells = n * x->r.f.top, pairs = x->r.listed;
    TAKE(&at, a->threshold, n), TAKE(&at, a->similarity, cells), TAKE(&at, a->pair_similarity, pairs);
    TAKE(&at, a->dup_similarity, duplicates);
    TAKE(&at, a->above, n), TAKE(&at, a->mutual, n), TAKE(&at, a->hits, n), TAKE(&at, a->copies, n), TAKE(&at, a->first, n + 1);
    for (int t = 0; t < 3; t++) TAKE(&at, a->part[0][t], x->r.parts.count), TAKE(&at, a->part[1][t], x->r.groups.count);
    TAKE(&at, a->neighbour, cells), TAKE(&at, a->component, n), TAKE(&at, a->group, n), TAKE(&at, a->other, pairs);
    TAKE(&at, a->dup_a, duplicates), TAKE(&at, a->dup_b, duplicates);
    TAKE(&at, a->negative, n * x->r.f.below), TAKE(&at, a->negative_similarity, n * x->r.f.below);
    TAKE(&at, a->pair_mutual, pairs), TAKE(&at, a->dup_exact, duplicates);
    return at.used;
}

/* Rounding may take the cosine of equal rows beyond 1. */
static float cosine(float x) { return fmaxf(-1.0f, fminf(x, 1.0f)); }

static void put_duplicate(const glofnd_discovery *x, arrays *a, int64_t at, int64_t i, int64_t j, float similarity) {
    a->dup_a[at] = x->rows_of->good[i], a->dup_b[at] = x->d.good[j];
    a->dup_similarity[at] = cosine(similarity);
    a->dup_exact[at] = (uint8_t)gf_discover_exact(&x->d, &x->r, i, j);
}

static void fill_parts(const glofnd_discovery *x, const gf_components *p, int64_t *const part[3]) {
    for (int64_t i = 0; i < p->count; i++)
        part[0][i] = p->part[i].nodes, part[1][i] = p->part[i].edges, part[2][i] = x->d.good[p->part[i].root];
}

/* ----- calls ----- */

/* New rows against the rows d of a stored result. */
static glofnd_status search_query(gf_error *err, const glofnd_discover_spec *q, glofnd_discovery *x) {
    gf_discover_data *new = &x->q;
    gf_discover_spec stored = {0};
    new->n = q->query_n, new->dim = x->d.dim;
    new->x = malloc((size_t) new->n *(size_t) new->dim * sizeof *new->x);
    FAIL_IF(err, !new->x, GLOFND_E_MEMORY, "no memory for %lld x %lld float32", (long long)new->n, (long long)new->dim);
    rows_job j = {q->query, new->dim, q->query_stride ? q->query_stride : new->dim, q->query_dtype, new->x};
    gf_parallel(x->s.task.threads, new->n, copy_row, &j);
    TRY(gf_discover_classify(err, new));
    if (q->center) TRY(gf_discover_center(err, &x->d, new));
    TRY(gf_discover_read_stored(err, q->stored, &x->d, &stored, &x->stored));
    if (!(q->alpha > 0.0) && !q->k) x->s.alpha = stored.alpha, x->s.k = stored.k;
    if (q->duplicates == GLOFND_DUPLICATES_DEFAULT) x->s.dup_exact = stored.dup_exact, x->s.dup = stored.dup;
    return gf_discover_query(err, &x->s, &x->d, x->stored, new, &x->r);
}

static glofnd_status discover(gf_error *err, const glofnd_discover_spec *q, glofnd_discovery *x) {
    watcher w = {.q = q};
    x->s = (gf_discover_spec){
        .alpha = q->only_duplicates && !q->k ? 0.01 : q->alpha,
        .k = q->k,
        .max_pairs = q->max_pairs ? q->max_pairs : 10000000,
        .keep_rows = 1, /* of glofnd_discovery_save(): rows with more duplicates than are listed are compared again */
        .dup_exact = q->duplicates == GLOFND_DUPLICATES_EXACT,
        .dup = q->duplicates == GLOFND_DUPLICATES_ABOVE ? q->dup : 0.98,
        .dup_fits = q->duplicates == GLOFND_DUPLICATES_DEFAULT,
        .task = {.top = q->top < 0 ? 0
                        : q->top   ? q->top
                                   : 20,
                 .below = q->negatives,
                 .only_dup = q->only_duplicates,
                 .probe = q->approx,
                 .memory = q->memory ? q->memory : half_of_memory(),
                 .threads = q->threads ? q->threads : gf_parallel_default()},
    };
    x->s.search = gf_pairs_search_find(err, q->device == GLOFND_DEVICE_CUDA ? "cuda" : "cpu");
    if (!x->s.search) return GLOFND_E_UNSUPPORTED;
    if (q->approx || q->only_duplicates) x->s.search = &gf_pairs_search_cells;
    x->s.task.watch = (gf_job_progress){.progress = report, .user = &w, .stage = "pairs", .stop = &w.stop};
    gf_job_report(&x->s.task.watch, 0.0);
    FAIL_IF(err, gf_job_stopped(&x->s.task.watch), GLOFND_E_CANCELLED, "cancelled");
    const int threads = x->s.task.threads;
    gf_discover_data *d = &x->d;
    gf_embedding_set *set = q->files ? gf_embeddings_of(q->files) : NULL;
    d->n = set ? gf_embeddings_rows(set) : q->n, d->dim = set ? gf_embeddings_dim(set) : q->dim;
    if (!q->parts) {
        d->x = malloc((size_t)d->n * (size_t)d->dim * sizeof *d->x);
        FAIL_IF(err, !d->x, GLOFND_E_MEMORY, "no memory for %lld x %lld float32", (long long)d->n, (long long)d->dim);
        rows_job j = {q->x, d->dim, q->stride ? q->stride : d->dim, q->dtype, d->x};
        if (set) TRY(gf_embeddings_read(err, set, 0, d->n, d->x));
        else gf_parallel(threads, q->n, copy_row, &j);
    }
    if (q->label) {
        d->label = malloc((size_t)d->n * sizeof *d->label);
        FAIL_IF(err, !d->label, GLOFND_E_MEMORY, "no memory for labels");
        for (int64_t i = 0; i < d->n; i++) d->label[i] = q->label[i] < 0 ? -1 : q->label[i];
    }
    if (q->parts) {
        const gf_job_progress whole = x->s.task.watch, first = gf_job_part(&whole, 0.0, 0.1);
        x->rows = (gf_row_source){.read = read_files, .user = set, .n = d->n, .dim = d->dim};
        x->parts = strdup(q->parts);
        FAIL_IF(err, !x->parts, GLOFND_E_MEMORY, "no memory for a path");
        TRY(gf_discover_classify_stream(err, &x->rows, &first, d));
        const gf_units u = {.folder = x->parts,
                            .source = x->rows,
                            .ranks = 1,
                            .worker = q->worker,
                            .patience = q->patience > 0.0 ? q->patience : 120.0};
        x->s.task.watch = gf_job_part(&whole, 0.1, 1.0);
        TRY(gf_discover_run_units(err, &x->s, &u, d, &x->r));
        TRY(gf_embeddings_check_unchanged(err, set));
        if (q->worker) return GLOFND_OK;
    } else {
        TRY(gf_discover_classify(err, d));
        if (q->center && !q->stored) TRY(gf_discover_center(err, d, NULL));
        TRY(q->stored ? search_query(err, q, x) : gf_discover_run(err, &x->s, &x->d, &x->r));
    }
    if (!q->stored) TRY(gf_discover_fit_dup(err, &x->s, d, &x->r));
    x->s.task.watch = (gf_job_progress){0};
    const gf_discover_data *rows = x->rows_of = q->stored ? &x->q : d;
    arrays a;
    const size_t bytes = lay(x, x->r.dup_listed, NULL, &a);
    x->block = calloc(1, bytes ? bytes : 1);
    FAIL_IF(err, !x->block, GLOFND_E_MEMORY, "no memory for the arrays of the result, %zu bytes", bytes);
    lay(x, x->r.dup_listed, x->block, &a);
    const gf_pairs_found *f = &x->r.f;
    const int64_t top = f->top;
    for (int64_t i = 0; i < rows->n; i++) a.threshold[i] = NAN, a.component[i] = a.group[i] = -1;
    for (int64_t c = 0; c < rows->n * top; c++) a.neighbour[c] = -1, a.similarity[c] = NAN;
    for (int64_t i = 0; i < f->n; i++) {
        const int64_t row = rows->good[i];
        a.threshold[row] = f->lambda[i];
        a.above[row] = f->above[i], a.mutual[row] = f->mutual[i], a.copies[row] = f->copies[i];
        a.hits[row] = x->r.quality.anchors ? f->hits[i] : 0;
        if (!q->stored) a.component[row] = x->r.parts.of[i], a.group[row] = x->r.groups.of[i];
        for (int64_t k = 0; k < top && f->other[i * top + k] >= 0; k++)
            a.neighbour[row * top + k] = x->d.good[f->other[i * top + k]],
                                    a.similarity[row * top + k] = cosine(f->similarity[i * top + k]);
    }
    for (int64_t c = 0; c < rows->n * f->below; c++) a.negative[c] = -1, a.negative_similarity[c] = NAN;
    for (int64_t i = 0; i < f->n; i++)
        for (int64_t k = 0; k < f->below && f->below_other[i * f->below + k] >= 0; k++) {
            const int64_t cell = rows->good[i] * f->below + k;
            a.negative[cell] = x->d.good[f->below_other[i * f->below + k]];
            a.negative_similarity[cell] = cosine(f->below_similarity[i * f->below + k]);
        }
    /* Positions ascend with rows, so the listed pairs are in the order of rows. */
    int64_t ties = 0, n = 0, row = 0;
    for (int64_t i = 0; i < f->n; i++) {
        while (row <= rows->good[i]) a.first[row++] = n;
        for (int64_t k = 0; k < f->top && f->similarity[i * f->top + k] > f->lambda[i]; k++) {
            if (!gf_discover_listed(&x->r, i, k, &ties)) continue;
            const int32_t other = f->other[i * f->top + k];
            a.other[n] = x->d.good[other];
            a.pair_similarity[n] = cosine(f->similarity[i * f->top + k]);
            a.pair_mutual[n++] = f->similarity[i * f->top + k] > (q->stored ? x->stored[x->d.good[other]] : f->lambda[other]);
        }
    }
    while (row <= rows->n) a.first[row++] = n;
    /* As duplicates.tsv: with equal bytes each copy once, else the listed pairs. */
    const float limit = gf_discover_dup(&x->s, x->d.dim);
    int64_t duplicates_count = 0;
    for (int64_t i = 0; i < f->n && x->s.dup_exact && q->stored; i++)
        if (x->r.stored_copy[i] >= 0) put_duplicate(x, &a, duplicates_count++, i, x->r.stored_copy[i], 1.0f);
    for (int64_t i = 0; i < f->n && x->s.dup_exact && !q->stored; i++)
        if (x->d.copy_of[i] != i) put_duplicate(x, &a, duplicates_count++, x->d.copy_of[i], i, 1.0f);
    for (int64_t i = 0; i < f->n && !x->s.dup_exact; i++)
        for (int64_t k = 0; k < f->top && f->similarity[i * f->top + k] >= limit; k++)
            if (q->stored || gf_discover_canonical(f, i, k))
                put_duplicate(x, &a, duplicates_count++, i, f->other[i * f->top + k], f->similarity[i * f->top + k]);
    fill_parts(x, &x->r.parts, a.part[0]);
    fill_parts(x, &x->r.groups, a.part[1]);
    const gf_discover_result *r = &x->r;
    const int labels = r->quality.anchors > 0;
    x->view = (glofnd_discovery_arrays){.size = sizeof x->view,
                                        .n = rows->n,
                                        .top = r->f.top,
                                        .usable = rows->good_n,
                                        .rank = r->rank,
                                        .kind = rows->kind,
                                        .threshold = a.threshold,
                                        .above = a.above,
                                        .mutual = a.mutual,
                                        .hits = a.hits,
                                        .copies = a.copies,
                                        .neighbour = a.neighbour,
                                        .similarity = a.similarity,
                                        .component = a.component,
                                        .group = a.group,
                                        .pairs = r->listed,
                                        .first = a.first,
                                        .other = a.other,
                                        .pair_similarity = a.pair_similarity,
                                        .pair_mutual = a.pair_mutual,
                                        .duplicates = r->dup_listed,
                                        .dup_a = a.dup_a,
                                        .dup_b = a.dup_b,
                                        .dup_similarity = a.dup_similarity,
                                        .dup_exact = a.dup_exact,
                                        .components = r->parts.count,
                                        .groups = r->groups.count,
                                        .component_rows = a.part[0][0],
                                        .component_pairs = a.part[0][1],
                                        .component_first = a.part[0][2],
                                        .group_rows = a.part[1][0],
                                        .group_pairs = a.part[1][1],
                                        .group_first = a.part[1][2],
                                        .pairs_above = r->above,
                                        .mutual_pairs = r->mutual_pairs,
                                        .duplicate_pairs = r->dup_pairs,
                                        .precision = labels ? r->quality.precision : NAN,
                                        .recall = labels ? r->quality.recall : NAN,
                                        .f1 = labels ? r->quality.f1 : NAN,
                                        .negatives = r->f.below,
                                        .negative = a.negative,
                                        .negative_similarity = a.negative_similarity,
                                        .dup = x->s.dup_exact ? NAN : x->s.dup};
    return GLOFND_OK;
}

static glofnd_status create(gf_error *err, const glofnd_discover_spec *q, glofnd_discovery **out) {
    FAIL_IF(err, !q || !out, GLOFND_E_ARGUMENT, "%s is NULL", out ? "spec" : "out");
    TRY(gf_struct_check(err, "spec", "glofnd_discover_spec", q, sizeof *q, sizeof *q));
    FAIL_IF(err, q->files && (q->x || q->n || q->dim || q->stride || q->dtype), GLOFND_E_ARGUMENT,
            "files and x exclude each other: with files, n, dim, x, stride and dtype are 0");
    if (!q->files) {
        FAIL_IF(err, !q->x, GLOFND_E_ARGUMENT, "x is NULL");
        FAIL_IF(err, q->n < 1 || q->n >= INT32_MAX || q->dim < 1 || q->dim > (1 << 20), GLOFND_E_ARGUMENT,
                "%lld x %lld embeddings; expected 1 to 2^31 - 2 rows of 1 to 2^20 numbers", (long long)q->n, (long long)q->dim);
        FAIL_IF(err, gf_dtype_bytes(q->dtype) == 0, GLOFND_E_ARGUMENT,
                "dtype is %d; it must be 0 (float32), 1 (bfloat16) or 2 (float16)", (int)q->dtype);
        FAIL_IF(err, q->stride != 0 && (q->stride < q->dim || q->stride > (INT64_C(1) << 30)), GLOFND_E_ARGUMENT,
                "stride is %lld; it must be 0 (= dim) or in dim = %lld .. 2^30", (long long)q->stride, (long long)q->dim);
    }
    FAIL_IF(err, q->alpha != 0.0 && q->k != 0, GLOFND_E_OPTION, "alpha and k exclude each other");
    FAIL_IF(err, q->negatives < 0 || q->negatives > GF_BELOW_MAX, GLOFND_E_OPTION, "negatives is %lld; at most %d are listed",
            (long long)q->negatives, GF_BELOW_MAX);
    FAIL_IF(err, q->approx < 0 || q->approx > 65536, GLOFND_E_OPTION, "approx is %lld; expected 1 to 65536 cells, or 0: all",
            (long long)q->approx);
    FAIL_IF(err, q->only_duplicates && (q->approx || q->negatives), GLOFND_E_OPTION,
            "only_duplicates finds duplicates alone: it does not go with %s", q->approx ? "approx" : "negatives");
    FAIL_IF(err, (q->only_duplicates || q->approx) && q->device == GLOFND_DEVICE_CUDA, GLOFND_E_OPTION,
            "%s compares on the CPU: use device=cpu", q->approx ? "approx" : "only_duplicates");
    FAIL_IF(err, q->alpha == 0.0 && q->k < 1 && !q->only_duplicates && !q->stored, GLOFND_E_OPTION,
            "alpha or k is needed; alpha in (0, 1), k at least 1");
    FAIL_IF(err, q->duplicates < GLOFND_DUPLICATES_DEFAULT || q->duplicates > GLOFND_DUPLICATES_EXACT, GLOFND_E_OPTION,
            "duplicates is %d; it must be 0 (default), 1 (above dup) or 2 (exact)", (int)q->duplicates);
    FAIL_IF(err, q->duplicates == GLOFND_DUPLICATES_ABOVE && !(q->dup >= -1.0 && q->dup <= 1.0), GLOFND_E_OPTION,
            "dup is %g; it must be in [-1, 1]", q->dup);
    FAIL_IF(err, q->duplicates != GLOFND_DUPLICATES_ABOVE && q->dup != 0.0, GLOFND_E_OPTION,
            "dup is %g; it is for duplicates above a similarity", q->dup);
    FAIL_IF(err, q->top > 1000000 || q->max_pairs < 0 || q->threads < 0, GLOFND_E_OPTION,
            "top is at most 1e6, max_pairs and threads are not negative");
    FAIL_IF(err, q->parts && !q->files, GLOFND_E_ARGUMENT, "parts need rows in files, so that they can be read again");
    FAIL_IF(err, q->parts && !q->parts[0], GLOFND_E_ARGUMENT, "parts is an empty path; expected a folder");
    FAIL_IF(err, q->center && q->parts, GLOFND_E_ARGUMENT, "center needs all rows in memory: leave parts out");
    FAIL_IF(err, (q->stored != NULL) != (q->query != NULL), GLOFND_E_ARGUMENT, "query and stored go together");
    FAIL_IF(err, q->stored && (q->query_n < 1 || q->query_n >= INT32_MAX || gf_dtype_bytes(q->query_dtype) == 0),
            GLOFND_E_ARGUMENT, "query has %lld rows of dtype %d", (long long)q->query_n, (int)q->query_dtype);
    FAIL_IF(err, q->stored && (q->query_stride < 0 || q->parts || q->approx || q->only_duplicates || q->negatives || q->label),
            GLOFND_E_ARGUMENT,
            "a query goes without labels, parts, approx, only_duplicates and negatives; query_stride is not negative");
    FAIL_IF(err, q->worker && !q->parts, GLOFND_E_ARGUMENT, "a worker computes parts: give their folder");
    FAIL_IF(err, !(q->patience >= 0.0), GLOFND_E_OPTION, "patience is %g; expected seconds", q->patience);
    FAIL_IF(err, q->device != GLOFND_DEVICE_CPU && q->device != GLOFND_DEVICE_CUDA, GLOFND_E_ARGUMENT, "device %d is not known",
            (int)q->device);
    glofnd_discovery *x = calloc(1, sizeof *x);
    FAIL_IF(err, !x, GLOFND_E_MEMORY, "no memory for a result");
    const glofnd_status status = discover(err, q, x);
    if (status == GLOFND_OK && !q->worker) *out = x;
    else glofnd_discovery_free(x);
    return status;
}

glofnd_status glofnd_discover(const glofnd_discover_spec *spec, glofnd_discovery **out, char *why, size_t why_bytes) {
    gf_error err = {""};
    if (out) *out = NULL;
    return gf_explain(create(&err, spec, out), &err, why, why_bytes);
}

void glofnd_discovery_free(glofnd_discovery *r) {
    if (!r) return;
    gf_discover_result_free(&r->r);
    gf_discover_data_free(&r->d);
    gf_discover_data_free(&r->q);
    free(r->stored);
    gf_decisions_free(&r->decisions);
    free(r->decided_block);
    free(r->block);
    free(r->parts);
    free(r);
}

glofnd_status glofnd_discovery_view(const glofnd_discovery *r, glofnd_discovery_arrays *out) {
    if (!r || gf_struct_check(NULL, "", "", out, sizeof *out, GF_STRUCT_OUT) != GLOFND_OK) return GLOFND_E_ARGUMENT;
    gf_struct_fill(out, &r->view, sizeof r->view);
    return GLOFND_OK;
}

/* ----- decisions ----- */

typedef struct decision_arrays { /* as glofnd_decisions, to be written */
    int32_t *kept, *outlier, *outlier_nearest, *issue, *issue_label, *votes, *votes_for, *votes_own, *leak_a, *leak_b, *sample;
    float *kept_similarity, *outlier_score, *leak_similarity;
    double *issue_score, *issue_probability;
    int64_t *leak, *leak_exact;
} decision_arrays;

static size_t lay_decisions(const glofnd_discovery *r, int64_t leaks, char *base, decision_arrays *a) {
    cursor at = {base, 0};
    const gf_decisions *x = &r->decisions;
    const int64_t n = r->d.n, cells = (int64_t)r->decide.splits * r->decide.splits;
    TAKE(&at, a->kept, n), TAKE(&at, a->kept_similarity, n);
    TAKE(&at, a->outlier, x->outliers), TAKE(&at, a->outlier_nearest, x->outliers), TAKE(&at, a->outlier_score, x->outliers);
    TAKE(&at, a->issue, x->issues), TAKE(&at, a->issue_label, x->issues);
    TAKE(&at, a->issue_score, x->issues), TAKE(&at, a->issue_probability, x->issues);
    TAKE(&at, a->votes, x->issues), TAKE(&at, a->votes_for, x->issues), TAKE(&at, a->votes_own, x->issues);
    TAKE(&at, a->leak, cells), TAKE(&at, a->leak_exact, cells);
    TAKE(&at, a->leak_a, leaks), TAKE(&at, a->leak_b, leaks), TAKE(&at, a->leak_similarity, leaks);
    TAKE(&at, a->sample, x->samples);
    return at.used;
}

/* A pair of rows in two splits, if they are; a NULL: only counts. */
static void put_leak(const glofnd_discovery *r, decision_arrays *a, int64_t *leaks, int64_t row, int64_t other,
                     float similarity) {
    const int s = gf_split_of(&r->decide, row), t = gf_split_of(&r->decide, other);
    if (s < 0 || t < 0 || s == t) return;
    if (a) a->leak_a[*leaks] = (int32_t)row, a->leak_b[*leaks] = (int32_t)other, a->leak_similarity[*leaks] = similarity;
    ++*leaks;
}

/* The listed pairs of duplicates in two splits, then rows that leak without being in one of these. */
static int64_t put_leaks(const glofnd_discovery *r, decision_arrays *a) {
    int64_t leaks = 0;
    for (int64_t k = 0; k < r->view.duplicates && r->decide.splits; k++)
        put_leak(r, a, &leaks, r->view.dup_a[k], r->view.dup_b[k], r->view.dup_similarity[k]);
    for (int64_t k = 0; k < r->decisions.unlisted_count; k++) {
        const gf_leak_pair *p = &r->decisions.unlisted[k];
        put_leak(r, a, &leaks, r->d.good[p->a], r->d.good[p->b], r->d.copy_of[p->a] == r->d.copy_of[p->b] ? 1.0f : NAN);
    }
    return leaks;
}

static glofnd_status take_splits(gf_error *err, const glofnd_discovery *r, const glofnd_decide_spec *q, gf_decide_spec *c) {
    FAIL_IF(err, q->splits < 0 || q->splits > GF_SPLITS_MAX || (q->splits && !q->split), GLOFND_E_ARGUMENT,
            "%lld splits; expected at most %d", (long long)q->splits, GF_SPLITS_MAX);
    for (int64_t k = 0; k < q->splits; k++) {
        const glofnd_row_split *s = &q->split[k];
        FAIL_IF(err, !s->name || !s->name[0] || strlen(s->name) > GF_SPLIT_NAME, GLOFND_E_ARGUMENT,
                "the name of split %lld is empty, or longer than %d bytes", (long long)k, GF_SPLIT_NAME);
        FAIL_IF(err, s->first < 0 || s->rows < 1 || s->first > r->d.n - s->rows, GLOFND_E_ARGUMENT,
                "split '%.40s' has rows %lld to %lld; there are %lld", s->name, (long long)s->first,
                (long long)(s->first + s->rows - 1), (long long)r->d.n);
        for (int64_t m = 0; m < k; m++)
            FAIL_IF(err, s->first < q->split[m].first + q->split[m].rows && q->split[m].first < s->first + s->rows,
                    GLOFND_E_ARGUMENT, "splits '%.40s' and '%.40s' share rows", q->split[m].name, s->name);
        gf_row_split *to = &c->split[c->splits++];
        snprintf(to->name, sizeof to->name, "%s", s->name);
        to->first = s->first, to->rows = s->rows;
    }
    return GLOFND_OK;
}

static glofnd_status decide(gf_error *err, glofnd_discovery *r, const glofnd_decide_spec *q) {
    static const gf_keep_rule rules[] = {GF_KEEP_FIRST, GF_KEEP_CENTRAL, GF_KEEP_SCORE, GF_KEEP_LABEL};
    const glofnd_decide_spec plain = {.size = sizeof plain};
    FAIL_IF(err, !r, GLOFND_E_ARGUMENT, "the result is NULL");
    FAIL_IF(err, r->q.n, GLOFND_E_ARGUMENT, "new rows against a stored result: there is nothing to decide");
    if (!q) q = &plain;
    TRY(gf_struct_check(err, "spec", "glofnd_decide_spec", q, sizeof *q, sizeof *q));
    FAIL_IF(err, q->keep < GLOFND_KEEP_FIRST || q->keep > GLOFND_KEEP_LABEL, GLOFND_E_OPTION, "keep is %d, no rule",
            (int)q->keep);
    FAIL_IF(err, q->sample < 0, GLOFND_E_OPTION, "sample is %lld; expected a number of rows", (long long)q->sample);
    gf_decide_spec c = {.keep = rules[q->keep], .score = q->keep == GLOFND_KEEP_SCORE ? q->score : NULL, .sample = q->sample};
    c.outliers = r->s.task.only_dup || q->outliers < 0 ? 0 : q->outliers ? q->outliers : GF_OUTLIERS_LISTED;
    c.negatives = r->s.task.below;
    FAIL_IF(err, q->pred_probs && q->pred_classes < 2, GLOFND_E_ARGUMENT, "pred_classes is %lld; expected 2 or more",
            (long long)q->pred_classes);
    FAIL_IF(err, q->rows < 0, GLOFND_E_OPTION, "rows is %lld; expected a number of rows", (long long)q->rows);
    FAIL_IF(err, q->rows && (r->s.task.only_dup || r->s.task.probe), GLOFND_E_OPTION,
            "rows needs the neighbours of all rows: not with only_duplicates or approx");
    FAIL_IF(err, q->probe && q->pred_probs, GLOFND_E_OPTION, "probe and pred_probs exclude each other");
    FAIL_IF(err, q->probe && !r->d.label, GLOFND_E_OPTION, "probe needs labels");
    c.probe = q->probe;
    c.most = q->rows;
    c.pred_probs = q->pred_probs, c.pred_classes = q->pred_classes;
    c.rows = r->parts ? &r->rows : NULL;
    TRY(take_splits(err, r, q, &c));
    gf_decisions decisions = {0};
    TRY(gf_decide(err, &c, &r->s, &r->d, &r->r, &decisions));
    gf_decisions_free(&r->decisions);
    r->decide = c, r->decisions = decisions, r->decided = 1;
    r->decide.score = NULL, r->decide.pred_probs = NULL; /* the caller's */
    decision_arrays a;
    const int64_t leaks = put_leaks(r, NULL), splits = c.splits, n = r->d.n;
    free(r->decided_block);
    r->decided_block = calloc(1, lay_decisions(r, leaks, NULL, &a) + 1);
    r->decided_view = (glofnd_decisions){0};
    FAIL_IF(err, !r->decided_block, GLOFND_E_MEMORY, "no memory for decisions of %lld rows", (long long)n);
    lay_decisions(r, leaks, r->decided_block, &a);
    const gf_decisions *x = &r->decisions;
    const int32_t *good = r->d.good;
    for (int64_t i = 0; i < n; i++) a.kept[i] = -1, a.kept_similarity[i] = NAN;
    for (int64_t i = 0; i < r->d.good_n; i++) a.kept[good[i]] = good[x->kept[i]], a.kept_similarity[good[i]] = x->similarity[i];
    for (int64_t k = 0; k < x->outliers; k++) {
        a.outlier[k] = good[x->outlier[k].position], a.outlier_score[k] = x->outlier[k].score;
        a.outlier_nearest[k] = x->outlier[k].nearest < 0 ? -1 : good[x->outlier[k].nearest];
    }
    for (int64_t k = 0; k < x->issues; k++) {
        const gf_label_issue *e = &x->issue[k];
        a.issue[k] = good[e->position], a.issue_label[k] = e->suggested;
        a.issue_score[k] = e->score, a.issue_probability[k] = e->probability;
        a.votes[k] = e->votes, a.votes_for[k] = e->best, a.votes_own[k] = e->own;
    }
    for (int64_t k = 0; k < splits * splits; k++)
        a.leak[k] = x->leak[k / splits][k % splits], a.leak_exact[k] = x->exact[k / splits][k % splits];
    put_leaks(r, &a);
    for (int64_t k = 0; k < x->samples; k++) a.sample[k] = good[x->sample[k]];
    r->decided_view = (glofnd_decisions){.size = sizeof r->decided_view,
                                         .n = n,
                                         .keep = x->keep,
                                         .duplicates = x->duplicates,
                                         .bad = x->bad,
                                         .kept = a.kept,
                                         .kept_similarity = a.kept_similarity,
                                         .other_label = x->other_label,
                                         .unchecked = x->unchecked,
                                         .outliers = x->outliers,
                                         .outliers_found = x->outliers_found,
                                         .outlier_limit = x->outlier_limit,
                                         .outlier = a.outlier,
                                         .outlier_nearest = a.outlier_nearest,
                                         .outlier_score = a.outlier_score,
                                         .issues = x->issues,
                                         .issue = a.issue,
                                         .issue_label = a.issue_label,
                                         .issue_score = a.issue_score,
                                         .issue_probability = a.issue_probability,
                                         .votes = a.votes,
                                         .votes_for = a.votes_for,
                                         .votes_own = a.votes_own,
                                         .splits = splits,
                                         .leak = a.leak,
                                         .leak_exact = a.leak_exact,
                                         .leaks = leaks,
                                         .leak_a = a.leak_a,
                                         .leak_b = a.leak_b,
                                         .leak_similarity = a.leak_similarity,
                                         .samples = x->samples,
                                         .sample = a.sample,
                                         .sample_reach = x->sample_reach,
                                         .limit = x->limit};
    return GLOFND_OK;
}

glofnd_status glofnd_discovery_decide(glofnd_discovery *r, const glofnd_decide_spec *spec, glofnd_decisions *out, char *why,
                                      size_t why_bytes) {
    gf_error err = {""};
    glofnd_status status = gf_struct_check(&err, "decisions", "glofnd_decisions", out, sizeof *out, GF_STRUCT_OUT);
    if (status == GLOFND_OK) status = decide(&err, r, spec);
    if (status == GLOFND_OK) gf_struct_fill(out, &r->decided_view, sizeof r->decided_view);
    return gf_explain(status, &err, why, why_bytes);
}

/* ----- the folder ----- */

/* The names as one block. */
static glofnd_status take_names(gf_error *err, const char *const *names, gf_discover_data *d) {
    size_t bytes = 1;
    for (int64_t i = 0; i < d->n; i++) {
        FAIL_IF(err, !names[i], GLOFND_E_ARGUMENT, "the name of row %lld is NULL", (long long)i);
        bytes += strlen(names[i]) + 1;
    }
    d->name_text = malloc(bytes);
    d->name = malloc((size_t)d->n * sizeof *d->name);
    FAIL_IF(err, !d->name_text || !d->name, GLOFND_E_MEMORY, "no memory for names");
    char *at = d->name_text;
    for (int64_t i = 0; i < d->n; i++) {
        d->name[i] = at;
        at = stpcpy(at, names[i]) + 1;
    }
    return GLOFND_OK;
}

static glofnd_status take_classes(gf_error *err, const glofnd_discovery_files *f, gf_discover_data *d) {
    FAIL_IF(err, !d->label, GLOFND_E_ARGUMENT, "names of classes, but the search had no labels");
    for (int64_t i = 0; i < d->n; i++)
        FAIL_IF(err, d->label[i] >= f->class_count, GLOFND_E_ARGUMENT,
                "row %lld has label %d, and there are %lld names of classes", (long long)i, (int)d->label[i],
                (long long)f->class_count);
    for (int64_t i = 0; i < f->class_count; i++) {
        FAIL_IF(err, !f->classes[i], GLOFND_E_ARGUMENT, "the name of class %lld is NULL", (long long)i);
        TRY(gf_string_list_add(err, &d->classes, f->classes[i], strlen(f->classes[i])));
        gf_utf8_clean(d->classes.text + d->classes.at[i], ' ');
    }
    return GLOFND_OK;
}

static glofnd_status save(gf_error *err, glofnd_discovery *r, const char *folder, const glofnd_discovery_files *f) {
    const glofnd_discovery_files plain = {.size = sizeof plain};
    FAIL_IF(err, !r || !folder, GLOFND_E_ARGUMENT, "%s is NULL", !r ? "the result" : "folder");
    if (!f) f = &plain;
    TRY(gf_struct_check(err, "files", "glofnd_discovery_files", f, sizeof *f, sizeof *f));
    const int query = r->q.n > 0;
    gf_discover_data *rows = query ? &r->q : &r->d;
    FAIL_IF(err, query && (f->graph || f->classes), GLOFND_E_ARGUMENT, "the result of a query has no graph and no labels");
    FAIL_IF(err, f->other_names && !query, GLOFND_E_ARGUMENT, "other_names are those of a query's stored rows");
    if (!r->decided && !query) TRY(decide(err, r, NULL));
    r->decide.graph = f->graph;
    const gf_discover_report x = {.source = f->source ? f->source : "memory",
                                  .query = !query            ? NULL
                                           : f->query_source ? f->query_source
                                                             : "memory",
                                  .s = &r->s,
                                  .r = &r->r,
                                  .d = &r->d,
                                  .q = rows,
                                  .lambda = r->stored,
                                  .format = f->parquet ? GF_TABLE_PARQUET : GF_TABLE_TSV,
                                  .decide = &r->decide,
                                  .decisions = query ? NULL : &r->decisions};
    glofnd_status status = f->names ? take_names(err, f->names, rows) : GLOFND_OK;
    if (status == GLOFND_OK && f->other_names) status = take_names(err, f->other_names, &r->d);
    if (status == GLOFND_OK && f->classes) status = take_classes(err, f, &r->d);
    if (status == GLOFND_OK) status = gf_discover_write(err, folder, f->replace, &x);
    gf_discover_free_names(&r->d);
    gf_discover_free_names(&r->q);
    gf_string_list_free(&r->d.classes);
    if (status == GLOFND_OK && r->parts) gf_unit_folder_remove(r->parts);
    return status;
}

glofnd_status glofnd_discovery_save(glofnd_discovery *r, const char *folder, const glofnd_discovery_files *files, char *why,
                                    size_t why_bytes) {
    gf_error err = {""};
    return gf_explain(save(&err, r, folder, files), &err, why, why_bytes);
}
