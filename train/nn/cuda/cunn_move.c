/* cunn_move.c - casts the weights of all convolutions and linear layers of a network to bf16, and gradients from it, in one
 * launch each; with several ranks gradients in a few, as they are needed.
 *
 * The two tables of a network are copied once, at first use: its weights and copies stay where they are. Several networks share
 * an engine; the first op identifies the tables of a network.
 */
#include <stdlib.h>

#include "nn/cuda/cunn.h"

enum { MOVES_MAX = 512 };

struct gf_cunn_moves {
    struct gf_cunn_moves *next;
    const gf_nn_op *first; /* op of the net */
    gf_cunn_move *table;   /* [2][MOVES_MAX] on the device: weights, gradients */
    int count[2], blocks[2];
    int *until; /* [ops + 1] blocks of the gradients of the ops before */
};

static void append(struct gf_cunn_moves *m, gf_cunn_move *table, int which, float *wide, void *narrow, int64_t count) {
    table[which * MOVES_MAX + m->count[which]++] = (gf_cunn_move){wide, narrow, count, m->blocks[which]};
    m->blocks[which] += gf_cunn_move_blocks(count);
}

static void fill(struct gf_cunn_moves *m, gf_cunn_move *table, const gf_nn_args *const *args, gf_nn_op *const *ops, int count) {
    for (int i = 0; i < count; i++) {
        const gf_nn_shape *s = &ops[i]->shape;
        const int64_t n = s->out * s->in * s->kernel * s->kernel;
        m->until[i] = m->blocks[1];
        char *packed = args[i]->packed;
        append(m, table, 0, (float *)(uintptr_t)args[i]->weight, packed, n);
        if (s->kind == GF_NN_LINEAR && s->bias)
            append(m, table, 0, (float *)(uintptr_t)args[i]->bias, packed + gf_cunn_linear_packed(s), s->out);
        if (s->training && ops[i]->narrow) append(m, table, 1, args[i]->weight_grad, packed + gf_cunn_conv_packed(s), n);
    }
    m->until[count] = m->blocks[1];
}

static glofnd_status make(gf_error *err, gf_nn_engine *s, const gf_nn_args *const *args, gf_nn_op *const *ops, int count) {
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
    fill(m, table, args, ops, count);
    cudaError_t e = cudaMalloc((void **)&m->table, bytes);
    if (e == cudaSuccess) e = cudaMemcpyAsync(m->table, table, bytes, cudaMemcpyHostToDevice, s->stream);
    if (e == cudaSuccess) e = cudaStreamSynchronize(s->stream);
    free(table);
    s->tables += bytes;
    return e == cudaSuccess ? GLOFND_OK : gf_cuda_fail(err, e, "table of weights");
}

/* ops NULL: the tables made last. *out NULL: a network without such weights. */
static glofnd_status tables(gf_error *err, gf_nn_engine *s, const gf_nn_args *const *args, gf_nn_op *const *ops, int count,
                            const struct gf_cunn_moves **out) {
    *out = NULL;
    if (ops && count == 0) return GLOFND_OK;
    const struct gf_cunn_moves *m = s->moves;
    while (m && ops && m->first != ops[0]) m = m->next;
    if (!m && ops) {
        TRY(make(err, s, args, ops, count));
        m = s->moves;
    }
    *out = m;
    return GLOFND_OK;
}

static glofnd_status move(gf_error *err, gf_nn_engine *s, const gf_nn_args *const *args, gf_nn_op *const *ops, int count,
                          int which) {
    const struct gf_cunn_moves *m;
    TRY(tables(err, s, args, ops, count, &m));
    if (m && m->count[which]) gf_cunn_move_run(s, m->table + which * MOVES_MAX, m->count[which], 0, m->blocks[which], which);
    return GLOFND_OK;
}

glofnd_status gf_cunn_pack_all(gf_error *err, gf_nn_engine *s, const gf_nn_args *const *args, gf_nn_op *const *ops, int count) {
    return move(err, s, args, ops, count, 0);
}

glofnd_status gf_cunn_unpack_all(gf_error *err, gf_nn_engine *s, const gf_nn_args *const *args, gf_nn_op *const *ops, int count) {
    return move(err, s, args, ops, count, 1);
}

glofnd_status gf_cunn_unpack_some(gf_error *err, gf_nn_engine *s, const gf_nn_args *const *args, gf_nn_op *const *ops, int count,
                                  int first, int last) {
    const struct gf_cunn_moves *m;
    TRY(tables(err, s, args, ops, count, &m));
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
