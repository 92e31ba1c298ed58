/* ranked.c - see ranked.h. */
#include "ranked.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_REPORTED = 10 }; /* failures of a rank, in words */

struct ranked_here here;

int ranked_open(void) {
    if (gf_dist_open(&here.error, GF_RANKS_MPI, 1, &here.comm) == GLOFND_OK) return 0;
    fprintf(stderr, "skipped: %s\n", here.error.text);
    return 77;
}

int ranked_sum(int failures) {
    double all = failures;
    MUST(here.comm->ops->sum(&here.error, here.comm, &all, 1));
    return (int)all;
}

int ranked_close(int failures, size_t cases) {
    const int all = ranked_sum(failures);
    if (here.comm->rank == 0) printf("%d ranks: %d failures in %zu cases\n", here.comm->ranks, all, cases);
    gf_dist_close(here.comm);
    return all > 0;
}

void ranked_failed(const char *file, int line, const char *fmt, ...) {
    va_list args;
    here.failures++;
    if (here.failures > MAX_REPORTED) return;
    fprintf(stderr, "%s:%d: rank %d: ", file, line, here.comm->rank);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

void ranked_end(const char *file, int line, const char *why) {
    fprintf(stderr, "%s:%d: rank %d: %s\n", file, line, here.comm ? here.comm->rank : 0, why);
    gf_dist_abort(here.comm, 1);
    exit(1);
}
