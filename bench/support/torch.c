/* torch.c - see torch.h. */
#include "support/torch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/die.h"

#ifndef BENCH_SOURCE_DIR
#define BENCH_SOURCE_DIR "."
#endif
#define SCRIPT BENCH_SOURCE_DIR "/tools/bench_torch.py"
#define NO_TORCH 3              /* exit status of the script, or of a shell-like exec that found no Python: 127 */

/* Starts `argv` with its output in a pipe. */
static FILE *start(char *const argv[], pid_t *child) {
    int ends[2];
    if (pipe(ends) != 0) die("no pipe to PyTorch");
    fflush(NULL);
    *child = fork();
    if (*child < 0) die("no process for PyTorch");
    if (*child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]), close(ends[1]);
        execvp(argv[0], argv);
        _exit(127);
    }
    close(ends[1]);
    FILE *out = fdopen(ends[0], "r");
    if (!out) die("no pipe to PyTorch");
    return out;
}

static int finish(FILE *out, pid_t child) {
    int status = 0;
    fclose(out);
    if (waitpid(child, &status, 0) < 0 || !WIFEXITED(status)) return -1;
    return WEXITSTATUS(status);
}

/* The text or number behind "key": in a row of the script; NULL if it is not there. */
static const char *value_of(const char *line, const char *key) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(line, quoted);
    return at ? at + strlen(quoted) : NULL;
}

/* Text in quotes behind "key":, as far as there is room; else empty. */
static void text_of(const char *line, const char *key, char *out, size_t room) {
    const char *at = value_of(line, key);
    const size_t length = at && *at == '"' ? strcspn(at + 1, "\"\n") : 0;
    snprintf(out, room, "%.*s", (int)length, length ? at + 1 : "");
}

static void read_row(torch_times *t, const char *line) {
    const char *batch = value_of(line, "B"), *ms = value_of(line, "ms");
    if (!batch || !ms || t->count == TORCH_MOST) return;
    const int at = t->count;
    text_of(line, "torch", t->version, sizeof t->version);
    text_of(line, "blas", t->blas, sizeof t->blas);
    text_of(line, "detector", t->detector[at], sizeof t->detector[at]);
    t->batch[at] = strtoll(batch, NULL, 10);
    t->ms[at] = strtod(ms, NULL);
    if (t->batch[at] > 0 && t->ms[at] > 0.0) t->count++;
}

static int try_python(torch_times *t, char *python, char *sizes, char *dim, char *threads, int quick) {
    char *argv[] = {python, SCRIPT, "--sizes", sizes, "--dim", dim, "--threads", threads, quick ? "--quick" : NULL, NULL};
    char line[1024];
    pid_t child;
    FILE *out = start(argv, &child);
    while (fgets(line, sizeof line, out)) read_row(t, line);
    return finish(out, child);
}

void torch_run(torch_times *t, const int64_t *sizes, int count, int64_t dim, int threads, int quick) {
    char *const pythons[] = {"python3", "/usr/bin/python3"};
    char list[512] = "", dim_text[24], threads_text[24];
    int status = NO_TORCH;
    *t = (torch_times){0};
    for (int i = 0; i < count; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%lld", i ? "," : "", (long long)sizes[i]);
    snprintf(dim_text, sizeof dim_text, "%lld", (long long)dim);
    snprintf(threads_text, sizeof threads_text, "%d", threads);
    fprintf(stderr, "PyTorch ...\n");
    for (int i = 0; i < 2 && (status == NO_TORCH || status == 127); i++)
        status = try_python(t, pythons[i], list, dim_text, threads_text, quick);
    if (status == NO_TORCH || status == 127) fprintf(stderr, "no Python with torch here (Debian: python3-torch): not compared\n");
    else if (status != 0) fprintf(stderr, "%s failed with status %d: compared as far as it came\n", SCRIPT, status);
}

double torch_ms(const torch_times *t, int64_t batch, const char *detector) {
    for (int i = 0; i < t->count; i++)
        if (t->batch[i] == batch && strcmp(t->detector[i], detector) == 0) return t->ms[i];
    return NAN;
}
