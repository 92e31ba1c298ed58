/* share.c - see share.h. */
#include "programs/sweep/share.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "programs/cli.h"
#include "data/dataset.h"
#include "run/run_folder.h"
#include "run/resume.h"

/* ----- groups ----- */

/* Epochs that the run can take over: until its detector starts. Where that is never, all but the last, which makes the files of
 * its own. */
static int32_t shared_epochs(const sweep_run *r) {
    const int32_t start = gf_detector_start(&r->resolved), most = r->resolved.epochs - 1;
    return start < most ? start : most;
}

/* Of them, those that it can take over from t. */
static int32_t epochs_from(const sweep_run *r, const sweep_run *t) {
    const int32_t own = shared_epochs(r), start = gf_detector_start(&t->resolved);
    return own < start ? own : start;
}

static int64_t step_of(const sweep_run *r, int32_t epoch) { return epoch * r->epoch_steps; }

static glofnd_status count_steps(gf_error *err, sweep_run *r) {
    gf_dataset *data = NULL;
    TRY(gf_dataset_open(err, r->resolved.data, &data));
    r->epoch_steps = gf_dataset_describe(data).n / r->resolved.batch;
    gf_dataset_free(data);
    return GLOFND_OK;
}

/* Runs that take the same steps have the number of the first of them; the data of a group is opened once. */
static glofnd_status find_groups(gf_error *err, sweep_run *runs, int count) {
    for (int i = 0; i < count; i++) {
        runs[i].group = i;
        for (int k = 0; k < i && runs[i].group == i; k++)
            if (runs[k].group == k && !gf_early_key(&runs[k].resolved, &runs[i].resolved)) runs[i].group = k;
        sweep_run *first = &runs[runs[i].group];
        if (first != &runs[i] && first->epoch_steps == 0) TRY(count_steps(err, first));
        runs[i].epoch_steps = first->epoch_steps;
    }
    return GLOFND_OK;
}

/* ----- who begins as whose copy ----- */

static int has_folder(const sweep_run *r) { return access(r->path, F_OK) == 0; }

static int keeps(const sweep_run *r, int32_t epoch) {
    for (int i = 0; i < r->keep_count; i++)
        if (r->keep[i] == epoch) return 1;
    return 0;
}

/* *yes: the run has the checkpoint of this epoch, or is still to come there. A branch comes only to those after its beginning. */
static glofnd_status can_supply(gf_error *err, const sweep_run *t, int32_t epoch, int *yes) {
    char latest[PATH_MAX];
    *yes = 0;
    if ((t->trunk >= 0 && epoch <= t->from) || (t->keep_count == GF_KEPT_EPOCHS && !keeps(t, epoch))) return GLOFND_OK;
    TRY(gf_checkpoint_exists(err, t->path, step_of(t, epoch), yes));
    if (*yes || t->finished) return GLOFND_OK;
    TRY(gf_checkpoint_latest(err, t->path, latest));
    *yes = !*latest || gf_checkpoint_step(latest) < step_of(t, epoch);
    return GLOFND_OK;
}

/* 1: a starts later than b; of equal ones the first. */
static int is_later(const sweep_run *a, const sweep_run *b) {
    const int32_t x = gf_detector_start(&a->resolved), y = gf_detector_start(&b->resolved);
    return x != y ? x > y : a < b;
}

static int memories(const sweep_run *r) { return __builtin_popcount(gf_detector_memory(&r->resolved)); }

/* 1: a comes before b: it remembers more, or starts later. Only runs that come before r can be its trunk. */
static int is_before(const sweep_run *a, const sweep_run *b) {
    return memories(a) != memories(b) ? memories(a) > memories(b) : is_later(a, b);
}

/* The run of its group that gives r most epochs; of equal ones the first in this order. */
static glofnd_status find_trunk(gf_error *err, sweep_run *runs, int count, sweep_run *r) {
    int best = -1, yes;
    if (r->finished || has_folder(r)) return GLOFND_OK;
    for (int i = 0; i < count; i++) {
        const sweep_run *t = &runs[i];
        const int32_t epoch = epochs_from(r, t), most = best < 0 ? 0 : epochs_from(r, &runs[best]);
        if (t->group != r->group || !is_before(t, r) || gf_parting_key(&t->resolved, &r->resolved)) continue;
        if (epoch < most || epoch < 1 || (epoch == most && !is_before(t, &runs[best]))) continue;
        TRY(can_supply(err, t, epoch, &yes));
        if (yes) best = i;
    }
    if (best < 0) return GLOFND_OK;
    sweep_run *t = &runs[best];
    r->trunk = best, r->from = epochs_from(r, t);
    if (!keeps(t, r->from)) t->keep[t->keep_count++] = r->from;
    return GLOFND_OK;
}

static int compare_runs(const void *a, const void *b) {
    const sweep_run *const *x = a, *const *y = b;
    return is_before(*x, *y) ? -1 : 1;
}

/* In this order: whether the trunk of a run is a branch itself is known then. */
glofnd_status sweep_share_plan(gf_error *err, const sweep_plan *p, sweep_run *runs, int count) {
    if (!p->share) return GLOFND_OK;
    TRY(find_groups(err, runs, count));
    sweep_run **order = malloc((size_t)count * sizeof *order);
    FAIL_IF(err, !order, GLOFND_E_MEMORY, "no memory for %d runs", count);
    for (int i = 0; i < count; i++) order[i] = &runs[i];
    qsort(order, (size_t)count, sizeof *order, compare_runs);
    glofnd_status status = GLOFND_OK;
    for (int i = 0; i < count && status == GLOFND_OK; i++) status = find_trunk(err, runs, count, order[i]);
    free(order);
    return status;
}

/* ----- while they run ----- */

/* 1: the checkpoint of t is the user's, or a branch still needs it. */
static int is_needed(const sweep_run *runs, int count, const sweep_run *t, int32_t epoch) {
    int32_t own[GF_KEPT_EPOCHS];
    int owned = 0;
    if (gf_config_kept_epochs(NULL, &t->resolved, own, &owned) != GLOFND_OK) return 1;
    for (int i = 0; i < owned; i++)
        if (own[i] == epoch) return 1;
    for (int i = 0; i < count; i++)
        if (runs[i].trunk >= 0 && &runs[runs[i].trunk] == t && runs[i].from == epoch && !has_folder(&runs[i])) return 1;
    return 0;
}

static void release(const sweep_run *runs, int count, const sweep_run *t, int32_t epoch) {
    if (epoch > 0 && t->epoch_steps > 0 && !is_needed(runs, count, t, epoch))
        gf_checkpoint_drop(t->path, step_of(t, epoch), t->resolved.keep_checkpoints);
}

int sweep_share_begin(sweep_run *runs, int count, sweep_run *r, int trunk_ended, char *said, size_t bytes) {
    const sweep_run *t = &runs[r->trunk];
    const int64_t step = step_of(r, r->from);
    gf_error err = {{0}};
    int there = 0;
    *said = 0;
    glofnd_status status = gf_checkpoint_exists(&err, t->path, step, &there);
    if (status == GLOFND_OK && !there && !trunk_ended) return 0;
    if (status == GLOFND_OK && !there)
        status = gf_fail(&err, GLOFND_E_IO, "%.200s has ended without its checkpoint after %d epochs", t->name, (int)r->from);
    if (status == GLOFND_OK) status = gf_branch_make(&err, t->path, step, r->path, &r->resolved);
    if (status == GLOFND_OK) {
        snprintf(said, bytes, "%s begins as %s after %d epoch%s", r->name, t->name, (int)r->from, r->from == 1 ? "" : "s");
        release(runs, count, t, r->from);
        return 1;
    }
    snprintf(said, bytes, "%s shares nothing and begins by itself: %.400s", r->name, err.text);
    r->trunk = -1, r->from = 0;
    return 1;
}

void sweep_share_clean(const sweep_plan *p, const sweep_run *runs, int count, int leftovers) {
    if (!p->share) return;
    for (int i = 0; i < count && leftovers; i++) gf_branch_clean(runs[i].path);
    for (int t = 0; t < count; t++)
        for (int i = 0; i < count; i++)
            if (i != t && runs[i].group == runs[t].group) release(runs, count, &runs[t], epochs_from(&runs[i], &runs[t]));
}

/* ----- for people ----- */

/* A key that keeps runs of one seed apart, whichever of them were the first; NULL: none does. */
static const char *reason(const sweep_run *runs, int count) {
    for (int i = 1; i < count; i++) {
        const gf_config *a = &runs[0].resolved, *b = &runs[i].resolved;
        const char *key = strcmp(runs[i].seed, runs[0].seed) == 0 && gf_parting_key(b, a) ? gf_parting_key(a, b) : NULL;
        if (key) return key;
    }
    return NULL;
}

void sweep_share_print(FILE *to, const sweep_plan *p, const sweep_run *runs, int count) {
    int64_t saved = 0, all = 0;
    int branches = 0;
    if (!p->share) return;
    for (int i = 0; i < count; i++) {
        all += runs[i].finished ? 0 : runs[i].resolved.epochs;
        saved += runs[i].from;
        branches += runs[i].trunk >= 0;
    }
    const char *key = reason(runs, count);
    if (branches)
        gf_print(to, "shared: %d run%s begin%s as a copy of another, which saves %lld of %lld epochs\n", branches,
                 branches == 1 ? "" : "s", branches == 1 ? "s" : "", (long long)saved, (long long)all);
    else
        gf_print(to, "shared: nothing%s%s%s\n", key ? "; " : "", key ? key : "",
                 key ? " must be equal, as it acts from the first step on" : "");
}
