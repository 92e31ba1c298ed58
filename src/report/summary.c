/* summary.c - see summary.h. Both forms come from one list of cells. */
#include "report/summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/page_parts.h"

enum { COLUMNS = 9, CELL = 132 };

static const struct {
    const char *name, *meaning;
} columns[COLUMNS] = {
    {"run", "folder of the run"},
    {"detector", "who decides what a false negative is"},
    {"loss", "mean of the last epoch"},
    {"flagged %", "share of negative pairs flagged in the last epoch"},
    {"precision %", "of flagged pairs, how many share the label; mean over anchors, last epoch"},
    {"recall %", "of pairs that share the label, how many are flagged; mean over anchors, last epoch"},
    {"F1 %", "harmonic mean of precision and recall"},
    {"kNN top-1 %", "nearest-neighbour accuracy of the backbone's features on test images"},
    {"vs first", "difference of kNN top-1 to the first run, in points"},
};

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

/* Row 0 is the untrained network, where it was evaluated; then the runs. 0: no such row. */
static int row_cells(const gf_run_log *runs, int count, int row, char cell[COLUMNS][CELL]) {
    const gf_run_log *first = &runs[0];
    if (row > count || (row == 0 && !isfinite(first->knn_untrained))) return 0;
    for (int c = 0; c < COLUMNS; c++) snprintf(cell[c], CELL, "-");
    if (row == 0) {
        snprintf(cell[0], CELL, "(untrained)");
        figure(cell[7], first->knn_untrained, 1);
        if (isfinite(first->knn)) snprintf(cell[8], CELL, "%+.1f", first->knn_untrained - first->knn);
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
    figure(cell[7], r->knn, 1);
    if (row > 1 && isfinite(r->knn - first->knn)) snprintf(cell[8], CELL, "%+.1f", r->knn - first->knn);
    return 1;
}

/* ----- text ----- */

static void text_row(gf_text *out, const int *width, char cell[COLUMNS][CELL]) {
    for (int c = 0; c < COLUMNS; c++) gf_text_add(out, c < 2 ? "%-*s%s" : "%*s%s", width[c], cell[c],
            c + 1 < COLUMNS ? "  " : "\n");
}

void gf_summary_text(gf_text *out, const gf_run_log *runs, int count) {
    char cell[COLUMNS][CELL];
    int width[COLUMNS];
    for (int c = 0; c < COLUMNS; c++) width[c] = (int)strlen(columns[c].name);
    for (int row = 0; row <= count; row++) {
        if (!row_cells(runs, count, row, cell)) continue;
        for (int c = 0; c < COLUMNS; c++) width[c] = (int)strlen(cell[c]) > width[c] ? (int)strlen(cell[c]) : width[c];
    }
    for (int c = 0; c < COLUMNS; c++) snprintf(cell[c], CELL, "%s", columns[c].name);
    text_row(out, width, cell);
    for (int row = 0; row <= count; row++)
        if (row_cells(runs, count, row, cell)) text_row(out, width, cell);
}

/* ----- HTML ----- */

static void html_row(gf_text *out, const gf_report *r, int row, char cell[COLUMNS][CELL]) {
    gf_text_add(out, "<tr>");
    for (int c = 0; c < COLUMNS; c++) {
        gf_text_add(out, c == 0 ? "<th scope=\"row\">" : c == 1 ? "<td class=\"word\">" : "<td>");
        if (c == 0 && row > 0) gf_svg_swatch(out, gf_group_of(r, row - 1));
        gf_text_escape(out, cell[c]);
        gf_text_add(out, c == 0 ? "</th>" : "</td>");
    }
    gf_text_add(out, "</tr>\n");
}

void gf_summary_html(gf_text *out, const gf_report *r) {
    char cell[COLUMNS][CELL];
    gf_text_add(out, "<div class=\"wide\"><table>\n<tr>");
    for (int c = 0; c < COLUMNS; c++) gf_text_add(out, "<th scope=\"col\" title=\"%s\">%s</th>", columns[c].meaning,
            columns[c].name);
    gf_text_add(out, "</tr>\n");
    for (int row = 0; row <= r->count; row++)
        if (row_cells(r->runs, r->count, row, cell)) html_row(out, r, row, cell);
    gf_text_add(out, "</table></div>\n");
}
