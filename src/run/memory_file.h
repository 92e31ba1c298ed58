/* memory_file.h - RUN/memory.json: what a run holds, for those who look at it. It is not in log.jsonl, since the most that was in
 * use differs between equal runs.
 */
#ifndef GF_RUN_MEMORY_FILE_H
#define GF_RUN_MEMORY_FILE_H

#include "run/layout.h"
#include "util/status.h"

/* Bytes where the nets are: on a GPU of its memory, else of the host's. */
typedef struct gf_memory_split {
    int64_t weights;     /* parameters, running averages, gradients, working copies */
    int64_t optimizer;   /* its state; gradients of parts added up */
    int64_t activations; /* what forward leaves for backward, and gradients on their way */
    int64_t workspace;   /* scratch of layers, tables */
    int64_t loss;        /* embeddings and their gradients, the method's arrays, state of the anchors */
    int64_t data;        /* batches ready or under way; images that stay on the GPU */
    int64_t peak;        /* the most that was in use: CPU, by the process; GPU, by everybody on it, libraries included */
} gf_memory_split;

typedef struct gf_memory_record {
    int known;     /* 0: no record */
    int64_t step;  /* after which it was made */
    int64_t ranks; /* it is of the first one */
    int gpu;
    int64_t anchors; /* samples with a state of their own, on all ranks */
    gf_memory_split bytes;
} gf_memory_record;

/* Replaces the file of an earlier step. */
glofnd_status gf_memory_write(gf_error *err, const char *run, const gf_memory_record *r);
/* A file that is missing or not understood leaves out->known 0. */
void gf_memory_read(const char *run, gf_memory_record *out);

#endif
