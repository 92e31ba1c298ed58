/* decide_findings.c - outliers, labels that disagree with mutual neighbours; see decide.h. */
#include <math.h>
#include <stdlib.h>

#include "discover/decide.h"
#include "util/array.h"

/* ----- outliers ----- */

typedef struct lonely {
    float similarity, lambda;
    int32_t position;
} lonely;

static int by_similarity(const void *a, const void *b) {
    const lonely *x = a, *y = b;
    if (x->similarity != y->similarity) return x->similarity < y->similarity ? -1 : 1;
    if (x->lambda != y->lambda) return x->lambda < y->lambda ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

/* The `limit` first of many, in order: the list has room for twice as many, and is cut when it is full. */
typedef struct lonely_list {
    lonely *at;
    int64_t limit, count;
    int full; /* `limit` are known: what comes after the last of them is of no use */
} lonely_list;

static void cut_list(lonely_list *l) {
    if (l->count) qsort(l->at, (size_t)l->count, sizeof *l->at, by_similarity);
    l->full = l->count >= l->limit;
    l->count = GF_MIN(l->count, l->limit);
}

static void add_lonely(lonely_list *l, lonely x) {
    if (l->limit == 0 || (l->full && by_similarity(&x, &l->at[l->limit - 1]) > 0)) return;
    l->at[l->count++] = x;
    if (l->count == 2 * l->limit) cut_list(l);
}

/* An outlier is less similar to its nearest neighbour than thresholds of the dataset usually are. */
glofnd_status gf_decide_outliers(gf_error *err, const gf_decide_spec *c, const gf_discover_result *r, gf_decisions *out) {
    const gf_pairs_found *f = &r->f;
    out->outlier_limit = r->lambda.mean - GF_OUTLIER_STDS * r->lambda.std;
    if (f->top == 0) return GLOFND_OK;
    lonely_list list = {.limit = GF_MIN(c->outliers, f->n)};
    list.at = malloc((size_t)(2 * list.limit + 1) * sizeof *list.at);
    out->outlier = malloc((size_t)(list.limit + 1) * sizeof *out->outlier);
    if (!list.at || !out->outlier) {
        free(list.at);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for outliers among %lld rows", (long long)f->n);
    }
    for (int64_t i = 0; i < f->n; i++) {
        const float similarity = f->similarity[i * f->top];
        if (f->other[i * f->top] < 0) continue; /* compared with no other row: --duplicates, --approx */
        add_lonely(&list, (lonely){similarity, f->lambda[i], (int32_t)i});
        out->outliers_found += (double)similarity < out->outlier_limit;
    }
    cut_list(&list);
    out->outliers = list.count;
    for (int64_t k = 0; k < out->outliers; k++) out->outlier[k] = list.at[k].position;
    free(list.at);
    return GLOFND_OK;
}

/* ----- labels ----- */

double gf_label_issue_score(const gf_label_issue *x) { return (double)(x->best - x->own) / (double)(x->votes + 1); }

static int by_score(const void *a, const void *b) {
    const gf_label_issue *x = a, *y = b;
    const int64_t p = (int64_t)(x->best - x->own) * (y->votes + 1), q = (int64_t)(y->best - y->own) * (x->votes + 1);
    if (p != q) return p > q ? -1 : 1;
    if (x->votes != y->votes) return x->votes > y->votes ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

/* Votes of the listed mutual neighbours of anchor i; label [top] is scratch. Of equally frequent labels the smallest. */
static gf_label_issue count_votes(const gf_discover_data *d, const gf_pairs_found *f, int64_t i, int32_t *label) {
    gf_label_issue x = {.position = (int32_t)i, .suggested = -1};
    const int32_t own = d->label[d->good[i]];
    for (int64_t k = 0; k < f->top && f->similarity[i * f->top + k] > f->lambda[i]; k++) {
        const int32_t j = f->other[i * f->top + k], y = d->label[d->good[j]];
        if (y >= 0 && f->similarity[i * f->top + k] > f->lambda[j]) label[x.votes++] = y;
    }
    if (x.votes) qsort(label, (size_t)x.votes, sizeof *label, gf_order_int32);
    for (int32_t a = 0, b; a < x.votes; a = b) {
        for (b = a + 1; b < x.votes && label[b] == label[a]; b++) continue;
        if (label[a] == own) x.own = b - a;
        if (b - a > x.best) x.best = b - a, x.suggested = label[a];
    }
    return x;
}

glofnd_status gf_decide_labels(gf_error *err, const gf_discover_data *d, const gf_discover_result *r, gf_decisions *out) {
    const gf_pairs_found *f = &r->f;
    if (!d->label) return GLOFND_OK;
    int32_t *label = malloc((size_t)(f->top + 1) * sizeof *label);
    out->issue = malloc((size_t)(f->n + 1) * sizeof *out->issue);
    if (!label || !out->issue) {
        free(label);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for labels of %lld rows", (long long)f->n);
    }
    for (int64_t i = 0; i < f->n; i++) {
        if (d->label[d->good[i]] < 0) continue;
        const gf_label_issue x = count_votes(d, f, i, label);
        if (x.best > x.own) out->issue[out->issues++] = x;
    }
    if (out->issues) qsort(out->issue, (size_t)out->issues, sizeof *out->issue, by_score);
    free(label);
    return GLOFND_OK;
}
