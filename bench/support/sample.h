/* sample.h - a batch to time with: two noisy views of samples that lie in clusters, so that false negatives exist. */
#pragma once

#include "glofnd.h"

typedef struct sample {
    glofnd_batch q; /* ids are 0 .. batch-1; borrows the arrays below */
    float *a, *b;   /* [batch][dim] not normalised */
    int64_t *id;
    int32_t *label; /* the cluster */
} sample;

uint64_t sample_random(uint64_t *state); /* splitmix64: the next number of a stream */
void sample_init(sample *s, int64_t batch, int64_t dim);
void sample_free(sample *s);
/* The samples order[0 .. to->q.n-1] of `from`, with their ids. */
void sample_pick(sample *to, const sample *from, const int64_t *order);
/* 0 .. n-1 in random order. */
void sample_shuffle(int64_t *order, int64_t n, uint64_t *state);
