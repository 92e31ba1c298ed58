/* sync_norm.c - a net that trains as one with those of other ranks: sums of batch norm, and reports of final gradients. */
#include "nn/net_parts.h"

static glofnd_status add_up(gf_error *err, const gf_net *n, const gf_nn_norm *norm) {
    const gf_sync_norm *r = n->spec.ranks;
    return r->sum(err, r->user, norm->sums, 2 * norm->c);
}

static double count_of(const gf_net *n, const gf_nn_norm *norm) {
    return (double)gf_nn_norm_count(norm) * (n->spec.ranks ? n->spec.ranks->count : 1);
}

glofnd_status gf_net_norm_stats(gf_error *err, gf_net *n, const gf_nn_norm *norm) {
    const gf_nn_backend *b = n->backend;
    if (!n->spec.ranks && b->norm_stats) {
        b->norm_stats(n->engine, norm);
        return GLOFND_OK;
    }
    b->norm_sums(n->engine, norm);
    if (n->spec.ranks) TRY(add_up(err, n, norm));
    b->norm_finish(n->engine, norm, count_of(n, norm));
    return GLOFND_OK;
}

glofnd_status gf_net_norm_forward(gf_error *err, gf_net *n, const gf_nn_norm *norm) {
    if (!n->spec.ranks && n->backend->norm_forward) {
        n->backend->norm_forward(n->engine, norm);
        return GLOFND_OK;
    }
    TRY(gf_net_norm_stats(err, n, norm));
    n->backend->norm_apply(n->engine, norm);
    return GLOFND_OK;
}

glofnd_status gf_net_norm_backward(gf_error *err, gf_net *n, const gf_layer *l) {
    const gf_nn_backend *b = n->backend;
    const gf_nn_norm *norm = &l->norm;
    if (!n->spec.ranks && b->norm_backward) {
        if (!l->merged) b->norm_backward(n->engine, norm); /* else done with the norm it is merged into */
        return GLOFND_OK;
    }
    b->norm_back_sums(n->engine, norm);
    if (n->spec.ranks) TRY(add_up(err, n, norm));
    b->norm_back_finish(n->engine, norm, count_of(n, norm));
    b->norm_back_apply(n->engine, norm);
    return GLOFND_OK;
}

/* End of the gradient of a layer's parameters in the block; 0: it has none. */
static int64_t end_of(const gf_net *n, const gf_layer *l) {
    const float *const grads[] = {l->args.weight_grad, l->args.bias_grad, l->norm.dgamma, l->norm.dbeta};
    int64_t end = 0;
    for (size_t i = 0; i < sizeof grads / sizeof *grads; i++)
        for (int t = 0; grads[i] && t < n->graph.params.count; t++) {
            const gf_tensor *x = &n->graph.params.item[t];
            if (x->grad == grads[i] && x->grad - n->grads + x->stored > end) end = x->grad - n->grads + x->stored;
        }
    return end;
}

void gf_net_find_final(gf_net *n) {
    int64_t end = 0;
    for (int i = 0; i < n->graph.layers; i++) {
        n->final_from[i] = end; /* parameters of earlier layers end here */
        const int64_t own = end_of(n, &n->graph.layer[i]);
        if (own > end) end = own;
    }
}

int gf_net_reports_final(const gf_net *n) { return n->spec.ranks && n->spec.ranks->ready; }

void gf_net_report_begin(gf_net *n) {
    n->reported_from = n->graph.params.numbers;
    n->reported_layer = n->graph.layers;
    if (gf_net_reports_final(n)) n->spec.ranks->ready(n->spec.ranks->user, n, n->reported_from);
}

/* Where op_backward leaves gradients in a format of the device: moves those of layers i and later that are not reported yet. */
static glofnd_status unpack(gf_error *err, gf_net *n, int i) {
    gf_packed_ops list;
    int first, last;
    if (!n->backend->unpack_some) return GLOFND_OK;
    gf_net_packed(n, &list, i, n->reported_layer, &first, &last);
    return n->backend->unpack_some(err, n->engine, list.args, list.op, list.count, first, last);
}

glofnd_status gf_net_report_final(gf_error *err, gf_net *n, int i) {
    const gf_sync_norm *r = n->spec.ranks;
    const int64_t first = gf_net_reports_final(n) ? n->final_from[i] : 0;
    if (!gf_net_reports_final(n) || (i > 0 && n->reported_from - first < r->bucket)) return GLOFND_OK;
    TRY(unpack(err, n, i));
    n->reported_from = first;
    n->reported_layer = i;
    r->ready(r->user, n, first);
    return GLOFND_OK;
}

float *gf_net_gradients(gf_net *n, int64_t *numbers) {
    *numbers = n->graph.params.numbers;
    return n->grads;
}
