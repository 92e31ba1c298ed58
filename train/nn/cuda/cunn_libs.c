/* cunn_libs.c - see cunn_libs.h. */
#include "nn/cuda/cunn_libs.h"

#include <dlfcn.h>
#include <string.h>

#include "util/machine.h"

#define OLDEST_CUDNN 90000 /* the graph interface as used here, and its engines for bf16 */

static glofnd_status open_blas(gf_error *err, gf_cunn_libs *l) {
    gf_blas_lib blas;
    memset(l, 0, sizeof *l);
    const glofnd_status status = gf_blas_lib_open(err, &blas);
    l->blas = blas.lib;
#define GF_X(name) l->name = blas.name;
    GF_CUBLASLT_FUNCTIONS(GF_X)
#undef GF_X
    return status;
}

glofnd_status gf_cunn_libs_open(gf_error *err, gf_cunn_libs *l) {
    static const char *const dnn[] = {"libcudnn.so.9", "libcudnn.so", NULL};
    TRY(open_blas(err, l));
    l->dnn = gf_shared_lib_open(dnn, 0);
    FAIL_IF(err, !l->dnn, GLOFND_E_UNSUPPORTED,
            "cuDNN 9 was not found (libcudnn.so.9): install it or put its folder into LD_LIBRARY_PATH, or use device = cpu");
#define GF_X(name)                                                                   \
    FAIL_IF(err, !gf_shared_lib_find(l->dnn, #name, &l->name), GLOFND_E_UNSUPPORTED, \
            "this cuDNN has no %s: version 9 is needed", #name);
    GF_CUDNN_FUNCTIONS(GF_X)
#undef GF_X
    FAIL_IF(err, l->cudnnGetVersion() < OLDEST_CUDNN, GLOFND_E_UNSUPPORTED, "cuDNN %zu is too old: version 9 is needed",
            l->cudnnGetVersion());
    return GLOFND_OK;
}

void gf_cunn_libs_close(gf_cunn_libs *l) {
    if (l->dnn) dlclose(l->dnn);
    if (l->blas) dlclose(l->blas);
    memset(l, 0, sizeof *l);
}
