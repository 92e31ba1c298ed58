/* unit_tiles.c - the tile kernels: every instruction set against plain loops, and the promises other code relies on. */
#include "support/test.h"

#include "cpu/kernels/cpu_kernels.h"
#include "support/random.h"
#include "util/dtype.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 64 /* rows and columns of the tile */
#define DIM 37
#define CAP 32

static const char *const isas[] = {"base", "avx2", "avx512", "neon"};

/* One tile with its two sides, filled with numbers of a seed; padding and a few excluded pairs are NaN. */
typedef struct bench {
    float s[SIZE * SIZE];
    gf_tile tile;
    gf_sum_in row, col;
    gf_sum_out row_sums, col_sums;
    gf_grad_in row_weights, col_weights;
    gf_grad_out row_grads, col_grads;
    struct arrays {
        float inv_tau[SIZE], lo[SIZE], hi[SIZE], mid[SIZE], theta[SIZE], floor[SIZE], log_w[SIZE], w[SIZE], attract[SIZE],
            peak[SIZE];
        float window[SIZE * CAP], align[SIZE];
        double sum[SIZE], moment[SIZE], flagged_s[SIZE];
        int32_t kept[SIZE], window_n[SIZE], window_le[SIZE], above[SIZE], group[SIZE], label[SIZE], same[SIZE], hits[SIZE],
            tie[SIZE];
    } side[2];
} bench;

static void fill_side(struct arrays *a, rng *r, float inv_tau, int shift) {
    memset(a, 0, sizeof *a);
    for (int i = 0; i < SIZE; i++) {
        a->inv_tau[i] = inv_tau;
        a->mid[i] = (float)(0.4 + 0.2 * rng_uniform(r));
        a->lo[i] = a->mid[i] - 0.05f, a->hi[i] = a->mid[i] + 0.05f, a->theta[i] = a->mid[i];
        a->floor[i] = i % 9 == 0 ? -0.9f : -INFINITY;
        a->log_w[i] = (float)(-3.0 - rng_uniform(r)), a->w[i] = expf(a->log_w[i]);
        a->attract[i] = (float)(0.01 * rng_uniform(r));
        a->group[i] = (int32_t)(7.0 * rng_uniform(r)) - 1, a->label[i] = (int32_t)(5.0 * rng_uniform(r));
        a->peak[i] = shift ? -INFINITY : 0.0f;
    }
}

static bench *make(unsigned seed, unsigned flags) {
    bench *b = calloc(1, sizeof *b);
    rng r = {seed};
    const float inv_tau = flags & GF_SHIFT ? 150.0f : 9.0f;
    for (int i = 0; i < SIZE * SIZE; i++) b->s[i] = (float)(2.0 * rng_uniform(&r) - 1.0);
    for (int i = 0; i < SIZE; i++) b->s[i * SIZE + i] = NAN;
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++)
            if (i >= SIZE - 3 || j >= SIZE - 5) b->s[i * SIZE + j] = NAN;
    b->tile = (gf_tile){.s = b->s, .ld = SIZE, .rows = SIZE - 3, .cols = SIZE - 5, .prows = SIZE, .pcols = SIZE, .dirty = 1};
    for (int i = 0; i < 2; i++) {
        struct arrays *a = &b->side[i];
        fill_side(a, &r, inv_tau, (flags & GF_SHIFT) != 0);
        *(i ? &b->col : &b->row) =
            (gf_sum_in){.inv_tau = a->inv_tau, .group = a->group, .lo = a->lo, .hi = a->hi, .mid = a->mid, .tie = a->tie};
        *(i ? &b->col_sums : &b->row_sums) = (gf_sum_out){.sum = a->sum,
                                                          .moment = a->moment,
                                                          .flagged_s = a->flagged_s,
                                                          .peak = a->peak,
                                                          .kept = a->kept,
                                                          .window = a->window,
                                                          .window_n = a->window_n,
                                                          .window_le = a->window_le,
                                                          .above = a->above};
        *(i ? &b->col_weights : &b->row_weights) = (gf_grad_in){.inv_tau = a->inv_tau,
                                                                .group = a->group,
                                                                .label = a->label,
                                                                .theta = a->theta,
                                                                .floor = a->floor,
                                                                .tie = a->tie,
                                                                .log_w = a->log_w,
                                                                .w = a->w,
                                                                .attract = a->attract,
                                                                .align = a->align};
        *(i ? &b->col_grads : &b->row_grads) = (gf_grad_out){.same = a->same, .hits = a->hits};
    }
    return b;
}

static void near(double got, double want, double scale, const char *isa, const char *what, int i) {
    if (!(fabs(got - want) <= 3e-5 * fmax(scale, fabs(want)))) fail_msg("%s: %s[%d] is %.9g, not %.9g", isa, what, i, got, want);
}

/* ---- product ---- */

TEST(product_is_right_and_position_free) {
    enum { M = 64, N = 96 };
    static float a[M * DIM], bt[N * DIM], packed[N * DIM], c[M * N], flipped[N * M];
    rng r = {5};
    for (int i = 0; i < M * DIM; i++) a[i] = (float)(2.0 * rng_uniform(&r) - 1.0);
    for (int i = 0; i < N * DIM; i++) bt[i] = (float)(2.0 * rng_uniform(&r) - 1.0);
    for (size_t v = 0; v < sizeof isas / sizeof *isas; v++) {
        const gf_cpu_kernels *kernels = gf_cpu_kernels_find(isas[v]);
        if (!kernels) continue;
        const gf_tile_ops *ops = kernels->tile;
        for (int j = 0; j < N; j++)
            for (int k = 0; k < DIM; k++) packed[(j / GF_PANEL * DIM + k) * GF_PANEL + j % GF_PANEL] = bt[j * DIM + k];
        ops->product(c, N, a, DIM, 1, packed, GF_PANEL, DIM * GF_PANEL, M, N, DIM, 0);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                double want = 0.0;
                for (int k = 0; k < DIM; k++) want += (double)a[i * DIM + k] * (double)bt[j * DIM + k];
                near((double)c[i * N + j], want, 1.0, isas[v], "product", i * N + j);
            }
        /* The other factor as rows: the same bits, transposed. Masks of both roles and of ranks rest on this. */
        static float packed_a[M * DIM];
        for (int j = 0; j < M; j++)
            for (int k = 0; k < DIM; k++) packed_a[(j / GF_PANEL * DIM + k) * GF_PANEL + j % GF_PANEL] = a[j * DIM + k];
        ops->product(flipped, M, bt, DIM, 1, packed_a, GF_PANEL, DIM * GF_PANEL, N, M, DIM, 0);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) assert_memory_equal(&c[i * N + j], &flipped[j * M + i], sizeof(float));
        /* Transposed left factor, accumulating: C += A'B with A' read down its columns. */
        static float at[DIM * M], twice[M * N];
        for (int i = 0; i < M; i++)
            for (int k = 0; k < DIM; k++) at[k * M + i] = a[i * DIM + k];
        memcpy(twice, c, sizeof twice);
        ops->product(twice, N, at, 1, M, packed, GF_PANEL, DIM * GF_PANEL, M, N, DIM, 1);
        for (int i = 0; i < M * N; i++) near((double)twice[i], 2.0 * (double)c[i], 1.0, isas[v], "accumulated", i);
    }
}

/* Two rows of numbers as words, and the numbers that are left of them. */
static void to_words(uint32_t *words, float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const uint16_t bits = gf_bf16_from_float(x[i]);
        x[i] = gf_bf16_to_float(bits);
        if (i % 2 == 0) words[i / 2] = bits;
        else words[i / 2] |= (uint32_t)bits << 16;
    }
}

TEST(product_of_bf16_is_right_and_position_free) {
    enum { M = 64, N = 96, K = 38, W = K / 2 };
    static float a[M * K], bt[N * K], c[M * N], flipped[N * M];
    static uint32_t aw[M * W], bw[N * W], packed_a[M * W], packed[N * W], down[W * M];
    rng r = {6};
    for (int i = 0; i < M * K; i++) a[i] = (float)(2.0 * rng_uniform(&r) - 1.0);
    for (int i = 0; i < N * K; i++) bt[i] = (float)(2.0 * rng_uniform(&r) - 1.0);
    to_words(aw, a, M * K), to_words(bw, bt, N * K);
    for (int k = 0; k < W; k++) {
        for (int j = 0; j < N; j++) packed[(j / GF_PANEL * W + k) * GF_PANEL + j % GF_PANEL] = bw[j * W + k];
        for (int j = 0; j < M; j++)
            packed_a[(j / GF_PANEL * W + k) * GF_PANEL + j % GF_PANEL] = aw[j * W + k], down[k * M + j] = aw[j * W + k];
    }
    for (size_t v = 0; v < sizeof isas / sizeof *isas; v++) {
        const gf_cpu_kernels *kernels = gf_cpu_kernels_find(isas[v]);
        if (!kernels) continue;
        const gf_tile_ops *ops = kernels->tile;
        ops->product16(c, N, aw, W, 1, packed, GF_PANEL, W * GF_PANEL, M, N, W, 0);
        ops->product16(flipped, M, bw, W, 1, packed_a, GF_PANEL, W * GF_PANEL, N, M, W, 0);
        for (int i = 0; i < M * N; i++) {
            double want = 0.0;
            for (int k = 0; k < K; k++) want += (double)a[i / N * K + k] * (double)bt[i % N * K + k];
            if (fabs((double)c[i] - want) > 2e-6) fail_msg("%s: product16[%d] is %.9g, not %.9g", isas[v], i, (double)c[i], want);
            assert_memory_equal(&c[i], &flipped[i % N * M + i / N], sizeof(float));
        }
        ops->product16(c, N, down, 1, M, packed, GF_PANEL, W * GF_PANEL, M, N, W, 1); /* down its columns, accumulating */
        for (int i = 0; i < M * N; i++)
            near((double)c[i], 2.0 * (double)flipped[i % N * M + i / N], 1.0, isas[v], "accumulated", i);
    }
}

TEST(rounding_is_to_the_nearest) {
    float x[64];
    uint16_t halves[64];
    uint32_t words[32];
    rng r = {8};
    for (int i = 0; i < 64; i++) x[i] = (float)(rng_normal(&r) * pow(2.0, 40.0 * rng_uniform(&r) - 20.0));
    x[3] = INFINITY, x[5] = NAN, x[7] = -0.0f, x[9] = 1.00390625f; /* half way: to even */
    for (size_t v = 0; v < sizeof isas / sizeof *isas; v++) {
        const gf_cpu_kernels *kernels = gf_cpu_kernels_find(isas[v]);
        if (!kernels) continue;
        kernels->tile->round(halves, x, 64);
        kernels->tile->words(words, x, x + 32, 32);
        for (int i = 0; i < 64; i++) assert_int_equal(halves[i], gf_bf16_from_float(x[i]));
        for (int i = 0; i < 32; i++) assert_int_equal(words[i], halves[i] | (uint32_t)halves[i + 32] << 16);
    }
}

/* ---- pass B ---- */

typedef struct expected {
    double sum, moment, flagged_s;
    int kept, open, open_le, above;
} expected;

static expected expect_row(const bench *b, int i, int by_column, unsigned flags, double omega) {
    const gf_sum_in *x = by_column ? &b->col : &b->row, *other = by_column ? &b->row : &b->col;
    const int n = by_column ? b->tile.rows : b->tile.cols;
    expected e = {0};
    for (int j = 0; j < n; j++) {
        const float s = by_column ? b->s[j * SIZE + i] : b->s[i * SIZE + j];
        if (isnan(s)) continue;
        const int same = flags & GF_GROUP && x->group[i] >= 0 && x->group[i] == other->group[j];
        const int keep = !(flags & GF_COUNT) || (s <= x->lo[i] && !same),
                  open = flags & GF_COUNT && !same && s > x->lo[i] && s <= x->hi[i];
        const int flag = !keep && !open;
        const double weight = flags & GF_MASK ? keep + (flags & GF_WEIGHT ? omega * flag : 0.0) : 1.0;
        e.sum += weight * exp((double)x->inv_tau[i] * (double)s);
        e.moment += weight * exp((double)x->inv_tau[i] * (double)s) * (double)s;
        e.flagged_s += flag ? (double)s : 0.0;
        e.kept += keep, e.open += open, e.open_le += open && s <= x->mid[i], e.above += s > x->mid[i];
    }
    return e;
}

static void check_stats(const bench *b, const bench *fresh, int rows, int by_column, unsigned flags, double omega,
                        const char *isa) {
    const gf_sum_out *x = by_column ? &b->col_sums : &b->row_sums;
    for (int i = 0; i < rows; i++) {
        const expected e = expect_row(fresh, i, by_column, flags, omega);
        near(x->sum[i] * exp((double)x->peak[i]), e.sum, 0.0, isa, by_column ? "column sum" : "sum", i);
        if (flags & GF_MOMENT) near(x->moment[i] * exp((double)x->peak[i]), e.moment, e.sum, isa, "moment", i);
        if (flags & GF_ATTRACT) near(x->flagged_s[i], e.flagged_s, 1.0, isa, "flagged_s", i);
        if (!(flags & GF_COUNT)) continue;
        assert_int_equal(x->kept[i], e.kept);
        assert_int_equal(x->window_n[i], e.open);
        assert_int_equal(x->window_le[i], e.open_le);
        if (flags & GF_GROUP) assert_int_equal(x->above[i], e.above);
    }
}

TEST(stats_agree_with_plain_loops) {
    const unsigned both[] = {0, GF_MASK | GF_COUNT};
    const unsigned general[] = {0,
                                GF_COUNT,
                                GF_MASK | GF_COUNT,
                                GF_MASK | GF_COUNT | GF_MOMENT,
                                GF_MASK | GF_COUNT | GF_WEIGHT | GF_MOMENT,
                                GF_MASK | GF_COUNT | GF_ATTRACT,
                                GF_MASK | GF_COUNT | GF_GROUP,
                                GF_COUNT | GF_GROUP,
                                GF_MASK | GF_COUNT | GF_SHIFT | GF_MOMENT,
                                GF_MASK | GF_COUNT | GF_SHIFT | GF_WEIGHT | GF_GROUP | GF_ATTRACT};
    for (size_t v = 0; v < sizeof isas / sizeof *isas; v++) {
        const gf_cpu_kernels *kernels = gf_cpu_kernels_find(isas[v]);
        if (!kernels) continue;
        const gf_tile_ops *ops = kernels->tile;
        for (size_t f = 0; f < sizeof both / sizeof *both; f++) {
            bench *b = make(11, both[f]), *fresh = make(11, both[f]);
            static gf_tile_scratch scratch;
            ops->sum_both(&b->tile, &b->row, &b->col, &b->row_sums, &b->col_sums, both[f], CAP, &scratch);
            check_stats(b, fresh, b->tile.rows, 0, both[f], 0.0, isas[v]);
            check_stats(b, fresh, b->tile.cols, 1, both[f], 0.0, isas[v]);
            free(b), free(fresh);
        }
        for (size_t f = 0; f < sizeof general / sizeof *general; f++) {
            bench *b = make(12, general[f]), *fresh = make(12, general[f]);
            ops->sum_rows(&b->tile, &b->row, b->col.group, &b->row_sums, general[f], 0.3f, CAP);
            check_stats(b, fresh, b->tile.rows, 0, general[f], 0.3, isas[v]);
            free(b), free(fresh);
        }
    }
}

/* ---- pass C ---- */

static double weight_of(const gf_grad_in *x, int64_t i, int same, float s, unsigned flags, double omega) {
    const int keep = (s <= x->theta[i] && !same) || s <= x->floor[i];
    const double e = exp((double)x->inv_tau[i] * (double)s + (double)x->log_w[i]);
    if (keep) return e;
    return (flags & GF_WEIGHT ? omega * e : 0.0) - (flags & GF_ATTRACT ? (double)x->attract[i] : 0.0);
}

static void check_weights(const bench *b, const bench *fresh, int col_role, unsigned flags, const char *isa) {
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) {
            const float s = fresh->s[i * SIZE + j];
            double want = 0.0;
            if (!isnan(s)) {
                const int same = flags & GF_GROUP && fresh->row.group[i] >= 0 && fresh->row.group[i] == fresh->col.group[j];
                want = weight_of(&fresh->row_weights, i, same, s, flags, 0.3);
                if (col_role) want += weight_of(&fresh->col_weights, j, same, s, flags, 0.3);
            }
            near((double)b->s[i * SIZE + j], want, 1e-3, isa, "weight", i * SIZE + j);
        }
}

TEST(weights_agree_with_plain_loops) {
    const unsigned sets[] = {GF_MASK, GF_MASK | GF_ATTRACT, GF_MASK | GF_WEIGHT, GF_MASK | GF_GROUP,
                             GF_MASK | GF_GROUP | GF_WEIGHT | GF_ATTRACT};
    for (size_t v = 0; v < sizeof isas / sizeof *isas; v++) {
        const gf_cpu_kernels *kernels = gf_cpu_kernels_find(isas[v]);
        if (!kernels) continue;
        const gf_tile_ops *ops = kernels->tile;
        for (size_t f = 0; f < sizeof sets / sizeof *sets; f++)
            for (int col_role = 0; col_role < 2; col_role++) {
                bench *b = make(13, sets[f]), *fresh = make(13, sets[f]);
                if (sets[f] == GF_MASK) /* the fast kernel knows no floor: it is folded into theta before */
                    for (int i = 0; i < SIZE; i++)
                        b->side[0].floor[i] = b->side[1].floor[i] = fresh->side[0].floor[i] = fresh->side[1].floor[i] = -INFINITY;
                ops->weights(&b->tile, &b->row_weights, &b->col_weights, &b->row_grads, &b->col_grads, col_role, sets[f], 0.3f);
                check_weights(b, fresh, col_role, sets[f], isas[v]);
                free(b), free(fresh);
            }
    }
}

TEST(clean_tiles_need_no_mask) {
    for (size_t v = 0; v < sizeof isas / sizeof *isas; v++) {
        const gf_cpu_kernels *kernels = gf_cpu_kernels_find(isas[v]);
        if (!kernels) continue;
        const gf_tile_ops *ops = kernels->tile;
        bench *b = make(14, 0), *fresh = make(14, 0);
        for (int i = 0; i < SIZE * SIZE; i++)
            if (isnan(b->s[i])) b->s[i] = fresh->s[i] = 0.25f;
        b->tile.rows = b->tile.cols = SIZE, b->tile.dirty = 0;
        for (int i = 0; i < SIZE; i++) fresh->side[0].theta[i] = fresh->side[1].theta[i] = INFINITY;
        ops->weights(&b->tile, &b->row_weights, &b->col_weights, &b->row_grads, &b->col_grads, 1, 0, 0.0f);
        check_weights(b, fresh, 1, 0, isas[v]);
        free(b), free(fresh);
    }
}
