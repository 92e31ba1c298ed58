/* run_eval.c - see run_eval.h. */
#include "run/run_eval.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/calls.h"
#include "run/layout.h"
#include "util/grow.h"
#include "util/path.h"
#include "util/utf8.h"

int gf_run_line(gf_jsonl_reader *r, int64_t *skipped) {
    while (!gf_jsonl_next(r)) {
        if (r->status != GLOFND_E_FORMAT) return 0;
        r->status = GLOFND_OK;
        ++*skipped;
    }
    return 1;
}

#define TEXT(name) \
    { #name, offsetof(gf_eval_line, name), sizeof((gf_eval_line *)0)->name }

static const struct {
    const char *key;
    size_t at, bytes;
} texts[] = {TEXT(event), TEXT(protocol), TEXT(dataset), TEXT(detector), TEXT(pairs),
             TEXT(truth), TEXT(metric),   TEXT(data),    TEXT(test)};

static void add(char *out, size_t bytes, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void add(char *out, size_t bytes, const char *fmt, ...) {
    va_list args;
    const size_t used = strlen(out);
    va_start(args, fmt);
    if (used + 1 < bytes) vsnprintf(out + used, bytes - used, fmt, args);
    va_end(args);
}

/* Metric behind a score of `eval transfer`, unless it is the usual one: top-1 of a dataset, and in a mean that of each dataset.
 * Other evaluations have a figure for each metric. */
static const char *metric_of(const gf_eval_line *e) {
    if (strncmp(e->event, "transfer", 8) != 0) return "";
    if (strcmp(e->metric, "mean_per_class") == 0) return " mean per class";
    return strcmp(e->event, "transfer_mean") == 0 && strcmp(e->metric, "top1") == 0 ? " top-1" : "";
}

void gf_eval_name(const gf_eval_line *e, char *out, size_t bytes) {
    const size_t n = strlen(e->event);
    const int mean = n > 5 && strcmp(e->event + n - 5, "_mean") == 0, event = (int)(mean ? n - 5 : n);
    const int variant = strncmp(e->protocol, e->event, n) == 0 && e->protocol[n] == '-'; /* "knn-unweighted" says it all */
    if (strcmp(e->event, "epoch") == 0) {
        snprintf(out, bytes, "last epoch");
        return;
    }
    if (variant) snprintf(out, bytes, "%s", e->protocol);
    else snprintf(out, bytes, "%.*s", event, e->event);
    if (*e->protocol && !variant && strcmp(e->protocol, e->event) != 0) add(out, bytes, " %s", e->protocol);
    if (mean) add(out, bytes, " mean");
    if (*e->dataset) add(out, bytes, " %s", e->dataset);
    add(out, bytes, "%s", metric_of(e));
    if (isfinite(e->k)) add(out, bytes, " k %.10g", e->k);
    if (isfinite(e->fraction)) add(out, bytes, " %g %%", 100.0 * e->fraction);
}

void gf_eval_identify(gf_eval_line *e) {
    char name[GF_EVAL_NAME_MAX];
    gf_eval_name(e, name, sizeof name);
    snprintf(e->identity, sizeof e->identity, "%s\n%s", name, e->settings);
}

static double number_of(const gf_jsonl_reader *r, const char *key) {
    double x = NAN;
    gf_jsonl_get(r, key, &x);
    return x;
}

/* The record at the reader. */
static gf_eval_line parse_line(const gf_jsonl_reader *r, char unknown[GF_SETTINGS_KEY_MAX]) {
    gf_eval_line e = {.number = r->number, .fraction = number_of(r, "fraction"), .k = number_of(r, "k")};
    int rows;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *text = gf_jsonl_get_text(r, texts[i].key);
        char *to = (char *)&e + texts[i].at;
        snprintf(to, texts[i].bytes, "%s", text ? text : "");
        gf_utf8_trim(to);
    }
    const gf_eval_key *row = gf_eval_keys(e.event, &rows);
    for (int i = 0; i < rows; i++) e.value[i] = number_of(r, row[i].key);
    e.untrained = number_of(r, "untrained") == 1.0;
    /* Older versions recorded equal votes under the name of weighted ones. */
    if (strcmp(e.event, "knn") == 0 && strcmp(e.protocol, "knn") == 0 && number_of(r, "temperature") == 0.0)
        snprintf(e.protocol, sizeof e.protocol, "knn-unweighted");
    gf_settings_of_line(r, e.event, e.settings, unknown);
    gf_eval_identify(&e);
    return e;
}

double gf_eval_figure(const gf_eval_line *e, const char *key) {
    int rows;
    const gf_eval_key *row = gf_eval_keys(e->event, &rows);
    for (int i = 0; i < rows; i++)
        if (strcmp(row[i].key, key) == 0) return row[i].factor * e->value[i];
    return NAN;
}

/* A newer record of a kind replaces the older one. */
static glofnd_status keep(gf_error *err, gf_run_eval *all, const gf_eval_line *e) {
    for (int i = 0; i < all->count; i++)
        if (all->line[i].untrained == e->untrained && strcmp(all->line[i].identity, e->identity) == 0) {
            all->line[i] = *e;
            return GLOFND_OK;
        }
    FAIL_IF(err, !gf_grow(&all->line, &all->capacity, (size_t)all->count + 1, sizeof *all->line), GLOFND_E_MEMORY,
            "no memory for %d evaluations", all->count + 1);
    all->line[all->count++] = *e;
    return GLOFND_OK;
}

/* Number of leading lines that are stale: they measured weights that later training replaced. */
static glofnd_status count_stale(gf_error *err, const char *path, int64_t *lines) {
    gf_jsonl_reader r = {0};
    int64_t skipped = 0;
    *lines = 0;
    TRY(gf_jsonl_read_open(err, &r, path));
    for (int64_t n = 1; gf_run_line(&r, &skipped); n++) {
        const char *event = gf_jsonl_get_text(&r, "event");
        if (event && strcmp(event, GF_EVAL_TRAINED) == 0) *lines = n;
    }
    const glofnd_status status = r.status;
    gf_jsonl_read_close(&r);
    return status;
}

glofnd_status gf_run_eval_read(gf_error *err, const char *run, gf_run_eval *out) {
    char path[PATH_MAX];
    int64_t stale;
    gf_jsonl_reader r = {0};
    glofnd_status status = GLOFND_OK;
    *out = (gf_run_eval){0};
    TRY(gf_path_join(err, path, run, GF_EVAL_FILE));
    int there;
    TRY(gf_exists(err, path, &there));
    if (!there) return GLOFND_OK;
    TRY(count_stale(err, path, &stale));
    TRY(gf_jsonl_read_open(err, &r, path));
    while (status == GLOFND_OK && gf_run_line(&r, &out->skipped)) {
        const gf_eval_line e = parse_line(&r, out->unknown);
        if (*e.event && (e.untrained || stale <= 0)) status = keep(err, out, &e);
        stale--;
    }
    if (status == GLOFND_OK) status = r.status;
    gf_jsonl_read_close(&r);
    if (status != GLOFND_OK) gf_run_eval_free(out);
    return status;
}

void gf_run_eval_free(gf_run_eval *e) {
    free(e->line);
    *e = (gf_run_eval){0};
}
