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
#include "embeddings/embedding_set.h"
#include "glofnd_discover.h"
#include "util/array.h"
#include "util/dtype.h"
#include "util/parallel.h"
#include "util/text.h"

struct glofnd_discovery {
    gf_discover_spec s;
    gf_discover_data d;
    gf_discover_result r;
    glofnd_discovery_arrays view;
    void *block; /* the arrays of the view */
};

/* ----- the spec ----- */

static size_t half_of_memory(void) {
    const double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return bytes > 0.0 ? (size_t)(0.5 * bytes) : (size_t)2000000000;
}

/* ----- rows ----- */

typedef struct rows_job {
    const glofnd_discover_spec *q;
    float *to;
} rows_job;

static void copy_row(void *arg, int64_t i, int thread) {
    const rows_job *j = arg;
    const int64_t dim = j->q->dim, stride = j->q->stride ? j->q->stride : dim;
    const char *from = (const char *)j->q->x + (size_t)(i * stride) * gf_dtype_bytes(j->q->dtype);
    float *to = j->to + i * dim;
    (void)thread;
    if (j->q->dtype == GLOFND_F32) memcpy(to, from, (size_t)dim * sizeof *to);
    else gf_dtype_to_float(j->q->dtype, to, (const uint16_t *)(const void *)from, dim);
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
    int32_t *neighbour, *component, *group, *other, *dup_a, *dup_b;
    uint8_t *pair_mutual, *dup_exact;
} arrays;

#define TAKE(at, pointer, count) ((pointer) = take((at), (count), sizeof *(pointer)))

static size_t lay(const glofnd_discovery *x, int64_t duplicates, char *base, arrays *a) {
    cursor at = {base, 0};
    const int64_t n = x->d.n, cells = n * x->r.f.top, pairs = x->r.listed;
    TAKE(&at, a->threshold, n), TAKE(&at, a->similarity, cells), TAKE(&at, a->pair_similarity, pairs);
    TAKE(&at, a->dup_similarity, duplicates);
    TAKE(&at, a->above, n), TAKE(&at, a->mutual, n), TAKE(&at, a->hits, n), TAKE(&at, a->copies, n), TAKE(&at, a->first, n + 1);
    for (int t = 0; t < 3; t++) TAKE(&at, a->part[0][t], x->r.parts.count), TAKE(&at, a->part[1][t], x->r.groups.count);
    TAKE(&at, a->neighbour, cells), TAKE(&at, a->component, n), TAKE(&at, a->group, n), TAKE(&at, a->other, pairs);
    TAKE(&at, a->dup_a, duplicates), TAKE(&at, a->dup_b, duplicates);
    TAKE(&at, a->pair_mutual, pairs), TAKE(&at, a->dup_exact, duplicates);
    return at.used;
}

static void put_duplicate(const glofnd_discovery *x, arrays *a, int64_t at, int64_t i, int64_t j, float similarity) {
    a->dup_a[at] = x->d.good[i], a->dup_b[at] = x->d.good[j];
    a->dup_similarity[at] = similarity;
    a->dup_exact[at] = (uint8_t)gf_discover_exact(&x->d, &x->r, i, j);
}

static void fill_parts(const glofnd_discovery *x, const gf_components *p, int64_t *const part[3]) {
    for (int64_t i = 0; i < p->count; i++)
        part[0][i] = p->part[i].nodes, part[1][i] = p->part[i].edges, part[2][i] = x->d.good[p->part[i].root];
}

/* ----- calls ----- */

static glofnd_status discover(gf_error *err, const glofnd_discover_spec *q, glofnd_discovery *x) {
    watcher w = {.q = q};
    x->s = (gf_discover_spec){
        .alpha = q->alpha,
        .k = q->k,
        .max_pairs = q->max_pairs ? q->max_pairs : 10000000,
        .keep_rows = 1, /* of glofnd_discovery_save(): rows with more duplicates than are listed are compared again */
        .dup_exact = q->duplicates == GLOFND_DUPLICATES_EXACT,
        .dup = q->duplicates == GLOFND_DUPLICATES_ABOVE ? q->dup : 0.98,
        .task = {.top = q->top < 0 ? 0
                        : q->top   ? q->top
                                   : 20,
                 .memory = q->memory ? q->memory : half_of_memory(),
                 .threads = q->threads ? q->threads : gf_parallel_default()},
    };
    x->s.search = gf_pairs_search_find(err, q->device == GLOFND_DEVICE_CUDA ? "cuda" : "cpu");
    if (!x->s.search) return GLOFND_E_UNSUPPORTED;
    x->s.task.watch = (gf_job_progress){.progress = report, .user = &w, .stage = "pairs", .stop = &w.stop};
    gf_job_report(&x->s.task.watch, 0.0);
    FAIL_IF(err, gf_job_stopped(&x->s.task.watch), GLOFND_E_CANCELLED, "cancelled");
    const int threads = x->s.task.threads;
    gf_discover_data *d = &x->d;
    gf_embedding_set *set = q->files ? gf_embeddings_of(q->files) : NULL;
    d->n = set ? gf_embeddings_rows(set) : q->n, d->dim = set ? gf_embeddings_dim(set) : q->dim;
    d->x = malloc((size_t)d->n * (size_t)d->dim * sizeof *d->x);
    FAIL_IF(err, !d->x, GLOFND_E_MEMORY, "no memory for %lld x %lld float32", (long long)d->n, (long long)d->dim);
    rows_job j = {q, d->x};
    if (set) TRY(gf_embeddings_read(err, set, 0, d->n, d->x));
    else gf_parallel(threads, q->n, copy_row, &j);
    if (q->label) {
        d->label = malloc((size_t)d->n * sizeof *d->label);
        FAIL_IF(err, !d->label, GLOFND_E_MEMORY, "no memory for labels");
        for (int64_t i = 0; i < d->n; i++) d->label[i] = q->label[i] < 0 ? -1 : q->label[i];
    }
    TRY(gf_discover_classify(err, d));
    TRY(gf_discover_run(err, &x->s, &x->d, &x->r));
    x->s.task.watch = (gf_job_progress){0};
    arrays a;
    const size_t bytes = lay(x, x->r.dup_listed, NULL, &a);
    x->block = calloc(1, bytes ? bytes : 1);
    FAIL_IF(err, !x->block, GLOFND_E_MEMORY, "no memory for the arrays of the result, %zu bytes", bytes);
    lay(x, x->r.dup_listed, x->block, &a);
    const gf_pairs_found *f = &x->r.f;
    const int64_t top = f->top;
    for (int64_t i = 0; i < x->d.n; i++) a.threshold[i] = NAN, a.component[i] = a.group[i] = -1;
    for (int64_t c = 0; c < x->d.n * top; c++) a.neighbour[c] = -1, a.similarity[c] = NAN;
    for (int64_t i = 0; i < f->n; i++) {
        const int64_t row = x->d.good[i];
        a.threshold[row] = f->lambda[i];
        a.above[row] = f->above[i], a.mutual[row] = f->mutual[i], a.copies[row] = f->copies[i];
        a.hits[row] = x->r.quality.anchors ? f->hits[i] : 0;
        a.component[row] = x->r.parts.of[i], a.group[row] = x->r.groups.of[i];
        for (int64_t k = 0; k < top && f->other[i * top + k] >= 0; k++)
            a.neighbour[row * top + k] = x->d.good[f->other[i * top + k]],
                                    a.similarity[row * top + k] = f->similarity[i * top + k];
    }
    /* Positions ascend with rows, so the listed pairs are in the order of rows. */
    int64_t ties = 0, n = 0, row = 0;
    for (int64_t i = 0; i < f->n; i++) {
        while (row <= x->d.good[i]) a.first[row++] = n;
        for (int64_t k = 0; k < f->top && f->similarity[i * f->top + k] > f->lambda[i]; k++) {
            if (!gf_discover_listed(&x->r, i, k, &ties)) continue;
            const int32_t other = f->other[i * f->top + k];
            a.other[n] = x->d.good[other];
            a.pair_similarity[n] = f->similarity[i * f->top + k];
            a.pair_mutual[n++] = f->similarity[i * f->top + k] > f->lambda[other];
        }
    }
    while (row <= x->d.n) a.first[row++] = n;
    /* As duplicates.tsv: with equal bytes each copy once, else the listed pairs. */
    const float limit = gf_discover_dup(&x->s, x->d.dim);
    int64_t duplicates_count = 0;
    for (int64_t i = 0; i < f->n && x->s.dup_exact; i++)
        if (x->d.copy_of[i] != i) put_duplicate(x, &a, duplicates_count++, x->d.copy_of[i], i, 1.0f);
    for (int64_t i = 0; i < f->n && !x->s.dup_exact; i++)
        for (int64_t k = 0; k < f->top && f->similarity[i * f->top + k] >= limit; k++)
            if (gf_discover_canonical(f, i, k))
                put_duplicate(x, &a, duplicates_count++, i, f->other[i * f->top + k], f->similarity[i * f->top + k]);
    fill_parts(x, &x->r.parts, a.part[0]);
    fill_parts(x, &x->r.groups, a.part[1]);
    const gf_discover_result *r = &x->r;
    const int labels = r->quality.anchors > 0;
    x->view = (glofnd_discovery_arrays){.size = sizeof x->view,
                                        .n = x->d.n,
                                        .top = r->f.top,
                                        .usable = x->d.good_n,
                                        .rank = r->rank,
                                        .kind = x->d.kind,
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
                                        .f1 = labels ? r->quality.f1 : NAN};
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
    FAIL_IF(err, q->alpha == 0.0 && q->k < 1, GLOFND_E_OPTION, "alpha or k is needed; alpha in (0, 1), k at least 1");
    FAIL_IF(err, q->duplicates < GLOFND_DUPLICATES_DEFAULT || q->duplicates > GLOFND_DUPLICATES_EXACT, GLOFND_E_OPTION,
            "duplicates is %d; it must be 0 (default), 1 (above dup) or 2 (exact)", (int)q->duplicates);
    FAIL_IF(err, q->duplicates == GLOFND_DUPLICATES_ABOVE && !(q->dup >= -1.0 && q->dup <= 1.0), GLOFND_E_OPTION,
            "dup is %g; it must be in [-1, 1]", q->dup);
    FAIL_IF(err, q->duplicates != GLOFND_DUPLICATES_ABOVE && q->dup != 0.0, GLOFND_E_OPTION,
            "dup is %g; it is for duplicates above a similarity", q->dup);
    FAIL_IF(err, q->top > 1000000 || q->max_pairs < 0 || q->threads < 0, GLOFND_E_OPTION,
            "top is at most 1e6, max_pairs and threads are not negative");
    FAIL_IF(err, q->device != GLOFND_DEVICE_CPU && q->device != GLOFND_DEVICE_CUDA, GLOFND_E_ARGUMENT, "device %d is not known",
            (int)q->device);
    glofnd_discovery *x = calloc(1, sizeof *x);
    FAIL_IF(err, !x, GLOFND_E_MEMORY, "no memory for a result");
    const glofnd_status status = discover(err, q, x);
    if (status == GLOFND_OK) *out = x;
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
    free(r->block);
    free(r);
}

glofnd_status glofnd_discovery_view(const glofnd_discovery *r, glofnd_discovery_arrays *out) {
    if (!r || gf_struct_check(NULL, "", "", out, sizeof *out, GF_STRUCT_OUT) != GLOFND_OK) return GLOFND_E_ARGUMENT;
    gf_struct_fill(out, &r->view, sizeof r->view);
    return GLOFND_OK;
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
    const gf_decide_spec decide = {.keep = GF_KEEP_FIRST, .outliers = GF_OUTLIERS_LISTED};
    gf_decisions decisions = {0};
    const gf_discover_report x = {.source = f->source ? f->source : "memory",
                                  .s = &r->s,
                                  .r = &r->r,
                                  .d = &r->d,
                                  .q = &r->d,
                                  .format = f->parquet ? GF_TABLE_PARQUET : GF_TABLE_TSV,
                                  .decide = &decide,
                                  .decisions = &decisions};
    glofnd_status status = f->names ? take_names(err, f->names, &r->d) : GLOFND_OK;
    if (status == GLOFND_OK && f->classes) status = take_classes(err, f, &r->d);
    if (status == GLOFND_OK) status = gf_decide(err, &decide, &r->s, &r->d, &r->r, &decisions);
    if (status == GLOFND_OK) status = gf_discover_write(err, folder, f->replace, &x);
    gf_decisions_free(&decisions);
    gf_discover_free_names(&r->d);
    gf_string_list_free(&r->d.classes);
    return status;
}

glofnd_status glofnd_discovery_save(glofnd_discovery *r, const char *folder, const glofnd_discovery_files *files, char *why,
                                    size_t why_bytes) {
    gf_error err = {""};
    return gf_explain(save(&err, r, folder, files), &err, why, why_bytes);
}
