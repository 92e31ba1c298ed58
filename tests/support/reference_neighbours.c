/* reference_neighbours.c - attraction by neighbours, from the definition: all similarities of averages, sorted. */
#include <math.h>
#include <stdlib.h>

#include "method/formulas/neighbours.h"
#include "reference.h"
#include "support/losses.h"
#include "util/dtype.h"

typedef struct candidate {
    double s;
    int64_t id;
} candidate;

static int nearer(const void *x, const void *y) {
    const candidate *a = x, *b = y;
    return a->s != b->s ? (a->s < b->s) - (a->s > b->s) : (a->id > b->id) - (a->id < b->id);
}

/* 1: sample j lies in the window of this step. Only its place is not made anew here: a hash of the batch. */
static int is_searched(const glofnd_options *o, const ref_store *s, const glofnd_batch *q, int64_t j) {
    const int64_t first = gf_neighbour_first(o, s->n, q->id[0], q->epoch);
    return o->neighbour_rows == 0 || o->neighbour_rows >= s->n || (j - first + s->n) % s->n < o->neighbour_rows;
}

/* The average of the anchor is rounded as the store has it now, those of the others are as they were. */
static candidate *candidates(const glofnd_options *o, const ref_store *s, const uint16_t *before, const glofnd_batch *q,
                             int64_t id) {
    candidate *c = calloc((size_t)s->n, sizeof *c);
    if (!c) abort();
    for (int64_t j = 0; j < s->n; j++) {
        c[j].id = j;
        for (int64_t d = 0; d < s->bank_dim && j != id && is_searched(o, s, q, j); d++)
            c[j].s +=
                (double)gf_f16_to_float(s->bank[0][id * s->bank_dim + d]) * (double)gf_f16_to_float(before[j * s->bank_dim + d]);
    }
    qsort(c, (size_t)s->n, sizeof *c, nearer);
    return c;
}

/* Averages may be a rounding to float16 apart, so similarities of neighbours must differ by more than other compared ones. */
static void note_gap(ref_step *r, double a, double b) { r->margin = fmin(r->margin, fabs(a - b) / 100); }

static void attract(const glofnd_options *o, const ref_store *s, const uint16_t *before, ref_step *r, int64_t i,
                    const candidate *c) {
    const int softmax = losses_of(o) == LOSS_SIMCLR;
    for (int64_t k = 0; k < o->neighbours && c[k].s > 0; k++) {
        r->neighbours += 1 / (double)r->batch;
        for (int64_t row = 2 * i; row < 2 * i + 2; row++) {
            const double scale =
                o->neighbour_weight * (softmax ? ref_softmax_part(o) / r->tau[row] : 1) / (double)(r->batch * o->neighbours);
            for (int64_t d = 0; d < r->dim; d++) {
                const double b = (double)gf_f16_to_float(before[c[k].id * s->bank_dim + d]);
                r->dz[row * r->dim + d] -= scale * b;
                r->loss -= scale * b * r->z[row * r->dim + d];
                r->row_loss[row] -= scale * b * r->z[row * r->dim + d];
            }
        }
    }
}

void ref_neighbours(const glofnd_options *o, const ref_store *s, const uint16_t *before, const glofnd_batch *q, ref_step *r) {
    candidate **of = calloc((size_t)r->batch, sizeof(candidate *));
    if (!of) abort();
    for (int64_t i = 0; i < r->batch; i++) {
        of[i] = candidates(o, s, before, q, q->id[i]);
        for (int64_t k = 0; k < o->neighbours && of[i][k].s > 0; k++) note_gap(r, of[i][k].s, of[i][k + 1].s);
        for (int64_t k = 0; k < o->neighbours; k++) /* zeros are exact: samples never seen */
            if (of[i][k].s != 0) note_gap(r, of[i][k].s, 0);
    }
    for (int64_t i = 0; i < r->batch; i++) {
        int64_t larger = 0;
        for (int64_t j = 0; j < r->batch; j++) {
            larger += of[j][0].s > of[i][0].s || (of[j][0].s == of[i][0].s && j < i);
            if (j != i && o->neighbour_share < 1 && of[i][0].s > 0) note_gap(r, of[i][0].s, of[j][0].s);
        }
        if ((double)larger < o->neighbour_share * (double)r->batch) attract(o, s, before, r, i, of[i]);
    }
    for (int64_t i = 0; i < r->batch; i++) free(of[i]);
    free(of);
}
