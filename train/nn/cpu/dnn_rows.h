/* dnn_rows.h - work on rows of tokens over threads: see dnn_rows.c. */
#pragma once

#include "nn/cpu/dnn_ops.h"

/* sum [c] = partial[0], partial[step], .. added in order, `count` of them. */
void gf_dnn_sum_parts(const gf_nn_engine *s, float *sum, const float *partial, int64_t step, int64_t count, int64_t c);
/* sum [c] = over the rows of x [rows][c]; partial: gf_blocks(rows, c) * c floats. */
void gf_dnn_sum_rows(const gf_nn_engine *s, float *sum, gf_type type, const void *x, int64_t rows, int64_t c, float *partial);

void gf_dnn_act(const gf_nn_engine *s, gf_nn_act act, gf_type type, void *y, const void *z, int64_t count);
void gf_dnn_act_back(const gf_nn_engine *s, gf_nn_act act, gf_type type, void *g, const void *dy, const void *z, int64_t count);
void gf_dnn_copy(const gf_nn_engine *s, void *dst, const void *src, size_t bytes);
void gf_dnn_zero(const gf_nn_engine *s, void *dst, size_t bytes);
