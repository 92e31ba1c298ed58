/* mpi_transport.h - ranks over MPI, on host memory; for dist.c. Without MPI opening fails with E_UNSUPPORTED. */
#pragma once

#include "dist/comm.h"

glofnd_status gf_mpi_open(gf_error *err, gf_comm **out);
glofnd_status gf_mpi_watch(gf_error *err, gf_comm *c, double seconds, void (*lost)(void *user, const char *text), void *user);
void gf_mpi_abort(int code);
void gf_mpi_describe(char *text, size_t bytes);
