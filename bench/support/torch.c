/* torch.c - see torch.h. */
#include "support/torch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/python.h"

static void read_row(void *user, const char *line) {
    torch_times *t = user;
    const char *batch = python_value(line, "B"), *ms = python_value(line, "ms");
    if (!batch || !ms || t->count == TORCH_MAX) return;
    const int at = t->count;
    python_text(line, "torch", t->version, sizeof t->version);
    python_text(line, "blas", t->blas, sizeof t->blas);
    python_text(line, "detector", t->detector[at], sizeof t->detector[at]);
    t->batch[at] = strtoll(batch, NULL, 10);
    t->ms[at] = strtod(ms, NULL);
    if (t->batch[at] > 0 && t->ms[at] > 0.0) t->count++;
}

void torch_run(torch_times *t, const int64_t *sizes, int count, int64_t dim, int threads, int quick) {
    char list[512] = "", dim_text[24], threads_text[24];
    char *const args[] = {"--sizes", list, "--dim", dim_text, "--threads", threads_text, quick ? "--quick" : NULL, NULL};
    *t = (torch_times){0};
    for (int i = 0; i < count; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%lld", i ? "," : "", (long long)sizes[i]);
    snprintf(dim_text, sizeof dim_text, "%lld", (long long)dim);
    snprintf(threads_text, sizeof threads_text, "%d", threads);
    fprintf(stderr, "PyTorch ...\n");
    python_rows("bench_torch.py", args, "torch (Debian: python3-torch)", read_row, t);
}

double torch_ms(const torch_times *t, int64_t batch, const char *detector) {
    for (int i = 0; i < t->count; i++)
        if (t->batch[i] == batch && strcmp(t->detector[i], detector) == 0) return t->ms[i];
    return NAN;
}
