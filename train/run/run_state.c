/* run_state.c - see run_state.h. */
#include "run/run_state.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/calls.h"
#include "io/safetensors.h"
#include "run/checkpoint_folder.h"
#include "run/layout.h"
#include "run/manifest.h"

typedef struct model {         /* RUN/model.safetensors */
    int there, whole, checked; /* whole: it can be read and nothing contradicts it; checked: by its own checksum */
    int64_t step, vocabulary;  /* -1: it does not say */
} model;

/* A number among the texts of a model; -1: none. */
static int64_t number_in(const gf_st_file *f, const char *key, int base) {
    const char *text = gf_st_find_text(f, key);
    char *end = NULL;
    const long long n = text && isxdigit((unsigned char)*text) ? strtoll(text, &end, base) : -1;
    return end && !*end ? n : -1;
}

/* A corrupt one is a finding, not a failure: the checkpoint may be fine. */
static glofnd_status inspect(gf_error *err, const char *path, model *m) {
    gf_st_file f = {0};
    *m = (model){.step = -1, .vocabulary = -1};
    TRY(gf_exists(err, path, &m->there));
    if (!m->there) return GLOFND_OK;
    glofnd_status status = gf_st_open(err, path, &f);
    if (status == GLOFND_OK) m->step = number_in(&f, GF_MODEL_STEP, 10), m->vocabulary = number_in(&f, GF_MODEL_VOCABULARY, 16);
    if (status == GLOFND_OK) status = gf_st_check(err, &f, &m->checked);
    gf_st_close(&f);
    m->whole = status == GLOFND_OK;
    return status == GLOFND_E_IO || status == GLOFND_E_MEMORY ? status : GLOFND_OK;
}

/* Without a checkpoint the model is all there is. */
static glofnd_status take_model(gf_error *err, const char *run, const model *m, gf_run_state *out) {
    FAIL_IF(err, !m->there, GLOFND_E_IO, "%s has neither " GF_MODEL_FILE " nor a complete checkpoint", run);
    if (!m->whole) return GLOFND_E_FORMAT; /* with inspect()'s message */
    out->step = m->step, out->vocabulary = m->vocabulary;
    if (!m->checked)
        snprintf(
            out->note, sizeof out->note,
            "%.300s was written by an earlier version or another program: it has no checksum, so its weights cannot be checked",
            out->weights);
    return GLOFND_OK;
}

/* The model is not of the checkpoint's step, or has other bytes. */
static void explain(const model *m, const gf_run_state *s, const char *model_path, char *note, size_t bytes) {
    char what[80] = "is not the one of that step";
    if (!m->whole) snprintf(what, sizeof what, "is corrupt");
    else if (m->step >= 0 && m->step != s->step) snprintf(what, sizeof what, "is of step %lld", (long long)m->step);
    snprintf(note, bytes, "the newest complete state is the checkpoint of step %lld, which is used; %.300s %s",
             (long long)s->step, model_path, what);
}

static glofnd_status take_checkpoint(gf_error *err, const char *run, const model *m, gf_run_state *out) {
    char own[PATH_MAX];
    int same = 0, listed = 0;
    memcpy(own, out->weights, sizeof own);
    out->step = gf_checkpoint_step(out->checkpoint);
    if (m->there && m->whole) TRY(gf_manifest_same(err, out->checkpoint, run, GF_MODEL_FILE, &same));
    if (same) return GLOFND_OK;
    if (m->there) explain(m, out, own, out->note, sizeof out->note);
    else snprintf(out->note, sizeof out->note, "%.300s is not there: the run has not finished, or the file was removed", own);
    TRY(gf_path_join(err, out->weights, out->checkpoint, GF_MODEL_FILE));
    TRY(gf_manifest_check_one(err, out->checkpoint, GF_MODEL_FILE, &listed));
    FAIL_IF(err, !listed, GLOFND_E_FORMAT, "%s/" GF_DONE_FILE " does not list " GF_MODEL_FILE ": it is corrupt", out->checkpoint);
    return GLOFND_OK;
}

static glofnd_status find(gf_error *err, const char *run, gf_run_state *out) {
    model m;
    *out = (gf_run_state){.step = -1, .vocabulary = -1};
    TRY(gf_checkpoint_latest(err, run, out->checkpoint));
    TRY(gf_path_join(err, out->weights, run, GF_MODEL_FILE));
    TRY(inspect(err, out->weights, &m));
    return *out->checkpoint ? take_checkpoint(err, run, &m, out) : take_model(err, run, &m, out);
}

int gf_run_state_changed(const char *run, const gf_run_state *s) {
    char now[PATH_MAX];
    gf_error ignored;
    return gf_checkpoint_latest(&ignored, run, now) == GLOFND_OK && strcmp(now, s->checkpoint) != 0;
}

glofnd_status gf_run_state_find(gf_error *err, const char *run, gf_run_state *out) {
    enum { TRIES = 5 }; /* a run that trains may replace its checkpoint meanwhile */
    glofnd_status status = GLOFND_OK;
    for (int i = 0; i < TRIES; i++) {
        status = find(err, run, out);
        if (status == GLOFND_OK || !gf_run_state_changed(run, out)) break;
    }
    return status;
}
