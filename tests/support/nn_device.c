/* nn_device.c - see nn_device.h. */
#include "support/nn_device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "util/dtype.h"

void nn_ok(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK) fail_msg("%s", err->text);
}

nn_device nn_open(const gf_nn_backend *b, int exact) {
    gf_error err = {""};
    nn_device d = {.b = b};
    const gf_nn_mode mode = {.exact = exact, .deterministic = 1};
    nn_ok(b->open(&err, 2, &d.s), &err);
    if (b->configure) nn_ok(b->configure(&err, d.s, &mode), &err);
    return d;
}

void nn_open_for(nn_device *d, const gf_nn_backend *b, int (*fits)(const gf_nn_engine *, const gf_nn_shape *), gf_nn_shape s) {
    *d = nn_open(b, 1);
    if (fits(d->s, &s)) return;
    nn_close(d);
    skip();
}

void nn_drop(nn_device *d) {
    while (d->count > 0) d->b->release(d->s, d->taken[--d->count]);
}

void nn_close(nn_device *d) {
    nn_drop(d);
    d->b->close(d->s);
}

void *nn_take(nn_device *d, size_t bytes) {
    assert_true(d->count < (int)(sizeof d->taken / sizeof *d->taken));
    void *p = d->b->alloc(d->s, bytes ? bytes : 1);
    assert_non_null(p);
    d->taken[d->count++] = p;
    return p;
}

void nn_send(nn_device *d, void *to, const void *from, size_t bytes) {
    gf_error err = {""};
    if (!d->b->put) memcpy(to, from, bytes);
    else nn_ok(d->b->put(&err, d->s, to, from, bytes), &err);
}

void nn_fetch(nn_device *d, void *to, const void *from, size_t bytes) {
    gf_error err = {""};
    if (!d->b->get) memcpy(to, from, bytes);
    else nn_ok(d->b->get(&err, d->s, to, from, bytes), &err);
}

void *nn_numbers(nn_device *d, const float *x, int64_t count, gf_type type) {
    const size_t bytes = gf_type_bytes[type] * (size_t)count;
    void *p = nn_take(d, bytes), *as = malloc(bytes + 4);
    for (int64_t i = 0; i < count; i++)
        if (type == GF_TYPE_BF16) ((uint16_t *)as)[i] = gf_bf16_from_float(x[i]);
        else if (type == GF_TYPE_I32) ((int32_t *)as)[i] = (int32_t)x[i];
        else ((float *)as)[i] = x[i];
    nn_send(d, p, as, bytes);
    float sink;
    if (d->b->get && count > 0) nn_fetch(d, &sink, p, 2); /* waits: `as` goes */
    free(as);
    return p;
}

float *nn_floats(nn_device *d, const void *p, int64_t count, gf_type type) {
    float *x = malloc(sizeof *x * (size_t)count + 4);
    if (type == GF_TYPE_F32) {
        nn_fetch(d, x, p, sizeof *x * (size_t)count);
        return x;
    }
    uint16_t *narrow = malloc(2 * (size_t)count + 2);
    nn_fetch(d, narrow, p, 2 * (size_t)count);
    for (int64_t i = 0; i < count; i++) x[i] = gf_bf16_to_float(narrow[i]);
    free(narrow);
    return x;
}

float *nn_draw(rng *g, int64_t count) {
    float *x = malloc(sizeof *x * (size_t)count + 4);
    for (int64_t i = 0; i < count; i++) x[i] = gf_bf16_to_float(gf_bf16_from_float((float)rng_normal(g)));
    return x;
}

double nn_distance(const float *a, const float *b, int64_t count) {
    double error = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        error += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(error / (size > 0 ? size : 1));
}

void nn_within(const char *what, const float *a, const float *b, int64_t count, double limit) {
    const double d = nn_distance(a, b, count);
    if (getenv("CUDA_NN_SHOW")) print_message("  %-52s %.2e of %.0e\n", what, d, limit);
    if (!(d <= limit)) fail_msg("%s is off by %.3g, over %.3g", what, d, limit);
}

void nn_turn(const gf_nn_shape *s, const float *from, float *to, int to_device) {
    const int64_t hw = (int64_t)s->kernel * s->kernel;
    for (int64_t o = 0; o < s->out; o++)
        for (int64_t c = 0; c < s->in; c++)
            for (int64_t k = 0; k < hw; k++) {
                const int64_t torch = (o * s->in + c) * hw + k, last = (o * hw + k) * s->in + c;
                to[to_device ? last : torch] = from[to_device ? torch : last];
            }
}
