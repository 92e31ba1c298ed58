/* merge.c - layers that a device does together: two batch norms and the sum of their outputs; the stem of ResNet; convolutions
 * and the sums of batch norms. What only the second reads of the first is then never written, nor placed in memory. */
#include <string.h>

#include "nn/graph.h"

static int readers(const gf_graph *g, int value) {
    int count = value == g->features || value == g->projection;
    for (int i = 0; i < g->layers; i++) count += (g->layer[i].in == value) + (g->layer[i].residual == value);
    return count;
}

/* 1: layer i - 1 is a batch norm without residual and ReLU, whose output is the residual of batch norm i alone. */
static int has_shortcut(const gf_graph *g, int i) {
    const gf_layer *l = &g->layer[i], *s = &g->layer[i - 1];
    if (l->kind != GF_LAYER_NORM || l->residual < 0 || s->kind != GF_LAYER_NORM) return 0;
    return s->out == l->residual && s->residual < 0 && !s->norm.relu && readers(g, s->out) == 1;
}

void gf_graph_merge(gf_graph *g, const gf_nn_backend *b) {
    for (int i = 1; i < g->layers && b->norm_fuses; i++) {
        if (!has_shortcut(g, i)) continue;
        g->layer[i - 1].merged = 1;
        g->layer[i].shortcut = i - 1;
    }
}

static int is_conv(const gf_layer *l) { return l->kind == GF_LAYER_OP && l->shape.kind == GF_NN_CONV && !l->shape.pooled; }

void gf_graph_fuse(gf_graph *g, const gf_nn_backend *b) {
    for (int i = 0; i < g->layers && b->op_sums && g->training && !g->ranked; i++) {
        gf_layer *l = &g->layer[i];
        if (!is_conv(l) || readers(g, l->out) != 1 || !b->op_sums(l->op)) continue;
        for (int j = i + 1; j < g->layers; j++) {
            if (g->layer[j].kind != GF_LAYER_NORM || g->layer[j].in != l->out) continue;
            l->norm_after = j;
            g->layer[j].norm.summed = 1;
        }
    }
}

/* What layer i, a convolution, has before it. */
static gf_nn_before before_of(const gf_graph *g, int i) {
    const gf_layer *l = &g->layer[i], *n = l - 1;
    const int others = readers(g, l->in) - 1;
    if (n->out != l->in || n->kind != GF_LAYER_NORM || !n->norm.relu || n->norm.counted) return GF_NN_BEFORE_NONE;
    if (others > 1 || g->value[l->in].grads != others) return GF_NN_BEFORE_NONE;
    if (n->residual < 0) return others ? GF_NN_BEFORE_OTHER : GF_NN_BEFORE_INNER;
    if (!others || n->bits < 0) return GF_NN_BEFORE_NONE;
    return n->shortcut >= 0 ? GF_NN_BEFORE_PAIR : GF_NN_BEFORE_END;
}

gf_nn_before gf_graph_fuses_back(const gf_graph *g, int i, const gf_nn_backend *b) {
    if (i == 0 || !b->op_back_sums || g->ranked || !is_conv(&g->layer[i])) return GF_NN_BEFORE_NONE;
    const gf_nn_before before = before_of(g, i);
    return before != GF_NN_BEFORE_NONE && b->op_back_sums(g->layer[i].op, before) ? before : GF_NN_BEFORE_NONE;
}

/* 1: layers i to i + 2 are a convolution, its batch norm with ReLU, and the max pooling of that, each the only reader. */
static int is_stem(const gf_graph *g, int i) {
    const gf_layer *conv = &g->layer[i], *norm = conv + 1, *pool = conv + 2;
    if (i + 2 >= g->layers || conv->kind != GF_LAYER_OP || conv->shape.kind != GF_NN_CONV) return 0;
    if (norm->kind != GF_LAYER_NORM || norm->in != conv->out || norm->residual >= 0 || !norm->norm.relu) return 0;
    if (pool->kind != GF_LAYER_OP || pool->shape.kind != GF_NN_MAXPOOL || pool->in != norm->out) return 0;
    return readers(g, conv->out) == 1 && readers(g, norm->out) == 1;
}

void gf_graph_merge_stem(gf_graph *g, const gf_nn_backend *b) {
    gf_layer *conv = &g->layer[0], *norm = conv + 1, *pool = conv + 2;
    if (!b->pools || !is_stem(g, 0) || !b->pools(&conv->shape, &pool->shape)) return;
    const gf_value *small = &g->value[pool->out];
    g->value[conv->out].h = small->h, g->value[conv->out].w = small->w;
    conv->shape.pooled = 1;
    norm->norm.counted = norm->norm.rows;
    norm->norm.rows = small->n * small->h * small->w;
    norm->out = pool->out;
    memmove(pool, pool + 1, sizeof *pool * (size_t)(g->layers - 3));
    g->layers--;
}
