/* cunn_layers.c - the ops of the CUDA backend: convolution, linear layers, attention; the weights of a network in bf16; the
 * optimizer. */
#include <math.h>
#include <stdlib.h>

#include "nn/cuda/cunn_kernels.h"
#include "nn/cuda/cunn_plan.h"
#include "util/array.h"

/* ----- weights in bf16 ------------------------------------------------------------------------------------------- */

/* Casts the weights of all convolutions and linear layers of a network to bf16, and gradients from it, in one
 * launch each; with several ranks gradients in a few, as they are needed.
 *
 * The two tables of a network are copied once, at first use: its weights and copies stay where they are. Several networks share
 * an engine; the first op identifies the tables of a network. */

enum { MOVES_MAX = 512 };

struct gf_cunn_moves {
    struct gf_cunn_moves *next;
    const gf_nn_op *first; /* op of the net */
    gf_cunn_move *table;   /* [2][MOVES_MAX] on the device: weights, gradients */
    int count[2], blocks[2];
    int *until; /* [ops + 1] blocks of the gradients of the ops before */
};

static void append_move(struct gf_cunn_moves *m, gf_cunn_move *table, int which, float *wide, void *narrow, int64_t count) {
    table[which * MOVES_MAX + m->count[which]++] = (gf_cunn_move){wide, narrow, count, m->blocks[which]};
    m->blocks[which] += gf_cunn_move_blocks(count);
}

static glofnd_status make_moves(gf_error *err, gf_nn_engine *s, const gf_nn_args *const *args, gf_nn_op *const *ops, int count) {
    const size_t bytes = 2 * MOVES_MAX * sizeof(gf_cunn_move);
    FAIL_IF(err, 2 * count > MOVES_MAX, GLOFND_E_UNSUPPORTED, "a network of more than %d layers with weights",
            (int)MOVES_MAX / 2);
    struct gf_cunn_moves *m = calloc(1, sizeof *m);
    gf_cunn_move *table = calloc(2 * MOVES_MAX, sizeof *table);
    int *until = calloc((size_t)count + 1, sizeof *until);
    if (!m || !table || !until) {
        free(m), free(table), free(until);
        GF_FAIL(err, GLOFND_E_MEMORY, "out of memory");
    }
    m->first = ops[0];
    m->until = until;
    m->next = s->moves;
    s->moves = m;
    for (int i = 0; i < count; i++) {
        const gf_nn_shape *shape = &ops[i]->shape;
        const int64_t n = shape->out * shape->in * shape->kernel * shape->kernel;
        m->until[i] = m->blocks[1];
        char *packed = args[i]->packed;
        append_move(m, table, 0, (float *)(uintptr_t)args[i]->weight, packed, n);
        if (shape->kind == GF_NN_LINEAR && shape->bias)
            append_move(m, table, 0, (float *)(uintptr_t)args[i]->bias, packed + gf_cunn_linear_packed(shape), shape->out);
        if (shape->training && ops[i]->narrow)
            append_move(m, table, 1, args[i]->weight_grad, packed + gf_cunn_conv_packed(shape), n);
    }
    m->until[count] = m->blocks[1];
    cudaError_t e = cudaMalloc((void **)&m->table, bytes);
    if (e == cudaSuccess) e = cudaMemcpyAsync(m->table, table, bytes, cudaMemcpyHostToDevice, s->stream);
    if (e == cudaSuccess) e = cudaStreamSynchronize(s->stream);
    free(table);
    s->tables += bytes;
    return e == cudaSuccess ? GLOFND_OK : gf_cuda_fail(err, e, "table of weights");
}

/* ops NULL: the tables made last. *out NULL: a network without such weights. */
static glofnd_status find_moves(gf_error *err, gf_nn_engine *s, const gf_nn_args *const *args, gf_nn_op *const *ops, int count,
                                const struct gf_cunn_moves **out) {
    *out = NULL;
    if (ops && count == 0) return GLOFND_OK;
    const struct gf_cunn_moves *m = s->moves;
    while (m && ops && m->first != ops[0]) m = m->next;
    if (!m && ops) {
        TRY(make_moves(err, s, args, ops, count));
        m = s->moves;
    }
    *out = m;
    return GLOFND_OK;
}

static glofnd_status move_weights(gf_error *err, gf_nn_engine *s, const gf_nn_args *const *args, gf_nn_op *const *ops, int count,
                                  int which) {
    const struct gf_cunn_moves *m;
    TRY(find_moves(err, s, args, ops, count, &m));
    if (m && m->count[which]) gf_cunn_move_run(s, m->table + which * MOVES_MAX, m->count[which], 0, m->blocks[which], which);
    return GLOFND_OK;
}

glofnd_status gf_cunn_pack_all(gf_error *err, gf_nn_engine *s, const gf_nn_args *const *args, gf_nn_op *const *ops, int count) {
    return move_weights(err, s, args, ops, count, 0);
}

glofnd_status gf_cunn_unpack_all(gf_error *err, gf_nn_engine *s, const gf_nn_args *const *args, gf_nn_op *const *ops, int count) {
    return move_weights(err, s, args, ops, count, 1);
}

glofnd_status gf_cunn_unpack_some(gf_error *err, gf_nn_engine *s, const gf_nn_args *const *args, gf_nn_op *const *ops, int count,
                                  int first, int last) {
    const struct gf_cunn_moves *m;
    TRY(find_moves(err, s, args, ops, count, &m));
    if (m && m->until[first] < m->until[last])
        gf_cunn_move_run(s, m->table + MOVES_MAX, m->count[1], m->until[first], m->until[last], 1);
    return GLOFND_OK;
}

void gf_cunn_moves_free(gf_nn_engine *s) {
    while (s->moves) {
        struct gf_cunn_moves *next = s->moves->next;
        cudaFree(s->moves->table);
        free(s->moves->until);
        free(s->moves);
        s->moves = next;
    }
}

/* ----- linear layers --------------------------------------------------------------------------------------------- */

/* Linear layers as three products of cuBLASLt.
 *   z [rows][out] = x [rows][in] weight [out][in]' + bias (+ x2)    dx = g weight    weight_grad = g' x    bias_grad = sum of g
 * cuBLASLt is column-major, so it computes transposes: z' = weight x', and so on. It adds the bias and x2 while it writes z;
 * activations are a separate kernel: its input z is kept (saved), and g = dy act'(z) lies in scratch. bf16: a copy of weight and
 * bias in bf16 (packed), sums and gradients of parameters in float32. Packed texts have products for each of their lengths. */

static int64_t rows_of(const gf_nn_shape *s) { return s->n * s->h * s->w; }

static size_t round_up(size_t bytes) { return (bytes + 255) / 256 * 256; }

/* ----- products ---------------------------------------------------------------------------------------------------- */

/* type: of the result; the factors are of the shape's. */
static glofnd_status make_product(gf_error *err, gf_nn_op *op, gf_cunn_gemm *to, gf_cunn_factor a, gf_cunn_factor b, gf_type type,
                                  int bias) {
    const gf_cunn_gemm_task t = {.a = a, .b = b, .in = op->shape.type, .out = type, .bias = bias};
    return gf_cunn_gemm_create(err, op->engine, to, t);
}

static glofnd_status make_products(gf_error *err, gf_nn_op *op, const gf_nn_shape *s, int64_t rows,
                                   gf_cunn_gemm to[GF_CUNN_WORKS]) {
    const gf_cunn_factor weight = s->transposed ? (gf_cunn_factor){s->out, s->in, 1} : (gf_cunn_factor){s->in, s->out, 0};
    const gf_cunn_factor turned = {weight.rows, weight.cols, !weight.turned};
    const gf_cunn_factor x = {s->in, rows, 0}, x_t = {s->in, rows, 1}, g = {s->out, rows, 0}, g_t = {s->out, rows, 1};
    TRY(make_product(err, op, &to[GF_CUNN_FORWARD], turned, x, s->type, s->bias));
    if (!s->training) return GLOFND_OK;
    TRY(s->transposed ? make_product(err, op, &to[GF_CUNN_BACK_WEIGHTS], g, x_t, GF_TYPE_F32, 0)
                      : make_product(err, op, &to[GF_CUNN_BACK_WEIGHTS], x, g_t, GF_TYPE_F32, 0));
    return s->input_grad ? make_product(err, op, &to[GF_CUNN_BACK_DATA], weight, g, s->type, 0) : GLOFND_OK;
}

glofnd_status gf_cunn_linear_products(gf_error *err, gf_nn_op *op, const gf_nn_shape *s) {
    return make_products(err, op, s, rows_of(s), op->gemm);
}

/* 1: layers of these two shapes have the same products. */
static int have_same_products(const gf_nn_shape *a, const gf_nn_shape *b) {
    return a->type == b->type && a->in == b->in && a->out == b->out && a->transposed == b->transposed && a->bias == b->bias &&
           a->training == b->training && a->input_grad == b->input_grad;
}

/* Those that the engine has, or new ones. */
static glofnd_status find_products(gf_error *err, gf_nn_op *op, int64_t rows, gf_cunn_products **out) {
    gf_nn_engine *e = op->engine;
    for (gf_cunn_products *p = e->products; p; p = p->next)
        if (p->rows == rows && have_same_products(&p->shape, &op->shape)) return *out = p, GLOFND_OK;
    gf_cunn_products *p = calloc(1, sizeof *p);
    FAIL_IF(err, !p, GLOFND_E_MEMORY, "out of memory");
    p->shape = op->shape;
    p->rows = rows;
    p->next = e->products;
    e->products = p;
    *out = p;
    const glofnd_status status = make_products(err, op, &op->shape, rows, p->gemm);
    if (status != GLOFND_OK) p->rows = -1; /* incomplete: for no layer */
    return status;
}

glofnd_status gf_cunn_linear_multiply(gf_error *err, gf_nn_op *op, int work, const void *a, const void *b, const void *add,
                                      void *c, void *workspace) {
    return gf_cunn_gemm_run(err, op->engine, &op->gemm[work], a, b, add, c, workspace);
}

static gf_cunn_gemm *products_now(gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    return s->packed ? op->lengths[gf_nn_text_length_number(a->texts->rows / s->n, s->h * s->w)]->gemm : op->gemm;
}

/* ----- the op ------------------------------------------------------------------------------------------------------ */

static size_t array_bytes(const gf_nn_shape *s) { return round_up(gf_type_bytes[s->type] * (size_t)(rows_of(s) * s->out)); }

/* Of the length that needs most. */
static size_t sums_bytes(const gf_nn_shape *s) {
    const int64_t max = s->h * s->w;
    size_t bytes = gf_cunn_sums_bytes(s->type, rows_of(s), s->out);
    for (int64_t length = 1; s->packed && length < max; length = gf_nn_text_length(length + 1, max)) {
        const size_t want = gf_cunn_sums_bytes(s->type, s->n * length, s->out);
        if (want > bytes) bytes = want;
    }
    return bytes;
}

size_t gf_cunn_linear_packed(const gf_nn_shape *s) { return round_up(2 * (size_t)(s->in * s->out)); }

glofnd_status gf_cunn_linear_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    const int act = s->act != GF_ACT_NONE;
    FAIL_IF(err, act && s->second, GLOFND_E_UNSUPPORTED, "a linear layer with both an activation and a second input");
    if (s->type == GF_TYPE_BF16) sizes->packed = gf_cunn_linear_packed(s) + (s->bias ? round_up(2 * (size_t)s->out) : 0);
    sizes->scratch = GF_CUNN_BLAS_WORKSPACE;
    if (s->training && act) sizes->saved = array_bytes(s);
    if (act) sizes->scratch += array_bytes(s);
    if (s->training && s->bias) sizes->scratch += sums_bytes(s);
    if (op->engine->mode.estimate) return GLOFND_OK;
    if (!s->packed) return gf_cunn_linear_products(err, op, s);
    /* All are chosen here, none in a step: choices take time and memory, and are saved with those of the other layers. */
    const int64_t max = s->h * s->w;
    const int count = gf_nn_text_length_number(max, max) + 1;
    op->lengths = calloc((size_t)count, sizeof *op->lengths);
    FAIL_IF(err, !op->lengths, GLOFND_E_MEMORY, "out of memory");
    int64_t length = 1;
    for (int i = 0; i < count; i++, length = gf_nn_text_length(length + 1, max))
        TRY(find_products(err, op, s->n * length, &op->lengths[i]));
    return GLOFND_OK;
}

void gf_cunn_linear_free(gf_nn_op *op) {
    for (int i = 0; i < GF_CUNN_WORKS; i++)
        if (op->gemm[i].made) gf_cunn_gemm_free(op->engine, &op->gemm[i]);
    free(op->lengths);
}

void gf_cunn_products_free(gf_nn_engine *s) {
    while (s->products) {
        gf_cunn_products *p = s->products;
        s->products = p->next;
        for (int i = 0; i < GF_CUNN_WORKS; i++)
            if (p->gemm[i].made) gf_cunn_gemm_free(s, &p->gemm[i]);
        free(p);
    }
}

void gf_cunn_linear_pack(gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    if (s->type != GF_TYPE_BF16) return;
    gf_cunn_cast(op->engine, GF_TYPE_BF16, a->packed, a->weight, s->in * s->out);
    if (s->bias) gf_cunn_cast(op->engine, GF_TYPE_BF16, (char *)a->packed + gf_cunn_linear_packed(s), a->bias, s->out);
}

static const void *weights(const gf_nn_op *op, const gf_nn_args *a) {
    return op->shape.type == GF_TYPE_BF16 ? a->packed : (const void *)a->weight;
}

/* Scratch after the workspace: z or g, where there is an activation, then sums. */
static char *after_workspace(const gf_nn_args *a) { return (char *)a->scratch + GF_CUNN_BLAS_WORKSPACE; }

glofnd_status gf_cunn_linear_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    const gf_cunn_gemm *const now = products_now(op, a);
    void *z = s->act == GF_ACT_NONE ? a->y : s->training ? a->saved : after_workspace(a);
    if (s->bias) {
        const void *bias = s->type == GF_TYPE_BF16 ? (const char *)a->packed + gf_cunn_linear_packed(s) : (const char *)a->bias;
        TRY(gf_cunn_gemm_bias(err, op->engine, &now[GF_CUNN_FORWARD], bias));
    }
    TRY(gf_cunn_gemm_run(err, op->engine, &now[GF_CUNN_FORWARD], weights(op, a), a->x, s->second ? a->x2 : NULL, z, a->scratch));
    if (s->act != GF_ACT_NONE) gf_cunn_act(op->engine, s->type, s->act, a->y, z, gf_nn_rows(s, a) * s->out);
    return GLOFND_OK;
}

glofnd_status gf_cunn_linear_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    const gf_cunn_gemm *const now = products_now(op, a);
    const int act = s->act != GF_ACT_NONE;
    char *sums = after_workspace(a) + (act ? array_bytes(s) : 0);
    const void *g = act ? after_workspace(a) : a->dy;
    if (act || s->bias)
        gf_cunn_act_back(op->engine, s->type, s->act, after_workspace(a), s->bias ? a->bias_grad : NULL, a->dy, a->saved,
                         gf_nn_rows(s, a), s->out, sums);
    TRY(gf_cunn_gemm_run(err, op->engine, &now[GF_CUNN_BACK_WEIGHTS], s->transposed ? g : a->x, s->transposed ? a->x : g, NULL,
                         a->weight_grad, a->scratch));
    if (!s->input_grad) return GLOFND_OK;
    return gf_cunn_gemm_run(err, op->engine, &now[GF_CUNN_BACK_DATA], weights(op, a), g, NULL, a->dx, a->scratch);
}

/* ----- convolution ----------------------------------------------------------------------------------------------- */

/* Convolution: three cuDNN plans per layer, weights as [out][kernel][kernel][in]; of images own kernels, or a linear layer of
 * patches; together with a batch norm by own kernels, where that pays.
 *
 * bf16 nets keep a bf16 copy of the float weights (packed) for the products, followed by the gradient of the weights as cuDNN
 * writes it: summed in float, rounded once to bf16. Its kernels that write float are several times slower (34 against 500 TFLOP/s
 * on an H200). All copies, and all gradients, are cast in one launch (gf_cunn_pack_all). float nets use the weights themselves.
 */

static int64_t weights_of(const gf_nn_shape *s) { return s->out * s->in * s->kernel * s->kernel; }

size_t gf_cunn_conv_packed(const gf_nn_shape *s) { return ((size_t)weights_of(s) * 2 + 255) / 256 * 256; }

static glofnd_status find_plan(gf_error *err, gf_nn_op *op, int work) {
    const gf_cunn_task task = {&op->shape, work, work == GF_CUNN_BACK_WEIGHTS && op->narrow};
    return gf_cunn_plan_find(err, op->engine, &task, &op->plan[work]);
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

/* Sizes from which it pays (research/2026-11). Smaller batch norms are done in one launch, which keeps a part of their numbers on
 * the chip: pays in cunn_norm.cu. */
#define CONV1X1_BYTES ((int64_t)72 << 20)
#define CONV3X3_BYTES ((int64_t)32 << 20)
#define WEIGHTS_BYTES ((int64_t)64 << 20)

static int64_t bytes_of(const gf_nn_shape *s, int64_t channels) { return s->n * s->h * s->w * channels * 2; }

int gf_cunn_conv_sums(const gf_nn_op *op) { return op->conv1x1[GF_CUNN_FORWARD] || op->conv3x3[GF_CUNN_FORWARD]; }

int gf_cunn_conv_back_sums(const gf_nn_op *op, gf_nn_before before) {
    if (op->conv1x1[GF_CUNN_BACK_DATA]) return before == GF_NN_BEFORE_END || before == GF_NN_BEFORE_PAIR;
    return op->conv3x3[GF_CUNN_BACK_DATA] && gf_cunn_conv3x3_back_fits(op->engine, &op->shape, before);
}

#ifndef GF_HAVE_HOPPER /* then no engine is one of Hopper */
int gf_cunn_conv1x1_fits(const gf_nn_engine *s, const gf_nn_shape *shape) { return (void)s, (void)shape, 0; }
int gf_cunn_conv1x1_back_fits(const gf_nn_engine *s, const gf_nn_shape *shape) { return (void)s, (void)shape, 0; }
void gf_cunn_conv1x1_forward(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a) { (void)s, (void)shape, (void)a; }
void gf_cunn_conv1x1_back(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a) { (void)s, (void)shape, (void)a; }
int gf_cunn_conv3x3_fits(const gf_nn_engine *s, const gf_nn_shape *shape) { return (void)s, (void)shape, 0; }
int gf_cunn_conv3x3_back_fits(const gf_nn_engine *s, const gf_nn_shape *shape, gf_nn_before before) {
    return (void)s, (void)shape, (void)before, 0;
}
void gf_cunn_conv3x3_forward(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a) { (void)s, (void)shape, (void)a; }
void gf_cunn_conv3x3_back(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a) { (void)s, (void)shape, (void)a; }
size_t gf_cunn_conv3x3_weights_scratch(const gf_nn_engine *s, const gf_nn_shape *shape) {
    return (void)s, (void)shape, (size_t)0;
}
void gf_cunn_conv3x3_weights(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a, void *dw) {
    (void)s, (void)shape, (void)a, (void)dw;
}
#endif

/* ----- the op ------------------------------------------------------------------------------------------------------ */

glofnd_status gf_cunn_conv_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    if (s->type == GF_TYPE_BF16) sizes->packed = gf_cunn_conv_packed(s) * (s->training ? 2 : 1);
    if (is_of_patches(s)) {
        const gf_nn_shape as = patch_shape(&op->shape);
        op->patches = 1;
        sizes->scratch = GF_CUNN_BLAS_WORKSPACE + (patch_bytes(&as) + 255) / 256 * 256 + (size_t)(as.in * as.out) * sizeof(float);
        return op->engine->mode.estimate ? GLOFND_OK : gf_cunn_linear_products(err, op, &as);
    }
    const size_t stem = gf_cunn_stem_scratch(s);
    if (stem) {
        op->stem = 1;
        op->narrow = s->training;
        sizes->scratch = s->training || s->pooled ? stem : 0;
        sizes->saved = s->training && s->pooled ? gf_cunn_stem_saved(s) : 0;
        return GLOFND_OK;
    }
    op->conv1x1[GF_CUNN_FORWARD] = s->training && bytes_of(s, s->out) >= CONV1X1_BYTES && gf_cunn_conv1x1_fits(op->engine, s);
    op->conv1x1[GF_CUNN_BACK_DATA] =
        s->training && s->input_grad && bytes_of(s, s->in) >= CONV1X1_BYTES && gf_cunn_conv1x1_back_fits(op->engine, s);
    op->conv3x3[GF_CUNN_FORWARD] = s->training && bytes_of(s, s->out) >= CONV3X3_BYTES && gf_cunn_conv3x3_fits(op->engine, s);
    op->conv3x3[GF_CUNN_BACK_DATA] = s->training && s->input_grad && bytes_of(s, s->in) >= CONV3X3_BYTES;
    op->conv3x3[GF_CUNN_BACK_WEIGHTS] =
        s->training && bytes_of(s, s->in) >= WEIGHTS_BYTES && gf_cunn_conv3x3_weights_scratch(op->engine, s) > 0;
    if (op->engine->mode.estimate) {
        sizes->scratch = (size_t)32 << 20; /* typical need of the chosen plans, for 32 to 224 pixels */
        return GLOFND_OK;
    }
    TRY(find_plan(err, op, GF_CUNN_FORWARD));
    if (s->training && s->input_grad) TRY(find_plan(err, op, GF_CUNN_BACK_DATA));
    if (op->conv3x3[GF_CUNN_BACK_WEIGHTS]) sizes->scratch = gf_cunn_conv3x3_weights_scratch(op->engine, s), op->narrow = 1;
    else if (s->training) {
        op->narrow = op->shape.type == GF_TYPE_BF16;
        const glofnd_status status = find_plan(err, op, GF_CUNN_BACK_WEIGHTS);
        if (status == GLOFND_OK || !op->narrow) TRY(status);
        else {
            op->narrow = 0;
            TRY(find_plan(err, op, GF_CUNN_BACK_WEIGHTS));
        }
    }
    for (int i = 0; i < GF_CUNN_WORKS; i++)
        if (op->plan[i]) sizes->scratch = GF_MAX(sizes->scratch, op->plan[i]->workspace);
    return GLOFND_OK;
}

/* cuDNN takes its inputs through pointers without const. */
static void *loose(const void *p) { return (void *)(uintptr_t)p; }

static void *conv_weights(const gf_nn_op *op, const gf_nn_args *a) {
    return op->shape.type == GF_TYPE_BF16 ? a->packed : loose(a->weight);
}

glofnd_status gf_cunn_conv_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    if (op->patches) return patches_forward(err, op, a);
    if (op->stem) {
        (op->shape.pooled ? gf_cunn_stem_pool : gf_cunn_stem_forward)(op->engine, &op->shape, a);
        return GLOFND_OK;
    }
    if (a->norm) {
        (op->shape.kernel == 1 ? gf_cunn_conv1x1_forward : gf_cunn_conv3x3_forward)(op->engine, &op->shape, a);
        return GLOFND_OK;
    }
    return gf_cunn_plan_run(err, op->engine, op->plan[GF_CUNN_FORWARD], loose(a->x), conv_weights(op, a), a->y, a->scratch);
}

glofnd_status gf_cunn_conv_back_data(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    return gf_cunn_plan_run(err, op->engine, op->plan[GF_CUNN_BACK_DATA], a->dx, conv_weights(op, a), loose(a->dy), a->scratch);
}

static void *gradient_of(const gf_nn_op *op, const gf_nn_args *a) {
    return op->narrow ? (char *)a->packed + gf_cunn_conv_packed(&op->shape) : (char *)a->weight_grad;
}

glofnd_status gf_cunn_conv_back_weights(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    void *grad = gradient_of(op, a);
    if (!op->conv3x3[GF_CUNN_BACK_WEIGHTS])
        return gf_cunn_plan_run(err, op->engine, op->plan[GF_CUNN_BACK_WEIGHTS], loose(a->x), grad, loose(a->dy), a->scratch);
    gf_cunn_conv3x3_weights(op->engine, &op->shape, a, grad);
    return GLOFND_OK;
}

void gf_cunn_conv_back_norm(gf_nn_op *op, const gf_nn_args *a) {
    (op->shape.kernel == 1 ? gf_cunn_conv1x1_back : gf_cunn_conv3x3_back)(op->engine, &op->shape, a);
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

/* ----- attention ------------------------------------------------------------------------------------------------- */

/* Attention as an op: splits its arrays and chooses the kernels. See cunn_attention.h. */

/* Column `part` of parts of `out` numbers side by side in rows of `step`. */
static gf_cunn_heads part_of(const gf_nn_shape *s, const void *x, int part, int parts) {
    char *at = loose(x);
    return (gf_cunn_heads){at ? at + gf_type_bytes[s->type] * (size_t)(part * s->out) : NULL, parts * s->out};
}

static gf_cunn_attention task_of(const gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    const int parts = s->second ? 2 : 3, dim = (int)(s->out / s->heads);
    gf_cunn_attention t = {.type = s->type,
                           .n = s->n,
                           .heads = s->heads,
                           .dim = dim,
                           .length = (int)(s->h * s->w),
                           .causal = s->causal,
                           .scale = 1.0f / sqrtf((float)dim),
                           .y = {a->y, s->out},
                           .dy = {loose(a->dy), s->out},
                           .log_sums = s->training ? a->saved : NULL};
    if (s->packed) t.first = a->texts->first, t.mean = (int)(a->texts->rows / s->n);
    t.k = part_of(s, a->x, parts - 2, parts), t.dk = part_of(s, a->dx, parts - 2, parts);
    t.v = part_of(s, a->x, parts - 1, parts), t.dv = part_of(s, a->dx, parts - 1, parts);
    if (s->second) t.q = (gf_cunn_heads){loose(a->x2), s->out}, t.dq = (gf_cunn_heads){a->dx2, s->out};
    else t.q = part_of(s, a->x, 0, parts), t.dq = part_of(s, a->dx, 0, parts);
    return t;
}

glofnd_status gf_cunn_attention_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    const size_t sums = sizeof(float) * (size_t)(s->n * s->heads * s->h * s->w);
    FAIL_IF(err, s->heads < 1 || s->out % s->heads, GLOFND_E_UNSUPPORTED,
            "attention: %lld numbers cannot be divided into %d heads", (long long)s->out, s->heads);
    FAIL_IF(err, s->out / s->heads > GF_CUNN_ATTENTION_DIM, GLOFND_E_UNSUPPORTED,
            "attention: heads of %lld numbers; CUDA takes at most %d: use more heads, or device = cpu",
            (long long)(s->out / s->heads), (int)GF_CUNN_ATTENTION_DIM);
    FAIL_IF(err, s->n * s->heads > INT32_MAX || s->h * s->w > 1 << 16, GLOFND_E_UNSUPPORTED,
            "attention: %lld images of %d heads and %lld positions are too many for one launch: use a smaller batch",
            (long long)s->n, s->heads, (long long)(s->h * s->w));
    if (s->training) sizes->saved = sums;
    else if (s->second) sizes->scratch = sums; /* for the weights of one query */
    return GLOFND_OK;
}

glofnd_status gf_cunn_attention_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    const gf_cunn_attention t = task_of(op, a);
    if (op->shape.second) gf_cunn_attention_one(op->engine, &t, op->shape.training ? a->saved : a->scratch);
    else if (gf_cunn_attention_mma_fits(&t)) gf_cunn_attention_mma(op->engine, &t);
    else gf_cunn_attention_fma(op->engine, &t);
    return GLOFND_OK;
}

glofnd_status gf_cunn_attention_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    const gf_cunn_attention t = task_of(op, a);
    if (op->shape.second) gf_cunn_attention_one_back(op->engine, &t, a->saved);
    else if (gf_cunn_attention_mma_fits(&t)) gf_cunn_attention_mma_back(op->engine, &t);
    else gf_cunn_attention_fma_back(op->engine, &t);
    return GLOFND_OK;
}

/* ----- the optimizer --------------------------------------------------------------------------------------------- */

/* An optimizer's tables on the device; the work is in cunn_optim_kernels.cu. */

struct gf_nn_optim {
    gf_nn_optim *next; /* list of the engine */
    gf_nn_engine *engine;
    gf_optim_rule rule;
    gf_cunn_steps steps;
    void *memory; /* all tables, one block */
};

static int64_t chunks_of(const gf_param *p) { return (int64_t)((p->n + GF_CUNN_CHUNK - 1) / GF_CUNN_CHUNK); }

/* The next array of the block; with base NULL only counts. */
static void *carve(char *base, size_t *at, size_t bytes) {
    void *p = base ? base + *at : NULL;
    *at += (bytes + 255) / 256 * 256;
    return p;
}

static size_t lay_out(gf_cunn_steps *t, char *base) {
    size_t at = 0;
    const size_t count = (size_t)t->count, chunks = (size_t)t->chunk_count;
    t->params = carve(base, &at, count * sizeof *t->params);
    t->first = carve(base, &at, (count + 1) * sizeof *t->first);
    t->chunks = carve(base, &at, chunks * sizeof *t->chunks);
    t->sums = carve(base, &at, chunks * 3 * sizeof *t->sums);
    t->ratio = carve(base, &at, count * sizeof *t->ratio);
    t->norm = carve(base, &at, sizeof *t->norm);
    t->now = carve(base, &at, sizeof *t->now);
    return at;
}

static glofnd_status make_tables(gf_error *err, gf_nn_optim *o, const gf_param *list, int count) {
    int64_t chunks = 0;
    for (int k = 0; k < count; k++) chunks += chunks_of(&list[k]);
    FAIL_IF(err, chunks < 1 || chunks > INT32_MAX, GLOFND_E_ARGUMENT, "an optimizer of %lld chunks", (long long)chunks);
    o->steps.count = count;
    o->steps.chunk_count = (int)chunks;
    gf_cunn_steps host = o->steps;
    const size_t bytes = lay_out(&host, NULL);
    char *block = calloc(1, bytes);
    FAIL_IF(err, !block, GLOFND_E_MEMORY, "no memory for an optimizer of %d tensors", count);
    lay_out(&host, block);
    /* The tables on the host, in a block of the same layout. */
    int at = 0;
    for (int k = 0; k < host.count; k++) {
        host.params[k] = list[k];
        host.first[k] = at;
        for (int64_t from = 0; from < (int64_t)list[k].n; from += GF_CUNN_CHUNK) host.chunks[at++] = (gf_cunn_chunk){k, from};
    }
    host.first[host.count] = at;
    cudaError_t e = cudaMalloc(&o->memory, bytes);
    if (e == cudaSuccess) e = cudaMemcpyAsync(o->memory, block, bytes, cudaMemcpyHostToDevice, o->engine->stream);
    if (e == cudaSuccess) e = cudaStreamSynchronize(o->engine->stream);
    free(block);
    if (e != cudaSuccess) return gf_cuda_fail(err, e, "tables of the optimizer");
    o->engine->tables += bytes;
    lay_out(&o->steps, o->memory);
    return GLOFND_OK;
}

glofnd_status gf_cunn_optim_create(gf_error *err, gf_nn_engine *s, const gf_optim_rule *rule, const gf_param *list, int count,
                                   gf_nn_optim **out) {
    gf_nn_optim *o = calloc(1, sizeof *o);
    FAIL_IF(err, !o, GLOFND_E_MEMORY, "no memory for an optimizer");
    *o = (gf_nn_optim){.next = s->optims, .engine = s, .rule = *rule};
    s->optims = o;
    TRY(make_tables(err, o, list, count));
    *out = o;
    return GLOFND_OK;
}

void gf_cunn_optim_free(gf_nn_optim *o) {
    while (o) {
        gf_nn_optim *next = o->next;
        cudaFree(o->memory);
        free(o);
        o = next;
    }
}

glofnd_status gf_cunn_optim_set(gf_error *err, gf_nn_optim *o, const gf_optim_scalars *now) {
    (void)err;
    gf_cunn_optim_now(o->engine, o->steps.now, *now);
    return GLOFND_OK;
}

glofnd_status gf_cunn_optim_step(gf_error *err, gf_nn_optim *o) {
    (void)err;
    gf_cunn_optim_run(o->engine, &o->steps, &o->rule);
    return GLOFND_OK;
}

glofnd_status gf_cunn_optim_norm(gf_error *err, gf_nn_optim *o, double *norm) {
    CUDA_TRY_AS(err, cudaMemcpyAsync(norm, o->steps.norm, sizeof *norm, cudaMemcpyDeviceToHost, o->engine->stream),
                "gradient norm");
    CUDA_TRY_AS(err, cudaStreamSynchronize(o->engine->stream), "gradient norm");
    return GLOFND_OK;
}
