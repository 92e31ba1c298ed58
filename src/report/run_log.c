/* run_log.c - see run_log.h. */
#include "report/run_log.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/json/jsonl.h"

static const struct {
    const char *key;
    double factor;
} fields[] = {
#define GF_RUN_X(name, key, factor) {key, factor},
    GF_RUN_FIELDS(GF_RUN_X)
#undef GF_RUN_X
};

static glofnd_status path_of(gf_error *err, char *out, const char *run, const char *file) {
    const int n = snprintf(out, PATH_MAX, "%s/%s", run, file);
    FAIL_IF(err, n < 0 || n >= PATH_MAX, GLOFND_E_ARGUMENT, "the path %.100s/... is too long", run);
    return GLOFND_OK;
}

/* "runs/a/" is "a"; "." and ".." stay. */
static void name_of(const char *run, char *out, size_t bytes) {
    size_t end = strlen(run);
    while (end > 1 && run[end - 1] == '/') end--;
    size_t begin = end;
    while (begin > 0 && run[begin - 1] != '/') begin--;
    snprintf(out, bytes, "%.*s", (int)(end - begin < 120 ? end - begin : 120), run + begin);
}

/* ----- epochs ----- */

static glofnd_status grow(gf_error *err, gf_run_log *r) {
    const int64_t room = r->room ? 2 * r->room : 64;
    for (int f = 0; f < GF_RUN_FIELD_COUNT; f++) {
        double *grown = realloc(r->field[f], (size_t)room * sizeof *grown);
        FAIL_IF(err, !grown, GLOFND_E_MEMORY, "no memory for %lld epochs", (long long)room);
        r->field[f] = grown;
    }
    r->room = room;
    return GLOFND_OK;
}

static glofnd_status take_epoch(gf_error *err, gf_run_log *r, const gf_jsonl_reader *line) {
    if (r->epochs == r->room) TRY(grow(err, r));
    for (int f = 0; f < GF_RUN_FIELD_COUNT; f++) {
        double x = NAN;
        gf_jsonl_get(line, fields[f].key, &x);
        r->field[f][r->epochs] = fields[f].factor * x;
    }
    r->epochs++;
    return GLOFND_OK;
}

static glofnd_status take_knn(gf_error *err, gf_run_log *r, const gf_jsonl_reader *line) {
    double untrained = 0.0, top1 = NAN;
    const char *test = gf_jsonl_get_text(line, "test");
    (void)err;
    gf_jsonl_get(line, "untrained", &untrained);
    gf_jsonl_get(line, "top1", &top1);
    *(untrained != 0.0 ? &r->knn_untrained : &r->knn) = 100.0 * top1;
    gf_jsonl_get_integer(line, "k", &r->knn_k);
    snprintf(r->knn_test, sizeof r->knn_test, "%s", test ? test : "");
    return GLOFND_OK;
}

static glofnd_status read_lines(gf_error *err, gf_run_log *r, const char *path, const char *event,
                                glofnd_status (*take)(gf_error *, gf_run_log *, const gf_jsonl_reader *)) {
    gf_jsonl_reader line = {0};
    glofnd_status status = GLOFND_OK;
    TRY(gf_jsonl_read_open(&line, err, path));
    while (status == GLOFND_OK && gf_jsonl_next(&line)) {
        const char *found = gf_jsonl_get_text(&line, "event");
        if (found && strcmp(found, event) == 0) status = take(err, r, &line);
    }
    if (status == GLOFND_OK) status = line.status;
    gf_jsonl_read_close(&line);
    return status;
}

static glofnd_status read_all(gf_error *err, const char *run, gf_run_log *r) {
    char path[PATH_MAX];
    TRY(path_of(err, path, run, "config.cfg"));
    FAIL_IF(err, access(path, R_OK) != 0, GLOFND_E_IO, "%s cannot be read: %.100s is not the folder of a run", path, run);
    TRY(gf_config_init(err, &r->config));
    TRY(gf_config_read(err, &r->config, path));
    TRY(path_of(err, path, run, "log.jsonl"));
    TRY(read_lines(err, r, path, "epoch", take_epoch));
    TRY(path_of(err, path, run, "eval.jsonl"));
    return access(path, F_OK) == 0 ? read_lines(err, r, path, "knn", take_knn) : GLOFND_OK;
}

glofnd_status gf_run_log_read(gf_error *err, const char *run, gf_run_log *out) {
    *out = (gf_run_log){.knn = NAN, .knn_untrained = NAN};
    name_of(run, out->name, sizeof out->name);
    const glofnd_status status = read_all(err, run, out);
    if (status != GLOFND_OK) gf_run_log_free(out);
    return status;
}

void gf_run_log_free(gf_run_log *r) {
    for (int f = 0; f < GF_RUN_FIELD_COUNT; f++) free(r->field[f]);
    *r = (gf_run_log){0};
}

double gf_run_last(const gf_run_log *r, gf_run_field field) { return r->epochs ? r->field[field][r->epochs - 1] : NAN; }
