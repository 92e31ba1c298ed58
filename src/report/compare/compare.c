/* compare.c - see compare.h: reading, grouping, testing. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "report/compare/compare.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/compare/compare_metrics.h"
#include "run/layout.h"
#include "run/run_log.h"
#include "util/strings/utf8.h"

/* ----- groups ----- */

/* Keys that say how a run is carried out, not what it is. */
static int is_private(const char *key) {
    static const char *const keys[] = {"seed",      "threads", "workers", "prefetch", "checkpoint_steps",
                                       "log_steps", "strict",  "tile",    "device",   "checkpoint_minutes"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return 1;
    return 0;
}

/* Value of option i as text; its key, or NULL at the end. */
static const char *value_of(const gf_config *c, int i, char *out, size_t bytes) {
    int in_method;
    const gf_option *o = gf_config_option(i, &in_method);
    if (o) gf_option_format(o, in_method ? (const void *)&c->method : c, out, bytes);
    return o ? o->key : NULL;
}

static int same_group(const gf_config *a, const gf_config *b) {
    char x[1100], y[1100];
    const char *key;
    for (int i = 0; (key = value_of(a, i, x, sizeof x)); i++) {
        value_of(b, i, y, sizeof y);
        if (!is_private(key) && strcmp(x, y) != 0) return 0;
    }
    return 1;
}

static const gf_config *first_of(const gf_comparison *c, int group) {
    for (int i = 0; i < c->runs; i++)
        if (c->run[i].group == group) return &c->run[i].config;
    return NULL;
}

static void find_groups(gf_comparison *c) {
    for (int i = 0; i < c->runs; i++) {
        int g = 0;
        while (g < c->groups && !same_group(first_of(c, g), &c->run[i].config)) g++;
        c->run[i].group = g;
        c->groups += g == c->groups;
    }
}

/* Groups are called by the keys in which they differ. What only follows from start_epoch is not told again. */
static void label_groups(gf_comparison *c) {
    char x[1100], y[1100];
    const char *key;
    for (int g = 0; g < c->groups; g++) c->label[g][0] = 0;
    for (int i = 0; (key = value_of(first_of(c, 0), i, x, sizeof x)); i++) {
        int differs = 0;
        for (int g = 1; g < c->groups; g++) differs |= value_of(first_of(c, g), i, y, sizeof y) && strcmp(x, y) != 0;
        if (!differs || is_private(key)) continue;
        for (int g = 0; g < c->groups; g++) {
            char *label = c->label[g];
            const size_t used = strlen(label);
            const gf_config *f = first_of(c, g);
            const int follows = (strcmp(key, "update_epoch") == 0 && f->method.update_epoch == f->start_epoch) ||
                                (strcmp(key, "mask_epoch") == 0 && f->method.mask_epoch == f->start_epoch);
            value_of(f, i, y, sizeof y);
            if (!follows) snprintf(label + used, sizeof c->label[g] - used, "%s%s=%.80s", used ? " " : "", key, y);
            gf_utf8_trim(label);
        }
    }
    for (int g = 0; g < c->groups; g++)
        if (!c->label[g][0]) snprintf(c->label[g], sizeof c->label[g], c->groups > 1 ? "group %d" : "all runs", g + 1);
}

/* ----- reading ----- */

static glofnd_status read_run(gf_error *err, gf_comparison *c, const char *path, gf_compared *r) {
    char file[1100];
    const int n = snprintf(r->path, sizeof r->path, "%s", path);
    FAIL_IF(err, n < 0 || (size_t)n >= sizeof r->path, GLOFND_E_ARGUMENT, "the path %.100s... is too long", path);
    gf_run_name(path, r->name, sizeof r->name);
    snprintf(file, sizeof file, "%s/" GF_CONFIG_FILE, path);
    FAIL_IF(err, access(file, R_OK) != 0, GLOFND_E_IO, "%.300s cannot be read: %.100s is not the folder of a run", file, path);
    TRY(gf_config_init(err, &r->config));
    TRY(gf_config_read(err, &r->config, file));
    r->seed = r->config.seed;
    return gf_compare_measure(err, c, r);
}

static int measured(const gf_comparison *c, int metric) {
    for (int i = 0; i < c->runs; i++)
        if (isfinite(c->run[i].value[metric])) return 1;
    return 0;
}

/* What a key has behind figure and name. */
static const char *settings_of(const gf_metric *m) {
    const char *at = strchr(m->key, '\n');
    at = at ? strchr(at + 1, '\n') : NULL;
    return at ? at + 1 : "";
}

/* Another metric of the same name, so that their settings differ. */
static int are_twins(const gf_metric *a, const gf_metric *b) {
    const size_t n = (size_t)(settings_of(a) - a->key);
    return a != b && strncmp(a->key, b->key, n) == 0;
}

/* Names of metrics that were measured in different ways say in what they differ: as few settings as tell one from all others. */
static void tell_apart(gf_comparison *c) {
    for (int a = 0; a < c->metrics; a++) {
        gf_metric *m = &c->metric[a];
        const char *own = settings_of(m), *sep = " (", *told[16];
        char text[200];
        int count = 0;
        for (int b = 0; b < c->metrics && count < 16; b++) {
            const char *other = settings_of(&c->metric[b]);
            int apart = !are_twins(m, &c->metric[b]) || !measured(c, b);
            for (int k = 0; k < count; k++) apart |= gf_settings_differ(own, other, told[k]);
            if (apart || !(told[count] = gf_settings_difference(own, other))) continue;
            gf_settings_say(own, told[count++], text, sizeof text);
            const size_t used = strlen(m->name);
            snprintf(m->name + used, sizeof m->name - used, "%s%s", sep, text);
            sep = ", ";
        }
        if (count) snprintf(m->name + strlen(m->name), sizeof m->name - strlen(m->name), ")");
        gf_utf8_trim(m->name);
    }
}

static void swap_metrics(gf_comparison *c, int a, int b) {
    const gf_metric metric = c->metric[a];
    c->metric[a] = c->metric[b], c->metric[b] = metric;
    for (int i = 0; i < c->runs; i++) {
        const double value = c->run[i].value[a];
        c->run[i].value[a] = c->run[i].value[b], c->run[i].value[b] = value;
    }
}

/* By rank; equal ones in the order in which they were found. */
static void sort_metrics(gf_comparison *c) {
    for (int m = 1; m < c->metrics; m++)
        for (int k = m; k > 0 && c->metric[k - 1].rank > c->metric[k].rank; k--) swap_metrics(c, k - 1, k);
}

glofnd_status gf_compare_read(gf_error *err, const char *const *runs, int count, gf_comparison *out) {
    *out = (gf_comparison){0};
    FAIL_IF(err, count < 1 || count > GF_COMPARE_RUNS, GLOFND_E_ARGUMENT, "%d runs; 1 to %d can be compared", count,
            GF_COMPARE_RUNS);
    out->run = calloc((size_t)count, sizeof *out->run);
    out->metric = calloc(GF_COMPARE_METRICS, sizeof *out->metric);
    out->label = calloc((size_t)count, sizeof *out->label);
    glofnd_status status = GLOFND_OK;
    if (!out->run || !out->metric || !out->label) status = gf_fail(err, GLOFND_E_MEMORY, "no memory for %d runs", count);
    out->runs = count;
    for (int i = 0; i < count && status == GLOFND_OK; i++)
        for (int m = 0; m < GF_COMPARE_METRICS; m++) out->run[i].value[m] = NAN;
    for (int i = 0; i < count && status == GLOFND_OK; i++) status = read_run(err, out, runs[i], &out->run[i]);
    if (status == GLOFND_OK) {
        find_groups(out);
        label_groups(out);
        tell_apart(out);
        sort_metrics(out);
    } else {
        gf_compare_free(out);
    }
    return status;
}

void gf_compare_free(gf_comparison *c) {
    if (!c) return;
    free(c->run);
    free(c->metric);
    free(c->label);
    *c = (gf_comparison){0};
}

/* ----- looking ----- */

int gf_metric_has(const gf_metric *m, const char *text) { return strcasestr(m->name, text) != NULL; }

int gf_compare_select(gf_comparison *c, const char *text, int details) {
    int kept = 0;
    for (int m = 0; m < c->metrics; m++) {
        const int wanted = text ? gf_metric_has(&c->metric[m], text) : details || !c->metric[m].detail;
        if (!wanted || !measured(c, m)) continue;
        c->metric[kept] = c->metric[m];
        for (int i = 0; i < c->runs; i++) c->run[i].value[kept] = c->run[i].value[m];
        kept++;
    }
    return c->metrics = kept;
}

/* Of several runs of one seed in a group, the first one that has the figure. */
static const gf_compared *partner(const gf_comparison *c, int group, int metric, int64_t seed) {
    for (int i = 0; i < c->runs; i++) {
        const gf_compared *r = &c->run[i];
        if (r->group == group && r->seed == seed && isfinite(r->value[metric])) return r;
    }
    return NULL;
}

gf_cell gf_compare_cell(const gf_comparison *c, int group, int metric) {
    double all[GF_COMPARE_RUNS] = {0}, x[GF_COMPARE_RUNS], y[GF_COMPARE_RUNS];
    gf_cell cell = {.p = NAN, .test = {.difference = NAN, .t = NAN, .p_greater = NAN, .p_less = NAN}};
    int pairs = 0;
    for (int i = 0; i < c->runs; i++) {
        const gf_compared *r = &c->run[i];
        if (r->group != group || !isfinite(r->value[metric])) continue;
        all[cell.n++] = r->value[metric];
        const gf_compared *base = partner(c, 0, metric, r->seed);
        if (group == 0 || !base || partner(c, group, metric, r->seed) != r) continue;
        x[pairs] = r->value[metric], y[pairs++] = base->value[metric];
    }
    cell.mean = gf_mean(all, cell.n), cell.std = gf_std(all, cell.n);
    if (pairs) cell.test = gf_ttest_paired(x, y, pairs);
    const int better = c->metric[metric].better;
    if (better) cell.p = better > 0 ? cell.test.p_greater : cell.test.p_less;
    return cell;
}

int gf_compare_best(const gf_comparison *c, int metric) {
    int best = -1;
    double score = -INFINITY;
    for (int g = 0; g < c->groups && c->metric[metric].better; g++) {
        const double x = gf_compare_cell(c, g, metric).mean * c->metric[metric].better;
        if (x > score) best = g, score = x;
    }
    return best;
}

int gf_compare_digits(const gf_comparison *c, int metric) { return strchr(c->metric[metric].name, '%') ? 2 : 4; }

int gf_compare_is_best(const gf_comparison *c, int group, int metric) {
    const int best = gf_compare_best(c, metric);
    if (best < 0) return 0;
    const double unit = pow(10.0, gf_compare_digits(c, metric)), top = round(unit * gf_compare_cell(c, best, metric).mean);
    int worse = 0;
    for (int g = 0; g < c->groups; g++) {
        const gf_cell x = gf_compare_cell(c, g, metric);
        worse += x.n && round(unit * x.mean) != top;
    }
    return worse && round(unit * gf_compare_cell(c, group, metric).mean) == top;
}
