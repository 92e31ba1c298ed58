/* decide_central.c - how central rows are in their group of duplicates; see decide.h.
 *
 * The mean similarity of a row to the others of its group is a product with the sum of all their unit vectors. So two passes over
 * the rows are enough, one for the sums and one for the products; where the sums of all groups take too much memory, two for each
 * range of groups.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "discover/decide_rows.h"
#include "util/array.h"

typedef struct centres {
    const gf_components *groups;
    int64_t dim, from, to; /* groups whose sums are in memory */
    double *sum;           /* [to - from][dim] */
    double *unit;          /* [dim] */
    float *value;          /* [good_n] */
} centres;

/* The row as a vector of length 1. */
static void make_unit(const float *row, int64_t dim, double *unit) {
    double norm = 0.0;
    for (int64_t k = 0; k < dim; k++) norm += (double)row[k] * (double)row[k];
    norm = sqrt(norm);
    for (int64_t k = 0; k < dim; k++) unit[k] = (double)row[k] / norm;
}

/* The sum of the group; NULL: none of these, or of two rows, which are equally central. */
static double *sum_of(const centres *x, int64_t position) {
    const int64_t g = x->groups->of[position];
    return g >= x->from && g < x->to && x->groups->part[g].nodes > 2 ? x->sum + (g - x->from) * x->dim : NULL;
}

static void add_rows(void *user, const gf_row_piece *p) {
    const centres *x = user;
    for (int64_t i = p->first; i < p->first + p->count; i++) {
        double *sum = sum_of(x, i);
        if (!sum) continue;
        make_unit(gf_piece_row(p, i), x->dim, x->unit);
        for (int64_t k = 0; k < x->dim; k++) sum[k] += x->unit[k];
    }
}

static void value_rows(void *user, const gf_row_piece *p) {
    const centres *x = user;
    for (int64_t i = p->first; i < p->first + p->count; i++) {
        const double *sum = sum_of(x, i);
        double dot = 0.0;
        if (!sum) continue;
        make_unit(gf_piece_row(p, i), x->dim, x->unit);
        for (int64_t k = 0; k < x->dim; k++) dot += x->unit[k] * (sum[k] - x->unit[k]);
        x->value[i] = (float)(dot / (double)(x->groups->part[x->groups->of[i]].nodes - 1)); /* rounding of sums does not decide */
    }
}

/* Groups are in order of size: those of more than two rows come first. */
static int64_t count_large(const gf_components *groups) {
    int64_t n = 0;
    while (n < groups->count && groups->part[n].nodes > 2) n++;
    return n;
}

glofnd_status gf_decide_central(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                                const gf_discover_result *r, float *value) {
    const int64_t large = count_large(&r->groups), bytes = d->dim * (int64_t)sizeof(double);
    const int64_t some = GF_MAX(GF_MIN(large, (int64_t)(s->memory / 4) / bytes), 1);
    centres x = {.groups = &r->groups, .dim = d->dim, .value = value};
    memset(value, 0, (size_t)d->good_n * sizeof *value);
    x.sum = malloc((size_t)(some * bytes));
    x.unit = malloc((size_t)bytes);
    glofnd_status status = x.sum && x.unit ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for the centres of groups");
    for (; x.from < large && status == GLOFND_OK; x.from = x.to) {
        x.to = GF_MIN(x.from + some, large);
        memset(x.sum, 0, (size_t)((x.to - x.from) * bytes));
        status = gf_decide_visit_rows(err, c, s, d, add_rows, &x);
        if (status == GLOFND_OK) status = gf_decide_visit_rows(err, c, s, d, value_rows, &x);
    }
    free(x.sum);
    free(x.unit);
    return status;
}
