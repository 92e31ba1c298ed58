/* tile_names.h - the tile functions of this folder, named after the instruction set they are compiled for. */
#pragma once

#include "cpu/kernels/simd.h"
#include "cpu/kernels/tile.h"

void GF_NAME(gf_tile_product16)(float *c, size_t c_row, const uint32_t *a, size_t a_row, size_t a_k, const uint32_t *b,
                                size_t b_k, size_t b_panel, int m, int n, int k, int accumulate);
void GF_NAME(gf_tile_words)(uint32_t *words, const float *first, const float *second, int64_t n);
void GF_NAME(gf_tile_round)(uint16_t *out, const float *in, int64_t n);
void GF_NAME(gf_tile_product_int16)(float *c, size_t c_row, const gf_int16_words *a, const gf_int16_words *b, int m, int n, int k,
                                    int accumulate);
int GF_NAME(gf_tile_int16_is_fast)(void);
float GF_NAME(gf_tile_row_to_int16)(int16_t *out, const float *in, int64_t n);
void GF_NAME(gf_tile_panel_to_int16)(uint32_t *words, const float *panel, int64_t rows, float *step);
void GF_NAME(gf_tile_collect)(const gf_tile *t, const gf_lists *row, const gf_lists *col);
float GF_NAME(gf_tile_between)(const float *v, int64_t n, int64_t best, double fraction, int64_t *above);
