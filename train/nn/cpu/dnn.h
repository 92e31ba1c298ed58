/* dnn.h - the CPU as a backend of nets: engine, ops (a few oneDNN primitives each, made once), and work over threads that they
 * share. */
#pragma once

#include "nn/cpu/dnn_shim.h"
#include "nn/cpu/kernels/net_kernels.h"
#include "nn/nn_ops.h"
#include "util/array.h"

/* ----- 3 x 3 convolutions: dnn_conv.c ----- */

/* Stride 1, by Winograd's method with own kernels: a quarter of the multiplications. They are made in float32; where activations
 * are stored in bf16 and the CPU has AVX512-VNNI, those of forward and back_data are made of integers of 16 bits: each tile and
 * each column of weights has a scale of its own, so that the error stays below that of plain products of bf16 numbers
 * (tests/cpu/unit_wino.c). Transforms are in nn/cpu/kernels/net_kernels.h, the matrix product is that of the loss. Results do not
 * depend on the number of threads. */
typedef struct gf_wino {
    const gf_wino_ops *ops;
    int64_t down, across, tiles;                      /* tiles of an image; of all */
    int64_t block;                                    /* tiles a task of forward or back_data takes through all three stages */
    int64_t span;                                     /* tiles whose planes back_weights keeps at once */
    int64_t weight_floats, step_floats, block_floats; /* of scratch: transformed weights; their steps; a task's block */
    int threads;
    int int16; /* forward and back_data multiply 16-bit integers */
} gf_wino;

/* 1: the method supports this shape, and is faster. */
int gf_wino_suits(const gf_nn_shape *s);
/* Fills w; returns the scratch its passes need. */
size_t gf_wino_plan(gf_wino *w, const gf_nn_shape *s, int threads);

void gf_wino_forward(const gf_wino *w, const gf_nn_shape *s, const gf_nn_args *a);
void gf_wino_back_data(const gf_wino *w, const gf_nn_shape *s, const gf_nn_args *a);
void gf_wino_back_weights(const gf_wino *w, const gf_nn_shape *s, const gf_nn_args *a);

/* ----- engine and ops ----- */

typedef struct gf_dnn_products {  /* of all linear layers of one shape and number of rows */
    struct gf_dnn_products *next; /* list of the engine */
    gf_nn_shape shape;            /* of the first of them */
    int64_t rows;
    gf_prim forward, back_data, back_weights;
    size_t scratch; /* of the largest of the three */
} gf_dnn_products;

struct gf_nn_op {
    gf_nn_op *next; /* list of the engine */
    gf_nn_engine *engine;
    gf_dnn *dnn; /* the engine's */
    gf_nn_shape shape;
    gf_prim forward, back_data, back_weights;
    /* CONV: weights between torch's layout and the formats the primitives chose; not made where these are equal. */
    gf_prim pack;               /* weight -> packed, of `forward` */
    gf_prim pack_back;          /* weight -> scratch, of `back_data`; not made where it takes `packed` */
    gf_prim unpack;             /* gradient in scratch -> weight_grad */
    gf_dnn_products **products; /* LINEAR: [1]; packed: for each length of texts, NULL until it is used */
    size_t spare;               /* CONV: bytes of the weights in scratch, before the primitives' own scratch; LINEAR: of theirs */
    int short_conv;             /* CONV by own kernels: no primitive is made */
    gf_wino wino;
};

struct gf_nn_engine {
    gf_dnn *dnn;
    const gf_norm_ops *norm;
    const gf_row_ops *row;
    int threads;
    gf_nn_op *ops;
    gf_dnn_products *products;
    void *spare; /* for products that need more scratch than those of the longest texts, with which nets are planned */
    size_t spare_bytes;
};

/* Kind, functions, what makes it (fills op, whose engine, dnn and shape are set, and the zeroed sizes), what packs its weights.
 */
/* clang-format off */
#define GF_DNN_OPS(X)                                                                                                        \
    X(CONV, conv, gf_dnn_conv_create, gf_dnn_conv_pack) X(LINEAR, linear, gf_dnn_linear_create, gf_dnn_linear_pack)          \
    X(MAXPOOL, pool, gf_dnn_pool_create, NULL) X(AVGPOOL, pool, gf_dnn_pool_create, NULL)                                    \
    X(LAYERNORM, layernorm, gf_dnn_layernorm_create, NULL) X(ATTENTION, attention, gf_dnn_attention_create, NULL)            \
    X(EMBED, embed, NULL, NULL) X(TOKENS, tokens, gf_dnn_tokens_create, NULL) X(PICK, pick, NULL, NULL)
/* clang-format on */
#define GF_X(kind, name, create, pack)                                                       \
    glofnd_status gf_dnn_##name##_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes);   \
    glofnd_status gf_dnn_##name##_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a); \
    glofnd_status gf_dnn_##name##_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a);
GF_DNN_OPS(GF_X)
#undef GF_X
glofnd_status gf_dnn_conv_pack(gf_error *err, gf_nn_op *op, const gf_nn_args *a);
glofnd_status gf_dnn_linear_pack(gf_error *err, gf_nn_op *op, const gf_nn_args *a);

/* The part of the table that needs no oneDNN: dnn_norm.c. */
size_t gf_dnn_norm_scratch(int64_t rows, int64_t c);
void gf_dnn_norm_sums(gf_nn_engine *s, const gf_nn_norm *n);
void gf_dnn_norm_finish(gf_nn_engine *s, const gf_nn_norm *n, double count);
void gf_dnn_norm_eval(gf_nn_engine *s, const gf_nn_norm *n);
void gf_dnn_norm_apply(gf_nn_engine *s, const gf_nn_norm *n);
void gf_dnn_norm_back_sums(gf_nn_engine *s, const gf_nn_norm *n);
void gf_dnn_norm_back_finish(gf_nn_engine *s, const gf_nn_norm *n, double count);
void gf_dnn_norm_back_apply(gf_nn_engine *s, const gf_nn_norm *n);
void gf_dnn_cast(gf_nn_engine *s, gf_type type, void *dst, const float *src, int64_t count);
void gf_dnn_add(gf_nn_engine *s, gf_type type, void *dst, const void *src, int64_t count);
void gf_dnn_mean(gf_nn_engine *s, gf_type type, float *y, const void *x, int64_t n, int64_t hw, int64_t c);
void gf_dnn_mean_back(gf_nn_engine *s, gf_type type, void *dx, const float *dy, int64_t n, int64_t hw, int64_t c);

static inline dnnl_data_type_t gf_dnn_type(gf_type t) { return t == GF_TYPE_BF16 ? dnnl_bf16 : dnnl_f32; }
static inline size_t gf_dnn_round(size_t bytes) { return (bytes + GF_NN_ALIGN - 1) / GF_NN_ALIGN * GF_NN_ALIGN; }

/* ----- work on rows over threads: dnn_norm.c ----- */

/* Rows are cut into blocks, one task each. The blocks follow from the shape alone, so that what is summed per block and then over
 * blocks in order has the same bits for any number of threads. */
#define GF_BLOCKS_MAX 256
#define GF_BLOCK_NUMBERS 65536 /* fewer are not worth a task */

#define GF_PARTS(n, size) (((n) + (size)-1) / (size)) /* of at most `size` each; `size` is evaluated twice */

static inline int64_t gf_block_rows(int64_t rows, int64_t c) {
    return GF_MAX(GF_PARTS(rows, GF_BLOCKS_MAX), GF_MAX(1, GF_BLOCK_NUMBERS / c));
}
static inline int64_t gf_blocks(int64_t rows, int64_t c) { return GF_PARTS(rows, gf_block_rows(rows, c)); }
/* Of `rows` rows or fewer, at most: the number of blocks falls where they become larger. */
static inline int64_t gf_blocks_max(int64_t rows, int64_t c) {
    return GF_MIN(GF_BLOCKS_MAX, GF_PARTS(rows, GF_MAX(1, GF_BLOCK_NUMBERS / c)));
}

/* sum [c] = partial[0], partial[step], .. added in order, `count` of them. */
void gf_dnn_sum_parts(const gf_nn_engine *s, float *sum, const float *partial, int64_t step, int64_t count, int64_t c);
/* sum [c] = over the rows of x [rows][c]; partial: gf_blocks(rows, c) * c floats. */
void gf_dnn_sum_rows(const gf_nn_engine *s, float *sum, gf_type type, const void *x, int64_t rows, int64_t c, float *partial);

void gf_dnn_act(const gf_nn_engine *s, gf_nn_act act, gf_type type, void *y, const void *z, int64_t count);
void gf_dnn_act_back(const gf_nn_engine *s, gf_nn_act act, gf_type type, void *g, const void *dy, const void *z, int64_t count);
void gf_dnn_copy(const gf_nn_engine *s, void *dst, const void *src, size_t bytes);
void gf_dnn_zero(const gf_nn_engine *s, void *dst, size_t bytes);

/* ----- time spent in the parts of a net, for benchmarks; without a watcher it costs one test per op ----- */

enum { GF_TIME_FORWARD, GF_TIME_BACK_DATA, GF_TIME_BACK_WEIGHTS, GF_TIME_NORM, GF_TIME_OTHER, GF_TIME_PARTS };

/* Seconds of the ops this thread runs, by `clock`, are added to into[GF_TIME_PARTS]: convolutions in three passes, batch norm,
 * the rest. NULL ends it. */
void gf_dnn_watch(double *into, double (*clock)(void));

double gf_dnn_start(void); /* 0 without a watcher */
void gf_dnn_charge(int part, double start);
