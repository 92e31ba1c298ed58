/* cmd_pretrain.c - glofnd pretrain: flags are the keys of the configuration. First the end of an epoch (eval_every,
 * on_epoch), then help, arguments, and ranks. */

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dist/comm.h"
#include "dist/dist.h"
#include "eval/encode.h"
#include "eval/knn.h"
#include "loop/pretrain.h"
#include "programs/cli.h"
#include "run/resume.h"
#include "run/run_folder.h"
#include "util/text.h"

extern char **environ;

/* ----- the end of an epoch: evaluation ----- */

typedef struct epoch_hook {
    const char *run;
    gf_training_knn *knn;
    gf_epoch_watch watch; /* for gf_pretrain */
} epoch_hook;

static glofnd_status prepare_knn(gf_error *err, void *user, const gf_trainer *t) {
    epoch_hook *h = user;
    char text[1000];
    TRY(gf_training_knn_create(err, t, &h->knn));
    gf_training_knn_describe(h->knn, text, sizeof text);
    gf_print(stderr, "eval_every: kNN of %s\n", text);
    return GLOFND_OK;
}

static glofnd_status measure_knn(gf_error *err, void *user, const gf_trainer *t, double *top1) {
    epoch_hook *h = user;
    return gf_training_knn_measure(err, h->knn, t, top1);
}

/* ----- the end of an epoch: the user's command ----- */

enum { NAME_BYTES = 48, VALUE_BYTES = 64, ENTRIES = GF_RUN_FIELD_COUNT + 2 };

typedef struct variables {
    char text[GF_RUN_FIELD_COUNT][NAME_BYTES + VALUE_BYTES];
    char run[PATH_MAX + NAME_BYTES], epochs[NAME_BYTES + VALUE_BYTES];
    char **all; /* the environment and these; ends with NULL */
} variables;

/* Figures that do not exist have no variable, not even one that this process was given. */
static int make_variables(variables *v, const epoch_hook *h, const gf_trainer *t, const double *value) {
    size_t n = 0;
    while (environ[n]) n++;
    v->all = malloc((n + ENTRIES + 1) * sizeof *v->all);
    if (!v->all) return 0;
    n = 0;
    for (char **e = environ; *e; e++)
        if (strncmp(*e, "GLOFND_", strlen("GLOFND_")) != 0) v->all[n++] = *e;
    snprintf(v->run, sizeof v->run, "GLOFND_RUN=%s", h->run);
    snprintf(v->epochs, sizeof v->epochs, "GLOFND_EPOCHS=%d", (int)t->config.epochs);
    v->all[n++] = v->run, v->all[n++] = v->epochs;
    for (int i = 0; i < GF_RUN_FIELD_COUNT; i++) {
        if (!isfinite(value[i])) continue;
        /* "GLOFND_LOSS=0.25"; an integer without a point. */
        const gf_log_key *key = &gf_log_epoch.key[i];
        const int integer = key->kind == GF_LOG_INTEGER;
        char name[NAME_BYTES], *text = v->text[i];
        snprintf(name, sizeof name, "%s", key->key);
        for (char *letter = name; *letter; letter++) *letter = (char)toupper((unsigned char)*letter);
        char figure[GF_NUMBER_BYTES]; /* as log.jsonl writes it */
        if (integer) snprintf(figure, sizeof figure, "%lld", (long long)value[i]);
        else figure[gf_number_text(figure, value[i])] = '\0';
        snprintf(text, sizeof v->text[i], "GLOFND_%s=%s", name, figure);
        v->all[n++] = v->text[i];
    }
    v->all[n] = NULL;
    return 1;
}

/* Standard input is empty, output goes where messages go: results of pretrain stay apart. Signals that this program ignores have
 * their usual meaning. 0: *pid is running; else an errno. */
static int start_command(const char *command, char **environment, pid_t *pid) {
    char shell[] = "sh", flag[] = "-c", text[sizeof((gf_config *)0)->on_epoch];
    char *argv[] = {shell, flag, text, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t usual;
    snprintf(text, sizeof text, "%s", command);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE), sigaddset(&usual, SIGXFSZ);
    int error = posix_spawn_file_actions_init(&files);
    if (error) return error;
    error = posix_spawnattr_init(&how);
    if (!error) error = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!error) error = posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
    if (!error) error = posix_spawnattr_setsigdefault(&how, &usual);
    if (!error) error = posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGDEF);
    if (!error) error = posix_spawn(pid, "/bin/sh", &files, &how, argv, environment);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

/* Waits for the command: the next epoch begins behind it, and what it reads of the run stays as it is. */
static void run_command(void *user, const gf_trainer *t, const double *value) {
    const epoch_hook *h = user;
    const int64_t epoch = t->step / t->epoch_steps;
    variables *v = calloc(1, sizeof *v);
    pid_t pid = 0, done;
    int status = 0, error = v && make_variables(v, h, t, value) ? 0 : ENOMEM;
    if (!error) error = start_command(t->config.on_epoch, v->all, &pid);
    if (error) gf_print(stderr, "on_epoch: the command cannot be started: %s; training continues\n", strerror(error));
    if (!error) {
        while ((done = waitpid(pid, &status, 0)) < 0 && errno == EINTR) continue;
        if (done == pid) {
            if (WIFSIGNALED(status))
                gf_print(stderr, "on_epoch: the command was ended by signal %d after epoch %lld; training continues\n",
                         WTERMSIG(status), (long long)epoch);
            else if (WEXITSTATUS(status) != 0)
                gf_print(stderr, "on_epoch: the command failed with exit code %d after epoch %lld; training continues\n",
                         WEXITSTATUS(status), (long long)epoch);
        }
    }
    if (v) free(v->all);
    free(v);
}

/* ----- help ----- */

/* Replaces a progress line on a terminal. */
static void print_report(const char *line) {
    if (isatty(STDERR_FILENO) && !cli_terminal_is_dumb()) gf_print(stderr, "\r\033[K%s\n", line);
    else gf_print(stderr, "%s\n", line);
}

enum { KEY_INDENT = 23 };

static void print_key(const char *key, const char *text) {
    char left[80];
    snprintf(left, sizeof left, "  --%s", key);
    cli_print_wrapped(stdout, left, KEY_INDENT, text);
}

/* Flags that are no keys of the configuration. */
static const gf_option rows[] = {
    CLI_STRING(gf_pretrain, run, "out", "RUN", "folder of the run; created if it does not exist"),
    {.key = "config",
     .type = GF_OPTION_STRINGS,
     .value = "FILE.cfg",
     .help = "a preset by name, or a file of lines \"key = value\" and # comments; flags win over files, later files over "
             "earlier ones"},
    {.key = "set", .type = GF_OPTION_STRINGS, .value = "KEY=VALUE", .help = "the same as --KEY VALUE"},
    CLI_SWITCH(gf_pretrain, resume, "resume",
               "continues after the newest complete checkpoint, with RUN/config.cfg; flags may change it"),
    CLI_SWITCH(gf_pretrain, remap, "remap",
               "with --resume: also if images were added, removed or renumbered; anchors follow their images"),
    CLI_SWITCH(gf_pretrain, force, "force", "start even if the estimated memory is not available"),
    CLI_SWITCH(gf_pretrain, quiet, "quiet", "no progress"),
};
static const gf_option_table own = {rows, (int)(sizeof rows / sizeof *rows)};

static const char usage[] =
    "glofnd pretrain --data SPEC --out RUN [--config PRESET|FILE.cfg] [--KEY VALUE ...] [--set KEY=VALUE ...] [--quiet]\n"
    "       glofnd pretrain --out RUN --resume [--remap] [--KEY VALUE ...]\n\n"
    "Pretrains an image encoder with a contrastive loss, or with --task clip an image encoder and a text encoder; "
    "false negatives are found and taken out of the loss.\n\n"
    "  glofnd pretrain --data shapes:n=4096 --out run1 --arch resnet8 --epochs 20    synthetic images: needs no data\n"
    "  glofnd pretrain --data cifar100:DIR --out run2 --config cifar100-sogclr-glofnd\n"
    "  glofnd pretrain --data folder:IMAGES --out run3 --arch resnet50 --size 224 --batch 64 --epochs 100\n"
    "  glofnd pretrain --data 'wds:SHARDS-*.tar' --task clip --out run4 --config flickr8k-sogclr-glofnd\n"
    "  glofnd pretrain --out run3 --resume                after Ctrl-C, a kill, a full disk: continues where it stopped\n"
    "  glofnd eval knn run2 --data cifar100:DIR           how good the features are\n\n"
    "RUN gets config.cfg (all keys, resolved), log.jsonl, a TensorBoard event file, checkpoints, with --task clip "
    "vocab.txt, and at the end model.safetensors, which PyTorch loads. Ctrl-C or SIGUSR1 stops after the present "
    "step, with a checkpoint. Several machines or GPUs: mpirun or srun starts one process for each "
    "(docs/distributed.md).\n";

static void help_own_flags(const char *const *only) {
    for (int i = 0; i < own.count; i++) {
        char left[48];
        int wanted = !only;
        for (const char *const *k = only; k && *k; k++) wanted |= strcmp(*k, rows[i].key) == 0;
        snprintf(left, sizeof left, "%s %s", rows[i].key, rows[i].value ? rows[i].value : "");
        if (wanted) print_key(left, rows[i].help);
    }
}

static void help_all(void) {
    const char *group = "";
    const gf_option *o;
    int in_method;
    cli_print_usage(stdout, usage);
    gf_print(stdout, "\n");
    help_own_flags(NULL);
    gf_print(stdout, "\nExit codes: 0: done or stopped; 1: run-time failure (files, memory, numerics);\n2: usage error.\n"
                     "Keys of files and flags (- and _ are the same); data is the only one without a\nusable default:\n");
    for (int i = 0; (o = gf_config_option(i, &in_method)); i++) {
        if (strcmp(group, o->group) != 0) gf_print(stdout, "\n%s\n", group = o->group);
        const char *views = gf_config_preset(o, GF_TASK_VIEWS), *clip = gf_config_preset(o, GF_TASK_CLIP);
        char range[256], text[800];
        print_key(o->key, o->help);
        if (o->type != GF_OPTION_TEXT) {
            gf_option_range(o, range, sizeof range);
            const int differ = strcmp(clip, views) != 0;
            snprintf(text, sizeof text, "%s; default %s%s%s", range, views, differ ? ", with task clip " : "",
                     differ ? clip : "");
            cli_print_wrapped(stdout, "", KEY_INDENT, text);
        }
    }
}

/* The keys of a first run, on one screen. */
static void print_help(void) {
    static const char *const flags[] = {"out", "config", "resume", NULL};
    static const struct {
        const char *group, *keys[8];
    } groups[] = {
        {"network and training", {"arch", "size", "batch", "epochs", "lr", "seed"}},
        {"false negatives", {"detector", "alpha", "start_epoch"}},
        {"machine", {"device", "precision", "threads"}},
        {"output", {"eval_every", "keep_checkpoints"}},
    };
    int in_method, shown = 0, count = 0;
    while (gf_config_option(count, &in_method)) count++;
    cli_print_usage(stdout,
                    "glofnd pretrain --data SPEC --out RUN [--config PRESET|FILE.cfg] [--KEY VALUE ...]\n"
                    "       glofnd pretrain --out RUN --resume\n"
                    "Trains an image encoder, or with --task clip one of images and one of captions, with a contrastive loss; "
                    "false negatives are found and taken out of it.");
    print_key("data SPEC", gf_config_find("data", &in_method)->help);
    help_own_flags(flags);
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        gf_print(stdout, "%s\n", groups[g].group);
        for (int k = 0; k < 8 && groups[g].keys[k]; k++, shown++) {
            const gf_option *o = gf_config_find(groups[g].keys[k], &in_method);
            char text[400];
            snprintf(text, sizeof text, "%s; default %s", o->help, gf_config_preset(o, GF_TASK_VIEWS));
            print_key(o->key, text);
        }
    }
    gf_print(stdout, "--help-all explains %d more keys, with ranges.\n", count - shown - 1);
}

/* ----- arguments ----- */

/* The last command that a file named for on_epoch. Files may come from elsewhere: only a command of the command line is run. */
static char left_out[sizeof((gf_config *)0)->on_epoch];

/* After a file was read. */
static void leave_command_out(gf_config *c) {
    if (!*c->on_epoch) return;
    memcpy(left_out, c->on_epoch, sizeof left_out);
    *c->on_epoch = 0;
}

typedef struct flag { /* "--name value", "--name=value", or a switch alone */
    char name[64];
    const char *value;
    const gf_option *row; /* of `own`; NULL: a key of the configuration */
} flag;

/* All flags of the command line: list [argc], to be freed. */
static glofnd_status parse_flags(gf_error *err, gf_config *c, int argc, char **argv, flag *list, int *count) {
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *equals = strchr(word, '=');
        flag *f = &list[*count];
        FAIL_IF(err, strncmp(word, "--", 2) != 0 && i > 1 && strcmp(argv[i - 1], "--resume") == 0, GLOFND_E_OPTION,
                "--resume takes no value; --out is the run: --out %.60s --resume", word);
        FAIL_IF(err, strncmp(word, "--", 2) != 0, GLOFND_E_OPTION, "\"%.60s\" is not a flag; pretrain takes --KEY VALUE", word);
        snprintf(f->name, sizeof f->name, "%.*s", (int)(equals ? equals - word - 2 : 60), word + 2);
        f->row = gf_option_find(&own, sizeof(gf_pretrain), f->name);
        int in_method;
        const gf_option *key = f->row ? NULL : gf_config_find(f->name, &in_method);
        const int alone = f->row && f->row->type == GF_OPTION_BOOL, last = i + 1 >= argc;
        FAIL_IF(err, alone && equals, GLOFND_E_OPTION, "--%s takes no value", f->name);
        if (!f->row && !key) return gf_config_set(err, c, f->name, ""); /* says that it is unknown */
        /* A switch of the configuration may stand alone, too: --strict is --strict 1. */
        const int is_switch = key && key->type == GF_OPTION_BOOL && !equals && (last || strncmp(argv[i + 1], "--", 2) == 0);
        FAIL_IF(err, !alone && !is_switch && !equals && last, GLOFND_E_OPTION, "--%s needs a value", f->name);
        f->value = alone || is_switch ? "1" : equals ? equals + 1 : argv[++i];
        ++*count;
    }
    return GLOFND_OK;
}

/* A resumed run has its configuration, which flags only change: it is read first, wherever --resume stands. *typed 0: what is
 * wrong is in that run. Then the files, in their order: flags win wherever they stand. */
static glofnd_status set_flags(gf_error *err, gf_pretrain *p, const flag *list, int count, int *typed) {
    const char *run = NULL;
    char data[sizeof p->config.data];
    int resume = 0;
    for (int i = 0; i < count; i++) {
        if (strcmp(list[i].name, "resume") == 0) resume = 1;
        if (strcmp(list[i].name, "out") == 0) run = list[i].value;
    }
    if (resume && run) {
        *typed = 0;
        TRY(gf_resume_read(err, run, &p->config, &p->config_was));
        *typed = 1;
        leave_command_out(&p->config);
        /* It may be resumed elsewhere than it was started; --data counts more. */
        if (gf_run_data_find(run, p->config.data, data, sizeof data)) memcpy(p->config.data, data, sizeof data);
        if (*p->config.data) gf_config_complete(&p->config);
    }
    char path[PATH_MAX];
    for (int i = 0; i < count; i++) {
        if (strcmp(list[i].name, "config") != 0) continue;
        TRY(cli_preset_file(err, list[i].value, ".cfg", path));
        TRY(gf_config_read(err, &p->config, path));
        leave_command_out(&p->config);
    }
    for (int i = 0; i < count; i++) {
        const flag *f = &list[i];
        if (strcmp(f->name, "config") == 0) continue;
        if (strcmp(f->name, "set") == 0) {
            /* "KEY=VALUE" of --set. */
            const char *pair = f->value;
            char key[64];
            const char *equals = strchr(pair, '=');
            FAIL_IF(err, !equals || (size_t)(equals - pair) >= sizeof key, GLOFND_E_OPTION,
                    "--set takes KEY=VALUE, not \"%.60s\"", pair);
            memcpy(key, pair, (size_t)(equals - pair));
            key[equals - pair] = 0;
            TRY(gf_config_set(err, &p->config, key, equals + 1));
        } else if (f->row) TRY(gf_option_set(err, &own, p, sizeof *p, f->name, f->value));
        else TRY(gf_config_set(err, &p->config, f->name, f->value));
    }
    return GLOFND_OK;
}

/* ----- ranks ----- */

static int has_config(const char *run, char path[PATH_MAX]) {
    snprintf(path, PATH_MAX, "%s/" GF_CONFIG_FILE, run);
    return access(path, F_OK) == 0;
}

/* Reports the checkpoint to continue from, if there is one. A run is not tied to its device: the CPU can continue what the GPU
 * cannot. */
static void report_checkpoint(const gf_pretrain *p, glofnd_status status) {
    char last[PATH_MAX] = "", path[PATH_MAX];
    gf_error unread;
    const int device = status == GLOFND_E_DEVICE || status == GLOFND_E_MEMORY;
    if (status == GLOFND_E_NUMERIC) return; /* would happen again */
    if (gf_checkpoint_latest(&unread, p->run, last) != GLOFND_OK) {
        gf_print(stderr, "its checkpoints are left as they are: %s\n", unread.text);
        return;
    }
    if (*last) gf_print(stderr, "progress up to checkpoint %s is safe; continue", last);
    else if (has_config(p->run, path)) gf_print(stderr, "there was no checkpoint yet; correct the error and begin again");
    else return;
    gf_print(stderr, " with: glofnd pretrain --out %s --resume%s\n", p->run,
             device && p->config.method.device == GLOFND_DEVICE_CUDA ? ", where the GPU cannot be used with --device cpu" : "");
}

/* Once training has begun the other ranks may be waiting for this one, and must be ended; before, all of them know. */
static int end_failed(const gf_pretrain *p, gf_comm *comm, int started, glofnd_status status, const gf_error *err) {
    const int several = comm && comm->ranks > 1;
    int code = CLI_FAILED;
    if (several && started) {
        /* Only the failing rank reports an error that all agree on and ends the others, which wait up to 5 s for it. */
        int whose = comm->rank, text = 0;
        if (sscanf(err->text, "rank %d: %n", &whose, &text) == 1 && text != 0 && whose != comm->rank)
            for (unsigned left = 5; left > 0;) left = sleep(left); /* signals to end come meanwhile */
        gf_print(stderr, "rank %d of %d, which ends all of them:\n", comm->rank, comm->ranks);
    }
    if (!several || started || comm->rank == 0) code = cli_failed("pretrain", status, err);
    else if (status == GLOFND_E_OPTION) code = CLI_USAGE; /* what the first one ends with */
    if (started) report_checkpoint(p, status);
    if (several && started) gf_dist_abort(comm, CLI_FAILED);
    return code;
}

typedef struct watched {
    const gf_pretrain *p;
    gf_comm *comm;
} watched;

/* For gf_dist_watch. Reporting may wait for the lost machine, too (its disk, MPI itself): the alarm ends this rank. */
static void end_lost(void *user, const char *text) {
    const watched *w = user;
    gf_error err;
    alarm(10);
    end_failed(w->p, w->comm, 1, gf_fail(&err, GLOFND_E_IO, "%s", text), &err);
    _exit(CLI_FAILED);
}

/* For gf_join_begin: this rank waits for ranks that never came. */
static void end_waiting(void *user, const char *text) {
    gf_error err;
    (void)user;
    alarm(10);
    cli_failed("pretrain", gf_fail(&err, GLOFND_E_IO, "%s", text), &err);
    _exit(CLI_FAILED);
}

/* Checks the arguments, on every rank. */
static glofnd_status prepare_folder(gf_error *err, const gf_pretrain *p, const gf_comm *comm) {
    FAIL_IF(err, !p->run || !*p->run, GLOFND_E_OPTION, "--out is needed: the folder of the run; --help explains");
    FAIL_IF(err, p->remap && !p->resume, GLOFND_E_OPTION, "--remap goes with --resume");
    if (p->resume && !*p->config.data) {
        /* There is no configuration to continue with. */
        const char *run = p->run;
        char path[PATH_MAX];
        gf_error unread;
        FAIL_IF(err, has_config(run, path), GLOFND_E_FORMAT,
                "%s does not name the data: it is empty, or not the one of a run; put the right one back, or pass --data and "
                "the run's other options along with --resume",
                path);
        const int kept = gf_checkpoint_latest(&unread, run, path) == GLOFND_OK && *path;
        FAIL_IF(err, kept, GLOFND_E_IO,
                "%s has a checkpoint, but its " GF_CONFIG_FILE
                " is lost; put it back, or pass --data and the run's other options along with --resume",
                run);
        GF_FAIL(err, GLOFND_E_IO, "%s holds no run to resume: there is no " GF_CONFIG_FILE " in it", run);
    }
    return p->comm && p->config.method.device == GLOFND_DEVICE_CUDA ? gf_device_choose(err, comm->local_rank) : GLOFND_OK;
}

/* status, err: of reading the arguments. */
static int run_rank(gf_pretrain *p, gf_comm *comm, gf_join *join, glofnd_status status, gf_error *err) {
    static watched others; /* for the thread that watches */
    gf_pretrain_end end = GF_PRETRAIN_FINISHED;
    int started = 0;
    p->comm = strcmp(comm->ops->name, "single") == 0 ? NULL : comm;
    const glofnd_status same_build = p->comm ? gf_comm_check_builds(err, comm) : GLOFND_OK;
    if (same_build == GLOFND_OK && status == GLOFND_OK) status = prepare_folder(err, p, comm);
    gf_join_reach(join, GF_JOIN_CHECKED);
    if (same_build == GLOFND_OK && p->comm) status = gf_comm_agree(err, comm, status);
    others = (watched){p, comm};
    if (same_build == GLOFND_OK && status == GLOFND_OK)
        status = gf_dist_watch(err, comm, p->config.rank_timeout, end_lost, &others);
    gf_join_end(join);
    if (same_build != GLOFND_OK) return end_failed(p, comm, 0, same_build, err);
    if (status == GLOFND_OK) status = gf_pretrain_run(err, p, &end, &started);
    if (status != GLOFND_OK) return end_failed(p, comm, started, status, err);
    if (comm->rank > 0) return CLI_OK;
    if (end == GF_PRETRAIN_STOPPED) gf_print(stderr, "stopped; a checkpoint is written, --resume continues\n");
    else gf_print(stderr, "%s: %s/" GF_MODEL_FILE "\n", end == GF_PRETRAIN_ALREADY ? "finished already" : "finished", p->run);
    return CLI_OK;
}

/* Also if the arguments are wrong, so that one of the ranks reports it and all of them end. */
static int run_ranks(gf_pretrain *p, glofnd_status status, gf_error *err) {
    gf_error closed = {{0}};
    gf_comm *comm = NULL;
    gf_join *join = NULL;
    const int launched = gf_dist_launched(getenv), several = p->config.ranks != GF_RANKS_SINGLE && launched;
    glofnd_status opened = gf_join_begin(&closed, several ? p->config.rank_timeout : 0.0, getenv, end_waiting, NULL, &join);
    if (opened == GLOFND_OK) opened = gf_dist_open(&closed, (gf_ranks)p->config.ranks, launched, &comm);
    if (opened != GLOFND_OK && status == GLOFND_OK) *err = closed, status = opened;
    if (!comm) {
        gf_join_end(join);
        return cli_failed("pretrain", status, err);
    }
    cli_catch_batch_signals(comm->rank == 0 ? "\nstopping after this step; press Ctrl-C again to quit immediately\n" : NULL);
    const int code = run_rank(p, comm, join, status, err);
    gf_dist_close(comm);
    return code;
}

/* The arguments are walked once; then the run to resume, files and flags set the configuration in this order. */
static int run_pretrain(int argc, char **argv) {
    gf_error err = {{0}};
    int count = 0;
    for (int i = 1; i < argc; i++) {
        const int all = strcmp(argv[i], "--help-all") == 0;
        if (all || strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return (all ? help_all() : print_help()), CLI_OK;
    }
    gf_pretrain p = {.stop = &cli_interrupted, .report = print_report, .plain = cli_terminal_is_dumb()};
    flag *list = calloc((size_t)argc, sizeof *list);
    glofnd_status status =
        list ? gf_config_init(&err, &p.config) : gf_fail(&err, GLOFND_E_MEMORY, "no memory for %d flags", argc);
    if (status == GLOFND_OK) status = parse_flags(&err, &p.config, argc, argv, list, &count);
    int typed = 1; /* what is wrong is in the arguments, not in the run */
    if (status == GLOFND_OK) status = set_flags(&err, &p, list, count, &typed);
    free(list);
    p.left_out = *left_out && !*p.config.on_epoch ? left_out : NULL;
    epoch_hook hook = {.run = p.run};
    hook.watch = (gf_epoch_watch){.user = &hook, .prepare = prepare_knn, .measure = measure_knn, .ended = run_command};
    p.watch = &hook.watch;
    const int code = run_ranks(&p, status, &err);
    gf_training_knn_free(hook.knn);
    return status == GLOFND_OK || status == GLOFND_E_IO || !typed ? code : CLI_USAGE;
}

const cli_verb cmd_pretrain = {
    .name = "pretrain",
    .summary = "train an encoder and find false negatives on the fly",
    .usage = usage,
    CLI_FLAGS(rows, gf_pretrain),
    .takes_keys = 1,
    .run_raw = run_pretrain,
};
