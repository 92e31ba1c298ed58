/* step_neighbours.c - attraction by neighbours on the CPU: the search in the averages of the store, and its part of loss and
 * gradient. See formulas/neighbours.h.
 *
 * Threads take blocks of the store's rows and keep lists of their own. A list does not depend on the order of insertions, so the
 * merged ones do not depend on the number of threads. Every rank searches for its own anchors, in a store that holds the averages
 * of all samples: the numbers are those of one rank, bit for bit. What it found stays in the workspace for glofnd_step_grad.
 */
#include "method/formulas/neighbours.h"

#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "method/step.h"
#include "util/array.h"
#include "util/dtype.h"
#include "util/parallel.h"

#define ROWS GF_NEIGHBOUR_BLOCK /* of the store at a time */

typedef struct search_job {
    const gf_step *t;
    int64_t first, count; /* rows of the store */
    int64_t k;
} search_job;

/* The new averages as the store will have them, and zeros up to a whole panel of rows. */
static void round_anchors(const gf_step *t) {
    const gf_side *side = &t->ws->side[0];
    const int64_t dim = t->q->dim, rows = t->q->rows;
    float *anchor = t->ws->near.anchor;
    for (int64_t a = 0; a < rows; a++)
        for (int64_t j = 0; j < dim; j++) {
            const float x = side->bank.row[(t->q->row0 + a) * t->shape->per_sample * side->bank.ld + j];
            anchor[a * dim + j] = gf_f16_to_float(gf_f16_from_float(x));
        }
    memset(anchor + rows * dim, 0, sizeof *anchor * (size_t)((gf_pad(rows) - rows) * dim));
}

/* panels [ROWS / GF_PANEL][dim][GF_PANEL] = the averages of `n` rows of the store; zeros after them. */
static void pack_rows(const search_job *job, const int64_t *slot, int64_t n, uint16_t *rows, float *panels) {
    const int64_t dim = job->t->q->dim;
    gf_store_bank_gather(job->t->s, 0, slot, n, rows);
    memset(rows + n * dim, 0, sizeof *rows * (size_t)((ROWS - n) * dim));
    for (int64_t p = 0; p < ROWS / GF_PANEL; p++)
        for (int64_t j = 0; j < dim; j++)
            for (int64_t i = 0; i < GF_PANEL; i++)
                panels[(p * dim + j) * GF_PANEL + i] = gf_f16_to_float(rows[(p * GF_PANEL + i) * dim + j]);
}

/* list [k]: of one anchor, which has row `own` of the store itself; s [ROWS]: its similarities with rows `slot`. */
static void insert_row(const gf_tile_ops *ops, const float *s, const int64_t *slot, int64_t own, int k, gf_neighbour *list) {
    int32_t at[ROWS];
    const int count = ops->reach(at, s, ROWS, list[k - 1].s, NULL);
    for (int i = 0; i < count; i++)
        if (slot[at[i]] != own) gf_neighbour_insert(list, k, s[at[i]], (int32_t)slot[at[i]]);
}

/* Similarities of padding are 0, which no list takes. */
static void search_block(void *arg, int64_t task, int thread) {
    const search_job *job = arg;
    const gf_tile_ops *ops = gf_cpu_kernels_get()->tile;
    const gf_near *near = &job->t->ws->near;
    const int64_t dim = job->t->q->dim, rows = job->t->q->rows, n = GF_MIN(ROWS, job->count - task * ROWS);
    const int64_t *own = gf_step_slots(job->t->q);
    float *panels = near->panels + thread * dim * ROWS;
    gf_neighbour *list = near->list + thread * rows * job->k;
    int64_t slot[ROWS] = {0};
    for (int64_t i = 0; i < n; i++) slot[i] = (job->first + task * ROWS + i) % job->t->s->spec.n;
    pack_rows(job, slot, n, near->rows + thread * dim * ROWS, panels);
    for (int64_t a0 = 0; a0 < rows; a0 += GF_PANEL) {
        float s[GF_PANEL][ROWS];
        ops->product(s[0], ROWS, near->anchor + a0 * dim, (size_t)dim, 1, panels, GF_PANEL, (size_t)(dim * GF_PANEL), GF_PANEL,
                     ROWS, (int)dim, 0);
        for (int64_t a = a0; a < GF_MIN(a0 + GF_PANEL, rows); a++)
            insert_row(ops, s[a - a0], slot, own[a], (int)job->k, list + a * job->k);
    }
}

static void merge_lists(const gf_step *t, int64_t k) {
    const int64_t size = t->q->rows * k;
    gf_neighbour *list = t->ws->near.list;
    for (int64_t thread = 1; thread < t->shape->threads; thread++)
        for (int64_t x = 0; x < size; x++) {
            const gf_neighbour *y = &list[thread * size + x];
            gf_neighbour_insert(list + x / k * k, (int)k, y->s, y->slot);
        }
}

/* The nearest neighbour of every anchor of the batch. Those of other ranks count only where some anchors are not attracted: they
 * come by a sum in which all others are zeros. */
static glofnd_status share_nearest(gf_step *t, int64_t k) {
    gf_near *near = &t->ws->near;
    const int64_t cols = t->q->cols;
    memset(near->nearest, 0, sizeof *near->nearest * (size_t)cols);
    for (int64_t a = 0; a < t->q->rows; a++) near->nearest[t->q->row0 + a] = near->list[a * k];
    if (t->plan.one_rank || t->o->neighbour_share >= 1.0) return GLOFND_OK;
    for (int64_t a = 0; a < cols; a++) near->sum[a] = (double)near->nearest[a].s;
    TRY(gf_step_sum(t, near->sum, (int)cols));
    for (int64_t a = 0; a < cols; a++) near->nearest[a].s = (float)near->sum[a];
    return GLOFND_OK;
}

/* c_a, and the sum of z . c_a over the rows of the anchor. */
static void pull_anchor(gf_step *t, int64_t a, int64_t k) {
    const gf_side *side = &t->ws->side[0];
    gf_near *near = &t->ws->near;
    const gf_neighbour *list = near->list + a * k;
    const int64_t dim = t->q->dim, at = t->q->row0 + a;
    float *pull = near->pull + a * dim;
    memset(pull, 0, sizeof *pull * (size_t)dim);
    near->dot[a] = 0.0, near->found[a] = 0;
    if (!gf_neighbour_attracted(t->o->neighbour_share, t->q->cols, at, near->nearest, 1)) return;
    for (; near->found[a] < k && list[near->found[a]].s > 0.0f; near->found[a]++) {
        const int64_t slot = list[near->found[a]].slot;
        gf_store_bank_gather(t->s, 0, &slot, 1, near->rows);
        for (int64_t j = 0; j < dim; j++) pull[j] += gf_f16_to_float(near->rows[j]);
    }
    for (int64_t j = 0; j < dim; j++) pull[j] /= (float)k;
    for (int64_t r = at * t->shape->per_sample; r < (at + 1) * t->shape->per_sample; r++)
        for (int64_t j = 0; j < dim; j++) near->dot[a] += (double)side->z.row[r * side->z.ld + j] * (double)pull[j];
}

/* With its ids; never 0. */
static uint64_t key_of(const glofnd_batch *q) {
    uint64_t key = gf_neighbour_key(q);
    for (int64_t i = 0; i < q->cols; i++) key = (key ^ (uint64_t)q->id[i]) * 0x100000001b3u;
    return key | 1;
}

glofnd_status gf_step_neighbours(gf_step *t) {
    t->ws->near.key = 0;
    if (!t->plan.neighbours) return GLOFND_OK;
    const int64_t n = t->s->spec.n, k = t->o->neighbours;
    search_job job = {t, gf_neighbour_first(t->o, n, t->q->id[0], t->q->epoch), gf_neighbour_count(t->o, n), k};
    round_anchors(t);
    memset(t->ws->near.list, 0, sizeof *t->ws->near.list * (size_t)(t->shape->threads * t->q->rows * k));
    gf_parallel((int)t->shape->threads, (job.count + ROWS - 1) / ROWS, search_block, &job);
    merge_lists(t, k);
    TRY(share_nearest(t, k));
    for (int64_t a = 0; a < t->q->rows; a++) pull_anchor(t, a, k);
    t->ws->near.key = key_of(t->q);
    return GLOFND_OK;
}

glofnd_status gf_step_neighbours_found(const gf_step *t) {
    FAIL_IF(&t->c->err, t->plan.neighbours && t->ws->near.key != key_of(t->q), GLOFND_E_ARGUMENT,
            "neighbours: call glofnd_step_grad after glofnd_step_rows for the same batch, on the same context");
    return GLOFND_OK;
}

void gf_step_neighbours_loss(const gf_step *t, gf_totals *sum) {
    if (!t->plan.neighbours) return;
    for (int64_t a = 0; a < t->q->rows; a++) {
        sum->loss -= gf_neighbour_scale(&t->plan, t->plan.tau) * t->ws->near.dot[a];
        sum->neighbours += (double)t->ws->near.found[a];
    }
}

void gf_step_neighbours_gradient(const gf_step *t) {
    if (!t->plan.neighbours) return;
    const gf_side *side = &t->ws->side[0];
    const int64_t dim = t->q->dim, rows = t->shape->per_sample;
    const float scale = (float)gf_neighbour_scale(&t->plan, t->plan.tau);
    for (int64_t r = 0; r < t->shape->own; r++)
        for (int64_t j = 0; j < dim; j++) side->every.grad[r * side->z.ld + j] -= scale * t->ws->near.pull[r / rows * dim + j];
}
