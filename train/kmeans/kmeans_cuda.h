/* kmeans_cuda.h - k-means of embeddings on the GPU, as gf_kmeans_run of pairs/kmeans.h.
 *
 * Similarities are float32 chains of fused multiply-adds over ascending dimensions, and the sums of centroids are added in double
 * by rising embeddings, as on the CPU: groups are the same, confidences differ in the last bit at most. On CPUs without fused
 * multiply-adds similarities differ in their last bits. No floating atomics: the same bits every time. Memory on the device:
 * about 8 bytes per number of an embedding, 60 per embedding, and 16 per number of a centroid.
 */
#pragma once

#include "pairs/kmeans.h"

/* of, confidence [n] and v are host memory. Waits. E_MEMORY: it does not fit the device beside what is there. */
glofnd_status gf_kmeans_cuda(gf_error *err, const gf_kmeans *k, const gf_vectors *v, int32_t *of, float *confidence);
