/* mpi_lib.h - MPI's functions and objects, opened at run time: the program starts where the library is missing, and says so when
 * it is asked for ranks. Included instead of mpi.h. */
#pragma once

#include <mpi.h>

#include "util/status.h"

/* clang-format off */
#define GF_MPI_FUNCTIONS(X) \
    X(Abort) X(Allgather) X(Allgatherv) X(Alltoallv) X(Barrier) X(Comm_dup) X(Comm_free) X(Comm_rank) \
    X(Comm_set_errhandler) X(Comm_size) X(Comm_split_type) X(Error_string) X(Finalize) X(Get_library_version) \
    X(Get_processor_name) X(Iallgatherv) X(Ialltoallv) X(Init_thread) X(Irecv) X(Isend) X(Sendrecv) X(Test) X(Wait)

/* Constants of Open MPI are addresses of objects in its library; those of others (MPICH) are numbers. */
#ifdef OPEN_MPI
#define GF_MPI_OBJECTS(X) \
    X(ompi_mpi_comm_world) X(ompi_mpi_byte) X(ompi_mpi_char) X(ompi_mpi_int) X(ompi_mpi_int64_t) X(ompi_mpi_float) \
    X(ompi_mpi_double) X(ompi_mpi_datatype_null) X(ompi_mpi_info_null) X(ompi_mpi_errors_return) X(ompi_request_null)
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global) ((type)gf_mpi.global)
#else
#define GF_MPI_OBJECTS(X)
#endif
/* clang-format on */

typedef struct gf_mpi_lib {
#define GF_X(name) __typeof__(MPI_##name) *name;
    GF_MPI_FUNCTIONS(GF_X)
#undef GF_X
#define GF_X(name) void *name;
    GF_MPI_OBJECTS(GF_X)
#undef GF_X
} gf_mpi_lib;

extern gf_mpi_lib gf_mpi; /* after gf_mpi_lib_open */

/* Once per process; later calls return the same status and text. E_UNSUPPORTED: not found. */
glofnd_status gf_mpi_lib_open(gf_error *err);
