/* dnn_backend.c - the CPU as a backend of nets: oneDNN for convolutions, products and pooling, own kernels for the rest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/cpu/dnn.h"

static void describe_cpu(char *text, size_t bytes) {
    gf_error err;
    if (gf_dnn_lib_open(&err) != GLOFND_OK) {
        snprintf(text, bytes, "nothing: %s", err.text);
        return;
    }
    snprintf(text, bytes, "oneDNN %s on %s; 3 x 3 convolutions, norms and attention by own kernels for %s", gf_dnn_version(),
             gf_dnn_isa(), gf_cpu_kernels_get()->isa);
}

/* ----- engine and memory ------------------------------------------------------------------------------------------ */

static void engine_close(gf_nn_engine *s) {
    if (!s) return;
    while (s->ops) {
        gf_nn_op *next = s->ops->next;
        free(s->ops->products);
        free(s->ops);
        s->ops = next;
    }
    while (s->products) {
        gf_dnn_products *next = s->products->next;
        free(s->products);
        s->products = next;
    }
    free(s->spare);
    gf_dnn_close(s->dnn);
    free(s);
}

static glofnd_status engine_open(gf_error *err, int threads, gf_nn_engine **out) {
    gf_nn_engine *s = calloc(1, sizeof *s);
    FAIL_IF(err, !s, GLOFND_E_MEMORY, "out of memory");
    const glofnd_status status = gf_dnn_open(err, threads, &s->dnn);
    if (status != GLOFND_OK) {
        engine_close(s);
        return status;
    }
    s->threads = gf_dnn_threads(s->dnn);
    s->norm = gf_net_kernels_get()->norm;
    s->row = gf_net_kernels_get()->row;
    *out = s;
    return GLOFND_OK;
}

static void *engine_alloc(gf_nn_engine *s, size_t bytes) {
    (void)s;
    if (bytes > SIZE_MAX - GF_NN_ALIGN) return NULL;
    const size_t whole = gf_dnn_round(bytes ? bytes : 1);
    void *p = aligned_alloc(GF_NN_ALIGN, whole);
    if (p) memset(p, 0, whole);
    return p;
}

static void engine_release(gf_nn_engine *s, void *p) {
    (void)s;
    free(p);
}

/* ----- ops: one row per kind --------------------------------------------------------------------------------------- */

typedef struct op_kind {
    glofnd_status (*create)(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes); /* NULL: nothing to make */
    glofnd_status (*pack)(gf_error *err, gf_nn_op *op, const gf_nn_args *a);  /* NULL: nothing to pack */
    glofnd_status (*forward)(gf_error *err, gf_nn_op *op, const gf_nn_args *a);
    glofnd_status (*backward)(gf_error *err, gf_nn_op *op, const gf_nn_args *a);
} op_kind;

static const op_kind kinds[] = {
#define GF_X(kind, name, create, pack) [GF_NN_##kind] = {create, pack, gf_dnn_##name##_forward, gf_dnn_##name##_backward},
    GF_DNN_OPS(GF_X)
#undef GF_X
};

static glofnd_status op_create(gf_error *err, gf_nn_engine *s, const gf_nn_shape *shape, gf_nn_sizes *sizes, gf_nn_op **out) {
    FAIL_IF(err, (size_t)shape->kind >= sizeof kinds / sizeof *kinds || !kinds[shape->kind].forward, GLOFND_E_UNSUPPORTED,
            "the CPU has no op of kind %d", (int)shape->kind);
    gf_nn_op *op = calloc(1, sizeof *op);
    FAIL_IF(err, !op, GLOFND_E_MEMORY, "out of memory");
    op->next = s->ops;
    s->ops = op;
    op->engine = s;
    op->dnn = s->dnn;
    op->shape = *shape;
    *sizes = (gf_nn_sizes){0};
    if (kinds[shape->kind].create) TRY(kinds[shape->kind].create(err, op, sizes));
    *out = op;
    return GLOFND_OK;
}

static glofnd_status op_pack(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    const op_kind *kind = &kinds[op->shape.kind];
    return kind->pack ? kind->pack(err, op, a) : GLOFND_OK;
}

static glofnd_status op_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    return kinds[op->shape.kind].forward(err, op, a);
}

static glofnd_status op_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    return kinds[op->shape.kind].backward(err, op, a);
}

/* ----- time spent in the parts of a net ----------------------------------------------------------------------------- */

static _Thread_local double *watched;
static _Thread_local double (*clock_of)(void);

void gf_dnn_watch(double *into, double (*clock)(void)) { watched = into, clock_of = clock; }

double gf_dnn_start(void) { return watched ? clock_of() : 0.0; }

void gf_dnn_charge(int part, double start) {
    if (watched) watched[part] += clock_of() - start;
}

/* ----- the table --------------------------------------------------------------------------------------------------- */

const gf_nn_backend gf_nn_backend_cpu = {
    .name = "cpu",
    .describe = describe_cpu,
    .open = engine_open,
    .close = engine_close,
    .alloc = engine_alloc,
    .release = engine_release,
    .op_create = op_create,
    .op_pack = op_pack,
    .op_forward = op_forward,
    .op_backward = op_backward,
    .norm_scratch = gf_dnn_norm_scratch,
    .norm_sums = gf_dnn_norm_sums,
    .norm_finish = gf_dnn_norm_finish,
    .norm_eval = gf_dnn_norm_eval,
    .norm_apply = gf_dnn_norm_apply,
    .norm_back_sums = gf_dnn_norm_back_sums,
    .norm_back_finish = gf_dnn_norm_back_finish,
    .norm_back_apply = gf_dnn_norm_back_apply,
    .cast = gf_dnn_cast,
    .add = gf_dnn_add,
    .mean = gf_dnn_mean,
    .mean_back = gf_dnn_mean_back,
};
