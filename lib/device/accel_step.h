/* accel_step.h - the method on an accelerator: the functions behind a context whose option `device` is not the CPU.
 *
 * src/method checks arguments, makes the plan and turns totals into statistics; the device does everything in between in its own
 * memory, in the order of its stream. Calls return GLOFND_OK once their work is queued, except those marked as waiting. Failures
 * that only the device can see (numbers that are not finite, bad ids) come with `totals`.
 */
#pragma once

#include "method/formulas/plan.h"
#include "method/formulas/record.h"
#include "method/formulas/row.h"
#include "util/status.h"

typedef struct gf_device_ctx gf_device_ctx;     /* stream and workspace, defined by the device */
typedef struct gf_device_store gf_device_store; /* records, shared rows and ring, on the device */

typedef struct gf_device_step { /* one call of the step tier; pointers to arrays are device memory */
    const gf_plan *plan;
    const gf_shape *shape;
    const gf_step_batch *q;
    gf_device_store *s;   /* step, rows; NULL: the state is at `state` */
    glofnd_anchor *state; /* [sides][anchors + 1] in device memory */
    int64_t anchors;
    gf_link *links;                              /* rows: out [rows][2]; grad, mask: in [cols][2] */
    void *grad_a, *grad_b;                       /* grad */
    uint8_t *keep;                               /* mask */
    const float *tau;                            /* step, rows: the temperature, in device memory; NULL: of the plan */
    const float *bias;                           /* the same for the bias of loss sigmoid */
    int (*reduce)(void *user, double *x, int n); /* sums over ranks, on the host: a call that needs it waits */
    void *reduce_user;
    int (*queue_sum)(void *user, double *x, int n); /* sums of numbers in device memory, which only queue; NULL: none */
    void *queue_user;
} gf_device_step;

typedef struct gf_device_state { /* contents of a store beside the records of its anchors and the rows of its rings */
    gf_record shared[2];
    int64_t ring_head, ring_count;
} gf_device_state;

typedef struct gf_device_thresholds {
    const void *q, *k;   /* [rows], [cols] rows of dim numbers of `dtype`, q_stride and k_stride apart */
    const int64_t *skip; /* [rows] or NULL */
    int64_t rows, cols, dim;
    int64_t q_stride, k_stride;
    glofnd_dtype dtype;
    int normalize;
    int64_t best; /* largest rank */
    double alpha;
    float *out; /* [rows] */
} gf_device_thresholds;

typedef struct gf_device {
    const char *name;
    glofnd_status (*check)(gf_error *err); /* there is one, and it works */
    glofnd_status (*open)(gf_error *err, gf_device_ctx **out);
    void (*close)(gf_device_ctx *d); /* waits; takes NULL */
    glofnd_status (*stream)(gf_error *err, gf_device_ctx *d, void *stream);
    glofnd_status (*reserve)(gf_error *err, gf_device_ctx *d, const gf_shape *shape, size_t *bytes);
    /* glofnd_ctx_workspace_bytes and glofnd_ctx_workspace; NULL: not supported. */
    glofnd_status (*workspace_bytes)(gf_error *err, gf_device_ctx *d, const gf_shape *shape, size_t *bytes);
    glofnd_status (*workspace)(gf_error *err, gf_device_ctx *d, void *memory, size_t bytes);
    /* Waits. Between the host and the device, or on either. */
    glofnd_status (*copy)(gf_error *err, gf_device_ctx *d, void *to, const void *from, size_t bytes);

    glofnd_status (*step)(gf_error *err, gf_device_ctx *d, const gf_device_step *x); /* one rank: rows, then grad */
    glofnd_status (*rows)(gf_error *err, gf_device_ctx *d, const gf_device_step *x);
    glofnd_status (*grad)(gf_error *err, gf_device_ctx *d, const gf_device_step *x);
    glofnd_status (*mask)(gf_error *err, gf_device_ctx *d, const gf_device_step *x);
    /* The groups of WCL, for detector `groups`: group [cols] in device memory, of all samples of the batch (its ids may be NULL). The shape
     * has `components`. */
    glofnd_status (*components)(gf_error *err, gf_device_ctx *d, const gf_device_step *x, int32_t *group);
    /* Waits. Sums of the last rows and the last grad; or the failure of a call since the last time, which is then forgotten. */
    glofnd_status (*totals)(gf_error *err, gf_device_ctx *d, gf_totals *sum);
    /* Queues: loss, grad_tau and grad_bias of the last step to device memory; each may be NULL. `graded`: it had a second half.
     * Also the failure of an earlier call, as soon as it is known. */
    glofnd_status (*loss)(gf_error *err, gf_device_ctx *d, const gf_plan *plan, int graded, float *loss, float *grad_tau,
                          float *grad_bias);
    glofnd_status (*thresholds)(gf_error *err, gf_device_ctx *d, const gf_device_thresholds *x); /* waits */

    /* Stores. Every call but the last two waits; `records`, ids, rows are host memory; put: 1 writes, 0 reads. */
    glofnd_status (*store_open)(gf_error *err, gf_device_ctx *d, const gf_store_spec *spec, size_t record_bytes,
                                gf_device_store **out);
    void (*store_close)(gf_device_store *s);                                            /* takes NULL */
    size_t (*store_held)(const gf_device_store *s);                                     /* bytes on the device */
    glofnd_status (*store_touched)(gf_error *err, gf_device_store *s, uint8_t *blocks); /* 1: ever written */
    glofnd_status (*store_range)(gf_error *err, gf_device_store *s, int put, int64_t first, int64_t count, void *records);
    glofnd_status (*store_rows)(gf_error *err, gf_device_store *s, int put, const int64_t *id, int64_t n, void *records);
    /* A store of keys: `id` of store_rows are keys, those that are not there read as zeros, and put makes them. Its rows lie where
     * its table has their keys, *rows in all: those that store_touched and store_range count. */
    glofnd_status (*store_keyed)(gf_error *err, gf_device_store *s, int64_t *rows, int64_t *keys); /* keys may be NULL */
    glofnd_status (*store_reserve)(gf_error *err, gf_device_store *s, int64_t keys);
    glofnd_status (*store_state)(gf_error *err, gf_device_store *s, int put, gf_device_state *state);
    glofnd_status (*store_ring)(gf_error *err, gf_device_store *s, int put, int side, int64_t count, float *rows, int64_t *id);
    /* Queues, on the stream of d: averages of n anchors of one side, rows [n][dim] float16. id and rows are device memory; ids
     * outside of the store are passed over. */
    glofnd_status (*store_bank)(gf_error *err, gf_device_ctx *d, gf_device_store *s, int put, int side, int64_t dim,
                                const int64_t *id, int64_t n, void *rows);
    /* Queues: whole records [n][record_bytes], as glofnd_records_get() and _put(). */
    glofnd_status (*store_records)(gf_error *err, gf_device_ctx *d, gf_device_store *s, int put, const int64_t *id, int64_t n,
                                   void *records);
} gf_device;

extern const gf_device *const gf_device_cuda; /* NULL: built without CUDA */
