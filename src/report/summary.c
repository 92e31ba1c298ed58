/* summary.c - see summary.h. */
#include "report/summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/compare/comparable.h"
#include "report/page_parts.h"

enum { COLUMNS = 9, CELL = 164, SCORE = 7 };

typedef struct column {
    const char *name, *meaning;
} column;

static const column columns[COLUMNS] = {
    {"run", "folder of the run"},
    {"detector", "method that flags false negatives"},
    {"loss", "mean loss of the last epoch"},
    {"flagged %", "share of negative pairs flagged in the last epoch"},
    {"precision %", "share of flagged pairs with equal labels; mean over anchors, last epoch"},
    {"recall %", "share of pairs with equal labels that are flagged; mean over anchors, last epoch"},
    {"F1 %", "harmonic mean of precision and recall"},
    {"", ""}, /* gf_score */
    {"vs first", "difference in points to the run with the same seed and the configuration of the first run"},
};

static column column_of(const gf_score *s, int c) {
    if (c != SCORE) return columns[c];
    return (column){s->name, s->retrieval ? "mean recall at 1, 5 and 10 of image and text retrieval"
                                          : "nearest-neighbour accuracy on test images, with features of the encoder"};
}

static void figure(char *out, double x, int digits) {
    if (isfinite(x)) snprintf(out, CELL, "%.*f", digits, x);
    else snprintf(out, CELL, "-");
}

static void detector_name(const gf_config *c, char *out) {
    int in_method;
    snprintf(out, CELL, "-");
    for (int i = 0;; i++) {
        const gf_option *o = gf_config_option(i, &in_method);
        if (!o) return;
        if (strcmp(o->key, "detector") == 0) gf_option_format(o, &c->method, out, CELL);
    }
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

/* Row 0 is the untrained network, if evaluated; then the runs. 0: no such row. */
static int row_cells(const gf_report *report, const gf_score *s, int row, char cell[COLUMNS][CELL]) {
    const gf_run_log *runs = report->runs;
    const double first = gf_score_of(s, &runs[0], 0), untrained = gf_score_of(s, &runs[0], 1);
    if (row > report->count || (row == 0 && !isfinite(untrained))) return 0;
    for (int c = 0; c < COLUMNS; c++) snprintf(cell[c], CELL, "-");
    if (row == 0) {
        snprintf(cell[0], CELL, "(untrained)");
        figure(cell[SCORE], untrained, 1);
        if (isfinite(first)) snprintf(cell[8], CELL, "%+.1f", untrained - first);
        return 1;
    }
    const gf_run_log *r = &runs[row - 1];
    snprintf(cell[0], CELL, "%s", r->name);
    detector_name(&r->config, cell[1]);
    figure(cell[2], gf_run_last(r, GF_RUN_LOSS), 3);
    figure(cell[3], gf_run_last(r, GF_RUN_FLAGGED), 2);
    figure(cell[4], gf_run_last(r, GF_RUN_PRECISION), 1);
    figure(cell[5], gf_run_last(r, GF_RUN_RECALL), 1);
    figure(cell[6], gf_run_last(r, GF_RUN_F1), 1);
    const double score = gf_score_of(s, r, 0), gain = score - baseline_score(report, s, row - 1);
    figure(cell[SCORE], score, 1);
    if (isfinite(gain)) snprintf(cell[8], CELL, "%+.1f", gain);
    return 1;
}

/* ----- text ----- */

static void text_row(gf_text *out, const int *width, char cell[COLUMNS][CELL]) {
    for (int c = 0; c < COLUMNS; c++)
        gf_text_add(out, c < 2 ? "%-*s%s" : "%*s%s", width[c], cell[c], c + 1 < COLUMNS ? "  " : "\n");
}

void gf_summary_text(gf_text *out, const gf_report *r) {
    char cell[COLUMNS][CELL];
    int width[COLUMNS];
    const gf_score s = gf_score_choose(r);
    for (int c = 0; c < COLUMNS; c++) width[c] = (int)strlen(column_of(&s, c).name);
    for (int row = 0; row <= r->count; row++) {
        if (!row_cells(r, &s, row, cell)) continue;
        for (int c = 0; c < COLUMNS; c++) width[c] = (int)strlen(cell[c]) > width[c] ? (int)strlen(cell[c]) : width[c];
    }
    for (int c = 0; c < COLUMNS; c++) snprintf(cell[c], CELL, "%s", column_of(&s, c).name);
    text_row(out, width, cell);
    for (int row = 0; row <= r->count; row++)
        if (row_cells(r, &s, row, cell)) text_row(out, width, cell);
    if (!s.like) return;
    gf_text_add(out, "%s: data %s", s.name, s.like->data);
    if (strcmp(s.like->data, s.like->test) != 0) gf_text_add(out, ", test %s", s.like->test);
    gf_text_add(out, "\n");
}

/* ----- HTML ----- */

static void html_row(gf_text *out, const gf_report *r, int row, char cell[COLUMNS][CELL]) {
    gf_text_add(out, "<tr>");
    for (int c = 0; c < COLUMNS; c++) {
        gf_text_add(out, c == 0 ? "<th scope=\"row\">" : c == 1 ? "<td class=\"word\">" : "<td>");
        if (c == 0 && row > 0) gf_svg_swatch(out, gf_group_of(r, row - 1));
        if (c == 0) gf_page_name(out, cell[c]);
        else gf_text_escape(out, cell[c]);
        gf_text_add(out, c == 0 ? "</th>" : "</td>");
    }
    gf_text_add(out, "</tr>\n");
}

void gf_summary_html(gf_text *out, const gf_report *r) {
    char cell[COLUMNS][CELL];
    const gf_score s = gf_score_choose(r);
    gf_text_add(out, "<div class=\"wide\"><table>\n<tr>");
    for (int c = 0; c < COLUMNS; c++) {
        const column k = column_of(&s, c);
        gf_text_add(out, "<th scope=\"col\" title=\"%s\">", k.meaning);
        gf_text_escape(out, k.name);
        gf_text_add(out, "</th>");
    }
    gf_text_add(out, "</tr>\n");
    for (int row = 0; row <= r->count; row++)
        if (row_cells(r, &s, row, cell)) html_row(out, r, row, cell);
    gf_text_add(out, "</table></div>\n");
}
