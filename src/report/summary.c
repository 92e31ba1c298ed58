/* summary.c - see summary.h. Both forms come from one list of cells. */
#include "report/summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/page_parts.h"

enum { COLUMNS = 9, CELL = 132, SCORE = 7 };

typedef struct column {
    const char *name, *meaning;
} column;

static const column columns[COLUMNS] = {
    {"run", "folder of the run"},
    {"detector", "who decides what a false negative is"},
    {"loss", "mean of the last epoch"},
    {"flagged %", "share of negative pairs flagged in the last epoch"},
    {"precision %", "of flagged pairs, how many share the label; mean over anchors, last epoch"},
    {"recall %", "of pairs that share the label, how many are flagged; mean over anchors, last epoch"},
    {"F1 %", "harmonic mean of precision and recall"},
    {"kNN top-1 %", "nearest-neighbour accuracy of the backbone's features on test images"},
    {"vs first", "difference of it to the first run, in points"},
};
static const column of_pairs = {"retrieval %", "mean of the recalls of images by captions and captions by images at 1, 5 and 10"};

static int is_clip(const gf_run_log *r) { return r->config.task == GF_TASK_CLIP; }

static const column *column_of(const gf_run_log *runs, int c) { return c == SCORE && is_clip(runs) ? &of_pairs : &columns[c]; }

/* In percent; NaN: not evaluated. */
static double score_of(const gf_run_log *r, int untrained) {
    if (is_clip(r)) return gf_run_retrieval(r, untrained);
    return untrained ? r->knn_untrained : r->knn;
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

/* Row 0 is the untrained network, where it was evaluated; then the runs. 0: no such row. */
static int row_cells(const gf_run_log *runs, int count, int row, char cell[COLUMNS][CELL]) {
    const double first = score_of(&runs[0], 0), untrained = score_of(&runs[0], 1);
    if (row > count || (row == 0 && !isfinite(untrained))) return 0;
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
    figure(cell[SCORE], score_of(r, 0), 1);
    if (row > 1 && isfinite(score_of(r, 0) - first)) snprintf(cell[8], CELL, "%+.1f", score_of(r, 0) - first);
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
    for (int c = 0; c < COLUMNS; c++) width[c] = (int)strlen(column_of(runs, c)->name);
    for (int row = 0; row <= count; row++) {
        if (!row_cells(runs, count, row, cell)) continue;
        for (int c = 0; c < COLUMNS; c++) width[c] = (int)strlen(cell[c]) > width[c] ? (int)strlen(cell[c]) : width[c];
    }
    for (int c = 0; c < COLUMNS; c++) snprintf(cell[c], CELL, "%s", column_of(runs, c)->name);
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
    for (int c = 0; c < COLUMNS; c++) {
        const column *k = column_of(r->runs, c);
        gf_text_add(out, "<th scope=\"col\" title=\"%s\">%s</th>", k->meaning, k->name);
    }
    gf_text_add(out, "</tr>\n");
    for (int row = 0; row <= r->count; row++)
        if (row_cells(r->runs, r->count, row, cell)) html_row(out, r, row, cell);
    gf_text_add(out, "</table></div>\n");
}
