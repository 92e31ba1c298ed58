/* summary.c - the main table of a report; see page.h. */
#include "report/page.h"

#include <math.h>
#include <string.h>

#include "plot/terminal.h"
#include "report/compare.h"

enum { COLUMNS = 10, QUALITY = 4, SCORE = 8 }; /* columns from QUALITY to SCORE - 1 need labels */

typedef struct column {
    const char *name, *meaning;
} column;

static const column columns[COLUMNS] = {
    {"run", "folder of the run"},
    {"detector", "method that flags false negatives"},
    {"loss", "mean loss of the last epoch"},
    {"flagged %", "share of negative pairs flagged in the last epoch"},
    {"precision %", "share of the flagged pairs with equal labels, of all pairs of the last epoch"},
    {"recall %", "share of the pairs with equal labels that are flagged, of all pairs of the last epoch"},
    {"F1 %", "harmonic mean of precision and recall"},
    {"per anchor", "precision / recall / F1 as the paper counts: means over anchors, one without flagged pairs counts 100 %"},
    {"", ""}, /* gf_score */
    {"vs first", "difference in points to the run with the same seed and the configuration of the first run"},
};

static int is_shown(const gf_report *r, int c) { return c < QUALITY || c >= SCORE || gf_is_labelled(r); }

static column column_of(const gf_score *s, int c) {
    if (c != SCORE) return columns[c];
    return (column){s->name, s->retrieval ? "mean recall at 1, 5 and 10 of image and text retrieval"
                                          : "nearest-neighbour accuracy on test images, with features of the encoder"};
}

/* Score of the run with the same seed under the first run's configuration. NaN for runs of that configuration: different seeds
 * are no baseline. */
static double baseline_score(const gf_report *r, const gf_score *s, int run) {
    const int first = gf_group_of(r, 0);
    for (int i = 0; i < r->count && gf_group_of(r, run) != first; i++)
        if (gf_group_of(r, i) == first && r->runs[i].config.seed == r->runs[run].config.seed) {
            const double score = gf_score_of(s, &r->runs[i], 0);
            if (isfinite(score)) return score;
        }
    return NAN;
}

/* A header, the untrained network if evaluated, then the runs; returns the first row of runs. */
static int fill_table(const gf_report *r, const gf_score *s, gf_table *t) {
    const double untrained = gf_score_of(s, &r->runs[0], 1);
    *t = (gf_table){.columns = gf_is_labelled(r) ? COLUMNS : COLUMNS - (SCORE - QUALITY)};
    for (int c = 0; c < COLUMNS; c++)
        if (is_shown(r, c)) gf_table_add(t, "%s", column_of(s, c).name);
    if (isfinite(untrained)) {
        gf_table_add(t, "(untrained)");
        for (int c = 1; c < SCORE; c++)
            if (is_shown(r, c)) gf_table_add(t, "-");
        gf_table_number(t, untrained, 1);
        gf_table_difference(t, untrained - gf_score_of(s, &r->runs[0], 0), 1);
    }
    for (int i = 0; i < r->count; i++) {
        const gf_run_log *log = &r->runs[i];
        const double score = gf_score_of(s, log, 0);
        char detector[64];
        gf_page_value(log, "detector", detector, sizeof detector);
        gf_table_add(t, "%s", log->name);
        gf_table_add(t, "%s", detector);
        gf_table_number(t, gf_run_last(log, GF_RUN_LOSS), 3);
        gf_table_number(t, gf_run_last(log, GF_RUN_FLAGGED), 2);
        if (gf_is_labelled(r)) {
            const double precision = gf_run_last(log, GF_RUN_PRECISION), recall = gf_run_last(log, GF_RUN_RECALL);
            gf_table_number(t, gf_run_last(log, GF_RUN_POOLED_PRECISION), 1);
            gf_table_number(t, gf_run_last(log, GF_RUN_POOLED_RECALL), 1);
            gf_table_number(t, gf_run_last(log, GF_RUN_POOLED_F1), 1);
            if (!isfinite(precision + recall)) gf_table_add(t, "-");
            else gf_table_add(t, "%.1f / %.1f / %.1f", precision, recall, gf_run_last(log, GF_RUN_F1));
        }
        gf_table_number(t, score, 1);
        gf_table_difference(t, score - baseline_score(r, s, i), 1);
    }
    return isfinite(untrained) ? 2 : 1;
}

void gf_summary_text(gf_text *out, const gf_report *r) {
    const gf_score s = gf_score_choose(r);
    gf_table t;
    fill_table(r, &s, &t);
    gf_table_text(out, &t, 2);
    gf_table_free(&t);
    if (!s.like) return;
    gf_text_add(out, "%s: data %s", s.name, s.like->data);
    if (strcmp(s.like->data, s.like->test) != 0) gf_text_add(out, ", test %s", s.like->test);
    gf_text_add(out, "\n");
}

void gf_summary_html(gf_text *out, const gf_report *r) {
    const gf_score s = gf_score_choose(r);
    gf_table t;
    const int first = fill_table(r, &s, &t);
    out->failed |= t.failed;
    gf_text_add(out, "<div class=\"wide\"><table>\n<tr>");
    for (int c = 0; c < COLUMNS; c++) {
        if (!is_shown(r, c)) continue;
        gf_text_add(out, "<th scope=\"col\" title=\"%s\">", column_of(&s, c).meaning);
        gf_text_html(out, "", column_of(&s, c).name, "</th>");
    }
    gf_text_add(out, "</tr>\n");
    for (int row = 1; (row + 1) * t.columns <= t.cells; row++) {
        char(*cell)[GF_TABLE_CELL] = t.cell + row * t.columns;
        gf_text_add(out, "<tr><th scope=\"row\">");
        if (row >= first) gf_svg_swatch(out, gf_group_of(r, row - first));
        gf_page_name(out, cell[0]);
        gf_text_add(out, "</th>");
        for (int c = 1; c < t.columns; c++) gf_text_html(out, c == 1 ? "<td class=\"word\">" : "<td>", cell[c], "</td>");
        gf_text_add(out, "</tr>\n");
    }
    gf_text_add(out, "</table></div>\n");
    gf_table_free(&t);
}
