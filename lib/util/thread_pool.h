/* thread_pool.h - a persistent pool of threads for builds without OpenMP, such as Python wheels.
 *
 * A call borrows a team of workers that sleep between calls; calls from several threads use several teams. A forked child starts
 * with an empty pool, so that a library used before fork() works in the child, too. A call from inside a task runs serially.
 */
#pragma once

#include "util/parallel.h"

/* Runs tasks 0 .. count-1 on up to `threads` threads, the calling one included, and waits for all of them. Where the system
 * refuses a thread, fewer do the same work. */
void gf_pool_run(int threads, int64_t count, gf_task run, void *arg);
/* CPUs this process may use: >= 1. */
int gf_pool_default(void);
