/* trained_run.c - see trained_run.h. */
#include "programs/trained_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"

void eval_progress_begin(eval_progress *p, const char *what) {
    *p = (eval_progress){.line = gf_progress_start(0, cli_progress_mode()), .what = what};
}

void eval_progress_draw(void *user, int64_t done, int64_t total) {
    eval_progress *p = user;
    char text[120];
    snprintf(text, sizeof text, "%s: %lld of %lld encoded", p->what, (long long)done, (long long)total);
    gf_progress_draw(&p->line, done, total, text, done == total);
}

void eval_progress_pairs(void *user, const char *stage, double share) {
    enum { STEPS = 1000 };
    eval_progress *p = user;
    char text[120];
    if (p->what != stage) eval_progress_begin(p, stage); /* every stage has a time of its own */
    snprintf(text, sizeof text, "%s: %.0f %%", stage, 100.0 * share);
    gf_progress_draw(&p->line, (int64_t)(share * STEPS), STEPS, text, share >= 1.0);
}

/* Samples left out since the last end of a progress: a sample may be met several times, in views or epochs. */
static struct {
    uint8_t *seen; /* bits */
    size_t capacity;
    int64_t count; /* different samples */
    int captions;  /* of some only a caption */
} left;

/* 1: not reported before. Without memory to know, all but the first were. */
static int is_new(int64_t i) {
    const size_t before = left.capacity;
    if (!gf_grow(&left.seen, &left.capacity, (size_t)(i / 8) + 1, 1)) return left.count == 0;
    memset(left.seen + before, 0, left.capacity - before);
    const int known = left.seen[i / 8] >> (i % 8) & 1;
    left.seen[i / 8] |= (uint8_t)(1 << i % 8);
    return !known;
}

void eval_progress_end(eval_progress *p) {
    gf_progress_end(&p->line);
    if (left.count > EVAL_NAMED)
        gf_print(stderr, "glofnd eval: %lld samples in all are left out%s\n", (long long)left.count,
                 left.captions ? " or lack a caption" : "");
    free(left.seen);
    left.seen = NULL;
    left.capacity = 0, left.count = 0, left.captions = 0;
}

static void warn(int64_t i, const char *what, const char *message) {
    if (i < 0 || !is_new(i)) return;
    if (left.count++ < EVAL_NAMED) gf_print(stderr, "glofnd eval: sample %lld %s: %s\n", (long long)i, what, message);
}

void eval_warn(void *user, int64_t i, const char *message) {
    (void)user;
    warn(i, "is left out", message);
}

void eval_warn_caption(void *user, int64_t i, const char *message) {
    (void)user;
    left.captions = 1;
    warn(i, "lacks a caption", message);
}

void eval_note(const gf_dataset *d) {
    if (d && *gf_dataset_note(d)) gf_print(stderr, "glofnd eval: %s\n", gf_dataset_note(d));
}

/* ----- the device ----- */

int device_flags_check(const char *title, const char *device) {
    gf_error err = {{0}};
    glofnd_device found;
    const glofnd_status status = gf_run_encoder_device(&err, device, &found);
    return status == GLOFND_OK ? CLI_OK : cli_failed(title, status, &err);
}

int device_flags_read(const cli_call *call, const device_flags *f, gf_encoder_device *out) {
    *out = (gf_encoder_device){.device = f->device, .threads = (int)f->threads};
    return f->device ? device_flags_check(call->title, f->device) : CLI_OK;
}

void device_flags_report(const char *verb, const gf_run_encoder *e) {
    const gf_run_state *s = gf_run_encoder_state(e);
    const char *why = gf_run_encoder_cpu_fallback(e);
    if (*s->weights && s->step >= 0)
        gf_print(stderr, "glofnd %s: weights of step %lld, %s\n", verb, (long long)s->step, s->weights);
    if (*gf_run_encoder_data(e) && strcmp(gf_run_encoder_data(e), gf_run_encoder_config(e)->data) != 0)
        gf_print(stderr, "glofnd %s: data of the run: %s\n", verb, gf_run_encoder_data(e));
    if (*s->weights && *s->note) gf_print(stderr, "glofnd %s: note: %s\n", verb, s->note);
    if (*why) gf_print(stderr, "glofnd %s: the run was trained on cuda, which cannot be used here (%s): on the CPU\n", verb, why);
}

glofnd_status device_flags_open(gf_error *err, const char *verb, const gf_run_encoder_spec *spec, gf_run_encoder **out) {
    TRY(gf_run_encoder_create(err, spec, out));
    device_flags_report(verb, *out);
    return GLOFND_OK;
}
