/* cuda_device.h - what CUDA finds on this machine. */
#ifndef GF_CUDA_DEVICE_H
#define GF_CUDA_DEVICE_H

#include <stddef.h>

/* Devices that can be used; 0: none, and `why` (may be NULL) says what the driver says. */
int gf_cuda_devices(char *why, size_t bytes);

#endif
