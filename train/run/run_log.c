/* run_log.c - see run_log.h. */
#include "run/run_log.h"
#include "run/layout.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void gf_run_name(const char *run, char *out, size_t bytes) {
    size_t end = strlen(run);
    while (end > 1 && run[end - 1] == '/') end--;
    size_t begin = end;
    while (begin > 0 && run[begin - 1] != '/') begin--;
    snprintf(out, bytes, "%.*s", (int)(end - begin < 120 ? end - begin : 120), run + begin);
}

/* ----- lines to columns ----- */

static glofnd_status grow(gf_error *err, double **columns, int count, int64_t *capacity) {
    const int64_t wanted = *capacity ? 2 * *capacity : 64;
    for (int c = 0; c < count; c++) {
        double *grown = realloc(columns[c], (size_t)wanted * sizeof *grown);
        FAIL_IF(err, !grown, GLOFND_E_MEMORY, "no memory for a log of %lld records", (long long)wanted);
        columns[c] = grown;
    }
    *capacity = wanted;
    return GLOFND_OK;
}

static void read_values(const gf_jsonl_reader *line, const gf_log_event *event, double **to, int64_t at) {
    for (int i = 0; i < event->count; i++) {
        double x = NAN;
        gf_jsonl_get(line, event->key[i].key, &x);
        to[i][at] = event->key[i].factor * x;
    }
}

static double harmonic(double a, double b) { return a + b > 0.0 ? 2.0 * a * b / (a + b) : a + b; }

/* There is no quality to show where nothing was flagged, nor without a detector: then only samples of equal content are flagged,
 * which is correct by definition. Older logs lack the pooled F1. */
static void settle_quality(gf_run_log *r, int64_t epoch) {
    double *const *f = r->field;
    if (!isfinite(f[GF_RUN_POOLED_F1][epoch]))
        f[GF_RUN_POOLED_F1][epoch] = harmonic(f[GF_RUN_POOLED_PRECISION][epoch], f[GF_RUN_POOLED_RECALL][epoch]);
    if (r->config.method.detector != GLOFND_DETECT_NONE) r->labelled |= isfinite(f[GF_RUN_PRECISION][epoch]);
    if (r->config.method.detector != GLOFND_DETECT_NONE && f[GF_RUN_FLAGGED][epoch] != 0.0) return;
    for (int i = GF_RUN_PRECISION; i <= GF_RUN_POOLED_F1; i++) f[i][epoch] = NAN;
}

int64_t gf_run_count(double x) { return x > 0.0 && x < 1e12 ? (int64_t)x : 0; }

static glofnd_status add_empty_epoch(gf_error *err, gf_run_log *r) {
    if (r->epochs == r->epoch_capacity) TRY(grow(err, r->field, GF_RUN_FIELD_COUNT, &r->epoch_capacity));
    for (int f = 0; f < GF_RUN_FIELD_COUNT; f++) r->field[f][r->epochs] = NAN;
    r->epochs++;
    return GLOFND_OK;
}

/* An epoch goes where its number says, if that is possible: lines before it may be missing. */
static glofnd_status read_epoch(gf_error *err, gf_run_log *r, const gf_jsonl_reader *line) {
    double epoch = NAN;
    gf_jsonl_get(line, gf_log_epoch.key[GF_RUN_EPOCH].key, &epoch);
    const int64_t end = r->epochs > r->config.epochs ? r->epochs : r->config.epochs;
    const int64_t at = epoch >= 0.0 && epoch < (double)end ? (int64_t)epoch : r->epochs;
    while (r->epochs <= at) TRY(add_empty_epoch(err, r));
    read_values(line, &gf_log_epoch, r->field, at);
    settle_quality(r, at);
    const double step = r->field[GF_RUN_STEP][at];
    r->damaged += gf_run_count(r->field[GF_RUN_DAMAGED][at]);
    if (gf_run_count(step) && epoch >= 0.0 && epoch < 1e9) r->epoch_steps = (int64_t)(step / (epoch + 1.0) + 0.5);
    return GLOFND_OK;
}

static glofnd_status read_step(gf_error *err, gf_run_log *r, const gf_jsonl_reader *line) {
    if (r->steps == r->step_capacity) TRY(grow(err, r->step, GF_RUN_STEP_COUNT, &r->step_capacity));
    read_values(line, &gf_log_step, r->step, r->steps++);
    return GLOFND_OK;
}

/* ----- log.jsonl ----- */

glofnd_status gf_run_tail_more(gf_run_tail *t) {
    gf_run_log *r = &t->log;
    struct stat st;
    int ok;
    const int found = stat(t->file, &st) == 0;
    if (!found && errno == ENOENT) return GLOFND_OK; /* not yet begun */
    FAIL_IF(t->err, !found, GLOFND_E_IO, "%.300s cannot be read: %s", t->file, strerror(errno));
    if (t->lines.file && st.st_size < t->end) {
        gf_jsonl_read_close(&t->lines);
        r->epochs = r->steps = r->damaged = t->end = t->end_skipped = 0;
    }
    if (!t->lines.file) TRY(gf_jsonl_read_open(t->err, &t->lines, t->file));
    clearerr(t->lines.file);
    r->skipped = t->end_skipped;
    if (fseeko(t->lines.file, (off_t)t->end, SEEK_SET) != 0) return GLOFND_OK;
    while ((ok = gf_run_line(&t->lines, &r->skipped)) != 0) {
        const char *event = gf_jsonl_get_text(&t->lines, "event");
        t->end = (int64_t)ftello(t->lines.file), t->end_skipped = r->skipped;
        if (event && strcmp(event, gf_log_epoch.name) == 0) TRY(read_epoch(t->err, r, &t->lines));
        if (event && strcmp(event, gf_log_step.name) == 0) TRY(read_step(t->err, r, &t->lines));
    }
    return t->lines.status;
}

static glofnd_status open_config(gf_error *err, const char *run, gf_run_tail *t) {
    char path[PATH_MAX];
    gf_run_log *r = &t->log;
    FAIL_IF(err, strlen(run) >= sizeof r->path, GLOFND_E_ARGUMENT, "the path %.100s... is too long", run);
    snprintf(r->path, sizeof r->path, "%s", run);
    TRY(gf_path_join(err, t->file, run, GF_LOG_FILE));
    TRY(gf_path_join(err, path, run, GF_CONFIG_FILE));
    FAIL_IF(err, access(path, R_OK) != 0, GLOFND_E_IO,
            "%.300s cannot be read: %.100s is not a run folder (glofnd pretrain --out makes one)", path, run);
    gf_run_name(run, r->name, sizeof r->name);
    TRY(gf_config_init(err, &r->config));
    return gf_config_read(err, &r->config, path);
}

glofnd_status gf_run_tail_open(gf_error *err, const char *run, gf_run_tail *t) {
    *t = (gf_run_tail){.err = err};
    glofnd_status status = open_config(err, run, t);
    if (status == GLOFND_OK) status = gf_run_tail_more(t);
    if (status != GLOFND_OK) gf_run_tail_close(t);
    return status;
}

void gf_run_tail_close(gf_run_tail *t) {
    gf_jsonl_read_close(&t->lines);
    gf_run_log_free(&t->log);
}

/* ----- a whole run ----- */

glofnd_status gf_run_log_read(gf_error *err, const char *run, gf_run_log *out) {
    gf_run_tail t;
    char path[PATH_MAX];
    *out = (gf_run_log){0};
    TRY(gf_run_tail_open(err, run, &t));
    *out = t.log;
    t.log = (gf_run_log){0};
    gf_run_tail_close(&t);
    out->finished = gf_path_join(err, path, run, GF_MODEL_FILE) == GLOFND_OK && access(path, F_OK) == 0;
    gf_memory_read(run, &out->memory);
    const glofnd_status status = gf_run_eval_read(err, run, &out->eval);
    if (status != GLOFND_OK) gf_run_log_free(out);
    out->skipped += out->eval.skipped;
    return status;
}

void gf_run_log_free(gf_run_log *r) {
    for (int f = 0; f < GF_RUN_FIELD_COUNT; f++) free(r->field[f]);
    for (int f = 0; f < GF_RUN_STEP_COUNT; f++) free(r->step[f]);
    gf_run_eval_free(&r->eval);
    *r = (gf_run_log){0};
}

double gf_run_last(const gf_run_log *r, gf_run_field field) { return r->epochs ? r->field[field][r->epochs - 1] : NAN; }

double gf_run_last_of(const gf_run_log *r, const char *key) {
    for (int f = 0; f < GF_RUN_FIELD_COUNT; f++)
        if (strcmp(gf_log_epoch.key[f].key, key) == 0) return gf_run_last(r, (gf_run_field)f);
    return NAN;
}

double gf_run_step_mean(const gf_run_log *r, gf_run_step field, int64_t max) {
    double sum = 0.0, n = 0.0;
    for (int64_t i = r->steps - 1; i >= 0 && n < (double)max; i--)
        if (isfinite(r->step[field][i])) sum += r->step[field][i], n++;
    return n > 0.0 ? sum / n : NAN;
}

double gf_run_place(const gf_run_log *r, int64_t i) {
    const double step = r->step[GF_STEP_STEP][i];
    return r->epoch_steps ? step / (double)r->epoch_steps : step;
}
