/* run_log.c - see run_log.h. */
#include "run/run_log.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/file.h"
#include "io/jsonl.h"
#include "run/run_folder.h"
#include "util/text.h"

#define ROW(name, key, kind, factor) {key, GF_LOG_##kind, factor},
static const gf_log_key step_keys[] = {GF_LOG_STEP_KEYS(ROW)};
static const gf_log_key epoch_keys[] = {GF_LOG_EPOCH_KEYS(ROW)};
#undef ROW

const gf_log_event gf_log_step = {"step", step_keys, GF_RUN_STEP_COUNT};
const gf_log_event gf_log_epoch = {"epoch", epoch_keys, GF_RUN_FIELD_COUNT};

void gf_log_write(gf_jsonl *j, const gf_log_event *event, const double *value, int clip) {
    gf_jsonl_begin(j);
    gf_jsonl_text(j, "event", event->name);
    for (int i = 0; i < event->count; i++) {
        const gf_log_key *k = &event->key[i];
        if (k->kind == GF_LOG_INTEGER) gf_jsonl_integer(j, k->key, (int64_t)value[i]);
        else if (k->kind == GF_LOG_BOTTLENECK) { /* loading counts only the time that the step had to wait */
            int slowest = GF_STEP_TIME_LOAD;
            for (int t = GF_STEP_TIME_LOAD; t <= GF_STEP_TIME_OPTIMIZER; t++) slowest = value[t] > value[slowest] ? t : slowest;
            gf_jsonl_text(j, k->key, step_keys[slowest].key + strlen("time_"));
        } else if (k->kind == GF_LOG_OPTIONAL && !isfinite(value[i])) continue;
        else if (k->kind != GF_LOG_CLIP || clip) gf_jsonl_number(j, k->key, value[i]);
    }
}

/* ----- memory ----- */

#define FIELD(name) \
    { #name, offsetof(gf_memory_record, name) }
#define PART(name) \
    { #name, offsetof(gf_memory_record, bytes.name) }

static const struct {
    const char *key;
    size_t at;
} fields[] = {FIELD(step),       FIELD(ranks),    FIELD(anchors), PART(weights), PART(optimizer),
              PART(activations), PART(workspace), PART(loss),     PART(data),    PART(peak)};

enum { FIELDS = sizeof fields / sizeof *fields };

/* Under a temporary name first, so that a reader finds the old file or the new one. */
glofnd_status gf_memory_write(gf_error *err, const char *run, const gf_memory_record *r) {
    char path[PATH_MAX], temp[PATH_MAX + 8];
    gf_jsonl j = {0};
    TRY(gf_path_join(err, path, run, GF_MEMORY_FILE));
    snprintf(temp, sizeof temp, "%s" GF_TEMP_MARK "0", path);
    TRY(gf_jsonl_open(err, &j, temp, 0));
    gf_jsonl_begin(&j);
    gf_jsonl_text(&j, "device", r->gpu ? "cuda" : "cpu");
    for (int i = 0; i < FIELDS; i++) {
        int64_t x;
        memcpy(&x, (const char *)r + fields[i].at, sizeof x);
        gf_jsonl_integer(&j, fields[i].key, x);
    }
    gf_jsonl_end(&j);
    TRY(gf_jsonl_close(&j));
    FAIL_IF(err, rename(temp, path) != 0, GLOFND_E_IO, "%s cannot be replaced: %s", path, strerror(errno));
    return GLOFND_OK;
}

/* A file that is missing or unreadable leaves out->known 0. */
static void read_memory(const char *run, gf_memory_record *out) {
    char path[PATH_MAX];
    gf_error ignored = {{0}};
    gf_jsonl_reader line = {0};
    if (gf_path_join(NULL, path, run, GF_MEMORY_FILE) != GLOFND_OK || access(path, R_OK) != 0) return;
    if (gf_jsonl_read_open(&ignored, &line, path) != GLOFND_OK) return;
    int known = gf_jsonl_next(&line);
    for (int i = 0; i < FIELDS && known; i++) { /* every field, and none of them negative */
        int64_t x = -1;
        known = gf_jsonl_get_integer(&line, fields[i].key, &x) && x >= 0;
        memcpy((char *)out + fields[i].at, &x, sizeof x);
    }
    const char *device = known ? gf_jsonl_get_text(&line, "device") : NULL;
    if (!known) *out = (gf_memory_record){0};
    out->gpu = device && strcmp(device, "cuda") == 0;
    out->known = known;
    gf_jsonl_read_close(&line);
}

/* ----- reading: lines to columns ----- */

static glofnd_status grow_columns(gf_error *err, double **columns, int count, int64_t *capacity) {
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

int64_t gf_run_count(double x) { return x > 0.0 && x < 1e12 ? (int64_t)x : 0; }

static glofnd_status read_lines(gf_error *err, gf_run_log *r, gf_jsonl_reader *line) {
    while (gf_run_line(line, &r->skipped) != 0) {
        const char *event = gf_jsonl_get_text(line, "event");
        if (event && strcmp(event, gf_log_epoch.name) == 0) {
            /* An epoch goes where its number says, if that is possible: lines before it may be missing. */
            double *const *f = r->field, epoch = NAN;
            gf_jsonl_get(line, gf_log_epoch.key[GF_RUN_EPOCH].key, &epoch);
            const int64_t end = r->epochs > r->config.epochs ? r->epochs : r->config.epochs;
            const int64_t at = epoch >= 0.0 && epoch < (double)end ? (int64_t)epoch : r->epochs;
            for (; r->epochs <= at; r->epochs++) {
                if (r->epochs == r->epoch_capacity) TRY(grow_columns(err, r->field, GF_RUN_FIELD_COUNT, &r->epoch_capacity));
                for (int i = 0; i < GF_RUN_FIELD_COUNT; i++) f[i][r->epochs] = NAN;
            }
            read_values(line, &gf_log_epoch, r->field, at);
            if (!isfinite(f[GF_RUN_POOLED_F1][at])) { /* older logs lack it */
                const double a = f[GF_RUN_POOLED_PRECISION][at], b = f[GF_RUN_POOLED_RECALL][at];
                f[GF_RUN_POOLED_F1][at] = a + b > 0.0 ? 2.0 * a * b / (a + b) : a + b;
            }
            /* There is no quality to show where nothing was flagged, nor without a detector: then only samples of equal content are
     * flagged, which is correct by definition. */
            const int detects = r->config.method.detector != GLOFND_DETECT_NONE;
            if (detects) r->labelled |= isfinite(f[GF_RUN_PRECISION][at]);
            for (int i = GF_RUN_PRECISION; i <= GF_RUN_POOLED_F1 && (!detects || f[GF_RUN_FLAGGED][at] == 0.0); i++)
                f[i][at] = NAN;
            const double step = f[GF_RUN_STEP][at];
            r->damaged += gf_run_count(f[GF_RUN_DAMAGED][at]);
            if (gf_run_count(step) && epoch >= 0.0 && epoch < 1e9) r->epoch_steps = (int64_t)(step / (epoch + 1.0) + 0.5);
        }
        if (event && strcmp(event, gf_log_step.name) == 0) {
            if (r->steps == r->step_capacity) TRY(grow_columns(err, r->step, GF_RUN_STEP_COUNT, &r->step_capacity));
            read_values(line, &gf_log_step, r->step, r->steps++);
        }
    }
    return line->status;
}

static glofnd_status read_run(gf_error *err, const char *run, gf_run_log *r) {
    char path[PATH_MAX];
    gf_jsonl_reader line = {0};
    int begun;
    FAIL_IF(err, strlen(run) >= sizeof r->path, GLOFND_E_ARGUMENT, "the path %.100s... is too long", run);
    snprintf(r->path, sizeof r->path, "%s", run);
    TRY(gf_path_join(err, path, run, GF_CONFIG_FILE));
    FAIL_IF(err, access(path, R_OK) != 0, GLOFND_E_IO,
            "%.300s cannot be read: %.100s is not a run folder (glofnd pretrain --out makes one)", path, run);
    /* "runs/a/" is "a"; "." and ".." stay. */
    size_t end = strlen(run);
    while (end > 1 && run[end - 1] == '/') end--;
    size_t begin = end;
    while (begin > 0 && run[begin - 1] != '/') begin--;
    snprintf(r->name, sizeof r->name, "%.*s", (int)(end - begin < 120 ? end - begin : 120), run + begin);
    TRY(gf_config_init(err, &r->config));
    TRY(gf_config_read(err, &r->config, path));
    TRY(gf_path_join(err, path, run, GF_LOG_FILE));
    TRY(gf_exists(err, path, &begun));
    if (begun) {
        TRY(gf_jsonl_read_open(err, &line, path));
        const glofnd_status status = read_lines(err, r, &line);
        gf_jsonl_read_close(&line);
        TRY(status);
    }
    r->finished = gf_path_join(err, path, run, GF_MODEL_FILE) == GLOFND_OK && access(path, F_OK) == 0;
    read_memory(run, &r->memory);
    TRY(gf_run_eval_read(err, run, &r->eval));
    r->skipped += r->eval.skipped;
    return GLOFND_OK;
}

glofnd_status gf_run_log_read(gf_error *err, const char *run, gf_run_log *out) {
    *out = (gf_run_log){0};
    const glofnd_status status = read_run(err, run, out);
    if (status != GLOFND_OK) gf_run_log_free(out);
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
