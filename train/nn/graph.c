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

/* The tensor added last occupies more than its count: its input channels are padded. */
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
    layer.packed = layer.saved = layer.dx = layer.dx2 = layer.bits = -1;
    layer.shortcut = layer.norm_after = -1;
    g->layer[g->layers] = layer;
    return &g->layer[g->layers++];
}

/* The value that an op writes. */
static int new_result(gf_graph *g, const gf_nn_shape *s) {
    switch (s->kind) {
    case GF_NN_CONV:
    case GF_NN_MAXPOOL:
    case GF_NN_AVGPOOL:
        return gf_graph_value(g, s->n, gf_nn_out(s->h, s->kernel, s->stride, s->pad),
                              gf_nn_out(s->w, s->kernel, s->stride, s->pad), s->out, s->type);
    case GF_NN_TOKENS: return gf_graph_value(g, s->n, 1 + s->h * s->w, 1, s->out, s->type);
    case GF_NN_PICK: return gf_graph_value(g, s->n, 1, 1, s->out, GF_TYPE_F32);
    case GF_NN_ATTENTION:
        if (s->second) return gf_graph_value(g, s->n, 1, 1, s->out, GF_TYPE_F32);
        break;
    case GF_NN_LINEAR:
    case GF_NN_LAYERNORM:
    case GF_NN_EMBED:
    case GF_NN_KINDS: break;
    }
    return gf_graph_value(g, s->n, s->h, s->w, s->out, s->type);
}

int gf_graph_op(gf_graph *g, gf_nn_shape shape, int in, int second, int param, int bias) {
    const gf_value *x = &g->value[in];
    if (shape.kind != GF_NN_EMBED) { /* which changes the type, and the channels */
        shape.type = x->type;
        shape.in = x->c;
    }
    if (!shape.out) shape.out = shape.in;
    if (shape.kind == GF_NN_LINEAR) shape.kernel = shape.stride = 1;
    shape.n = x->n, shape.h = x->h, shape.w = x->w;
    shape.second = second >= 0;
    shape.bias = bias >= 0;
    shape.training = g->training;
    shape.input_grad = in != 0; /* value 0 is the input: its gradient is not needed */
    shape.packed = x->packed;
    const int out = new_result(g, &shape);
    g->value[out].packed = shape.packed && shape.kind != GF_NN_PICK;
    append(g, (gf_layer){
                  .kind = GF_LAYER_OP, .in = in, .residual = second, .out = out, .param = param, .bias = bias, .shape = shape});
    return out;
}

int gf_graph_conv(gf_graph *g, const char *name, int in, int64_t out_channels, int kernel, int stride, int pad) {
    const int64_t c = g->value[in].c, shape[4] = {out_channels, in == 0 ? 3 : c, kernel, kernel};
    const int param = add_named(g, &g->params, name, "weight", 4, shape);
    if (in == 0 && c > 3) widen(&g->params, out_channels * kernel * kernel * c);
    return gf_graph_op(g,
                       (gf_nn_shape){.kind = GF_NN_CONV,
                                     .out = out_channels,
                                     .kernel = kernel,
                                     .stride = stride,
                                     .pad = pad,
                                     .colours = in == 0 ? 3 : 0},
                       in, -1, param, -1);
}

int gf_graph_linear(gf_graph *g, const char *name, int in, int64_t out_channels) {
    const int64_t shape[4] = {out_channels, g->value[in].c};
    const int param = add_named(g, &g->params, name, "weight", 2, shape);
    return gf_graph_op(g, (gf_nn_shape){.kind = GF_NN_LINEAR, .out = out_channels}, in, -1, param, -1);
}

int gf_graph_maxpool(gf_graph *g, int in, int kernel, int stride, int pad) {
    return gf_graph_op(g, (gf_nn_shape){.kind = GF_NN_MAXPOOL, .kernel = kernel, .stride = stride, .pad = pad}, in, -1, -1, -1);
}

int gf_graph_mean(gf_graph *g, int in) {
    const gf_value *x = &g->value[in];
    const int out = gf_graph_value(g, x->n, 1, 1, x->c, GF_TYPE_F32);
    append(g, (gf_layer){.kind = GF_LAYER_MEAN, .in = in, .residual = -1, .out = out, .param = -1, .bias = -1});
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

/* ----- under a prefix ---------------------------------------------------------------------------------------------- */

gf_name gf_name_join(const char *prefix, const char *part) {
    gf_name n;
    snprintf(n.text, sizeof n.text, "%s%s", prefix, part);
    return n;
}

int gf_graph_param(gf_graph *g, const char *prefix, const char *part, int rank, int64_t d0, int64_t d1) {
    const int64_t shape[4] = {d0, d1};
    return gf_tensor_add(g, &g->params, gf_name_join(prefix, part).text, rank, shape);
}

int gf_graph_conv_at(gf_graph *g, const char *prefix, const char *part, int in, int64_t out, int kernel, int stride) {
    return gf_graph_conv(g, gf_name_join(prefix, part).text, in, out, kernel, stride, kernel / 2);
}

int gf_graph_norm_relu(gf_graph *g, const char *prefix, const char *part, int in) {
    const gf_norm_names names = gf_graph_norm_names(g, gf_name_join(prefix, part).text, g->value[in].c, 1);
    return gf_graph_norm(g, names, in, -1, 1);
}

/* ----- ops --------------------------------------------------------------------------------------------------------- */

glofnd_status gf_graph_ops(gf_error *err, gf_graph *g, const gf_nn_backend *b, gf_nn_engine *s) {
    for (int i = 0; i < g->layers; i++) {
        gf_layer *l = &g->layer[i];
        if (l->kind == GF_LAYER_OP) TRY(b->op_create(err, s, &l->shape, &l->sizes, &l->op));
    }
    return GLOFND_OK;
}
