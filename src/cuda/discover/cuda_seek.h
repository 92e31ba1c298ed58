/* cuda_seek.h - embeddings on the device, and what it takes to compare them; see cuda_discover.h. */
#ifndef GF_CUDA_SEEK_STATE_H
#define GF_CUDA_SEEK_STATE_H

#include "cuda/discover/cuda_discover.h"
#include "cuda/discover/seek_product.h"
#include "cuda/loss/cuda_device.h"

struct gf_cuda_seek {
    gf_seek_side k;
    float lost_most;            /* largest k.lost */
    gf_seek_product product;
    int fast;                   /* there is a product of the tensor cores */
    cudaStream_t stream;
};

#define SEEK_TRY(err, call, what)                                                                                     \
    do {                                                                                                              \
        const cudaError_t seek_try_ = (call);                                                                         \
        if (seek_try_ != cudaSuccess) return gf_cuda_fail((err), seek_try_, (what));                                  \
    } while (0)

int64_t gf_cuda_seek_padded(int64_t n);         /* to GF_SEEK_GROUP */
/* Rows row[0..n) (NULL: the first n) of x [][c->k.dim] to the device. Free in any case. */
glofnd_status gf_cuda_seek_side(gf_error *err, gf_cuda_seek *c, const float *x, const int32_t *row, int64_t n, gf_seek_side *out);
void gf_cuda_seek_side_free(gf_seek_side *s);   /* a zeroed one is fine */

#endif
