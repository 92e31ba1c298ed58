/* section_thresholds.c - the distribution of learned thresholds beside the exact ones and FNC's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "eval/threshold_quality.h"
#include "report/kde.h"
#include "report/page_parts.h"

enum { POINTS = 160 };

typedef struct densities {
    double y[3][POINTS];
    gf_series series[3];
    int count;
    double low, high;
} densities;

/* The range of all three and what the kernels add to it; bandwidths to h. */
static void find_range(const gf_look_values *sets[3], densities *d, double h[3]) {
    d->low = INFINITY, d->high = -INFINITY;
    for (int s = 0; s < 3; s++) {
        const gf_spread x = gf_spread_of(sets[s]->x, sets[s]->n);
        h[s] = gf_kde_bandwidth(sets[s]->x, sets[s]->n);
        if (!x.count) continue;
        d->low = fmin(d->low, x.min - 3.0 * h[s]), d->high = fmax(d->high, x.max + 3.0 * h[s]);
    }
    if (!(d->high - d->low > 1e-6)) d->low -= 0.01, d->high = d->low + 0.02;
}

static void make_densities(const gf_look *l, densities *d) {
    static const char *const names[3] = {"λ, learned by GloFND", "exact (1-α) quantile", "FNC, per batch"};
    const gf_look_values *sets[3] = {&l->lambda, &l->optimum, &l->fnc};
    static const int colours[3] = {GF_COLOUR_GLOFND, GF_COLOUR_EXACT, GF_COLOUR_FNC};
    double h[3];
    find_range(sets, d, h);
    for (int s = 0; s < 3; s++) {
        if (!(h[s] > 0.0) || (s == 0 && !l->learned)) continue;
        gf_kde(sets[s]->x, sets[s]->n, fmax(h[s], (d->high - d->low) / POINTS), d->low, d->high, POINTS, d->y[s]);
        d->series[d->count++] = (gf_series){.name = names[s], .y = d->y[s], .n = POINTS, .colour = colours[s], .filled = 1};
    }
}

static void figure(gf_text *out, const gf_report *r, const gf_look *l) {
    densities d;
    char title[400], note[300];
    d = (densities){.count = 0};
    make_densities(l, &d);
    snprintf(title, sizeof title, "Thresholds with the network of %s", gf_look_name(r, l));
    if (l->learned)
        snprintf(note, sizeof note, "On average λ is %.3f away from the exact threshold, FNC's %.3f (%lld anchors, α = %g).",
                 l->lambda_mae, l->fnc_mae, (long long)l->lambda.n, l->alpha);
    else
        snprintf(note, sizeof note, "This run learned no thresholds; FNC's are %.3f away from the exact ones (α = %g).",
                 l->fnc_mae, l->alpha);
    gf_svg_chart(out, &(gf_chart){.title = title, .note = note, .x_name = "threshold, cosine similarity", .y_name = "density",
                                  .series = d.series, .count = d.count, .level = NAN, .from_zero = 1, .x_first = d.low,
                                  .x_step = (d.high - d.low) / (POINTS - 1)});
}

void gf_section_thresholds(gf_text *out, const gf_report *r) {
    int shown = 0;
    gf_section_begin(
        out, "thresholds", "Thresholds: learned against exact",
        "Frozen network, augmented views. The exact threshold of an image is the similarity that a share α of all others "
        "exceeds; "
        "GloFND learns it on the fly, FNC guesses it anew from each batch. The closer to the exact curve, the better.");
    gf_text_add(out, "<div class=\"charts\">\n");
    for (int g = 0; g < gf_groups(r); g++) {
        const gf_look *l = gf_group_look(r, g);
        if (!l || !l->optimum.n || !gf_has_detector(&r->runs[gf_group_first(r, g)])) continue;
        figure(out, r, l);
        shown++;
    }
    gf_text_add(out, "</div>\n");
    if (!shown && r->looks && r->looks[0].clip)
        gf_text_add(out, "<p class=\"none\">Of image-text runs, TensorBoard shows the distributions: <code>lambda</code>, "
                         "<code>lambda_text</code>.</p>\n");
    else if (!shown)
        gf_page_missing(out, "Distributions need the network of a run with a detector, and its data; with files of its own:",
                        "glofnd eval threshold RUN");
    gf_section_end(out);
}
