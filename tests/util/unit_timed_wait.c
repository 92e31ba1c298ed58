/* unit_timed_wait.c - waits end in time, also where the time of day is an hour ahead of the clock that waits are measured with:
 * as after it was set back by an hour.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "util/parallel.h"
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int day_was_asked;

/* In place of libc's: the time of day that was read before the clock was set back. */
int clock_gettime(clockid_t which, struct timespec *t) {
    const int code = (int)syscall(SYS_clock_gettime, which, t);
    if (which == CLOCK_REALTIME) t->tv_sec += 3600, day_was_asked = 1;
    return code;
}

TEST(waits_do_not_depend_on_the_time_of_day) {
    pthread_cond_t c;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    assert_true(gf_timed_cond_init(&c));
    alarm(60);         /* an hour would be too long */
    day_was_asked = 0; /* by the harness */
    pthread_mutex_lock(&lock);
    gf_timed_cond_wait(&c, &lock, 0.01);
    gf_timed_cond_wait(&c, &lock, 0.0);
    pthread_mutex_unlock(&lock);
    assert_false(day_was_asked);
    pthread_cond_destroy(&c);
}
