/* heartbeat.h - detects lost ranks. Ranks form a ring: on a separate thread each sends a message to the next one at intervals,
 * and receives those of the one before it. A rank falls silent when its machine or the network is lost or it is stopped, not
 * because it computes, reads or waits; and the next one knows which rank it is.
 *
 * Time counts only while this rank itself runs: a job that was suspended as a whole continues when it is resumed.
 */
#pragma once

#include "dist/mpi_lib.h"
#include "util/status.h"

typedef struct gf_heartbeat gf_heartbeat;

/* Collective. After `seconds` of silence (0: no limit) lost(user, text) is called, on that thread, once: the text names rank,
 * machine and duration; the callee must end the process. */
glofnd_status gf_heartbeat_start(gf_error *err, MPI_Comm comm, double seconds, void (*lost)(void *user, const char *text),
                                 void *user, gf_heartbeat **out);
/* Collective; returns when the previous rank has stopped, too. NULL is fine. */
void gf_heartbeat_stop(gf_heartbeat *h);
