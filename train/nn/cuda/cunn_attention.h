/* cunn_attention.h - arguments and launchers of the attention kernels: softmax(q k' scale) v per image and head, and its
 * gradient.
 *
 *   cunn_attention_mma.cu  bf16 on tensor cores, heads of 32 or 64 numbers
 *   cunn_attention_fma.cu  the rest, products and sums in float32
 *   cunn_attention_one.cu  one query per image: attention that pools
 *   cunn_attention.c       the op: chooses among them and splits its arrays
 * No kernel keeps a matrix of queries by keys: forward goes over keys with a running maximum and sum, and stores per query the
 * logarithm of the sum; backward recomputes the weights from it. Blocks of queries sum dq, blocks of keys dk and dv, each in a
 * fixed order: no atomics, same bits every time.
 */
#pragma once

#include "nn/cuda/cunn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gf_cunn_heads { /* numbers of head a of position r of image i begin at (i * length + r) * step + a * dim; packed:
                                   (first[i] + r) * step + a * dim */
    void *at;
    int64_t step;
} gf_cunn_heads;

typedef struct gf_cunn_attention {
    gf_type type;
    int64_t n;
    int heads, dim, length, causal; /* packed: the largest length */
    const int32_t *first;           /* packed: [n + 1] rows where texts begin; else NULL */
    int mean;                       /* packed: mean length, rounded up */
    float scale;
    gf_cunn_heads q, k, v, y;
    gf_cunn_heads dq, dk, dv, dy; /* backward */
    float *log_sums;              /* [n][heads][length]: log2 of the sum of exp(q k' scale); forward writes, backward reads;
                                     packed: heads first[i], then [heads][length] of text i */
} gf_cunn_attention;

int gf_cunn_attention_mma_fits(const gf_cunn_attention *t);
void gf_cunn_attention_mma(gf_nn_engine *s, const gf_cunn_attention *t);
void gf_cunn_attention_mma_back(gf_nn_engine *s, const gf_cunn_attention *t);
enum { GF_CUNN_ATTENTION_DIM = 96 }; /* largest head of the float kernels */
void gf_cunn_attention_fma(gf_nn_engine *s, const gf_cunn_attention *t);
void gf_cunn_attention_fma_back(gf_nn_engine *s, const gf_cunn_attention *t);

/* One query per image: q, y, dq, dy float32 [n][heads dim]; k, v and their gradients of `type`. weights [n][heads][length]. */
void gf_cunn_attention_one(gf_nn_engine *s, const gf_cunn_attention *t, float *weights);
void gf_cunn_attention_one_back(gf_nn_engine *s, const gf_cunn_attention *t, const float *weights);

#ifdef __cplusplus
}
#endif
