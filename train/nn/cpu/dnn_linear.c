/* dnn_linear.c - linear layers as three matrix products on torch's own layouts, and what may follow the first.
 *   z [rows][in -> out] = x weight' + bias     y = act(z), or z + x2
 *   g = dy act'(z)     weight_grad = g' x     bias_grad = sum of the rows of g     dx = g weight
 * Nothing is packed but, for bf16 activations, the weights as bf16. saved: z, where there is an activation.
 * scratch: what the products want, then g, then partial sums of the bias. Layers of one shape
 * share their products; packed texts have some for each of their lengths.
 */
#include <stdlib.h>

#include "nn/cpu/dnn_blocks.h"
#include "nn/cpu/dnn_rows.h"

typedef struct side { /* rows x cols, stored row-major (ab) or as its transpose (ba) */
    int64_t rows, cols;
    dnnl_format_tag_t tag;
} side;

static size_t z_bytes(const gf_nn_shape *s, int64_t rows) { return gf_type_bytes(s->type) * (size_t)(rows * s->out); }
static int is_narrow(const gf_nn_shape *s) { return s->type == GF_TYPE_BF16; }

/* c = a b in `type`, with the bias and the sum of the forward product. */
static glofnd_status product(gf_error *err, gf_nn_op *op, side a, side b, dnnl_data_type_t type, int forward, gf_prim *out) {
    const gf_nn_shape *s = &op->shape;
    const int64_t c[2] = {a.rows, b.cols}, wide[2] = {1, b.cols};
    const int has_bias = forward && s->bias;
    gf_md ma, mb, mc, bias = NULL;
    TRY(gf_dnn_md(err, op->dnn, 2, (int64_t[]){a.rows, a.cols}, gf_dnn_type(s->type), a.tag, &ma));
    TRY(gf_dnn_md(err, op->dnn, 2, (int64_t[]){b.rows, b.cols}, gf_dnn_type(s->type), b.tag, &mb));
    TRY(gf_dnn_md(err, op->dnn, 2, c, type, dnnl_ab, &mc));
    if (has_bias) TRY(gf_dnn_md(err, op->dnn, 2, wide, dnnl_f32, dnnl_ab, &bias));
    TRY(gf_dnn_matmul(err, op->dnn, ma, mb, bias, mc, forward && s->second, out));
    TRY(gf_dnn_slot(err, op->dnn, out, DNNL_ARG_SRC, ma));
    TRY(gf_dnn_slot(err, op->dnn, out, DNNL_ARG_WEIGHTS, mb));
    TRY(gf_dnn_slot(err, op->dnn, out, DNNL_ARG_DST, mc));
    return has_bias ? gf_dnn_slot(err, op->dnn, out, DNNL_ARG_BIAS, bias) : GLOFND_OK;
}

static glofnd_status create_backward(gf_error *err, gf_nn_op *op, int64_t rows, gf_dnn_products *to) {
    const gf_nn_shape *s = &op->shape;
    const dnnl_data_type_t type = gf_dnn_type(s->type);
    const side x = {rows, s->in, dnnl_ab}, x_t = {s->in, rows, dnnl_ba};
    const side g = {rows, s->out, dnnl_ab}, g_t = {s->out, rows, dnnl_ba};
    TRY(s->transposed ? product(err, op, x_t, g, dnnl_f32, 0, &to->back_weights)
                      : product(err, op, g_t, x, dnnl_f32, 0, &to->back_weights));
    if (!s->input_grad) return GLOFND_OK;
    return product(err, op, g, (side){s->out, s->in, s->transposed ? dnnl_ba : dnnl_ab}, type, 0, &to->back_data);
}

static glofnd_status create_products(gf_error *err, gf_nn_op *op, gf_dnn_products *to) {
    const gf_nn_shape *s = &op->shape;
    TRY(product(err, op, (side){to->rows, s->in, dnnl_ab}, (side){s->in, s->out, s->transposed ? dnnl_ab : dnnl_ba},
                gf_dnn_type(s->type), 1, &to->forward));
    if (s->training) TRY(create_backward(err, op, to->rows, to));
    const gf_prim *all[] = {&to->forward, &to->back_data, &to->back_weights};
    for (int i = 0; i < 3; i++)
        if (all[i]->scratch > to->scratch) to->scratch = gf_dnn_round(all[i]->scratch);
    return GLOFND_OK;
}

/* 1: layers of these two shapes have the same products. */
static int alike(const gf_nn_shape *a, const gf_nn_shape *b) {
    return a->type == b->type && a->in == b->in && a->out == b->out && a->transposed == b->transposed && a->bias == b->bias &&
           a->second == b->second && a->training == b->training && a->input_grad == b->input_grad;
}

/* Those that the engine has, or new ones. */
static glofnd_status find_products(gf_error *err, gf_nn_op *op, int64_t rows, gf_dnn_products **out) {
    gf_nn_engine *e = op->engine;
    for (gf_dnn_products *p = e->products; p; p = p->next)
        if (p->rows == rows && alike(&p->shape, &op->shape)) return *out = p, GLOFND_OK;
    gf_dnn_products *p = calloc(1, sizeof *p);
    FAIL_IF(err, !p, GLOFND_E_MEMORY, "out of memory");
    p->shape = op->shape;
    p->rows = rows;
    const glofnd_status status = create_products(err, op, p);
    if (status != GLOFND_OK) {
        free(p);
        return status;
    }
    p->next = e->products;
    e->products = p;
    *out = p;
    return GLOFND_OK;
}

/* Of this call. Packed texts: made when texts of this length come for the first time. */
static glofnd_status products_of(gf_error *err, gf_nn_op *op, const gf_nn_args *a, gf_dnn_products **out) {
    const gf_nn_shape *s = &op->shape;
    gf_dnn_products **at = op->products;
    if (s->packed) at += gf_nn_text_length_number(a->texts->rows / s->n, s->h * s->w);
    if (!*at) TRY(find_products(err, op, gf_nn_rows(s, a), at));
    *out = *at;
    return GLOFND_OK;
}

/* Memory for a product: the net's, which is enough for the longest texts, and nearly always for shorter ones. */
static glofnd_status scratch_of(gf_error *err, gf_nn_op *op, const gf_nn_args *a, const gf_dnn_products *p, void **out) {
    gf_nn_engine *e = op->engine;
    *out = a->scratch;
    if (p->scratch <= op->spare) return GLOFND_OK;
    if (p->scratch > e->spare_bytes) {
        free(e->spare);
        e->spare = aligned_alloc(GF_NN_ALIGN, p->scratch);
        e->spare_bytes = e->spare ? p->scratch : 0;
        FAIL_IF(err, !e->spare, GLOFND_E_MEMORY, "out of memory for a linear layer of %lld rows", (long long)p->rows);
    }
    *out = e->spare;
    return GLOFND_OK;
}

glofnd_status gf_dnn_linear_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    const int64_t rows = s->n * s->h * s->w, max = s->h * s->w;
    const int last = s->packed ? gf_nn_text_length_number(max, max) : 0;
    FAIL_IF(err, s->act != GF_ACT_NONE && s->second, GLOFND_E_UNSUPPORTED, "a linear layer with both activation and sum");
    op->products = calloc((size_t)last + 1, sizeof *op->products);
    FAIL_IF(err, !op->products, GLOFND_E_MEMORY, "out of memory");
    TRY(find_products(err, op, rows, &op->products[last]));
    op->spare = op->products[last]->scratch;
    sizes->scratch = op->spare;
    if (is_narrow(s)) sizes->packed = gf_type_bytes(s->type) * (size_t)(s->in * s->out);
    if (!s->training) return GLOFND_OK;
    if (s->act != GF_ACT_NONE) {
        sizes->saved = z_bytes(s, rows);
        sizes->scratch += gf_dnn_round(z_bytes(s, rows));
    }
    if (s->bias) sizes->scratch += sizeof(float) * (size_t)(gf_blocks_max(rows, s->out) * s->out);
    return GLOFND_OK;
}

glofnd_status gf_dnn_linear_pack(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    if (is_narrow(&op->shape)) gf_dnn_cast(op->engine, GF_TYPE_BF16, a->packed, a->weight, op->shape.in * op->shape.out);
    return GLOFND_OK;
}

static void *weight_of(const gf_nn_op *op, const gf_nn_args *a) {
    return is_narrow(&op->shape) ? a->packed : gf_dnn_mutable(a->weight);
}

glofnd_status gf_dnn_linear_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    const int acts = s->act != GF_ACT_NONE;
    void *z = acts && s->training ? a->saved : a->y;
    const int64_t rows = gf_nn_rows(s, a);
    gf_dnn_products *p;
    void *scratch;
    TRY(products_of(err, op, a, &p));
    TRY(scratch_of(err, op, a, p, &scratch));
    if (s->second) gf_dnn_copy(op->engine, a->y, a->x2, z_bytes(s, rows));
    TRY(gf_dnn_run(err, op->dnn, &p->forward, (void *[]){gf_dnn_mutable(a->x), weight_of(op, a), z, gf_dnn_mutable(a->bias)},
                   scratch));
    if (acts) gf_dnn_act(op->engine, s->act, s->type, a->y, z, rows * s->out);
    return GLOFND_OK;
}

glofnd_status gf_dnn_linear_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    const int64_t rows = gf_nn_rows(s, a);
    gf_dnn_products *p;
    void *scratch;
    TRY(products_of(err, op, a, &p));
    TRY(scratch_of(err, op, a, p, &scratch));
    char *after = (char *)a->scratch + op->spare;
    void *x = gf_dnn_mutable(a->x), *g = gf_dnn_mutable(a->dy);
    if (s->act != GF_ACT_NONE) {
        g = after;
        after += gf_dnn_round(z_bytes(s, rows));
        gf_dnn_act_back(op->engine, s->act, s->type, g, a->dy, a->saved, rows * s->out);
    }
    if (s->bias) gf_dnn_sum_rows(op->engine, a->bias_grad, s->type, g, rows, s->out, (float *)(void *)after);
    TRY(gf_dnn_run(err, op->dnn, &p->back_weights, (void *[]){s->transposed ? x : g, s->transposed ? g : x, a->weight_grad},
                   scratch));
    if (!s->input_grad) return GLOFND_OK;
    return gf_dnn_run(err, op->dnn, &p->back_data, (void *[]){g, weight_of(op, a), a->dx}, scratch);
}
