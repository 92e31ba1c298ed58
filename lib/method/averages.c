/* averages.c - similarity BANK: every sample's average of its embeddings; and attraction by neighbours, which are found by them.
 *
 *     z = the normalised sum of the sample's rows        b <- normalise(m b + (1 - m) z); at the first visit b <- z
 * The new average is what this step compares, for all rows of the sample. It is stored as float16.
 */
#include <math.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "method/formulas/neighbours.h"
#include "method/step.h"
#include "util/array.h"
#include "util/dtype.h"
#include "util/parallel.h"

/* ----- averages ----- */

typedef struct average_job {
    const gf_step *step;
    int side;
} average_job;

static double sum_of_rows(const gf_embed *z, int64_t first, int rows, int64_t j) {
    double sum = 0.0;
    for (int v = 0; v < rows; v++) sum += (double)z->row[(first + v) * z->ld + j];
    return sum;
}

/* Numbers are made twice instead of kept: a row has no fixed length. */
static void average_sample(const gf_step *step, int i, int64_t sample) {
    const gf_side *side = &step->ws->side[i];
    const int rows = (int)step->plan.per_sample;
    const int64_t dim = step->plan.dim, first = sample * rows;
    const uint16_t *old = side->bank_rows + sample * dim;
    float *out = side->bank.row + first * side->bank.ld;
    double square = 0.0, length = 0.0;
    int seen = 0;
    for (int64_t j = 0; j < dim; j++) {
        const double x = sum_of_rows(&side->z, first, rows, j);
        square += x * x;
        seen |= (old[j] & 0x7fff) != 0;
    }
    const double m = seen ? step->plan.o.bank_momentum : 0.0, share = (1.0 - m) / fmax(sqrt(square), 1e-12);
    for (int64_t j = 0; j < dim; j++) {
        const double x = m * (double)gf_f16_to_float(old[j]) + share * sum_of_rows(&side->z, first, rows, j);
        length += x * x;
    }
    length = fmax(sqrt(length), 1e-12);
    for (int64_t j = 0; j < dim; j++)
        out[j] = (float)((m * (double)gf_f16_to_float(old[j]) + share * sum_of_rows(&side->z, first, rows, j)) / length);
    memset(out + dim, 0, sizeof *out * (size_t)(side->bank.ld - dim));
    for (int v = 1; v < rows; v++) memcpy(out + v * side->bank.ld, out, sizeof *out * (size_t)side->bank.ld);
}

#define AVERAGE_SAMPLES 32 /* per task */

static void average_task(void *arg, int64_t task, int thread) {
    const average_job *job = arg;
    (void)thread;
    for (int64_t i = task * AVERAGE_SAMPLES; i < job->step->plan.cols && i < (task + 1) * AVERAGE_SAMPLES; i++)
        average_sample(job->step, job->side, i);
}

void gf_averages_make(gf_step *step) {
    const int64_t cols = step->plan.cols, tasks = (cols + AVERAGE_SAMPLES - 1) / AVERAGE_SAMPLES;
    for (int i = 0; i < step->plan.sides; i++) {
        gf_side *side = &step->ws->side[i];
        const void *given = i ? step->batch->bank_b : step->batch->bank_a;
        if (given) memcpy(side->bank_rows, given, sizeof *side->bank_rows * (size_t)(cols * step->plan.dim));
        else gf_store_bank_gather(step->store, i, step->slot, cols, side->bank_rows); /* one rank */
        average_job job = {step, i};
        gf_parallel((int)step->ws->shape.threads, tasks, average_task, &job);
        step->ops->pack(&side->bank, (int)step->ws->shape.threads);
    }
}

void gf_averages_commit(gf_step *step) {
    const int64_t dim = step->plan.dim, rows = step->plan.per_sample;
    for (int i = 0; i < step->plan.sides; i++) {
        const gf_side *side = &step->ws->side[i];
        for (int64_t a = 0; a < step->plan.rows; a++)
            for (int64_t j = 0; j < dim; j++)
                side->bank_rows[a * dim + j] =
                    gf_f16_from_float(side->bank.row[(step->batch->row0 + a) * rows * side->bank.ld + j]);
        gf_store_bank_scatter(step->store, i, step->slot, step->plan.rows, side->bank_rows);
    }
}

/* ----- neighbours: the search in the averages of the store, and its part of loss and gradient; see formulas/neighbours.h -----
 *
 * Threads take blocks of the store's rows and keep lists of their own. A list does not depend on the order of insertions, so the
 * merged ones do not depend on the number of threads. Every rank searches for its own anchors, in a store that holds the averages
 * of all samples: the numbers are those of one rank, bit for bit. What it found stays in the workspace for glofnd_step_grad. */

#define STORE_ROWS GF_NEIGHBOUR_BLOCK /* of the store at a time */

typedef struct search_job {
    const gf_step *step;
    int64_t first, count; /* rows of the store */
    int64_t k;
} search_job;

/* panels [STORE_ROWS / GF_PANEL][dim][GF_PANEL] = the averages of `n` rows of the store; zeros after them. */
static void pack_rows(const search_job *job, const int64_t *slot, int64_t n, uint16_t *rows, float *panels) {
    const int64_t dim = job->step->plan.dim;
    gf_store_bank_gather(job->step->store, 0, slot, n, rows);
    memset(rows + n * dim, 0, sizeof *rows * (size_t)((STORE_ROWS - n) * dim));
    for (int64_t p = 0; p < STORE_ROWS / GF_PANEL; p++)
        for (int64_t j = 0; j < dim; j++)
            for (int64_t i = 0; i < GF_PANEL; i++)
                panels[(p * dim + j) * GF_PANEL + i] = gf_f16_to_float(rows[(p * GF_PANEL + i) * dim + j]);
}

/* list [k]: of one anchor, which has row `own` of the store itself; s [STORE_ROWS]: its similarities with rows `slot`. */
static void insert_row(const gf_tile_ops *ops, const float *s, const int64_t *slot, int64_t own, int k, gf_neighbour *list) {
    int32_t at[STORE_ROWS];
    const int count = ops->reach(at, s, STORE_ROWS, list[k - 1].s, NULL);
    for (int i = 0; i < count; i++)
        if (slot[at[i]] != own) gf_neighbour_insert(list, k, s[at[i]], (int32_t)slot[at[i]]);
}

/* Similarities of padding are 0, which no list takes. */
static void search_block(void *arg, int64_t task, int thread) {
    const search_job *job = arg;
    const gf_tile_ops *ops = gf_cpu_kernels_get()->tile;
    const gf_near *near = &job->step->ws->near;
    const int64_t dim = job->step->plan.dim, rows = job->step->plan.rows, n = GF_MIN(STORE_ROWS, job->count - task * STORE_ROWS);
    const int64_t *own = job->step->slot;
    float *panels = near->panels + thread * dim * STORE_ROWS;
    gf_neighbour *list = near->list + thread * rows * job->k;
    int64_t slot[STORE_ROWS] = {0};
    for (int64_t i = 0; i < n; i++) slot[i] = (job->first + task * STORE_ROWS + i) % job->step->store->spec.n;
    pack_rows(job, slot, n, near->rows + thread * dim * STORE_ROWS, panels);
    for (int64_t a0 = 0; a0 < rows; a0 += GF_PANEL) {
        float s[GF_PANEL][STORE_ROWS];
        ops->product(s[0], STORE_ROWS, near->anchor + a0 * dim, (size_t)dim, 1, panels, GF_PANEL, (size_t)(dim * GF_PANEL),
                     GF_PANEL, STORE_ROWS, (int)dim, 0);
        for (int64_t a = a0; a < GF_MIN(a0 + GF_PANEL, rows); a++)
            insert_row(ops, s[a - a0], slot, own[a], (int)job->k, list + a * job->k);
    }
}

/* c_a, and the sum of z . c_a over the rows of the anchor. */
static void pull_anchor(gf_step *step, int64_t a, int64_t k) {
    const gf_side *side = &step->ws->side[0];
    gf_near *near = &step->ws->near;
    const gf_neighbour *list = near->list + a * k;
    const int64_t dim = step->plan.dim, at = step->batch->row0 + a;
    float *pull = near->pull + a * dim;
    memset(pull, 0, sizeof *pull * (size_t)dim);
    near->dot[a] = 0.0, near->found[a] = 0;
    if (!gf_neighbour_attracted(step->plan.o.neighbour_share, step->plan.cols, at, near->nearest, 1)) return;
    for (; near->found[a] < k && list[near->found[a]].s > 0.0f; near->found[a]++) {
        const int64_t slot = list[near->found[a]].slot;
        gf_store_bank_gather(step->store, 0, &slot, 1, near->rows);
        for (int64_t j = 0; j < dim; j++) pull[j] += gf_f16_to_float(near->rows[j]);
    }
    for (int64_t j = 0; j < dim; j++) pull[j] /= (float)k;
    for (int64_t r = at * step->plan.per_sample; r < (at + 1) * step->plan.per_sample; r++)
        for (int64_t j = 0; j < dim; j++) near->dot[a] += (double)side->z.row[r * side->z.ld + j] * (double)pull[j];
}

/* With its ids; never 0. */
static uint64_t key_of(const gf_step_batch *q) {
    uint64_t key = gf_neighbour_key(q);
    for (int64_t i = 0; i < q->cols; i++) key = (key ^ (uint64_t)q->id[i]) * 0x100000001b3u;
    return key | 1;
}

glofnd_status gf_neighbours_find(gf_step *step) {
    const int64_t n = step->store->spec.n, k = step->plan.o.neighbours;
    search_job job = {step, gf_neighbour_first(&step->plan.o, n, step->batch->id[0], step->batch->epoch),
                      gf_neighbour_count(&step->plan.o, n), k};
    /* The new averages as the store will have them, and zeros up to a whole panel of rows. */
    const gf_side *side = &step->ws->side[0];
    const int64_t dim = step->plan.dim, rows = step->plan.rows;
    float *anchor = step->ws->near.anchor;
    for (int64_t a = 0; a < rows; a++)
        for (int64_t j = 0; j < dim; j++) {
            const float x = side->bank.row[(step->batch->row0 + a) * step->plan.per_sample * side->bank.ld + j];
            anchor[a * dim + j] = gf_f16_to_float(gf_f16_from_float(x));
        }
    memset(anchor + rows * dim, 0, sizeof *anchor * (size_t)((gf_pad(rows) - rows) * dim));
    memset(step->ws->near.list, 0, sizeof *step->ws->near.list * (size_t)(step->ws->shape.threads * step->plan.rows * k));
    gf_parallel((int)step->ws->shape.threads, (job.count + STORE_ROWS - 1) / STORE_ROWS, search_block, &job);
    const int64_t size = step->plan.rows * k;
    gf_neighbour *list = step->ws->near.list;
    for (int64_t thread = 1; thread < step->ws->shape.threads; thread++)
        for (int64_t x = 0; x < size; x++) {
            const gf_neighbour *y = &list[thread * size + x];
            gf_neighbour_insert(list + x / k * k, (int)k, y->s, y->slot);
        }
    /* The nearest neighbour of every anchor of the batch. Those of other ranks count only where some anchors are not attracted: they
 * come by a sum in which all others are zeros. */
    gf_near *near = &step->ws->near;
    const int64_t cols = step->plan.cols;
    memset(near->nearest, 0, sizeof *near->nearest * (size_t)cols);
    for (int64_t a = 0; a < step->plan.rows; a++) near->nearest[step->batch->row0 + a] = near->list[a * k];
    if (!step->plan.one_rank && !(step->plan.o.neighbour_share >= 1.0)) {
        for (int64_t a = 0; a < cols; a++) near->sum[a] = (double)near->nearest[a].s;
        TRY(gf_step_sum_ranks(step, near->sum, (int)cols));
        for (int64_t a = 0; a < cols; a++) near->nearest[a].s = (float)near->sum[a];
    }
    for (int64_t a = 0; a < step->plan.rows; a++) pull_anchor(step, a, k);
    step->ws->near.key = key_of(step->batch);
    return GLOFND_OK;
}

glofnd_status gf_neighbours_check_found(const gf_step *step) {
    FAIL_IF(&step->ctx->err, step->ws->near.key != key_of(step->batch), GLOFND_E_ARGUMENT,
            "neighbours: call glofnd_step_grad after glofnd_step_rows for the same batch, on the same context");
    return GLOFND_OK;
}

void gf_neighbours_add_loss(const gf_step *step, gf_totals *sum) {
    for (int64_t a = 0; a < step->plan.rows; a++) {
        sum->loss -= gf_neighbour_scale(&step->plan, step->plan.tau) * step->ws->near.dot[a];
        sum->neighbours += (double)step->ws->near.found[a];
    }
}

void gf_neighbours_add_gradient(const gf_step *step) {
    const gf_side *side = &step->ws->side[0];
    const int64_t dim = step->plan.dim, rows = step->plan.per_sample;
    const float scale = (float)gf_neighbour_scale(&step->plan, step->plan.tau);
    for (int64_t r = 0; r < step->plan.own; r++)
        for (int64_t j = 0; j < dim; j++) side->grads.grad[r * side->z.ld + j] -= scale * step->ws->near.pull[r / rows * dim + j];
}
