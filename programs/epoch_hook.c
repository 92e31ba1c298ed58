/* epoch_hook.c - see epoch_hook.h. */
#include "programs/epoch_hook.h"

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

#include "programs/cli.h"

extern char **environ;

/* ----- evaluation ----- */

static glofnd_status prepare(gf_error *err, void *user, const gf_trainer *t) {
    epoch_hook *h = user;
    char text[1000];
    TRY(gf_training_knn_create(err, t, &h->knn));
    gf_training_knn_describe(h->knn, text, sizeof text);
    gf_print(stderr, "eval_every: kNN of %s\n", text);
    return GLOFND_OK;
}

static glofnd_status measure(gf_error *err, void *user, const gf_trainer *t, double *top1) {
    epoch_hook *h = user;
    return gf_training_knn_measure(err, h->knn, t, top1);
}

/* ----- command ----- */

enum { NAME = 48, VALUE = 64, ENTRIES = GF_RUN_FIELD_COUNT + 2 };

typedef struct variables {
    char text[GF_RUN_FIELD_COUNT][NAME + VALUE];
    char run[PATH_MAX + NAME], epochs[NAME + VALUE];
    char **all; /* the environment and these; ends with NULL */
} variables;

/* "GLOFND_LOSS=0.25"; an integer without a point. */
static void write_entry(char out[NAME + VALUE], const gf_log_key *key, double x) {
    char name[NAME];
    size_t n = 0;
    for (; key->key[n] && n < NAME - 1; n++) name[n] = (char)toupper((unsigned char)key->key[n]);
    name[n] = 0;
    if (key->kind == GF_LOG_INTEGER) snprintf(out, NAME + VALUE, "GLOFND_%s=%lld", name, (long long)x);
    else snprintf(out, NAME + VALUE, "GLOFND_%s=%.17g", name, x);
}

static int is_ours(const char *entry) { return strncmp(entry, "GLOFND_", strlen("GLOFND_")) == 0; }

/* Figures that do not exist have no variable, not even one that this process was given. */
static int make_variables(variables *v, const epoch_hook *h, const gf_trainer *t, const double *value) {
    size_t n = 0;
    while (environ[n]) n++;
    v->all = malloc((n + ENTRIES + 1) * sizeof *v->all);
    if (!v->all) return 0;
    n = 0;
    for (char **e = environ; *e; e++)
        if (!is_ours(*e)) v->all[n++] = *e;
    snprintf(v->run, sizeof v->run, "GLOFND_RUN=%s", h->run);
    snprintf(v->epochs, sizeof v->epochs, "GLOFND_EPOCHS=%d", (int)t->config.epochs);
    v->all[n++] = v->run, v->all[n++] = v->epochs;
    for (int i = 0; i < GF_RUN_FIELD_COUNT; i++) {
        if (!isfinite(value[i])) continue;
        write_entry(v->text[i], &gf_log_epoch.key[i], value[i]);
        v->all[n++] = v->text[i];
    }
    v->all[n] = NULL;
    return 1;
}

/* Standard input is empty, output goes where messages go: results of pretrain stay apart. Signals that this program ignores have
 * their usual meaning. 0: *pid is running; else an errno. */
static int start(const char *command, char **environment, pid_t *pid) {
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

static void report_end(int status, int64_t epoch) {
    if (WIFSIGNALED(status))
        gf_print(stderr, "on_epoch: the command was ended by signal %d after epoch %lld; training continues\n", WTERMSIG(status),
                 (long long)epoch);
    else if (WEXITSTATUS(status) != 0)
        gf_print(stderr, "on_epoch: the command failed with exit code %d after epoch %lld; training continues\n",
                 WEXITSTATUS(status), (long long)epoch);
}

/* Waits for the command: the next epoch begins behind it, and what it reads of the run stays as it is. */
static void ended(void *user, const gf_trainer *t, const double *value) {
    const epoch_hook *h = user;
    const int64_t epoch = t->step / t->epoch_steps;
    variables *v = calloc(1, sizeof *v);
    pid_t pid = 0, done;
    int status = 0, error = v && make_variables(v, h, t, value) ? 0 : ENOMEM;
    if (!error) error = start(t->config.on_epoch, v->all, &pid);
    if (error) gf_print(stderr, "on_epoch: the command cannot be started: %s; training continues\n", strerror(error));
    if (!error) {
        while ((done = waitpid(pid, &status, 0)) < 0 && errno == EINTR) continue;
        if (done == pid) report_end(status, epoch);
    }
    if (v) free(v->all);
    free(v);
}

void epoch_hook_init(epoch_hook *h, const char *run) {
    *h = (epoch_hook){.run = run, .watch = {.user = h, .prepare = prepare, .measure = measure, .ended = ended}};
}

void epoch_hook_free(epoch_hook *h) { gf_training_knn_free(h->knn); }
