/* compare_format.c - a comparison as text, CSV, JSON and LaTeX. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/jsonl.h"
#include "plot/terminal.h"
#include "report/compare.h"

/* "77.59 (0.03)"; without spread for a single run. Figures that are not percent have two digits more. */
static void mean_and_std(const gf_comparison *c, int metric, const gf_cell *x, char *out, size_t bytes) {
    const int digits = gf_compare_digits(c, metric);
    if (!x->n) snprintf(out, bytes, "-");
    else if (isnan(x->std)) snprintf(out, bytes, "%.*f", digits, x->mean);
    else snprintf(out, bytes, "%.*f (%.*f)", digits, x->mean, digits, x->std);
}

static void p_value(double p, char *out, size_t bytes) {
    if (isnan(p)) snprintf(out, bytes, "-");
    else if (p < 0.001) snprintf(out, bytes, "<0.001");
    else snprintf(out, bytes, "%.3f", p);
}

/* ----- text ----- */

void gf_compare_text(gf_text *out, const gf_comparison *c) {
    char cell[64];
    gf_table t = {.columns = 3 * c->groups - 1};
    gf_table table = {.columns = 4};
    for (int g = 0; g < c->groups; g++) {
        char seeds[GF_TABLE_CELL] = "";
        size_t used = 0;
        for (int i = 0; i < c->runs; i++)
            if (c->run[i].group == g && used < sizeof seeds - 24)
                used += (size_t)snprintf(seeds + used, sizeof seeds - used, " %lld", (long long)c->run[i].seed);
        int n = 0;
        for (int i = 0; i < c->runs; i++) n += c->run[i].group == g;
        gf_table_add(&table, "group %d", g + 1);
        gf_table_add(&table, "%s", c->label[g]);
        gf_table_add(&table, "%d run%s", n, n == 1 ? "" : "s");
        gf_table_add(&table, "seed%s%s%s", n == 1 ? "" : "s", seeds, g == 0 && c->groups > 1 ? ", baseline" : "");
    }
    gf_table_text(out, &table, 4);
    gf_table_free(&table);
    if (c->metrics == 0) return;
    gf_table_add(&t, "metric");
    for (int g = 0; g < c->groups; g++) {
        gf_table_add(&t, "group %d", g + 1);
        if (g) gf_table_add(&t, "difference"), gf_table_add(&t, "p");
    }
    for (int m = 0; m < c->metrics; m++) {
        gf_table_add(&t, "%s", c->metric[m].name);
        for (int g = 0; g < c->groups; g++) {
            const gf_cell x = gf_compare_cell(c, g, m);
            mean_and_std(c, m, &x, cell, sizeof cell);
            gf_table_add(&t, "%s", cell);
            if (g == 0) continue;
            p_value(x.p, cell, sizeof cell);
            gf_table_difference(&t, x.test.pairs ? x.test.difference : NAN, gf_compare_digits(c, m));
            gf_table_add(&t, "%s", cell);
        }
    }
    gf_text_add(out, "\nmean (std) over runs");
    if (c->groups > 1) gf_text_add(out, "; difference and p: paired t-test by seed, one-sided, better than group 1");
    gf_text_add(out, "\n");
    gf_table_text(out, &t, 1);
    gf_table_free(&t);
}

/* ----- CSV ----- */

static void add_exact(gf_table *t, double x) {
    if (isfinite(x)) gf_table_add(t, "%.10g", x);
    else gf_table_add(t, "%s", isinf(x) ? (x > 0 ? "inf" : "-inf") : "");
}

void gf_compare_csv(gf_text *out, const gf_comparison *c) {
    static const char *const names[] = {"metric", "better", "group",      "label", "runs", "mean",
                                        "std",    "pairs",  "difference", "t",     "p"};
    gf_table t = {.columns = sizeof names / sizeof *names};
    for (int i = 0; i < t.columns; i++) gf_table_add(&t, "%s", names[i]);
    for (int m = 0; m < c->metrics; m++)
        for (int g = 0; g < c->groups; g++) {
            const gf_cell x = gf_compare_cell(c, g, m);
            gf_table_add(&t, "%s", c->metric[m].name);
            gf_table_add(&t, "%s", c->metric[m].better > 0 ? "higher" : c->metric[m].better < 0 ? "lower" : "");
            gf_table_add(&t, "%d", g + 1);
            gf_table_add(&t, "%s", c->label[g]);
            gf_table_add(&t, "%d", x.n);
            add_exact(&t, x.mean), add_exact(&t, x.std);
            gf_table_add(&t, "%lld", (long long)x.test.pairs);
            add_exact(&t, x.test.difference), add_exact(&t, x.test.t), add_exact(&t, x.p);
        }
    gf_table_csv(out, &t);
    gf_table_free(&t);
}

/* ----- JSON ----- */

static void json_text(gf_text *out, const char *s) {
    gf_text_add(out, "\"");
    while (*s) {
        char character[GF_JSON_CHARACTER];
        gf_text_add(out, "%.*s", (int)gf_json_character(&s, character), character);
    }
    gf_text_add(out, "\"");
}

static void json_number(gf_text *out, const char *key, double x) {
    if (isfinite(x)) gf_text_add(out, ", \"%s\": %.15g", key, x);
    else gf_text_add(out, ", \"%s\": null", key);
}

void gf_compare_json(gf_text *out, const gf_comparison *c) {
    gf_text_add(out, "{\"groups\": [");
    for (int g = 0; g < c->groups; g++) {
        const char *comma = "";
        gf_text_add(out, "%s\n    {\"group\": %d, \"label\": ", g ? "," : "", g + 1);
        json_text(out, c->label[g]);
        gf_text_add(out, ", \"runs\": [");
        for (int i = 0; i < c->runs; i++) {
            if (c->run[i].group != g) continue;
            gf_text_add(out, "%s{\"run\": ", comma);
            json_text(out, c->run[i].path);
            gf_text_add(out, ", \"seed\": %lld}", (long long)c->run[i].seed);
            comma = ", ";
        }
        gf_text_add(out, "]}");
    }
    gf_text_add(out, "],\n \"metrics\": [");
    for (int m = 0; m < c->metrics; m++) {
        gf_text_add(out, "%s\n    {\"name\": ", m ? "," : "");
        json_text(out, c->metric[m].name);
        gf_text_add(out, ", \"better\": %s, \"cells\": [",
                    c->metric[m].better > 0   ? "\"higher\""
                    : c->metric[m].better < 0 ? "\"lower\""
                                              : "null");
        for (int g = 0; g < c->groups; g++) {
            const gf_cell x = gf_compare_cell(c, g, m);
            const char *comma = "";
            gf_text_add(out, "%s\n      {\"group\": %d, \"values\": [", g ? "," : "", g + 1);
            for (int i = 0; i < c->runs; i++) {
                if (c->run[i].group != g) continue;
                if (isfinite(c->run[i].value[m])) gf_text_add(out, "%s%.15g", comma, c->run[i].value[m]);
                else gf_text_add(out, "%snull", comma);
                comma = ", ";
            }
            gf_text_add(out, "]");
            json_number(out, "mean", x.mean);
            json_number(out, "std", x.std);
            gf_text_add(out, ", \"pairs\": %lld", (long long)x.test.pairs);
            json_number(out, "difference", x.test.difference);
            json_number(out, "t", x.test.t);
            json_number(out, "p", x.p);
            gf_text_add(out, "}");
        }
        gf_text_add(out, "]}");
    }
    gf_text_add(out, "]}\n");
}

/* ----- LaTeX ----- */

static void latex_means(gf_text *out, const gf_comparison *c, int g) {
    char text[64];
    for (int m = 0; m < c->metrics; m++) {
        const gf_cell x = gf_compare_cell(c, g, m);
        mean_and_std(c, m, &x, text, sizeof text);
        const char *spread = strchr(text, ' ');
        if (gf_compare_is_best(c, g, m))
            gf_text_add(out, " & \\textbf{%.*s}%s", (int)strcspn(text, " "), text, spread ? spread : "");
        else gf_text_add(out, " & %s", strcmp(text, "-") == 0 ? "---" : text);
    }
}

/* As in the paper: values that are not significant at 5 % are red. */
static void latex_p_values(gf_text *out, const gf_comparison *c, int g) {
    char text[64];
    for (int m = 0; m < c->metrics; m++) {
        const double p = gf_compare_cell(c, g, m).p;
        p_value(p, text, sizeof text);
        if (isnan(p)) gf_text_add(out, " & ---");
        else if (p > 0.05) gf_text_add(out, " & \\textcolor{red!50}{%s}", text);
        else gf_text_add(out, p < 0.001 ? " & \\textless0.001" : " & %s", text);
    }
}

static void latex_table(gf_text *out, const gf_comparison *c, int first, void (*cells)(gf_text *, const gf_comparison *, int)) {
    gf_text_add(out, "\\begin{tabular}{l");
    for (int m = 0; m < c->metrics; m++) gf_text_add(out, "r");
    gf_text_add(out, "}\n    \\toprule\n    Method");
    for (int m = 0; m < c->metrics; m++) {
        gf_text_add(out, " & ");
        gf_text_latex(out, c->metric[m].name);
    }
    gf_text_add(out, " \\\\\n    \\midrule\n");
    for (int g = first; g < c->groups; g++) {
        gf_text_add(out, "    ");
        gf_text_latex(out, c->label[g]);
        cells(out, c, g);
        gf_text_add(out, " \\\\\n");
    }
    gf_text_add(out, "    \\bottomrule\n\\end{tabular}\n");
}

void gf_compare_latex(gf_text *out, const gf_comparison *c) {
    gf_text_add(out, "%% needs booktabs and xcolor\n%% mean (std) over runs, best in bold\n");
    latex_table(out, c, 0, latex_means);
    if (c->groups < 2) return;
    gf_text_add(out, "\n%% p-values of a paired t-test by seed, one-sided, against ");
    gf_text_latex(out, c->label[0]);
    gf_text_add(out, "\n");
    latex_table(out, c, 1, latex_p_values);
}
