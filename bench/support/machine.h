/* machine.h - the machine a benchmark runs on: what it is, how fast it can multiply, how much memory it has given us. */
#pragma once

#include <stddef.h>

double seconds(void); /* monotonic */

typedef struct machine {
    char cpu[96];
    int cores, threads;
    const char *isa;       /* of the kernels */
    double load;           /* average of the last minute, at the start */
    double kernel_gflops;  /* the product kernel on tiles that stay in cache, all threads */
    double product_gflops; /* the whole product of the materialising implementation: Z Z', 4096 x 8192 x 128 */
} machine;

machine machine_probe(int threads); /* takes about a second */

/* Resident memory of the process: now, and the most since the last reset (where the system allows none: since the start). */
size_t resident_now(void);
size_t resident_peak(void);
void resident_reset(void);
