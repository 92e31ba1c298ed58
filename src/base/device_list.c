/* device_list.c - which devices this library was built for: the only place that asks. */
#include "base/device.h"

#ifdef GF_HAVE_CUDA
extern const gf_device gf_device_cuda;
#endif

const gf_device *gf_device_find(gf_error *err, glofnd_device device) {
#ifdef GF_HAVE_CUDA
    if (device == GLOFND_DEVICE_CUDA) return &gf_device_cuda;
#endif
    gf_fail(err, GLOFND_E_UNSUPPORTED, device == GLOFND_DEVICE_CUDA
            ? "device: this library was built without CUDA; build it where nvcc is found (cmake -DGLOFND_CUDA=ON), "
              "or set device = cpu"
            : "device: %d is not an accelerator", (int)device);
    return NULL;
}
