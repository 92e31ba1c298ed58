/* sweep_command.c - see sweep_command.h: arguments of commands. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/sweep/sweep_command.h"

static void add_word(sweep_command *w, const char *a, const char *b) {
    if (w->count + 1 >= JOB_ARGUMENTS_MAX || SWEEP_COMMAND_MAX - w->used < strlen(a) + strlen(b) + 1) return;
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

void sweep_pretrain_command(sweep_command *w, const sweep_plan *p, const sweep_run *r) {
    char pair[1200];
    add_word(w, "glofnd", ""), add_word(w, "pretrain", ""), add_word(w, "--quiet", ""), add_word(w, "--resume", "");
    if (p->config) add_word(w, "--config=", p->config);
    for (int a = 0; a < p->vary_count; a++)
        if (sweep_is_config(&p->vary[a])) add_word(w, "--config=", r->value[a]);
    for (int i = 0; i < p->set_count; i++) add_word(w, "--set=", p->set[i]);
    for (int a = 0; a < p->vary_count; a++) {
        if (sweep_is_config(&p->vary[a])) continue;
        snprintf(pair, sizeof pair, "--set=%s=%s", p->vary[a].key, r->value[a]);
        add_word(w, pair, "");
    }
    add_word(w, "--seed=", r->seed), add_word(w, "--out=", r->path);
    add_threads(w, p, r);
}

void sweep_eval_command(sweep_command *w, const sweep_run *r, const char *call) {
    char text[SWEEP_COMMAND_MAX / 2];
    const char *run = r->path;
    add_word(w, "glofnd", ""), add_word(w, "eval", "");
    snprintf(text, sizeof text, "%s", call);
    char *rest = text;
    for (char *word; (word = strsep(&rest, " \t"));) {
        if (!*word) continue;
        add_word(w, word, "");
        if (run) add_word(w, run, "");
        run = NULL;
    }
    if (!strstr(call, "--data")) add_word(w, "--data=", r->config.data);
}
