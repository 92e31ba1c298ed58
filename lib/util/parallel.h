/* parallel.h - the only door to threads: runs tasks 0..count-1 on up to `threads` threads and waits.
 *
 * Tasks are handed out in any order: for the same bits with any thread count, tasks of one call write to
 * disjoint places. `thread` (0..threads-1) selects the scratch a task may use. OpenMP if the build has it, else the
 * pool below.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

typedef void (*gf_task)(void *arg, int64_t task, int thread);

void gf_parallel(int threads, int64_t count, gf_task run, void *arg);
/* Number of threads the runtime would use by itself: >= 1. */
int gf_parallel_default(void);

/* ----- a persistent pool of threads for builds without OpenMP, such as Python wheels -----
 *
 * A call borrows a team of workers that sleep between calls; calls from several threads use several teams. A forked child starts
 * with an empty pool, so that a library used before fork() works in the child, too. A call from inside a task runs serially. */

/* Runs tasks 0 .. count-1 on up to `threads` threads, the calling one included, and waits for all of them. Where the system
 * refuses a thread, fewer do the same work. */
void gf_pool_run(int threads, int64_t count, gf_task run, void *arg);

/* ----- threads -----
 *
 * Threads beside the program's own, and conditions that are waited for with a limit, on the monotonic clock: setting
 * the time of day does not matter. The only timed wait of the program (a test checks it). */

/* As pthread_create, for a thread that no signal is delivered to; 1: done. */
int gf_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);
/* As pthread_cond_init; 1: done. */
int gf_timed_cond_init(pthread_cond_t *c);
/* Waits until the condition is signalled or `seconds` have passed; may also return early for no reason. With the lock held. */
void gf_timed_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock, double seconds);

/* ----- progress and cancellation of a long computation ----- */

typedef struct gf_job_progress {                                   /* a zeroed one reports nothing and is never cancelled */
    void (*progress)(void *user, const char *stage, double share); /* in the calling thread */
    void *user;
    const char *stage; /* name of what is computed, for `progress`; may be NULL */
    atomic_int *stop;  /* not 0: the computation ends early */
    double from, to;   /* the part of the whole job this is; both 0: all of it */
} gf_job_progress;

static inline int gf_job_stopped(const gf_job_progress *w) { return w->stop && atomic_load(w->stop); }

/* The part [from, to] of w. */
static inline gf_job_progress gf_job_part(const gf_job_progress *w, double from, double to) {
    const double span = w->from == 0.0 && w->to == 0.0 ? 1.0 : w->to - w->from;
    gf_job_progress part = *w;
    part.from = w->from + from * span;
    part.to = w->from + to * span;
    return part;
}

/* A share in [0, 1] of w is done. */
static inline void gf_job_report(const gf_job_progress *w, double share) {
    if (w->progress) w->progress(w->user, w->stage, gf_job_part(w, share, share).from);
}
