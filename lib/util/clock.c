/* clock.c - see clock.h. */
#define _POSIX_C_SOURCE 200809L
#include "util/clock.h"

#include <time.h>

static double read_clock(clockid_t which) {
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double gf_clock(void) { return read_clock(CLOCK_MONOTONIC); }

double gf_cpu_clock(void) { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }

double gf_wall_clock(void) { return read_clock(CLOCK_REALTIME); }
