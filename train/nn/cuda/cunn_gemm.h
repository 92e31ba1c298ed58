/* cunn_gemm.h - one matrix product of cuBLASLt, which is column-major: c [rows x cols] = a b (+ bias per row) (+ add). */
#pragma once

#include "nn/cuda/cunn.h"

typedef struct gf_cunn_factor { /* rows x cols as stored, column after column */
    int64_t rows, cols;
    int turned; /* 1: its transpose is multiplied */
} gf_cunn_factor;

typedef struct gf_cunn_gemm_task {
    gf_cunn_factor a, b;
    gf_type in, out; /* of the factors; of c */
    int bias;
    int64_t rows, cols; /* of c: gf_cunn_gemm_create sets them */
} gf_cunn_gemm_task;

glofnd_status gf_cunn_gemm_create(gf_error *err, gf_nn_engine *s, gf_cunn_gemm *g, gf_cunn_gemm_task t);
glofnd_status gf_cunn_gemm_bias(gf_error *err, gf_nn_engine *s, const gf_cunn_gemm *g, const void *bias); /* for the next runs */
glofnd_status gf_cunn_gemm_run(gf_error *err, gf_nn_engine *s, const gf_cunn_gemm *g, const void *a, const void *b,
                               const void *add, void *c, void *workspace);
void gf_cunn_gemm_free(gf_nn_engine *s, gf_cunn_gemm *g);
