/* cunn_conv.c - convolution: three cuDNN plans per layer, weights as [out][kernel][kernel][in]; of images own kernels,
 * or a linear layer of patches; together with a batch norm by own kernels, where that pays.
 *
 * bf16 nets keep a bf16 copy of the float weights (packed) for the products, followed by the gradient of the weights as cuDNN
 * writes it: summed in float, rounded once to bf16. Its kernels that write float are several times slower (34 against 500 TFLOP/s
 * on an H200). All copies, and all gradients, are cast in one launch (cunn_move.c). float nets use the weights themselves.
 */
#include "nn/cuda/cunn_plan.h"
#include "util/array.h"

static int64_t weights_of(const gf_nn_shape *s) { return s->out * s->in * s->kernel * s->kernel; }

size_t gf_cunn_conv_packed(const gf_nn_shape *s) { return ((size_t)weights_of(s) * 2 + 255) / 256 * 256; }

static glofnd_status find(gf_error *err, gf_nn_op *op, int work) {
    const gf_cunn_task task = {&op->shape, work, work == GF_CUNN_BACK_WEIGHTS && op->narrow};
    return gf_cunn_plan_find(err, op->engine, &task, &op->plan[work]);
}

static glofnd_status find_back_weights(gf_error *err, gf_nn_op *op) {
    op->narrow = op->shape.type == GF_TYPE_BF16;
    const glofnd_status status = find(err, op, GF_CUNN_BACK_WEIGHTS);
    if (status == GLOFND_OK || !op->narrow) return status;
    op->narrow = 0;
    return find(err, op, GF_CUNN_BACK_WEIGHTS);
}

/* ----- as a linear layer of patches: scratch is the workspace, the patches, then weights and their gradient ---------------- */

static gf_nn_shape patch_shape(const gf_nn_shape *s) {
    const int64_t oh = gf_nn_out(s->h, s->kernel, s->stride, s->pad), ow = gf_nn_out(s->w, s->kernel, s->stride, s->pad);
    return (gf_nn_shape){.kind = GF_NN_LINEAR,
                         .type = s->type,
                         .n = s->n,
                         .h = oh,
                         .w = ow,
                         .in = (int64_t)s->kernel * s->kernel * s->colours,
                         .out = s->out,
                         .kernel = 1,
                         .stride = 1,
                         .training = s->training};
}

static int is_of_patches(const gf_nn_shape *s) {
    return s->type == GF_TYPE_BF16 && s->colours == 3 && s->in == GF_CUNN_IMAGE_CHANNELS && !s->input_grad &&
           s->kernel == s->stride && s->pad == 0 && s->kernel % 8 == 0 && s->out % 8 == 0;
}

static size_t patch_bytes(const gf_nn_shape *as) { return (size_t)(as->n * as->h * as->w * as->in) * 2; }

static glofnd_status create_patches(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape as = patch_shape(&op->shape);
    op->patches = 1;
    sizes->scratch = GF_CUNN_BLAS_WORKSPACE + (patch_bytes(&as) + 255) / 256 * 256 + (size_t)(as.in * as.out) * sizeof(float);
    return op->engine->mode.estimate ? GLOFND_OK : gf_cunn_linear_products(err, op, &as);
}

typedef struct patch_space {
    void *rows, *weights;
} patch_space;

static patch_space space_of(const gf_nn_args *a, const gf_nn_shape *as) {
    char *rows = (char *)a->scratch + GF_CUNN_BLAS_WORKSPACE;
    return (patch_space){rows, rows + (patch_bytes(as) + 255) / 256 * 256};
}

static glofnd_status patches_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape, as = patch_shape(s);
    const patch_space m = space_of(a, &as);
    gf_cunn_patches(op->engine, s, m.rows, a->x);
    gf_cunn_patch_weights(op->engine, m.weights, a->packed, s->out * s->kernel * s->kernel);
    return gf_cunn_linear_multiply(err, op, GF_CUNN_FORWARD, m.weights, m.rows, NULL, a->y, a->scratch);
}

static glofnd_status patches_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape, as = patch_shape(s);
    const patch_space m = space_of(a, &as);
    gf_cunn_patches(op->engine, s, m.rows, a->x);
    TRY(gf_cunn_linear_multiply(err, op, GF_CUNN_BACK_WEIGHTS, m.rows, a->dy, NULL, m.weights, a->scratch));
    gf_cunn_patch_gradient(op->engine, a->weight_grad, m.weights, s->out * s->kernel * s->kernel);
    return GLOFND_OK;
}

/* ----- with a batch norm in the epilogue ----------------------------------------------------------------------------------- */

/* Sizes from which it pays (docs/lessons.md). Smaller batch norms are done in one launch, which keeps a part of their numbers on
 * the chip: pays in cunn_norm_stats.cu. */
#define POINT_BYTES ((int64_t)72 << 20)
#define WINDOW_BYTES ((int64_t)32 << 20)
#define WEIGHTS_BYTES ((int64_t)64 << 20)

static int64_t bytes_of(const gf_nn_shape *s, int64_t channels) { return s->n * s->h * s->w * channels * 2; }

static void choose_point(gf_nn_op *op) {
    const gf_nn_shape *s = &op->shape;
    op->point[GF_CUNN_FORWARD] = s->training && bytes_of(s, s->out) >= POINT_BYTES && gf_cunn_point_fits(op->engine, s);
    op->point[GF_CUNN_BACK_DATA] =
        s->training && s->input_grad && bytes_of(s, s->in) >= POINT_BYTES && gf_cunn_point_back_fits(op->engine, s);
}

static void choose_window(gf_nn_op *op) {
    const gf_nn_shape *s = &op->shape;
    op->window[GF_CUNN_FORWARD] = s->training && bytes_of(s, s->out) >= WINDOW_BYTES && gf_cunn_window_fits(op->engine, s);
    op->window[GF_CUNN_BACK_DATA] = s->training && s->input_grad && bytes_of(s, s->in) >= WINDOW_BYTES;
    op->window[GF_CUNN_BACK_WEIGHTS] =
        s->training && bytes_of(s, s->in) >= WEIGHTS_BYTES && gf_cunn_window_weights_scratch(op->engine, s) > 0;
}

int gf_cunn_conv_sums(const gf_nn_op *op) { return op->point[GF_CUNN_FORWARD] || op->window[GF_CUNN_FORWARD]; }

int gf_cunn_conv_back_sums(const gf_nn_op *op, gf_nn_before before) {
    if (op->point[GF_CUNN_BACK_DATA]) return before == GF_NN_BEFORE_END || before == GF_NN_BEFORE_PAIR;
    return op->window[GF_CUNN_BACK_DATA] && gf_cunn_window_back_fits(op->engine, &op->shape, before);
}

#ifndef GF_HAVE_HOPPER /* then no engine is one of Hopper */
int gf_cunn_point_fits(const gf_nn_engine *s, const gf_nn_shape *shape) { return (void)s, (void)shape, 0; }
int gf_cunn_point_back_fits(const gf_nn_engine *s, const gf_nn_shape *shape) { return (void)s, (void)shape, 0; }
void gf_cunn_point_forward(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a) { (void)s, (void)shape, (void)a; }
void gf_cunn_point_back(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a) { (void)s, (void)shape, (void)a; }
int gf_cunn_window_fits(const gf_nn_engine *s, const gf_nn_shape *shape) { return (void)s, (void)shape, 0; }
int gf_cunn_window_back_fits(const gf_nn_engine *s, const gf_nn_shape *shape, gf_nn_before before) {
    return (void)s, (void)shape, (void)before, 0;
}
void gf_cunn_window_forward(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a) { (void)s, (void)shape, (void)a; }
void gf_cunn_window_back(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a) { (void)s, (void)shape, (void)a; }
size_t gf_cunn_window_weights_scratch(const gf_nn_engine *s, const gf_nn_shape *shape) { return (void)s, (void)shape, (size_t)0; }
void gf_cunn_window_weights(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a, void *dw) {
    (void)s, (void)shape, (void)a, (void)dw;
}
#endif

/* ----- the op ------------------------------------------------------------------------------------------------------ */

glofnd_status gf_cunn_conv_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    if (s->type == GF_TYPE_BF16) sizes->packed = gf_cunn_conv_packed(s) * (s->training ? 2 : 1);
    if (is_of_patches(s)) return create_patches(err, op, sizes);
    const size_t stem = gf_cunn_stem_scratch(s);
    if (stem) {
        op->stem = 1;
        op->narrow = s->training;
        sizes->scratch = s->training || s->pooled ? stem : 0;
        sizes->saved = s->training && s->pooled ? gf_cunn_stem_saved(s) : 0;
        return GLOFND_OK;
    }
    choose_point(op);
    choose_window(op);
    if (op->engine->mode.estimate) {
        sizes->scratch = (size_t)32 << 20; /* typical need of the chosen plans, for 32 to 224 pixels */
        return GLOFND_OK;
    }
    TRY(find(err, op, GF_CUNN_FORWARD));
    if (s->training && s->input_grad) TRY(find(err, op, GF_CUNN_BACK_DATA));
    if (op->window[GF_CUNN_BACK_WEIGHTS]) sizes->scratch = gf_cunn_window_weights_scratch(op->engine, s), op->narrow = 1;
    else if (s->training) TRY(find_back_weights(err, op));
    for (int i = 0; i < GF_CUNN_WORKS; i++)
        if (op->plan[i]) sizes->scratch = GF_MAX(sizes->scratch, op->plan[i]->workspace);
    return GLOFND_OK;
}

/* cuDNN takes its inputs through pointers without const. */
static void *loose(const void *p) { return (void *)(uintptr_t)p; }

static void *weights(const gf_nn_op *op, const gf_nn_args *a) {
    return op->shape.type == GF_TYPE_BF16 ? a->packed : loose(a->weight);
}

glofnd_status gf_cunn_conv_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    if (op->patches) return patches_forward(err, op, a);
    if (op->stem) {
        (op->shape.pooled ? gf_cunn_stem_pool : gf_cunn_stem_forward)(op->engine, &op->shape, a);
        return GLOFND_OK;
    }
    if (a->norm) {
        (op->shape.kernel == 1 ? gf_cunn_point_forward : gf_cunn_window_forward)(op->engine, &op->shape, a);
        return GLOFND_OK;
    }
    return gf_cunn_plan_run(err, op->engine, op->plan[GF_CUNN_FORWARD], loose(a->x), weights(op, a), a->y, a->scratch);
}

glofnd_status gf_cunn_conv_back_data(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    return gf_cunn_plan_run(err, op->engine, op->plan[GF_CUNN_BACK_DATA], a->dx, weights(op, a), loose(a->dy), a->scratch);
}

static void *gradient_of(const gf_nn_op *op, const gf_nn_args *a) {
    return op->narrow ? (char *)a->packed + gf_cunn_conv_packed(&op->shape) : (char *)a->weight_grad;
}

glofnd_status gf_cunn_conv_back_weights(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    void *grad = gradient_of(op, a);
    if (!op->window[GF_CUNN_BACK_WEIGHTS])
        return gf_cunn_plan_run(err, op->engine, op->plan[GF_CUNN_BACK_WEIGHTS], loose(a->x), grad, loose(a->dy), a->scratch);
    gf_cunn_window_weights(op->engine, &op->shape, a, grad);
    return GLOFND_OK;
}

void gf_cunn_conv_back_norm(gf_nn_op *op, const gf_nn_args *a) {
    (op->shape.kernel == 1 ? gf_cunn_point_back : gf_cunn_window_back)(op->engine, &op->shape, a);
}

glofnd_status gf_cunn_conv_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    void *grad = gradient_of(op, a);
    if (op->patches) return patches_backward(err, op, a);
    if (op->stem) {
        (op->shape.pooled ? gf_cunn_stem_pool_back : gf_cunn_stem_back)(op->engine, &op->shape, a, grad);
        return GLOFND_OK;
    }
    TRY(gf_cunn_conv_back_weights(err, op, a));
    if (!op->shape.input_grad) return GLOFND_OK;
    if (a->before) {
        gf_cunn_conv_back_norm(op, a);
        return GLOFND_OK;
    }
    return gf_cunn_conv_back_data(err, op, a);
}
