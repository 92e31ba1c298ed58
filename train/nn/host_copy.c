/* host_copy.c - copies between the memory of a net and the host. On the CPU all of them are memcpy.
 *
 * A device keeps convolution weights as [out][height][width][in], `in` padded with zeros to the channels of its input; torch has
 * [out][in][height][width]. Both directions go through a host copy: for checkpoints and initial weights, not for steps.
 */
#include <stdlib.h>
#include <string.h>

#include "nn/net_parts.h"

/* Moves between torch's layout and the device's, both on the host. */
static void reorder(const gf_tensor *t, float *torch, float *device, int to_device) {
    const int64_t out = t->shape[0], in = t->shape[1], hw = t->shape[2] * t->shape[3], padded = t->stored / (out * hw);
    if (to_device) memset(device, 0, sizeof(float) * (size_t)t->stored);
    for (int64_t o = 0; o < out; o++)
        for (int64_t c = 0; c < in; c++)
            for (int64_t k = 0; k < hw; k++) {
                float *a = &torch[(o * in + c) * hw + k], *b = &device[(o * hw + k) * padded + c];
                if (to_device) *b = *a;
                else *a = *b;
            }
}

glofnd_status gf_net_read(gf_error *err, gf_net *n, void *host, const void *from, size_t bytes) {
    if (n->backend->get) return n->backend->get(err, n->engine, host, from, bytes);
    memcpy(host, from, bytes);
    return GLOFND_OK;
}

glofnd_status gf_net_write(gf_error *err, gf_net *n, void *to, const void *host, size_t bytes) {
    if (n->backend->put) return n->backend->put(err, n->engine, to, host, bytes);
    memcpy(to, host, bytes);
    return GLOFND_OK;
}

static int reordered(const gf_net *n, const gf_tensor *t) { return n->backend->put && t->rank == 4; }

glofnd_status gf_net_get(gf_error *err, gf_net *n, const gf_tensor *t, const float *at, float *host) {
    if (!reordered(n, t)) return gf_net_read(err, n, host, at, sizeof(float) * (size_t)t->count);
    float *device = malloc(sizeof(float) * (size_t)t->stored);
    FAIL_IF(err, !device, GLOFND_E_MEMORY, "out of memory");
    const glofnd_status status = gf_net_read(err, n, device, at, sizeof(float) * (size_t)t->stored);
    if (status == GLOFND_OK) reorder(t, host, device, 0);
    free(device);
    return status;
}

glofnd_status gf_net_put(gf_error *err, gf_net *n, const gf_tensor *t, float *at, const float *host) {
    if (!reordered(n, t)) return gf_net_write(err, n, at, host, sizeof(float) * (size_t)t->count);
    float *device = malloc(sizeof(float) * (size_t)t->stored);
    FAIL_IF(err, !device, GLOFND_E_MEMORY, "out of memory");
    reorder(t, (float *)(uintptr_t)host, device, 1);
    glofnd_status status = gf_net_write(err, n, at, device, sizeof(float) * (size_t)t->stored);
    if (status == GLOFND_OK) status = n->backend->wait(err, n->engine); /* the copy may still read `device` */
    free(device);
    return status;
}

void *gf_net_alloc(gf_net *n, size_t bytes) { return n->backend->alloc(n->engine, bytes); }

void gf_net_release(gf_net *n, void *p) {
    if (n) n->backend->release(n->engine, p);
}

float *gf_net_alloc_state(gf_net *n) { return gf_net_alloc(n, sizeof(float) * (size_t)n->graph.params.numbers); }
float *gf_net_place(const gf_net *n, float *block, const gf_tensor *t) { return block + (t->value - n->values); }

void gf_net_add_gradients(gf_net *n, float *block, int first) {
    const int64_t count = n->graph.params.numbers;
    if (first) n->backend->cast(n->engine, GF_TYPE_F32, block, n->grads, count);
    else n->backend->add(n->engine, GF_TYPE_F32, block, n->grads, count);
}
