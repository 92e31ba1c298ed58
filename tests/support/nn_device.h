/* nn_device.h - a backend of nets under test: opened, with arrays of the host's numbers on it, and errors measured. */
#pragma once

#include "nn/nn_ops.h"
#include "support/random.h"

typedef struct nn_device {
    const gf_nn_backend *b;
    gf_nn_engine *s;
    void *taken[64];
    int count;
} nn_device;

void nn_ok(glofnd_status status, const gf_error *err); /* fails the test with err's text */
nn_device nn_open(const gf_nn_backend *b, int exact);
/* Opens d, exact, if the device has a kernel for the shape; else the test is skipped. */
void nn_open_for(nn_device *d, const gf_nn_backend *b, int (*fits)(const gf_nn_engine *, const gf_nn_shape *), gf_nn_shape s);
void nn_drop(nn_device *d); /* gives back what nn_take took */
void nn_close(nn_device *d);
void *nn_take(nn_device *d, size_t bytes); /* until nn_drop or nn_close */
void nn_send(nn_device *d, void *to, const void *from, size_t bytes);
void nn_fetch(nn_device *d, void *to, const void *from, size_t bytes);
/* Floats of the host as an array of `type` on the device, and back. */
void *nn_numbers(nn_device *d, const float *x, int64_t count, gf_type type);
float *nn_floats(nn_device *d, const void *p, int64_t count, gf_type type);
float *nn_draw(rng *g, int64_t count); /* normal numbers that bf16 holds exactly */
/* Weights of a convolution: [out][in][k][k] to [out][k][k][in], as devices have them, or back. */
void nn_turn(const gf_nn_shape *s, const float *from, float *to, int to_device);
/* Limits of |a - b| / |b|, from the precisions alone:
 * float32   every addition rounds by up to u = 2^-24, at random: a sum of N terms is off by about u sqrt(N). 3 x 3 windows over
 *           256 channels are N = 2304: 48 u = 2.9e-6. Longer sums are made in parts, which is better than that.
 * bf16      inputs are bf16 numbers, sums float32: only results are rounded, each by up to 2^-9 of itself. Where a rounded number
 *           is part of a second one (g of dx), two such errors meet: sqrt(2) 2^-9 = 2.8e-3. */
#define NN_FP32_LIMIT 3e-6
#define NN_BF16_LIMIT 3e-3
/* |a - b| / |b| over the whole array; nn_within fails the test above `limit`. CUDA_NN_SHOW in the environment: prints it. */
double nn_distance(const float *a, const float *b, int64_t count);
void nn_within(const char *what, const float *a, const float *b, int64_t count, double limit);
