/* page.c - see page.h. */
#include "report/page.h"

#include <math.h>
#include <string.h>

#include "report/summary.h"
#include "report/svg.h"

static const char style[] =
    ":root{color-scheme:light dark;--ink:#1b1f24;--faint:#66707b;--grid:#e6e9ed;--paper:#fff;--panel:#f7f8fa}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--faint:#98a2ad;--grid:#30363d;--paper:#14171b;--panel:#1b1f24}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);"
    "font:15px/1.5 system-ui,sans-serif}\n"
    "main{max-width:1160px;margin:0 auto;padding:28px 20px 48px}"
    "h1{font-size:24px;margin:0 0 4px}h2{font-size:17px;margin:32px 0 10px}\n"
    "p{margin:6px 0}.faint,footer{color:var(--faint);font-size:13.5px}"
    "code{font:13px ui-monospace,monospace;overflow-wrap:anywhere}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:6px 14px 6px 0;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap}\n"
    "th[scope=col]{color:var(--faint);font-weight:600;font-size:13px}"
    "th:first-child,td.word,th[scope=col]:nth-child(2),.keys th,.keys td{text-align:left}\n"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:18px}\n"
    "figure{margin:0;padding:14px 14px 8px;background:var(--panel);border:1px solid var(--grid);border-radius:8px}\n"
    "figcaption{font-weight:600}figure>svg{width:100%;height:auto;display:block}\n"
    ".legend{font-size:13.5px}.legend span{margin-right:14px;"
    "white-space:nowrap}\n.none{color:var(--faint)}footer{margin-top:36px}\n@media print{figure{break-inside:avoid}}\n";

/* ----- charts ----- */

/* Other detectors leave lambda where it began. */
static int learns_lambda(const gf_run_log *r) {
    return r->config.method.detector == GLOFND_DETECT_GLOFND || r->config.method.detector == GLOFND_DETECT_SINGLE;
}

static void chart(gf_text *out, const gf_run_log *runs, int count, gf_run_field field, const gf_chart *form) {
    gf_series series[GF_PAGE_RUNS];
    gf_chart c = *form;
    for (int i = 0; i < count; i++) {
        if (field == GF_RUN_LAMBDA && !learns_lambda(&runs[i])) continue;
        series[c.count++] = (gf_series){runs[i].name, runs[i].field[field], runs[i].epochs, i};
    }
    c.series = series;
    c.x_name = "epoch";
    gf_svg_chart(out, &c);
}

/* Alpha, in percent, where all runs with a detector of that kind agree on it; else NaN. */
static double common_alpha(const gf_run_log *runs, int count) {
    double alpha = NAN;
    for (int i = 0; i < count; i++) {
        const glofnd_options *o = &runs[i].config.method;
        if (o->detector == GLOFND_DETECT_NONE || o->detector == GLOFND_DETECT_ORACLE ||
                o->detector == GLOFND_DETECT_GROUPS) continue;
        if (isfinite(alpha) && alpha != 100.0 * (double)o->alpha) return NAN;
        alpha = 100.0 * (double)o->alpha;
    }
    return alpha;
}

static void charts(gf_text *out, const gf_run_log *runs, int count) {
    gf_text_add(out, "<h2>Epoch by epoch</h2>\n<div class=\"charts\">\n");
    chart(out, runs, count, GF_RUN_LOSS, &(gf_chart){.title = "Training loss", .y_name = "loss", .level = NAN});
    chart(out, runs, count, GF_RUN_FLAGGED, &(gf_chart){.title = "Negative pairs flagged as false", .y_name = "flagged pairs, %",
          .level = common_alpha(runs, count), .level_name = "alpha, the share asked for", .from_zero = 1});
    chart(out, runs, count, GF_RUN_PRECISION, &(gf_chart){.title = "Precision: flagged pairs that share the label",
            .y_name = "precision, %",
          .level = NAN, .from_zero = 1});
    chart(out, runs, count, GF_RUN_RECALL, &(gf_chart){.title = "Recall: pairs sharing the label that are flagged",
            .y_name = "recall, %",
          .level = NAN, .from_zero = 1});
    chart(out, runs, count, GF_RUN_F1, &(gf_chart){.title = "F1 of false-negative detection", .y_name = "F1, %", .level = NAN,
            .from_zero = 1});
    chart(out, runs, count, GF_RUN_LAMBDA, &(gf_chart){.title = "Mean threshold lambda", .y_name = "cosine similarity",
            .level = NAN});
    gf_text_add(out,
            "</div>\n<p class=\"faint\">Labels are used to measure, never to train. A line begins where its run measures the "
                     "figure.</p>\n");
}

/* ----- configuration ----- */

static void value_of(const gf_run_log *r, const gf_option *o, int in_method, char *out, size_t bytes) {
    gf_option_format(o, in_method ? (const void *)&r->config.method : &r->config, out, bytes);
}

static int differs(const gf_run_log *runs, int count, const gf_option *o, int in_method) {
    char first[1100], other[1100];
    value_of(&runs[0], o, in_method, first, sizeof first);
    for (int i = 1; i < count; i++) {
        value_of(&runs[i], o, in_method, other, sizeof other);
        if (strcmp(first, other) != 0) return 1;
    }
    return 0;
}

static void option_row(gf_text *out, const gf_run_log *runs, int count, const gf_option *o, int in_method) {
    char value[1100];
    gf_text_add(out, "<tr><th scope=\"row\"><code>%s</code></th>", o->key);
    for (int i = 0; i < count; i++) {
        value_of(&runs[i], o, in_method, value, sizeof value);
        gf_text_add(out, "<td><code>");
        gf_text_escape(out, *value ? value : "-");
        gf_text_add(out, "</code></td>");
    }
    gf_text_add(out, "</tr>\n");
}

/* The keys in which the runs differ, a column per run; or those they share, in one column. */
static void option_table(gf_text *out, const gf_run_log *runs, int count, int different) {
    const int shown = different ? count : 1;
    int in_method;
    gf_text_add(out, "<div class=\"wide\"><table class=\"keys\"><tr><th scope=\"col\">key</th>");
    for (int i = 0; i < shown; i++) {
        gf_text_add(out, "<th scope=\"col\">");
        gf_text_escape(out, different ? runs[i].name : "value");
        gf_text_add(out, "</th>");
    }
    gf_text_add(out, "</tr>\n");
    for (int i = 0;; i++) {
        const gf_option *o = gf_config_option(i, &in_method);
        if (!o) break;
        if (differs(runs, count, o, in_method) == different) option_row(out, runs, shown, o, in_method);
    }
    gf_text_add(out, "</table></div>\n");
}

static void configuration(gf_text *out, const gf_run_log *runs, int count) {
    if (count > 1) {
        gf_text_add(out, "<h2>Where the configurations differ</h2>\n");
        option_table(out, runs, count, 1);
    }
    gf_text_add(out, "<h2>Configuration</h2>\n<details><summary>%s</summary>\n", count > 1 ? "Keys all runs share" : "All keys");
    option_table(out, runs, count, 0);
    gf_text_add(out, "</details>\n");
}

/* ----- the page ----- */

static void heading(gf_text *out, const gf_run_log *runs, int count) {
    gf_text_add(out, "<h1>GloFND: %d pretraining run%s</h1>\n<p class=\"faint\">Data of the first: <code>", count,
            count > 1 ? "s" : "");
    gf_text_escape(out, runs[0].config.data);
    gf_text_add(out, "</code>, batch %lld, %d epochs, seed %lld.</p>\n", (long long)runs[0].config.batch,
            (int)runs[0].config.epochs,
                (long long)runs[0].config.seed);
}

static void protocol(gf_text *out, const gf_run_log *r) {
    if (!*r->knn_test) return;
    gf_text_add(out, "<p class=\"faint\">kNN: cosine similarity of backbone features, k = %lld, tested on <code>",
            (long long)r->knn_k);
    gf_text_escape(out, r->knn_test);
    gf_text_add(out, "</code>. Single runs differ by chance too: take several seeds before drawing conclusions.</p>\n");
}

void gf_page(gf_text *out, const gf_run_log *runs, int count) {
    gf_text_add(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                     "<title>GloFND report</title>\n<style>\n%s",
                style);
    gf_svg_style(out);
    gf_text_add(out, "</style></head>\n<body><main>\n");
    heading(out, runs, count);
    gf_text_add(out, "<h2>Results</h2>\n");
    gf_summary_html(out, runs, count);
    protocol(out, &runs[0]);
    charts(out, runs, count);
    configuration(out, runs, count);
    gf_text_add(out, "<footer>Made by ");
    gf_text_escape(out, glofnd_build_info());
    gf_text_add(out, "</footer>\n</main></body></html>\n");
}
