/* pretrain.c - see pretrain.h: messages, the beginning of a run, the loop, and its end. The run folder is held by
 * run/run_folder.h. */
#include "loop/pretrain.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"
#include "io/safetensors.h"
#include "loop/model.h"
#include "loop/monitor.h"
#include "loop/ranks.h"
#include "loop/trainer.h"
#include "run/forecast.h"
#include "run/resume.h"
#include "run/run_eval.h"
#include "run/run_folder.h"
#include "util/machine.h"

enum { EARLY = 10 }; /* steps after which a run has allocated its memory */

typedef struct job {
    const gf_pretrain *p; /* what the caller wants */
    gf_trainer *trainer;
    gf_monitor monitor;
    gf_run_hold hold;     /* of the run folder */
    int started;          /* training has begun: now a rank may fail alone */
    int warned;           /* of unreadable samples */
    glofnd_status noted;  /* several ranks: result of noting unreadable samples */
    int64_t marked;       /* bytes of eval.jsonl after its last record of training; -1: none yet */
    double saved;         /* clock at the last checkpoint; 0: none yet */
    gf_lambdas lambdas;   /* at the end of the last epoch */
    gf_remap found;       /* the anchors of the checkpoint that was resumed */
    char from[PATH_MAX];  /* that checkpoint; "": none */
    char store[PATH_MAX]; /* working file of the anchors; "": none */
    char vocab[PATH_MAX]; /* vocabulary that this process has written; "": none */
    char plans[PATH_MAX]; /* GPU: file of chosen algorithms; "": none */
} job;

static int is_first(const gf_pretrain *p) { return !p->comm || p->comm->rank == 0; }

/* Several ranks stop together. */
static glofnd_status agreed(gf_error *err, const gf_pretrain *p, glofnd_status status) {
    return p->comm ? gf_comm_agree(err, p->comm, status) : status;
}

static glofnd_status write_config(gf_error *err, const job *j) {
    char path[PATH_MAX];
    TRY(gf_path_join(err, path, j->p->run, GF_CONFIG_FILE));
    return gf_config_write(err, &j->trainer->config, path);
}

static glofnd_status write_model(gf_error *err, const job *j) {
    char path[PATH_MAX];
    TRY(gf_path_join(err, path, j->p->run, GF_MODEL_FILE));
    return gf_model_save(err, j->trainer, path);
}

/* ----- messages ----- */

/* A line, by the first of several ranks. */
static void print_report(const gf_pretrain *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void print_report(const gf_pretrain *p, const char *fmt, ...) {
    char line[1600];
    va_list args;
    if (!p->report || (p->comm && p->comm->rank > 0)) return;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    p->report(line);
}

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

/* Before memory is allocated, so that a run that does not fit has reported how much it needs. E_MEMORY: it does not fit. */
static glofnd_status announce(gf_error *err, const gf_pretrain *p, const gf_trainer *t) {
    const gf_config *c = &t->config;
    size_t bytes = 0;
    char arch[32], name[32], detector[64] = "no detector", text[100] = "", decoding[80] = "", line[300], warning[500];
    gf_config_text(c, "arch", arch, sizeof arch);
    if (c->task == GF_TASK_CLIP)
        snprintf(text, sizeof text, ", captions of %d tokens through %d layers of %d", (int)c->context, (int)c->text_layers,
                 (int)c->text_width);
    gf_config_text(c, "detector", name, sizeof name);
    if (c->method.detector != GLOFND_DETECT_NONE)
        snprintf(detector, sizeof detector, "detector %s after %d epoch%s", name, (int)c->method.mask_epoch,
                 plural(c->method.mask_epoch));
    TRY(gf_trainer_estimate(err, t, &bytes));
    if (t->info.width == 0)
        snprintf(decoding, sizeof decoding, ", large images up to %.0f MB more (max_pixels)",
                 (double)c->max_pixels * GF_PIXEL_BYTES / 1e6);
    print_report(p,
                 "%s: %lld images, %s at %d px%s, batch %lld, %d epoch%s of %lld step%s, peak lr %.4g, %s, "
                 "about %.0f MB%s%s",
                 c->data, (long long)t->info.n, arch, (int)c->size, text, (long long)c->batch, (int)c->epochs, plural(c->epochs),
                 (long long)t->epoch_steps, plural(t->epoch_steps), gf_config_lr(c), detector, (double)bytes / 1e6,
                 c->method.device == GLOFND_DEVICE_CUDA ? " on the GPU" : "", decoding);
    if (*gf_dataset_note(t->data)) print_report(p, "data: %s", gf_dataset_note(t->data));
    gf_flag_forecast_text(c, t->epoch_steps, line, sizeof line, warning, sizeof warning);
    if (*line) print_report(p, "%s", line);
    if (*warning) print_report(p, "%s", warning);
    for (int k = 0; gf_idle_option(c, k); k++) print_report(p, "note: %s", gf_idle_option(c, k));
    /* A run that does not fit would be killed in its first steps, without a message. */
    const char *what;
    const int64_t limit = gf_memory_limit(&what);
    const int fits = c->method.device != GLOFND_DEVICE_CPU || limit == 0 || bytes <= (size_t)limit;
    FAIL_IF(err, !fits && !p->force, GLOFND_E_MEMORY,
            "about %.0f MB are needed, more than the %.0f MB of %s; a smaller batch or size needs less, --force starts anyway",
            (double)bytes / 1e6, (double)limit / 1e6, what);
    if (!fits) print_report(p, "that is more than the %.0f MB of %s", (double)limit / 1e6, what);
    return GLOFND_OK;
}

static glofnd_status prepare_watch(gf_error *err, const gf_pretrain *p, const gf_trainer *t) {
    const gf_config *c = &t->config;
    if (!p->watch) return GLOFND_OK;
    if (p->left_out)
        print_report(p, "on_epoch of a file is not run; to run it, give it on the command line: --on-epoch '%s'", p->left_out);
    if (*c->on_epoch) print_report(p, "on_epoch: after every epoch `%s` is run", c->on_epoch);
    return c->eval_every > 0 ? p->watch->prepare(err, p->watch->user, t) : GLOFND_OK;
}

/* Top-1 after every eval_every epochs and after the last one; NaN: not now, or it failed, which is reported. */
static double measure_epoch(const gf_pretrain *p, const gf_trainer *t) {
    const int64_t epochs = t->step / t->epoch_steps;
    gf_error err = {{0}};
    double top1 = NAN;
    if (!p->watch || t->config.eval_every < 1) return NAN;
    if (epochs % t->config.eval_every != 0 && epochs < t->config.epochs) return NAN;
    const glofnd_status status = p->watch->measure(&err, p->watch->user, t, &top1);
    if (status != GLOFND_OK) print_report(p, "no evaluation of epoch %lld: %s", (long long)epochs, err.text);
    return status == GLOFND_OK ? top1 : NAN;
}

/* ----- the loop ----- */

/* Evaluations so far measured other weights: a record in their file marks them as stale. */
static glofnd_status mark_evals_stale(gf_error *err, job *j) {
    gf_eval_writer log = {0};
    struct stat st;
    if (j->trainer->step == j->monitor.progress.first) return GLOFND_OK; /* resumed here, and no step since */
    const int found = fstatat(j->hold.folder, GF_EVAL_FILE, &st, 0) == 0;
    if (!found && errno == ENOENT) return GLOFND_OK;
    FAIL_IF(err, !found, GLOFND_E_IO, "%s/" GF_EVAL_FILE " cannot be inspected: %s", j->p->run, strerror(errno));
    if (st.st_size == j->marked) return GLOFND_OK;
    TRY(gf_eval_writer_open(err, &log, j->p->run));
    gf_eval_writer_begin(&log, GF_EVAL_TRAINED);
    gf_eval_put_integer(&log, "step", j->trainer->step);
    gf_eval_writer_end(&log);
    TRY(gf_eval_writer_close(&log));
    j->marked = fstatat(j->hold.folder, GF_EVAL_FILE, &st, 0) == 0 ? st.st_size : -1;
    return GLOFND_OK;
}

/* Before the checkpoint: a kill between them must not leave evaluations that seem to be of the new weights. */
static glofnd_status checkpoint(gf_error *err, job *j) {
    gf_log_marks marks = {0, 0};
    if (is_first(j->p)) TRY(mark_evals_stale(err, j));
    if (is_first(j->p)) TRY(gf_monitor_sync(&j->monitor, &marks));
    if (j->monitor.restored)
        print_report(j->p, "a log file of %s was removed or replaced during training: it is written again", j->p->run);
    j->monitor.restored = 0;
    j->saved = j->trainer->marks[0];
    TRY(gf_checkpoint_save(err, j->trainer, j->p->run, marks));
    if (is_first(j->p)) gf_monitor_forget_tails(err, j->p->run);
    return GLOFND_OK;
}

/* 1: the checkpoint of this step stays, by checkpoint_epochs. */
static int is_to_keep(const gf_trainer *t) {
    const gf_checkpoint_keep keep = gf_checkpoint_keeps(t);
    for (int i = 0; i < keep.count; i++)
        if (keep.step[i] == t->step) return 1;
    return 0;
}

/* The end of the first epoch always has one: a failure to write should show early. */
static int checkpoint_due(const job *j) {
    const gf_trainer *t = j->trainer;
    const gf_config *c = &t->config;
    if (t->step % t->epoch_steps == 0 && is_to_keep(t)) return 1;
    if (c->checkpoint_steps) return t->step % c->checkpoint_steps == 0;
    return t->step % t->epoch_steps == 0 && (j->saved <= 0.0 || t->marks[0] - j->saved >= 60.0 * c->checkpoint_minutes);
}

/* After some steps, for reports during the first epoch, and at the end of every epoch. */
static glofnd_status record_memory(gf_error *err, const job *j) {
    gf_memory_record held;
    gf_memory_of_run(j->trainer, &held);
    return gf_memory_write(err, j->p->run, &held);
}

/* step: of the batch that the sample belongs to. */
static void report_unreadable(job *j, int64_t step, int64_t i, const char *message) {
    if (!j->warned)
        print_report(j->p, "an unreadable sample is left out and another takes its place, " GF_LOG_FILE " will name all: %s",
                     message);
    if (!j->warned) j->monitor.progress.open = 0;
    j->warned = 1;
    j->trainer->sums.damaged += 1.0;
    if (is_first(j->p)) gf_monitor_unreadable(&j->monitor, j->trainer, step, i, message);
}

/* One rank reports at once, several after the step: then the first one knows all unreadable samples. */
static void on_unreadable(void *user, int64_t i, const char *message) {
    job *j = user;
    if (!j->trainer->comm) report_unreadable(j, j->trainer->step, i, message);
    else if (j->noted == GLOFND_OK) j->noted = gf_distributed_unreadable(NULL, &j->trainer->distributed, i, message);
}

static glofnd_status train_epochs(gf_error *err, job *j, gf_pretrain_end *end) {
    const gf_pretrain *p = j->p;
    gf_trainer *t = j->trainer;
    const gf_config *c = &t->config;
    const int64_t steps = gf_trainer_steps(t);
    *end = GF_PRETRAIN_FINISHED;
    while (t->step < steps) {
        t->distributed.stop = p->stop && atomic_load(p->stop);
        TRY(gf_trainer_step(err, t));
        const int stop = t->distributed.stop; /* of any rank */
        const int epoch_ends = t->step % t->epoch_steps == 0;
        gf_distributed *d = &t->distributed; /* whose list is empty without ranks */
        FAIL_IF(err, j->noted != GLOFND_OK, j->noted, "no memory for an unreadable sample");
        for (int64_t i = 0; i < d->unreadable_count; i++)
            report_unreadable(j, t->step - 1, d->unreadable[i].id, d->unreadable[i].why.text);
        d->unreadable_count = 0;
        if (is_first(p)) TRY(gf_monitor_step(&j->monitor, t));
        if (is_first(p) && t->step - j->monitor.progress.first == EARLY) TRY(record_memory(err, j));
        if (epoch_ends) TRY(gf_lambdas_take(err, t, GF_LAMBDAS_MAX, &j->lambdas));
        if (epoch_ends && is_first(p)) {
            char line[300];
            double value[GF_RUN_FIELD_COUNT];
            TRY(record_memory(err, j));
            const double knn = measure_epoch(p, t);
            TRY(gf_monitor_epoch(&j->monitor, t, &j->lambdas, knn, value));
            if (gf_monitor_summary(&j->monitor, t, knn, line, sizeof line)) print_report(p, "%s", line);
            if (p->watch && *c->on_epoch) p->watch->ended(p->watch->user, t, value);
        }
        /* The clocks of ranks differ, so the first one's decides when a checkpoint is due. */
        double due = is_first(p) && checkpoint_due(j);
        if (t->comm && epoch_ends) TRY(t->comm->ops->sum(err, t->comm, &due, 1));
        if (c->checkpoint_steps && t->step % c->checkpoint_steps == 0) due = 1.0;
        if (t->step < steps && (stop || due > 0.0)) TRY(checkpoint(err, j));
        if (t->step < steps && stop) {
            *end = GF_PRETRAIN_STOPPED;
            return GLOFND_OK;
        }
    }
    /* The model comes last: a kill before it leaves a checkpoint that --resume makes it from. */
    j->marked = -1; /* the last record has the last step */
    TRY(checkpoint(err, j));
    return agreed(err, p, is_first(p) ? write_model(err, j) : GLOFND_OK);
}

/* ----- beginning ----- */

/* Weights to begin with: a checkpoint, a file, or the seed. */
static glofnd_status load_start(gf_error *err, job *j, gf_log_marks *marks) {
    const gf_pretrain *p = j->p;
    gf_trainer *t = j->trainer;
    char line[1500];
    *marks = (gf_log_marks){0, 0};
    if (p->resume && *j->from) {
        TRY(gf_resume_check(err, p->run, j->from, &t->config, t->epoch_steps));
        TRY(gf_checkpoint_load(err, t, j->from, p->remap, &j->found, marks));
        if (p->config_was &&
            is_first(p)) { /* as it was at the checkpoint; changes by flags are written when training continues */
            print_report(p, "%s/" GF_CONFIG_FILE " is %s: it is restored from the one in %s", p->run, p->config_was, j->from);
            TRY(gf_resume_restore(err, p->run, j->from));
        }
        print_report(p, "resumed at step %lld from %s", (long long)t->step, j->from);
        if (j->found.changed)
            print_report(p, "the data has changed: %lld anchors kept, %lld new, %lld lost; epoch %lld begins again",
                         (long long)j->found.kept, (long long)j->found.fresh, (long long)j->found.lost,
                         (long long)(t->step / t->epoch_steps + 1));
        return GLOFND_OK;
    }
    if (p->resume) print_report(p, "no complete checkpoint in %s: starting from the beginning", p->run);
    if (*t->config.init) TRY(gf_model_init(err, t, t->config.init, line, sizeof line));
    if (*t->config.init) print_report(p, "%s", line);
    return GLOFND_OK;
}

/* All ranks begin together; status: of the first one's writing, which the others wait for. From here on a rank may fail alone:
 * each has to know which folders the first one made, to remove them. */
static glofnd_status begin_together(gf_error *err, job *j, glofnd_status status) {
    gf_comm *c = j->p->comm;
    double made = j->hold.made;
    TRY(agreed(err, j->p, status));
    if (c) TRY(c->ops->sum(err, c, &made, 1));
    j->hold.made = (int)made;
    if (c && !is_first(j->p)) j->hold.folder = open(j->p->run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    j->started = 1;
    return GLOFND_OK;
}

/* Task clip: the vocabulary of the run, made when it begins. */
static glofnd_status prepare_vocabulary(gf_error *err, job *j) {
    const gf_trainer *t = j->trainer;
    char path[PATH_MAX], line[600];
    if (t->config.task != GF_TASK_CLIP) return GLOFND_OK;
    TRY(gf_path_join(err, path, j->p->run, GF_VOCABULARY_FILE));
    if (!*j->from && is_first(j->p)) {
        const int existed = gf_run_hold_has(&j->hold, GF_VOCABULARY_FILE);
        TRY(gf_vocabulary_write(err, &t->config, t->data, path, line, sizeof line));
        if (!existed) memcpy(j->vocab, path, sizeof j->vocab);
        print_report(j->p, "%s", line);
    }
    return gf_trainer_vocabulary(err, j->trainer, path);
}

static glofnd_status open_trainer(gf_error *err, job *j, const gf_config *config) {
    gf_comm *c = j->p->comm;
    TRY(gf_checkpoint_latest(err, j->p->run, j->from));
    if (!*j->from) TRY(gf_model_check_init(err, config)); /* first: data may take long to open, and a vocabulary to learn */
    TRY(gf_trainer_open(err, config, &j->trainer));
    j->trainer->comm = c;
    if (config->strict) TRY(gf_dataset_check_complete(err, j->trainer->data));
    if (c) TRY(gf_distributed_check(err, &j->trainer->config, c->ranks));
    if (config->store == GF_STORE_FILE) {
        TRY(gf_path_join(err, j->store, j->p->run, GF_ANCHORS_WORK));
        j->trainer->store_path = j->store;
    }
    if (config->method.device == GLOFND_DEVICE_CUDA && is_first(j->p)) {
        TRY(gf_path_join(err, j->plans, j->p->run, GF_PLANS_FILE));
        j->trainer->plans_path = j->plans;
    }
    return GLOFND_OK;
}

static glofnd_status prepare_and_run(gf_error *err, job *j, const gf_config *config, gf_pretrain_end *end) {
    const gf_pretrain *p = j->p;
    TRY(agreed(err, p, is_first(p) ? gf_run_hold_take(err, p->run, p->resume, &j->hold) : GLOFND_OK));
    TRY(agreed(err, p, open_trainer(err, j, config)));
    if (p->comm) TRY(gf_check_ranks_folder(err, p->comm, p->run));
    if (p->comm) TRY(gf_check_ranks_equal(err, p->comm, j->trainer, j->from));
    TRY(agreed(err, p, is_first(p) ? prepare_vocabulary(err, j) : GLOFND_OK));
    TRY(agreed(err, p, is_first(p) ? GLOFND_OK : prepare_vocabulary(err, j)));
    TRY(agreed(err, p, announce(err, p, j->trainer)));
    TRY(agreed(err, p, is_first(p) ? prepare_watch(err, p, j->trainer) : GLOFND_OK));
    TRY(agreed(err, p, gf_trainer_build(err, j->trainer, on_unreadable, j)));
    /* From the weights to begin with to the end of the loop. */
    gf_log_marks marks;
    gf_trainer *t = j->trainer;
    TRY(agreed(err, j->p, load_start(err, j, &marks)));
    if (t->step == gf_trainer_steps(t)) {
        *end = GF_PRETRAIN_ALREADY;
        if (!is_first(j->p)) return GLOFND_OK;
        /* A kill after the last checkpoint may have left files, and no model or that of a shorter run. */
        int same = 0;
        if (gf_run_hold_has(&j->hold, GF_MODEL_FILE)) TRY(gf_manifest_same(err, j->from, j->p->run, GF_MODEL_FILE, &same));
        if (!same) TRY(write_model(err, j));
        gf_monitor_forget_tails(err, j->p->run);
        const gf_checkpoint_keep keep = gf_checkpoint_keeps(j->trainer);
        return gf_checkpoint_clean(err, j->p->run, j->from, &keep);
    }
    if (!is_first(j->p)) {
        TRY(begin_together(err, j, GLOFND_OK));
        return train_epochs(err, j, end);
    }
    const gf_progress_mode mode = j->p->quiet ? GF_PROGRESS_QUIET : j->p->plain ? GF_PROGRESS_LINES : GF_PROGRESS_AUTO;
    /* The configuration comes first, so that there is always something to resume. */
    glofnd_status status = t->step == 0 ? write_config(err, j) : GLOFND_OK;
    if (status == GLOFND_OK) status = gf_monitor_open(err, &j->monitor, t, j->p->run, marks, mode);
    if (status == GLOFND_OK) {
        /* The state of a run does not depend on its logs: it continues without them. */
        const gf_monitor *m = &j->monitor;
        if (m->lines < marks.log_lines)
            print_report(j->p,
                         GF_LOG_FILE
                         " has %lld of the %lld lines it had at this checkpoint: the run continues, its curves have a gap",
                         (long long)m->lines, (long long)marks.log_lines);
        if (m->events_cut)
            print_report(j->p,
                         GF_EVENTS_FILE " differs from its state at this checkpoint: whole events are kept, and new ones follow");
    }
    if (status == GLOFND_OK && t->step > 0) status = write_config(err, j); /* flags may have changed it */
    if (status == GLOFND_OK && j->found.changed) status = gf_monitor_remapped(&j->monitor, t, &j->found);
    if (status == GLOFND_OK && j->found.changed) status = gf_checkpoint_retire(err, j->p->run, j->from);
    status = begin_together(err, j, status);
    if (status == GLOFND_OK) status = train_epochs(err, j, end);
    gf_monitor_close(&j->monitor);
    return status;
}

glofnd_status gf_pretrain_run(gf_error *err, const gf_pretrain *p, gf_pretrain_end *end, int *started) {
    gf_config config = p->config;
    job j = {.p = p, .hold.folder = -1, .marked = -1};
    if (started) *started = 0;
    glofnd_status status = gf_config_resolve(err, &config);
    TRY(agreed(err, p, status));
    status = prepare_and_run(err, &j, &config, end);
    /* A new run that failed in its first step leaves no files, so that the corrected command can be given as it is. Of several
     * ranks the failing one removes them: the others wait for it, and will not return. */
    if (status != GLOFND_OK && j.started && !*j.from && j.trainer->step == 0 && (!p->resume || j.hold.made)) {
        gf_run_hold_clear(&j.hold);
        if (!p->comm) j.started = 0;
    }
    if (started) *started = j.started;
    if (status != GLOFND_OK && p->comm && j.started) { /* other ranks wait for this one: it must not wait now */
        gf_folder_unmake(p->run, j.hold.made);
        return status;
    }
    gf_trainer_free(j.trainer);
    gf_lambdas_free(&j.lambdas);
    if (*j.store) unlink(j.store);
    if (status != GLOFND_OK && !j.started && *j.vocab) unlink(j.vocab); /* the next start makes its own */
    if (j.hold.folder >= 0) close(j.hold.folder);
    if (status != GLOFND_OK) gf_folder_unmake(p->run, j.hold.made); /* only if it is empty */
    return status;
}
