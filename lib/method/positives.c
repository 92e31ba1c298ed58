/* positives.c - several positives of a sample: batch.positives.
 *
 * Passes over all pairs leave these pairs out, as pairs of one key. They are few, so they are made one by one here: a list of
 * samples per group, dot products, and the formulas of row.h. A row's sums and its gradient go by the order of the batch, so bits
 * do not depend on threads.
 */
#include <math.h>
#include <string.h>

#include "method/formulas/row.h"
#include "method/step.h"
#include "util/array.h"
#include "util/parallel.h"

#define TASK_ROWS 16

/* ----- lists ----- */

void gf_positives_find(gf_step *step) {
    const int64_t cols = step->plan.cols;
    const int32_t *group = step->batch->positives;
    const uint64_t places = 2 * (uint64_t)cols;
    gf_workspace *ws = step->ws;
    int32_t *table = ws->key_table, *last = ws->key_count; /* by first sample */
    memset(table, 0, sizeof *table * places);
    for (int64_t j = 0; j < cols; j++) {
        ws->first_positive[j] = ws->next_positive[j] = -1;
        if (group[j] < 0) continue;
        uint64_t at = ((uint64_t)group[j] * 0x9e3779b97f4a7c15u >> 32) % places;
        while (table[at] != 0 && group[table[at] - 1] != group[j]) at = at + 1 == places ? 0 : at + 1;
        if (table[at] == 0) table[at] = (int32_t)j + 1;
        else ws->next_positive[last[table[at] - 1]] = (int32_t)j;
        ws->first_positive[j] = table[at] - 1;
        last[table[at] - 1] = (int32_t)j;
    }
}

/* ----- pairs of positives of one row ----- */

typedef struct row_job {
    const gf_step *step;
    int side;
    void (*visit)(const gf_step *step, int i, int64_t r); /* own row r */
} row_job;

static void visit_rows(void *arg, int64_t task, int thread) {
    const row_job *job = arg;
    (void)thread;
    for (int64_t r = task * TASK_ROWS; r < GF_MIN((task + 1) * TASK_ROWS, job->step->plan.own); r++)
        job->visit(job->step, job->side, r);
}

static void for_own_rows(const gf_step *step, int i, void (*visit)(const gf_step *, int, int64_t)) {
    row_job job = {step, i, visit};
    gf_parallel((int)step->ws->shape.threads, (step->plan.own + TASK_ROWS - 1) / TASK_ROWS, visit_rows, &job);
}

/* The first and the next sample whose embeddings are positives of `sample`, itself among them; -1: no more. */
static int64_t first_sample(const gf_step *step, int64_t sample) {
    const int32_t first = step->ws->first_positive[sample];
    return first < 0 ? sample : first;
}

static int64_t next_sample(const gf_step *step, int64_t sample) { return step->ws->next_positive[sample]; }

/* Four chains: a single one would wait for itself. */
static double dot(const float *x, const float *y, int64_t n) {
    double sum[4] = {0.0};
    int64_t j = 0;
    for (; j + 4 <= n; j += 4)
        for (int k = 0; k < 4; k++) sum[k] += (double)x[j + k] * (double)y[j + k];
    for (; j < n; j++) sum[0] += (double)x[j] * (double)y[j];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static void sum_row(const gf_step *step, int i, int64_t r) {
    const gf_plan *p = &step->plan;
    const gf_side *side = &step->ws->side[i], *other = &step->ws->side[p->sides - 1 - i];
    const int64_t at = step->batch->row0 * p->per_sample + r, sample = at / p->per_sample;
    gf_others *t = &side->others[r];
    gf_others_init(t);
    for (int64_t j = first_sample(step, sample); j >= 0; j = next_sample(step, j))
        for (int64_t c = j * p->per_sample; c < (j + 1) * p->per_sample && j != sample; c++) {
            const double s = dot(side->z.row + at * side->z.ld, other->z.row + c * other->z.ld, p->dim);
            gf_others_add(p, t, s, (double)side->limits.inv_tau[r], p->bias);
        }
}

void gf_positives_sum(gf_step *step) {
    for (int i = 0; i < step->plan.anchored; i++) for_own_rows(step, i, sum_row);
}

/* Sides beyond `anchored` have rows that weigh nothing. */
static float weight_of(const gf_step *step, int i, int64_t r, float s) {
    const gf_side *side = &step->ws->side[i];
    const gf_grad_in *x = &side->weights;
    if (i >= step->plan.anchored) return 0.0f;
    return gf_others_weight(&step->plan, s, x->inv_tau[r], x->log_w[r], x->attract[r], side->pos[r]);
}

static void add_gradient(const gf_step *step, int i, int64_t r) {
    const gf_plan *p = &step->plan;
    const int last = p->sides - 1;
    const gf_side *side = &step->ws->side[i], *other = &step->ws->side[last - i];
    const int64_t at = step->batch->row0 * p->per_sample + r, sample = at / p->per_sample;
    const float *z = side->z.row + at * side->z.ld;
    float *grad = side->grads.grad + r * side->z.ld;
    for (int64_t j = first_sample(step, sample); j >= 0; j = next_sample(step, j))
        for (int64_t c = j * p->per_sample; c < (j + 1) * p->per_sample; c++) {
            const float *k = other->z.row + c * other->z.ld;
            if (p->sides == 1 && c == at) continue; /* itself */
            const float s = (float)dot(z, k, p->dim), w = weight_of(step, i, at, s) + weight_of(step, last - i, c, s);
            for (int64_t d = 0; d < p->dim; d++) grad[d] += w * k[d];
        }
}

void gf_positives_add_gradient(gf_step *step) {
    for (int i = 0; i < step->plan.sides; i++) for_own_rows(step, i, add_gradient);
    for (int i = 0; i < step->plan.sides; i++) memset(step->ws->side[i].pos, 0, sizeof(float) * (size_t)step->plan.all);
}
