/* section_results.c - tables: a row per run, and metrics of groups with p-values. */
#include <math.h>
#include <string.h>

#include "report/comparable.h"
#include "report/page_parts.h"
#include "report/summary.h"

/* Without p-values, as for single seeds, the table has no columns for them. */
static int any_p(const gf_comparison *c) {
    for (int m = 0; m < c->metrics; m++)
        for (int g = 1; g < c->groups; g++)
            if (isfinite(gf_compare_cell(c, g, m).p)) return 1;
    return 0;
}

static void heads(gf_text *out, const gf_report *r, int with_p) {
    char name[320];
    gf_text_add(out, "<tr><th scope=\"col\">metric</th>");
    for (int g = 0; g < gf_groups(r); g++) {
        gf_group_name(r, g, name, sizeof name);
        gf_text_add(out, "<th scope=\"col\">");
        gf_svg_swatch(out, g);
        gf_text_add(out, "<br>");
        gf_text_escape(out, name);
        gf_text_add(out, g && with_p ? "</th><th scope=\"col\">p</th>" : "</th>");
    }
    gf_text_add(out, "</tr>\n");
}

static void cell(gf_text *out, const gf_comparison *c, int group, int metric, int with_p) {
    const gf_cell x = gf_compare_cell(c, group, metric);
    const int digits = gf_compare_digits(c, metric), best = gf_compare_is_best(c, group, metric);
    gf_text_add(out, best ? "<td class=\"best\">" : "<td>");
    if (!x.n) gf_text_add(out, "-");
    else gf_text_add(out, "%.*f", digits, x.mean);
    if (x.n && isfinite(x.std)) gf_text_add(out, " <small>±%.*f</small>", digits, x.std);
    gf_text_add(out, "</td>");
    if (group == 0 || !with_p) return;
    gf_text_add(out, x.p < 0.05 ? "<td class=\"sure\">" : "<td>");
    if (isnan(x.p)) gf_text_add(out, "-</td>");
    else gf_text_add(out, x.p < 0.001 ? "&lt;0.001</td>" : "%.3f</td>", x.p);
}

static void explain_table(gf_text *out, const gf_comparison *c, int with_p) {
    const char *const seeds = "<code>glofnd sweep --seeds 1,2,3</code>";
    if (with_p)
        gf_text_add(out, "Mean ± standard deviation over runs; best in bold. p: one-sided t-test, paired by seed, for better "
                         "than the first column; green below 0.05.");
    else if (c->groups > 1)
        gf_text_add(out,
                    "Best in bold. Single runs also differ by chance; p-values need at least two seeds of each "
                    "configuration: %s.",
                    seeds);
    else if (c->runs > 1) gf_text_add(out, "Mean ± standard deviation over runs.");
    else gf_text_add(out, "One run; others differ from it by chance. Several seeds: %s.", seeds);
}

static void compared(gf_text *out, const gf_report *r) {
    const gf_comparison *c = r->compare;
    const int with_p = any_p(c);
    gf_text_add(out, "<h3>All results</h3>\n<div class=\"wide\"><table class=\"figures\">\n");
    heads(out, r, with_p);
    for (int m = 0; m < c->metrics; m++) {
        gf_text_add(out, "<tr><th scope=\"row\">");
        gf_page_name(out, c->metric[m].name);
        gf_text_add(out, "</th>");
        for (int g = 0; g < c->groups; g++) cell(out, c, g, m, with_p);
        gf_text_add(out, "</tr>\n");
    }
    gf_text_add(out, "</table></div>\n<p class=\"faint\">");
    explain_table(out, c, with_p);
    gf_text_add(out, "</p>\n");
}

/* Explains the score of the table above. */
static void protocol(gf_text *out, const gf_report *r) {
    const gf_score s = gf_score_choose(r);
    if (!s.like) return;
    gf_text_add(out, "<p class=\"faint\">");
    gf_text_escape(out, s.name);
    if (s.retrieval)
        gf_text_add(out, ": retrieval of the image of each caption and of a caption of each image, by cosine similarity; mean of "
                         "recall at 1, 5 and 10; data <code>");
    else
        gf_text_add(
            out, ": vote of the nearest training images, by cosine similarity of the encoder's features%s; training data <code>",
            strcmp(s.like->protocol, "knn-unweighted") == 0 ? ", with equal weights" : "");
    gf_text_escape(out, s.like->data);
    if (!s.retrieval) {
        gf_text_add(out, "</code>, test data <code>");
        gf_text_escape(out, s.like->test);
    }
    gf_text_add(out, "</code>. \"-\": not measured with these settings%s.%s</p>\n",
                gf_is_labelled(r) ? ", or nothing was flagged" : "",
                gf_is_labelled(r)
                    ? " Precision, recall and F1 count all pairs of the last epoch; \"per anchor\" has their means over "
                      "anchors, as the paper counts."
                    : "");
}

void gf_section_results(gf_text *out, const gf_report *r) {
    gf_section_begin(out, "results", "Results", NULL);
    gf_summary_html(out, r);
    protocol(out, r);
    if (!r->runs[0].eval.count)
        gf_page_missing(out, "Not evaluated yet:",
                        gf_is_clip(r) ? "glofnd eval retrieval RUN --data SPEC, glofnd eval zeroshot RUN --data SPEC"
                                      : "glofnd eval knn RUN --data SPEC");
    if (!r->compare) gf_page_missing(out, "No comparison:", r->compare_why ? r->compare_why : "glofnd compare RUN...");
    else if (r->compare->metrics && r->compare->groups <= 8) compared(out, r);
    gf_section_end(out);
}
