/* trained_run.h - what the ways of evaluation share: progress over images and pairs, warnings, shares. */
#pragma once

#include "programs/cli.h"
#include "data/dataset.h"
#include "run/progress.h"

#define EVAL_NOT_LEARNED "%s has no learned thresholds: its detector never started or learns none, or no checkpoint is left"

#define EVAL_NAMED 3 /* samples that are named when they are left out; the others are counted */

typedef struct eval_progress {
    gf_progress line;
    const char *what;
} eval_progress;

void eval_progress_begin(eval_progress *p, const char *what);
void eval_progress_draw(void *user, int64_t done, int64_t total);      /* user: a eval_progress */
void eval_progress_pairs(void *user, const char *stage, double share); /* of a gf_sweep_job */
void eval_progress_end(eval_progress *p);                              /* reports how many were left out, if not all were named */
void eval_warn(void *user, int64_t i, const char *message);            /* of an unreadable sample */
void eval_note(const gf_dataset *d);                                   /* gf_dataset_note, if there is one; d may be NULL */
void eval_warn_caption(void *user, int64_t i, const char *message);    /* of one whose image is used all the same */
