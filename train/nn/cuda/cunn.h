/* cunn.h - internals of the CUDA backend of networks: libraries, the engine and its ops. Launchers of kernels: cunn_kernels.h.
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
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "cuda/cuda_blas.h"
#include "cuda/cuda_device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ----- libraries: cuDNN and cuBLASLt, opened at run time -----
 *
 * A build with CUDA runs where they are missing, and reports that when they are needed. Functions are called through the struct,
 * by their own names. */

/* clang-format off */
#define GF_CUDNN_FUNCTIONS(X)                                                                                          \
    X(cudnnCreate) X(cudnnDestroy) X(cudnnSetStream) X(cudnnGetVersion) X(cudnnGetErrorString) X(cudnnGetLastErrorString) \
    X(cudnnBackendCreateDescriptor) X(cudnnBackendDestroyDescriptor) X(cudnnBackendSetAttribute)                       \
    X(cudnnBackendGetAttribute) X(cudnnBackendFinalize) X(cudnnBackendExecute)
/* clang-format on */

typedef struct gf_cunn_libs {
    void *dnn, *blas; /* of dlopen */
#ifdef __cplusplus
#define GF_X(name) decltype(::name) *name;
#else
#define GF_X(name) __typeof__(name) *name;
#endif
    GF_CUDNN_FUNCTIONS(GF_X)
    GF_CUBLASLT_FUNCTIONS(GF_X)
#undef GF_X
} gf_cunn_libs;

/* E_UNSUPPORTED names the library that is missing, or too old, and what to do. */
glofnd_status gf_cunn_libs_open(gf_error *err, gf_cunn_libs *l);
void gf_cunn_libs_close(gf_cunn_libs *l);

/* ----- the engine ----- */

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
    int conv1x1[GF_CUNN_WORKS];        /* CONV of 1 x 1: with a batch norm by the kernels of cunn_conv1x1.cu */
    int conv3x3[GF_CUNN_WORKS];        /* CONV of 3 x 3: the same of cunn_conv3x3.cu */
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
/* The products of a linear layer of shape `as`, for op; and one of them: c = a b + add (NULL: nothing), as in cunn_layers.c. */
#define GF_CUNN_BLAS_WORKSPACE ((size_t)32 << 20)
glofnd_status gf_cunn_linear_products(gf_error *err, gf_nn_op *op, const gf_nn_shape *as);
glofnd_status gf_cunn_linear_multiply(gf_error *err, gf_nn_op *op, int work, const void *a, const void *b, const void *add,
                                      void *c, void *workspace);

/* ----- weights of all layers in bf16, and gradients from it: cunn_layers.c ----- */

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
