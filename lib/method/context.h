/* context.h - the inside of glofnd_ctx: options, device, workspace, last error. */
#pragma once

#include "device/accel_step.h"
#include "util/status.h"

struct glofnd_ctx {
    glofnd_options o;
    gf_error err;
    int threads;                                 /* resolved: >= 1 */
    unsigned configuration;                      /* rises whenever the options are set */
    int (*reduce)(void *user, double *x, int n); /* sums over ranks; NULL on one rank */
    void *reduce_user;
    int (*queue_sum)(void *user, double *x, int n); /* device: the same, queued, of numbers there */
    void *queue_user;
    const float *tau_at;     /* the temperature of the next steps, on the device; NULL: of batch or options */
    const float *bias_at;    /* the same for the bias of loss sigmoid */
    glofnd_anchor *state_at; /* the state of the next steps, [sides][state_n + 1] on the device; NULL: that of a store */
    int64_t state_n;
    struct gf_workspace *ws; /* see workspace.h; grows in glofnd_ctx_reserve */
    glofnd_stats stats;      /* CPU: of the last step */
    glofnd_counters counters;
    const gf_device *device; /* NULL: the CPU */
    gf_device_ctx *on;       /* its part of the context */
    gf_plan plan;            /* device: of the last step */
    int has_rows, has_grad;  /* halves of the last step that were run; CPU: only has_rows */
};
