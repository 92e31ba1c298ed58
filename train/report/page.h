/* page.h - a report on one or more runs: one self-contained HTML page. Plots are static SVG; page.js shows values under the
 * pointer and switches between light and dark. */
#pragma once

#include "data/dataset.h"
#include "image/image.h"
#include "image/resample.h"
#include "plot/svg.h"
#include "report/compare.h"
#include "report/snapshot.h"
#include "run/run_log.h"
#include "util/text.h"

#define GF_PAGE_IMAGES ((size_t)1 << 20) /* bytes of images of a section, at most; further ones are left out and counted */

typedef struct gf_report {
    const gf_run_log *runs; /* [count], 1 .. GF_PAGE_RUNS */
    int count;
    const gf_comparison *compare; /* of the same runs in the same order; NULL: see compare_why */
    const char *compare_why;
    const gf_snapshot *snapshots; /* [count], may be not made; NULL: none */
} gf_report;

/* out->failed: out of memory. */
void gf_page(gf_text *out, const gf_report *r);

/* ----- sections of a page, in order, and their common parts. Private to train/report ----- */

/* Colours of detectors, wherever they are compared. */
enum { GF_COLOUR_GLOFND = 2, GF_COLOUR_FNC = 1, GF_COLOUR_EXACT = 6, GF_COLOUR_SINGLE = 3 };

void gf_section_header(gf_text *out, const gf_report *r); /* header, introduction and main numbers */
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

/* ----- comparable ----- */

/* Evaluations of several runs that may be shown side by side: those of one identity (run_eval.h), made in the same
 * way and on the same samples. */

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

/* ----- groups: runs that differ only in their seeds; each has a colour ----- */

int gf_groups(const gf_report *r);
int gf_group_of(const gf_report *r, int run);
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

/* ----- thumbnail ----- */

/* Small copies of images, for pages.
 *
 *     gf_thumbnails t = {.side = 64, .quality = 80};                buffers are reused from image to image
 *     TRY(gf_thumbnail_jpeg(err, &t, &image, &jpeg, &bytes));       jpeg is malloc'ed
 *     gf_thumbnails_free(&t);
 */

typedef struct gf_thumbnails {
    int side;               /* pixels of the longer side, at most; a smaller image keeps its size */
    int square;             /* 1: the centre square of an image, always side x side; a smaller one in whole pixels */
    int quality;            /* JPEG, 1 .. 100 */
    gf_resampler resampler; /* private from here on; zeroed: empty */
    gf_image small;
    uint8_t *planes; /* [3][side][side] */
} gf_thumbnails;

/* *small: m itself, or a smaller copy that is valid until the next call. */
glofnd_status gf_thumbnail_scale(gf_error *err, gf_thumbnails *t, const gf_image *m, const gf_image **small);
/* E_UNSUPPORTED: build without libjpeg. */
glofnd_status gf_thumbnail_jpeg(gf_error *err, gf_thumbnails *t, const gf_image *m, uint8_t **jpeg, size_t *bytes);
void gf_thumbnails_free(gf_thumbnails *t);

/* ----- image ----- */

/* Images of samples inside a page, as data URIs.
 *
 *     gf_page_images p = {.data = data, .thumbnails = {.side = 64, .quality = 82}, .budget = &bytes};
 *     if (gf_page_image_load(&p, id)) { gf_text_add(out, "<img src=\""); gf_page_image_write(out, &p); ... }
 *     gf_page_images_free(&p);
 */

typedef struct gf_page_images {
    const gf_dataset *data;
    gf_thumbnails thumbnails;
    size_t *budget; /* bytes left for images; an image that does not fit is left out */
    int left_out;
    gf_sample sample; /* private from here on */
    uint8_t *bytes;
    size_t size;
    const char *type;
} gf_page_images;

/* 0: unreadable, or over the budget; counted in left_out. */
int gf_page_image_load(gf_page_images *p, int64_t id);
/* The loaded image as "data:image/...". */
void gf_page_image_write(gf_text *out, const gf_page_images *p);
void gf_page_images_free(gf_page_images *p);

/* ----- sprite sheet ----- */

/* Many thumbnails in one image: square tiles, row by row, of which a page shows one at a time. One JPEG takes
 * fewer bytes than one per thumbnail. */

typedef struct gf_sprite_sheet {
    int side, columns, rows; /* pixels of a tile; tiles */
    int64_t count;           /* tiles in use */
    gf_image image;
} gf_sprite_sheet;

/* An empty grey sheet; memory of an earlier init is reused. */
glofnd_status gf_sprite_sheet_init(gf_error *err, gf_sprite_sheet *s, int side, int columns, int rows);
/* Centres the thumbnail, at most side x side, in the next tile; NULL leaves the tile grey. There must be one. */
void gf_sprite_sheet_add(gf_sprite_sheet *s, const gf_image *thumbnail);
void gf_sprite_sheet_free(gf_sprite_sheet *s); /* accepts a zeroed struct */

enum { GF_SPRITE_COLUMNS = 40 };

/* Sheet of the samples id [n], GF_SPRITE_COLUMNS wide: the centre square of each fills a tile, unreadable ones stay grey. *jpeg
 * is malloc'ed. E_UNSUPPORTED: build without libjpeg. */
glofnd_status gf_sprite_sheet_of_samples(gf_error *err, const gf_dataset *data, const int64_t *id, int64_t n, int side,
                                         int quality, uint8_t **jpeg, size_t *bytes);

/* ----- the main table: a row per run, with numbers of its last epoch and its evaluation ----- */

/* Aligned text; "-": not measured, or measured by a different protocol or on different samples. */
void gf_summary_text(gf_text *out, const gf_report *r);
/* The table as HTML, with the colours of the page's charts. */
void gf_summary_html(gf_text *out, const gf_report *r);
