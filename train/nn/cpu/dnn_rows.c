/* dnn_rows.c - the kernels of nn/cpu/kernels/net_kernels.h over threads: sums over rows, activations, copies. */
#include "nn/cpu/dnn_rows.h"

#include <string.h>

#include "nn/cpu/dnn_blocks.h"
#include "util/parallel.h"

#define STRIP 128 /* columns per task when sums are added */

/* ----- sums -------------------------------------------------------------------------------------------------------- */

typedef struct sum_job {
    const gf_row_ops *ops;
    float *sum, *partial;
    const void *x;
    gf_type type;
    int64_t rows, c, step, count;
} sum_job;

static void add_parts(void *arg, int64_t task, int thread) {
    (void)thread;
    const sum_job *j = arg;
    const int64_t from = task * STRIP, to = gf_smaller(from + STRIP, j->c);
    double total[STRIP] = {0};
    for (int64_t b = 0; b < j->count; b++)
        for (int64_t i = from; i < to; i++) total[i - from] += (double)j->partial[b * j->step + i];
    for (int64_t i = from; i < to; i++) j->sum[i] = (float)total[i - from];
}

void gf_dnn_sum_parts(const gf_nn_engine *s, float *sum, const float *partial, int64_t step, int64_t count, int64_t c) {
    sum_job j = {.sum = sum, .partial = (float *)(uintptr_t)partial, .step = step, .count = count, .c = c};
    gf_parallel(s->threads, gf_parts(c, STRIP), add_parts, &j);
}

static void sum_block(void *arg, int64_t task, int thread) {
    (void)thread;
    const sum_job *j = arg;
    const int64_t step = gf_block_rows(j->rows, j->c), to = gf_smaller((task + 1) * step, j->rows);
    float *partial = j->partial + task * j->c;
    memset(partial, 0, sizeof *partial * (size_t)j->c);
    for (int64_t r = task * step; r < to; r++)
        j->ops->add_to(partial, j->type, (const char *)j->x + gf_type_bytes(j->type) * (size_t)(r * j->c), j->c);
}

void gf_dnn_sum_rows(const gf_nn_engine *s, float *sum, gf_type type, const void *x, int64_t rows, int64_t c, float *partial) {
    sum_job j = {.ops = s->row, .partial = partial, .x = x, .type = type, .rows = rows, .c = c};
    gf_parallel(s->threads, gf_blocks(rows, c), sum_block, &j);
    gf_dnn_sum_parts(s, sum, partial, c, gf_blocks(rows, c), c);
}

/* ----- activations ------------------------------------------------------------------------------------------------- */

typedef struct act_job {
    const gf_row_ops *ops;
    gf_nn_act act;
    gf_type type;
    char *y;
    const char *dy, *z;
    int64_t count;
} act_job;

static void act_chunk(void *arg, int64_t task, int thread) {
    (void)thread;
    const act_job *j = arg;
    const int64_t from = task * GF_BLOCK_NUMBERS, n = gf_smaller(GF_BLOCK_NUMBERS, j->count - from);
    const size_t at = (size_t)from * gf_type_bytes(j->type);
    if (j->dy) j->ops->act_back(j->act, j->type, j->y + at, j->dy + at, j->z + at, n);
    else j->ops->act(j->act, j->type, j->y + at, j->z + at, n);
}

void gf_dnn_act(const gf_nn_engine *s, gf_nn_act act, gf_type type, void *y, const void *z, int64_t count) {
    act_job j = {s->row, act, type, y, NULL, z, count};
    gf_parallel(s->threads, gf_parts(count, GF_BLOCK_NUMBERS), act_chunk, &j);
}

void gf_dnn_act_back(const gf_nn_engine *s, gf_nn_act act, gf_type type, void *g, const void *dy, const void *z, int64_t count) {
    act_job j = {s->row, act, type, g, dy, z, count};
    gf_parallel(s->threads, gf_parts(count, GF_BLOCK_NUMBERS), act_chunk, &j);
}

/* ----- copies ------------------------------------------------------------------------------------------------------ */

#define CHUNK ((size_t)1 << 18) /* bytes */

typedef struct copy_job {
    char *dst;
    const char *src; /* NULL: zeros */
    size_t bytes;
} copy_job;

static void copy_chunk(void *arg, int64_t task, int thread) {
    (void)thread;
    const copy_job *j = arg;
    const size_t from = (size_t)task * CHUNK, n = j->bytes - from < CHUNK ? j->bytes - from : CHUNK;
    if (j->src) memcpy(j->dst + from, j->src + from, n);
    else memset(j->dst + from, 0, n);
}

void gf_dnn_copy(const gf_nn_engine *s, void *dst, const void *src, size_t bytes) {
    copy_job j = {dst, src, bytes};
    gf_parallel(s->threads, (int64_t)((bytes + CHUNK - 1) / CHUNK), copy_chunk, &j);
}

void gf_dnn_zero(const gf_nn_engine *s, void *dst, size_t bytes) { gf_dnn_copy(s, dst, NULL, bytes); }
