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

#else /* one pthread per worker and call: slow to start, but visible to thread sanitizers */

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define MAX_WORKERS 64

typedef struct gang {
    _Atomic int64_t next;
    int64_t count;
    gf_task run;
    void *arg;
} gang;

typedef struct worker {
    gang *g;
    int thread;
} worker;

static void *work(void *p) {
    const worker *w = p;
    for (;;) {
        int64_t i = atomic_fetch_add(&w->g->next, 1);
        if (i >= w->g->count) return NULL;
        w->g->run(w->g->arg, i, w->thread);
    }
}

void gf_parallel(int threads, int64_t count, gf_task run, void *arg) {
    if (threads > count) threads = (int)count;
    if (threads > MAX_WORKERS) threads = MAX_WORKERS;
    gang g = {0, count, run, arg};
    pthread_t id[MAX_WORKERS];
    worker w[MAX_WORKERS];
    int started = 1;
    w[0] = (worker){&g, 0};
    for (; started < threads; started++) {
        w[started] = (worker){&g, started};
        if (pthread_create(&id[started], NULL, work, &w[started]) != 0) break; /* fewer workers do the same work */
    }
    work(&w[0]);
    for (int i = 1; i < started; i++) pthread_join(id[i], NULL);
}

int gf_parallel_default(void) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)(n > MAX_WORKERS ? MAX_WORKERS : n);
}

#endif
