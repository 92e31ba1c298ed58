/* step_marks.c - flags by similarities of averages, as bits that passes B and C read.
 *
 * Bits take own rows x all columns / 8 bytes, twice: this is for experiments, with batches of up to some thousand samples.
 */
#include "method/step.h"

/* Own rows of side i against all columns. */
static void make_pass(const gf_step *t, int i, gf_own_pass *x) {
    gf_step_own_pass(t, i, t->ws->side[i].own, x);
    x->own = gf_step_own(t, gf_step_judged(t, i));
    x->p.k = gf_step_judged(t, gf_step_other(t, i));
    x->p.flags = 0; /* tiles are not kept */
}

static gf_marking marking(const gf_step *t, int i) {
    const int other = gf_step_other(t, i);
    const gf_rows *row = &t->ws->side[i].own, *col = &t->ws->side[other].every;
    return (gf_marking){.row_theta = row->lo, .row_group = row->group, .col_group = col->group};
}

void gf_step_count(const gf_step *t) {
    for (int i = 0; i < t->shape->sides; i++) {
        gf_own_pass x;
        make_pass(t, i, &x);
        gf_cpu_count(&x.p);
    }
}

void gf_step_mark_own(const gf_step *t) {
    for (int i = 0; i < t->shape->sides; i++) {
        gf_own_pass x;
        make_pass(t, i, &x);
        const gf_marking m = marking(t, i);
        gf_cpu_mark(&x.p, &m);
    }
}

void gf_step_mark_all(const gf_step *t) {
    const int64_t first = t->q->row0 * t->shape->per_sample;
    for (int i = 0; i < t->shape->sides; i++) {
        gf_own_pass x;
        make_pass(t, i, &x);
        gf_marking m = marking(t, i);
        m.row_theta = t->ws->side[i].every.theta + first;
        m.col_theta = t->ws->side[gf_step_other(t, i)].every.theta;
        gf_cpu_mark(&x.p, &m);
    }
}
