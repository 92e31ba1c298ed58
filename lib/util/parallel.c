/* parallel.c - see parallel.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "util/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ----- threads ----- */

int gf_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !failed;
}

int gf_timed_cond_init(pthread_cond_t *c) {
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic) != 0) return 0;
    const int failed = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) != 0 || pthread_cond_init(c, &monotonic) != 0;
    pthread_condattr_destroy(&monotonic);
    return !failed;
}

void gf_timed_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock, double seconds) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const int64_t at = (int64_t)until.tv_nsec + (int64_t)(1e9 * seconds);
    until.tv_sec += (time_t)(at / 1000000000);
    until.tv_nsec = (long)(at % 1000000000);
    pthread_cond_timedwait(c, lock, &until);
}

/* ----- the pool -----
 *
 * A group of workers has one gate, a 64-bit word: the number of the call, whether it is open, and how many workers have joined.
 * The caller opens the gate, works on tasks itself, and closes the gate when no task is left; then it waits for the workers
 * that joined. A worker that wakes late finds the gate closed and goes back to sleep: no call waits for a worker that has
 * nothing to do. Waiting spins for a quarter of a millisecond before it sleeps. */

#define THREADS_MAX 256
#define SPINS 10000 /* of some 25 ns: the gap between two passes, or between two steps of a loop in Python */

#define LINE 128 /* what waiting threads read lies apart from what working ones change: two lines, which CPUs fetch together */

typedef struct worker_group {
    _Alignas(LINE) _Atomic uint64_t gate; /* call << 16 | joined << 1 | open */
    _Alignas(LINE) _Atomic int64_t next;  /* task */
    _Alignas(LINE) _Atomic int finished;  /* of the workers that joined */
    _Alignas(LINE) int64_t count;
    _Atomic int max_workers; /* workers that may join this call */
    gf_task run;
    void *arg;
    pthread_mutex_t lock; /* of sleeping and stop */
    pthread_cond_t wake, done;
    _Atomic int sleepers, caller_sleeps;
    int stop;
    int workers;
    pthread_t id[THREADS_MAX];
    struct worker_group *link;
} worker_group;

static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static worker_group *idle; /* groups that no call uses */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int cpus = 1;
static _Thread_local int inside; /* a task runs on this thread */

static int joined(uint64_t gate) { return (int)(gate >> 1 & 0x7fff); }

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spinning pays only where every thread has a CPU of its own. */
static int spins(const worker_group *t) { return atomic_load(&t->max_workers) < cpus ? SPINS : 0; }

static void run_tasks(worker_group *t, int thread) {
    inside = 1;
    for (int64_t i; (i = atomic_fetch_add(&t->next, 1)) < t->count;) t->run(t->arg, i, thread);
    inside = 0;
}

/* The place of this worker in the open call, from 1 on; 0: the gate is closed or all max_workers are taken. */
static int join(worker_group *t, uint64_t gate) {
    while ((int)(gate & 1) && joined(gate) < atomic_load(&t->max_workers))
        if (atomic_compare_exchange_weak(&t->gate, &gate, gate + 2)) return joined(gate) + 1;
    return 0;
}

/* Waits for a gate other than `seen`; 0: the worker_group is to end. */
static int await_call(worker_group *t, uint64_t seen) {
    int stop;
    for (int i = 0; i < spins(t); i++, relax())
        if (atomic_load(&t->gate) >> 16 != seen >> 16) return 1;
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->sleepers, 1);
    while (!t->stop && atomic_load(&t->gate) >> 16 == seen >> 16) pthread_cond_wait(&t->wake, &t->lock);
    atomic_fetch_sub(&t->sleepers, 1);
    stop = t->stop;
    pthread_mutex_unlock(&t->lock);
    return !stop;
}

static void *worker(void *arg) {
    worker_group *t = arg;
    uint64_t seen = 0;
    while (await_call(t, seen)) {
        seen = atomic_load(&t->gate);
        const int place = join(t, seen);
        if (!place) continue;
        run_tasks(t, place);
        atomic_fetch_add(&t->finished, 1);
        if (!atomic_load(&t->caller_sleeps)) continue;
        pthread_mutex_lock(&t->lock);
        pthread_cond_signal(&t->done);
        pthread_mutex_unlock(&t->lock);
    }
    return NULL;
}

/* ----- groups ----- */

static void before_fork(void) { pthread_mutex_lock(&idle_lock); }
static void after_fork(void) { pthread_mutex_unlock(&idle_lock); }

/* The child has none of the parent's threads: it drops their groups. */
static void in_child(void) {
    idle = NULL;
    pthread_mutex_init(&idle_lock, NULL);
}

static void begin_pool(void) {
    cpu_set_t set;
    pthread_atfork(before_fork, after_fork, in_child);
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) cpus = CPU_COUNT(&set);
    else cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (cpus < 1) cpus = 1;
}

static worker_group *take_group(void) {
    pthread_mutex_lock(&idle_lock);
    worker_group *t = idle;
    if (t) idle = t->link;
    pthread_mutex_unlock(&idle_lock);
    if (t || !(t = aligned_alloc(LINE, sizeof *t))) return t;
    memset(t, 0, sizeof *t);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    pthread_cond_init(&t->done, NULL);
    return t;
}

/* When the library is unloaded, or the program ends, its idle threads must not outlive its code. */
__attribute__((destructor)) static void stop_workers(void) {
    pthread_mutex_lock(&idle_lock);
    for (worker_group *t = idle, *next; t; t = next) {
        next = t->link;
        pthread_mutex_lock(&t->lock);
        t->stop = 1;
        pthread_cond_broadcast(&t->wake);
        pthread_mutex_unlock(&t->lock);
        for (int i = 0; i < t->workers; i++) pthread_join(t->id[i], NULL);
        free(t);
    }
    idle = NULL;
    pthread_mutex_unlock(&idle_lock);
}

/* ----- a call ----- */

static void await_workers(worker_group *t, int count) {
    for (int i = 0; i < spins(t); i++, relax())
        if (atomic_load(&t->finished) == count) return;
    pthread_mutex_lock(&t->lock);
    atomic_store(&t->caller_sleeps, 1);
    while (atomic_load(&t->finished) != count) pthread_cond_wait(&t->done, &t->lock);
    atomic_store(&t->caller_sleeps, 0);
    pthread_mutex_unlock(&t->lock);
}

void gf_pool_run(int threads, int64_t count, gf_task run, void *arg) {
    worker_group *t = NULL;
    if (threads > count) threads = (int)count;
    if (threads > THREADS_MAX) threads = THREADS_MAX;
    if (threads > 1 && !inside) pthread_once(&once, begin_pool), t = take_group();
    if (!t) {
        for (int64_t i = 0; i < count; i++) run(arg, i, 0);
        return;
    }
    while (t->workers < threads - 1 && gf_thread_start(&t->id[t->workers], worker, t)) t->workers++;
    atomic_store(&t->next, 0);
    atomic_store(&t->finished, 0);
    t->count = count, t->run = run, t->arg = arg;
    atomic_store(&t->max_workers, threads - 1);
    const uint64_t call = (atomic_load(&t->gate) >> 16) + 1;
    atomic_store(&t->gate, call << 16 | 1);
    if (atomic_load(&t->sleepers)) {
        pthread_mutex_lock(&t->lock);
        pthread_cond_broadcast(&t->wake);
        pthread_mutex_unlock(&t->lock);
    }
    run_tasks(t, 0);
    const uint64_t gate = atomic_fetch_and(&t->gate, ~(uint64_t)1); /* closed: no worker joins from here on */
    await_workers(t, joined(gate));
    pthread_mutex_lock(&idle_lock);
    t->link = idle;
    idle = t;
    pthread_mutex_unlock(&idle_lock);
}

/* ----- the one door ----- */

#ifdef _OPENMP

#include <omp.h>

/* libgomp waits for ever in a child of fork() for the threads that only the parent has. There the groups above do the work. */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static int in_forked_child;

static void note_fork(void) { in_forked_child = 1; }
static void watch_forks(void) { pthread_atfork(NULL, NULL, note_fork); }

void gf_parallel(int threads, int64_t count, gf_task run, void *arg) {
    if (threads > count) threads = (int)count;
    if (threads <= 1) {
        for (int64_t i = 0; i < count; i++) run(arg, i, 0);
        return;
    }
    pthread_once(&fork_once, watch_forks);
    if (in_forked_child) {
        gf_pool_run(threads, count, run, arg);
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

void gf_parallel(int threads, int64_t count, gf_task run, void *arg) { gf_pool_run(threads, count, run, arg); }

int gf_parallel_default(void) { /* the CPUs this process may use */
    pthread_once(&once, begin_pool);
    return cpus < THREADS_MAX ? cpus : THREADS_MAX;
}

#endif
