/* ranked.h - checks in programs that mpirun starts: what is wrong is said and counted on its rank, and the program fails if it
 * was so on any; a rank that cannot go on ends all.
 */
#pragma once

#include "dist/dist.h"

extern struct ranked_here {
    gf_comm *comm;
    gf_error error; /* for calls under MUST */
    int failures;   /* of this rank */
} here;

/* 0, or the code to exit with: 77 without MPI. */
int ranked_open(void);
/* Failures of all ranks, reported by the first, and the end of MPI; the code to exit with. `failures`: of this rank. */
int ranked_close(int failures, size_t cases);
int ranked_sum(int failures); /* over all ranks */

void ranked_failed(const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
_Noreturn void ranked_end(const char *file, int line, const char *why);

#define CHECK(cond, ...)                                             \
    do {                                                             \
        if (!(cond)) ranked_failed(__FILE__, __LINE__, __VA_ARGS__); \
    } while (0)
/* Calls that report to here.error; to a context. */
#define MUST(expr)                                                                \
    do {                                                                          \
        if ((expr) != GLOFND_OK) ranked_end(__FILE__, __LINE__, here.error.text); \
    } while (0)
#define LIB(c, expr)                                                                  \
    do {                                                                              \
        if ((expr) != GLOFND_OK) ranked_end(__FILE__, __LINE__, glofnd_ctx_error(c)); \
    } while (0)
