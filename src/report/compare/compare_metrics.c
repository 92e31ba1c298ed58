/* compare_metrics.c - see compare_metrics.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "report/compare/compare_metrics.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "run/layout.h"
#include "run/run_eval.h"

/* Figures of a line: which event, under which key, how it is called. Shares in 0..1 become percent. */
static const struct kind {
    const char *event, *key, *name;
    double factor;
    int better, detail;
} kinds[] = {
    {"linear", "top1", "top-1 %", 100.0, 1, 0},
    {"linear", "top5", "top-5 %", 100.0, 1, 1},
    {"linear_mean", "top1", "top-1 %", 100.0, 1, 0},
    {"linear_mean", "top5", "top-5 %", 100.0, 1, 1},
    {"knn", "top1", "top-1 %", 100.0, 1, 0},
    {"transfer", "score", "%", 100.0, 1, 0},
    {"transfer", "validation_score", "% (l2 by validation)", 100.0, 1, 1},
    {"transfer_mean", "score", "%", 100.0, 1, 0},
    {"transfer_mean", "validation_score", "% (l2 by validation)", 100.0, 1, 1},
    {"retrieval", "ir1", "IR@1 %", 100.0, 1, 0},
    {"retrieval", "ir5", "IR@5 %", 100.0, 1, 1},
    {"retrieval", "ir10", "IR@10 %", 100.0, 1, 1},
    {"retrieval", "ir_mean", "IR average %", 100.0, 1, 0},
    {"retrieval", "tr1", "TR@1 %", 100.0, 1, 0},
    {"retrieval", "tr5", "TR@5 %", 100.0, 1, 1},
    {"retrieval", "tr10", "TR@10 %", 100.0, 1, 1},
    {"retrieval", "tr_mean", "TR average %", 100.0, 1, 0},
    {"retrieval", "mean", "average %", 100.0, 1, 0},
    {"zeroshot", "top1", "top-1 %", 100.0, 1, 0},
    {"zeroshot", "top5", "top-5 %", 100.0, 1, 1},
    {"zeroshot", "mean_per_class", "mean per class %", 100.0, 1, 1},
    {"zeroshot_mean", "score", "%", 100.0, 1, 0},
    {"epoch", "precision", "precision %", 100.0, 1, 0},
    {"epoch", "recall", "recall %", 100.0, 1, 0},
    {"epoch", "f1", "F1 %", 100.0, 1, 0},
    {"epoch", "flagged", "flagged %", 100.0, 0, 1},
    {"epoch", "loss", "loss", 1.0, 0, 1},
    {"fn", "precision", "precision %", 100.0, 1, 1},
    {"fn", "recall", "recall %", 100.0, 1, 1},
    {"fn", "f1", "F1 %", 100.0, 1, 1},
    {"fn", "pooled_precision", "pooled precision %", 100.0, 1, 1},
    {"fn", "pooled_recall", "pooled recall %", 100.0, 1, 1},
    {"fn", "pooled_f1", "pooled F1 %", 100.0, 1, 1},
    {"threshold", "mae", "MAE", 1.0, -1, 0},
    {"threshold", "rmse", "RMSE", 1.0, -1, 0},
};

#define KINDS (sizeof kinds / sizeof *kinds)

const char *gf_compare_figure(const char *event, const char *key) {
    for (size_t i = 0; i < KINDS; i++)
        if (strcmp(event, kinds[i].event) == 0 && strcmp(key, kinds[i].key) == 0) return kinds[i].name;
    return "";
}

int gf_compare_word(const char *word) {
    /* Protocols and what else the calls of `eval` write into names. */
    static const char others[] = "last epoch mean k data held out unweighted raw not recorded seed batch task clip names sets "
                                 "classes_sum templates_sum datasets images captions alpha samples anchors fnc_batch fnc_draws "
                                 "fractions validation augment "
                                 "paper-centre-validated official-centre-validated paper-validated official-validated -cached "
                                 "own-templates several views plain batches dataset image-text text-image by captions glofnd "
                                 "exact single fnc";
    for (size_t i = 0; i < KINDS; i++)
        if (strcasestr(kinds[i].event, word) || strcasestr(kinds[i].name, word)) return 1;
    return strcasestr(others, word) != NULL;
}

/* Index of the metric with this key, made if new; -1: no room. */
static int find_metric(gf_comparison *c, const char *key, const char *name, const struct kind *k, double rank) {
    for (int m = 0; m < c->metrics; m++)
        if (strcmp(c->metric[m].key, key) == 0) return m;
    if (c->metrics == GF_COMPARE_METRICS) return -1;
    gf_metric *x = &c->metric[c->metrics];
    *x = (gf_metric){.better = k->better, .detail = k->detail, .rank = rank};
    snprintf(x->key, sizeof x->key, "%s", key);
    snprintf(x->name, sizeof x->name, "%s", name);
    return c->metrics++;
}

/* Of an event in the table. */
static size_t place_of(const char *event) {
    size_t i = 0;
    while (i < KINDS && strcmp(event, kinds[i].event) != 0) i++;
    return i;
}

/* Without a detector only samples of equal content are flagged, which is right by definition: no figure to compare. */
static int says_nothing(const gf_compared *r, const struct kind *k) {
    return r->config.method.detector == GLOFND_DETECT_NONE && strcmp(k->event, "epoch") == 0 && k->better == 1;
}

/* Newer lines replace older ones; null is a figure that is not there. */
static void take_line(gf_comparison *c, gf_compared *r, const gf_jsonl_reader *line, const gf_eval_line *e) {
    char what[GF_EVAL_NAME], name[GF_EVAL_NAME + 40], key[GF_METRIC_KEY];
    double x;
    const double fraction = isfinite(e->fraction) ? e->fraction : 1.0;
    gf_eval_name(e, what, sizeof what);
    for (size_t i = 0; i < KINDS; i++) {
        const struct kind *k = &kinds[i];
        if (strcmp(e->event, k->event) != 0 || says_nothing(r, k) || !gf_jsonl_get(line, k->key, &x)) continue;
        snprintf(name, sizeof name, "%s %s", what, k->name);
        snprintf(key, sizeof key, "%s\n%s", k->name, e->key);
        const int m = find_metric(c, key, name, k, (double)place_of(e->event) - 0.5 * fraction);
        if (m >= 0) r->value[m] = k->factor * x;
    }
}

static glofnd_status read_lines(gf_error *err, gf_comparison *c, gf_compared *r, const char *file, int epochs) {
    char path[PATH_MAX];
    int64_t skipped = 0, stale = 0;
    gf_jsonl_reader line = {0};
    const int n = snprintf(path, sizeof path, "%s/%s", r->path, file);
    FAIL_IF(err, n < 0 || (size_t)n >= sizeof path, GLOFND_E_ARGUMENT, "the path of %.100s is too long", r->path);
    if (access(path, F_OK) != 0) return GLOFND_OK;
    if (!epochs) TRY(gf_run_eval_stale(err, path, &stale));
    TRY(gf_jsonl_read_open(&line, err, path));
    while (gf_run_line(&line, &skipped)) {
        if (stale-- > 0) continue;
        const char *event = gf_jsonl_get_text(&line, "event");
        if (!event || (strcmp(event, "epoch") == 0) != epochs) continue;
        gf_eval_line e = gf_eval_line_of(&line);
        if (epochs) gf_settings_of_run(&r->config, e.settings), gf_eval_identify(&e);
        if (!e.untrained) take_line(c, r, &line, &e);
    }
    const glofnd_status status = line.status;
    if (skipped && !*c->damaged) snprintf(c->damaged, sizeof c->damaged, "%.1000s", path);
    c->skipped += skipped;
    gf_jsonl_read_close(&line);
    return status;
}

glofnd_status gf_compare_measure(gf_error *err, gf_comparison *c, gf_compared *r) {
    TRY(read_lines(err, c, r, GF_EVAL_FILE, 0));
    return read_lines(err, c, r, GF_LOG_FILE, 1);
}
