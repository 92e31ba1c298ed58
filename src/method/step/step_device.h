/* step_device.h - the step tier of a context that lives on a device: the same checks, then the device's own functions. */
#ifndef GF_METHOD_STEP_STEP_DEVICE_H
#define GF_METHOD_STEP_STEP_DEVICE_H

#include "method/context.h"

glofnd_status gf_device_run_step(glofnd_ctx *c, glofnd_store *s, const glofnd_batch *q, float *grad_a, float *grad_b,
                                 glofnd_stats *stats);
glofnd_status gf_device_run_rows(glofnd_ctx *c, glofnd_store *s, const glofnd_batch *q, glofnd_link *links, glofnd_stats *stats);
glofnd_status gf_device_run_grad(glofnd_ctx *c, const glofnd_batch *q, const glofnd_link *links, float *grad_a, float *grad_b,
                                 glofnd_stats *stats);
glofnd_status gf_device_run_mask(glofnd_ctx *c, const glofnd_batch *q, const glofnd_link *links, uint8_t *keep);
/* Waits: the stats of the last step, or the failure of one since the last call. */
glofnd_status gf_device_stats(glofnd_ctx *c, glofnd_stats *stats);

#endif
