/* compare.h - runs side by side: grouped by configuration without seed, mean (std) of each figure, paired t-test against the
 * first group. Figures come from RUN/eval.jsonl (the newest line of each kind) and the last epoch of RUN/log.jsonl. */
#ifndef GF_REPORT_COMPARE_H
#define GF_REPORT_COMPARE_H

#include "eval/stats.h"
#include "report/text.h"
#include "train/config.h"

#define GF_COMPARE_RUNS 1024
#define GF_COMPARE_METRICS 1024

typedef struct gf_metric {
    char key[1400];             /* all that makes it this figure: kind, protocol, data, ... */
    char name[160];             /* for people */
    int better;                 /* 1: higher is better, -1: lower, 0: neither, no test */
    int detail;                 /* left out of tables unless asked for */
    double rank;                /* place in tables: kinds in a fixed order, large label fractions first */
} gf_metric;

typedef struct gf_compared {    /* a run */
    char path[1024], name[128];
    int64_t seed;
    int group;
    gf_config config;
    double value[GF_COMPARE_METRICS];   /* NaN: not measured; percent where it is a share */
} gf_compared;

typedef struct gf_comparison {
    int runs, groups, metrics;
    int lenient;                /* damaged lines are skipped */
    gf_compared *run;           /* [runs] */
    gf_metric *metric;          /* [GF_COMPARE_METRICS] */
    char (*label)[256];         /* [groups] what sets the group apart: "detector=fnc alpha=0.1" */
} gf_comparison;

/* E_IO: not the folder of a run. E_FORMAT names file and line. Missing logs and evaluations are fine. */
glofnd_status gf_compare_read(gf_error *err, const char *const *runs, int count, gf_comparison *out);
/* The same, but lines that are no JSON objects are passed over. */
glofnd_status gf_compare_read_lenient(gf_error *err, const char *const *runs, int count, gf_comparison *out);
void gf_compare_free(gf_comparison *c);         /* NULL and a zeroed one are fine */
/* Keeps metrics whose name contains `text` (NULL: all), without details unless `details` or a text is given; how many stay. */
int gf_compare_select(gf_comparison *c, const char *text, int details);

typedef struct gf_cell {        /* a figure of a group */
    int n;                      /* runs that have it */
    double mean, std;
    gf_ttest test;              /* against group 0, runs of the same seed paired; pairs 0 for group 0 itself */
    double p;                   /* of being better than group 0; NaN: no test */
} gf_cell;

gf_cell gf_compare_cell(const gf_comparison *c, int group, int metric);
/* Group with the best mean of a metric; -1: no group has it, or neither is better. */
int gf_compare_best(const gf_comparison *c, int metric);

void gf_compare_text(gf_text *out, const gf_comparison *c);
void gf_compare_csv(gf_text *out, const gf_comparison *c);      /* a line per metric and group */
void gf_compare_json(gf_text *out, const gf_comparison *c);
void gf_compare_latex(gf_text *out, const gf_comparison *c);    /* two tables as the paper's: mean (std), p-values */

#endif
