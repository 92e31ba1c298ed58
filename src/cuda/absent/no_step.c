/* no_step.c - stub of libglofnd for builds without CUDA: there is no accelerator. */
#include "ifc/accel_step.h"

const gf_device *const gf_device_cuda = NULL;
