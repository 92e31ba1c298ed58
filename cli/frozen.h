/* frozen.h - what the ways of evaluation share: progress over images and pairs, warnings, shares. */
#ifndef GF_CLI_FROZEN_H
#define GF_CLI_FROZEN_H

#include "cli.h"
#include "data/dataset.h"
#include "report/progress.h"

#define FROZEN_NOT_LEARNED "%s has no learned thresholds: its detector never started or learns none, or no checkpoint is left"

#define FROZEN_NAMED 3          /* samples that are named when they are left out; the others are counted */

typedef struct frozen_progress {
    gf_progress line;
    const char *what;
} frozen_progress;

void frozen_progress_begin(frozen_progress *p, const char *what);
void frozen_progress_draw(void *user, int64_t done, int64_t total);    /* user: a frozen_progress */
void frozen_progress_pairs(void *user, const char *what, int64_t done, int64_t total);  /* of a gf_pair_how */
void frozen_progress_end(frozen_progress *p);                          /* says how many were left out, if not all were named */
void frozen_warn(void *user, int64_t i, const char *message);          /* of a damaged sample */
void frozen_note(const gf_dataset *d);          /* gf_dataset_note, if there is one; d may be NULL */
void frozen_warn_caption(void *user, int64_t i, const char *message);  /* of one whose image is used all the same */
/* A number in (0, 1) from the text of a flag; CLI_USAGE with a message if it is not. */
int frozen_share(const char *flag, const char *text, double *out);

#endif
