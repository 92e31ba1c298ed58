/* blas_lib.c - see blas_lib.h. */
#include "cuda/pairs/blas_lib.h"

#include <dlfcn.h>
#include <string.h>

#include "util/machine.h"

glofnd_status gf_blas_lib_open(gf_error *err, gf_blas_lib *l) {
    static const char *const blas[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL};
    memset(l, 0, sizeof *l);
    l->lib = gf_shared_lib_open(blas, 0);
    FAIL_IF(err, !l->lib, GLOFND_E_UNSUPPORTED,
            "cuBLASLt was not found (libcublasLt.so): install it or put its folder into LD_LIBRARY_PATH, or use device = cpu");
#define GF_X(name)                                                                                                             \
    FAIL_IF(err, !gf_shared_lib_find(l->lib, #name, &l->name), GLOFND_E_UNSUPPORTED, "this cuBLASLt has no %s: it is too old", \
            #name);
    GF_CUBLASLT_FUNCTIONS(GF_X)
#undef GF_X
    return GLOFND_OK;
}

void gf_blas_lib_close(gf_blas_lib *l) {
    if (l->lib) dlclose(l->lib);
    memset(l, 0, sizeof *l);
}
