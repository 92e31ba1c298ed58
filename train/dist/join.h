/* join.h - names the ranks that never join. MPI waits for all of them, forever and without a word, until the heartbeat has begun:
 * so each rank that has come this far says so to the others of its machine, by the name of a socket that ends with the process,
 * and a thread looks who is missing when the time is up.
 */
#pragma once

#include "util/status.h"

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
