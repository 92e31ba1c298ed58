/* accel.c - the accelerators of this build. */
#include "ifc/accel_step.h"

const gf_device *gf_device_find(gf_error *err, glofnd_device device) {
    if (device == GLOFND_DEVICE_CUDA && gf_device_cuda) return gf_device_cuda;
    gf_fail(err, GLOFND_E_UNSUPPORTED,
            device == GLOFND_DEVICE_CUDA
                ? "device: this library was built without CUDA; build it where nvcc is found (cmake -DGLOFND_CUDA=ON), "
                  "or set device = cpu"
                : "device: %d is not an accelerator",
            (int)device);
    return NULL;
}
