/* ranks.h - several ranks in one process: a thread, a context and a store each; links, sums and rows travel through memory.
 *
 * One step: every rank calls glofnd_step_rows on its share of the batch, the links are gathered, every rank calls
 * glofnd_step_grad; then each store gets the rows that other ranks own, as a trainer would move them.
 */
#pragma once

#include <pthread.h>

#include "compare.h"

#define MAX_RANKS 4

struct rank_set;

typedef struct rank_worker {
    struct rank_set *set;
    int index;
    runner w;
    glofnd_batch q;            /* the whole batch */
    float *grad_candidates[2]; /* of this rank's rows */
    glofnd_own_rows own;
    glofnd_counters counters;
    glofnd_stats stats;
    glofnd_status status;
} rank_worker;

typedef struct rank_set {
    int ranks;
    rank_worker rank[MAX_RANKS];
    pthread_barrier_t barrier;
    double *parts[MAX_RANKS]; /* what each rank brings to a sum */
    outputs *out;             /* of the step under way */
    int64_t anchors;
    int sides;
} rank_set;

rank_set rank_set_make(const scene *s, int ranks);
void rank_set_free(rank_set *t);
void rank_set_step(rank_set *t, const glofnd_batch *q, outputs *out);

/* The set's result against one rank's (and, where compat OFFICIAL differs by rank, against the reference). */
void expect_ranks(const scene *s, int step, const rank_set *t, const outputs *many, const outputs *single, const ref_step *r);
/* All steps of a scene on one rank and on many: equal to each other and to the reference. */
void check_ranks(scene *s, int ranks);
/* All steps with one thread and with several: the same bits. */
void check_threads(const scene *s, int threads);
/* All steps of one rank in one call and in two: the same bits. */
void check_two_calls(const scene *s);
