/* section_header.c - title, introduction and main numbers of a page. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/comparable.h"
#include "report/page_parts.h"

/* Group of the main numbers: the first with learned thresholds and flagged pairs, else with any detector; -1: none. */
static int main_group(const gf_report *r) {
    for (int wanted = 0; wanted < 2; wanted++)
        for (int g = 0; g < gf_groups(r); g++) {
            const gf_run_log *run = &r->runs[gf_group_first(r, g)];
            if (!(wanted ? gf_has_detector(run) : gf_learns_lambda(run))) continue;
            if (gf_group_last(r, g, GF_RUN_FLAGGED).mean > 0.0) return g;
        }
    return -1;
}

static void name_in(gf_text *out, const gf_report *r, int g) {
    char name[320];
    gf_group_name(r, g, name, sizeof name);
    gf_text_add(out, "<b>");
    gf_text_escape(out, name);
    gf_text_add(out, "</b>");
}

/* Share of all pairs with the same class: flagged * precision = hits = same-class * recall. */
static double chance_of(const gf_report *r, int g) {
    const double flagged = gf_group_last(r, g, GF_RUN_FLAGGED).mean,
                 precision = gf_group_last(r, g, GF_RUN_POOLED_PRECISION).mean;
    return flagged * precision / gf_group_last(r, g, GF_RUN_POOLED_RECALL).mean;
}

/* Correct share of the flagged pairs in percent; NaN: no labels. */
static double correct_share(const gf_report *r, int g) {
    const int labelled = isfinite(gf_group_last(r, g, GF_RUN_PRECISION).mean);
    return labelled ? gf_group_last(r, g, GF_RUN_POOLED_PRECISION).mean : NAN;
}

static void add_tile(gf_text *out, const char *number, const char *text) {
    gf_text_add(out, "<div class=\"tile\"><b>%s</b><span>", number);
    gf_text_escape(out, text);
    gf_text_add(out, "</span></div>\n");
}

static double score_of(const gf_report *r, const gf_score *s, int g) {
    double x[GF_PAGE_RUNS];
    int n = 0;
    for (int i = 0; i < r->count; i++)
        if (gf_group_of(r, i) == g) x[n++] = gf_score_of(s, &r->runs[i], 0);
    return gf_mean_of(x, n).mean;
}

/* Score of the table of runs, and that of the first group, if measured. */
static void score_tile(gf_text *out, const gf_report *r, int g) {
    char number[64], text[700], first[320], what[200];
    const gf_score s = gf_score_choose(r);
    const double score = score_of(r, &s, g), base = score_of(r, &s, 0);
    if (!isfinite(score)) return;
    if (s.retrieval) snprintf(what, sizeof what, "mean recall at 1, 5 and 10 of image-text retrieval");
    else if (isfinite(s.like->k))
        snprintf(what, sizeof what, "of test images are classified correctly by their %.10g nearest neighbours", s.like->k);
    else snprintf(what, sizeof what, "of test images are classified correctly by nearest neighbours");
    snprintf(number, sizeof number, "%.1f\u00a0%%", score);
    gf_group_name(r, 0, first, sizeof first);
    if (g > 0 && isfinite(base)) snprintf(text, sizeof text, "%s; %.1f\u00a0%% with %s", what, base, first);
    else snprintf(text, sizeof text, "%s", what);
    add_tile(out, number, text);
}

static void tiles(gf_text *out, const gf_report *r, int g) {
    char number[64], text[500];
    const double flagged = gf_group_last(r, g, GF_RUN_FLAGGED).mean, right = correct_share(r, g);
    const double chance = chance_of(r, g);
    const gf_run_log *run = &r->runs[gf_group_first(r, g)];
    gf_text_add(out, "<div class=\"tiles\">\n");
    snprintf(number, sizeof number, "%.3g\u00a0%%", flagged);
    snprintf(text, sizeof text, "of all pairs were flagged in the last epoch; the target α is %g %%",
             100.0 * (double)run->config.method.alpha);
    add_tile(out, number, text);
    if (isfinite(right)) {
        snprintf(number, sizeof number, "%.0f\u00a0%%", right);
        snprintf(
            text, sizeof text,
            "of the flagged pairs have the same class; mean over anchors, as the paper counts: %.0f\u00a0%% (labels serve this "
            "measurement, not training)",
            gf_group_last(r, g, GF_RUN_PRECISION).mean);
        add_tile(out, number, text);
    }
    if (isfinite(right / chance)) {
        snprintf(number, sizeof number, "%.1f×", right / chance);
        snprintf(text, sizeof text, "the rate of random pairs, of which %.3g %% have the same class", chance);
        add_tile(out, number, text);
    }
    score_tile(out, r, g);
    gf_text_add(out, "</div>\n");
}

static void progress_badge(gf_text *out, const gf_report *r) {
    for (int i = 0; i < r->count; i++) {
        const gf_run_log *x = &r->runs[i];
        if (x->finished || x->epochs >= x->config.epochs) continue;
        gf_text_add(out, "<p><span class=\"badge\">");
        gf_text_escape(out, x->name);
        gf_text_add(out, " is not finished: epoch %lld of %d</span></p>\n", (long long)x->epochs, (int)x->config.epochs);
    }
}

/* Number of different values of a key. */
static int count_values(const gf_report *r, const char *key) {
    char mine[1100], other[1100];
    int count = 0;
    for (int i = 0; i < r->count; i++) {
        int known = 0;
        gf_page_value(&r->runs[i], key, mine, sizeof mine);
        for (int k = 0; k < i && !known; k++) {
            gf_page_value(&r->runs[k], key, other, sizeof other);
            known = strcmp(mine, other) == 0;
        }
        count += !known;
    }
    return count;
}

/* The value, or the number of different values. */
static void value_or_count(gf_text *out, const gf_report *r, const char *key, const char *several, int code) {
    char value[1100];
    const int count = count_values(r, key);
    if (count > 1) {
        gf_text_add(out, "%d %s", count, several);
        return;
    }
    gf_page_value(&r->runs[0], key, value, sizeof value);
    gf_text_add(out, code ? "<code>" : "");
    gf_text_escape(out, *value ? value : "-");
    gf_text_add(out, code ? "</code>" : "");
}

/* "batch 32, 3 epochs", or ranges over the runs. */
static void sizes(gf_text *out, const gf_report *r) {
    int64_t batch[2] = {INT64_MAX, 0}, epochs[2] = {INT64_MAX, 0};
    for (int i = 0; i < r->count; i++) {
        const gf_config *c = &r->runs[i].config;
        if (c->batch < batch[0]) batch[0] = c->batch;
        if (c->batch > batch[1]) batch[1] = c->batch;
        if (c->epochs < epochs[0]) epochs[0] = c->epochs;
        if (c->epochs > epochs[1]) epochs[1] = c->epochs;
    }
    gf_text_add(out, ", batch %lld", (long long)batch[0]);
    if (batch[1] > batch[0]) gf_text_add(out, " to %lld", (long long)batch[1]);
    gf_text_add(out, ", %lld", (long long)epochs[0]);
    if (epochs[1] > epochs[0]) gf_text_add(out, " to %lld", (long long)epochs[1]);
    gf_text_add(out, " epoch%s", epochs[1] == 1 ? "" : "s");
}

static void heading(gf_text *out, const gf_report *r) {
    gf_text_add(out, "<header><div><h1>");
    if (r->count == 1) gf_text_escape(out, r->runs[0].name);
    else gf_text_add(out, "Comparison of %d pretraining runs", r->count);
    gf_text_add(out, "</h1>\n<p class=\"faint\">");
    value_or_count(out, r, "arch", "architectures", 0);
    sizes(out, r);
    gf_text_add(out, " on ");
    value_or_count(out, r, "data", "datasets", 1);
    gf_text_add(out, "</p></div>\n<button id=\"theme\" type=\"button\" hidden></button></header>\n");
    progress_badge(out, r);
}

static const char of_images[] = "Contrastive learning pushes all pairs of different images apart, even two images of the same "
                                "thing: <b>false negatives</b>. GloFND learns a similarity threshold λ for each image. Pairs "
                                "above it count as false negatives and are left out of the loss.";
static const char of_pairs[] = "Image-text training pushes every image away from the captions of all other images, even from "
                               "captions that fit it: <b>false negatives</b>. GloFND learns a similarity threshold λ for each "
                               "image and each caption. Pairs above it count as false negatives and are left out of the loss.";

static void introduction(gf_text *out, const gf_report *r, int g) {
    gf_text_add(out, "<p class=\"intro\">%s", gf_is_clip(r) ? of_pairs : of_images);
    if (g >= 0) {
        gf_text_add(out, " Results of ");
        name_in(out, r, g);
        gf_text_add(out, ":</p>\n");
        return;
    }
    gf_text_add(out, " No pair has been flagged%s", gf_has_detector(&r->runs[0]) ? " yet" : ": there is no detector");
    if (gf_has_detector(&r->runs[0]) && r->runs[0].epochs <= r->runs[0].config.method.mask_epoch)
        gf_text_add(out, ": detection starts in epoch %d", (int)r->runs[0].config.method.mask_epoch + 1);
    gf_text_add(out, ".</p>\n");
}

void gf_section_header(gf_text *out, const gf_report *r) {
    static const struct {
        const char *id, *name;
    } links[] = {
        {"found", "Flagged samples"},
        {"results", "Results"},
        {"detection", "Detection"},
        {"thresholds", "Thresholds"},
        {"maps", "Maps"},
        {"labels", "Features"},
        {"training", "Training"},
        {"cost", "Time and memory"},
        {"config", "Configuration"},
    };
    const int g = main_group(r);
    heading(out, r);
    introduction(out, r, g);
    gf_section_example(out, r, g);
    if (g >= 0) tiles(out, r, g);
    gf_text_add(out, "<nav>");
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        gf_text_add(out, "<a href=\"#%s\">%s</a>", links[i].id, links[i].name);
    gf_text_add(out, "</nav>\n");
}
