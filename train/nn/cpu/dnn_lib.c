/* dnn_lib.c - see dnn_lib.h. The library stays open until the process ends: its threads and compiled kernels do. */
#include "nn/cpu/dnn_lib.h"

#include <pthread.h>
#include <stddef.h>

#include "util/machine.h"

#if DNNL_VERSION_MAJOR == 2
#define PACKAGE "libdnnl2"
#else
#define PACKAGE "libdnnl-dev"
#endif

gf_dnn_lib gf_dnnl;

/* The first OpenMP of the process answers the calls of the library, so it comes first: another compiler has its own. */
extern void omp_set_num_threads(int threads) __attribute__((weak));
extern int omp_get_max_threads(void) __attribute__((weak));
extern void omp_set_dynamic(int yes) __attribute__((weak));
extern int omp_get_thread_limit(void) __attribute__((weak));

static void find_openmp(void *lib) {
    gf_dnnl.set_num_threads = omp_set_num_threads;
    gf_dnnl.get_max_threads = omp_get_max_threads;
    gf_dnnl.set_dynamic = omp_set_dynamic;
    gf_dnnl.get_thread_limit = omp_get_thread_limit;
    if (gf_dnnl.set_num_threads && gf_dnnl.get_max_threads) return;
    gf_shared_lib_find(lib, "omp_set_num_threads", &gf_dnnl.set_num_threads);
    gf_shared_lib_find(lib, "omp_get_max_threads", &gf_dnnl.get_max_threads);
    gf_shared_lib_find(lib, "omp_set_dynamic", &gf_dnnl.set_dynamic);
    gf_shared_lib_find(lib, "omp_get_thread_limit", &gf_dnnl.get_thread_limit);
}

static glofnd_status open_library(gf_error *err) {
    static const char *const names[] = {GF_DNNL_SONAME, NULL};
    enum { MEGABYTES = 48 }; /* of the library and those it needs */
    const int64_t left = gf_address_space_left();
    FAIL_IF(err, left < (int64_t)MEGABYTES << 20, GLOFND_E_MEMORY,
            "%lld MB of address space are left for oneDNN, which needs %d; raise the limit (ulimit -v)", (long long)(left >> 20),
            MEGABYTES);
    void *lib = gf_shared_lib_open(names, 0);
    FAIL_IF(err, !lib, GLOFND_E_UNSUPPORTED,
            "networks on the CPU need oneDNN %d, which cannot be opened (%.200s): install it (Debian: " PACKAGE
            "), or put its folder into LD_LIBRARY_PATH",
            DNNL_VERSION_MAJOR, gf_shared_lib_error());
#define GF_X(name)                                                                             \
    FAIL_IF(err, !gf_shared_lib_find(lib, "dnnl_" #name, &gf_dnnl.name), GLOFND_E_UNSUPPORTED, \
            GF_DNNL_SONAME " has no dnnl_" #name ": oneDNN %d is needed", DNNL_VERSION_MAJOR);
    GF_DNNL_FUNCTIONS(GF_X)
#undef GF_X
    const dnnl_version_t *v = gf_dnnl.version();
    FAIL_IF(err, v->major != DNNL_VERSION_MAJOR, GLOFND_E_UNSUPPORTED, GF_DNNL_SONAME " is oneDNN %d.%d; version %d is needed",
            v->major, v->minor, DNNL_VERSION_MAJOR);
    find_openmp(lib);
    return GLOFND_OK;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static glofnd_status opened;
static gf_error failure;

static void open_once(void) { opened = open_library(&failure); }

glofnd_status gf_dnn_lib_open(gf_error *err) {
    pthread_once(&once, open_once);
    FAIL_IF(err, opened != GLOFND_OK, opened, "%s", failure.text);
    return GLOFND_OK;
}
