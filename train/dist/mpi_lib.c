/* mpi_lib.c - see mpi_lib.h. The library stays open until the process ends. Empty in builds without MPI. */
#ifdef GF_HAVE_MPI

#include "dist/mpi_lib.h"

#include <pthread.h>
#include <stddef.h>

#include "util/machine.h"

#ifdef OPEN_MPI
#define NAME "Open MPI"
#define PACKAGE "openmpi-bin"
#else
#define NAME "MPI"
#define PACKAGE "mpich"
#endif

gf_mpi_lib gf_mpi;

static glofnd_status open_library(gf_error *err) {
    static const char *const names[] = {GF_MPI_SONAME, NULL};
    void *lib = gf_shared_lib_open(names, 1); /* its plugins look for its symbols */
    FAIL_IF(err, !lib, GLOFND_E_UNSUPPORTED,
            "several ranks need " NAME ", which cannot be opened (%.200s): install it (Debian: " PACKAGE
            "), or put its folder into LD_LIBRARY_PATH",
            gf_shared_lib_error());
#define GF_X(name)                                                                           \
    FAIL_IF(err, !gf_shared_lib_find(lib, "MPI_" #name, &gf_mpi.name), GLOFND_E_UNSUPPORTED, \
            GF_MPI_SONAME " has no MPI_" #name ": a newer " NAME " is needed");
    GF_MPI_FUNCTIONS(GF_X)
#undef GF_X
#define GF_X(name)                                                                    \
    FAIL_IF(err, !gf_shared_lib_find(lib, #name, &gf_mpi.name), GLOFND_E_UNSUPPORTED, \
            GF_MPI_SONAME " has no " #name ": a newer " NAME " is needed");
    GF_MPI_OBJECTS(GF_X)
#undef GF_X
    return GLOFND_OK;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static glofnd_status opened;
static gf_error failure;

static void open_once(void) { opened = open_library(&failure); }

glofnd_status gf_mpi_lib_open(gf_error *err) {
    pthread_once(&once, open_once);
    FAIL_IF(err, opened != GLOFND_OK, opened, "%s", failure.text);
    return GLOFND_OK;
}

#else
typedef int gf_mpi_lib_is_empty;
#endif
