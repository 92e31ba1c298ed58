/* step_bank.c - similarity BANK: every sample's exponential average of its unit embeddings.
 *
 *     z = the normalised sum of the sample's rows        b <- normalise(m b + (1 - m) z); at the first visit b <- z
 * The new average is what this step compares, for all rows of the sample. It is stored as float16.
 */
#include <math.h>
#include <string.h>

#include "method/step.h"
#include "util/dtype.h"
#include "util/parallel.h"

typedef struct bank_job {
    const gf_step *t;
    int side;
} bank_job;

static double sum_of_rows(const gf_embed *z, int64_t first, int rows, int64_t j) {
    double sum = 0.0;
    for (int v = 0; v < rows; v++) sum += (double)z->row[(first + v) * z->ld + j];
    return sum;
}

/* Numbers are made twice instead of kept: a row has no fixed length. */
static void average(const gf_step *t, int i, int64_t sample) {
    const gf_side *side = &t->ws->side[i];
    const int rows = (int)t->shape->per_sample;
    const int64_t dim = t->q->dim, first = sample * rows;
    const uint16_t *old = side->bank_rows + sample * dim;
    float *out = side->bank.row + first * side->bank.ld;
    double square = 0.0, length = 0.0;
    int seen = 0;
    for (int64_t j = 0; j < dim; j++) {
        const double x = sum_of_rows(&side->z, first, rows, j);
        square += x * x;
        seen |= (old[j] & 0x7fff) != 0;
    }
    const double m = seen ? t->o->bank_momentum : 0.0, share = (1.0 - m) / fmax(sqrt(square), 1e-12);
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

#define SAMPLES 32 /* per task */

static void average_task(void *arg, int64_t task, int thread) {
    const bank_job *job = arg;
    (void)thread;
    for (int64_t i = task * SAMPLES; i < job->t->q->cols && i < (task + 1) * SAMPLES; i++) average(job->t, job->side, i);
}

void gf_step_bank(gf_step *t) {
    if (!t->plan.bank) return;
    const int64_t cols = t->q->cols, tasks = (cols + SAMPLES - 1) / SAMPLES;
    for (int i = 0; i < t->shape->sides; i++) {
        gf_side *side = &t->ws->side[i];
        const void *given = i ? t->q->bank_b : t->q->bank_a;
        if (given) memcpy(side->bank_rows, given, sizeof *side->bank_rows * (size_t)(cols * t->q->dim));
        else gf_store_bank_gather(t->s, i, gf_step_slots(t->q), cols, side->bank_rows); /* one rank */
        bank_job job = {t, i};
        gf_parallel((int)t->shape->threads, tasks, average_task, &job);
        gf_cpu_pack(&side->bank, (int)t->shape->threads);
    }
}

void gf_step_bank_save(gf_step *t) {
    if (!t->plan.bank) return;
    const int64_t dim = t->q->dim, rows = t->shape->per_sample;
    for (int i = 0; i < t->shape->sides; i++) {
        const gf_side *side = &t->ws->side[i];
        for (int64_t a = 0; a < t->q->rows; a++)
            for (int64_t j = 0; j < dim; j++)
                side->bank_rows[a * dim + j] = gf_f16_from_float(side->bank.row[(t->q->row0 + a) * rows * side->bank.ld + j]);
        gf_store_bank_scatter(t->s, i, gf_step_slots(t->q), t->q->rows, side->bank_rows);
    }
}
