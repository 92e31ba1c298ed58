/* section_detection.c - share and quality of flagged pairs, by epoch and with the trained network. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plot/svg_bars.h"
#include "report/page_parts.h"

/* Alpha in percent if equal in all runs whose detector uses it; else NaN. */
static double common_alpha(const gf_report *r) {
    double alpha = NAN;
    for (int i = 0; i < r->count; i++) {
        const glofnd_options *o = &r->runs[i].config.method;
        if (o->detector == GLOFND_DETECT_NONE || o->detector >= GLOFND_DETECT_ORACLE) continue; /* labels, groups, components */
        if (isfinite(alpha) && alpha != 100.0 * (double)o->alpha) return NAN;
        alpha = 100.0 * (double)o->alpha;
    }
    return alpha;
}

/* First epoch of detection if equal in all runs with a detector; else 0. */
static double common_start(const gf_report *r) {
    double start = 0.0;
    for (int i = 0; i < r->count; i++) {
        const double at = r->runs[i].config.method.mask_epoch + 1.0;
        if (!gf_has_detector(&r->runs[i])) continue;
        if (start != 0.0 && at != start) return 0.0;
        start = at;
    }
    return start;
}

static int has_pairs(const gf_eval_line *e, const char *pairs) {
    return strcmp(e->event, "fn") == 0 && strcmp(e->pairs, pairs) == 0 && !e->untrained;
}

enum { DETECTORS = 4 };
static const char *const detectors[DETECTORS] = {"glofnd", "exact", "single", "fnc"};

static int by_lambda(const gf_eval_line *e) { return strcmp(e->detector, "glofnd") == 0; }

/* True if both have the same settings. Learned thresholds do not depend on alpha. */
static int same_settings(const gf_eval_line *a, const gf_eval_line *b) {
    static const char *const fields[] = {"data", "samples", "batch"};
    int same = strcmp(a->truth, b->truth) == 0 &&
               (!gf_settings_differ(a->settings, b->settings, "alpha") || by_lambda(a) || by_lambda(b));
    for (int i = 0; i < 3; i++) same &= !gf_settings_differ(a->settings, b->settings, fields[i]);
    return same;
}

/* Newest evaluation of a detector with the settings of `like`; NULL: none. */
static const gf_eval_line *find_evaluation(const gf_run_log *run, const gf_eval_line *like, const char *detector) {
    const gf_eval_line *found = NULL;
    for (int i = 0; i < run->eval.count; i++) {
        const gf_eval_line *e = &run->eval.line[i];
        if (!has_pairs(e, like->pairs) || strcmp(e->detector, detector) != 0 || !same_settings(e, like)) continue;
        if (!found || e->number > found->number) found = e;
    }
    return found;
}

/* Settings for all bars: those evaluated with most detectors; of several the newest. */
static const gf_eval_line *choose_settings(const gf_run_log *run, const char *pairs) {
    const gf_eval_line *like = NULL;
    int max = -1;
    for (int i = 0; i < run->eval.count; i++) {
        const gf_eval_line *e = &run->eval.line[i];
        int n = 0;
        if (!has_pairs(e, pairs)) continue;
        for (int d = 0; d < DETECTORS && !by_lambda(e); d++) n += find_evaluation(run, e, detectors[d]) != NULL;
        if (n > max || (n == max && e->number > like->number)) like = e, max = n;
    }
    return like;
}

/* One network with four kinds of thresholds, from `glofnd eval fn`. */
static void detector_bars(gf_text *out, const gf_report *r, int g, const char *pairs, const char *of, const char *x_name) {
    static const char *const names[] = {"GloFND, learned", "exact quantile", "one threshold for all", "FNC, per batch"};
    static const char *const keys[] = {"pooled_precision", "pooled_recall", "pooled_f1"};
    static const int colours[] = {GF_COLOUR_GLOFND, GF_COLOUR_EXACT, GF_COLOUR_SINGLE, GF_COLOUR_FNC};
    const gf_run_log *run = &r->runs[gf_group_first(r, g)];
    const gf_eval_line *like = choose_settings(run, pairs);
    char title[400];
    gf_bars b = {.title = title,
                 .y_name = "percent",
                 .groups = 3,
                 .each = 4,
                 .x_name = x_name,
                 .group = {"precision", "recall", "F1"},
                 .note = "Same embeddings, four kinds of thresholds (all pairs).",
                 .missing = "Compare detectors on this network: <code>glofnd eval fn RUN</code>"};
    snprintf(title, sizeof title, "Detectors%s with the trained network of %s", of, run->name);
    for (int d = 0; d < DETECTORS; d++) {
        b.name[d] = names[d], b.colour[d] = colours[d];
        for (int k = 0; k < 3; k++) b.value[k][d] = b.spread[k][d] = NAN;
        const gf_eval_line *e = like ? find_evaluation(run, like, detectors[d]) : NULL;
        for (int k = 0; e && k < 3; k++) b.value[k][d] = gf_eval_figure(e, keys[k]);
    }
    gf_svg_bars(out, &b);
}

/* Group of that network: one with learned thresholds, if any. */
static int chosen_group(const gf_report *r) {
    for (int g = 0; g < gf_groups(r); g++)
        if (gf_learns_lambda(&r->runs[gf_group_first(r, g)])) return g;
    return 0;
}

static int has_texts(const gf_report *r) {
    for (int i = 0; i < r->count; i++)
        if (isfinite(gf_run_last(&r->runs[i], GF_RUN_LAMBDA_TEXT))) return 1;
    return 0;
}

/* Charts over epochs; the first one has alpha and the start of detection. */
static void epoch_charts(gf_text *out, const gf_report *r) {
    static const char none[] = "No values: these need a detector that has started (<code>start_epoch</code>) and flags pairs.";
    static const struct {
        gf_run_field field;
        const char *title, *y_name, *note;
    } charts[] = {
        {GF_RUN_FLAGGED, "Pairs flagged as false negatives", "flagged pairs, %", "Exact thresholds flag a share α of the pairs."},
        {GF_RUN_POOLED_PRECISION, "Precision", "precision, %", "Share of the flagged pairs with the same class."},
        {GF_RUN_POOLED_RECALL, "Recall", "recall, %", "Share of the pairs with the same class that are flagged."},
        {GF_RUN_POOLED_F1, "F1", "F1, %", "Harmonic mean of precision and recall."},
        {GF_RUN_F1, "F1 per anchor", "F1, %", "Of means over anchors, as the paper counts (none flagged: 100 %)."},
    };
    for (int k = 0; k < (gf_is_labelled(r) ? 5 : 1); k++)
        gf_epoch_chart(out, r, charts[k].field, gf_has_detector,
                       &(gf_chart){.title = charts[k].title,
                                   .y_name = charts[k].y_name,
                                   .level = k == 0 ? common_alpha(r) : NAN,
                                   .level_name = "α, the target share",
                                   .from_zero = 1,
                                   .note = charts[k].note,
                                   .event = k == 0 ? common_start(r) : 0.0,
                                   .event_name = "detection starts",
                                   .missing = none});
}

static void threshold_charts(gf_text *out, const gf_report *r) {
    const int clip = gf_is_clip(r);
    gf_epoch_chart(out, r, GF_RUN_LAMBDA_IMAGE, gf_learns_lambda,
                   &(gf_chart){.title = clip ? "Mean threshold λ of the images" : "Mean threshold λ",
                               .y_name = "cosine similarity",
                               .level = NAN,
                               .note = clip ? "Mean similarity above which a caption counts as matching an image."
                                            : "Mean similarity above which a pair counts as a false negative.",
                               .missing = "No run learns thresholds (<code>detector = glofnd</code>)."});
    if (has_texts(r))
        gf_epoch_chart(out, r, GF_RUN_LAMBDA_TEXT, gf_learns_lambda,
                       &(gf_chart){.title = "Mean threshold λ of the captions",
                                   .y_name = "cosine similarity",
                                   .level = NAN,
                                   .note = "Mean similarity above which an image counts as matching a caption."});
}

/* Truth to count flags against: labels, or captions in common (`glofnd eval fn`). */
static int has_truth(const gf_report *r) {
    return gf_is_labelled(r) || gf_is_clip(r) || choose_settings(&r->runs[gf_group_first(r, chosen_group(r))], "views");
}

static void bars(gf_text *out, const gf_report *r) {
    const int g = chosen_group(r);
    if (!gf_is_clip(r)) detector_bars(out, r, g, "views", "", "pairs of augmented views, in batches");
    if (!gf_is_clip(r)) return;
    detector_bars(out, r, g, "image-text batches", " for captions of an image", "images with captions, in batches");
    detector_bars(out, r, g, "text-image batches", " for images of a caption", "captions with images, in batches");
}

void gf_section_detection(gf_text *out, const gf_report *r) {
    gf_section_begin(
        out, "detection", gf_is_labelled(r) ? "Detection quality" : "Detection",
        gf_is_labelled(r)
            ? "Measured with labels on training batches, while the network changes. A flagged pair is correct if both "
              "samples have the same class. Precision, recall and F1 count all pairs of an epoch."
            : "Measured on training batches, while the network changes.");
    gf_text_add(out, "<div class=\"charts\">\n");
    epoch_charts(out, r);
    if (has_truth(r)) bars(out, r);
    threshold_charts(out, r);
    gf_text_add(out, "</div>\n");
    gf_section_end(out);
}
