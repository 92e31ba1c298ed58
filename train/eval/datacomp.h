/* datacomp.h - the 38 tasks of the DataComp benchmark, by its own list of tasks: their folders, sizes and scores. */
#pragma once

#include "data/official/known_datasets.h"

typedef struct gf_datacomp_task {
    const char *key;    /* in the benchmark's list, as vtab/pets */
    const char *title;  /* there */
    const char *name;   /* of the dataset here: what --data NAME=SPEC calls it */
    gf_scoring scoring; /* the task's main metric */
    int64_t size;       /* images */
    int32_t left_out;   /* a group that does not count; -1: none */
    const char *other;  /* a second name of its folder; NULL: none */
} gf_datacomp_task;

#define GF_DATACOMP_TASKS 38

const gf_datacomp_task *gf_datacomp_at(int i);              /* NULL: past the last */
const gf_datacomp_task *gf_datacomp_find(const char *name); /* by name; NULL: unknown */
/* Its folder below `root`, written to `out`; 0: not there. `out` then has the name that was looked for, without root. */
int gf_datacomp_folder(const gf_datacomp_task *t, const char *root, char *out, size_t bytes);
