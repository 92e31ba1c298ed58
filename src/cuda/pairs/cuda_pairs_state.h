/* cuda_pairs_state.h - embeddings on the device, and what it takes to compare them; see cuda_pairs.h. */
#ifndef GF_CUDA_PAIRS_CUDA_PAIRS_STATE_H
#define GF_CUDA_PAIRS_CUDA_PAIRS_STATE_H

#include "cuda/pairs/cuda_pairs.h"
#include "cuda/pairs/pairs_product.h"
#include "cuda/step/cuda_device.h"

struct gf_cuda_pairs {
    gf_pairs_side k;
    float lost_most; /* largest k.lost */
    gf_pairs_product product;
    int fast; /* there is a product of the tensor cores */
    cudaStream_t stream;
};

#define SEEK_TRY(err, call, what)                                                    \
    do {                                                                             \
        const cudaError_t seek_try_ = (call);                                        \
        if (seek_try_ != cudaSuccess) return gf_cuda_fail((err), seek_try_, (what)); \
    } while (0)

int64_t gf_cuda_pairs_padded(int64_t n); /* to GF_PAIRS_GROUP */
/* Rows row[0..n) (NULL: the first n) of x [][c->k.dim] to the device. Free in any case. */
glofnd_status gf_cuda_pairs_side(gf_error *err, gf_cuda_pairs *c, const float *x, const int32_t *row, int64_t n,
                                 gf_pairs_side *out);
void gf_cuda_pairs_side_free(gf_pairs_side *s); /* a zeroed one is fine */

#endif
