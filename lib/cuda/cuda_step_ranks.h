/* cuda_step_ranks.h - sums over ranks inside a step: on the host, by the caller's function, so a call that needs one waits.
 * Without such a function all but the first do nothing. */
#pragma once

#include "cuda/cuda_step.h"

/* n doubles at `where` on the device, summed over ranks; n is at most 2. */
glofnd_status gf_cuda_sum_ranks(gf_error *err, gf_device_ctx *d, const gf_device_step *x, double *where, int n);
/* Shared lambda: control->quantile[side], if it starts; control->above[side], if it moves. */
glofnd_status gf_cuda_sum_starts(gf_error *err, gf_device_ctx *d, const gf_device_step *x, int side);
glofnd_status gf_cuda_sum_above(gf_error *err, gf_device_ctx *d, const gf_device_step *x, int side);
/* control->seen */
glofnd_status gf_cuda_sum_seen(gf_error *err, gf_device_ctx *d, const gf_device_step *x);
