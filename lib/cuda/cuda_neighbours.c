/* cuda_neighbours.c - see cuda_neighbours.h. What the first half of a step finds stays in the workspace for the second one. */
#include "cuda/cuda_neighbours.h"

/* Never 0. Ids are on the device. */
static uint64_t key_of(const glofnd_batch *q) { return gf_neighbour_key(q) | 1; }

glofnd_status gf_cuda_find_neighbours(gf_error *err, gf_device_ctx *d, const gf_device_step *x, const gf_cuda_step *t) {
    d->near_key = 0;
    if (!t->plan.neighbours) return GLOFND_OK;
    CUDA_TRY(err, gf_cuda_neighbours(t, &d->near, d->stream));
    d->near_key = key_of(x->q);
    return GLOFND_OK;
}

glofnd_status gf_cuda_neighbours_found(gf_error *err, const gf_device_ctx *d, const gf_device_step *x) {
    FAIL_IF(err, x->plan->neighbours && d->near_key != key_of(x->q), GLOFND_E_ARGUMENT,
            "neighbours: call glofnd_step_grad after glofnd_step_rows for the same batch, on the same context");
    return GLOFND_OK;
}
