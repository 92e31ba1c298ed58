/* cuda_device.c - see cuda_device.h and cuda_blas.h; and CUDA's entry in the list of devices. */
#include "cuda/cuda_device.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "cuda/cuda_blas.h"
#include "cuda/cuda_step.h"
#include "util/machine.h"

int gf_cuda_devices(char *why, size_t bytes) {
    int count = 0;
    const cudaError_t e = cudaGetDeviceCount(&count);
    if (e == cudaSuccess && count > 0) return count;
    (void)cudaGetLastError();
    if (why && e == cudaErrorInsufficientDriver) {
        /* The runtime has one error for a driver that is too old and for a missing one. */
        int driver = 0, runtime = 0;
        cudaDriverGetVersion(&driver);
        cudaRuntimeGetVersion(&runtime);
        if (driver == 0) snprintf(why, bytes, "no NVIDIA driver is installed");
        else
            snprintf(why, bytes, "the NVIDIA driver is for CUDA %d.%d, and this program needs one for %d.%d: update the driver",
                     driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    } else if (why) snprintf(why, bytes, "%s", e == cudaSuccess ? "the driver lists none" : cudaGetErrorString(e));
    return 0;
}

glofnd_status gf_cuda_fail(gf_error *err, cudaError_t e, const char *at) {
    const int length = (int)strcspn(at, "(");
    (void)cudaGetLastError(); /* else the next launch would be taken for the one that failed */
    if (e == cudaErrorMemoryAllocation)
        return gf_fail(err, GLOFND_E_MEMORY, "out of memory on the GPU (%.*s): use a smaller batch or image size, or device=cpu",
                       length, at);
    return gf_fail(err, GLOFND_E_DEVICE, "the GPU failed (%.*s): %s; start again, or use device=cpu", length, at,
                   cudaGetErrorString(e));
}

cudaError_t gf_cuda_allow_shared(const void *kernel) {
    struct cudaFuncAttributes own;
    int device = 0, max = 0;
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&max, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (e == cudaSuccess) e = cudaFuncGetAttributes(&own, kernel);
    if (e != cudaSuccess) return e;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, max - (int)own.sharedSizeBytes);
}

/* ----- cuBLASLt ----- */

glofnd_status gf_blas_lib_open(gf_error *err, gf_blas_lib *l) {
    static const char *const blas[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL};
    memset(l, 0, sizeof *l);
    l->lib = gf_shared_lib_open(blas, 0);
    FAIL_IF(err, !l->lib, GLOFND_E_UNSUPPORTED,
            "cuBLASLt was not found (libcublasLt.so): install it or put its folder into LD_LIBRARY_PATH, or use device=cpu");
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

/* ----- the device ----- */

static glofnd_status check(gf_error *err) {
    char why[256];
    FAIL_IF(err, gf_cuda_devices(why, sizeof why) == 0, GLOFND_E_DEVICE, "no CUDA device: %s; set device=cpu", why);
    return GLOFND_OK;
}

static const gf_device device = {
    .name = "cuda",
    .check = check,
    .open = gf_cuda_open,
    .close = gf_cuda_close,
    .stream = gf_cuda_stream,
    .reserve = gf_cuda_reserve,
    .workspace_bytes = gf_cuda_workspace_bytes,
    .workspace = gf_cuda_workspace,
    .copy = gf_cuda_copy,
    .step = gf_cuda_run_step,
    .rows = gf_cuda_run_rows,
    .grad = gf_cuda_run_grad,
    .mask = gf_cuda_run_mask,
    .components = gf_cuda_run_components,
    .totals = gf_cuda_totals,
    .loss = gf_cuda_loss,
    .thresholds = gf_cuda_thresholds,
    .store_open = gf_cuda_store_open,
    .store_close = gf_cuda_store_close,
    .store_held = gf_cuda_store_held,
    .store_touched = gf_cuda_store_touched,
    .store_range = gf_cuda_store_range,
    .store_rows = gf_cuda_store_rows,
    .store_keyed = gf_cuda_store_keyed,
    .store_reserve = gf_cuda_store_reserve,
    .store_state = gf_cuda_store_state,
    .store_ring = gf_cuda_store_ring,
    .store_bank = gf_cuda_store_bank,
    .store_records = gf_cuda_store_records,
};

const gf_device *const gf_device_cuda = &device;

static atomic_int sharing = 1;

void gf_cuda_set_sharing(int ranks) { atomic_store(&sharing, ranks > 1 ? ranks : 1); }

cudaError_t gf_cuda_memory_left(size_t *bytes) {
    size_t left = 0, all = 0;
    const cudaError_t e = cudaMemGetInfo(&left, &all);
    *bytes = left / (size_t)atomic_load(&sharing);
    return e;
}
