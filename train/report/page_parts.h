/* page_parts.h - sections of a page, in order, and their common parts. Private to src/report. */
#pragma once

#include "plot/svg.h"
#include "report/page.h"

/* Colours of detectors, wherever they are compared. */
enum { GF_COLOUR_GLOFND = 2, GF_COLOUR_FNC = 1, GF_COLOUR_EXACT = 6, GF_COLOUR_SINGLE = 3 };

void gf_section_header(gf_text *out, const gf_report *r);             /* header, introduction and main numbers */
void gf_section_example(gf_text *out, const gf_report *r, int group); /* figure of the introduction; needs a snapshot */
void gf_section_gallery(gf_text *out, const gf_report *r);
void gf_section_results(gf_text *out, const gf_report *r);
void gf_section_detection(gf_text *out, const gf_report *r);
void gf_section_thresholds(gf_text *out, const gf_report *r);
void gf_section_maps(gf_text *out, const gf_report *r);
void gf_section_features(gf_text *out, const gf_report *r); /* label fractions, start epochs */
void gf_section_training(gf_text *out, const gf_report *r);
void gf_section_cost(gf_text *out, const gf_report *r);
void gf_section_config(gf_text *out, const gf_report *r);

/* <section> with a heading; `lead` is HTML and may be NULL. */
void gf_section_begin(gf_text *out, const char *id, const char *title, const char *lead);
void gf_section_end(gf_text *out);

/* ----- groups: runs that differ only in their seeds; each has a colour ----- */

int gf_groups(const gf_report *r);
int gf_group_of(const gf_report *r, int run);
int gf_group_size(const gf_report *r, int group);
int gf_group_first(const gf_report *r, int group); /* run */
/* Name of its only run, or the settings that distinguish the group. */
void gf_group_name(const gf_report *r, int group, char *out, size_t bytes);

typedef struct gf_mean_std {
    double mean, std; /* std NaN for fewer than two values */
    int n;
} gf_mean_std;

gf_mean_std gf_mean_of(const double *x, int n); /* of the finite values; n <= GF_PAGE_RUNS */
/* Last epoch, over the runs of a group. */
gf_mean_std gf_group_last(const gf_report *r, int group, gf_run_field field);

/* Chart over epochs: a line per group, with a band of one standard deviation for several runs. Groups whose first run `shown`
 * (may be NULL) rejects are left out. */
void gf_epoch_chart(gf_text *out, const gf_report *r, gf_run_field field, int (*shown)(const gf_run_log *), const gf_chart *form);

int gf_learns_lambda(const gf_run_log *r); /* other detectors do not change lambda */
int gf_has_detector(const gf_run_log *r);
int gf_is_labelled(const gf_report *r); /* flags of some run were measured against labels */
int gf_is_clip(const gf_report *r);     /* first run: images and texts */
/* Value of a configuration key as text. */
void gf_page_value(const gf_run_log *r, const char *key, char *out, size_t bytes);
/* Snapshot of a run of the group; NULL: none. */
const gf_snapshot *gf_group_snapshot(const gf_report *r, int group);
void gf_snapshot_class(const gf_snapshot *snapshot, int32_t label, char *out,
                       size_t bytes); /* its name, "class 3" or "no label" */
void gf_snapshot_caption(const gf_snapshot *snapshot, int64_t id, char *out, size_t bytes); /* the one of the snapshot */
const char *gf_snapshot_name(const gf_report *r, const gf_snapshot *snapshot);              /* of its run */
/* An escaped name in a table; narrow windows may break it after a comma, slash or underscore: names can contain SPECs. */
void gf_page_name(gf_text *out, const char *name);
/* A paragraph about missing content and the command that makes it; both are escaped. */
void gf_page_missing(gf_text *out, const char *what, const char *command);
