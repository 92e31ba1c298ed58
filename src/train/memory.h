/* memory.h - what a run holds, by kind: counted from what was taken, not estimated. */
#ifndef GF_TRAIN_MEMORY_H
#define GF_TRAIN_MEMORY_H

#include <stdint.h>

struct gf_trainer;

/* Bytes where the nets are: on a GPU of its memory, else of the host's. */
typedef struct gf_memory_split {
    int64_t weights;            /* parameters, running averages, gradients, working copies */
    int64_t optimizer;          /* its state; gradients of parts added up */
    int64_t activations;        /* what forward leaves for backward, and gradients on their way */
    int64_t workspace;          /* scratch of layers, tables */
    int64_t loss;               /* embeddings and their gradients, the method's arrays, state of the anchors */
    int64_t data;               /* batches ready or under way; images that stay on the GPU */
    int64_t peak;               /* the most that was in use: CPU, by the process; GPU, by everybody on it, libraries included */
} gf_memory_split;

/* After build; the first steps may still take some. */
void gf_trainer_memory(const struct gf_trainer *t, gf_memory_split *out);

#endif
