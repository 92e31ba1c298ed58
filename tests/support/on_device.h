/* on_device.h - the step tier for tests whose arrays are host memory: on a context for a device everything is copied there and
 * back, on the CPU the call goes straight through. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "glofnd.h"
#include "method/context.h"
#include "method/options.h"
#include "method/step.h"
#include "support/losses.h"

#ifdef GF_HAVE_CUDA
#include <cuda_runtime_api.h>

typedef struct on_device_copies {
    void *taken[32];
    int count;
    glofnd_batch_extra *extra; /* of a batch whose arrays were copied */
} on_device_copies;

/* A kernel that fails shows at the next call that waits. */
static inline void on_device_check(cudaError_t e, const char *call) {
    if (e == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(e));
    abort();
}

#define ON_DEVICE_CALL(call) on_device_check((call), #call)

/* Out of a pool that keeps what it has: else memory is taken and released several times a step, and each time all work on the
 * device has to end. */
static inline void *on_device_alloc(size_t bytes) {
    static int pool_is_set;
    cudaMemPool_t pool = NULL;
    uint64_t keep = UINT64_MAX;
    void *p = NULL;
    if (!pool_is_set && cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess)
        pool_is_set = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep) == cudaSuccess;
    ON_DEVICE_CALL(cudaMallocAsync(&p, bytes ? bytes : 1, 0));
    ON_DEVICE_CALL(cudaStreamSynchronize(0));
    return p;
}

/* cudaMemcpy may return before the bytes are there, and steps on streams of their own would not wait for them. */
static inline void *on_device_take(on_device_copies *x, const void *host, size_t bytes) {
    void *p = on_device_alloc(bytes);
    if (host) ON_DEVICE_CALL(cudaMemcpy(p, host, bytes, cudaMemcpyHostToDevice));
    ON_DEVICE_CALL(cudaStreamSynchronize(0));
    return x->taken[x->count++] = p;
}

static inline void on_device_fetch(void *host, const void *device, size_t bytes) {
    ON_DEVICE_CALL(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}

static inline void on_device_drop(on_device_copies *x) {
    if (x->count > 0) cudaDeviceSynchronize(); /* a different stream may still use them */
    for (int i = 0; i < x->count; i++) cudaFreeAsync(x->taken[i], 0);
    free(x->extra);
    x->extra = NULL;
}

#define ON_DEVICE_COPY(x, q, field, bytes) \
    if ((q)->field && (bytes) > 0) (q)->field = on_device_take((x), (q)->field, (size_t)(bytes))

/* supports: support vectors per sample. */
static inline glofnd_batch on_device_supported(on_device_copies *x, const glofnd_batch *q, int supports) {
    glofnd_batch d = *q;
    const int64_t rows = q->n * q->dim * (int64_t)sizeof(float);
    ON_DEVICE_COPY(x, &d, a, rows);
    ON_DEVICE_COPY(x, &d, b, rows);
    if (q->extra) {
        d.extra = x->extra = malloc(sizeof *x->extra);
        if (!x->extra) abort();
        *x->extra = *q->extra;
        ON_DEVICE_COPY(x, x->extra, support_a, rows * (supports > 1 ? supports : 1));
        ON_DEVICE_COPY(x, x->extra, support_b, rows * (supports > 1 ? supports : 1));
        ON_DEVICE_COPY(x, x->extra, bank_a, rows / 2);
        ON_DEVICE_COPY(x, x->extra, bank_b, rows / 2);
    }
    const int64_t row = q->dim * (int64_t)sizeof(float);
    ON_DEVICE_COPY(x, &d, negatives_a, q->negatives_a_n * row);
    ON_DEVICE_COPY(x, &d, negatives_b, q->negatives_b_n * row);
    ON_DEVICE_COPY(x, &d, grad_negatives_a, q->negatives_a_n * row);
    ON_DEVICE_COPY(x, &d, grad_negatives_b, q->negatives_b_n * row);
    ON_DEVICE_COPY(x, &d, negatives_a_id, q->negatives_a_n * (int64_t)sizeof *q->id);
    ON_DEVICE_COPY(x, &d, negatives_b_id, q->negatives_b_n * (int64_t)sizeof *q->id);
    ON_DEVICE_COPY(x, &d, id, q->n * (int64_t)sizeof *q->id);
    ON_DEVICE_COPY(x, &d, label, q->n * (int64_t)sizeof *q->label);
    ON_DEVICE_COPY(x, &d, group, q->n * (int64_t)sizeof *q->group);
    ON_DEVICE_COPY(x, &d, guide, q->n * q->guide_dim * (int64_t)sizeof *q->guide);
    ON_DEVICE_COPY(x, &d, guide_threshold, q->n * (int64_t)sizeof *q->guide_threshold);
    ON_DEVICE_COPY(x, &d, positives, q->n * (int64_t)sizeof *q->positives);
    return d;
}

/* The gradients of candidates, back to those of q. */
static inline void on_device_fetch_candidates(const glofnd_batch *q, const glofnd_batch *d) {
    const size_t row = sizeof(float) * (size_t)q->dim;
    if (q->grad_negatives_a) on_device_fetch(q->grad_negatives_a, d->grad_negatives_a, row * (size_t)q->negatives_a_n);
    if (q->grad_negatives_b) on_device_fetch(q->grad_negatives_b, d->grad_negatives_b, row * (size_t)q->negatives_b_n);
}

static inline glofnd_batch on_device_batch(on_device_copies *x, const glofnd_batch *q) { return on_device_supported(x, q, 1); }
#endif

/* The batch as a step takes it: detector COMPONENTS needs groups, made of the batch in `group` [n]. */
static inline glofnd_batch on_device_grouped(glofnd_ctx *c, const glofnd_batch *q, int32_t *group) {
    glofnd_batch grouped = *q;
    if (c->o.detector != GLOFND_DETECT_COMPONENTS) return grouped;
    grouped.group = group;
#ifdef GF_HAVE_CUDA
    if (c->device) {
        on_device_copies x = {0};
        const size_t bytes = sizeof *group * (size_t)q->n;
        const glofnd_batch d = on_device_batch(&x, q);
        int32_t *there = on_device_take(&x, NULL, bytes);
        if (gf_batch_components(c, &d, NULL, there) != GLOFND_OK) abort();
        ON_DEVICE_CALL(cudaDeviceSynchronize());
        on_device_fetch(group, there, bytes);
        on_device_drop(&x);
        return grouped;
    }
#endif
    if (gf_batch_components(c, q, NULL, group) != GLOFND_OK) abort();
    return grouped;
}

static inline glofnd_status on_device_step(glofnd_ctx *c, glofnd_store *s, const glofnd_batch *q, float *grad_a, float *grad_b,
                                           glofnd_stats *stats) {
#ifdef GF_HAVE_CUDA
    if (c->device) {
        on_device_copies x = {0};
        const size_t bytes = sizeof(float) * (size_t)(q->n * q->dim);
        const glofnd_batch d = on_device_supported(&x, q, c->o.fnc_support);
        float *da = on_device_take(&x, NULL, bytes), *db = on_device_take(&x, NULL, bytes);
        const glofnd_status status = glofnd_step(c, s, &d, da, db, stats);
        on_device_fetch(grad_a, da, bytes);
        on_device_fetch(grad_b, db, bytes);
        on_device_fetch_candidates(q, &d);
        on_device_drop(&x);
        return status;
    }
#endif
    return glofnd_step(c, s, q, grad_a, grad_b, stats);
}

/* own: NULL, all rows */
static inline glofnd_status on_device_step_rows(glofnd_ctx *c, glofnd_store *s, const glofnd_batch *q, const glofnd_own_rows *own,
                                                gf_link *links, glofnd_stats *stats) {
#ifdef GF_HAVE_CUDA
    if (c->device) {
        on_device_copies x = {0};
        const size_t bytes = 2 * sizeof *links * (size_t)(own ? own->rows : q->n);
        const glofnd_batch d = on_device_supported(&x, q, c->o.fnc_support);
        gf_link *device_links = on_device_take(&x, NULL, bytes);
        const glofnd_status status = glofnd_step_rows(c, s, &d, own, device_links, stats);
        on_device_fetch(links, device_links, bytes);
        on_device_drop(&x);
        return status;
    }
#endif
    return glofnd_step_rows(c, s, q, own, links, stats);
}

static inline glofnd_status on_device_step_grad(glofnd_ctx *c, const glofnd_batch *q, const glofnd_own_rows *own,
                                                const gf_link *links, float *grad_a, float *grad_b, glofnd_stats *stats) {
#ifdef GF_HAVE_CUDA
    if (c->device) {
        on_device_copies x = {0};
        const size_t bytes = sizeof(float) * (size_t)((own ? own->rows : q->n) * q->dim);
        const glofnd_batch d = on_device_supported(&x, q, c->o.fnc_support);
        const gf_link *device_links = on_device_take(&x, links, 2 * sizeof *links * (size_t)q->n);
        float *da = on_device_take(&x, NULL, bytes), *db = on_device_take(&x, NULL, bytes);
        const glofnd_status status = glofnd_step_grad(c, &d, own, device_links, da, db, stats);
        on_device_fetch(grad_a, da, bytes);
        on_device_fetch(grad_b, db, bytes);
        on_device_fetch_candidates(q, &d);
        on_device_drop(&x);
        return status;
    }
#endif
    return glofnd_step_grad(c, q, own, links, grad_a, grad_b, stats);
}

static inline glofnd_status on_device_step_mask(glofnd_ctx *c, const glofnd_batch *q, const glofnd_own_rows *own,
                                                const gf_link *links, uint8_t *keep) {
#ifdef GF_HAVE_CUDA
    if (c->device) {
        on_device_copies x = {0};
        const size_t bytes = (size_t)((own ? own->rows : q->n) * q->n) * (gf_sides(&c->o) == 1 ? 4 : 2);
        const glofnd_batch d = on_device_supported(&x, q, c->o.fnc_support);
        const gf_link *device_links = on_device_take(&x, links, 2 * sizeof *links * (size_t)q->n);
        uint8_t *device_keep = on_device_take(&x, NULL, bytes);
        const glofnd_status status = glofnd_step_mask(c, &d, own, device_links, device_keep);
        on_device_fetch(keep, device_keep, bytes);
        on_device_drop(&x);
        return status;
    }
#endif
    return glofnd_step_mask(c, q, own, links, keep);
}

/* GLOFND_TEST_DEVICE runs tests made for the CPU on a GPU: in exact arithmetic, to the same tolerances. */
static inline void on_device_choose(glofnd_options *o) {
    const char *name = getenv("GLOFND_TEST_DEVICE");
    char why[256];
    if (!name || !*name) return;
    if (glofnd_options_set(o, "device", name, NULL, 0) != GLOFND_OK) abort();
    o->math = GLOFND_MATH_EXACT;
    if (glofnd_device_check(o->device, why, sizeof why) == GLOFND_OK) return;
    printf("skipped: %s\n", why);
    exit(77);
}
