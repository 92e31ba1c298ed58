/* section_labels.c - accuracy with few labels, and over start epochs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/page_parts.h"
#include "report/svg_bars.h"

/* The protocol of the first linear evaluation; "" if there is none. */
static const char *protocol_of(const gf_report *r, const char *event) {
    for (int i = 0; i < r->count; i++)
        for (int k = 0; k < r->runs[i].eval.count; k++) {
            const gf_eval_line *e = &r->runs[i].eval.line[k];
            if (strcmp(e->event, event) == 0 && !e->untrained) return e->protocol;
        }
    return "";
}

/* Top-1 in percent of a run; NaN: not measured. fraction NaN: of lines without one. */
static double top1_of(const gf_run_log *run, const char *event, const char *protocol, double fraction) {
    double x = NAN;
    for (int k = 0; k < run->eval.count; k++) {
        const gf_eval_line *e = &run->eval.line[k];
        const int same = isnan(fraction) || fabs(e->fraction - fraction) < 1e-9;
        if (strcmp(e->event, event) == 0 && strcmp(e->protocol, protocol) == 0 && same && !e->untrained) x = 100.0 * e->top1;
    }
    return x;
}

static gf_mean_std group_top1(const gf_report *r, int g, const char *event, const char *protocol, double fraction) {
    double x[GF_PAGE_RUNS];
    int n = 0;
    for (int i = 0; i < r->count; i++)
        if (gf_group_of(r, i) == g) x[n++] = top1_of(&r->runs[i], event, protocol, fraction);
    return gf_mean_of(x, n);
}

/* Fractions that were evaluated, the largest first. */
static int fractions_of(const gf_report *r, const char *protocol, double *out) {
    int n = 0;
    for (int i = 0; i < r->count; i++)
        for (int k = 0; k < r->runs[i].eval.count; k++) {
            const gf_eval_line *e = &r->runs[i].eval.line[k];
            int known = strcmp(e->event, "linear") != 0 || strcmp(e->protocol, protocol) != 0 || !isfinite(e->fraction) || n == 8;
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
    char name[GF_BARS_MOST][320];
    char group[8][32], note[200];
    double fraction[8];
    const char *protocol = protocol_of(r, "linear");
    b = (gf_bars){.title = "A linear classifier on few labels", .note = note, .y_name = "top-1 of test images, %",
                  .x_name = "share of the labels it is trained with",
                  .missing = "Not evaluated yet: <code>glofnd eval linear RUN --data SPEC</code>"};
    snprintf(note, sizeof note, "Frozen backbone, protocol %.80s.", *protocol ? protocol : "-");
    b.groups = fractions_of(r, protocol, fraction);
    b.each = gf_groups(r) < GF_BARS_MOST ? gf_groups(r) : GF_BARS_MOST;
    for (int f = 0; f < b.groups; f++) {
        snprintf(group[f], sizeof group[f], "%g %%", 100.0 * fraction[f]);
        b.group[f] = group[f];
    }
    for (int k = 0; k < b.each; k++) {
        gf_group_name(r, k, name[k], sizeof name[k]);
        b.name[k] = name[k], b.colour[k] = k;
        for (int f = 0; f < b.groups; f++) {
            const gf_mean_std m = group_top1(r, k, "linear", protocol, fraction[f]);
            b.value[f][k] = m.mean, b.spread[f][k] = m.std;
        }
    }
    gf_svg_bars(out, &b);
}

/* ----- retrieval, of image-text runs ----- */

enum { RECALLS = 6 };

static const gf_eval_line *retrieval_of(const gf_run_log *run) {
    const gf_eval_line *found = NULL;
    for (int k = 0; k < run->eval.count; k++)
        if (strcmp(run->eval.line[k].event, "retrieval") == 0 && !run->eval.line[k].untrained) found = &run->eval.line[k];
    return found;
}

static gf_mean_std group_recall(const gf_report *r, int g, int recall) {
    double x[GF_PAGE_RUNS];
    int n = 0;
    for (int i = 0; i < r->count; i++) {
        const gf_eval_line *e = gf_group_of(r, i) == g ? retrieval_of(&r->runs[i]) : NULL;
        if (!e) continue;
        const double all[RECALLS] = {e->ir1, e->ir5, e->ir10, e->tr1, e->tr5, e->tr10};
        x[n++] = 100.0 * all[recall];
    }
    return gf_mean_of(x, n);
}

static void retrieval_bars(gf_text *out, const gf_report *r) {
    static const char *const names[RECALLS] = {"IR@1", "IR@5", "IR@10", "TR@1", "TR@5", "TR@10"};
    gf_bars b;
    char name[GF_BARS_MOST][320];
    b = (gf_bars){.title = "Retrieval",
                  .y_name = "found among the first, %",
                  .x_name = "images by captions (IR), captions by images (TR)",
                  .note = "How often the partner is among the first 1, 5 or 10.",
                  .groups = RECALLS,
                  .missing = "Not evaluated yet: <code>glofnd eval retrieval RUN --data SPEC</code>"};
    b.each = gf_groups(r) < GF_BARS_MOST ? gf_groups(r) : GF_BARS_MOST;
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

/* Groups with a detector, by rising start epoch; of equal ones the first. */
static void collect(const gf_report *r, const char *event, const char *protocol, sweep *s) {
    s->n = 0;
    for (int g = 0; g < gf_groups(r); g++) {
        const gf_run_log *run = &r->runs[gf_group_first(r, g)];
        const gf_mean_std m = group_top1(r, g, event, protocol, NAN);
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
    const char *event = "";
    s.n = 0;
    for (int e = 0; e < 3 && s.n < 2; e++) {
        event = events[e];
        collect(r, event, protocol_of(r, event), &s);
    }
    const gf_series line = {.name = strcmp(event, "knn") == 0 ? "nearest neighbours" : "linear, mean over label shares",
                            .y = s.mean,
                            .n = s.n,
                            .x = s.x,
                            .low = s.low,
                            .high = s.high};
    gf_svg_chart(
        out,
        &(gf_chart){.title = "When to start detecting",
                    .note = "Too early, and similarities mean nothing yet; too late, and "
                            "little training is left.",
                    .x_name = "epochs before detection starts",
                    .y_name = "top-1, %",
                    .series = &line,
                    .count = s.n > 1,
                    .level = NAN,
                    .marked = 1,
                    .missing =
                        "It takes evaluated runs with different <code>start_epoch</code>: <code>glofnd sweep --file "
                        "configs/sweep-start-epoch.sweep --data SPEC --out DIR</code>, then <code>glofnd report DIR/*/</code>"});
}

void gf_section_labels(gf_text *out, const gf_report *r) {
    gf_section_begin(out, "labels", "What the features are worth", NULL);
    char task[32];
    gf_page_value(&r->runs[0], "task", task, sizeof task);
    gf_text_add(out, "<div class=\"charts\">\n");
    if (strcmp(task, "clip") == 0) retrieval_bars(out, r);
    fraction_bars(out, r);
    start_epochs(out, r);
    gf_text_add(out, "</div>\n");
    gf_section_end(out);
}
