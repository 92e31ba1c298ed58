/* sweep_command.c - see sweep_command.h: arguments of commands. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "programs/cli.h"
#include "programs/sweep/sweep_command.h"

static void add_word(sweep_command *w, const char *a, const char *b) {
    w->cut |= w->count + 1 >= JOB_ARGUMENTS_MAX || SWEEP_COMMAND_MAX - w->used < strlen(a) + strlen(b) + 1;
    if (w->cut) return;
    char *to = w->text + w->used;
    w->used += (size_t)sprintf(to, "%s%s", a, b) + 1;
    w->job->argv[w->count++] = to;
    w->job->argv[w->count] = NULL;
}

/* Processors are divided among the runs, unless the configuration has a number of threads. */
static void add_threads(sweep_command *w, const sweep_plan *p, const sweep_run *r) {
    char text[32];
    const long cores = sysconf(_SC_NPROCESSORS_ONLN), each = cores / p->jobs;
    if (p->jobs < 2 || r->config.method.threads > 0) return;
    snprintf(text, sizeof text, "%ld", each < 1 ? 1 : each);
    add_word(w, "--threads=", text);
}

/* Always: a run that is resumed may have kept others. */
static void add_kept_epochs(sweep_command *w, const sweep_run *r) {
    char list[sizeof r->config.checkpoint_epochs];
    size_t used = 0;
    *list = 0;
    for (int i = 0; i < r->keep_count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%d", i ? "," : "", (int)r->keep[i]);
    w->cut |= used >= sizeof list;
    add_word(w, "--checkpoint-epochs=", list);
}

void sweep_pretrain_command(sweep_command *w, const sweep_plan *p, const sweep_run *r) {
    char pair[1200];
    add_word(w, "glofnd", ""), add_word(w, "pretrain", ""), add_word(w, "--quiet", ""), add_word(w, "--resume", "");
    for (int i = 0; i < p->config_count; i++) add_word(w, "--config=", p->config[i]);
    for (int a = 0; a < p->vary_count; a++)
        if (sweep_is_config(&p->vary[a])) add_word(w, "--config=", r->value[a]);
    for (int i = 0; i < p->set_count; i++) add_word(w, "--set=", p->set[i]);
    for (int a = 0; a < p->vary_count; a++) {
        if (sweep_is_config(&p->vary[a])) continue;
        snprintf(pair, sizeof pair, "--set=%s=%s", p->vary[a].key, r->value[a]);
        add_word(w, pair, "");
    }
    add_word(w, "--seed=", r->seed), add_word(w, "--out=", r->path);
    add_kept_epochs(w, r);
    add_threads(w, p, r);
}

/* 1: the flag of this evaluation has a value. */
static int takes_value(const char *what, const char *flag, size_t length) {
    for (const cli_verb *const *v = cmd_eval.verbs; *v; v++)
        for (int k = 0; strcmp((*v)->name, what) == 0 && k < (*v)->flag_count; k++) {
            const gf_option *o = &(*v)->flags[k];
            if (strlen(o->key) == length && strncmp(o->key, flag, length) == 0) return o->type != GF_OPTION_BOOL;
        }
    return 0;
}

const char *sweep_next_word(const char *what, int argc, const char *const *argv, int *i) {
    while (*i < argc) {
        const char *word = argv[(*i)++];
        if (strncmp(word, "--", 2) != 0) return word;
        *i += !strchr(word, '=') && takes_value(what, word + 2, strlen(word + 2));
    }
    return NULL;
}

/* argv: WHAT, the run, then flags and SPECs. */
static int names_data(int argc, const char *const *argv) {
    static const char *const flags[] = {"--data", "--retrieval", "--datacomp"};
    int next = 2;
    for (int i = 2; i < argc; i++)
        for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
            if (strncmp(argv[i], flags[k], strcspn(argv[i], "=")) == 0 && strlen(flags[k]) == strcspn(argv[i], "=")) return 1;
    return sweep_next_word(argv[0], argc, argv, &next) != NULL;
}

void sweep_eval_command(sweep_command *w, const sweep_run *r, const char *call) {
    char text[SWEEP_COMMAND_MAX];
    const char *run = r->path;
    add_word(w, "glofnd", ""), add_word(w, "eval", "");
    w->cut |= snprintf(text, sizeof text, "%s", call) >= (int)sizeof text;
    char *rest = text;
    for (char *word; (word = strsep(&rest, " \t"));) {
        if (!*word) continue;
        add_word(w, word, "");
        if (run) add_word(w, run, "");
        run = NULL;
    }
    if (!names_data(w->count - 2, w->job->argv + 2)) add_word(w, "--data=", r->config.data);
}
