/* nn_norm.h - batch norms of bf16 numbers on a device under test, and checks of what a convolution leaves in them. */
#pragma once

#include "support/nn_device.h"

float *norm_numbers(rng *g, int64_t count, int64_t c, float apart); /* each column around a mean of its own */
gf_nn_norm norm_on_device(nn_device *d, rng *g, int64_t rows, int64_t c);
/* A norm as forward left it, for a convolution that is its reader. */
gf_nn_norm norm_left(nn_device *d, rng *g, const float *x, const float *mean, int64_t rows, int64_t c);
void norm_same_bits(nn_device *d, const void *a, const void *b, size_t bytes);
/* The statistics of y, after one forward pass with running averages of 0. */
void norm_check_statistics(nn_device *d, const gf_nn_norm *n, const float *y);
/* All that follows from the sums of g, as the device has it. Terms have both signs: errors are relative to the sum of their
 * absolute values. */
void norm_check_lines(nn_device *d, const char *what, const gf_nn_norm *n, const float *g, const float *x, const float *mean);
