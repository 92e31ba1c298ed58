/* dnn_ops.h - the ops of the CPU backend: a few oneDNN primitives each, made once. One file per kind of op. */
#pragma once

#include "nn/cpu/dnn_shim.h"
#include "nn/cpu/dnn_wino.h"
#include "nn/cpu/kernels/net_kernels.h"
#include "nn/nn_ops.h"

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

/* Kind, functions, and what packs its weights. create fills op (engine, dnn and shape are set) and sizes (zeroed). */
/* clang-format off */
#define GF_DNN_OPS(X)                                                                                                        \
    X(CONV, conv, gf_dnn_conv_pack) X(LINEAR, linear, gf_dnn_linear_pack) X(MAXPOOL, pool, NULL) X(AVGPOOL, pool, NULL)        \
    X(LAYERNORM, layernorm, NULL) X(ATTENTION, attention, NULL) X(EMBED, embed, NULL) X(TOKENS, tokens, NULL)                  \
    X(PICK, pick, NULL)
/* clang-format on */
#define GF_X(kind, name, pack)                                                               \
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
/* oneDNN takes what it only reads through pointers without const. */
static inline void *gf_dnn_mutable(const void *p) { return (void *)(uintptr_t)p; }
