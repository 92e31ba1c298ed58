/* cunn_kernels.h - the kernels of networks: arguments and launchers, which queue on the stream of the engine. */
#pragma once

#include "nn/cuda/cunn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ----- batch norm, copies, convolutions, pooling ----- */

size_t gf_cunn_norm_scratch(int64_t rows, int64_t c);
size_t gf_cunn_norm_bits(gf_type type, int64_t rows, int64_t c);
void gf_cunn_norm_sums(gf_nn_engine *s, const gf_nn_norm *n);
void gf_cunn_norm_finish(gf_nn_engine *s, const gf_nn_norm *n, double count);
void gf_cunn_norm_stats(gf_nn_engine *s, const gf_nn_norm *n);
void gf_cunn_norm_eval(gf_nn_engine *s, const gf_nn_norm *n);
void gf_cunn_norm_apply(gf_nn_engine *s, const gf_nn_norm *n);
void gf_cunn_norm_back_sums(gf_nn_engine *s, const gf_nn_norm *n);
void gf_cunn_norm_back_finish(gf_nn_engine *s, const gf_nn_norm *n, double count);
void gf_cunn_norm_back_apply(gf_nn_engine *s, const gf_nn_norm *n);
/* With n->shortcut: y; and all of backward, of both, for one rank. */
void gf_cunn_norm_pair(gf_nn_engine *s, const gf_nn_norm *n);
void gf_cunn_norm_pair_back(gf_nn_engine *s, const gf_nn_norm *n);
void gf_cunn_norm_pair_back_apply(gf_nn_engine *s, const gf_nn_norm *n); /* the last part of it */
/* In one launch; 0: not for this norm, or this device, and nothing was done. */
int gf_cunn_norm_forward_whole(gf_nn_engine *s, const gf_nn_norm *n);
int gf_cunn_norm_backward_whole(gf_nn_engine *s, const gf_nn_norm *n);
int gf_cunn_norm_pair_back_whole(gf_nn_engine *s, const gf_nn_norm *n);
/* One rank: statistics and the pass that writes. */
void gf_cunn_norm_forward(gf_nn_engine *s, const gf_nn_norm *n);
void gf_cunn_norm_backward(gf_nn_engine *s, const gf_nn_norm *n);
void gf_cunn_cast(gf_nn_engine *s, gf_type type, void *dst, const float *src, int64_t count);
void gf_cunn_add(gf_nn_engine *s, gf_type type, void *dst, const void *src, int64_t count);
void gf_cunn_images(gf_nn_engine *s, gf_type type, void *dst, const float *src, int64_t pixels);
void gf_cunn_mean(gf_nn_engine *s, gf_type type, float *y, const void *x, int64_t n, int64_t hw, int64_t c);
void gf_cunn_mean_back(gf_nn_engine *s, gf_type type, void *dx, const float *dy, int64_t n, int64_t hw, int64_t c);
void gf_cunn_noise(gf_nn_engine *s, void *dst, size_t bytes); /* random bf16 numbers, which are random floats too */
/* Convolutions of images as linear layers of patches (cunn_copy.cu): rows [k k 3] of patches, of weights; and back. */
void gf_cunn_patches(gf_nn_engine *s, const gf_nn_shape *shape, void *to, const void *x);
void gf_cunn_patch_weights(gf_nn_engine *s, void *to, const void *from, int64_t pixels);
void gf_cunn_patch_gradient(gf_nn_engine *s, float *to, const float *from, int64_t pixels);
/* Convolutions of images (cunn_stem.cu): bytes of scratch for one; 0: not of this shape. dw: bf16. */
size_t gf_cunn_stem_scratch(const gf_nn_shape *shape);
void gf_cunn_stem_forward(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a);
void gf_cunn_stem_back(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a, void *dw);
/* With pooled (cunn_stem.cu): saved holds gf_cunn_stem_saved bytes; stats follows pool, which leaves its sums in scratch. */
int gf_cunn_stem_pools(const gf_nn_shape *conv, const gf_nn_shape *pool);
size_t gf_cunn_stem_saved(const gf_nn_shape *shape);
void gf_cunn_stem_pool(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a);
void gf_cunn_stem_stats(gf_nn_engine *s, const gf_nn_norm *n, double count); /* count 0: n->sums only */
void gf_cunn_stem_pool_back(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a, void *dw);
/* 1 x 1 convolutions with batch norm in their epilogue (sm90/cunn_conv1x1.cu). fits: 1 if they take this shape, on this device.
 * forward: a->norm, whose x is y; its statistics are complete afterwards. back: no gradient of the weights; a->before. */
int gf_cunn_conv1x1_fits(const gf_nn_engine *s, const gf_nn_shape *shape);
int gf_cunn_conv1x1_back_fits(const gf_nn_engine *s, const gf_nn_shape *shape);
glofnd_status gf_cunn_conv_back_data(gf_error *err, gf_nn_op *op, const gf_nn_args *a); /* by cuDNN: dx alone */
glofnd_status gf_cunn_conv_back_weights(gf_error *err, gf_nn_op *op, const gf_nn_args *a);
void gf_cunn_conv_back_norm(gf_nn_op *op, const gf_nn_args *a); /* with a part of a->before, by own kernels */
int gf_cunn_conv_sums(const gf_nn_op *op);                      /* cunn_conv.c */
int gf_cunn_conv_back_sums(const gf_nn_op *op, gf_nn_before before);
void gf_cunn_conv1x1_forward(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a);
void gf_cunn_conv1x1_back(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a);
/* The same of 3 x 3 convolutions of stride 1 (sm90/cunn_conv3x3.cu). */
int gf_cunn_conv3x3_fits(const gf_nn_engine *s, const gf_nn_shape *shape);
int gf_cunn_conv3x3_back_fits(const gf_nn_engine *s, const gf_nn_shape *shape, gf_nn_before before);
void gf_cunn_conv3x3_forward(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a);
void gf_cunn_conv3x3_back(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a);
/* The gradient of their weights (sm90/cunn_conv3x3.cu): bytes of scratch for it; 0: not of this shape. dw: bf16. */
size_t gf_cunn_conv3x3_weights_scratch(const gf_nn_engine *s, const gf_nn_shape *shape);
void gf_cunn_conv3x3_weights(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a, void *dw);
void gf_cunn_maxpool(gf_nn_engine *s, const gf_nn_shape *shape, void *y, uint8_t *winner, const void *x);
void gf_cunn_maxpool_back(gf_nn_engine *s, const gf_nn_shape *shape, void *dx, const uint8_t *winner, const void *dy);

typedef struct gf_cunn_move { /* [count] numbers between float and bf16 */
    float *wide;
    void *narrow;
    int64_t count;
    int first; /* block of the launch */
} gf_cunn_move;
int gf_cunn_move_blocks(int64_t count);
/* table on the device; blocks from..to - 1 of its launch. widen: from bf16 to float; else the other way. */
void gf_cunn_move_run(gf_nn_engine *s, const gf_cunn_move *table, int count, int from, int to, int widen);

/* ----- rows of numbers: cunn_rows.cu -----
 *
 * Activations, and sums over rows for gradients of parameters. Sums have two stages: blocks sum chunks of rows in float, a second
 * launch adds the chunks. The rows of a thread and their order follow from the shape alone: same bits every time. */

/* y = act(z), count numbers. */
void gf_cunn_act(gf_nn_engine *s, gf_type type, gf_nn_act act, void *y, const void *z, int64_t count);

/* sum [c] = over the rows of g = dy act'(z), all [rows][c]; g is written where act is not NONE, and z is read there alone.
 * sum NULL: only g. scratch: gf_cunn_sums_bytes of it. */
void gf_cunn_act_back(gf_nn_engine *s, gf_type type, gf_nn_act act, void *g, float *sum, const void *dy, const void *z,
                      int64_t rows, int64_t c, void *scratch);
size_t gf_cunn_sums_bytes(gf_type type, int64_t rows, int64_t c);

/* a [ca], then b [cb] = sums over the chunks of part [chunks][ca + cb]. */
void gf_cunn_add_chunks(gf_nn_engine *s, float *a, int64_t ca, float *b, int64_t cb, const float *part, int chunks);

/* Stable radix sort of positions by their keys: least significant digit first, eight bits per pass. Part of a step, and of
 * k-means: allocates nothing and does not wait. */

typedef struct gf_cunn_sorted { /* within scratch */
    int32_t *key, *position;    /* [count] */
} gf_cunn_sorted;

size_t gf_cunn_sort_bytes(int64_t count);
/* keys [count] on the device, clamped to 0 .. limit - 1; count < 2^31. */
gf_cunn_sorted gf_cunn_sort_on(cudaStream_t stream, const int32_t *keys, int64_t count, int64_t limit, void *scratch);
/* The same on the stream of an engine; a failure becomes its error. */
gf_cunn_sorted gf_cunn_sort(gf_nn_engine *s, const int32_t *keys, int64_t count, int64_t limit, void *scratch);

/* ----- attention: softmax(q k' scale) v per image and head, and its gradient -----
 *
 *   cunn_attention_mma.cu  bf16 on tensor cores, heads of 32 or 64 numbers
 *   cunn_attention.cu      the rest, products and sums in float32; and one query per image: attention that pools
 *   cunn_layers.c          the op: chooses among them and splits its arrays
 * No kernel keeps a matrix of queries by keys: forward goes over keys with a running maximum and sum, and stores per query the
 * logarithm of the sum; backward recomputes the weights from it. Blocks of queries sum dq, blocks of keys dk and dv, each in a
 * fixed order: no atomics, same bits every time. */

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

/* ----- the optimizer: cunn_optim.cu ----- */

enum { GF_CUNN_CHUNK = 8192 }; /* numbers of a block; a tensor is divided into chunks, of which the last may be short */

typedef struct gf_cunn_chunk {
    int tensor;
    int64_t from; /* first number in it */
} gf_cunn_chunk;

typedef struct gf_cunn_steps { /* all on the device */
    gf_param *params;          /* [count] */
    int *first;                /* [count + 1] chunk the tensor begins with */
    gf_cunn_chunk *chunks;     /* [chunk_count] */
    double *sums;              /* [chunk_count][3]: g^2, p^2, (g + decay p)^2 */
    double *ratio;             /* [count] of LARS */
    double *norm;              /* [1] of the whole gradient */
    gf_optim_scalars *now;     /* [1] */
    int count, chunk_count;
} gf_cunn_steps;

void gf_cunn_optim_now(gf_nn_engine *s, gf_optim_scalars *dst, gf_optim_scalars value);
void gf_cunn_optim_run(gf_nn_engine *s, const gf_cunn_steps *t, const gf_optim_rule *rule);

#ifdef __cplusplus
}
#endif
