/* compare.h - runs side by side: grouped by configuration without seed, mean (std) of each figure, paired t-test against the
 * first group. Figures come from RUN/eval.jsonl (the newest line of each kind) and the last epoch of RUN/log.jsonl. */
#pragma once

#include <limits.h>

#include "eval/split.h"
#include "run/config.h"
#include "run/run_eval.h"
#include "util/text.h"

#define GF_PAGE_RUNS 64 /* runs of a comparison and of a page, at most */

#define GF_COMPARE_RUNS_MAX 1024
#define GF_COMPARE_METRICS_MAX 1024
#define GF_METRIC_KEY_MAX (GF_EVAL_IDENTITY_MAX + 40)

typedef struct gf_metric {
    char key[GF_METRIC_KEY_MAX]; /* title of the figure, a newline, and the identity of its record (run_eval.h) */
    char name[600];              /* for people */
    int better;                  /* 1: higher is better, -1: lower, 0: neither, no test */
    int detail;                  /* left out of tables unless asked for */
    double rank;                 /* place in tables: events in the order of run_eval.c, large label fractions first */
} gf_metric;

typedef struct gf_compared { /* a run */
    char path[1024];
    int64_t seed;
    int group;
    gf_config config;
    double value[GF_COMPARE_METRICS_MAX]; /* NaN: not measured; percent where it is a share */
} gf_compared;

typedef struct gf_comparison {
    int runs, groups, metrics;
    int64_t skipped;           /* lines that are no JSON objects */
    char skipped_in[PATH_MAX]; /* the file of the first of them */
    char unknown[64];          /* a key of eval.jsonl that this version does not know: it counts as a setting; "": none */
    char unknown_in[1024];     /* the run that has it */
    gf_compared *run;          /* [runs] */
    gf_metric *metric;         /* [GF_COMPARE_METRICS_MAX] */
    char (*label)[256];        /* [groups] what sets the group apart: "detector=fnc alpha=0.1" */
} gf_comparison;

/* E_IO: not a run folder. Missing logs and evaluations are fine. */
glofnd_status gf_compare_read(gf_error *err, const char *const *runs, int count, gf_comparison *out);
void gf_compare_free(gf_comparison *c); /* NULL and a zeroed one are fine */
/* 1: `text` is part of the name, in small letters or large. */
int gf_metric_has(const gf_metric *m, const char *text);
/* Keeps metrics whose name has `text` (NULL: all), without details unless `details` or a text is given; how many stay. */
int gf_compare_select(gf_comparison *c, const char *text, int details);

typedef struct gf_cell { /* a figure of a group */
    int n;               /* runs that have it */
    double mean, std;
    gf_ttest test; /* against group 0, runs of the same seed paired; pairs 0 for group 0 itself */
    double p;      /* of being better than group 0; NaN: no test */
} gf_cell;

gf_cell gf_compare_cell(const gf_comparison *c, int group, int metric);
/* Group with the best mean of a metric; -1: no group has it, or neither is better. */
int gf_compare_best(const gf_comparison *c, int metric);
/* 1: a group is to be marked as the best: as printed it equals the best one, and some group is worse. */
int gf_compare_is_best(const gf_comparison *c, int group, int metric);
int gf_compare_digits(const gf_comparison *c, int metric); /* after the point */

void gf_compare_text(gf_text *out, const gf_comparison *c);
void gf_compare_csv(gf_text *out, const gf_comparison *c); /* a line per metric and group */
void gf_compare_json(gf_text *out, const gf_comparison *c);
void gf_compare_latex(gf_text *out, const gf_comparison *c); /* two tables as the paper's: mean (std), p-values */
