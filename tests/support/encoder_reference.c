/* encoder_reference.c - see encoder_reference.h. */
#include "support/encoder_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t rows_of(const gf_nn_shape *s) { return s->n * s->h * s->w; }
static int64_t places_of(const gf_nn_shape *s) { return s->h * s->w; }
static int64_t half(const gf_nn_shape *s, int64_t size) { return size / s->kernel; }

static double *zeros(int64_t count) { return calloc((size_t)count + 1, sizeof(double)); }
static void clear(double *x, int64_t count) { memset(x, 0, sizeof *x * (size_t)count); }

tower_counts tower_count(const gf_nn_shape *s) {
    const int64_t rows = rows_of(s), places = places_of(s);
    switch (s->kind) {
    case GF_NN_AVGPOOL: return (tower_counts){rows * s->in, 0, s->n * half(s, s->h) * half(s, s->w) * s->in, 0, 0};
    case GF_NN_LINEAR:
        return (tower_counts){rows * s->in, s->second ? rows * s->out : 0, rows * s->out, s->in * s->out, s->bias ? s->out : 0};
    case GF_NN_LAYERNORM: return (tower_counts){rows * s->in, 0, rows * s->in, s->in, s->in};
    case GF_NN_ATTENTION:
        return s->second ? (tower_counts){rows * 2 * s->out, s->n * s->out, s->n * s->out, 0, 0}
                         : (tower_counts){rows * 3 * s->out, 0, rows * s->out, 0, 0};
    case GF_NN_EMBED: return (tower_counts){s->n * s->h, 0, s->n * s->h * s->out, s->in * s->out, s->h * s->out};
    case GF_NN_TOKENS:
        return (tower_counts){rows * s->in, 0, s->n * (places + 1) * s->in, (places + 1) * s->in, s->bias ? s->in : 0};
    case GF_NN_PICK: return (tower_counts){rows * s->in, 0, s->n * s->in, 0, 0};
    default: return (tower_counts){0};
    }
}

gf_type tower_type_x(const gf_nn_shape *s) { return s->kind == GF_NN_EMBED ? GF_TYPE_I32 : s->type; }

gf_type tower_type_x2(const gf_nn_shape *s) { return s->kind == GF_NN_ATTENTION ? GF_TYPE_F32 : s->type; }

gf_type tower_type_y(const gf_nn_shape *s) {
    return s->kind == GF_NN_PICK || (s->kind == GF_NN_ATTENTION && s->second) ? GF_TYPE_F32 : s->type;
}

/* ----- linear ------------------------------------------------------------------------------------------------------ */

static double act(gf_nn_act kind, double z) {
    if (kind == GF_ACT_GELU) return z * 0.5 * erfc(-z / sqrt(2.0));
    return kind == GF_ACT_QUICK_GELU ? z / (1 + exp(-1.702 * z)) : z;
}

static double slope(gf_nn_act kind, double z) { /* good to 1e-9: central difference */
    const double h = 1e-5;
    return kind == GF_ACT_NONE ? 1.0 : (act(kind, z + h) - act(kind, z - h)) / (2 * h);
}

static void linear(const gf_nn_shape *s, const tower_arrays *a) {
    const tower_counts c = tower_count(s);
    clear(a->dx, c.x), clear(a->weight_grad, c.weight), clear(a->bias_grad, c.bias);
    for (int64_t r = 0; r < rows_of(s); r++)
        for (int64_t o = 0; o < s->out; o++) {
            double z = s->bias ? a->bias[o] : 0;
            for (int64_t i = 0; i < s->in; i++)
                z += a->x[r * s->in + i] * a->weight[s->transposed ? i * s->out + o : o * s->in + i];
            a->y[r * s->out + o] = act(s->act, z) + (s->second ? a->x2[r * s->out + o] : 0);
            const double g = a->dy[r * s->out + o] * slope(s->act, z);
            if (s->bias) a->bias_grad[o] += g;
            for (int64_t i = 0; i < s->in; i++) {
                const int64_t w = s->transposed ? i * s->out + o : o * s->in + i;
                a->dx[r * s->in + i] += g * a->weight[w];
                a->weight_grad[w] += g * a->x[r * s->in + i];
            }
        }
}

/* ----- layer norm -------------------------------------------------------------------------------------------------- */

static void layer_norm(const gf_nn_shape *s, const tower_arrays *a) {
    const int64_t c = s->in;
    clear(a->weight_grad, c), clear(a->bias_grad, c);
    for (int64_t r = 0; r < rows_of(s); r++) {
        const double *x = a->x + r * c, *dy = a->dy + r * c;
        double mean = 0, var = 0, sum = 0, along = 0;
        for (int64_t i = 0; i < c; i++) mean += x[i] / (double)c;
        for (int64_t i = 0; i < c; i++) var += (x[i] - mean) * (x[i] - mean) / (double)c;
        const double rest = 1 / sqrt(var + GF_NN_EPS);
        for (int64_t i = 0; i < c; i++) {
            const double unit = (x[i] - mean) * rest;
            a->y[r * c + i] = unit * a->weight[i] + a->bias[i];
            a->weight_grad[i] += dy[i] * unit;
            a->bias_grad[i] += dy[i];
            sum += dy[i] * a->weight[i] / (double)c;
            along += dy[i] * a->weight[i] * unit / (double)c;
        }
        for (int64_t i = 0; i < c; i++) a->dx[r * c + i] = rest * (dy[i] * a->weight[i] - sum - (x[i] - mean) * rest * along);
    }
}

/* ----- attention --------------------------------------------------------------------------------------------------- */

typedef struct head { /* of one image: rows of d numbers, `step` apart */
    const double *q, *k, *v, *dy;
    double *y, *dq, *dk, *dv;
    int64_t queries, keys, d, q_step, k_step, y_step;
    int causal;
} head;

static void one_query(const head *h, int64_t i, double *weight) {
    const double scale = 1 / sqrt((double)h->d), *q = h->q + i * h->q_step, *dy = h->dy + i * h->y_step;
    const int64_t keys = h->causal ? i + 1 : h->keys;
    double most = -INFINITY, total = 0, delta = 0;
    for (int64_t k = 0; k < keys; k++) {
        weight[k] = 0;
        for (int64_t d = 0; d < h->d; d++) weight[k] += q[d] * h->k[k * h->k_step + d] * scale;
        most = fmax(most, weight[k]);
    }
    for (int64_t k = 0; k < keys; k++) total += exp(weight[k] - most);
    for (int64_t k = 0; k < keys; k++) weight[k] = exp(weight[k] - most) / total;
    for (int64_t d = 0; d < h->d; d++) {
        double y = 0;
        for (int64_t k = 0; k < keys; k++) y += weight[k] * h->v[k * h->k_step + d];
        h->y[i * h->y_step + d] = y;
        delta += y * dy[d];
        h->dq[i * h->q_step + d] = 0;
    }
    for (int64_t k = 0; k < keys; k++) {
        double along = -delta;
        for (int64_t d = 0; d < h->d; d++) along += dy[d] * h->v[k * h->k_step + d];
        for (int64_t d = 0; d < h->d; d++) {
            h->dv[k * h->k_step + d] += weight[k] * dy[d];
            h->dk[k * h->k_step + d] += weight[k] * along * scale * q[d];
            h->dq[i * h->q_step + d] += weight[k] * along * scale * h->k[k * h->k_step + d];
        }
    }
}

static void attention(const gf_nn_shape *s, const tower_arrays *a) {
    const int64_t length = places_of(s), d = s->out / s->heads, parts = s->second ? 2 : 3, step = parts * s->out;
    double *weight = zeros(length);
    clear(a->dx, tower_count(s).x);
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t at = 0; at < s->out; at += d) {
            const int64_t x = n * length * step + at, k = x + (parts - 2) * s->out, v = k + s->out;
            const int64_t y = n * (s->second ? 1 : length) * s->out + at, q = s->second ? y : x;
            const head h = {.q = (s->second ? a->x2 : a->x) + q,
                            .dq = (s->second ? a->dx2 : a->dx) + q,
                            .k = a->x + k,
                            .dk = a->dx + k,
                            .v = a->x + v,
                            .dv = a->dx + v,
                            .y = a->y + y,
                            .dy = a->dy + y,
                            .queries = s->second ? 1 : length,
                            .keys = length,
                            .d = d,
                            .q_step = s->second ? s->out : step,
                            .k_step = step,
                            .y_step = s->out,
                            .causal = s->causal};
            for (int64_t i = 0; i < h.queries; i++) one_query(&h, i, weight);
        }
    free(weight);
}

/* ----- rows from here to there ------------------------------------------------------------------------------------- */

static void embed(const gf_nn_shape *s, const tower_arrays *a) {
    const int64_t c = s->out;
    clear(a->weight_grad, s->in * c), clear(a->bias_grad, s->h * c);
    for (int64_t i = 0; i < s->n * s->h; i++)
        for (int64_t k = 0; k < c; k++) {
            const int64_t token = (int64_t)a->x[i], place = i % s->h;
            a->y[i * c + k] = a->weight[token * c + k] + a->bias[place * c + k];
            a->weight_grad[token * c + k] += a->dy[i * c + k];
            a->bias_grad[place * c + k] += a->dy[i * c + k];
        }
}

static void tokens(const gf_nn_shape *s, const tower_arrays *a) {
    const int64_t places = places_of(s), c = s->in;
    const tower_counts counts = tower_count(s);
    clear(a->weight_grad, counts.weight), clear(a->bias_grad, counts.bias);
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t k = 0; k < c; k++) {
            const double *x = a->x + n * places * c + k, *dy = a->dy + n * (places + 1) * c + k;
            double *y = a->y + n * (places + 1) * c + k, first = s->bias ? a->bias[k] : 0;
            for (int64_t p = 0; p < places; p++) {
                if (!s->bias) first += x[p * c] / (double)places;
                y[(p + 1) * c] = x[p * c] + a->weight[(p + 1) * c + k];
                a->dx[(n * places + p) * c + k] = dy[(p + 1) * c] + (s->bias ? 0 : dy[0] / (double)places);
            }
            y[0] = first + a->weight[k];
            if (s->bias) a->bias_grad[k] += dy[0];
            for (int64_t p = 0; p <= places; p++) a->weight_grad[p * c + k] += dy[p * c];
        }
}

static void pick(const gf_nn_shape *s, const tower_arrays *a) {
    const int64_t length = places_of(s), c = s->in;
    clear(a->dx, tower_count(s).x);
    for (int64_t n = 0; n < s->n; n++) {
        memcpy(a->y + n * c, a->x + n * length * c, sizeof(double) * (size_t)c);
        memcpy(a->dx + n * length * c, a->dy + n * c, sizeof(double) * (size_t)c);
    }
}

static void average(const gf_nn_shape *s, const tower_arrays *a) {
    const int64_t oh = half(s, s->h), ow = half(s, s->w), c = s->in, k = s->kernel;
    clear(a->y, tower_count(s).y), clear(a->dx, tower_count(s).x);
    for (int64_t i = 0; i < s->n * oh * k * ow * k; i++) { /* places that lie in a window */
        const int64_t n = i / (oh * k * ow * k), row = i / (ow * k) % (oh * k), col = i % (ow * k);
        for (int64_t ch = 0; ch < c; ch++) {
            const int64_t x = ((n * s->h + row) * s->w + col) * c + ch, y = ((n * oh + row / k) * ow + col / k) * c + ch;
            a->y[y] += a->x[x] / (double)(k * k);
            a->dx[x] = a->dy[y] / (double)(k * k);
        }
    }
}

void encoder_reference(const gf_nn_shape *s, const tower_arrays *a) {
    switch (s->kind) {
    case GF_NN_LINEAR: linear(s, a); break;
    case GF_NN_LAYERNORM: layer_norm(s, a); break;
    case GF_NN_ATTENTION: attention(s, a); break;
    case GF_NN_EMBED: embed(s, a); break;
    case GF_NN_TOKENS: tokens(s, a); break;
    case GF_NN_PICK: pick(s, a); break;
    case GF_NN_AVGPOOL: average(s, a); break;
    default: break;
    }
}
