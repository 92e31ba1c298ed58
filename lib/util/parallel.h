/* parallel.h - the only door to threads: runs tasks 0..count-1 on up to `threads` threads and waits.
 *
 * Tasks are handed out in any order: for the same bits with any thread count, tasks of one call write to
 * disjoint places. `thread` (0..threads-1) selects the scratch a task may use. OpenMP where the build has it, else thread_pool.h.
 */
#pragma once

#include <stdint.h>

typedef void (*gf_task)(void *arg, int64_t task, int thread);

void gf_parallel(int threads, int64_t count, gf_task run, void *arg);
/* Number of threads the runtime would use by itself: >= 1. */
int gf_parallel_default(void);
