/* compare_metrics.c - see compare_metrics.h. */
#include "report/compare_metrics.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "report/run_eval.h"

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

static const char *text_or_empty(const gf_jsonl_reader *line, const char *key) {
    const char *text = gf_jsonl_get_text(line, key);
    return text ? text : "";
}

/* "linear paper 10 %", "knn k 20", "last epoch" */
static void describe(const gf_jsonl_reader *line, const char *event, char *out, size_t bytes) {
    const char *protocol = text_or_empty(line, "protocol"), *dataset = text_or_empty(line, "dataset");
    double fraction = NAN;
    int64_t k = 0;
    size_t n = strlen(event);
    const int mean = n > 5 && strcmp(event + n - 5, "_mean") == 0;
    if (strcmp(event, "epoch") == 0) {
        snprintf(out, bytes, "last epoch");
        return;
    }
    n = (size_t)snprintf(out, bytes, "%.*s", (int)(mean ? n - 5 : n), event);
    if (*protocol && strcmp(protocol, event) != 0 && n < bytes) n += (size_t)snprintf(out + n, bytes - n, " %.40s", protocol);
    if (mean && n < bytes) n += (size_t)snprintf(out + n, bytes - n, " mean");
    if (*dataset && n < bytes) n += (size_t)snprintf(out + n, bytes - n, " %.40s", dataset);
    if (gf_jsonl_get_integer(line, "k", &k) && n < bytes) n += (size_t)snprintf(out + n, bytes - n, " k %lld", (long long)k);
    if (gf_jsonl_get(line, "fraction", &fraction) && n < bytes) snprintf(out + n, bytes - n, " %g %%", 100.0 * fraction);
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
static void take_line(gf_comparison *c, gf_compared *r, const gf_jsonl_reader *line, const char *event) {
    char what[120], name[160], key[1400];
    double x, fraction = 1.0;
    gf_jsonl_get(line, "fraction", &fraction);
    describe(line, event, what, sizeof what);
    for (size_t i = 0; i < KINDS; i++) {
        const struct kind *k = &kinds[i];
        if (strcmp(event, k->event) != 0 || says_nothing(r, k) || !gf_jsonl_get(line, k->key, &x)) continue;
        snprintf(name, sizeof name, "%s %s", what, k->name);
        snprintf(key, sizeof key, "%s|%.500s|%.500s", name, text_or_empty(line, "data"), text_or_empty(line, "test"));
        const int m = find_metric(c, key, name, k, (double)place_of(event) - 0.5 * fraction);
        if (m >= 0) r->value[m] = k->factor * x;
    }
}

static glofnd_status read_lines(gf_error *err, gf_comparison *c, gf_compared *r, const char *file, int epochs) {
    char path[PATH_MAX];
    int64_t skipped = 0;
    gf_jsonl_reader line = {0};
    const int n = snprintf(path, sizeof path, "%s/%s", r->path, file);
    FAIL_IF(err, n < 0 || (size_t)n >= sizeof path, GLOFND_E_ARGUMENT, "the path of %.100s is too long", r->path);
    if (access(path, F_OK) != 0) return GLOFND_OK;
    TRY(gf_jsonl_read_open(&line, err, path));
    while (c->lenient ? gf_run_line(&line, &skipped) : gf_jsonl_next(&line)) {
        const char *event = gf_jsonl_get_text(&line, "event");
        double untrained = 0.0;
        gf_jsonl_get(&line, "untrained", &untrained);
        if (event && untrained == 0.0 && (strcmp(event, "epoch") == 0) == epochs) take_line(c, r, &line, event);
    }
    const glofnd_status status = line.status;
    gf_jsonl_read_close(&line);
    return status;
}

glofnd_status gf_compare_measure(gf_error *err, gf_comparison *c, gf_compared *r) {
    TRY(read_lines(err, c, r, "eval.jsonl", 0));
    return read_lines(err, c, r, "log.jsonl", 1);
}
