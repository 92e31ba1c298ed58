/* dist.h - several ranks that train as one: transports on host memory, agreement on errors, gradients summed during the backward
 * pass.
 *
 * A launcher (mpirun, srun) starts the ranks; gf_dist_open detects it.
 */
#pragma once

#include "dist/comm.h"
#include "util/status.h"

typedef enum gf_ranks { GF_RANKS_AUTO, GF_RANKS_SINGLE, GF_RANKS_MPI } gf_ranks;

/* AUTO: MPI if `launched` (gf_dist_launched), else one rank. E_UNSUPPORTED: built without MPI. Once per process. */
glofnd_status gf_dist_open(gf_error *err, gf_ranks ranks, int launched, gf_comm **out);
void gf_dist_close(gf_comm *c); /* NULL is fine */
/* 1: the environment has variables of a launcher. get_variable: getenv, or a test's. */
int gf_dist_launched(char *(*get_variable)(const char *name));
/* Ends all ranks at once, this one included: for errors that the others do not notice. Does not return with several ranks. */
void gf_dist_abort(gf_comm *c, int code);
/* Collective: from now on silence of a rank for `seconds` (0: no limit) calls lost(user, text) on the next one, which must end
 * the run: its other threads may wait for that rank forever. See mpi_ranks.c. */
glofnd_status gf_dist_watch(gf_error *err, gf_comm *c, double seconds, void (*lost)(void *user, const char *text), void *user);
/* Version of the transport's library, for `info`. */
void gf_dist_describe(char *text, size_t bytes);

/* The first message between ranks, in any version: their builds. E_ARGUMENT names the first rank that differs from rank 0 in
 * version, commit, compiler or type of CPU: different kernels would let the weights of ranks drift apart. */
glofnd_status gf_comm_check_builds(gf_error *err, gf_comm *c);
/* The first rank with a status other than OK decides: all ranks return its status and its text, with "rank R: " before it. */
glofnd_status gf_comm_agree(gf_error *err, gf_comm *c, glofnd_status mine);
/* All ranks must have the same hash: E_ARGUMENT names the first rank that differs from rank 0, and `what`. */
glofnd_status gf_comm_check_equal(gf_error *err, gf_comm *c, const char *what, uint64_t hash);
glofnd_status gf_comm_gather(gf_error *err, gf_comm *c, const void *part, size_t bytes, void *all);

/* ----- sums of gradients during the backward pass, on a second thread or, on a device, in a second queue ----- */

typedef struct gf_reducer gf_reducer;

/* `bucket`: numbers per message, about. */
glofnd_status gf_reducer_create(gf_error *err, gf_comm *c, int64_t bucket, gf_reducer **out);
void gf_reducer_free(gf_reducer *r); /* NULL is fine */
/* x [n] is final on this rank and gets summed over ranks. Several may be pending. Ranks start the same ones in the same order. */
void gf_reducer_start(gf_reducer *r, float *x, int64_t n);
/* All that were started are summed; on a device, before work queued on the origin's stream from now on. */
glofnd_status gf_reducer_wait(gf_error *err, gf_reducer *r);
/* A block of gradients [n] that becomes final from its end to its start, as backward proceeds: begin, then `ready` with ever
 * smaller `first` (all from there on is final), the last with 0. */
void gf_reducer_begin(gf_reducer *r, float *block, int64_t n);
void gf_reducer_ready(gf_reducer *r, int64_t first);

/* ----- ranks that never join -----
 *
 * Names the ranks that never join. MPI waits for all of them, forever and without a word, until the heartbeat has begun: so
 * each rank that has come this far says so to the others of its machine, by the name of a socket that ends with the process,
 * and a thread looks who is missing when the time is up. */

typedef struct gf_join gf_join;

typedef enum gf_join_stage { GF_JOIN_STARTED, GF_JOIN_CHECKED, GF_JOIN_STAGES } gf_join_stage;

/* Watches this rank's own wait: `seconds` (0: no limit) after a stage was reached, lost(user, text) is called on that thread; the
 * callee must end the process. The text names the missing ranks of this machine. get_variable: getenv, or a test's. NULL in *out:
 * nothing is watched, as there is no limit. */
glofnd_status gf_join_begin(gf_error *err, double seconds, char *(*get_variable)(const char *name),
                            void (*lost)(void *user, const char *text), void *user, gf_join **out);
/* This rank has reached a further stage, and waits for the others there. NULL is fine, as below. */
void gf_join_reach(gf_join *j, gf_join_stage stage);
/* All have joined. */
void gf_join_end(gf_join *j);
