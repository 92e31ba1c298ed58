/* merge.c - layers that a device does together: two batch norms and the sum of their outputs. What only the second reads of the
 * first is then never written, nor placed in memory. */
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
