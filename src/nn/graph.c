/* graph.c - appending to the lists of graph.h. */
#include "nn/graph.h"

#include <stdio.h>
#include <string.h>

#define LINE_FLOATS (GF_NN_ALIGN / (int64_t)sizeof(float))

static int64_t lines(int64_t floats) { return (floats + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS; }

/* ----- tensors ----------------------------------------------------------------------------------------------------- */

int gf_tensor_add(gf_graph *g, gf_tensor_list *list, const char *name, int rank, const int64_t shape[4]) {
    if (list->count == GF_MAX_TENSORS || strlen(name) >= GF_NAME_BYTES) {
        g->full = 1;
        return 0;
    }
    const int at = list->count++;
    gf_tensor *t = &list->item[at];
    memcpy(list->name[at], name, strlen(name) + 1);
    *t = (gf_tensor){.name = list->name[at], .rank = rank, .count = 1};
    for (int i = 0; i < rank; i++) {
        t->shape[i] = shape[i];
        t->count *= shape[i];
    }
    t->stored = t->count;
    list->numbers += lines(t->stored);
    return at;
}

/* The tensor added last takes more room than its count: channels it meets are padded. */
static void widen(gf_tensor_list *list, int64_t stored) {
    gf_tensor *t = &list->item[list->count - 1];
    list->numbers += lines(stored) - lines(t->stored);
    t->stored = stored;
}

static int add_named(gf_graph *g, gf_tensor_list *list, const char *name, const char *part, int rank, const int64_t shape[4]) {
    char whole[2 * GF_NAME_BYTES];
    snprintf(whole, sizeof whole, "%s.%s", name, part);
    return gf_tensor_add(g, list, whole, rank, shape);
}

/* ----- values and layers ------------------------------------------------------------------------------------------- */

int gf_graph_value(gf_graph *g, int64_t n, int64_t h, int64_t w, int64_t c, gf_type type) {
    if (g->values == GF_MAX_VALUES) {
        g->full = 1;
        return 0;
    }
    g->value[g->values] = (gf_value){.n = n, .h = h, .w = w, .c = c, .type = type, .data = -1, .grad = {-1, -1}};
    return g->values++;
}

static gf_layer *append(gf_graph *g, gf_layer layer) {
    if (g->layers == GF_MAX_LAYERS) {
        g->full = 1;
        return &g->layer[0];
    }
    layer.packed = layer.saved = layer.dx = layer.bits = -1;
    g->layer[g->layers] = layer;
    return &g->layer[g->layers++];
}

/* An op from value `in` to a new value; shape.h, w, n, in and type follow from it. */
static int append_op(gf_graph *g, gf_nn_shape shape, int in, int param) {
    const gf_value *x = &g->value[in];
    shape.type = x->type;
    shape.n = x->n, shape.h = x->h, shape.w = x->w, shape.in = x->c;
    shape.training = g->training;
    shape.input_grad = in != 0;                 /* value 0 is the image: nobody asks for its gradient */
    const int64_t oh = gf_nn_out(x->h, shape.kernel, shape.stride, shape.pad);
    const int64_t ow = gf_nn_out(x->w, shape.kernel, shape.stride, shape.pad);
    const int out = gf_graph_value(g, x->n, oh, ow, shape.out, x->type);
    append(g, (gf_layer){.kind = GF_LAYER_OP, .in = in, .residual = -1, .out = out, .param = param, .shape = shape});
    return out;
}

int gf_graph_conv(gf_graph *g, const char *name, int in, int64_t out_channels, int kernel, int stride, int pad) {
    const int64_t c = g->value[in].c, shape[4] = {out_channels, in == 0 ? 3 : c, kernel, kernel};
    const int param = add_named(g, &g->params, name, "weight", 4, shape);
    if (in == 0 && c > 3) widen(&g->params, out_channels * kernel * kernel * c);
    return append_op(g, (gf_nn_shape){.kind = GF_NN_CONV, .out = out_channels, .kernel = kernel, .stride = stride, .pad = pad},
            in,
                     param);
}

int gf_graph_linear(gf_graph *g, const char *name, int in, int64_t out_channels) {
    const int64_t shape[4] = {out_channels, g->value[in].c};
    const int param = add_named(g, &g->params, name, "weight", 2, shape);
    return append_op(g, (gf_nn_shape){.kind = GF_NN_LINEAR, .out = out_channels, .kernel = 1, .stride = 1}, in, param);
}

int gf_graph_maxpool(gf_graph *g, int in, int kernel, int stride, int pad) {
    const int64_t c = g->value[in].c;
    return append_op(g, (gf_nn_shape){.kind = GF_NN_MAXPOOL, .out = c, .kernel = kernel, .stride = stride, .pad = pad}, in, -1);
}

int gf_graph_mean(gf_graph *g, int in) {
    const gf_value *x = &g->value[in];
    const int out = gf_graph_value(g, x->n, 1, 1, x->c, GF_TYPE_F32);
    append(g, (gf_layer){.kind = GF_LAYER_MEAN, .in = in, .residual = -1, .out = out, .param = -1});
    return out;
}

gf_norm_names gf_graph_norm_names(gf_graph *g, const char *name, int64_t channels, int affine) {
    const int64_t shape[4] = {channels};
    gf_norm_names names = {-1, -1};
    if (affine) {
        names.param = add_named(g, &g->params, name, "weight", 1, shape);
        add_named(g, &g->params, name, "bias", 1, shape);
    }
    names.stat = add_named(g, &g->buffers, name, "running_mean", 1, shape);
    add_named(g, &g->buffers, name, "running_var", 1, shape);
    return names;
}

int gf_graph_norm(gf_graph *g, gf_norm_names names, int in, int residual, int relu) {
    const gf_value *x = &g->value[in];
    const int out = gf_graph_value(g, x->n, x->h, x->w, x->c, x->type);
    gf_layer *l = append(g, (gf_layer){.kind = GF_LAYER_NORM, .in = in, .residual = residual, .out = out});
    l->param = names.param;
    l->stat = names.stat;
    l->norm = (gf_nn_norm){.type = x->type, .rows = x->n * x->h * x->w, .c = x->c, .relu = relu};
    return out;
}

/* ----- ops --------------------------------------------------------------------------------------------------------- */

glofnd_status gf_graph_ops(gf_error *err, gf_graph *g, const gf_nn_backend *b, gf_nn_engine *s) {
    for (int i = 0; i < g->layers; i++) {
        gf_layer *l = &g->layer[i];
        if (l->kind == GF_LAYER_OP) TRY(b->op_create(err, s, &l->shape, &l->sizes, &l->op));
    }
    return GLOFND_OK;
}
