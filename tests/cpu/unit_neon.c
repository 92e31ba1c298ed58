/* unit_neon.c - the kernels for NEON give the bits of the plain C vectors, which have as many lanes: products, exponentials,
 * lists, activations, bf16. Skipped on other CPUs. */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "nn/cpu/kernels/net_kernels.h"

static const gf_cpu_kernels *base, *neon;
static const gf_net_kernels *base_net, *neon_net;

static int find_kernels(void **state) {
    (void)state;
    base = gf_cpu_kernels_find("base");
    neon = gf_cpu_kernels_find("neon");
    base_net = gf_net_kernels_find("base");
    neon_net = gf_net_kernels_find("neon");
    return 0;
}

/* In [-scale, scale], the same in every run. */
static void draw(float *x, int n, float scale, uint32_t seed) {
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = ((float)(seed >> 8) / 8388608.0f - 1.0f) * scale;
    }
}

TEST(products_are_equal) {
    enum { M = 64, N = 96, K = 77 };
    static float a[M * K], b[N * K], x[M * N], y[M * N];
    if (!neon) skip();
    draw(a, M * K, 1.0f, 1);
    draw(b, N * K, 1.0f, 2);
    base->tile->product(x, N, a, K, 1, b, GF_PANEL, K * GF_PANEL, M, N, K, 0);
    neon->tile->product(y, N, a, K, 1, b, GF_PANEL, K * GF_PANEL, M, N, K, 0);
    assert_memory_equal(x, y, sizeof x);
    base->tile->product(x, N, a, 1, M, b, GF_PANEL, K * GF_PANEL, M, N, K, 1); /* the left factor transposed, accumulating */
    neon->tile->product(y, N, a, 1, M, b, GF_PANEL, K * GF_PANEL, M, N, K, 1);
    assert_memory_equal(x, y, sizeof x);
}

TEST(exponentials_are_equal) {
    enum { N = 4099 };
    static float v[N], x[N], y[N];
    if (!neon) skip();
    draw(v, N, 95.0f, 3);
    v[5] = NAN, v[6] = INFINITY, v[7] = -INFINITY, v[8] = -0.0f;
    base->tile->exp(x, v, N);
    neon->tile->exp(y, v, N);
    assert_memory_equal(x, y, sizeof x);
}

TEST(lists_are_equal) {
    enum { N = 96 };
    static float v[N], limits[N], x[N], y[N];
    static int32_t at_x[N], at_y[N];
    int64_t above_x = 0, above_y = 0;
    if (!neon) skip();
    draw(v, N, 1.0f, 4);
    draw(limits, N, 1.0f, 5);
    for (int64_t best = 1; best <= N; best += 7) {
        const float p = base->tile->between(v, N, best, 0.3, &above_x), q = neon->tile->between(v, N, best, 0.3, &above_y);
        assert_memory_equal(&p, &q, sizeof p);
        assert_int_equal(above_x, above_y);
    }
    v[9] = v[40] = NAN; /* pairs that are none */
    const int64_t n = base->tile->above(v, N, 0.25f, x);
    assert_int_equal(n, neon->tile->above(v, N, 0.25f, y));
    assert_memory_equal(x, y, sizeof(float) * (size_t)n);
    const int m = base->tile->reach(at_x, v, N, 0.5f, limits);
    assert_int_equal(m, neon->tile->reach(at_y, v, N, 0.5f, limits));
    assert_memory_equal(at_x, at_y, sizeof(int32_t) * (size_t)m);
}

TEST(bf16_is_equal) {
    enum { N = 1024 };
    static float v[N], x[N], y[N];
    static uint16_t narrow_x[N], narrow_y[N];
    if (!neon) skip();
    draw(v, N, 3.0f, 6);
    for (uint32_t i = 0; i < 64; i++) { /* ties, infinities, quiet NaN and NaN whose payload lies in the lower half */
        const uint32_t bits = (i & 1 ? 0x3f808000u : i & 2 ? 0x7f800000u : i & 4 ? 0x7fc00000u : 0x7f800001u) + (i >> 3 << 16);
        memcpy(&v[i], &bits, sizeof v[i]);
    }
    base_net->norm->cast(GF_TYPE_BF16, narrow_x, v, N);
    neon_net->norm->cast(GF_TYPE_BF16, narrow_y, v, N);
    assert_memory_equal(narrow_x, narrow_y, sizeof narrow_x);
    memset(x, 0, sizeof x);
    memset(y, 0, sizeof y);
    base_net->row->add_to(x, GF_TYPE_BF16, narrow_x + 64, N - 64);
    neon_net->row->add_to(y, GF_TYPE_BF16, narrow_x + 64, N - 64);
    assert_memory_equal(x, y, sizeof x);
}

TEST(activations_and_softmax_are_equal) {
    enum { ROWS = 8, LD = GF_PANEL, KEYS = 29 };
    static float v[ROWS * LD], x[ROWS * LD], y[ROWS * LD], lse_x[ROWS], lse_y[ROWS];
    if (!neon) skip();
    draw(v, ROWS * LD, 4.0f, 7);
    for (int act = GF_ACT_GELU; act <= GF_ACT_QUICK_GELU; act++) {
        base_net->row->act((gf_nn_act)act, GF_TYPE_F32, x, v, ROWS * LD - 1);
        neon_net->row->act((gf_nn_act)act, GF_TYPE_F32, y, v, ROWS * LD - 1);
        assert_memory_equal(x, y, sizeof x);
    }
    memcpy(x, v, sizeof x);
    memcpy(y, v, sizeof y);
    base_net->row->softmax(x, LD, ROWS, KEYS, 1, lse_x);
    neon_net->row->softmax(y, LD, ROWS, KEYS, 1, lse_y);
    assert_memory_equal(x, y, sizeof x);
    assert_memory_equal(lse_x, lse_y, sizeof lse_x);
}

TEST_GROUP(find_kernels, NULL)
