/* monitor.c - see monitor.h. */
#include "loop/monitor.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/file.h"
#include "run/run_folder.h"
#include "run/run_log.h"
#include "util/machine.h"
#include "util/text.h"

/* ----- thresholds -----
 *
 * Each rank writes those of its own anchors to their places, and zeros elsewhere: the sum over ranks is that of all, without
 * rounding. */

static glofnd_status read_anchors(gf_error *err, glofnd_ctx *c, const glofnd_store *s, int side, const int64_t *id, int64_t n,
                                  glofnd_anchor *row) {
    const glofnd_status status = glofnd_anchors_get(c, s, side, id, n, row);
    FAIL_IF(err, status != GLOFND_OK, status, "thresholds cannot be read: %s", glofnd_ctx_error(c));
    return GLOFND_OK;
}

glofnd_status gf_lambdas_take(gf_error *err, const gf_trainer *t, int64_t max, gf_lambdas *x) {
    const int64_t stride = (t->info.n + max - 1) / max;
    x->count = (t->info.n + stride - 1) / stride;
    for (int k = 0; k < t->encoders.count && !x->side[k]; k++) {
        x->side[k] = malloc(sizeof(float) * (size_t)x->count);
        FAIL_IF(err, !x->side[k], GLOFND_E_MEMORY, "no memory for %lld thresholds", (long long)x->count);
    }
    for (int k = 0; k < t->encoders.count; k++) {
        memset(x->side[k], 0, sizeof(float) * (size_t)x->count);
        /* This rank's anchors among every stride-th. In parts, since every call may go to a device. */
        enum { PART = 512 };
        const int rank = t->comm ? t->comm->rank : 0, ranks = t->comm ? t->comm->ranks : 1;
        const gf_shard *own = gf_loss_stage_shard(t->loss);
        glofnd_ctx *whole = gf_loss_stage_ctx(t->loss);
        glofnd_ctx *c = own ? gf_shard_ctx(own) : whole;
        const glofnd_store *store = own ? gf_shard_store(own) : gf_loss_stage_store(t->loss);
        const int64_t shared_id = GLOFND_SHARED;
        glofnd_anchor row[PART], shared;
        int64_t id[PART], place[PART];
        TRY(read_anchors(err, whole, gf_loss_stage_store(t->loss), k, &shared_id, 1, &shared));
        for (int64_t j = 0; j < x->count;) {
            int64_t n = 0;
            for (; n < PART && j < x->count; j++)
                if (j * stride % ranks == rank) id[n] = j * stride / ranks, place[n++] = j;
            if (n > 0) TRY(read_anchors(err, c, store, k, id, n, row));
            for (int64_t i = 0; i < n; i++)
                x->side[k][place[i]] = row[i].clock > 0 || shared.clock == 0 ? row[i].lambda : shared.lambda;
        }
        if (t->comm) TRY(t->comm->ops->sum_floats(err, t->comm, x->side[k], x->count));
    }
    return GLOFND_OK;
}

void gf_lambdas_free(gf_lambdas *x) {
    for (int k = 0; k < 2; k++) free(x->side[k]);
    *x = (gf_lambdas){0};
}

double gf_lambdas_mean(const gf_lambdas *x, int side) {
    double sum = 0.0;
    for (int64_t i = 0; x->side[side] && i < x->count; i++) sum += (double)x->side[side][i];
    return x->side[side] && x->count > 0 ? sum / (double)x->count : NAN;
}

/* ----- the records -----
 *
 * Records hold nothing that differs between equal runs but fields named time_* and *_per_s. */

glofnd_status gf_monitor_open(gf_error *err, gf_monitor *m, const gf_trainer *t, const char *run, gf_log_marks marks,
                              gf_progress_mode mode) {
    char path[PATH_MAX];
    int64_t keep = 0; /* bytes of log.jsonl */
    *m = (gf_monitor){.progress = gf_progress_start(t->step, mode), .started = gf_clock(), .lines = marks.log_lines};
    m->progress.next = 0.0; /* a log shows the first step, and how long it took */
    TRY(gf_path_join(err, path, run, GF_LOG_FILE));
    if (m->lines != 0) { /* where there are fewer, or no file, it becomes the number of whole lines */
        int64_t found = 0, at = 0;
        FILE *f = gf_stream_open(path, "r");
        FAIL_IF(err, !f && errno != ENOENT, GLOFND_E_IO, "%s cannot be read: %s", path, strerror(errno));
        for (int c; f && found < m->lines && (c = getc_unlocked(f)) != EOF;) {
            at++;
            if (c == '\n') found++, keep = at;
        }
        const int failed = f && ferror(f), why = errno;
        if (f) fclose(f);
        FAIL_IF(err, failed, GLOFND_E_IO, "%s cannot be read: %s", path, strerror(why));
        m->lines = found;
    }
    TRY(gf_log_save_tail(err, path, (uint64_t)keep));
    TRY(gf_jsonl_open(err, &m->log, path, keep));
    TRY(gf_path_join(err, path, run, GF_EVENTS_FILE));
    /* Keeps event_bytes; if that is no end of an event, all whole events; and if there are none, a new file begins. */
    int there;
    TRY(gf_exists(err, path, &there));
    TRY(gf_log_save_tail(err, path, (uint64_t)marks.event_bytes));
    glofnd_status status = there ? gf_events_open(err, &m->events, path, marks.event_bytes, gf_wall_clock()) : GLOFND_E_FORMAT;
    if (status != GLOFND_E_FORMAT) return status;
    m->events_cut = marks.event_bytes > 0;
    TRY(gf_log_save_tail(err, path, 0));
    status = gf_events_open(err, &m->events, path, GF_LOG_ALL, gf_wall_clock());
    return status == GLOFND_E_FORMAT ? gf_events_open(err, &m->events, path, 0, gf_wall_clock()) : status;
}

void gf_monitor_close(gf_monitor *m) {
    gf_progress_end(&m->progress);
    gf_jsonl_close(&m->log);
    gf_events_close(&m->events);
}

/* The epoch that the last step belongs to, from 0. */
static int64_t epoch_of(const gf_trainer *t) { return (t->step - 1) / t->epoch_steps; }

/* Records go to the file at once, for `report` and TensorBoard; to the disk at the next checkpoint. */
static glofnd_status end_line(gf_monitor *m) {
    m->lines++;
    TRY(gf_jsonl_end(&m->log));
    return gf_jsonl_flush(&m->log);
}

static glofnd_status end_event(gf_monitor *m) {
    TRY(gf_events_end(&m->events));
    return gf_events_flush(&m->events);
}

/* The temperature of the next step: learned, the mean over anchors, or that of the configuration. */
static double tau_of(const gf_trainer *t) {
    if (t->learns_tau) return gf_learned_tau_value(&t->scale);
    return gf_config_individual_tau(&t->config) ? t->stats.tau_mean : t->config.method.tau;
}

/* NAN until they attract: a run without neighbours has the same records so far. */
static double neighbours_of(const gf_trainer *t) {
    const glofnd_options *o = &t->config.method;
    return o->neighbours > 0 && epoch_of(t) >= o->mask_epoch ? t->counters.neighbours : NAN;
}

/* A value that does not exist yet leaves no point in a curve. */
static void curve(gf_monitor *m, const char *tag, double value) {
    if (isfinite(value)) gf_events_scalar(&m->events, tag, value);
}

glofnd_status gf_monitor_step(gf_monitor *m, const gf_trainer *t) {
    const glofnd_stats *s = &t->stats;
    const gf_step_times *times = &t->times;
    const double step = times->load + times->forward + times->loss + times->backward + times->optimizer;
    char text[200], lambda[32] = "", kept[32] = "";
    /* A run without learned thresholds has no lambda, one that flags nothing no share of kept negatives to show. */
    if (gf_config_learns_lambda(&t->config)) snprintf(lambda, sizeof lambda, "lambda %6.3f | ", t->stats.lambda_mean);
    if (gf_config_flags(&t->config)) snprintf(kept, sizeof kept, "kept %6.2f%% | ", 100.0 * t->stats.kept_share);
    snprintf(text, sizeof text, "epoch %3lld/%d | step %6lld | loss %7.4f | %s%slr %.1e | %4.0f ms | %5.0f img/s",
             (long long)(epoch_of(t) + 1), (int)t->config.epochs, (long long)t->step, t->stats.loss, lambda, kept, t->lr,
             1e3 * step, (double)t->config.batch / step);
    gf_progress_draw(&m->progress, t->step, gf_trainer_steps(t), text, t->step == gf_trainer_steps(t));
    if (t->step % t->config.log_steps != 0) return GLOFND_OK;
    const double value[GF_RUN_STEP_COUNT] = {
        [GF_STEP_STEP] = (double)t->step,
        [GF_STEP_EPOCH] = (double)epoch_of(t),
        [GF_STEP_LOSS] = s->loss,
        [GF_STEP_LR] = t->lr,
        [GF_STEP_GRAD_NORM] = t->grad_norm,
        [GF_STEP_LAMBDA] = s->lambda_mean,
        [GF_STEP_KEPT] = s->kept_share,
        [GF_STEP_LOG_U] = s->log_u_mean,
        [GF_STEP_TAU] = tau_of(t),
        [GF_STEP_RESCUED] = (double)s->rescued,
        [GF_STEP_TIME_LOAD] = t->times.load,
        [GF_STEP_TIME_FORWARD] = t->times.forward,
        [GF_STEP_TIME_LOSS] = t->times.loss,
        [GF_STEP_TIME_BACKWARD] = t->times.backward,
        [GF_STEP_TIME_OPTIMIZER] = t->times.optimizer,
        [GF_STEP_TIME_READ] = t->times.read,
        [GF_STEP_TIME_AUGMENT] = t->times.augment,
        [GF_STEP_SPEED] = (double)t->config.batch / step,
        [GF_STEP_NEIGHBOURS] = neighbours_of(t),
        [GF_STEP_BIAS] = t->learns_bias ? (double)t->bias.value : NAN,
    };
    gf_log_write(&m->log, &gf_log_step, value, t->config.task == GF_TASK_CLIP);
    TRY(end_line(m));
    gf_events_begin(&m->events, t->step, gf_wall_clock());
    curve(m, "train/loss", s->loss);
    curve(m, "train/lr", t->lr);
    curve(m, "train/grad_norm", t->grad_norm);
    if (gf_config_learns_lambda(&t->config)) curve(m, "train/lambda", s->lambda_mean);
    curve(m, "train/log_u", s->log_u_mean);
    if (t->config.task == GF_TASK_CLIP || t->learns_tau) curve(m, "train/tau", tau_of(t));
    if (t->learns_bias) curve(m, "train/bias", (double)t->bias.value);
    curve(m, "train/num_negatives_perc", 100.0 * s->kept_share);
    curve(m, "train/neighbours", neighbours_of(t));
    curve(m, "time/load", t->times.load);
    curve(m, "time/forward", t->times.forward);
    curve(m, "time/loss", t->times.loss);
    curve(m, "time/backward", t->times.backward);
    curve(m, "time/optimizer", t->times.optimizer);
    return end_event(m);
}

static double ratio(double a, double b) { return b > 0.0 ? a / b : NAN; }

typedef struct epoch_means { /* NaN: nothing to divide by */
    double loss, lambda, kept, flagged;
    double precision, recall, f1;                      /* means over anchors; NaN: there are no labels, or nothing was flagged */
    double pooled_precision, pooled_recall, pooled_f1; /* over all pairs of the epoch */
} epoch_means;

static epoch_means means_of(const gf_epoch_sums *e) {
    const int labelled = e->quality_steps > 0.0,
              judged = labelled && e->flagged > 0.0; /* else the means are 0/0 = 1 and 0 + eps */
    epoch_means x = {
        .loss = ratio(e->loss, e->steps),
        .lambda = ratio(e->lambda, e->steps),
        .kept = ratio(e->kept, e->steps),
        .flagged = ratio(e->flagged, e->pairs),
        .precision = judged ? e->precision / e->quality_steps : NAN,
        .recall = judged ? e->recall / e->quality_steps : NAN,
        .pooled_precision = labelled ? ratio(e->hits, e->flagged) : NAN,
        .pooled_recall = labelled ? ratio(e->hits, e->same) : NAN,
    };
    x.f1 = ratio(2.0 * x.precision * x.recall, x.precision + x.recall);
    x.pooled_f1 = judged ? 2.0 * e->hits / (e->flagged + e->same) : NAN;
    return x;
}

glofnd_status gf_monitor_epoch(gf_monitor *m, const gf_trainer *t, const gf_lambdas *lambdas, double knn, double *value) {
    const epoch_means x = means_of(&t->sums);
    const double epoch_value[GF_RUN_FIELD_COUNT] = {
        [GF_RUN_STEP] = (double)t->step,
        [GF_RUN_EPOCH] = (double)epoch_of(t),
        [GF_RUN_LOSS] = x.loss,
        [GF_RUN_LAMBDA] = x.lambda,
        [GF_RUN_LAMBDA_IMAGE] = gf_lambdas_mean(lambdas, 0),
        [GF_RUN_LAMBDA_TEXT] = gf_lambdas_mean(lambdas, 1),
        [GF_RUN_KEPT] = x.kept,
        [GF_RUN_FLAGGED] = x.flagged,
        [GF_RUN_PRECISION] = x.precision,
        [GF_RUN_RECALL] = x.recall,
        [GF_RUN_F1] = x.f1,
        [GF_RUN_POOLED_PRECISION] = x.pooled_precision,
        [GF_RUN_POOLED_RECALL] = x.pooled_recall,
        [GF_RUN_POOLED_F1] = x.pooled_f1,
        [GF_RUN_DAMAGED] = t->sums.damaged,
        [GF_RUN_SECONDS] = gf_clock() - m->started,
        [GF_RUN_KNN] = knn,
    };
    memcpy(value, epoch_value, sizeof epoch_value);
    gf_log_write(&m->log, &gf_log_epoch, epoch_value, t->encoders.count == 2);
    TRY(end_line(m));
    gf_events_begin(&m->events, t->step, gf_wall_clock());
    curve(m, "epoch/loss", x.loss);
    curve(m, "epoch/flagged_perc", 100.0 * x.flagged);
    curve(m, "epoch/lda_precision", x.precision);
    curve(m, "epoch/lda_recall", x.recall);
    curve(m, "epoch/lda_f1", x.f1);
    curve(m, "epoch/pooled_precision", x.pooled_precision);
    curve(m, "epoch/pooled_recall", x.pooled_recall);
    curve(m, "epoch/pooled_f1", x.pooled_f1);
    curve(m, "eval/knn_top1", knn);
    if (!gf_config_learns_lambda(&t->config)) return end_event(m);
    gf_events_histogram(&m->events, "lambda", lambdas->side[0], lambdas->count, 64);
    if (t->encoders.count == 2) gf_events_histogram(&m->events, "lambda_text", lambdas->side[1], lambdas->count, 64);
    return end_event(m);
}

int gf_monitor_summary(gf_monitor *m, const gf_trainer *t, double knn, char *out, size_t bytes) {
    const epoch_means x = means_of(&t->sums);
    const int64_t steps = gf_trainer_steps(t), done = t->step - m->progress.first;
    const double at = gf_clock(), per_step = (at - m->started) / (double)(done > 0 ? done : 1);
    char flags[160], took[32], left[32], top1[40] = "", unreadable[40] = "";
    if (m->progress.mode == GF_PROGRESS_QUIET ||
        (!isfinite(knn) && t->step < steps && at - (m->summarised > 0.0 ? m->summarised : m->started) < 10.0))
        return 0;
    m->summarised = at;
    m->progress.open = 0; /* this line takes its place */
    m->progress.next = gf_clock() + gf_progress_interval(at - m->started);
    gf_progress_time(at - m->started, took, sizeof took);
    gf_progress_time(per_step * (double)(steps - t->step), left, sizeof left);
    /* ", lambda 0.412, flagged 1.02%, precision 23.5%, recall 23.6% (per anchor 31.2%, 40.1%)": what this run has of it. */
    size_t used = 0;
    *flags = 0;
    if (gf_config_learns_lambda(&t->config)) used += (size_t)snprintf(flags, sizeof flags, ", lambda %.3f", x.lambda);
    if (gf_config_flags(&t->config)) {
        used += (size_t)snprintf(flags + used, sizeof flags - used, ", flagged %.2f%%", 100.0 * x.flagged);
        if (isfinite(x.pooled_precision) && isfinite(x.pooled_recall))
            snprintf(flags + used, sizeof flags - used, ", precision %.1f%%, recall %.1f%% (means per anchor %.1f%%, %.1f%%)",
                     100.0 * x.pooled_precision, 100.0 * x.pooled_recall, 100.0 * x.precision, 100.0 * x.recall);
        else if (isfinite(x.pooled_recall))
            snprintf(flags + used, sizeof flags - used, ", precision –, recall %.1f%%", 100.0 * x.pooled_recall);
    }
    if (isfinite(knn)) snprintf(top1, sizeof top1, ", kNN %.2f%%", 100.0 * knn);
    if (t->sums.damaged > 0.0) snprintf(unreadable, sizeof unreadable, ", %.0f unreadable", t->sums.damaged);
    snprintf(out, bytes, "epoch %lld/%d: loss %.4f%s%s%s; %s so far, %s to go", (long long)(t->step / t->epoch_steps),
             (int)t->config.epochs, x.loss, top1, flags, unreadable, took, left);
    return 1;
}

glofnd_status gf_monitor_remapped(gf_monitor *m, const gf_trainer *t, const gf_remap *found) {
    gf_jsonl *j = &m->log;
    gf_jsonl_begin(j);
    gf_jsonl_text(j, "event", "remap");
    gf_jsonl_integer(j, "step", t->step);
    gf_jsonl_integer(j, "kept", found->kept);
    gf_jsonl_integer(j, "new", found->fresh);
    gf_jsonl_integer(j, "lost", found->lost);
    return end_line(m);
}

void gf_monitor_unreadable(gf_monitor *m, const gf_trainer *t, int64_t step, int64_t i, const char *message) {
    char name[512];
    gf_dataset_name(t->data, i, name, sizeof name);
    gf_jsonl_begin(&m->log);
    gf_jsonl_text(&m->log, "event", "damaged");
    gf_jsonl_integer(&m->log, "step", step);
    gf_jsonl_integer(&m->log, "sample", i);
    gf_jsonl_text(&m->log, "name", name);
    gf_jsonl_text(&m->log, "message", message);
    end_line(m);
}

glofnd_status gf_monitor_sync(gf_monitor *m, gf_log_marks *marks) {
    int log, events;
    TRY(gf_log_restore(&m->log.log, &log));
    TRY(gf_log_restore(&m->events.log, &events));
    m->restored += log + events;
    TRY(gf_jsonl_sync(&m->log));
    TRY(gf_events_sync(&m->events));
    *marks = (gf_log_marks){m->lines, (int64_t)gf_events_offset(&m->events)};
    return GLOFND_OK;
}

void gf_monitor_forget_tails(gf_error *err, const char *run) {
    static const char *const files[] = {GF_LOG_FILE, GF_EVENTS_FILE};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (gf_path_join(err, path, run, files[i]) == GLOFND_OK) gf_log_forget_tail(path);
}
