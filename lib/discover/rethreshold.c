/* rethreshold.c - see rethreshold.h. */
#include "discover/rethreshold.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"

typedef struct again {
    const gf_stored_result *x;
    const gf_discover_spec *s;
    const gf_discover_data *d;
    gf_discover_result *r;
    const int32_t *label; /* [n] by position; NULL: none known */
} again;

static float similarity_at(const gf_pairs_found *f, int64_t i, int64_t k) { return f->similarity[i * f->top + k]; }

static glofnd_status copy_lists(gf_error *err, again *a) {
    const gf_pairs_found *old = &a->x->f;
    const int64_t n = old->n, top = a->s->top < n ? a->s->top : n - 1;
    gf_pairs_found *f = &a->r->f;
    FAIL_IF(err, top > old->top, GLOFND_E_ARGUMENT,
            "the stored result lists %lld neighbours of each row; --top %lld needs a new search", (long long)old->top,
            (long long)a->s->top);
    TRY(gf_pairs_found_alloc(err, f, n, top));
    for (int64_t i = 0; i < n && top > 0; i++) {
        memcpy(f->other + i * top, old->other + i * old->top, (size_t)top * sizeof *f->other);
        memcpy(f->similarity + i * top, old->similarity + i * old->top, (size_t)top * sizeof *f->similarity);
    }
    return GLOFND_OK;
}

/* ----- thresholds ----- */

static void count_above(again *a, int64_t i) {
    const gf_pairs_found *old = &a->x->f;
    gf_pairs_found *f = &a->r->f;
    for (int64_t k = 0; k < a->r->rank && similarity_at(old, i, k) > f->lambda[i]; k++) {
        const int32_t j = old->other[i * old->top + k];
        f->above[i]++;
        f->hits[i] += a->label && a->label[i] >= 0 && a->label[i] == a->label[j];
        if (!(similarity_at(old, i, k) > f->lambda[j])) continue;
        f->mutual[i]++;
        gf_components_join(f->mutual_root, (int32_t)i, j);
    }
}

static void set_thresholds(again *a) {
    gf_pairs_found *f = &a->r->f;
    for (int64_t i = 0; i < f->n; i++) f->lambda[i] = similarity_at(&a->x->f, i, a->r->rank - 1);
    gf_components_init(f->mutual_root, f->n);
    for (int64_t i = 0; i < f->n; i++) count_above(a, i);
    gf_components_flatten(f->mutual_root, f->n);
}

/* The lists are too short for this rank, but it is that of the stored result. */
static glofnd_status take_thresholds(gf_error *err, again *a, int new_labels) {
    const gf_pairs_found *old = &a->x->f;
    gf_pairs_found *f = &a->r->f;
    const size_t n = (size_t)f->n;
    const int64_t most = GF_MAX(old->top - 1, 0);
    FAIL_IF(err, a->r->rank != a->x->rank, GLOFND_E_ARGUMENT,
            "the stored result lists %lld neighbours of each row; a threshold of rank %lld needs as many: use --k %lld or less "
            "(--alpha %.3g), or search again with --top %lld",
            (long long)old->top, (long long)a->r->rank, (long long)most, (double)old->top / (double)(f->n - 1),
            (long long)a->r->rank);
    FAIL_IF(err, a->label && new_labels, GLOFND_E_ARGUMENT,
            "new labels need the pairs above thresholds of rank %lld; the stored result lists %lld neighbours of each row",
            (long long)a->r->rank, (long long)old->top);
    memcpy(f->lambda, old->lambda, n * sizeof *f->lambda);
    memcpy(f->above, old->above, n * sizeof *f->above);
    memcpy(f->mutual, old->mutual, n * sizeof *f->mutual);
    memcpy(f->hits, old->hits, n * sizeof *f->hits);
    memcpy(f->mutual_root, old->mutual_root, n * sizeof *f->mutual_root);
    return GLOFND_OK;
}

/* ----- duplicates ----- */

/* Rows whose list is full of duplicates: there may be more. *needed: the similarity that duplicates must exceed. */
static int64_t full_lists(const gf_pairs_found *f, float limit, int64_t *first, float *needed) {
    int64_t full = 0;
    *needed = -INFINITY;
    if (f->top >= f->n - 1) return 0; /* all others are listed */
    for (int64_t i = 0; i < f->n; i++) {
        const float last = f->top ? similarity_at(f, i, f->top - 1) : INFINITY;
        if (last >= limit && full++ == 0) *first = i;
        *needed = fmaxf(*needed, last);
    }
    return full;
}

static void set_duplicates(again *a, float limit) {
    const gf_pairs_found *old = &a->x->f;
    gf_pairs_found *f = &a->r->f;
    gf_components_init(f->copy_root, f->n);
    for (int64_t i = 0; i < f->n; i++)
        for (int64_t k = 0; k < old->top && similarity_at(old, i, k) >= limit; k++) {
            f->copies[i]++;
            gf_components_join(f->copy_root, (int32_t)i, old->other[i * old->top + k]);
        }
    gf_components_flatten(f->copy_root, f->n);
}

static glofnd_status find_duplicates(gf_error *err, again *a) {
    const gf_pairs_found *old = &a->x->f;
    const float limit = gf_discover_dup(a->s, a->d->dim);
    int64_t first = 0;
    float needed;
    if (a->s->dup == GF_DUP_EXACT) return GLOFND_OK; /* from the copies of rows, with the statistics */
    const int64_t full = full_lists(old, limit, &first, &needed);
    if (full == 0) {
        set_duplicates(a, limit);
        return GLOFND_OK;
    }
    FAIL_IF(err, !(limit == gf_discover_dup(&a->x->s, a->d->dim)), GLOFND_E_ARGUMENT,
            "the %lld listed neighbours of %lld row%s, first row %d, are all of similarity %g or more: others may be, too; use "
            "--dup above %.9g, or search again with a larger --top",
            (long long)old->top, (long long)full, full == 1 ? "" : "s", (int)a->d->good[first], a->s->dup, (double)needed);
    memcpy(a->r->f.copies, old->copies, (size_t)old->n * sizeof *old->copies);
    memcpy(a->r->f.copy_root, old->copy_root, (size_t)old->n * sizeof *old->copy_root);
    return GLOFND_OK;
}

/* ----- neighbours just below the threshold ----- */

static glofnd_status find_edge(gf_error *err, again *a) {
    const gf_pairs_found *old = &a->x->f;
    gf_pairs_found *f = &a->r->f;
    const int64_t edge = a->s->edge;
    if (edge == 0) return GLOFND_OK;
    TRY(gf_pairs_found_edge(err, f, edge));
    for (int64_t i = 0; i < f->n; i++) {
        const int64_t above = f->above[i], wanted = GF_MIN(edge, f->n - 1 - above);
        FAIL_IF(
            err, above + wanted > old->top, GLOFND_E_ARGUMENT,
            "the %lld others just below the threshold of row %d (--negatives, --html) are its neighbours up to number %lld; the "
            "stored result lists %lld: search again with --top %lld",
            (long long)wanted, (int)a->d->good[i], (long long)(above + wanted), (long long)old->top,
            (long long)(a->r->rank - 1 + edge));
        for (int64_t e = 0; e < wanted; e++) {
            f->edge_other[i * edge + e] = old->other[i * old->top + above + e];
            f->edge_similarity[i * edge + e] = similarity_at(old, i, above + e);
        }
    }
    return GLOFND_OK;
}

static glofnd_status rethreshold(gf_error *err, again *a, int new_labels) {
    TRY(gf_discover_rank(err, a->s, a->d->good_n, &a->r->rank));
    TRY(copy_lists(err, a));
    if (a->r->rank <= a->x->f.top) set_thresholds(a);
    else TRY(take_thresholds(err, a, new_labels));
    TRY(find_duplicates(err, a));
    TRY(find_edge(err, a));
    return gf_discover_statistics(err, a->s, a->d, a->label, a->r);
}

glofnd_status gf_rethreshold(gf_error *err, const gf_stored_result *x, const gf_discover_spec *s, const gf_discover_data *d,
                             int new_labels, gf_discover_result *r) {
    int32_t *label = NULL;
    *r = (gf_discover_result){0};
    TRY(gf_discover_labels(err, d, &label));
    again a = {.x = x, .s = s, .d = d, .r = r, .label = label};
    const glofnd_status status = rethreshold(err, &a, new_labels);
    free(label);
    if (status != GLOFND_OK) gf_discover_result_free(r);
    return status;
}

void gf_stored_result_free(gf_stored_result *x) {
    gf_discover_data_free(&x->d);
    gf_pairs_found_free(&x->f);
    free(x->source);
    *x = (gf_stored_result){0};
}
