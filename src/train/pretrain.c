/* pretrain.c - see pretrain.h. */
#include "train/pretrain.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/monitor.h"

static void say(const gf_pretrain *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(const gf_pretrain *p, const char *fmt, ...) {
    char line[600];
    va_list args;
    if (!p->say) return;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    p->say(line);
}

/* ----- run folder ----- */

static glofnd_status prepare_folder(gf_error *err, const gf_pretrain *p) {
    char path[PATH_MAX];
    FAIL_IF(err, mkdir(p->run, 0777) != 0 && errno != EEXIST, GLOFND_E_IO, "%s cannot be made: %s", p->run, strerror(errno));
    const int n = snprintf(path, sizeof path, "%s/log.jsonl", p->run);
    FAIL_IF(err, n < 0 || (size_t)n >= sizeof path - 64, GLOFND_E_ARGUMENT, "the path of the run folder is too long");
    FAIL_IF(err, !p->resume && access(path, F_OK) == 0, GLOFND_E_ARGUMENT,
            "%s holds a run already; go on with it by --resume, or take another --out", p->run);
    return GLOFND_OK;
}

/* Weights to begin with: a checkpoint, a file, or the seed. */
static glofnd_status start(gf_error *err, const gf_pretrain *p, gf_trainer *t, gf_log_marks *marks) {
    char path[PATH_MAX];
    *marks = (gf_log_marks){0, 0};
    TRY(gf_checkpoint_latest(err, p->run, path, sizeof path));
    if (p->resume && *path) {
        TRY(gf_checkpoint_load(err, t, path, marks));
        say(p, "resumed at step %lld from %s", (long long)t->step, path);
        return GLOFND_OK;
    }
    if (p->resume) say(p, "no complete checkpoint in %s: starting from the beginning", p->run);
    if (*t->config.init) TRY(gf_weights_load(err, t, t->config.init, 1));
    return GLOFND_OK;
}

static void announce(const gf_pretrain *p, const gf_trainer *t) {
    const gf_config *c = &t->config;
    int in_method;
    char arch[32], detector[32];
    for (int i = 0;; i++) {
        const gf_option *o = gf_config_option(i, &in_method);
        if (!o) break;
        if (strcmp(o->key, "arch") == 0) gf_option_format(o, c, arch, sizeof arch);
        if (strcmp(o->key, "detector") == 0) gf_option_format(o, &c->method, detector, sizeof detector);
    }
    say(p, "%s: %lld images, %s at %d px, batch %lld, %d epochs of %lld steps, peak lr %.4g, detector %s from epoch %d, about %.0f MB", c->data,
        (long long)t->info.n, arch, (int)c->size, (long long)c->batch, (int)c->epochs, (long long)t->epoch_steps, gf_config_lr(c), detector,
        (int)c->method.mask_epoch, (double)gf_trainer_bytes(t) / 1e6);
}

/* ----- the loop ----- */

static glofnd_status checkpoint(gf_error *err, const gf_pretrain *p, const gf_trainer *t, gf_monitor *m) {
    gf_log_marks marks;
    TRY(gf_monitor_sync(m, &marks));
    return gf_checkpoint_save(err, t, p->run, marks);
}

static int checkpoint_due(const gf_trainer *t) {
    const int64_t every = t->config.checkpoint_steps ? t->config.checkpoint_steps : t->epoch_steps;
    return t->step % every == 0;
}

static glofnd_status loop(gf_error *err, const gf_pretrain *p, gf_trainer *t, gf_monitor *m, gf_pretrain_end *end) {
    while (t->step < gf_trainer_steps(t)) {
        TRY(gf_trainer_step(err, t));
        TRY(gf_monitor_step(m, t));
        if (t->step % t->epoch_steps == 0) TRY(gf_monitor_epoch(err, m, t));
        const int stop = p->stop && *p->stop && t->step < gf_trainer_steps(t);
        if (stop || checkpoint_due(t)) TRY(checkpoint(err, p, t, m));
        if (stop) {
            *end = GF_PRETRAIN_STOPPED;
            return GLOFND_OK;
        }
    }
    *end = GF_PRETRAIN_FINISHED;
    return checkpoint(err, p, t, m);
}

typedef struct job {
    gf_trainer *trainer;
    gf_monitor monitor;
} job;

static void on_damaged(void *user, int64_t i, const char *message) {
    job *j = user;
    gf_monitor_damaged(&j->monitor, j->trainer, i, message);
}

static glofnd_status run(gf_error *err, const gf_pretrain *p, job *j, gf_pretrain_end *end) {
    char path[PATH_MAX];
    gf_log_marks marks;
    gf_trainer *t = j->trainer;
    TRY(start(err, p, t, &marks));
    if (t->step == gf_trainer_steps(t)) {
        *end = GF_PRETRAIN_ALREADY;
        return GLOFND_OK;
    }
    snprintf(path, sizeof path, "%s/config.cfg", p->run);
    TRY(gf_config_write(err, &t->config, path));
    announce(p, t);
    glofnd_status status = gf_monitor_open(err, &j->monitor, t, p->run, marks, p->quiet);
    if (status == GLOFND_OK) status = loop(err, p, t, &j->monitor, end);
    gf_monitor_close(&j->monitor);
    if (status != GLOFND_OK || *end != GF_PRETRAIN_FINISHED) return status;
    snprintf(path, sizeof path, "%s/model.safetensors", p->run);
    return gf_weights_save(err, t, path);
}

glofnd_status gf_pretrain_run(gf_error *err, const gf_pretrain *p, gf_pretrain_end *end) {
    gf_config config = p->config;
    job j = {0};
    TRY(gf_config_resolve(err, &config));
    TRY(prepare_folder(err, p));
    TRY(gf_trainer_create(err, &config, on_damaged, &j, &j.trainer));
    const glofnd_status status = run(err, p, &j, end);
    gf_trainer_free(j.trainer);
    return status;
}
