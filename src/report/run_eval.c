/* run_eval.c - see run_eval.h. */
#include "report/run_eval.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int gf_run_line(gf_jsonl_reader *r, int64_t *skipped) {
    while (!gf_jsonl_next(r)) {
        if (r->status != GLOFND_E_FORMAT) return 0;
        r->status = GLOFND_OK;
        ++*skipped;
    }
    return 1;
}

#define FIGURE(name) {#name, offsetof(gf_eval_line, name)}
#define TEXT(name) {#name, offsetof(gf_eval_line, name), sizeof ((gf_eval_line *)0)->name}

static const struct {
    const char *key;
    size_t at;
} figures[] = {
    FIGURE(fraction), FIGURE(k), FIGURE(top1), FIGURE(top5), FIGURE(score), FIGURE(precision), FIGURE(recall), FIGURE(f1),
    FIGURE(flagged), FIGURE(alpha), FIGURE(anchors), FIGURE(mae), FIGURE(rmse), FIGURE(fnc_mae), FIGURE(fnc_rmse),
    FIGURE(optimum_mean), FIGURE(lambda_mean), FIGURE(ir1), FIGURE(ir5), FIGURE(ir10), FIGURE(tr1), FIGURE(tr5), FIGURE(tr10),
};

static const struct {
    const char *key;
    size_t at, room;
} texts[] = {TEXT(event), TEXT(protocol), TEXT(dataset), TEXT(detector), TEXT(pairs), TEXT(data), TEXT(test)};

static gf_eval_line line_of(const gf_jsonl_reader *r) {
    gf_eval_line e = {0};
    double untrained = 0.0;
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        double *to = (double *)(void *)((char *)&e + figures[i].at);
        *to = NAN;
        gf_jsonl_get(r, figures[i].key, to);
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *text = gf_jsonl_get_text(r, texts[i].key);
        snprintf((char *)&e + texts[i].at, texts[i].room, "%s", text ? text : "");
    }
    gf_jsonl_get(r, "untrained", &untrained);
    e.untrained = untrained != 0.0;
    return e;
}

static int same_kind(const gf_eval_line *a, const gf_eval_line *b) {
    return strcmp(a->event, b->event) == 0 && strcmp(a->protocol, b->protocol) == 0 && strcmp(a->dataset, b->dataset) == 0 &&
           strcmp(a->data, b->data) == 0 && strcmp(a->test, b->test) == 0 && a->untrained == b->untrained &&
           (a->fraction == b->fraction || (isnan(a->fraction) && isnan(b->fraction)));
}

static glofnd_status keep(gf_error *err, gf_run_eval *all, const gf_eval_line *e) {
    for (int i = 0; i < all->count; i++)
        if (same_kind(&all->line[i], e)) {
            all->line[i] = *e;
            return GLOFND_OK;
        }
    if (all->count == all->room) {
        const int room = all->room ? 2 * all->room : 32;
        gf_eval_line *grown = realloc(all->line, (size_t)room * sizeof *grown);
        FAIL_IF(err, !grown, GLOFND_E_MEMORY, "no memory for %d evaluations", room);
        all->line = grown, all->room = room;
    }
    all->line[all->count++] = *e;
    return GLOFND_OK;
}

glofnd_status gf_run_eval_read(gf_error *err, const char *run, gf_run_eval *out) {
    char path[1100];
    gf_jsonl_reader r = {0};
    glofnd_status status = GLOFND_OK;
    *out = (gf_run_eval){0};
    const int n = snprintf(path, sizeof path, "%s/eval.jsonl", run);
    FAIL_IF(err, n < 0 || (size_t)n >= sizeof path, GLOFND_E_ARGUMENT, "the path of %.100s is too long", run);
    if (access(path, F_OK) != 0) return GLOFND_OK;
    TRY(gf_jsonl_read_open(&r, err, path));
    while (status == GLOFND_OK && gf_run_line(&r, &out->skipped)) {
        const gf_eval_line e = line_of(&r);
        if (*e.event) status = keep(err, out, &e);
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
