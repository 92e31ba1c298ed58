/* transports.h - what dist.c chooses from. */
#ifndef GF_DIST_TRANSPORTS_H
#define GF_DIST_TRANSPORTS_H

#include "ifc/comm.h"

glofnd_status gf_single_open(gf_error *err, gf_comm **out);
/* mpi.c, or no_mpi.c in a build without it. */
glofnd_status gf_mpi_open(gf_error *err, gf_comm **out);
glofnd_status gf_mpi_watch(gf_error *err, gf_comm *c, double seconds, void (*lost)(void *user, const char *text), void *user);
void gf_mpi_abort(int code);
void gf_mpi_describe(char *text, size_t bytes);

#endif
