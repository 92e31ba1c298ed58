/* thread_ranks.h - ranks that are threads of one process: a transport on host memory for tests (ifc/comm.h). */
#pragma once

#include "dist/comm.h"

#define THREAD_RANKS_MAX 4

/* out [ranks]: one for each thread; each is closed once. */
void thread_ranks_open(int ranks, gf_comm *out[]);
/* All threads have come here. */
void thread_ranks_meet(gf_comm *c);
/* Everyone's pointer, in the order of ranks; valid until the next call of any kind. */
void *const *thread_ranks_show(gf_comm *c, void *mine);
/* work(user[r]) on a thread for each rank; returns when all are through. */
void thread_ranks_run(int ranks, void *(*work)(void *user), void *user[]);
