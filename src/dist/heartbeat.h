/* heartbeat.h - is the neighbour still there? Ranks form a ring: each tells the next one again and again that it lives, and
 * listens to the one before it, on a thread of its own. A rank falls silent when its machine or the network is gone or it is
 * stopped, not because it computes, reads or waits; and the one after it knows which one it is.
 *
 * Time counts only while this rank runs itself: a job that was suspended as a whole goes on when it is woken.
 */
#ifndef GF_DIST_HEARTBEAT_H
#define GF_DIST_HEARTBEAT_H

#include <mpi.h>

#include "util/status.h"

typedef struct gf_heartbeat gf_heartbeat;

/* Collective. After `seconds` of silence (0: however long it is) lost(user, text) is called, on that thread, once: the text says
 * who, where and for how long; the callee has to end the process. */
glofnd_status gf_heartbeat_start(gf_error *err, MPI_Comm comm, double seconds, void (*lost)(void *user, const char *text),
                                 void *user, gf_heartbeat **out);
/* Collective; returns when the neighbour, too, has nothing more to say. NULL is fine. */
void gf_heartbeat_stop(gf_heartbeat *h);

#endif
