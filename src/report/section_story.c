/* section_story.c - the head of a page: what GloFND is and did here, in a minute. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/page_parts.h"

/* The group to speak about: the first with learned thresholds that flagged something, else with any detector; -1: none. */
static int hero_of(const gf_report *r) {
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

/* How often any pair shares its class: hits / precision gives flagged pairs, hits / recall gives same-class ones. */
static double chance_of(const gf_report *r, int g) {
    const double flagged = gf_group_last(r, g, GF_RUN_FLAGGED).mean,
                 precision = gf_group_last(r, g, GF_RUN_POOLED_PRECISION).mean;
    return flagged * precision / gf_group_last(r, g, GF_RUN_POOLED_RECALL).mean;
}

/* Share of the flagged pairs that is right, in percent; NaN without labels. */
static double right_of(const gf_report *r, int g) {
    const int labelled = isfinite(gf_group_last(r, g, GF_RUN_PRECISION).mean);
    return labelled ? gf_group_last(r, g, GF_RUN_POOLED_PRECISION).mean : NAN;
}

static void add_tile(gf_text *out, const char *number, const char *text) {
    gf_text_add(out, "<div class=\"tile\"><b>%s</b><span>", number);
    gf_text_escape(out, text);
    gf_text_add(out, "</span></div>\n");
}

static double knn_of(const gf_report *r, int g) {
    double x[GF_PAGE_RUNS];
    int n = 0;
    for (int i = 0; i < r->count; i++)
        if (gf_group_of(r, i) == g) x[n++] = r->runs[i].knn;
    return gf_mean_of(x, n).mean;
}

static void tiles(gf_text *out, const gf_report *r, int g) {
    char number[64], text[500], first[320];
    const double flagged = gf_group_last(r, g, GF_RUN_FLAGGED).mean, right = right_of(r, g);
    const double chance = chance_of(r, g), knn = knn_of(r, g), base = knn_of(r, 0);
    const gf_run_log *run = &r->runs[gf_group_first(r, g)];
    gf_text_add(out, "<div class=\"tiles\">\n");
    snprintf(number, sizeof number, "%.3g %%", flagged);
    snprintf(text, sizeof text, "of all pairs flagged in the last epoch; α asks for %g %%",
             100.0 * (double)run->config.method.alpha);
    add_tile(out, number, text);
    if (isfinite(right)) {
        snprintf(number, sizeof number, "%.0f %%", right);
        add_tile(out, number, "of the flagged pairs truly share a class (labels only measure, they never train)");
    }
    if (isfinite(right / chance)) {
        snprintf(number, sizeof number, "%.1f×", right / chance);
        snprintf(text, sizeof text, "as often as in a pair taken at random, which shares its class in %.3g %%", chance);
        add_tile(out, number, text);
    }
    if (isfinite(knn)) {
        snprintf(number, sizeof number, "%.1f %%", knn);
        gf_group_name(r, 0, first, sizeof first);
        if (g > 0 && isfinite(base))
            snprintf(text, sizeof text, "of test images classified right by nearest neighbours; %.1f %% with %s", base, first);
        else snprintf(text, sizeof text, "of test images classified right by nearest neighbours");
        add_tile(out, number, text);
    }
    gf_text_add(out, "</div>\n");
}

static void progress_badge(gf_text *out, const gf_report *r) {
    for (int i = 0; i < r->count; i++) {
        const gf_run_log *x = &r->runs[i];
        if (x->finished || x->epochs >= x->config.epochs) continue;
        gf_text_add(out, "<p><span class=\"badge\">");
        gf_text_escape(out, x->name);
        gf_text_add(out, " has not ended: epoch %lld of %d so far</span></p>\n", (long long)x->epochs, (int)x->config.epochs);
    }
}

static void heading(gf_text *out, const gf_report *r) {
    const gf_config *c = &r->runs[0].config;
    char arch[64];
    gf_page_value(&r->runs[0], "arch", arch, sizeof arch);
    gf_text_add(out, "<header><div><h1>");
    if (r->count == 1) gf_text_escape(out, r->runs[0].name);
    else gf_text_add(out, "%d pretraining runs, side by side", r->count);
    gf_text_add(out, "</h1>\n<p class=\"faint\">%s on <code>", arch);
    gf_text_escape(out, *c->data ? c->data : "-");
    gf_text_add(out, "</code>, batch %lld, %d epochs</p></div>\n<button id=\"theme\" type=\"button\" hidden></button></header>\n",
                (long long)c->batch, (int)c->epochs);
    progress_badge(out, r);
}

static void story(gf_text *out, const gf_report *r, int g) {
    char task[32];
    gf_page_value(&r->runs[0], "task", task, sizeof task);
    if (strcmp(task, "clip") == 0)
        gf_text_add(
            out,
            "<p class=\"story\">Image-text training pushes every image away from the texts of all others, also from texts that "
            "fit it: <b>false negatives</b>. GloFND learns for each image and each text how similar a partner must be to fit, "
            "its threshold λ, and keeps such pairs out of the loss. ");
    else
        gf_text_add(
            out,
            "<p class=\"story\">Contrastive learning pushes every two different images apart, also two that show the same "
            "thing: <b>false negatives</b>. GloFND learns for each image how similar another one must be to count as the same, "
            "its threshold λ, and keeps such pairs out of the loss. ");
    if (g < 0) {
        gf_text_add(out, "No run here has flagged a pair yet%s.</p>\n", gf_has_detector(&r->runs[0]) ? "" : ": they were trained "
                    "without a detector");
        return;
    }
    const double flagged = gf_group_last(r, g, GF_RUN_FLAGGED).mean, right = right_of(r, g);
    gf_text_add(out, "In ");
    name_in(out, r, g);
    gf_text_add(out, " the detector flagged <b>%.3g %%</b> of pairs", flagged);
    if (isfinite(right)) gf_text_add(out, "; <b>%.0f %%</b> of them truly share a class", right);
    if (isfinite(right / chance_of(r, g))) gf_text_add(out, ", where pairs at random do so in %.3g %%", chance_of(r, g));
    gf_text_add(out, ".</p>\n");
}

void gf_section_story(gf_text *out, const gf_report *r) {
    static const struct { const char *id, *name;
    } links[] = {
        {"found", "What was found"},
        {"results", "Results"},
        {"detection", "Detection"},
        {"thresholds", "Thresholds"},
        {"maps", "Maps"},
        {"labels", "Few labels"},
        {"training", "Training"},
        {"cost", "Time and memory"},
        {"config", "Configuration"},
    };
    const int g = hero_of(r);
    heading(out, r);
    story(out, r, g);
    if (g >= 0) tiles(out, r, g);
    gf_text_add(out, "<nav>");
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        gf_text_add(out, "<a href=\"#%s\">%s</a>", links[i].id, links[i].name);
    gf_text_add(out, "</nav>\n");
}
