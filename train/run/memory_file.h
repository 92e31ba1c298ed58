/* memory_file.h - RUN/memory.json: the memory that a run holds, by kind, for reports. It is not in log.jsonl, since the peak
 * differs between equal runs.
 */
#pragma once

#include "util/status.h"

/* Bytes of the memory that the nets are in: a GPU's, or the host's. */
typedef struct gf_memory_split {
    int64_t weights;     /* parameters, running averages, gradients, working copies */
    int64_t optimizer;   /* its state; gradients of parts added up */
    int64_t activations; /* kept by forward for backward, and gradients on their way */
    int64_t workspace;   /* scratch of layers, tables */
    int64_t loss;        /* embeddings and their gradients, the method's arrays, state of the anchors */
    int64_t data;        /* batches ready or under way; images that stay on the GPU */
    int64_t peak;        /* max in use: CPU, by the process; GPU, by all processes on it, libraries included */
} gf_memory_split;

typedef struct gf_memory_record {
    int known;     /* 0: no record */
    int64_t step;  /* after which it was written */
    int64_t ranks; /* the record is the first one's */
    int gpu;
    int64_t anchors; /* samples with a state of their own, on all ranks */
    gf_memory_split bytes;
} gf_memory_record;

/* Replaces the file of an earlier step. */
glofnd_status gf_memory_write(gf_error *err, const char *run, const gf_memory_record *r);
/* A file that is missing or unreadable leaves out->known 0. */
void gf_memory_read(const char *run, gf_memory_record *out);
