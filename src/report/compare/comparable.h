/* comparable.h - which evaluations of several runs may stand beside each other: those of one key (run_eval.h), that is made in
 * the same way and on the same samples. */
#ifndef GF_REPORT_COMPARE_COMPARABLE_H
#define GF_REPORT_COMPARE_COMPARABLE_H

#include "report/page.h"

/* Of the evaluations of this kind the one that most runs have; of several those on the run's own data, then the first. NULL:
 * there is none. */
const gf_eval_line *gf_comparable_choose(const gf_run_log *runs, int count, const char *event);
/* What a run has of the same key; NULL: nothing. */
const gf_eval_line *gf_comparable_find(const gf_run_log *run, const gf_eval_line *like, int untrained);

typedef struct gf_score {     /* the one figure that tells how good a run is */
    const gf_eval_line *like; /* NULL: no run was evaluated */
    char name[160];           /* as `compare` calls it, without the data; else what it will be */
    int retrieval;            /* of image-text runs: mean of six recalls; else nearest neighbours */
    const char *figure;       /* key of the figure in that record */
} gf_score;

/* Nearest neighbours or retrieval: what more runs have, and of equals what fits the task of the first run. */
gf_score gf_score_choose(const gf_report *r);
/* Of a run, in percent; NaN: it was not measured in this way. */
double gf_score_of(const gf_score *s, const gf_run_log *run, int untrained);

#endif
