/* memory_file.h - RUN/memory.json: what a run holds, for those who look at it. It is not in log.jsonl, since the most that was in
 * use differs between equal runs.
 */
#ifndef GF_TRAIN_MEMORY_FILE_H
#define GF_TRAIN_MEMORY_FILE_H

#include "base/status.h"
#include "train/memory.h"

#define GF_MEMORY_FILE "memory.json"

typedef struct gf_memory_record {
    int known;                  /* 0: no record */
    int64_t step;               /* after which it was made */
    int64_t ranks;              /* it is of the first one */
    int gpu;
    int64_t anchors;            /* samples with a state of their own, on all ranks */
    gf_memory_split bytes;
} gf_memory_record;

void gf_memory_of_run(const struct gf_trainer *t, gf_memory_record *out);
/* Replaces the file of an earlier step. */
glofnd_status gf_memory_write(gf_error *err, const char *run, const gf_memory_record *r);
/* A file that is missing or not understood leaves out->known 0. */
void gf_memory_read(const char *run, gf_memory_record *out);

#endif
