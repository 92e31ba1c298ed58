/* threads.c - see threads.h. */
#define _POSIX_C_SOURCE 200809L
#include "util/threads.h"

#include <signal.h>
#include <stdint.h>
#include <time.h>

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
