/* naive.h - the step as it is usually written: the similarity blocks of a batch are made whole, and every operation on them is a
 * pass of its own over memory. What the library is compared with.
 *
 *     S1 = [Z1 Z2' | Z1 Z1'],  S2 = [Z2 Z1' | Z2 Z2']            B x 2B floats each
 *     masks, exp(S/tau), row sums, u, weights dS                  B x 2B each
 *     dZ1 = dS1 [Z2; Z1] + ..., dZ2 = ...                         four products back
 *
 * It is meant to be the best of its kind: the library's own product kernel and exp, all threads, vectorised passes, buffers
 * reused from step to step and on huge pages, no copy to concatenate blocks, the mask of non-pairs made only once, and dS written
 * by hand where an automatic derivative would need a few passes more. SogCLR with detector none, glofnd, single, fnc (quantile)
 * or oracle, action drop, learner adam.
 */
#pragma once

#include "method/options.h"
#include "support/pool.h"

typedef struct naive {
    glofnd_options o;
    int threads;
    memory_pool *memory;
    int64_t batch;
    uint8_t *negative;    /* [B][2B] everything but a sample's own two columns */
    glofnd_anchor *state; /* [B] of the samples of the one batch it is used for */
    glofnd_anchor shared; /* SINGLE */
} naive;

/* For batches of `batch` samples, a multiple of 32. The state of the anchors is copied from the store. */
void naive_init(naive *x, const glofnd_options *o, int threads, glofnd_ctx *c, const glofnd_store *s, const glofnd_batch *q);
void naive_free(naive *x);
/* One step; gradients are overwritten. Returns the loss; *kept (may be NULL) gets the number of kept pairs. */
double naive_step(naive *x, const glofnd_batch *q, float *grad_a, float *grad_b, int64_t *kept);
