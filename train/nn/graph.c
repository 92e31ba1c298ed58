/* graph.c - a net as lists (graph.h): appended by a builder, layers joined that a device does together, memory planned, pointers
 * bound.
 *
 * Time runs through the layers: layer i works at time i forward and at 2 L - 1 - i backward. Every block knows its first and last
 * use; blocks whose times do not overlap may share bytes. Placing the largest first, each at the lowest place free over its whole
 * life, comes within a few percent of the lower bound for our nets (tests/cpu/unit_layers.c).
 *
 * Arrays that backward reads stay until then: inputs of convolutions, linear layers and batch norms, and the output of a ReLU
 * that followed a sum. Gradients reuse each other's bytes: a batch norm turns dy into the gradient of the sum in place, which is
 * at once the gradient of the residual; without a residual it also writes dx there. A linear layer that ends in a sum passes its
 * dy on to the summand, and a layer norm adds its dx to that: the residual stream of a transformer has one gradient. */
#include "nn/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"

#define LINE_FLOATS (GF_NN_ALIGN / (int64_t)sizeof(float))

static int64_t whole_lines(int64_t floats) { return (floats + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS; }

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
    list->numbers += whole_lines(t->stored);
    return at;
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

static gf_layer *append_layer(gf_graph *g, gf_layer layer) {
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
static int new_value(gf_graph *g, const gf_nn_shape *s) {
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
    const int out = new_value(g, &shape);
    g->value[out].packed = shape.packed && shape.kind != GF_NN_PICK;
    append_layer(
        g,
        (gf_layer){.kind = GF_LAYER_OP, .in = in, .residual = second, .out = out, .param = param, .bias = bias, .shape = shape});
    return out;
}

int gf_graph_conv(gf_graph *g, const char *name, int in, int64_t out_channels, int kernel, int stride, int pad) {
    const int64_t c = g->value[in].c, shape[4] = {out_channels, in == 0 ? 3 : c, kernel, kernel};
    const int param = add_named(g, &g->params, name, "weight", 4, shape);
    if (in == 0 && c > 3) { /* input channels are padded: it occupies more than its count */
        gf_tensor *weight = &g->params.item[g->params.count - 1];
        const int64_t stored = out_channels * kernel * kernel * c;
        g->params.numbers += whole_lines(stored) - whole_lines(weight->stored);
        weight->stored = stored;
    }
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
    append_layer(g, (gf_layer){.kind = GF_LAYER_MEAN, .in = in, .residual = -1, .out = out, .param = -1, .bias = -1});
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
    gf_layer *l = append_layer(g, (gf_layer){.kind = GF_LAYER_NORM, .in = in, .residual = residual, .out = out});
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

/* ----- layers that a device does together -------------------------------------------------------------------------- */

/* Two batch norms and the sum of their outputs; the stem of ResNet; convolutions and the sums of batch norms. What only the
 * second reads of the first is then never written, nor placed in memory. */

static int count_readers(const gf_graph *g, int value) {
    int count = value == g->features || value == g->projection;
    for (int i = 0; i < g->layers; i++) count += (g->layer[i].in == value) + (g->layer[i].residual == value);
    return count;
}

void gf_graph_merge(gf_graph *g, const gf_nn_backend *b) {
    for (int i = 1; i < g->layers && b->norm_fuses; i++) {
        gf_layer *l = &g->layer[i], *s = &g->layer[i - 1];
        if (l->kind != GF_LAYER_NORM || l->residual < 0 || s->kind != GF_LAYER_NORM) continue;
        if (s->out != l->residual || s->residual >= 0 || s->norm.relu || count_readers(g, s->out) != 1) continue;
        s->merged = 1;
        l->shortcut = i - 1;
    }
}

static int is_conv(const gf_layer *l) { return l->kind == GF_LAYER_OP && l->shape.kind == GF_NN_CONV && !l->shape.pooled; }

void gf_graph_fuse(gf_graph *g, const gf_nn_backend *b) {
    for (int i = 0; i < g->layers && b->op_sums && g->training && !g->ranked; i++) {
        gf_layer *l = &g->layer[i];
        if (!is_conv(l) || count_readers(g, l->out) != 1 || !b->op_sums(l->op)) continue;
        for (int j = i + 1; j < g->layers; j++) {
            if (g->layer[j].kind != GF_LAYER_NORM || g->layer[j].in != l->out) continue;
            l->norm_after = j;
            g->layer[j].norm.summed = 1;
        }
    }
}

gf_nn_before gf_graph_fuses_back(const gf_graph *g, int i, const gf_nn_backend *b) {
    if (i == 0 || !b->op_back_sums || g->ranked || !is_conv(&g->layer[i])) return GF_NN_BEFORE_NONE;
    /* What the convolution has before it. */
    const gf_layer *l = &g->layer[i], *n = l - 1;
    const int others = count_readers(g, l->in) - 1;
    if (n->out != l->in || n->kind != GF_LAYER_NORM || !n->norm.relu || n->norm.counted) return GF_NN_BEFORE_NONE;
    if (others > 1 || g->value[l->in].grads != others) return GF_NN_BEFORE_NONE;
    if (n->residual >= 0 && (!others || n->bits < 0)) return GF_NN_BEFORE_NONE;
    const gf_nn_before before = n->residual < 0    ? (others ? GF_NN_BEFORE_OTHER : GF_NN_BEFORE_INNER)
                                : n->shortcut >= 0 ? GF_NN_BEFORE_PAIR
                                                   : GF_NN_BEFORE_END;
    return b->op_back_sums(l->op, before) ? before : GF_NN_BEFORE_NONE;
}

void gf_graph_merge_stem(gf_graph *g, const gf_nn_backend *b) {
    gf_layer *conv = &g->layer[0], *norm = conv + 1, *pool = conv + 2;
    /* The first layers are a convolution, its batch norm with ReLU, and the max pooling of that, each the only reader. */
    if (!b->pools || g->layers < 3 || conv->kind != GF_LAYER_OP || conv->shape.kind != GF_NN_CONV) return;
    if (norm->kind != GF_LAYER_NORM || norm->in != conv->out || norm->residual >= 0 || !norm->norm.relu) return;
    if (pool->kind != GF_LAYER_OP || pool->shape.kind != GF_NN_MAXPOOL || pool->in != norm->out) return;
    if (count_readers(g, conv->out) != 1 || count_readers(g, norm->out) != 1 || !b->pools(&conv->shape, &pool->shape)) return;
    const gf_value *small = &g->value[pool->out];
    g->value[conv->out].h = small->h, g->value[conv->out].w = small->w;
    conv->shape.pooled = 1;
    norm->norm.counted = norm->norm.rows;
    norm->norm.rows = small->n * small->h * small->w;
    norm->out = pool->out;
    memmove(pool, pool + 1, sizeof *pool * (size_t)(g->layers - 3));
    g->layers--;
}

/* ----- blocks ------------------------------------------------------------------------------------------------------ */

static int new_block(gf_graph *g, size_t bytes) {
    if (g->blocks == GF_MAX_BLOCKS) {
        g->full = 1;
        return 0;
    }
    const size_t whole = (bytes + GF_NN_ALIGN - 1) / GF_NN_ALIGN * GF_NN_ALIGN;
    g->block[g->blocks] = (gf_block){.bytes = whole, .first = INT32_MAX, .last = -1};
    return g->blocks++;
}

static void use_block(gf_graph *g, int block, int time) {
    if (block < 0) return;
    gf_block *b = &g->block[block];
    b->first = GF_MIN(b->first, time);
    b->last = GF_MAX(b->last, time);
}

static int end_of_time(const gf_graph *g) { return 2 * g->layers - 1; }

/* A block that is never shared. */
static int keep_block(gf_graph *g, size_t bytes) {
    const int b = new_block(g, bytes);
    use_block(g, b, 0);
    use_block(g, b, end_of_time(g));
    return b;
}

static size_t value_bytes(const gf_value *v) { return (size_t)(v->n * v->h * v->w * v->c) * gf_type_bytes[v->type]; }

/* ----- lifetimes --------------------------------------------------------------------------------------------------- */

static void plan_shared(gf_graph *g, const gf_nn_backend *b) {
    size_t scratch = 0;
    int64_t channels = 0;
    for (int i = 0; i < g->layers; i++) {
        const gf_layer *l = &g->layer[i];
        const size_t want = l->kind == GF_LAYER_NORM ? b->norm_scratch(l->norm.rows, l->norm.c) : l->sizes.scratch;
        if (want > scratch) scratch = want;
        if (l->kind == GF_LAYER_NORM && l->norm.c > channels) channels = l->norm.c;
    }
    g->scratch = keep_block(g, scratch);
    g->sums = keep_block(g, sizeof(double) * 4 * (size_t)channels); /* of a norm, and of its shortcut */
    g->coef = keep_block(g, sizeof(float) * 4 * (size_t)channels);
    g->aside = keep_block(g, sizeof(float) * 2 * (size_t)channels);
    g->text_table = g->value[0].packed ? keep_block(g, gf_texts_table_bytes(g->value[0].n, g->value[0].h)) : -1;
}

static void plan_forward(gf_graph *g) {
    for (int i = 0; i < g->values; i++) g->value[i].data = new_block(g, value_bytes(&g->value[i]));
    use_block(g, g->value[0].data, 0);
    for (int i = 0; i < g->layers; i++) {
        gf_layer *l = &g->layer[i];
        /* The values that layer i reads and writes, at time i. */
        use_block(g, g->value[l->in].data, i);
        if (!l->merged) use_block(g, g->value[l->out].data, i);
        if (l->shortcut >= 0) use_block(g, g->value[g->layer[l->shortcut].in].data, i);
        else if (l->residual >= 0) use_block(g, g->value[l->residual].data, i);
        if (l->kind == GF_LAYER_NORM) l->saved = keep_block(g, sizeof(float) * 4 * (size_t)l->norm.c);
        if (l->kind == GF_LAYER_OP && l->sizes.packed) l->packed = keep_block(g, l->sizes.packed);
        if (l->kind == GF_LAYER_OP && l->sizes.saved) {
            l->saved = new_block(g, l->sizes.saved);
            use_block(g, l->saved, i);
        }
    }
    /* Texts stay until others are loaded, results for the caller until the next step. */
    if (g->value[0].packed) use_block(g, g->value[0].data, end_of_time(g));
    use_block(g, g->value[g->features].data, end_of_time(g));
    use_block(g, g->value[g->projection].data, end_of_time(g));
}

/* `block` holds one more part of the gradient of value v. */
static void add_gradient(gf_graph *g, int v, int block, int time) {
    gf_value *x = &g->value[v];
    use_block(g, block, time);
    if (x->grads == 2) g->full = 1;
    else x->grad[x->grads++] = block;
}

static void plan_back_layer(gf_graph *g, const gf_nn_backend *b, int i, int time) {
    gf_layer *l = &g->layer[i];
    const gf_value *out = &g->value[l->out];
    for (int k = 0; k < out->grads; k++) use_block(g, out->grad[k], time);
    const gf_nn_kind kind = l->kind == GF_LAYER_OP ? l->shape.kind : GF_NN_KINDS;
    const int reads_x = l->kind == GF_LAYER_NORM || (l->kind == GF_LAYER_OP && kind != GF_NN_MAXPOOL && kind != GF_NN_AVGPOOL &&
                                                     kind != GF_NN_TOKENS && kind != GF_NN_PICK);
    if (reads_x) use_block(g, g->value[l->in].data, time);
    use_block(g, l->saved, time);
    /* Memory for an op's second input. The gradient of a sum is that of its parts. */
    if (kind == GF_NN_ATTENTION) use_block(g, out->data, time);
    if (kind == GF_NN_LINEAR && l->residual >= 0) add_gradient(g, l->residual, out->grad[0], time);
    if (kind == GF_NN_ATTENTION && l->residual >= 0) {
        use_block(g, g->value[l->residual].data, time);
        l->dx2 = new_block(g, value_bytes(&g->value[l->residual]));
        add_gradient(g, l->residual, l->dx2, time);
    }
    if (l->kind == GF_LAYER_NORM && l->residual >= 0) {
        if (l->norm.relu && l->bits < 0) use_block(g, out->data, time);
        add_gradient(g, l->residual, out->grad[0], time);
    }
    if (l->in == 0) return;
    const gf_nn_before before = gf_graph_fuses_back(g, i, b);
    if (before != GF_NN_BEFORE_NONE) l->back_norm = (l - 1)->norm.back_summed = 1;
    if (before != GF_NN_BEFORE_NONE && before != GF_NN_BEFORE_INNER) {
        use_block(g, g->value[l->in].grad[0], time); /* the other part: the convolution makes g of both in its place */
        return;
    }
    /* May its dx be added to the gradient left by a different reader of the same value? */
    l->add_dx = (kind == GF_NN_LAYERNORM || kind == GF_NN_PICK) && g->value[l->in].grads > 0;
    if (l->add_dx) {
        l->dx = g->value[l->in].grad[0];
        use_block(g, l->dx, time);
        return;
    }
    const int in_place = l->kind == GF_LAYER_NORM && l->residual < 0;
    l->dx = in_place ? out->grad[0] : new_block(g, value_bytes(&g->value[l->in]));
    add_gradient(g, l->in, l->dx, time);
}

static void plan_backward(gf_graph *g, const gf_nn_backend *b) {
    const int last = g->layers - 1;
    /* With a bit per number for the sign before ReLU, y itself need not stay for backward. */
    for (int i = 0; i < g->layers && b->norm_bits; i++) {
        gf_layer *l = &g->layer[i];
        if (l->kind != GF_LAYER_NORM || l->residual < 0 || !l->norm.relu) continue;
        const size_t bytes = b->norm_bits(l->norm.type, l->norm.rows, l->norm.c);
        if (!bytes) continue;
        l->bits = new_block(g, bytes);
        use_block(g, l->bits, i);
        use_block(g, l->bits, end_of_time(g) - i);
    }
    add_gradient(g, g->projection, new_block(g, value_bytes(&g->value[g->projection])), g->layers);
    for (int i = last; i >= 0; i--) plan_back_layer(g, b, i, end_of_time(g) - i);
}

/* ----- places ------------------------------------------------------------------------------------------------------ */

typedef struct placed { /* sorted by offset */
    const gf_block *block[GF_MAX_BLOCKS];
    int count;
} placed;

/* Lowest offset where b overlaps no block in time and bytes. */
static size_t lowest_place(const placed *p, const gf_block *b) {
    size_t at = 0;
    for (int i = 0; i < p->count; i++) {
        const gf_block *other = p->block[i];
        if (b->first > other->last || other->first > b->last) continue; /* never at once */
        if (other->offset >= at + b->bytes) break;
        if (other->offset + other->bytes > at) at = other->offset + other->bytes;
    }
    return at;
}

static int by_size(const void *a, const void *b) {
    const gf_block *x = *(gf_block *const *)a, *y = *(gf_block *const *)b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x < y ? -1 : x > y;
}

static glofnd_status place_blocks(gf_error *err, gf_graph *g) {
    placed *p = calloc(1, sizeof *p);
    gf_block **order = calloc(GF_MAX_BLOCKS, sizeof *order);
    const int enough = p && order;
    g->arena_bytes = 0;
    if (enough) {
        for (int i = 0; i < g->blocks; i++) order[i] = &g->block[i];
        qsort(order, (size_t)g->blocks, sizeof *order, by_size);
    }
    for (int i = 0; enough && i < g->blocks; i++) {
        gf_block *b = order[i];
        b->offset = lowest_place(p, b);
        int at = p->count++;
        for (; at > 0 && p->block[at - 1]->offset > b->offset; at--) p->block[at] = p->block[at - 1];
        p->block[at] = b;
        if (b->offset + b->bytes > g->arena_bytes) g->arena_bytes = b->offset + b->bytes;
    }
    free(order);
    free(p);
    FAIL_IF(err, !enough, GLOFND_E_MEMORY, "out of memory for the plan of a net");
    return GLOFND_OK;
}

size_t gf_graph_live_bytes(const gf_graph *g) {
    size_t max = 0;
    for (int t = 0; t <= end_of_time(g); t++) {
        size_t live = 0;
        for (int i = 0; i < g->blocks; i++)
            if (g->block[i].first <= t && t <= g->block[i].last) live += g->block[i].bytes;
        if (live > max) max = live;
    }
    return max;
}

glofnd_status gf_graph_plan(gf_error *err, gf_graph *g, const gf_nn_backend *b) {
    gf_graph_merge(g, b);
    gf_graph_fuse(g, b);
    plan_shared(g, b);
    plan_forward(g);
    if (g->training) plan_backward(g, b);
    FAIL_IF(err, g->full, GLOFND_E_UNSUPPORTED, "this net does not fit the lists of a graph (%d layers)", g->layers);
    return place_blocks(err, g);
}

/* ----- pointers ---------------------------------------------------------------------------------------------------- */

typedef struct arena_view {
    const gf_graph *g;
    char *arena;
} arena_view;

static void *block_at(arena_view m, int block) { return block < 0 ? NULL : m.arena + m.g->block[block].offset; }
static void *data_of(arena_view m, int value) { return value < 0 ? NULL : block_at(m, m.g->value[value].data); }
static void *gradient_of(arena_view m, int value, int part) {
    const gf_value *v = &m.g->value[value];
    return part < v->grads ? block_at(m, v->grad[part]) : NULL;
}

static void bind_list(gf_tensor_list *list, float *values, float *grads) {
    int64_t offset = 0;
    for (int i = 0; i < list->count; i++) {
        gf_tensor *t = &list->item[i];
        t->value = values + offset;
        t->grad = grads ? grads + offset : NULL;
        offset += whole_lines(t->stored);
    }
}

void gf_graph_bind_tensors(gf_graph *g, float *values, float *stats, float *grads) {
    bind_list(&g->params, values, grads);
    bind_list(&g->buffers, stats, NULL);
}

void gf_graph_bind(gf_graph *g, char *arena, float *values, float *stats, float *grads) {
    const arena_view m = {g, arena};
    gf_graph_bind_tensors(g, values, stats, grads);
    for (int i = 0; i < g->layers; i++) {
        gf_layer *l = &g->layer[i];
        if (l->kind == GF_LAYER_NORM) {
            const gf_tensor *param = l->param < 0 ? NULL : &g->params.item[l->param], *stat = &g->buffers.item[l->stat];
            gf_nn_norm *n = &l->norm;
            float *saved = block_at(m, l->saved);
            n->x = data_of(m, l->in);
            n->residual = data_of(m, l->residual);
            n->y = data_of(m, l->out);
            n->gamma = param ? param[0].value : NULL;
            n->beta = param ? param[1].value : NULL;
            n->dgamma = param ? param[0].grad : NULL;
            n->dbeta = param ? param[1].grad : NULL;
            n->running_mean = stat[0].value;
            n->running_var = stat[1].value;
            n->mean = saved, n->istd = saved + n->c, n->scale = saved + 2 * n->c, n->shift = saved + 3 * n->c;
            n->sums =
                (double *)block_at(m, g->sums) + (l->merged ? 2 * n->c : 0); /* as many channels as the norm it is merged into */
            n->coef = (float *)block_at(m, g->coef) + (l->merged ? 2 * n->c : 0);
            n->scratch = block_at(m, g->scratch);
            n->dy = gradient_of(m, l->out, 0);
            n->dy2 = gradient_of(m, l->out, 1);
            n->dx = block_at(m, l->dx);
            n->positive = block_at(m, l->bits);
            if (l->shortcut >= 0) n->shortcut = &g->layer[l->shortcut].norm, n->residual = NULL;
        } else {
            const gf_tensor *weight = l->param < 0 ? NULL : &g->params.item[l->param];
            l->args = (gf_nn_args){.x = data_of(m, l->in),
                                   .y = data_of(m, l->out),
                                   .dy = gradient_of(m, l->out, 0),
                                   .dx = block_at(m, l->dx)};
            l->args.weight = weight ? weight->value : NULL;
            l->args.weight_grad = weight ? weight->grad : NULL;
            const gf_tensor *bias = l->bias < 0 ? NULL : &g->params.item[l->bias];
            l->args.bias = bias ? bias->value : NULL;
            l->args.bias_grad = bias ? bias->grad : NULL;
            l->args.x2 = data_of(m, l->residual);
            l->args.dx2 = block_at(m, l->dx2);
            l->args.add_dx = l->add_dx;
            l->args.packed = block_at(m, l->packed);
            l->args.saved = block_at(m, l->saved);
            l->args.scratch = block_at(m, g->scratch);
            l->args.norm = l->shape.pooled ? &(l + 1)->norm : l->norm_after >= 0 ? &g->layer[l->norm_after].norm : NULL;
            l->args.before = l->back_norm ? &(l - 1)->norm : NULL;
            l->args.texts = l->shape.packed ? &g->texts : NULL;
        }
    }
}
