/* host_device.h - marks the scalar formulas that exist once for the CPU and for CUDA kernels: in the common part of C and C++. */
#pragma once

#ifdef __CUDACC__
#define GF_HD static inline __host__ __device__
#else
#define GF_HD static inline
#endif

#ifdef __cplusplus /* a struct of zeros: each language warns of the other's way to write it */
#define GF_ZERO \
    {}
#else
#define GF_ZERO \
    { 0 }
#endif
