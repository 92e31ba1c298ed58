/* bind_buffers.c - offsets become pointers: every layer gets its arguments once, and keeps them. */
#include "nn/graph.h"

typedef struct memory {
    const gf_graph *g;
    char *arena;
} memory;

static void *at(memory m, int block) { return block < 0 ? NULL : m.arena + m.g->block[block].offset; }
static void *data(memory m, int value) { return value < 0 ? NULL : at(m, m.g->value[value].data); }
static void *gradient(memory m, int value, int part) {
    const gf_value *v = &m.g->value[value];
    return part < v->grads ? at(m, v->grad[part]) : NULL;
}

static void bind_tensors(gf_tensor_list *list, float *values, float *grads) {
    const int64_t line = GF_NN_ALIGN / (int64_t)sizeof(float);
    int64_t offset = 0;
    for (int i = 0; i < list->count; i++) {
        gf_tensor *t = &list->item[i];
        t->value = values + offset;
        t->grad = grads ? grads + offset : NULL;
        offset += (t->stored + line - 1) / line * line;
    }
}

static void bind_op(memory m, gf_layer *l) {
    const gf_tensor *weight = l->param < 0 ? NULL : &m.g->params.item[l->param];
    l->args = (gf_nn_args){.x = data(m, l->in), .y = data(m, l->out), .dy = gradient(m, l->out, 0), .dx = at(m, l->dx)};
    l->args.weight = weight ? weight->value : NULL;
    l->args.weight_grad = weight ? weight->grad : NULL;
    const gf_tensor *bias = l->bias < 0 ? NULL : &m.g->params.item[l->bias];
    l->args.bias = bias ? bias->value : NULL;
    l->args.bias_grad = bias ? bias->grad : NULL;
    l->args.x2 = data(m, l->residual);
    l->args.dx2 = at(m, l->dx2);
    l->args.add_dx = l->add_dx;
    l->args.packed = at(m, l->packed);
    l->args.saved = at(m, l->saved);
    l->args.scratch = at(m, m.g->scratch);
}

static void bind_norm(memory m, gf_layer *l) {
    const gf_tensor *param = l->param < 0 ? NULL : &m.g->params.item[l->param], *stat = &m.g->buffers.item[l->stat];
    gf_nn_norm *n = &l->norm;
    float *saved = at(m, l->saved);
    n->x = data(m, l->in);
    n->residual = data(m, l->residual);
    n->y = data(m, l->out);
    n->gamma = param ? param[0].value : NULL;
    n->beta = param ? param[1].value : NULL;
    n->dgamma = param ? param[0].grad : NULL;
    n->dbeta = param ? param[1].grad : NULL;
    n->running_mean = stat[0].value;
    n->running_var = stat[1].value;
    n->mean = saved, n->istd = saved + n->c, n->scale = saved + 2 * n->c, n->shift = saved + 3 * n->c;
    n->sums = at(m, m.g->sums);
    n->coef = at(m, m.g->coef);
    n->scratch = at(m, m.g->scratch);
    n->dy = gradient(m, l->out, 0);
    n->dy2 = gradient(m, l->out, 1);
    n->dx = at(m, l->dx);
    n->positive = at(m, l->bits);
}

void gf_graph_bind_tensors(gf_graph *g, float *values, float *stats, float *grads) {
    bind_tensors(&g->params, values, grads);
    bind_tensors(&g->buffers, stats, NULL);
}

void gf_graph_bind(gf_graph *g, char *arena, float *values, float *stats, float *grads) {
    const memory m = {g, arena};
    gf_graph_bind_tensors(g, values, stats, grads);
    for (int i = 0; i < g->layers; i++) {
        gf_layer *l = &g->layer[i];
        if (l->kind == GF_LAYER_NORM) bind_norm(m, l);
        else bind_op(m, l);
    }
}
