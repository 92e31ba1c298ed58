/* no_mpi.c - in a build without MPI: says so. */
#ifndef GF_HAVE_MPI

#include <stdio.h>

#include "dist/transports.h"

glofnd_status gf_mpi_open(gf_error *err, gf_comm **out) {
    *out = NULL;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED,
            "several ranks need MPI, and this program was built without: install libopenmpi-dev and build again");
}

glofnd_status gf_mpi_watch(gf_error *err, gf_comm *c, double seconds, void (*lost)(void *user, const char *text), void *user) {
    (void)err, (void)c, (void)seconds, (void)lost, (void)user;
    return GLOFND_OK;
}

void gf_mpi_abort(int code) { (void)code; }

void gf_mpi_describe(char *text, size_t bytes) { snprintf(text, bytes, "not built in (Debian: libopenmpi-dev)"); }

#else
typedef int gf_no_mpi_is_empty;
#endif
