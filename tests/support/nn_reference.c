/* nn_reference.c - see nn_reference.h. */
#include "support/nn_reference.h"

#include <math.h>
#include <stdlib.h>

#include "util/dtype.h"

static int64_t out_size(const gf_nn_shape *s, int64_t size) { return gf_nn_out(size, s->kernel, s->stride, s->pad); }

int64_t ref_in_count(const gf_nn_shape *s) { return s->n * s->h * s->w * s->in; }
int64_t ref_out_count(const gf_nn_shape *s) { return s->n * out_size(s, s->h) * out_size(s, s->w) * s->out; }
int64_t ref_weight_count(const gf_nn_shape *s) { return s->kind == GF_NN_MAXPOOL ? 0 : s->out * s->in * s->kernel * s->kernel; }

/* x at image n, row r, column c; outside: `border`. */
static double pixel(const double *x, const gf_nn_shape *s, int64_t n, int64_t r, int64_t c, int64_t channel, double border) {
    if (r < 0 || r >= s->h || c < 0 || c >= s->w) return border;
    return x[((n * s->h + r) * s->w + c) * s->in + channel];
}

static double conv_at(const double *x, const double *w, const gf_nn_shape *s, int64_t n, int64_t r, int64_t c, int64_t o) {
    double sum = 0;
    for (int64_t i = 0; i < s->in; i++)
        for (int kr = 0; kr < s->kernel; kr++)
            for (int kc = 0; kc < s->kernel; kc++)
                sum += pixel(x, s, n, r * s->stride + kr - s->pad, c * s->stride + kc - s->pad, i, 0.0) *
                       w[((o * s->in + i) * s->kernel + kr) * s->kernel + kc];
    return sum;
}

static double max_at(const double *x, const gf_nn_shape *s, int64_t n, int64_t r, int64_t c, int64_t o) {
    double best = -INFINITY;
    for (int kr = 0; kr < s->kernel; kr++)
        for (int kc = 0; kc < s->kernel; kc++)
            best = fmax(best, pixel(x, s, n, r * s->stride + kr - s->pad, c * s->stride + kc - s->pad, o, -INFINITY));
    return best;
}

/* A linear layer is a convolution of 1 x 1 images by a 1 x 1 window. */
void ref_op(double *y, const double *x, const double *w, const gf_nn_shape *s) {
    const int64_t oh = out_size(s, s->h), ow = out_size(s, s->w);
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t r = 0; r < oh; r++)
            for (int64_t c = 0; c < ow; c++)
                for (int64_t o = 0; o < s->out; o++)
                    y[((n * oh + r) * ow + c) * s->out + o] =
                        s->kind == GF_NN_MAXPOOL ? max_at(x, s, n, r, c, o) : conv_at(x, w, s, n, r, c, o);
}

void ref_norm_moments(double *mean, double *var, const ref_norm *n) {
    for (int64_t c = 0; c < n->c; c++) {
        mean[c] = var[c] = 0;
        for (int64_t r = 0; r < n->rows; r++) mean[c] += n->x[r * n->c + c] / (double)n->rows;
        for (int64_t r = 0; r < n->rows; r++) {
            const double d = n->x[r * n->c + c] - mean[c];
            var[c] += d * d / (double)n->rows;
        }
    }
}

void ref_norm_forward(double *y, const ref_norm *n) {
    double *mean = malloc(sizeof *mean * (size_t)(2 * n->c)), *var = mean + n->c;
    ref_norm_moments(mean, var, n);
    for (int64_t i = 0; i < n->rows * n->c; i++) {
        const int64_t c = i % n->c;
        double v = (n->x[i] - mean[c]) / sqrt(var[c] + GF_NN_EPS);
        v = v * (n->gamma ? n->gamma[c] : 1) + (n->beta ? n->beta[c] : 0) + (n->residual ? n->residual[i] : 0);
        y[i] = n->relu && v < 0 ? 0 : v;
    }
    free(mean);
}

void ref_gradient(double *grad, double *at, int64_t count, double h, double (*f)(void *arg), void *arg) {
    for (int64_t i = 0; i < count; i++) {
        const double here = at[i];
        at[i] = here + h;
        const double above = f(arg);
        at[i] = here - h;
        const double below = f(arg);
        at[i] = here;
        grad[i] = (above - below) / (2 * h);
    }
}

static double relative(double error, double size) { return sqrt(error / (size > 0 ? size : 1)); }

double ref_distance_typed(const void *a, gf_type type, const double *b, int64_t count) {
    double error = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        const float wide = type == GF_TYPE_BF16 ? gf_bf16_to_float(((const uint16_t *)a)[i]) : ((const float *)a)[i];
        error += ((double)wide - b[i]) * ((double)wide - b[i]);
        size += b[i] * b[i];
    }
    return relative(error, size);
}

double ref_distance(const float *a, const double *b, int64_t count) { return ref_distance_typed(a, GF_TYPE_F32, b, count); }

double ref_distance_floats(const float *a, const float *b, int64_t count) {
    double error = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        error += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return relative(error, size);
}
