/* gpu_runs.h - for tests with training runs on a GPU: is there one, and how far apart are the weights of two runs? */
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/cuda_device.h"
#include "support/trial.h"

/* Tensor t of w on the host, to be freed: its value, or its gradient. */
static inline float *gpu_fetch(const gf_encoder *w, const gf_tensor *t, int gradient) {
    gf_error err = {""};
    float *x = malloc((size_t)t->count * sizeof *x);
    assert_non_null(x);
    trial_fine(gf_net_get(&err, w->net, t, gradient ? gf_encoder_gradient(w, t) : t->value, x), &err);
    return x;
}

/* To the bit, and buffers too. */
static inline void gpu_same_weights(const gf_trainer *a, const gf_trainer *b) {
    for (int k = 0; k < a->encoders.count; k++) {
        const gf_encoder *x = &a->encoders.at[k], *y = &b->encoders.at[k];
        for (int i = 0; i < x->tensor_count; i++) {
            float *p = gpu_fetch(x, &x->tensors[i], 0), *q = gpu_fetch(y, &y->tensors[i], 0);
            if (memcmp(p, q, (size_t)x->tensors[i].count * sizeof *p) != 0) fail_msg("%s differs", x->tensors[i].name);
            free(p), free(q);
        }
    }
}

/* Worst over the tensors of |a - b| / |b|, of values or of gradients. */
static inline double gpu_tower_off(const gf_encoder *x, const gf_encoder *y, int gradients) {
    double worst = 0;
    for (int i = 0; i < x->param_count; i++) {
        float *p = gpu_fetch(x, &x->tensors[i], gradients), *q = gpu_fetch(y, &y->tensors[i], gradients);
        double error = 0, size = 0;
        for (int64_t k = 0; k < x->tensors[i].count; k++) {
            error += ((double)p[k] - (double)q[k]) * ((double)p[k] - (double)q[k]);
            size += (double)q[k] * (double)q[k];
        }
        worst = fmax(worst, sqrt(error / (size + 1e-12)));
        free(p), free(q);
    }
    return worst;
}

static inline double gpu_off(gf_trainer *a, gf_trainer *b, int gradients) {
    double worst = 0;
    for (int k = 0; k < a->encoders.count; k++)
        worst = fmax(worst, gpu_tower_off(&a->encoders.at[k], &b->encoders.at[k], gradients));
    return worst;
}
