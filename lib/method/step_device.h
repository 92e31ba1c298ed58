/* step_device.h - the step tier of a context that lives on a device: the device's own functions, after the same checks. */
#pragma once

#include "method/context.h"

glofnd_status gf_device_run_step(glofnd_ctx *c, glofnd_store *s, const glofnd_batch *q, void *grad_a, void *grad_b,
                                 glofnd_stats *stats);
glofnd_status gf_device_run_rows(glofnd_ctx *c, glofnd_store *s, const glofnd_batch *q, gf_link *links, glofnd_stats *stats);
glofnd_status gf_device_run_grad(glofnd_ctx *c, const glofnd_batch *q, const gf_link *links, void *grad_a, void *grad_b,
                                 glofnd_stats *stats);
glofnd_status gf_device_run_components(glofnd_ctx *c, const glofnd_batch *q, int32_t *group);
glofnd_status gf_device_run_mask(glofnd_ctx *c, const glofnd_batch *q, const gf_link *links, uint8_t *keep);
/* Waits. The stats of the last step, or the failure of a step since the last call. */
glofnd_status gf_device_stats(glofnd_ctx *c, glofnd_stats *stats);
