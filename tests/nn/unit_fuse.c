/* unit_fuse.c - which convolutions of ResNet-50 and ResNet-18 do a part of a batch norm, on backends that could do all of 1 x 1,
 * or of 3 x 3, and stride 1; and that the memory of a gradient which is never written is not planned. */
#include "support/test.h"

#include "nn/graph.h"
#include <stdlib.h>
#include <string.h>

static glofnd_status create(gf_error *err, gf_nn_engine *s, const gf_nn_shape *shape, gf_nn_sizes *sizes, gf_nn_op **out) {
    (void)err, (void)s;
    *sizes = (gf_nn_sizes){0};
    *out = (gf_nn_op *)(uintptr_t)shape;
    return GLOFND_OK;
}

static size_t scratch(int64_t rows, int64_t c) { return (size_t)(rows > 0 ? c : 0); }
static size_t bits(gf_type type, int64_t rows, int64_t c) { return type == GF_TYPE_BF16 ? (size_t)(rows * c / 8) : 0; }

static int is_point(const gf_nn_op *op) {
    const gf_nn_shape *s = (const gf_nn_shape *)(uintptr_t)op;
    return s->kernel == 1 && s->stride == 1;
}

static int is_point_after_end(const gf_nn_op *op, gf_nn_before before) { return is_point(op) && before >= GF_NN_BEFORE_END; }

static int is_window(const gf_nn_op *op) {
    const gf_nn_shape *s = (const gf_nn_shape *)(uintptr_t)op;
    return s->kernel == 3 && s->stride == 1;
}

static int kinds[GF_NN_BEFORE_PAIR + 1]; /* asked for by the last plan of windows */
static int is_window_after(const gf_nn_op *op, gf_nn_before before) {
    kinds[before] += is_window(op);
    return is_window(op);
}

static gf_graph *planned_with(const gf_nn_backend *b, gf_arch arch, int size, int ranked) {
    const gf_net_spec spec = {
        .arch = arch, .cifar_stem = size <= 32, .batch = 4, .size = size, .precision = GF_BF16, .training = 1};
    gf_error err = {""};
    gf_graph *g = calloc(1, sizeof *g);
    assert_non_null(g);
    g->ranked = ranked;
    gf_resnet_build(g, &spec);
    assert_int_equal(gf_graph_ops(&err, g, b, NULL), GLOFND_OK);
    assert_int_equal(gf_graph_plan(&err, g, b), GLOFND_OK);
    return g;
}

static gf_graph *planned(int sums, int back_sums, int ranked) {
    const gf_nn_backend b = {.op_create = create,
                             .norm_scratch = scratch,
                             .norm_bits = bits,
                             .norm_fuses = 1,
                             .op_sums = sums ? is_point : NULL,
                             .op_back_sums = back_sums ? is_point_after_end : NULL};
    return planned_with(&b, GF_ARCH_RESNET50, 64, ranked);
}

typedef struct counts {
    int after, before, summed, back_summed, without_dx;
} counts;

static counts count(const gf_graph *g) {
    counts n = {0, 0, 0, 0, 0};
    for (int i = 0; i < g->layers; i++) {
        const gf_layer *l = &g->layer[i];
        n.after += l->norm_after >= 0, n.before += l->back_norm;
        n.summed += l->norm.summed, n.back_summed += l->norm.back_summed;
        if (l->norm_after >= 0) assert_int_equal(g->layer[l->norm_after].in, l->out);
        if (l->norm_after >= 0) assert_int_equal(g->layer[l->norm_after].norm.summed, 1);
        if (!l->back_norm) continue;
        assert_int_equal((l - 1)->out, l->in);
        assert_int_equal((l - 1)->norm.back_summed, 1);
        assert_int_equal(g->value[l->in].grads, 1);
        n.without_dx += l->dx < 0; /* of two readers */
    }
    return n;
}

/* Two of 1 x 1 in each of 16 blocks and the first block's shortcut; 15 blocks begin at the end of another. */
TEST(all_that_can_are_fused) {
    gf_graph *g = planned(1, 1, 0);
    const counts n = count(g);
    assert_int_equal(n.after, 33);
    assert_int_equal(n.summed, 33);
    assert_int_equal(n.before, 15);
    assert_int_equal(n.back_summed, 15);
    assert_int_equal(n.without_dx, 15);
    free(g);
}

/* ResNet-18 of small images has a stem of 3 x 3, and 13 more of stride 1: 8 in the middle of a block, that after the stem, and
 * those after a block with and without a shortcut's norm. */
TEST(windows_are_fused) {
    const gf_nn_backend b = {.op_create = create,
                             .norm_scratch = scratch,
                             .norm_bits = bits,
                             .norm_fuses = 1,
                             .op_sums = is_window,
                             .op_back_sums = is_window_after};
    memset(kinds, 0, sizeof kinds);
    gf_graph *g = planned_with(&b, GF_ARCH_RESNET18, 32, 0);
    const counts n = count(g);
    assert_int_equal(n.after, 14);
    assert_int_equal(n.summed, 14);
    assert_int_equal(n.before, 13);
    assert_int_equal(n.back_summed, 13);
    assert_int_equal(n.without_dx, 5);
    assert_int_equal(kinds[GF_NN_BEFORE_NONE], 0);
    assert_int_equal(kinds[GF_NN_BEFORE_INNER], 8);
    assert_int_equal(kinds[GF_NN_BEFORE_OTHER], 1);
    assert_int_equal(kinds[GF_NN_BEFORE_END], 1);
    assert_int_equal(kinds[GF_NN_BEFORE_PAIR], 3);
    free(g);
}

TEST(each_way_alone) {
    gf_graph *forward = planned(1, 0, 0), *back = planned(0, 1, 0);
    assert_int_equal(count(forward).after, 33);
    assert_int_equal(count(forward).before, 0);
    assert_int_equal(count(back).after, 0);
    assert_int_equal(count(back).before, 15);
    free(forward), free(back);
}

TEST(ranks_add_sums_themselves) {
    gf_graph *g = planned(1, 1, 1);
    const counts n = count(g);
    assert_int_equal(n.after + n.before + n.summed + n.back_summed, 0);
    free(g);
}

TEST(memory_does_not_grow) {
    gf_graph *fused = planned(1, 1, 0), *apart = planned(0, 0, 0);
    assert_true(fused->arena_bytes <= apart->arena_bytes);
    assert_int_equal(apart->blocks - fused->blocks, 15);
    for (int i = 0; i < fused->blocks; i++)
        for (int j = 0; j < i; j++) {
            const gf_block *a = &fused->block[i], *b = &fused->block[j];
            if (a->first > b->last || b->first > a->last) continue;
            assert_true(a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
        }
    free(fused), free(apart);
}
