/* comparable.c - see comparable.h. */
#include "report/comparable.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

/* ----- the figure of a run ----- */

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
