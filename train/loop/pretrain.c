/* pretrain.c - see pretrain.h. */
#include "loop/pretrain.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"
#include "io/safetensors.h"
#include "run/run_folder.h"
#include "run/run_eval.h"
#include "run/resume.h"
#include "loop/check_ranks.h"
#include "loop/weights.h"
#include "loop/announce.h"
#include "loop/epoch_watch.h"
#include "loop/memory.h"
#include "loop/monitor.h"

enum { EARLY = 10 }; /* steps after which a run has allocated its memory */

typedef struct job {
    const gf_pretrain *p;
    gf_trainer *trainer;
    gf_monitor monitor;
    int folder;           /* descriptor of the run folder; the first rank's is locked: one run at a time */
    int started;          /* training has begun: now a rank may fail alone */
    int made;             /* folders that were made: the run's, and those above it */
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

/* ----- run folder ----- */

static glofnd_status lock_folder(gf_error *err, job *j) {
    const char *run = j->p->run;
    TRY(gf_folder_lock(err, run, &j->folder));
    FAIL_IF(err, access(run, W_OK | X_OK) != 0, GLOFND_E_IO, "%s cannot be written to: %s", run, strerror(errno));
    return GLOFND_OK;
}

/* A file that cannot be inspected is taken to exist: it may be the user's. */
static int exists(const job *j, const char *name) { return faccessat(j->folder, name, F_OK, 0) == 0 || errno != ENOENT; }

/* A run does not begin among files of the user that it would overwrite, or remove after a failure. */
static glofnd_status refuse_existing(gf_error *err, const job *j) {
    static const char *const files[] = {GF_CONFIG_FILE,     GF_MODEL_FILE,  GF_CHECKPOINTS, GF_EVAL_FILE,
                                        GF_VOCABULARY_FILE, GF_EVENTS_FILE, GF_MEMORY_FILE};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        FAIL_IF(err, exists(j, files[i]), GLOFND_E_ARGUMENT,
                "%s has %s already, but no run to resume: choose a different --out, or move the file away", j->p->run, files[i]);
    return GLOFND_OK;
}

static glofnd_status prepare_folder(gf_error *err, job *j) {
    const gf_pretrain *p = j->p;
    char path[PATH_MAX];
    FAIL_IF(err, strlen(p->run) > PATH_MAX - 128, GLOFND_E_ARGUMENT, "the path of the run folder is too long");
    TRY(gf_folder_make(err, p->run, &j->made));
    TRY(lock_folder(err, j));
    FAIL_IF(err, gf_checkpoint_step(p->run) >= 0 && exists(j, GF_DONE_FILE), GLOFND_E_ARGUMENT,
            "%s is a checkpoint; to continue its run give the run's folder, to begin another one from it copy it to "
            "NEW/checkpoints",
            p->run);
    const int logged = exists(j, GF_LOG_FILE);
    TRY(gf_checkpoint_latest(err, p->run, path));
    FAIL_IF(err, !p->resume && *path, GLOFND_E_ARGUMENT,
            "%s holds a run already; continue it by --resume, or choose a different --out", p->run);
    FAIL_IF(
        err, !p->resume && logged, GLOFND_E_ARGUMENT,
        "%s holds a run already, without a checkpoint; begin it again by --resume, with the keys that should change, or choose a "
        "different --out",
        p->run);
    if (!p->resume) TRY(refuse_existing(err, j));
    FAIL_IF(err, p->resume && !*path && exists(j, GF_MODEL_FILE), GLOFND_E_ARGUMENT,
            "%s has a model, but no checkpoint to resume; to begin with its weights choose a different --out and --init "
            "%s/" GF_MODEL_FILE,
            p->run, p->run);
    gf_leftovers_remove(j->folder);
    return GLOFND_OK;
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

/* ----- beginning ----- */

/* As it was at the checkpoint; changes by flags are written when training continues. */
static glofnd_status restore_config(gf_error *err, const job *j) {
    const gf_pretrain *p = j->p;
    if (!p->config_was || !is_first(p)) return GLOFND_OK;
    gf_pretrain_report(p, "%s/" GF_CONFIG_FILE " is %s: it is restored from the one in %s", p->run, p->config_was, j->from);
    return gf_resume_restore(err, p->run, j->from);
}

/* Weights to begin with: a checkpoint, a file, or the seed. */
static glofnd_status start(gf_error *err, job *j, gf_log_marks *marks) {
    const gf_pretrain *p = j->p;
    gf_trainer *t = j->trainer;
    char line[1500];
    *marks = (gf_log_marks){0, 0};
    if (p->resume && *j->from) {
        TRY(gf_resume_check(err, p->run, j->from, &t->config, t->epoch_steps));
        TRY(gf_checkpoint_load(err, t, j->from, p->remap, &j->found, marks));
        TRY(restore_config(err, j));
        gf_pretrain_report(p, "resumed at step %lld from %s", (long long)t->step, j->from);
        if (j->found.changed)
            gf_pretrain_report(p, "the data has changed: %lld anchors kept, %lld new, %lld lost; epoch %lld begins again",
                               (long long)j->found.kept, (long long)j->found.fresh, (long long)j->found.lost,
                               (long long)(t->step / t->epoch_steps + 1));
        return GLOFND_OK;
    }
    if (p->resume) gf_pretrain_report(p, "no complete checkpoint in %s: starting from the beginning", p->run);
    if (*t->config.init) TRY(gf_model_init(err, t, t->config.init, line, sizeof line));
    if (*t->config.init) gf_pretrain_report(p, "%s", line);
    return GLOFND_OK;
}

/* ----- the loop ----- */

/* Evaluations so far measured other weights: a record in their file marks them as stale. */
static glofnd_status mark_evals_stale(gf_error *err, job *j) {
    gf_eval_writer log = {0};
    struct stat st;
    if (j->trainer->step == j->monitor.progress.first) return GLOFND_OK; /* resumed here, and no step since */
    const int found = fstatat(j->folder, GF_EVAL_FILE, &st, 0) == 0;
    if (!found && errno == ENOENT) return GLOFND_OK;
    FAIL_IF(err, !found, GLOFND_E_IO, "%s/" GF_EVAL_FILE " cannot be inspected: %s", j->p->run, strerror(errno));
    if (st.st_size == j->marked) return GLOFND_OK;
    TRY(gf_eval_writer_open(err, &log, j->p->run));
    gf_eval_writer_begin(&log, GF_EVAL_TRAINED);
    gf_eval_put_integer(&log, "step", j->trainer->step);
    gf_eval_writer_end(&log);
    TRY(gf_eval_writer_close(&log));
    j->marked = fstatat(j->folder, GF_EVAL_FILE, &st, 0) == 0 ? st.st_size : -1;
    return GLOFND_OK;
}

/* Before the checkpoint: a kill between them must not leave evaluations that seem to be of the new weights. */
static glofnd_status checkpoint(gf_error *err, job *j) {
    gf_log_marks marks = {0, 0};
    if (is_first(j->p)) TRY(mark_evals_stale(err, j));
    if (is_first(j->p)) TRY(gf_monitor_sync(&j->monitor, &marks));
    if (j->monitor.restored)
        gf_pretrain_report(j->p, "a log file of %s was removed or replaced during training: it is written again", j->p->run);
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

/* The model comes last: a kill before it leaves a checkpoint that --resume makes it from (clean_finished). */
static glofnd_status finish(gf_error *err, job *j) {
    j->marked = -1; /* the last record has the last step */
    TRY(checkpoint(err, j));
    return agreed(err, j->p, is_first(j->p) ? write_model(err, j) : GLOFND_OK);
}

/* After some steps, for reports during the first epoch, and at the end of every epoch. */
static glofnd_status record_memory(gf_error *err, const job *j) {
    gf_memory_record held;
    gf_memory_of_run(j->trainer, &held);
    return gf_memory_write(err, j->p->run, &held);
}

static glofnd_status end_epoch(gf_error *err, job *j) {
    char line[300];
    double value[GF_RUN_FIELD_COUNT];
    TRY(record_memory(err, j));
    const double knn = gf_epoch_measure(j->p, j->trainer);
    TRY(gf_monitor_epoch(&j->monitor, j->trainer, &j->lambdas, knn, value));
    if (gf_monitor_summary(&j->monitor, j->trainer, knn, line, sizeof line)) gf_pretrain_report(j->p, "%s", line);
    if (j->p->watch && *j->trainer->config.on_epoch) j->p->watch->ended(j->p->watch->user, j->trainer, value);
    return GLOFND_OK;
}

/* step: of the batch that the sample belongs to. */
static void report_unreadable(job *j, int64_t step, int64_t i, const char *message) {
    if (!j->warned)
        gf_pretrain_report(j->p,
                           "an unreadable sample is left out and another takes its place, " GF_LOG_FILE " will name all: %s",
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

static glofnd_status report_all_unreadable(gf_error *err, job *j) {
    gf_distributed *d = &j->trainer->distributed;
    FAIL_IF(err, j->noted != GLOFND_OK, j->noted, "no memory for an unreadable sample");
    for (int64_t i = 0; i < d->unreadable_count; i++)
        report_unreadable(j, j->trainer->step - 1, d->unreadable[i].id, d->unreadable[i].why.text);
    d->unreadable_count = 0;
    return GLOFND_OK;
}

/* The clocks of ranks differ, so the first one's decides when a checkpoint is due. *stop: the run was interrupted. */
static glofnd_status step_and_log(gf_error *err, job *j, int *stop, int *due) {
    gf_trainer *t = j->trainer;
    double x[1];
    t->distributed.stop = j->p->stop && atomic_load(j->p->stop);
    *stop = t->distributed.stop;
    TRY(gf_trainer_step(err, t));
    if (t->comm) *stop = t->distributed.stop;
    TRY(report_all_unreadable(err, j));
    if (is_first(j->p)) TRY(gf_monitor_step(&j->monitor, t));
    if (is_first(j->p) && t->step - j->monitor.progress.first == EARLY) TRY(record_memory(err, j));
    if (t->step % t->epoch_steps == 0) TRY(gf_lambdas_take(err, t, GF_LAMBDAS_MAX, &j->lambdas));
    if (t->step % t->epoch_steps == 0 && is_first(j->p)) TRY(end_epoch(err, j));
    x[0] = is_first(j->p) && checkpoint_due(j);
    if (t->comm && t->step % t->epoch_steps == 0) TRY(t->comm->ops->sum(err, t->comm, x, 1));
    *due = x[0] > 0.0 || (t->config.checkpoint_steps && t->step % t->config.checkpoint_steps == 0);
    return GLOFND_OK;
}

static glofnd_status loop(gf_error *err, job *j, gf_pretrain_end *end) {
    gf_trainer *t = j->trainer;
    const int64_t steps = gf_trainer_steps(t);
    *end = GF_PRETRAIN_FINISHED;
    while (t->step < steps) {
        int stop = 0, due = 0;
        TRY(step_and_log(err, j, &stop, &due));
        if (t->step < steps && (stop || due)) TRY(checkpoint(err, j));
        if (t->step < steps && stop) {
            *end = GF_PRETRAIN_STOPPED;
            return GLOFND_OK;
        }
    }
    return finish(err, j);
}

/* The state of a run does not depend on its logs: it continues without them. */
static void report_lost_logs(const job *j, gf_log_marks marks) {
    const gf_monitor *m = &j->monitor;
    if (m->lines < marks.log_lines)
        gf_pretrain_report(j->p,
                           GF_LOG_FILE
                           " has %lld of the %lld lines it had at this checkpoint: the run continues, its curves have a gap",
                           (long long)m->lines, (long long)marks.log_lines);
    if (m->events_cut)
        gf_pretrain_report(j->p, GF_EVENTS_FILE
                           " differs from its state at this checkpoint: whole events are kept, and new ones follow");
}

/* From here on a rank may fail alone: each has to know which folders the first one made, to remove them. */
static glofnd_status share_folder(gf_error *err, job *j) {
    gf_comm *c = j->p->comm;
    double made = j->made;
    if (!c) return GLOFND_OK;
    TRY(c->ops->sum(err, c, &made, 1));
    j->made = (int)made;
    if (!is_first(j->p)) j->folder = open(j->p->run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return GLOFND_OK;
}

/* status: of the first rank's writing; the others wait for it. */
static glofnd_status begin(gf_error *err, job *j, glofnd_status status) {
    TRY(agreed(err, j->p, status));
    TRY(share_folder(err, j));
    j->started = 1;
    return GLOFND_OK;
}

static glofnd_status follow(gf_error *err, job *j, gf_pretrain_end *end) {
    TRY(begin(err, j, GLOFND_OK));
    return loop(err, j, end);
}

/* A kill after the last checkpoint may have left files, and no model or that of a shorter run. */
static glofnd_status clean_finished(gf_error *err, const job *j) {
    int same = 0;
    if (exists(j, GF_MODEL_FILE)) TRY(gf_manifest_same(err, j->from, j->p->run, GF_MODEL_FILE, &same));
    if (!same) TRY(write_model(err, j));
    gf_monitor_forget_tails(err, j->p->run);
    const gf_checkpoint_keep keep = gf_checkpoint_keeps(j->trainer);
    return gf_checkpoint_clean(err, j->p->run, j->from, &keep);
}

static glofnd_status run(gf_error *err, job *j, gf_pretrain_end *end) {
    gf_log_marks marks;
    gf_trainer *t = j->trainer;
    TRY(agreed(err, j->p, start(err, j, &marks)));
    if (t->step == gf_trainer_steps(t)) {
        *end = GF_PRETRAIN_ALREADY;
        return is_first(j->p) ? clean_finished(err, j) : GLOFND_OK;
    }
    if (!is_first(j->p)) return follow(err, j, end);
    const gf_progress_mode mode = j->p->quiet ? GF_PROGRESS_QUIET : j->p->plain ? GF_PROGRESS_LINES : GF_PROGRESS_AUTO;
    /* The configuration comes first, so that there is always something to resume. */
    glofnd_status status = t->step == 0 ? write_config(err, j) : GLOFND_OK;
    if (status == GLOFND_OK) status = gf_monitor_open(err, &j->monitor, t, j->p->run, marks, mode);
    if (status == GLOFND_OK) status = gf_monitor_decoder(&j->monitor, t);
    if (status == GLOFND_OK) report_lost_logs(j, marks);
    if (status == GLOFND_OK && t->step > 0) status = write_config(err, j); /* flags may have changed it */
    if (status == GLOFND_OK && j->found.changed) status = gf_monitor_remapped(&j->monitor, t, &j->found);
    if (status == GLOFND_OK && j->found.changed) status = gf_checkpoint_retire(err, j->p->run, j->from);
    status = begin(err, j, status);
    if (status == GLOFND_OK) status = loop(err, j, end);
    gf_monitor_close(&j->monitor);
    return status;
}

/* Task clip: the vocabulary of the run, made when it begins. */
static glofnd_status prepare_vocabulary(gf_error *err, job *j) {
    const gf_trainer *t = j->trainer;
    char path[PATH_MAX], line[600];
    if (t->config.task != GF_TASK_CLIP) return GLOFND_OK;
    TRY(gf_path_join(err, path, j->p->run, GF_VOCABULARY_FILE));
    if (!*j->from && is_first(j->p)) {
        const int existed = exists(j, GF_VOCABULARY_FILE);
        TRY(gf_vocabulary_write(err, &t->config, t->data, path, line, sizeof line));
        if (!existed) memcpy(j->vocab, path, sizeof j->vocab);
        gf_pretrain_report(j->p, "%s", line);
    }
    return gf_trainer_vocabulary(err, j->trainer, path);
}

static glofnd_status compare_ranks(gf_error *err, const job *j) {
    gf_comm *c = j->p->comm;
    if (!c) return GLOFND_OK;
    TRY(gf_check_ranks_folder(err, c, j->p->run));
    return gf_check_ranks_equal(err, c, j->trainer, j->from);
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
    TRY(agreed(err, p, is_first(p) ? prepare_folder(err, j) : GLOFND_OK));
    TRY(agreed(err, p, open_trainer(err, j, config)));
    TRY(compare_ranks(err, j));
    TRY(agreed(err, p, is_first(p) ? prepare_vocabulary(err, j) : GLOFND_OK));
    TRY(agreed(err, p, is_first(p) ? GLOFND_OK : prepare_vocabulary(err, j)));
    TRY(agreed(err, p, gf_pretrain_announce(err, p, j->trainer)));
    TRY(agreed(err, p, is_first(p) ? gf_epoch_prepare(err, p, j->trainer) : GLOFND_OK));
    TRY(agreed(err, p, gf_trainer_build(err, j->trainer, on_unreadable, j)));
    if (config->decode == GF_DECODE_GPU || config->decode == GF_DECODE_AUTO)
        gf_pretrain_report(p, "JPEG files are decoded by %s", gf_feed_decoder_name(&j->trainer->feed));
    return run(err, j, end);
}

/* A new run that failed in its first step leaves no files, so that the corrected command can be given as it is. None of them
 * existed before (refuse_existing), but plans.txt may have. Of several ranks the failing one removes them: the others wait for
 * it, and will not return. */
static int remove_failed_start(const job *j) {
    static const char *const files[] = {GF_LOG_FILE, GF_EVENTS_FILE, GF_CONFIG_FILE, GF_VOCABULARY_FILE, GF_MEMORY_FILE};
    if (!j->started || *j->from || j->trainer->step > 0 || (j->p->resume && !j->made)) return 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) unlinkat(j->folder, files[i], 0);
    if (j->made) unlinkat(j->folder, GF_PLANS_FILE, 0);
    return 1;
}

glofnd_status gf_pretrain_run(gf_error *err, const gf_pretrain *p, gf_pretrain_end *end, int *started) {
    gf_config config = p->config;
    job j = {.p = p, .folder = -1, .marked = -1};
    if (started) *started = 0;
    glofnd_status status = gf_config_resolve(err, &config);
    TRY(agreed(err, p, status));
    status = prepare_and_run(err, &j, &config, end);
    if (status != GLOFND_OK && remove_failed_start(&j) && !p->comm) j.started = 0;
    if (started) *started = j.started;
    if (status != GLOFND_OK && p->comm && j.started) { /* other ranks wait for this one: it must not wait now */
        gf_folder_unmake(p->run, j.made);
        return status;
    }
    gf_trainer_free(j.trainer);
    gf_lambdas_free(&j.lambdas);
    if (*j.store) unlink(j.store);
    if (status != GLOFND_OK && !j.started && *j.vocab) unlink(j.vocab); /* the next start makes its own */
    if (j.folder >= 0) close(j.folder);
    if (status != GLOFND_OK) gf_folder_unmake(p->run, j.made); /* only if it is empty */
    return status;
}
