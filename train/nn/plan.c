/* plan.c - lifetimes and places of all memory of a net; then every layer gets its pointers once, and keeps them.
 *
 * Time runs through the layers: layer i works at time i forward and at 2 L - 1 - i backward. Every block knows its first and last
 * use; blocks whose times do not overlap may share bytes. Placing the largest first, each at the lowest place free over its whole
 * life, comes within a few percent of the lower bound for our nets (tests/cpu/unit_layers.c).
 *
 * Arrays that backward reads stay until then: inputs of convolutions, linear layers and batch norms, and the output of a ReLU
 * that followed a sum. Gradients reuse each other's bytes: a batch norm turns dy into the gradient of the sum in place, which
 * is at once the gradient of the residual; without a residual it also writes dx there. A linear layer that ends in a sum passes
 * its dy on to the summand, and a layer norm adds its dx to that: the residual stream of a transformer has one gradient.
 */
#include <stdlib.h>

#include "nn/graph.h"
#include "util/array.h"

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

static void use(gf_graph *g, int block, int time) {
    if (block < 0) return;
    gf_block *b = &g->block[block];
    b->first = GF_MIN(b->first, time);
    b->last = GF_MAX(b->last, time);
}

static int end_of_time(const gf_graph *g) { return 2 * g->layers - 1; }

/* A block that is never shared. */
static int keep(gf_graph *g, size_t bytes) {
    const int b = new_block(g, bytes);
    use(g, b, 0);
    use(g, b, end_of_time(g));
    return b;
}

static size_t value_bytes(const gf_value *v) { return (size_t)(v->n * v->h * v->w * v->c) * gf_type_bytes(v->type); }

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
    g->scratch = keep(g, scratch);
    g->sums = keep(g, sizeof(double) * 4 * (size_t)channels); /* of a norm, and of its shortcut */
    g->coef = keep(g, sizeof(float) * 4 * (size_t)channels);
    g->aside = keep(g, sizeof(float) * 2 * (size_t)channels);
    g->text_table = g->value[0].packed ? keep(g, gf_texts_table_bytes(g->value[0].n, g->value[0].h)) : -1;
}

/* The values that layer i reads and writes, at time i. */
static void use_values(gf_graph *g, int i) {
    const gf_layer *l = &g->layer[i];
    use(g, g->value[l->in].data, i);
    if (!l->merged) use(g, g->value[l->out].data, i);
    if (l->shortcut >= 0) use(g, g->value[g->layer[l->shortcut].in].data, i);
    else if (l->residual >= 0) use(g, g->value[l->residual].data, i);
}

static void plan_forward(gf_graph *g) {
    for (int i = 0; i < g->values; i++) g->value[i].data = new_block(g, value_bytes(&g->value[i]));
    use(g, g->value[0].data, 0);
    for (int i = 0; i < g->layers; i++) {
        gf_layer *l = &g->layer[i];
        use_values(g, i);
        if (l->kind == GF_LAYER_NORM) l->saved = keep(g, sizeof(float) * 4 * (size_t)l->norm.c);
        if (l->kind == GF_LAYER_OP && l->sizes.packed) l->packed = keep(g, l->sizes.packed);
        if (l->kind == GF_LAYER_OP && l->sizes.saved) {
            l->saved = new_block(g, l->sizes.saved);
            use(g, l->saved, i);
        }
    }
    /* Texts stay until others are loaded, results for the caller until the next step. */
    if (g->value[0].packed) use(g, g->value[0].data, end_of_time(g));
    use(g, g->value[g->features].data, end_of_time(g));
    use(g, g->value[g->projection].data, end_of_time(g));
}

/* `block` holds one more part of the gradient of value v. */
static void contribute(gf_graph *g, int v, int block, int time) {
    gf_value *x = &g->value[v];
    use(g, block, time);
    if (x->grads == 2) g->full = 1;
    else x->grad[x->grads++] = block;
}

static int reads_x(const gf_layer *l) {
    if (l->kind != GF_LAYER_OP) return l->kind == GF_LAYER_NORM;
    const gf_nn_kind k = l->shape.kind;
    return k != GF_NN_MAXPOOL && k != GF_NN_AVGPOOL && k != GF_NN_TOKENS && k != GF_NN_PICK;
}

/* 1: its dx may be added to the gradient left by a different reader of the same value. */
static int adds_dx(const gf_layer *l) {
    return l->kind == GF_LAYER_OP && (l->shape.kind == GF_NN_LAYERNORM || l->shape.kind == GF_NN_PICK);
}

/* Memory for an op's second input. The gradient of a sum is that of its parts. */
static void plan_back_second(gf_graph *g, gf_layer *l, int time) {
    const gf_value *out = &g->value[l->out];
    if (l->shape.kind == GF_NN_ATTENTION) use(g, out->data, time);
    if (l->residual < 0) return;
    if (l->shape.kind == GF_NN_LINEAR) contribute(g, l->residual, out->grad[0], time);
    if (l->shape.kind != GF_NN_ATTENTION) return;
    use(g, g->value[l->residual].data, time);
    l->dx2 = new_block(g, value_bytes(&g->value[l->residual]));
    contribute(g, l->residual, l->dx2, time);
}

/* Where the other part of the gradient is there, a convolution makes g of both, in its place: 1. */
static int plan_back_fused(gf_graph *g, const gf_nn_backend *b, int i, int time) {
    gf_layer *l = &g->layer[i];
    const gf_nn_before before = gf_graph_fuses_back(g, i, b);
    if (before == GF_NN_BEFORE_NONE) return 0;
    l->back_norm = (l - 1)->norm.back_summed = 1;
    if (before == GF_NN_BEFORE_INNER) return 0;
    use(g, g->value[l->in].grad[0], time);
    return 1;
}

static void plan_back_layer(gf_graph *g, const gf_nn_backend *b, int i, int time) {
    gf_layer *l = &g->layer[i];
    const gf_value *out = &g->value[l->out];
    for (int k = 0; k < out->grads; k++) use(g, out->grad[k], time);
    if (reads_x(l)) use(g, g->value[l->in].data, time);
    use(g, l->saved, time);
    if (l->kind == GF_LAYER_OP) plan_back_second(g, l, time);
    if (l->kind == GF_LAYER_NORM && l->residual >= 0) {
        if (l->norm.relu && l->bits < 0) use(g, out->data, time);
        contribute(g, l->residual, out->grad[0], time);
    }
    if (l->in == 0 || plan_back_fused(g, b, i, time)) return;
    l->add_dx = adds_dx(l) && g->value[l->in].grads > 0;
    if (l->add_dx) {
        l->dx = g->value[l->in].grad[0];
        use(g, l->dx, time);
        return;
    }
    const int in_place = l->kind == GF_LAYER_NORM && l->residual < 0;
    l->dx = in_place ? out->grad[0] : new_block(g, value_bytes(&g->value[l->in]));
    contribute(g, l->in, l->dx, time);
}

/* With a bit per number for the sign before ReLU, y itself need not stay for backward. */
static void plan_bits(gf_graph *g, const gf_nn_backend *b) {
    for (int i = 0; i < g->layers && b->norm_bits; i++) {
        gf_layer *l = &g->layer[i];
        if (l->kind != GF_LAYER_NORM || l->residual < 0 || !l->norm.relu) continue;
        const size_t bytes = b->norm_bits(l->norm.type, l->norm.rows, l->norm.c);
        if (!bytes) continue;
        l->bits = new_block(g, bytes);
        use(g, l->bits, i);
        use(g, l->bits, end_of_time(g) - i);
    }
}

static void plan_backward(gf_graph *g, const gf_nn_backend *b) {
    const int last = g->layers - 1;
    plan_bits(g, b);
    contribute(g, g->projection, new_block(g, value_bytes(&g->value[g->projection])), g->layers);
    for (int i = last; i >= 0; i--) plan_back_layer(g, b, i, end_of_time(g) - i);
}

/* ----- places ------------------------------------------------------------------------------------------------------ */

typedef struct placed { /* sorted by offset */
    const gf_block *block[GF_MAX_BLOCKS];
    int count;
} placed;

static int overlap(const gf_block *a, const gf_block *b) { return a->first <= b->last && b->first <= a->last; }

static void insert(placed *p, const gf_block *b) {
    int at = p->count++;
    for (; at > 0 && p->block[at - 1]->offset > b->offset; at--) p->block[at] = p->block[at - 1];
    p->block[at] = b;
}

/* Lowest offset where b overlaps no block in time and bytes. */
static size_t lowest_place(const placed *p, const gf_block *b) {
    size_t at = 0;
    for (int i = 0; i < p->count; i++) {
        const gf_block *other = p->block[i];
        if (!overlap(b, other)) continue;
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

static glofnd_status place(gf_error *err, gf_graph *g) {
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
        insert(p, b);
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
    return place(err, g);
}

/* ----- pointers ---------------------------------------------------------------------------------------------------- */

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
    l->args.norm = l->shape.pooled ? &(l + 1)->norm : l->norm_after >= 0 ? &m.g->layer[l->norm_after].norm : NULL;
    l->args.before = l->back_norm ? &(l - 1)->norm : NULL;
    l->args.texts = l->shape.packed ? &m.g->texts : NULL;
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
    n->sums = (double *)at(m, m.g->sums) + (l->merged ? 2 * n->c : 0); /* as many channels as the norm it is merged into */
    n->coef = (float *)at(m, m.g->coef) + (l->merged ? 2 * n->c : 0);
    n->scratch = at(m, m.g->scratch);
    n->dy = gradient(m, l->out, 0);
    n->dy2 = gradient(m, l->out, 1);
    n->dx = at(m, l->dx);
    n->positive = at(m, l->bits);
    if (l->shortcut >= 0) n->shortcut = &m.g->layer[l->shortcut].norm, n->residual = NULL;
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
