/* comparable.h - evaluations of several runs that may be shown side by side: those of one identity (run_eval.h), made in the same
 * way and on the same samples. */
#pragma once

#include "report/page.h"

/* The evaluation of this event that most runs have; of several one on the run's own data, then the first. NULL: none. */
const gf_eval_line *gf_comparable_choose(const gf_run_log *runs, int count, const char *event);
/* The evaluation of a run with the same identity; NULL: none. */
const gf_eval_line *gf_comparable_find(const gf_run_log *run, const gf_eval_line *like, int untrained);

typedef struct gf_score {     /* the figure that summarises a run */
    const gf_eval_line *like; /* NULL: no run was evaluated */
    char name[160];           /* as in `compare`, without the data; a generic name if no run was evaluated */
    int retrieval;            /* of image-text runs: mean of six recalls; else nearest neighbours */
    const char *figure;       /* key of the figure in that record */
} gf_score;

/* Nearest neighbours or retrieval: the one that more runs have, else by the task of the first run. */
gf_score gf_score_choose(const gf_report *r);
/* Score of a run, in percent; NaN: it was not measured with these settings. */
double gf_score_of(const gf_score *s, const gf_run_log *run, int untrained);
