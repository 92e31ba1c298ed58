/* nn_ops.h - the operations that a device provides for nets (net.h).
 *
 * Activations are NHWC, of one gf_type per net (the head is always float32); parameters, their gradients and all statistics are
 * float32. Sequences are [n][h = length][w = 1][c]. An engine belongs to one net, or to nets that share it
 * (gf_net_spec.engine_owner), and to one thread at a time; it owns the ops made with it. Ops are made once for a fixed shape,
 * return the memory they need, and then run on pointers into memory that the net has planned: no call below but `open`, `alloc`,
 * `op_create`, `optim_create`, `record` and the first `run` without a record allocates.
 *
 * A device with memory of its own (gf_nn_backend.put is set) queues work and returns; pointers in args, norms and params are then
 * the device's. Weights of convolutions lie there as [out][kernel][kernel][in], so that no layout changes between the gradient,
 * the optimizer and the convolution; net.c turns them into torch's layout on the way in and out.
 *
 * Batch norm is cut where ranks would add their sums:
 *   forward   norm_sums -> (add n->sums over ranks) -> norm_finish -> norm_apply;      eval mode: norm_eval -> norm_apply
 *   backward  norm_back_sums -> (add n->sums over ranks) -> norm_back_finish -> norm_back_apply
 */
#pragma once

#include "nn/optim_rule.h"
#include "util/status.h"

#define GF_NN_ALIGN 64 /* bytes; of every array that a net passes to a backend */

typedef enum gf_type { GF_TYPE_F32, GF_TYPE_BF16, GF_TYPE_I32 } gf_type; /* I32: tokens alone */

static const size_t gf_type_bytes[] = {4, 2, 4}; /* of a gf_type */

typedef struct gf_nn_engine gf_nn_engine; /* threads, device, ops: the backend's own */
typedef struct gf_nn_op gf_nn_op;
typedef struct gf_nn_optim gf_nn_optim;

typedef struct gf_nn_mode { /* choices of a device engine; the CPU has none */
    int deterministic;      /* 1: only algorithms that give the same bits every time; 2: and chosen without timing */
    int exact;              /* float32 products in float32; else they may round their factors (TF32) */
    int estimate;           /* ops are not made, and return roughly the memory they would need */
    const char *plans;      /* file of chosen algorithms, read and written; NULL: none */
} gf_nn_mode;

/* ----- ops of fixed shape ------------------------------------------------------------------------------------------ */

typedef enum gf_nn_kind {
    GF_NN_CONV,
    GF_NN_LINEAR,
    GF_NN_MAXPOOL,
    GF_NN_AVGPOOL,
    GF_NN_LAYERNORM,
    GF_NN_ATTENTION,
    GF_NN_EMBED,
    GF_NN_TOKENS,
    GF_NN_PICK,
    GF_NN_KINDS /* number of them; a backend fails with E_UNSUPPORTED for those it lacks */
} gf_nn_kind;

typedef enum gf_nn_act { GF_ACT_NONE, GF_ACT_GELU, GF_ACT_QUICK_GELU } gf_nn_act;

/* rows = n h w. x, y, x2 and their gradients are of shape.type unless noted.
 *
 * CONV       x [n][h][w][in] * weight [out][in][kernel][kernel] -> y [n][oh][ow][out], square window, zero padding, no bias
 * LINEAR     y [rows][out] = act(x [rows][in] weight [out][in]' + bias [out]) + x2 [rows][out]; `transposed`: weight is
 *            [in][out]. Not both act and x2. The gradient of x2 is dy, so dx2 is not written.
 *            GELU z Phi(z), QUICK_GELU z / (1 + exp(-1.702 z))
 * MAXPOOL    x [n][h][w][in] -> y [n][oh][ow][in]
 * AVGPOOL    the same; kernel = stride, pad = 0; a remainder at the right and bottom edge is left out and gets gradient 0
 * LAYERNORM  y = weight [in] (x - mean) / sqrt(var + GF_NN_EPS) + bias [in] over x [rows][in], biased variance in float32
 * ATTENTION  heads of d = out / heads: y = softmax(q k' / sqrt(d)) v per image and head; causal: query i sees keys 0 .. i.
 *            second = 0: x [n][h][3 out] = q, k, v side by side, heads within each -> y [n][h][out]
 *            second = 1: x [n][h][2 out] = k, v and x2 = q [n][out] float32, one query per image -> y [n][out] float32
 * EMBED      x = tokens [n][h] int32 in 0 .. in - 1: y [n][h][out] = weight [in][out] [token] + bias [h][out] (positions)
 * TOKENS     y [n][1 + h w][in]: row 0 is bias [in] (class token), without bias the mean of the rows of x [n][h w][in]; then
 *            these rows; to all is added weight [1 + h w][in] (positions)
 * PICK       y [n][in] float32 = a row of each x [n][h][in]: row 0; packed: args.texts->picked
 *
 * packed: x, y, x2 hold the rows of texts of different lengths, one text behind the other, not n h w rows: gf_nn_texts. LINEAR,
 * LAYERNORM, ATTENTION of many queries, EMBED (bias, the positions, stays [h][out]), PICK.
 */
typedef struct gf_nn_shape {
    gf_nn_kind kind;
    gf_type type;
    int64_t n, h, w, in, out;
    int kernel, stride, pad;
    int training;      /* op_backward will be called */
    int input_grad;    /* and computes dx, too */
    gf_nn_act act;     /* LINEAR */
    int bias;          /* LINEAR, TOKENS: args.bias is given; LAYERNORM and EMBED always have it */
    int second;        /* args.x2 is given */
    int transposed;    /* LINEAR: weight [in][out] */
    int colours;       /* CONV of images: channels of x that are not 0; 0: all */
    int pooled;        /* CONV of images: y is the extreme of each 3 x 3 window, stride 2, padding 1: gf_nn_backend.pools */
    int heads, causal; /* ATTENTION */
    int packed;        /* args.texts is given */
} gf_nn_shape;

/* Rows of n texts, as long as each needs; at most n h. The pointers are those of one net, `rows` is of the present batch. */
typedef struct gf_nn_texts {
    int64_t rows;            /* n times a length of gf_nn_text_length */
    const int32_t *first;    /* [n + 1]: text i is rows first[i] to first[i + 1] - 1, at least one; first[n] = rows */
    const int32_t *position; /* [rows] of each in its text */
    const int32_t *picked;   /* [n] the row that stands for a text */
} gf_nn_texts;

/* The mean length of packed texts is rounded up, so that few plans and records exist: to an eighth of a power of two, at most
 * `max`. Length number 0 is 1. */
static inline int64_t gf_nn_text_length(int64_t mean, int64_t max) {
    int64_t step = 1;
    while (16 * step < mean) step *= 2;
    const int64_t rounded = (mean + step - 1) / step * step;
    return rounded < max ? rounded : max;
}

static inline int gf_nn_text_length_number(int64_t length, int64_t max) {
    int number = 0;
    for (int64_t at = 1; at < length; at = gf_nn_text_length(at + 1, max)) number++;
    return number;
}

typedef struct gf_nn_sizes { /* bytes */
    size_t packed;           /* weights in the device's own format; live as long as the op */
    size_t saved;            /* written by op_forward, read by op_backward */
    size_t scratch;          /* during one call; may be shared by all ops */
} gf_nn_sizes;

/* Fields that an op does not need may be NULL. op_backward finds x, x2 and saved as op_forward left them, y for ATTENTION alone.
 * */
struct gf_nn_norm;
typedef struct gf_nn_args {
    const void *x, *dy;
    void *y, *dx;
    const float *weight;
    float *weight_grad; /* overwritten */
    void *packed, *saved, *scratch;
    const float *bias;
    float *bias_grad; /* overwritten */
    const void *x2;
    void *dx2;                     /* ATTENTION with second: gradient of q, float32 */
    const struct gf_nn_norm *norm; /* CONV with pooled: the batch norm that follows. Else NULL, or op_forward makes the
                                      statistics of this norm of y, too: gf_nn_backend.op_sums */
    const struct gf_nn_norm
        *before;              /* CONV: NULL, or op_backward does a part of the backward of this norm, whose y is x, instead of
                                        writing dx: gf_nn_backend.op_back_sums */
    int add_dx;               /* LAYERNORM, PICK: dx holds a different part of the gradient of x already: add to it */
    const gf_nn_texts *texts; /* packed */
} gf_nn_args;

/* Rows of x, or of y, of one call. */
static inline int64_t gf_nn_rows(const gf_nn_shape *s, const gf_nn_args *a) {
    return s->packed ? a->texts->rows : s->n * s->h * s->w;
}

static inline int64_t gf_nn_out(int64_t size, int kernel, int stride, int pad) { return (size + 2 * pad - kernel) / stride + 1; }

/* ----- batch norm, + residual, + ReLU ------------------------------------------------------------------------------ */

/* y = max(0, gamma (x - mean) / sqrt(var + eps) + beta + residual) over x [rows][c], the maximum only with `relu`.
 *
 * Where gf_nn_backend.norm_fuses: the residual may be a batch norm itself (`shortcut`), whose y is then never written. After a
 * convolution with `pooled`, x are the extremes of windows over `counted` rows, of which mean and variance are: the convolution
 * has left their sums in `scratch`. Backward, dy becomes g, and the convolution makes dx of it. */
typedef struct gf_nn_norm {
    gf_type type; /* of x, residual, y, dy, dy2, dx */
    int64_t rows, c;
    int64_t counted; /* 0: rows */
    int relu;
    const void *x, *residual; /* residual: NULL if there is none */
    void *y;
    const float *gamma, *beta; /* [c]; NULL: 1 and 0 */
    float *running_mean, *running_var;
    float *mean, *istd, *scale, *shift; /* [c] each, kept from forward to backward; y = scale x + shift before the rest */
    double *sums;                       /* [2][c]: forward sum x, sum x^2; backward sum g, sum g (x - mean) */
    float *coef;                        /* [2][c] between norm_back_finish and norm_back_apply */
    void *scratch;                      /* norm_scratch(rows, c) bytes */
    int summed;                         /* 1: a convolution makes the statistics (op_sums): norm_forward and norm_stats do not */
    int back_summed;   /* 1: a convolution makes g and all that follows from its sums (op_back_sums): norm_backward does not */
    uint8_t *positive; /* one bit per number of y: above 0; norm_bits() bytes. NULL: backward reads y itself */
    void *dy;          /* gradient of y; with a residual it becomes g, the gradient before ReLU, which is the
                                   residual's; without one it may, or stay unchanged */
    const void *dy2;   /* a second part of the gradient of y, or NULL */
    void *dx;          /* may be dy */
    float *dgamma, *dbeta;             /* of the own rows; NULL without gamma */
    const struct gf_nn_norm *shortcut; /* its scale x + shift is the residual; NULL: none. sums and coef are its own */
} gf_nn_norm;

static inline int64_t gf_nn_norm_count(const gf_nn_norm *n) { return n->counted ? n->counted : n->rows; }

/* 1: dy is the gradient of a sum, too: g is written there. */
static inline int gf_nn_norm_sums_up(const gf_nn_norm *n) { return n->residual || n->shortcut; }

#define GF_NN_EPS 1e-5
#define GF_NN_MOMENTUM 0.1 /* weight of the newest batch in the running statistics; the variance kept there is unbiased */

/* What a convolution finds before it, backward: a norm with ReLU whose y is its x. */
typedef enum gf_nn_before {
    GF_NN_BEFORE_NONE,  /* or something else */
    GF_NN_BEFORE_INNER, /* no other layer reads y: g is written as dx */
    GF_NN_BEFORE_OTHER, /* one other does, and its part of the gradient is in dy: g of both is written there, and below */
    GF_NN_BEFORE_END,   /* and the norm has a residual and `positive` */
    GF_NN_BEFORE_PAIR   /* and the norm has a shortcut and `positive` */
} gf_nn_before;

/* ----- two nets at once ------------------------------------------------------------------------------------------------- */

typedef enum gf_nn_beside {
    GF_NN_FORK,   /* work queued from now on runs aside, once all that was queued before is done */
    GF_NN_RETURN, /* work queued from now on waits for that before the fork alone */
    GF_NN_JOIN    /* work queued from now on waits for that aside, too */
} gf_nn_beside;

#define GF_NN_RECORDS 8 /* of steps, at most */

/* ----- the table --------------------------------------------------------------------------------------------------- */

typedef struct gf_nn_backend {
    const char *name;
    void (*describe)(char *text, size_t bytes);                            /* one line: libraries, versions, instruction sets */
    glofnd_status (*open)(gf_error *err, int threads, gf_nn_engine **out); /* threads 0: the runtime's default */
    void (*close)(gf_nn_engine *s);                                        /* NULL is fine */
    void *(*alloc)(gf_nn_engine *s, size_t bytes);                         /* zeroed, GF_NN_ALIGN; NULL: none left */
    void (*release)(gf_nn_engine *s, void *p);

    glofnd_status (*op_create)(gf_error *err, gf_nn_engine *s, const gf_nn_shape *shape, gf_nn_sizes *sizes, gf_nn_op **out);
    glofnd_status (*op_pack)(gf_error *err, gf_nn_op *op, const gf_nn_args *a);     /* weight -> packed */
    glofnd_status (*op_forward)(gf_error *err, gf_nn_op *op, const gf_nn_args *a);  /* x, packed -> y, saved */
    glofnd_status (*op_backward)(gf_error *err, gf_nn_op *op, const gf_nn_args *a); /* x, dy, weight -> dx, weight_grad */

    size_t (*norm_scratch)(int64_t rows, int64_t c);
    void (*norm_sums)(gf_nn_engine *s, const gf_nn_norm *n);
    void (*norm_finish)(gf_nn_engine *s, const gf_nn_norm *n, double count); /* count: rows of all ranks */
    void (*norm_eval)(gf_nn_engine *s, const gf_nn_norm *n);                 /* scale, shift from the running statistics */
    void (*norm_apply)(gf_nn_engine *s, const gf_nn_norm *n);
    void (*norm_back_sums)(gf_nn_engine *s, const gf_nn_norm *n);
    void (*norm_back_finish)(gf_nn_engine *s, const gf_nn_norm *n, double count);
    void (*norm_back_apply)(gf_nn_engine *s, const gf_nn_norm *n);

    void (*cast)(gf_nn_engine *s, gf_type type, void *dst, const float *src, int64_t count);
    void (*add)(gf_nn_engine *s, gf_type type, void *dst, const void *src, int64_t count); /* dst += src */
    /* y [n][c] = mean over the hw positions of x [n][hw][c]; y and dy are float32. */
    void (*mean)(gf_nn_engine *s, gf_type type, float *y, const void *x, int64_t n, int64_t hw, int64_t c);
    void (*mean_back)(gf_nn_engine *s, gf_type type, void *dx, const float *dy, int64_t n, int64_t hw, int64_t c);

    /* ----- for devices only: all NULL or 0 on the CPU ----- */
    /* 1: the convolution may do the max pooling that follows its batch norm and ReLU. */
    int (*pools)(const gf_nn_shape *conv, const gf_nn_shape *pool);
    /* 1: it pays that op_forward makes the statistics of the batch norm of its y, given as args.norm: one rank, training. */
    int (*op_sums)(const gf_nn_op *op);
    /* 1: it pays that op_backward does a part of the backward of the norm whose y is its x, given as args.before: instead of dx
     * it makes g, of the gradient that it would have written and the part in before->dy, if there is one (then args.dx is NULL
     * and g is written over it), and all that follows from the sums of g (of the shortcut, too). */
    int (*op_back_sums)(const gf_nn_op *op, gf_nn_before before);
    int norm_fuses;     /* batch norms take a shortcut; norm_backward then writes the shortcut's dx, too */
    int image_channels; /* of value 0: 3 and zeros; 0: 3 */
    glofnd_status (*configure)(gf_error *err, gf_nn_engine *s, const gf_nn_mode *mode);             /* before any op is made */
    glofnd_status (*put)(gf_error *err, gf_nn_engine *s, void *dst, const void *src, size_t bytes); /* from the host */
    glofnd_status (*get)(gf_error *err, gf_nn_engine *s, void *dst, const void *src, size_t bytes); /* to the host; waits */
    glofnd_status (*wait)(gf_error *err, gf_nn_engine *s); /* for all queued work; returns failures since the last call */
    void *(*stream)(gf_nn_engine *s);                      /* cudaStream_t */
    void (*beside)(gf_nn_engine *s, gf_nn_beside how);     /* aside are ops of sequences alone: no convolution, no batch norm */
    /* dst [pixels][image_channels] of `type` = src [pixels][3], then zeros. */
    void (*images)(gf_nn_engine *s, gf_type type, void *dst, const float *src, int64_t pixels);
    size_t (*norm_bits)(gf_type type, int64_t rows, int64_t c); /* bytes of gf_nn_norm.positive; 0: not used */
    /* One rank: sums and finish in one call; and these together with the pass that writes. */
    void (*norm_stats)(gf_nn_engine *s, const gf_nn_norm *n);
    void (*norm_forward)(gf_nn_engine *s, const gf_nn_norm *n);
    void (*norm_backward)(gf_nn_engine *s, const gf_nn_norm *n);
    /* All ops of one net with packed weights at once: instead of op_pack one by one; and after the last op_backward, which may
     * have left the gradients of the weights in `packed`, in a format of its own. */
    glofnd_status (*pack_all)(gf_error *err, gf_nn_engine *s, const gf_nn_args *const *args, gf_nn_op *const *ops, int count);
    glofnd_status (*unpack_all)(gf_error *err, gf_nn_engine *s, const gf_nn_args *const *args, gf_nn_op *const *ops, int count);
    /* The same of ops first to last - 1 of the list alone: gradients that other ranks wait for while backward continues. */
    glofnd_status (*unpack_some)(gf_error *err, gf_nn_engine *s, const gf_nn_args *const *args, gf_nn_op *const *ops, int count,
                                 int first, int last);
    /* The work that work(arg) queues becomes record `slot` (below GF_NN_RECORDS; one that is there is dropped), and is not done.
     * *made = 0: it cannot be recorded, or memory is lacking. A failure is one of the work itself: it would fail without
     * recording, too. */
    glofnd_status (*record)(gf_error *err, gf_nn_engine *s, int slot, glofnd_status (*work)(gf_error *err, void *arg), void *arg,
                            int *made);
    /* Plays record `slot`: pointers and scalars must be those it was made with. slot -1: does work(arg). */
    glofnd_status (*run)(gf_error *err, gf_nn_engine *s, int slot, glofnd_status (*work)(gf_error *err, void *arg), void *arg);
    void (*forget)(gf_nn_engine *s); /* waits, and drops all records */
    /* The optimizer over all parameters; list is copied. Lives as long as the engine. step: queues; a gradient that is not finite
     * changes nothing. set: numbers of the steps to come, also of recorded ones. norm: waits; of the last step. */
    glofnd_status (*optim_create)(gf_error *err, gf_nn_engine *s, const gf_optim_rule *rule, const gf_param *list, int count,
                                  gf_nn_optim **out);
    glofnd_status (*optim_set)(gf_error *err, gf_nn_optim *o, const gf_optim_scalars *now);
    glofnd_status (*optim_step)(gf_error *err, gf_nn_optim *o);
    glofnd_status (*optim_norm)(gf_error *err, gf_nn_optim *o, double *norm);
    /* Bytes: held by the engine apart from `alloc`; the maximum seen in use on the device, by all processes. */
    void (*memory)(gf_nn_engine *s, size_t *held, size_t *peak);
} gf_nn_backend;

extern const gf_nn_backend gf_nn_backend_cpu, gf_nn_backend_cuda;
