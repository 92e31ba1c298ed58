/* cunn.h - internals of the CUDA backend of networks: the engine, its ops, and the launchers of the kernels.
 *
 * All work is queued on the engine's stream. Launchers return no status; gf_cunn_note keeps the first error for the next call
 * that returns one. C files hold logic, .cu files kernels with a launcher each.
 */
#pragma once

#ifdef __cplusplus
extern "C" { /* nn_ops.h and its includes are C */
#endif
#include "nn/nn_ops.h"
#ifdef __cplusplus
}
#endif
#include "cuda/cuda_device.h"
#include "nn/cuda/cunn_libs.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gf_cunn_plan gf_cunn_plan;     /* a cuDNN execution plan: cunn_plan.h */
typedef struct gf_cunn_choice gf_cunn_choice; /* the chosen algorithm, as in the file of choices */

typedef struct gf_cunn_gemm { /* one matrix product of cuBLASLt */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;
    int made;
} gf_cunn_gemm;

enum { GF_CUNN_FORWARD, GF_CUNN_BACK_DATA, GF_CUNN_BACK_WEIGHTS, GF_CUNN_WORKS };

typedef struct gf_cunn_products { /* of all linear layers of texts of one shape, and a number of rows */
    struct gf_cunn_products *next;
    gf_nn_shape shape; /* of the first of them */
    int64_t rows;
    gf_cunn_gemm gemm[GF_CUNN_WORKS];
} gf_cunn_products;

struct gf_nn_op {
    gf_nn_op *next; /* list of the engine */
    gf_nn_engine *engine;
    gf_nn_shape shape;
    gf_cunn_plan *plan[GF_CUNN_WORKS]; /* CONV */
    gf_cunn_gemm gemm[GF_CUNN_WORKS];  /* LINEAR */
    gf_cunn_products **lengths;        /* LINEAR, packed: instead, for each length of texts */
    int stem;                          /* CONV of images by the kernels of cunn_stem.cu */
    int patches;                       /* CONV of images as a linear layer: gemm */
    int point[GF_CUNN_WORKS];          /* CONV of 1 x 1: with a batch norm by the kernels of cunn_point.cu */
    int window[GF_CUNN_WORKS];         /* CONV of 3 x 3: the same of cunn_window.cu */
    int narrow;                        /* CONV: the gradient of the weights is bf16 and follows the packed weights */
};

#define GF_CUNN_TICKETS 1024
#define GF_CUNN_TEAM_BLOCKS 512      /* at most; two tickets per team */
enum { GF_CUNN_IMAGE_CHANNELS = 8 }; /* red, green, blue and zeros: 16 bytes of bf16, as tensor cores need */

struct gf_nn_engine {
    gf_cunn_libs libs;
    cudaStream_t stream;      /* of the work that is queued now: main or aside */
    cudaStream_t main, aside; /* cuDNN works on main alone */
    cudaEvent_t forked, joined;
    cudnnHandle_t dnn;
    cublasLtHandle_t blas;
    gf_nn_mode mode;
    char *plans_path; /* mode.plans, copied */
    char device[64];  /* its name */
    gf_nn_op *ops;
    gf_cunn_products *products; /* of packed texts, a list */
    gf_nn_optim *optims;
    gf_cunn_plan *plans;
    gf_cunn_choice *choices;
    int new_choices; /* not in the file yet */
    void *trial;     /* memory to time algorithms with, until a network allocates its own */
    size_t trial_bytes;
    struct gf_cunn_moves *moves; /* tables of gf_cunn_pack_all and gf_cunn_unpack_all, a list */
    size_t tables;               /* bytes allocated outside of alloc: tickets, moves, tables of optimizers */
    size_t peak;                 /* largest number of bytes in use on the device */
    unsigned *tickets;  /* [GF_CUNN_TICKETS] on the device, 0 between kernels: they identify the last block of a kernel */
    int team_blocks;    /* blocks with team_shared bytes of shared memory that run at once; 0: no cooperative launches */
    size_t team_shared; /* cunn_norm_whole.cuh */
    int multiprocessors;
    size_t shared;      /* bytes that one block may have */
    int hopper;         /* 1: the kernels of sm90/ run here */
    cudaError_t failed; /* first failure not yet reported */
    const char *failed_at;
    cudaGraphExec_t record[GF_NN_RECORDS]; /* of steps; NULL: none */
};

/* Keeps the first error; `at` is a static text. */
void gf_cunn_note(gf_nn_engine *s, cudaError_t e, const char *at);

/* At least `bytes` of memory for timing, filled with random numbers; NULL: no memory. */
void *gf_cunn_trial(gf_nn_engine *s, size_t bytes);

/* ----- ops: create fills sizes (zeroed) ----- */
/* clang-format off */
#define GF_CUNN_OPS(X)                                                                                                 \
    X(CONV, conv) X(LINEAR, linear) X(MAXPOOL, maxpool) X(AVGPOOL, avgpool) X(LAYERNORM, layernorm) X(ATTENTION, attention) \
    X(EMBED, embed) X(TOKENS, tokens) X(PICK, pick)
/* clang-format on */
#define GF_X(kind, name)                                                                      \
    glofnd_status gf_cunn_##name##_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes);   \
    glofnd_status gf_cunn_##name##_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a); \
    glofnd_status gf_cunn_##name##_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a);
GF_CUNN_OPS(GF_X)
#undef GF_X
void gf_cunn_linear_pack(gf_nn_op *op, const gf_nn_args *a);
void gf_cunn_linear_free(gf_nn_op *op);
void gf_cunn_products_free(gf_nn_engine *s);
/* The products of a linear layer of shape `as`, for op; and one of them: c = a b + add (NULL: nothing), as in cunn_linear.c. */
#define GF_CUNN_BLAS_WORKSPACE ((size_t)32 << 20)
glofnd_status gf_cunn_linear_products(gf_error *err, gf_nn_op *op, const gf_nn_shape *as);
glofnd_status gf_cunn_linear_multiply(gf_error *err, gf_nn_op *op, int work, const void *a, const void *b, const void *add,
                                      void *c, void *workspace);

/* ----- kernels ----- */
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
/* Convolutions of images as linear layers of patches (cunn_patches.cu): rows [k k 3] of patches, of weights; and back. */
void gf_cunn_patches(gf_nn_engine *s, const gf_nn_shape *shape, void *to, const void *x);
void gf_cunn_patch_weights(gf_nn_engine *s, void *to, const void *from, int64_t pixels);
void gf_cunn_patch_gradient(gf_nn_engine *s, float *to, const float *from, int64_t pixels);
/* Convolutions of images (cunn_stem.cu): bytes of scratch for one; 0: not of this shape. dw: bf16. */
size_t gf_cunn_stem_scratch(const gf_nn_shape *shape);
void gf_cunn_stem_forward(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a);
void gf_cunn_stem_back(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a, void *dw);
/* With pooled (cunn_stem_pool.cu): saved holds gf_cunn_stem_saved bytes; stats follows pool, which leaves its sums in scratch. */
int gf_cunn_stem_pools(const gf_nn_shape *conv, const gf_nn_shape *pool);
size_t gf_cunn_stem_saved(const gf_nn_shape *shape);
void gf_cunn_stem_pool(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a);
void gf_cunn_stem_stats(gf_nn_engine *s, const gf_nn_norm *n, double count); /* count 0: n->sums only */
void gf_cunn_stem_pool_back(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a, void *dw);
/* 1 x 1 convolutions with batch norm in their epilogue (sm90/cunn_point.cu). fits: 1 if they take this shape, on this device.
 * forward: a->norm, whose x is y; its statistics are complete afterwards. back: no gradient of the weights; a->before. */
int gf_cunn_point_fits(const gf_nn_engine *s, const gf_nn_shape *shape);
int gf_cunn_point_back_fits(const gf_nn_engine *s, const gf_nn_shape *shape);
glofnd_status gf_cunn_conv_back_data(gf_error *err, gf_nn_op *op, const gf_nn_args *a); /* by cuDNN: dx alone */
glofnd_status gf_cunn_conv_back_weights(gf_error *err, gf_nn_op *op, const gf_nn_args *a);
void gf_cunn_conv_back_norm(gf_nn_op *op, const gf_nn_args *a); /* with a part of a->before, by own kernels */
int gf_cunn_conv_sums(const gf_nn_op *op);                      /* cunn_conv.c */
int gf_cunn_conv_back_sums(const gf_nn_op *op, gf_nn_before before);
void gf_cunn_point_forward(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a);
void gf_cunn_point_back(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a);
/* The same of 3 x 3 convolutions of stride 1 (sm90/cunn_window.cu). */
int gf_cunn_window_fits(const gf_nn_engine *s, const gf_nn_shape *shape);
int gf_cunn_window_back_fits(const gf_nn_engine *s, const gf_nn_shape *shape, gf_nn_before before);
void gf_cunn_window_forward(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a);
void gf_cunn_window_back(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a);
/* The gradient of their weights (sm90/cunn_window_weights.cu): bytes of scratch for it; 0: not of this shape. dw: bf16. */
size_t gf_cunn_window_weights_scratch(const gf_nn_engine *s, const gf_nn_shape *shape);
void gf_cunn_window_weights(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a, void *dw);
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
glofnd_status gf_cunn_pack_all(gf_error *err, gf_nn_engine *s, const gf_nn_args *const *args, gf_nn_op *const *ops, int count);
glofnd_status gf_cunn_unpack_all(gf_error *err, gf_nn_engine *s, const gf_nn_args *const *args, gf_nn_op *const *ops, int count);
glofnd_status gf_cunn_unpack_some(gf_error *err, gf_nn_engine *s, const gf_nn_args *const *args, gf_nn_op *const *ops, int count,
                                  int first, int last);
void gf_cunn_moves_free(gf_nn_engine *s);
size_t gf_cunn_conv_packed(const gf_nn_shape *s);   /* bytes of the weights in bf16, rounded up; the gradient follows */
size_t gf_cunn_linear_packed(const gf_nn_shape *s); /* the same; the bias follows */

glofnd_status gf_cunn_optim_create(gf_error *err, gf_nn_engine *s, const gf_optim_rule *rule, const gf_param *list, int count,
                                   gf_nn_optim **out);
glofnd_status gf_cunn_optim_set(gf_error *err, gf_nn_optim *o, const gf_optim_scalars *now);
glofnd_status gf_cunn_optim_step(gf_error *err, gf_nn_optim *o);
glofnd_status gf_cunn_optim_norm(gf_error *err, gf_nn_optim *o, double *norm);
void gf_cunn_optim_free(gf_nn_optim *o);

#ifdef __cplusplus
}
#endif
