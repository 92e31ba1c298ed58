/* compare.c - see compare.h: reading, grouping, testing. */
#include "report/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/page.h"
#include "run/run_folder.h"
#include "run/run_log.h"
#include "util/text.h"

/* ----- groups ----- */

/* Keys of how a run is carried out: runs that differ in them alone are one group. */
static int is_execution_key(const char *key) {
    static const char *const keys[] = {
        "seed",
        "threads",
        "workers",
        "prefetch",
        "checkpoint_steps",
        "log_steps",
        "strict",
        "tile",
        "device",
        "checkpoint_minutes",
        "keep_checkpoints",
        "checkpoint_epochs",
        "eval_every",
        "eval_samples",
        "on_epoch",
        "store",
        "ranks",
        "rank_timeout",
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return 1;
    return 0;
}

static int same_group(const gf_config *a, const gf_config *b) {
    char x[1100], y[1100];
    const char *key;
    for (int i = 0; (key = gf_config_value(a, i, x, sizeof x)); i++) {
        gf_config_value(b, i, y, sizeof y);
        if (!is_execution_key(key) && strcmp(x, y) != 0) return 0;
    }
    return 1;
}

static const gf_config *first_of(const gf_comparison *c, int group) {
    for (int i = 0; i < c->runs; i++)
        if (c->run[i].group == group) return &c->run[i].config;
    return NULL;
}

/* 1: key i says how thresholds are learned, and the detector of this configuration learns none. */
static int is_idle_key(const gf_config *c, int i) {
    int in_method;
    const gf_option *o = gf_config_option(i, &in_method);
    if (gf_learns_thresholds(&c->method)) return 0;
    return strcmp(o->group, "ring") == 0 || strcmp(o->key, "learner") == 0 || strncmp(o->key, "lambda_", 7) == 0;
}

/* The keys in which groups differ, without those that follow from others or, unless `idle`, have no effect. */
static void write_labels(gf_comparison *c, int idle) {
    char x[1100], y[1100];
    const char *key;
    for (int g = 0; g < c->groups; g++) c->label[g][0] = 0;
    for (int i = 0; (key = gf_config_value(first_of(c, 0), i, x, sizeof x)); i++) {
        int differs = 0;
        for (int g = 1; g < c->groups; g++) differs |= gf_config_value(first_of(c, g), i, y, sizeof y) && strcmp(x, y) != 0;
        if (!differs || is_execution_key(key)) continue;
        for (int g = 0; g < c->groups; g++) {
            char *label = c->label[g];
            const size_t used = strlen(label);
            const gf_config *f = first_of(c, g);
            const int follows_start = (strcmp(key, "update_epoch") == 0 && f->method.update_epoch == f->start_epoch) ||
                                      (strcmp(key, "mask_epoch") == 0 && f->method.mask_epoch == f->start_epoch);
            if (follows_start || (!idle && is_idle_key(f, i))) continue;
            gf_config_value(f, i, y, sizeof y);
            snprintf(label + used, sizeof c->label[g] - used, "%s%s=%.80s", used ? " " : "", key, y);
            gf_utf8_trim(label);
        }
    }
}

/* ----- reading ----- */

/* Index of the metric with this key, added if new; -1: there are too many. */
static int find_metric(gf_comparison *c, const char *key, const char *name, const gf_eval_key *figure, double rank) {
    for (int m = 0; m < c->metrics; m++)
        if (strcmp(c->metric[m].key, key) == 0) return m;
    if (c->metrics == GF_COMPARE_METRICS_MAX) return -1;
    gf_metric *x = &c->metric[c->metrics];
    *x = (gf_metric){.better = figure->better, .detail = figure->detail, .rank = rank};
    snprintf(x->key, sizeof x->key, "%s", key);
    snprintf(x->name, sizeof x->name, "%s", name);
    return c->metrics++;
}

/* Every figure of a record that has a title is a metric. */
static void add_figures(gf_comparison *c, gf_compared *r, const gf_eval_line *e) {
    char what[GF_EVAL_NAME_MAX], name[GF_EVAL_NAME_MAX + 40], key[GF_METRIC_KEY_MAX];
    const double rank = (double)gf_eval_rank(e->event) - 0.5 * (isfinite(e->fraction) ? e->fraction : 1.0);
    int rows;
    const gf_eval_key *row = gf_eval_keys(e->event, &rows);
    gf_eval_name(e, what, sizeof what);
    for (int i = 0; i < rows; i++) {
        if (!row[i].title || !isfinite(e->value[i])) continue;
        snprintf(name, sizeof name, "%s %s", what, row[i].title);
        snprintf(key, sizeof key, "%s\n%s", row[i].title, e->identity);
        const int m = find_metric(c, key, name, &row[i], rank);
        if (m >= 0) r->value[m] = row[i].factor * e->value[i];
    }
}

static glofnd_status read_run(gf_error *err, gf_comparison *c, const char *path, gf_compared *r) {
    gf_run_log log;
    TRY(gf_run_log_read(err, path, &log));
    snprintf(r->path, sizeof r->path, "%s", log.path);
    r->config = log.config;
    r->seed = log.config.seed;
    for (int i = 0; i < log.eval.count; i++)
        if (!log.eval.line[i].untrained) add_figures(c, r, &log.eval.line[i]);
    gf_eval_line e = {.event = GF_EVAL_EPOCH, .fraction = NAN, .k = NAN};
    int rows;
    const gf_eval_key *row = gf_eval_keys(GF_EVAL_EPOCH, &rows);
    for (int i = 0; i < rows; i++) e.value[i] = gf_run_last_of(&log, row[i].key);
    gf_settings_of_run(&r->config, e.settings);
    gf_eval_identify(&e);
    add_figures(c, r, &e);
    /* Lines that were left out, and keys of a newer version. */
    if (log.skipped && !c->skipped) gf_path_join(NULL, c->skipped_in, log.path, log.eval.skipped ? GF_EVAL_FILE : GF_LOG_FILE);
    c->skipped += log.skipped;
    if (*log.eval.unknown && !*c->unknown) {
        snprintf(c->unknown, sizeof c->unknown, "%s", log.eval.unknown);
        snprintf(c->unknown_in, sizeof c->unknown_in, "%s", log.path);
    }
    gf_run_log_free(&log);
    return GLOFND_OK;
}

static int measured(const gf_comparison *c, int metric) {
    for (int i = 0; i < c->runs; i++)
        if (isfinite(c->run[i].value[metric])) return 1;
    return 0;
}

/* The part of a metric's key behind title and name. */
static const char *settings_of(const gf_metric *m) {
    const char *at = strchr(m->key, '\n');
    at = at ? strchr(at + 1, '\n') : NULL;
    return at ? at + 1 : "";
}

static void group_runs(gf_comparison *c) {
    int repeated = 0;
    for (int i = 0; i < c->runs; i++) {
        int g = 0;
        while (g < c->groups && !same_group(first_of(c, g), &c->run[i].config)) g++;
        c->run[i].group = g;
        c->groups += g == c->groups;
    }
    write_labels(c, 0);
    for (int g = 1; g < c->groups; g++)
        for (int h = 0; h < g; h++) repeated |= strcmp(c->label[g], c->label[h]) == 0;
    if (repeated) write_labels(c, 1);
    for (int g = 0; g < c->groups; g++)
        if (!c->label[g][0]) snprintf(c->label[g], sizeof c->label[g], c->groups > 1 ? "group %d" : "all runs", g + 1);
}

/* Appends to the names of metrics that were measured in different ways the fewest settings that distinguish them. */
static void distinguish_names(gf_comparison *c) {
    for (int a = 0; a < c->metrics; a++) {
        gf_metric *m = &c->metric[a];
        const char *own = settings_of(m), *shown[16];
        char text[200];
        int count = 0;
        for (int b = 0; b < c->metrics && count < 16; b++) {
            const gf_metric *other = &c->metric[b];
            const char *theirs = settings_of(other);
            /* Only of interest: the same title and name, so that only the settings differ. */
            int distinct = a == b || strncmp(m->key, other->key, (size_t)(own - m->key)) != 0 || !measured(c, b);
            for (int k = 0; k < count; k++) distinct |= gf_settings_differ(own, theirs, shown[k]);
            if (distinct || !(shown[count] = gf_settings_difference(own, theirs))) continue;
            gf_settings_describe(own, shown[count], text, sizeof text);
            const size_t used = strlen(m->name);
            snprintf(m->name + used, sizeof m->name - used, "%s%s", count++ ? ", " : " (", text);
        }
        if (count) snprintf(m->name + strlen(m->name), sizeof m->name - strlen(m->name), ")");
        gf_utf8_trim(m->name);
    }
}

glofnd_status gf_compare_read(gf_error *err, const char *const *runs, int count, gf_comparison *out) {
    *out = (gf_comparison){0};
    FAIL_IF(err, count < 1 || count > GF_COMPARE_RUNS_MAX, GLOFND_E_ARGUMENT, "%d runs; 1 to %d can be compared", count,
            GF_COMPARE_RUNS_MAX);
    out->run = calloc((size_t)count, sizeof *out->run);
    out->metric = calloc(GF_COMPARE_METRICS_MAX, sizeof *out->metric);
    out->label = calloc((size_t)count, sizeof *out->label);
    glofnd_status status = GLOFND_OK;
    if (!out->run || !out->metric || !out->label) status = gf_fail(err, GLOFND_E_MEMORY, "no memory for %d runs", count);
    out->runs = count;
    for (int i = 0; i < count && status == GLOFND_OK; i++)
        for (int m = 0; m < GF_COMPARE_METRICS_MAX; m++) out->run[i].value[m] = NAN;
    for (int i = 0; i < count && status == GLOFND_OK; i++) status = read_run(err, out, runs[i], &out->run[i]);
    if (status == GLOFND_OK) {
        group_runs(out);
        distinguish_names(out);
        /* By rank; metrics of equal rank stay in the order in which they were found. */
        for (int m = 1; m < out->metrics; m++)
            for (int k = m; k > 0 && out->metric[k - 1].rank > out->metric[k].rank; k--) {
                const gf_metric metric = out->metric[k - 1];
                out->metric[k - 1] = out->metric[k], out->metric[k] = metric;
                for (gf_compared *r = out->run; r < out->run + out->runs; r++) {
                    const double value = r->value[k - 1];
                    r->value[k - 1] = r->value[k], r->value[k] = value;
                }
            }
    } else gf_compare_free(out);
    return status;
}

void gf_compare_free(gf_comparison *c) {
    if (!c) return;
    free(c->run);
    free(c->metric);
    free(c->label);
    *c = (gf_comparison){0};
}

/* ----- figures of groups ----- */

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

/* The first run of a group with this seed that has the figure. */
static const gf_compared *partner(const gf_comparison *c, int group, int metric, int64_t seed) {
    for (int i = 0; i < c->runs; i++) {
        const gf_compared *r = &c->run[i];
        if (r->group == group && r->seed == seed && isfinite(r->value[metric])) return r;
    }
    return NULL;
}

gf_cell gf_compare_cell(const gf_comparison *c, int group, int metric) {
    double all[GF_COMPARE_RUNS_MAX] = {0}, x[GF_COMPARE_RUNS_MAX], y[GF_COMPARE_RUNS_MAX];
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

/* ----- evaluations that may be shown side by side, and the figure of a run ----- */

const gf_eval_line *gf_comparable_find(const gf_run_log *run, const gf_eval_line *like, int untrained) {
    for (int i = 0; like && i < run->eval.count; i++) {
        const gf_eval_line *e = &run->eval.line[i];
        if (e->untrained == untrained && strcmp(e->identity, like->identity) == 0) return e;
    }
    return NULL;
}

static int runs_with(const gf_run_log *runs, int count, const gf_eval_line *like) {
    int n = 0;
    for (int i = 0; like && i < count; i++) n += gf_comparable_find(&runs[i], like, 0) != NULL;
    return n;
}

const gf_eval_line *gf_comparable_choose(const gf_run_log *runs, int count, const char *event) {
    const gf_eval_line *best = NULL;
    int max = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < runs[i].eval.count; k++) {
            const gf_eval_line *e = &runs[i].eval.line[k];
            if (e->untrained || strcmp(e->event, event) != 0) continue;
            const int own = strcmp(e->data, runs[i].config.data) == 0, x = 2 * runs_with(runs, count, e) + own;
            if (x > max) best = e, max = x;
        }
    return best;
}

gf_score gf_score_choose(const gf_report *r) {
    const int clip = r->runs[0].config.task == GF_TASK_CLIP;
    const gf_eval_line *near = gf_comparable_choose(r->runs, r->count, "knn"),
                       *found = gf_comparable_choose(r->runs, r->count, "retrieval");
    const int more = runs_with(r->runs, r->count, found) - runs_with(r->runs, r->count, near);
    gf_score s = {.retrieval = more ? more > 0 : clip};
    s.like = s.retrieval ? found : near;
    s.figure = s.retrieval ? "mean" : "top1";
    snprintf(s.name, sizeof s.name, s.retrieval ? "retrieval %%" : "kNN top-1 %%");
    if (!s.like) return s;
    char what[120];
    gf_eval_name(s.like, what, sizeof what);
    snprintf(s.name, sizeof s.name, "%s %s", what, gf_eval_key_find(s.like->event, s.figure)->title);
    return s;
}

double gf_score_of(const gf_score *s, const gf_run_log *run, int untrained) {
    const gf_eval_line *e = gf_comparable_find(run, s->like, untrained);
    return e ? gf_eval_figure(e, s->figure) : NAN;
}
