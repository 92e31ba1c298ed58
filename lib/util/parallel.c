/* parallel.c - see parallel.h. */
#include "util/parallel.h"

#ifdef _OPENMP

#include <omp.h>

void gf_parallel(int threads, int64_t count, gf_task run, void *arg) {
    if (threads > count) threads = (int)count;
    if (threads <= 1) {
        for (int64_t i = 0; i < count; i++) run(arg, i, 0);
        return;
    }
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t i = 0; i < count; i++) run(arg, i, omp_get_thread_num());
}

int gf_parallel_default(void) {
    int n = omp_get_max_threads();
    return n < 1 ? 1 : n;
}

#else

#include "util/thread_pool.h"

void gf_parallel(int threads, int64_t count, gf_task run, void *arg) { gf_pool_run(threads, count, run, arg); }

int gf_parallel_default(void) { return gf_pool_default(); }

#endif
