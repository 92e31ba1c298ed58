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
