/* dnn_wino.h - 3 x 3 convolutions of stride 1 by Winograd's method with own kernels: a quarter of the multiplications. They are
 * made in float32; where activations are stored in bf16 and the CPU has AVX512-VNNI, those of forward and back_data are made of
 * integers of 16 bits: each tile and each column of weights has a scale of its own, so that the error stays below that of plain
 * products of bf16 numbers (tests/cpu/unit_wino.c). Transforms are in nn/cpu/kernels/net_kernels.h, the matrix product is that
 * of the loss.
 *
 * Results do not depend on the number of threads.
 */
#pragma once

#include "nn/nn_ops.h"

typedef struct gf_wino {
    int64_t down, across, tiles; /* tiles of an image; of all */
    int64_t block;               /* tiles a task of forward or back_data takes through all three stages */
    int64_t span;                /* tiles whose planes back_weights keeps at once */
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
