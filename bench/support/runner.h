/* runner.h - the library's side of a measurement: a context and a store in the state of a run under way, and the time of a step,
 * also by its parts (the operations of ifc/pair_passes.h).
 */
#pragma once

#include "method/options.h"
#include "support/sample.h"

enum { PART_EMBED, PART_SELECT, PART_STATS, PART_SETTLE, PART_GRAD, PART_REST, PARTS };
extern const char *const part_names[PARTS];

typedef struct runner {
    const char *detector;
    glofnd_options o;
    glofnd_ctx *ctx;
    glofnd_store *store;
    float *grad_a, *grad_b; /* [batch][dim] */
    size_t workspace;       /* bytes of glofnd_ctx_reserve */
    glofnd_stats stats;     /* of the last step */
    double part_ms[PARTS];  /* of the last step */
} runner;

typedef struct runner_settings {
    const char *math; /* the option; NULL: its default */
    int cpu_time;     /* steps are timed by the seconds of the processors, not by the clock */
} runner_settings;
extern runner_settings runner_setting; /* of all runners */

/* A store of n anchors; sized for batches as q. */
void runner_init(runner *r, const char *detector, int threads, const glofnd_batch *q, int64_t n);
void runner_free(runner *r);
/* Some epochs over the samples of s in batches of at most 512: thresholds and u are then as the learner leaves them, not as they
 * start. */
void runner_train(runner *r, const sample *s, int epochs);
double runner_step(runner *r, const glofnd_batch *q); /* ms */
