/* section_thresholds.c - densities of learned, exact and FNC's thresholds. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "eval/threshold_error.h"
#include "plot/kde.h"
#include "report/page_parts.h"
#include "util/array.h"

enum { POINTS = 160 };

typedef struct densities {
    double y[3][POINTS];
    gf_spread spread[3];
    double h[3]; /* bandwidths */
    char name[3][80];
    gf_series series[3];
    int count;
    double low, high;
} densities;

/* Range of all three with the width of their kernels, within [-1, 1]. */
static void find_range(const gf_snapshot_values *sets[3], densities *d) {
    d->low = INFINITY, d->high = -INFINITY;
    for (int s = 0; s < 3; s++) {
        const gf_spread x = d->spread[s] = gf_spread_of(sets[s]->x, sets[s]->n);
        const double around = 3.0 * (d->h[s] = gf_kde_bandwidth(sets[s]->x, sets[s]->n));
        if (!x.count) continue;
        d->low = fmin(d->low, fmax(x.min - around, fmin(x.min, -1.0)));
        d->high = fmax(d->high, fmin(x.max + around, fmax(x.max, 1.0)));
    }
    if (!(d->high - d->low > 1e-6)) d->low -= 0.01, d->high = d->low + 0.02;
}

/* True if all values fall on one point of the drawing: no density. */
static int is_point(const densities *d, int s) {
    return d->spread[s].count && d->spread[s].max - d->spread[s].min < (d->high - d->low) / (POINTS - 1);
}

/* The densities over [low, high]; returns the largest value. */
static double estimate(const gf_snapshot_values *sets[3], densities *d) {
    double max = 0.0;
    for (int s = 0; s < 3; s++) {
        gf_kde(sets[s]->x, sets[s]->n, fmax(d->h[s], (d->high - d->low) / POINTS), d->low, d->high, POINTS, d->y[s]);
        for (int k = 0; k < POINTS && !is_point(d, s); k++) max = fmax(max, d->y[s][k]);
    }
    return max;
}

/* Cuts tails below `min`. */
static void trim(densities *d, double min) {
    const double low = d->low, step = (d->high - d->low) / (POINTS - 1);
    int first = POINTS - 1, last = 0;
    for (int s = 0; s < 3; s++)
        for (int k = 0; k < POINTS; k++)
            if (d->y[s][k] > min) first = GF_MIN(k, first), last = GF_MAX(k, last);
    if (first < last) d->low = low + first * step, d->high = low + last * step;
}

/* Keeps vertical lines away from the edges. */
static void add_margin(densities *d) {
    const double margin = 0.03 * (d->high - d->low);
    for (int s = 0; s < 3; s++) {
        const double at = d->spread[s].mean;
        if (!is_point(d, s)) continue;
        d->low = fmin(d->low, fmax(at - margin, fmin(at, -1.0)));
        d->high = fmax(d->high, fmin(at + margin, fmax(at, 1.0)));
    }
}

static gf_series series_of(densities *d, int s, const char *name, int colour) {
    gf_series line = {.name = d->name[s], .n = POINTS, .colour = colour};
    snprintf(d->name[s], sizeof d->name[s], is_point(d, s) ? "%s: all %.3f" : "%s", name, d->spread[s].mean);
    if (is_point(d, s)) line.vertical = 1, line.at = d->spread[s].mean;
    else line.y = d->y[s], line.filled = 1;
    return line;
}

static void make_densities(const gf_snapshot_side *l, densities *d) {
    static const char *const names[3] = {"λ, learned by GloFND", "exact (1-α) quantile", "FNC, per batch"};
    static const gf_snapshot_values none;
    const gf_snapshot_values *sets[3] = {l->learned ? &l->lambda : &none, &l->optimum, &l->fnc};
    static const int colours[3] = {GF_COLOUR_GLOFND, GF_COLOUR_EXACT, GF_COLOUR_FNC};
    find_range(sets, d);
    trim(d, 0.004 * estimate(sets, d));
    add_margin(d);
    estimate(sets, d);
    for (int s = 0; s < 3; s++)
        if (d->spread[s].count) d->series[d->count++] = series_of(d, s, names[s], colours[s]);
}

static void figure(gf_text *out, const gf_report *r, const gf_snapshot *snapshot, int which) {
    static const char *const kinds[2] = {" of images", " of captions"};
    const gf_snapshot_side *l = &snapshot->side[which];
    densities d;
    char title[400], note[300];
    d = (densities){.count = 0};
    make_densities(l, &d);
    snprintf(title, sizeof title, "Thresholds%s with the network of %s", snapshot->clip ? kinds[which] : "",
             gf_snapshot_name(r, snapshot));
    if (l->learned)
        snprintf(note, sizeof note, "Mean absolute error against the exact threshold: λ %.3f, FNC %.3f (%lld anchors, α = %g).",
                 l->lambda_mae, l->fnc_mae, (long long)l->lambda.n, snapshot->alpha);
    else
        snprintf(note, sizeof note,
                 "This run learned no thresholds. Mean absolute error of FNC against the exact threshold: %.3f (α = %g).",
                 l->fnc_mae, snapshot->alpha);
    gf_svg_chart(out, &(gf_chart){.title = title,
                                  .note = note,
                                  .x_name = "threshold, cosine similarity",
                                  .y_name = "density",
                                  .series = d.series,
                                  .count = d.count,
                                  .level = NAN,
                                  .from_zero = 1,
                                  .x_first = d.low,
                                  .x_step = (d.high - d.low) / (POINTS - 1)});
}

static const char of_images[] =
    "Trained network, augmented views. The exact threshold of an image is the similarity that a share α of all other images "
    "exceeds. GloFND learns it during training; FNC estimates it from each batch. Curves close to the exact one are better.";
static const char of_pairs[] =
    "Trained network, images without augmentation. An image has a threshold for captions, and a caption has one for images; the "
    "exact one is the similarity that a share α of all others exceeds. GloFND learns both during training, from augmented "
    "images; FNC estimates them from each batch. Curves close to the exact one are better.";

void gf_section_thresholds(gf_text *out, const gf_report *r) {
    int shown = 0;
    gf_section_begin(out, "thresholds", "Learned and exact thresholds", gf_is_clip(r) ? of_pairs : of_images);
    gf_text_add(out, "<div class=\"charts\">\n");
    for (int g = 0; g < gf_groups(r); g++) {
        const gf_snapshot *l = gf_group_snapshot(r, g);
        for (int s = 0; l && s < l->sides; s++) {
            if (!l->side[s].optimum.n || !gf_has_detector(&r->runs[gf_group_first(r, g)])) continue;
            figure(out, r, l, s);
            shown++;
        }
    }
    gf_text_add(out, "</div>\n");
    if (!shown)
        gf_page_missing(out, "Distributions need the network of a run with a detector, and its data:",
                        "glofnd report RUN --data SPEC, without --quick");
    gf_section_end(out);
}
