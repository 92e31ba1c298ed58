/* dist.h - several ranks as one: transports on host memory, agreement on errors, gradients summed behind the backward pass.
 *
 * The launcher starts the ranks (mpirun, srun); gf_dist_open finds out whether there are any.
 */
#ifndef GF_DIST_DIST_H
#define GF_DIST_DIST_H

#include "ifc/comm.h"

typedef enum gf_ranks { GF_RANKS_AUTO, GF_RANKS_SINGLE, GF_RANKS_MPI } gf_ranks;

/* AUTO: MPI if `launched` (the environment shows a launcher's traces: gf_dist_launched), else one rank. E_UNSUPPORTED: built
 * without MPI. Once per process. */
glofnd_status gf_dist_open(gf_error *err, gf_ranks kind, int launched, gf_comm **out);
void gf_dist_close(gf_comm *c); /* NULL is fine */
/* One variable of a launcher per call of `look`, which is getenv or a test's. */
int gf_dist_launched(char *(*look)(const char *name));
/* Ends all ranks at once, this one included: for what the others cannot see. Does not return with several ranks. */
void gf_dist_abort(gf_comm *c, int code);
/* Collective: from now on silence of a rank for `seconds` (0: however long) calls lost(user, text) on the next one, which has to
 * end the run: its other threads may be waiting for that rank for ever. See heartbeat.h. */
glofnd_status gf_dist_watch(gf_error *err, gf_comm *c, double seconds, void (*lost)(void *user, const char *text), void *user);
/* Version of the transport's library, for `info`. */
void gf_dist_describe(char *text, size_t bytes);

/* The first thing ranks say to each other, in any version: how they were built. E_ARGUMENT names the first that differs from rank
 * 0 in version, commit, compiler or kind of CPU: other kernels would let the weights of ranks drift apart. */
glofnd_status gf_comm_greet(gf_error *err, gf_comm *c);
/* The first rank with a status other than OK decides: all ranks return its status and its text, with "rank R: " before it. */
glofnd_status gf_comm_agree(gf_error *err, gf_comm *c, glofnd_status mine);
/* All ranks must bring the same bytes: E_ARGUMENT names the first rank that differs from rank 0, and `what`. */
glofnd_status gf_comm_same(gf_error *err, gf_comm *c, const char *what, uint64_t hash);
glofnd_status gf_comm_barrier(gf_error *err, gf_comm *c);
glofnd_status gf_comm_gather(gf_error *err, gf_comm *c, const void *part, size_t bytes, void *all);

/* ----- sums of gradients on a thread or, on a device, in a queue of their own, while the backward pass goes on ----- */

typedef struct gf_reducer gf_reducer;

/* `bucket`: numbers per message, about. */
glofnd_status gf_reducer_create(gf_error *err, gf_comm *c, int64_t bucket, gf_reducer **out);
void gf_reducer_free(gf_reducer *r); /* NULL is fine */
/* x [n] is final on this rank: to be summed over ranks. Several may be under way. Ranks start the same ones in the same order. */
void gf_reducer_start(gf_reducer *r, float *x, int64_t n);
/* All that were started are summed; on a device, before what is queued on the origin's stream from now on. */
glofnd_status gf_reducer_wait(gf_error *err, gf_reducer *r);
/* A block of gradients [n] that becomes final from its end to its start, as backward goes: begin, then `ready` with ever smaller
 * `first` (all from there on is final), the last with 0. */
void gf_reducer_begin(gf_reducer *r, float *block, int64_t n);
void gf_reducer_ready(gf_reducer *r, int64_t first);

#endif
