/* fn_precision_recall.c - see fn_precision_recall.h. */
#include "eval/fn_precision_recall.h"

/* ----- counts ----- */

typedef struct counting {
    const gf_view_set *s;
    const float *theta;
    int kinds;
    gf_fn_counts *counts;
} counting;

/* One row of a tile: s [cols] against the columns from c0. Free of branches, so that the compiler vectorises it. */
static void count_row(const gf_view_set *set, int64_t row, int64_t c0, int cols, const float *s, float theta, gf_fn_counts *out) {
    const gf_view_set *columns = gf_view_columns(set);
    const int64_t id = set->id[row], *ids = columns->id + c0;
    const int32_t label = set->label[row], *labels = columns->label + c0;
    int pairs = 0, same = 0, flagged = 0, hits = 0;
    for (int c = 0; c < cols; c++) {
        const int pair = ids[c] != id, equal = pair & (labels[c] == label) & (label >= 0), above = pair & (s[c] > theta);
        pairs += pair, same += equal, flagged += above, hits += equal & above;
    }
    out->pairs += pairs, out->same += same, out->flagged += flagged, out->hits += hits;
}

static void count_strip(void *user, const gf_strip *t, int thread) {
    const counting *x = user;
    (void)thread;
    for (int r = 0; r < t->rows; r++) {
        const int64_t row = t->r0 + r;
        for (int k = 0; k < x->kinds; k++) {
            const int64_t at = k * x->s->n + row;
            if (t->c0 == 0) x->counts[at] = (gf_fn_counts){0};
            count_row(x->s, row, t->c0, t->cols, t->s + (size_t)r * t->ld, x->theta[at], &x->counts[at]);
        }
    }
}

glofnd_status gf_fn_count(gf_error *err, const gf_view_set *s, const float *theta, int kinds, const gf_sweep_job *job,
                          gf_fn_counts *counts) {
    counting x = {s, theta, kinds, counts};
    const gf_vectors rows = gf_view_vectors(s), cols = gf_view_vectors(gf_view_columns(s));
    const gf_sweep_job stage = gf_sweep_stage(job, "flagged pairs");
    return gf_sweep_vectors(err, &rows, &cols, &stage, count_strip, &x);
}
