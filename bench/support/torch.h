/* torch.h - the same step in PyTorch, if there is one: runs tools/bench_torch.py and reads its rows. */
#pragma once

#include <stdint.h>

#define TORCH_MAX 64

typedef struct torch_times {
    char detector[TORCH_MAX][16];
    int64_t batch[TORCH_MAX];
    double ms[TORCH_MAX];
    int count;
    char version[32], blas[64]; /* of PyTorch; the library it multiplies with */
} torch_times;

/* Empty, with a note on stderr, where no Python here has torch or the script fails. */
void torch_run(torch_times *t, const int64_t *sizes, int count, int64_t dim, int threads, int quick);
double torch_ms(const torch_times *t, int64_t batch, const char *detector); /* NaN: not measured */
