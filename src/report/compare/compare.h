/* compare.h - runs side by side: grouped by configuration without seed, mean (std) of each figure, paired t-test against the
 * first group. Figures come from RUN/eval.jsonl (the newest line of each kind) and the last epoch of RUN/log.jsonl. */
#ifndef GF_REPORT_COMPARE_COMPARE_H
#define GF_REPORT_COMPARE_COMPARE_H

#include "eval/stats.h"
#include "run/config.h"
#include "run/run_eval.h"
#include "util/strings/text_buffer.h"

#define GF_COMPARE_RUNS 1024
#define GF_COMPARE_METRICS 1024
#define GF_METRIC_KEY (GF_EVAL_KEY + 40)

typedef struct gf_metric {
    char key[GF_METRIC_KEY]; /* the figure, as "top-1 %", a newline, and the key of its line (run_eval.h) */
    char name[600];          /* for people */
    int better;              /* 1: higher is better, -1: lower, 0: neither, no test */
    int detail;              /* left out of tables unless asked for */
    double rank;             /* place in tables: kinds in a fixed order, large label fractions first */
} gf_metric;

typedef struct gf_compared { /* a run */
    char path[1024], name[128];
    int64_t seed;
    int group;
    gf_config config;
    double value[GF_COMPARE_METRICS]; /* NaN: not measured; percent where it is a share */
} gf_compared;

typedef struct gf_comparison {
    int runs, groups, metrics;
    int64_t skipped;    /* lines that are no JSON objects: passed over */
    char damaged[1100]; /* the file of the first of them */
    gf_compared *run;   /* [runs] */
    gf_metric *metric;  /* [GF_COMPARE_METRICS] */
    char (*label)[256]; /* [groups] what sets the group apart: "detector=fnc alpha=0.1" */
} gf_comparison;

/* E_IO: not the folder of a run. Missing logs and evaluations are fine. */
glofnd_status gf_compare_read(gf_error *err, const char *const *runs, int count, gf_comparison *out);
void gf_compare_free(gf_comparison *c); /* NULL and a zeroed one are fine */
/* Is `text` part of the name, in small letters or large? */
int gf_metric_has(const gf_metric *m, const char *text);
/* Keeps metrics whose name has `text` (NULL: all), without details unless `details` or a text is given; how many stay. */
int gf_compare_select(gf_comparison *c, const char *text, int details);

/* May a figure have this word in its name, whatever the data? In small letters or large. */
int gf_compare_word(const char *word);

typedef struct gf_cell { /* a figure of a group */
    int n;               /* runs that have it */
    double mean, std;
    gf_ttest test; /* against group 0, runs of the same seed paired; pairs 0 for group 0 itself */
    double p;      /* of being better than group 0; NaN: no test */
} gf_cell;

gf_cell gf_compare_cell(const gf_comparison *c, int group, int metric);
/* Group with the best mean of a metric; -1: no group has it, or neither is better. */
int gf_compare_best(const gf_comparison *c, int metric);
/* Is a group to be marked as the best: it is, as printed, as good as the best one, and some group is worse? */
int gf_compare_is_best(const gf_comparison *c, int group, int metric);
int gf_compare_digits(const gf_comparison *c, int metric); /* after the point */

void gf_compare_text(gf_text *out, const gf_comparison *c);
void gf_compare_csv(gf_text *out, const gf_comparison *c); /* a line per metric and group */
void gf_compare_json(gf_text *out, const gf_comparison *c);
void gf_compare_latex(gf_text *out, const gf_comparison *c); /* two tables as the paper's: mean (std), p-values */

#endif
