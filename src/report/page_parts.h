/* page_parts.h - the sections of a page, in its order, and what they share. Private to the page. */
#ifndef GF_REPORT_PAGE_PARTS_H
#define GF_REPORT_PAGE_PARTS_H

#include "plot/svg.h"
#include "report/page.h"

/* Colours of ways to set thresholds, wherever they are compared: those of the demo's runs, and the text's for the truth. */
enum { GF_COLOUR_GLOFND = 2, GF_COLOUR_FNC = 1, GF_COLOUR_EXACT = 6, GF_COLOUR_SINGLE = 3 };

void gf_section_story(gf_text *out, const gf_report *r); /* what happened, in plain words and the run's own numbers */
void gf_section_example(gf_text *out, const gf_report *r, int group); /* of the story: its figure, where there is a look */
void gf_section_gallery(gf_text *out, const gf_report *r);
void gf_section_results(gf_text *out, const gf_report *r);
void gf_section_detection(gf_text *out, const gf_report *r);
void gf_section_thresholds(gf_text *out, const gf_report *r);
void gf_section_maps(gf_text *out, const gf_report *r);
void gf_section_labels(gf_text *out, const gf_report *r); /* label fractions, start epochs */
void gf_section_training(gf_text *out, const gf_report *r);
void gf_section_cost(gf_text *out, const gf_report *r);
void gf_section_config(gf_text *out, const gf_report *r);

/* <section> with a heading; `lead` is HTML and may be NULL. */
void gf_section_begin(gf_text *out, const char *id, const char *title, const char *lead);
void gf_section_end(gf_text *out);

/* ----- groups: runs of one configuration, whatever their seeds; each has a colour ----- */

int gf_groups(const gf_report *r);
int gf_group_of(const gf_report *r, int run);
int gf_group_size(const gf_report *r, int group);
int gf_group_first(const gf_report *r, int group); /* run */
/* The name of its only run, or what sets the group apart. */
void gf_group_name(const gf_report *r, int group, char *out, size_t bytes);

typedef struct gf_mean_std {
    double mean, std; /* std NaN for fewer than two values */
    int n;
} gf_mean_std;

gf_mean_std gf_mean_of(const double *x, int n); /* without what is not finite */
/* Of the last epoch, over the runs of a group. */
gf_mean_std gf_group_last(const gf_report *r, int group, gf_run_field field);

/* A chart of a figure of epochs: a line per group, with a band of one standard deviation where it has several runs. Runs of
 * groups for which `shown` (may be NULL) says 0 are left out. `form` has the rest. */
void gf_epoch_chart(gf_text *out, const gf_report *r, gf_run_field field, int (*shown)(const gf_run_log *), const gf_chart *form);

int gf_learns_lambda(const gf_run_log *r); /* other detectors leave lambda where it began */
int gf_has_detector(const gf_run_log *r);
int gf_is_clip(const gf_report *r); /* of images and texts, by the first run */
/* Value of a key as text. */
void gf_page_value(const gf_run_log *r, const char *key, char *out, size_t bytes);
/* The look at a run of this group; NULL: none was made. */
const gf_snapshot *gf_group_snapshot(const gf_report *r, int group);
void gf_snapshot_class(const gf_snapshot *snapshot, int32_t label, char *out,
                       size_t bytes); /* its name, or "class 3"; "no label" */
void gf_snapshot_caption(const gf_snapshot *snapshot, int64_t id, char *out, size_t bytes); /* the one that was looked at */
const char *gf_snapshot_name(const gf_report *r, const gf_snapshot *snapshot);              /* of the run that was looked at */
/* A name in a table, escaped; in narrow windows its lines may end after a comma, slash or underscore: it may have SPECs in it. */
void gf_page_name(gf_text *out, const char *name);
/* A paragraph that says what a section would show and which command makes it; what it names is escaped. */
void gf_page_missing(gf_text *out, const char *what, const char *command);

#endif
