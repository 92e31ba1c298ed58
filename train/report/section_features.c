/* section_features.c - quality of the features: retrieval, accuracy with few labels, accuracy by start epoch. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plot/svg_bars.h"
#include "report/comparable.h"
#include "report/page_parts.h"
#include "util/array.h"

/* Top-1 in percent with the settings of `like`, but with this share of the labels; NaN: not measured. */
static double top1_of(const gf_run_log *run, const gf_eval_line *like, double fraction) {
    gf_eval_line wanted = *like;
    wanted.fraction = fraction;
    gf_eval_identify(&wanted);
    const gf_eval_line *e = gf_comparable_find(run, &wanted, 0);
    return e ? gf_eval_figure(e, "top1") : NAN;
}

static gf_mean_std group_top1(const gf_report *r, int g, const gf_eval_line *like, double fraction) {
    double x[GF_PAGE_RUNS];
    int n = 0;
    for (int i = 0; i < r->count; i++)
        if (gf_group_of(r, i) == g) x[n++] = top1_of(&r->runs[i], like, fraction);
    return gf_mean_of(x, n);
}

/* Fractions evaluated with the settings of `like`, largest first. */
static int fractions_of(const gf_report *r, const gf_eval_line *like, double *out) {
    int n = 0;
    for (int i = 0; like && i < r->count; i++)
        for (int k = 0; k < r->runs[i].eval.count; k++) {
            const gf_eval_line *e = &r->runs[i].eval.line[k];
            int known = strcmp(e->event, "linear") != 0 || !isfinite(e->fraction) || n == 8 ||
                        isnan(top1_of(&r->runs[i], like, e->fraction));
            for (int f = 0; f < n; f++) known |= out[f] == e->fraction;
            if (known) continue;
            int at = n++;
            for (; at > 0 && out[at - 1] < e->fraction; at--) out[at] = out[at - 1];
            out[at] = e->fraction;
        }
    return n;
}

static void fraction_bars(gf_text *out, const gf_report *r) {
    gf_bars b;
    char name[GF_BARS_MAX][320];
    char group[8][32], note[200];
    double fraction[8];
    const gf_eval_line *like = gf_comparable_choose(r->runs, r->count, "linear");
    b = (gf_bars){.title = "Linear classifier with few labels",
                  .note = like ? note : NULL,
                  .y_name = "top-1 accuracy on test images, %",
                  .x_name = "share of the training labels",
                  .missing = "Not evaluated yet: <code>glofnd eval linear RUN --data SPEC</code>"};
    if (like) snprintf(note, sizeof note, "Frozen backbone, protocol %s.", like->protocol);
    b.groups = fractions_of(r, like, fraction);
    b.each = GF_MIN(gf_groups(r), GF_BARS_MAX);
    for (int f = 0; f < b.groups; f++) {
        snprintf(group[f], sizeof group[f], "%g %%", 100.0 * fraction[f]);
        b.group[f] = group[f];
    }
    for (int k = 0; k < b.each; k++) {
        gf_group_name(r, k, name[k], sizeof name[k]);
        b.name[k] = name[k], b.colour[k] = k;
        for (int f = 0; f < b.groups; f++) {
            const gf_mean_std m = group_top1(r, k, like, fraction[f]);
            b.value[f][k] = m.mean, b.spread[f][k] = m.std;
        }
    }
    gf_svg_bars(out, &b);
}

/* ----- retrieval in image-text runs ----- */

enum { RECALLS = 6 };

static const char *const recall_keys[RECALLS] = {"ir1", "ir5", "ir10", "tr1", "tr5", "tr10"};

static gf_mean_std group_recall(const gf_report *r, int g, int recall) {
    double x[GF_PAGE_RUNS];
    int n = 0;
    const gf_eval_line *like = gf_comparable_choose(r->runs, r->count, "retrieval");
    for (int i = 0; i < r->count; i++) {
        const gf_eval_line *e = gf_group_of(r, i) == g ? gf_comparable_find(&r->runs[i], like, 0) : NULL;
        if (!e) continue;
        x[n++] = gf_eval_figure(e, recall_keys[recall]);
    }
    return gf_mean_of(x, n);
}

static void retrieval_bars(gf_text *out, const gf_report *r) {
    static const char *const names[RECALLS] = {"IR@1", "IR@5", "IR@10", "TR@1", "TR@5", "TR@10"};
    gf_bars b;
    char name[GF_BARS_MAX][320];
    b = (gf_bars){.title = "Retrieval",
                  .y_name = "recall, %",
                  .x_name = "images for captions (IR), captions for images (TR)",
                  .note = "Share of queries with a match among the first 1, 5 or 10.",
                  .groups = RECALLS,
                  .missing = "Not evaluated yet: <code>glofnd eval retrieval RUN --data SPEC</code>"};
    b.each = GF_MIN(gf_groups(r), GF_BARS_MAX);
    for (int k = 0; k < b.each; k++) {
        gf_group_name(r, k, name[k], sizeof name[k]);
        b.name[k] = name[k], b.colour[k] = k;
        for (int m = 0; m < RECALLS; m++) {
            const gf_mean_std x = group_recall(r, k, m);
            b.group[m] = names[m], b.value[m][k] = x.mean, b.spread[m][k] = x.std;
        }
    }
    gf_svg_bars(out, &b);
}

/* ----- start epochs ----- */

typedef struct sweep {
    double x[GF_PAGE_RUNS], mean[GF_PAGE_RUNS], low[GF_PAGE_RUNS], high[GF_PAGE_RUNS];
    int n;
} sweep;

/* Groups with a detector, by start epoch; of equal ones the first. */
static void collect(const gf_report *r, const gf_eval_line *like, sweep *s) {
    s->n = 0;
    for (int g = 0; like && g < gf_groups(r); g++) {
        const gf_run_log *run = &r->runs[gf_group_first(r, g)];
        const gf_mean_std m = group_top1(r, g, like, like->fraction);
        const double x = run->config.method.mask_epoch, std = isfinite(m.std) ? m.std : 0.0;
        int known = !gf_has_detector(run) || isnan(m.mean), at = s->n;
        for (int k = 0; k < s->n; k++) known |= s->x[k] == x;
        if (known) continue;
        for (s->n++; at > 0 && s->x[at - 1] > x; at--)
            s->x[at] = s->x[at - 1], s->mean[at] = s->mean[at - 1], s->low[at] = s->low[at - 1], s->high[at] = s->high[at - 1];
        s->x[at] = x, s->mean[at] = m.mean, s->low[at] = m.mean - std, s->high[at] = m.mean + std;
    }
}

static void start_epochs(gf_text *out, const gf_report *r) {
    static const char *const events[] = {"linear_mean", "linear", "knn"};
    sweep s;
    char name[120] = "";
    s.n = 0;
    for (int e = 0; e < 3 && s.n < 2; e++) {
        const gf_eval_line *like = gf_comparable_choose(r->runs, r->count, events[e]);
        collect(r, like, &s);
        if (like) gf_eval_name(like, name, sizeof name);
    }
    const gf_series line = {.name = name, .y = s.mean, .n = s.n, .x = s.x, .low = s.low, .high = s.high};
    gf_svg_chart(
        out,
        &(gf_chart){.title = "Start of detection",
                    .note = "An early start uses poor similarities; a late start leaves little training.",
                    .x_name = "epochs before detection starts",
                    .y_name = "top-1, %",
                    .series = &line,
                    .count = s.n > 1,
                    .level = NAN,
                    .marked = 1,
                    .missing =
                        "This needs evaluated runs with different <code>start_epoch</code>: <code>glofnd sweep --file "
                        "configs/sweep-start-epoch.sweep --data SPEC --out DIR</code>, then <code>glofnd report DIR/*/</code>"});
}

void gf_section_features(gf_text *out, const gf_report *r) {
    gf_section_begin(out, "labels", "Quality of the features", NULL);
    char task[32];
    gf_page_value(&r->runs[0], "task", task, sizeof task);
    gf_text_add(out, "<div class=\"charts\">\n");
    if (strcmp(task, "clip") == 0) retrieval_bars(out, r);
    fraction_bars(out, r);
    start_epochs(out, r);
    gf_text_add(out, "</div>\n");
    gf_section_end(out);
}
