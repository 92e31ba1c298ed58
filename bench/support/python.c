/* python.c - see python.h. */
#include "support/python.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/die.h"

#ifndef BENCH_SOURCE_DIR
#define BENCH_SOURCE_DIR "."
#endif
#define LACKS 3 /* exit status of a script in a Python without its modules */
#define NO_PYTHON 127

/* Starts `argv` with its output in a pipe; its input, too, where `in` is not NULL. */
static FILE *start(char *const argv[], pid_t *child, FILE **in) {
    int ends[2], back[2];
    if (pipe(ends) != 0 || (in && pipe(back) != 0)) die("no pipe to Python");
    fflush(NULL);
    *child = fork();
    if (*child < 0) die("no process for Python");
    if (*child == 0) {
        if (in) dup2(back[0], STDIN_FILENO), close(back[0]), close(back[1]);
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]), close(ends[1]);
        execvp(argv[0], argv);
        _exit(NO_PYTHON);
    }
    close(ends[1]);
    if (in) close(back[0]);
    FILE *out = fdopen(ends[0], "r");
    if (!out || (in && !(*in = fdopen(back[1], "w")))) die("no pipe to Python");
    return out;
}

static int finish(FILE *out, pid_t child) {
    int status = 0;
    fclose(out);
    if (waitpid(child, &status, 0) < 0 || !WIFEXITED(status)) return -1;
    return WEXITSTATUS(status);
}

const char *python_value(const char *line, const char *key) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(line, quoted);
    return at ? at + strlen(quoted) : NULL;
}

double python_number(const char *line, const char *key) {
    const char *at = python_value(line, key);
    return at ? strtod(at, NULL) : (double)NAN;
}

void python_text(const char *line, const char *key, char *out, size_t capacity) {
    const char *at = python_value(line, key);
    const size_t length = at && *at == '"' ? strcspn(at + 1, "\"\n") : 0;
    snprintf(out, capacity, "%.*s", (int)length, length ? at + 1 : "");
}

static char *const pythons[] = {"python3", "/usr/bin/python3"};

int python_rows(const char *script, char *const *args, const char *needs, void (*row)(void *user, const char *line), void *user) {
    char path[512], line[1024];
    char *argv[PYTHON_ARGUMENTS + 3] = {NULL, path};
    int status = LACKS;
    snprintf(path, sizeof path, "%s/tools/%s", BENCH_SOURCE_DIR, script);
    for (int i = 0; i < PYTHON_ARGUMENTS && args[i]; i++) argv[i + 2] = args[i];
    for (int i = 0; i < 2 && (status == LACKS || status == NO_PYTHON); i++) {
        pid_t child;
        argv[0] = pythons[i];
        FILE *out = start(argv, &child, NULL);
        while (fgets(line, sizeof line, out)) row(user, line);
        status = finish(out, child);
    }
    if (status == LACKS || status == NO_PYTHON) fprintf(stderr, "no Python with %s here: not compared\n", needs);
    else if (status != 0) fprintf(stderr, "%s failed with status %d: compared as far as it came\n", script, status);
    return status != LACKS && status != NO_PYTHON;
}

int python_ask(python_partner *p, char *line, size_t capacity) {
    if (!p->in) return 0;
    fputc('\n', p->in);
    if (fflush(p->in) == 0 && fgets(line, (int)capacity, p->out)) return 1;
    python_leave(p);
    return 0;
}

int python_meet(python_partner *p, const char *script, char *const *args, const char *needs, char *line, size_t capacity) {
    char path[512];
    char *argv[PYTHON_ARGUMENTS + 3] = {NULL, path};
    signal(SIGPIPE, SIG_IGN); /* a partner that is gone is noticed by its silence */
    snprintf(path, sizeof path, "%s/tools/%s", BENCH_SOURCE_DIR, script);
    for (int i = 0; i < PYTHON_ARGUMENTS && args[i]; i++) argv[i + 2] = args[i];
    for (int i = 0; i < 2; i++) {
        argv[0] = pythons[i];
        *p = (python_partner){0};
        p->out = start(argv, &p->child, &p->in);
        if (python_ask(p, line, capacity)) return 1;
    }
    fprintf(stderr, "no Python with %s here: not compared\n", needs);
    return 0;
}

void python_leave(python_partner *p) {
    if (!p->in) return;
    fclose(p->in);
    finish(p->out, p->child);
    *p = (python_partner){0};
}
