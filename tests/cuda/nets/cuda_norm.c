/* cuda_norm.c - batch norms that CUDA does together with their neighbours, against the CPU doing one after the other: with the
 * batch norm of a shortcut, and all of a norm in one launch with parts of its rows kept on the chip. Errors and
 * limits as in nn_device.h.
 *
 * The limits see a mistake of one line: with `mean[0]` instead of `mean[1]` in the third sum of sum_both
 * (cunn_norm_whole_pair.cu), or without `coef.y` in set_coefs (cunn_norm_whole_back.cu), whole norms no longer agree.
 */
#include "support/test.h"

#include "nn/cuda/cunn_kernels.h"
#include "support/cuda_main.h"
#include "support/nn_device.h"
#include "support/nn_reference.h"
#include "util/dtype.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef GF_HAVE_DNNL

static const gf_nn_backend *const cpu = &gf_nn_backend_cpu, *const cuda = &gf_nn_backend_cuda;

/* ----- norms on a device ------------------------------------------------------------------------------------------- */

typedef struct inputs { /* [2]: of the norm, of its shortcut */
    float *x[2], *gamma[2], *beta[2], *dy, *dy2;
} inputs;

static inputs draw(uint64_t seed, int64_t count, int64_t c, int64_t out) {
    rng g = {seed};
    inputs in;
    for (int k = 0; k < 2; k++) {
        in.x[k] = nn_draw(&g, count), in.gamma[k] = nn_draw(&g, c), in.beta[k] = nn_draw(&g, c);
        for (int64_t i = 0; i < count; i++)
            in.x[k][i] = gf_bf16_to_float(gf_bf16_from_float(in.x[k][i] + (float)((i + k) % c % 5) * 2.0f));
    }
    in.dy = nn_draw(&g, out), in.dy2 = nn_draw(&g, out);
    return in;
}

static void drop_inputs(inputs *in) {
    for (int k = 0; k < 2; k++) free(in->x[k]), free(in->gamma[k]), free(in->beta[k]);
    free(in->dy), free(in->dy2);
}

static float *filled(nn_device *d, int64_t c, float value) {
    float *x = malloc(sizeof *x * (size_t)c);
    for (int64_t i = 0; i < c; i++) x[i] = value;
    float *p = nn_numbers(d, x, c, GF_TYPE_F32);
    free(x);
    return p;
}

/* Without residual and gradients. */
static gf_nn_norm norm_on(nn_device *d, const inputs *in, int which, int64_t rows, int64_t c, gf_type type) {
    float *saved = nn_take(d, 16 * (size_t)c);
    return (gf_nn_norm){.type = type,
                        .rows = rows,
                        .c = c,
                        .x = nn_numbers(d, in->x[which], rows * c, type),
                        .y = nn_take(d, gf_type_bytes[type] * (size_t)(rows * c)),
                        .gamma = nn_numbers(d, in->gamma[which], c, GF_TYPE_F32),
                        .beta = nn_numbers(d, in->beta[which], c, GF_TYPE_F32),
                        .running_mean = filled(d, c, 0.0f),
                        .running_var = filled(d, c, 1.0f),
                        .mean = saved,
                        .istd = saved + c,
                        .scale = saved + 2 * c,
                        .shift = saved + 3 * c,
                        .sums = nn_take(d, 16 * (size_t)c),
                        .coef = nn_take(d, 8 * (size_t)c),
                        .scratch = nn_take(d, d->b->norm_scratch(rows, c)),
                        .dx = nn_take(d, gf_type_bytes[type] * (size_t)(rows * c)),
                        .dgamma = nn_take(d, 4 * (size_t)c),
                        .dbeta = nn_take(d, 4 * (size_t)c)};
}

static void stats(nn_device *d, const gf_nn_norm *n) {
    d->b->norm_sums(d->s, n);
    d->b->norm_finish(d->s, n, (double)n->rows);
}

static void back_parts(nn_device *d, const gf_nn_norm *n) {
    d->b->norm_back_sums(d->s, n);
    d->b->norm_back_finish(d->s, n, (double)n->rows);
    d->b->norm_back_apply(d->s, n);
}

enum { Y, DX, DX2, DGAMMA, DBETA, DGAMMA2, DBETA2, MEAN, VAR, RESULTS };
static const char *const names[RESULTS] = {"y",       "dx",     "dx2",          "dgamma",          "dbeta",
                                           "dgamma2", "dbeta2", "running mean", "running variance"};

static void collect(nn_device *d, const gf_nn_norm *n, const gf_nn_norm *m, float *out[RESULTS]) {
    const float *const lines[] = {n->dgamma, n->dbeta, m->dgamma, m->dbeta, n->running_mean, n->running_var};
    out[DX] = nn_floats(d, n->dx, n->rows * n->c, n->type);
    out[DX2] = m->dx ? nn_floats(d, m->dx, n->rows * n->c, n->type) : NULL;
    for (int i = DGAMMA; i < RESULTS; i++) out[i] = lines[i - DGAMMA] ? nn_floats(d, lines[i - DGAMMA], n->c, GF_TYPE_F32) : NULL;
}

static void compare(const char *what, float *have[RESULTS], float *want[RESULTS], int64_t out, int64_t count, int64_t c,
                    double limit) {
    for (int i = 0; i < RESULTS; i++) {
        char text[160];
        const int sum = i >= DGAMMA && i <= DBETA2 && limit > NN_FP32_LIMIT; /* of rounded numbers of both signs */
        snprintf(text, sizeof text, "%s %s", what, names[i]);
        if (want[i] && have[i]) nn_within(text, have[i], want[i], i == Y ? out : i <= DX2 ? count : c, sum ? 4 * limit : limit);
        free(want[i]), free(have[i]);
    }
}

/* ----- with a shortcut --------------------------------------------------------------------------------------------- */

enum { APART, TOGETHER, RANKS, IN_ONE }; /* the shortcut's output written; never; never, but backward one after the other */

static void run_pair(nn_device *d, const inputs *in, int64_t rows, int64_t c, gf_type type, int second, int how,
                     float *out[RESULTS]) {
    const int64_t count = rows * c;
    gf_nn_norm n = norm_on(d, in, 0, rows, c, type), m = norm_on(d, in, 1, rows, c, type);
    n.relu = 1;
    n.dy = nn_numbers(d, in->dy, count, type);
    n.dy2 = second ? nn_numbers(d, in->dy2, count, type) : NULL;
    m.dy = m.dx = n.dy; /* as nets have it */
    if (d->b->norm_bits && d->b->norm_bits(type, rows, c)) n.positive = nn_take(d, d->b->norm_bits(type, rows, c));
    stats(d, &m);
    stats(d, &n);
    if (how == APART) d->b->norm_apply(d->s, &m), n.residual = m.y;
    else n.shortcut = &m;
    d->b->norm_apply(d->s, &n);
    out[Y] = nn_floats(d, n.y, count, type);
    if (how == IN_ONE) assert_int_equal(gf_cunn_norm_pair_back_whole(d->s, &n), 1);
    else if (how == TOGETHER) d->b->norm_backward(d->s, &n);
    else back_parts(d, &n), back_parts(d, &m);
    collect(d, &n, &m, out);
}

static void compare_pair(nn_device *host, nn_device *gpu, int64_t rows, int64_t c, gf_type type, int second, int how) {
    inputs in = draw((uint64_t)(rows + c), rows * c, c, rows * c);
    float *want[RESULTS], *have[RESULTS];
    char what[96];
    snprintf(what, sizeof what, "shortcut %lldx%lld %s", (long long)rows, (long long)c, type == GF_TYPE_BF16 ? "bf16" : "f32");
    run_pair(host, &in, rows, c, GF_TYPE_F32, second, APART, want);
    run_pair(gpu, &in, rows, c, type, second, how, have);
    compare(what, have, want, rows * c, rows * c, c, type == GF_TYPE_BF16 ? NN_BF16_LIMIT : NN_FP32_LIMIT);
    nn_drop(host), nn_drop(gpu);
    drop_inputs(&in);
}

TEST(shortcuts_agree) {
    static const int64_t shapes[][2] = {{1000, 256}, {4096, 64}, {100, 24}, {33, 5}, {300, 320}, {9, 64}, {50, 96}};
    nn_device host = nn_open(cpu, 1), gpu = nn_open(cuda, 1);
    const int blocks = gpu.s->team_blocks;
    const size_t shared = gpu.s->team_shared;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int k = 0; k < 6; k++) { /* the last two: backward in two launches; in one, with rows that are read again */
            gpu.s->team_blocks = k == 4 ? 0 : k == 5 ? 3 : blocks;
            gpu.s->team_shared = k == 5 ? 40960 : shared;
            compare_pair(&host, &gpu, shapes[i][0], shapes[i][1], k % 2 || k == 4 ? GF_TYPE_BF16 : GF_TYPE_F32,
                         (int)((i + (size_t)k) % 3 > 0),
                         k / 2 == 1                        ? RANKS
                         : k == 5 && shapes[i][1] % 8 == 0 ? IN_ONE
                                                           : TOGETHER);
        }
    nn_close(&host), nn_close(&gpu);
}

/* ----- in one launch ----------------------------------------------------------------------------------------------- */

typedef struct whole_case {
    int64_t rows, c;
    int relu, residual, second;
    int blocks;    /* that run at once; 0: as many as the device has */
    size_t shared; /* bytes of each */
} whole_case;

static void run_whole(nn_device *d, const inputs *in, const whole_case *k, gf_type type, float *out[RESULTS]) {
    const int64_t count = k->rows * k->c;
    gf_nn_norm n = norm_on(d, in, 0, k->rows, k->c, type), m = {0};
    n.relu = k->relu;
    n.residual = k->residual ? nn_numbers(d, in->x[1], count, type) : NULL;
    n.dy = nn_numbers(d, in->dy, count, type);
    n.dy2 = k->second ? nn_numbers(d, in->dy2, count, type) : NULL;
    if (k->residual) m.dx = n.dy; /* the gradient of the residual */
    else n.dx = n.dy;
    if (d->b->norm_bits && k->relu && k->residual) n.positive = nn_take(d, d->b->norm_bits(type, k->rows, k->c));
    if (d->b->norm_forward) {
        if (k->blocks) d->s->team_blocks = k->blocks, d->s->team_shared = k->shared;
        assert_int_equal(gf_cunn_norm_forward_whole(d->s, &n), 1);
        out[Y] = nn_floats(d, n.y, count, type);
        assert_int_equal(gf_cunn_norm_backward_whole(d->s, &n), 1);
    } else {
        stats(d, &n);
        d->b->norm_apply(d->s, &n);
        out[Y] = nn_floats(d, n.y, count, type);
        back_parts(d, &n);
    }
    collect(d, &n, &m, out);
}

static void compare_whole(nn_device *host, nn_device *gpu, const whole_case *k) {
    inputs in = draw((uint64_t)(k->rows + k->c), k->rows * k->c, k->c, k->rows * k->c);
    float *want[RESULTS], *first[RESULTS];
    char what[96];
    snprintf(what, sizeof what, "whole %lldx%lld of %d blocks", (long long)k->rows, (long long)k->c, k->blocks);
    run_whole(host, &in, k, GF_TYPE_F32, want);
    for (int repeat = 0; repeat < 3; repeat++) { /* same inputs, same bits */
        float *have[RESULTS];
        run_whole(gpu, &in, k, GF_TYPE_BF16, repeat ? have : first);
        for (int i = 0; i < RESULTS && repeat; i++) {
            if (have[i]) assert_memory_equal(have[i], first[i], sizeof(float) * (size_t)(i <= DX2 ? k->rows * k->c : k->c));
            free(have[i]);
        }
        nn_drop(gpu);
    }
    compare(what, first, want, k->rows * k->c, k->rows * k->c, k->c, NN_BF16_LIMIT);
    nn_drop(host);
    drop_inputs(&in);
}

/* Few blocks with little shared memory: several tiles per team, and rows that are read again. */
TEST(small_teams_agree) {
    static const whole_case cases[] = {{600, 64, 1, 0, 0, 2, 24576},   {600, 128, 1, 1, 1, 3, 24576},
                                       {1000, 256, 1, 1, 0, 4, 32768}, {700, 64, 1, 0, 1, 1, 24576},
                                       {513, 8, 0, 0, 0, 2, 24576},    {2000, 24, 1, 0, 1, 2, 24576},
                                       {5000, 32, 1, 1, 1, 5, 40960},  {5, 64, 1, 0, 0, 4, 32768},
                                       {257, 512, 0, 1, 1, 8, 32768}};
    nn_device host = nn_open(cpu, 1), gpu = nn_open(cuda, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) compare_whole(&host, &gpu, &cases[i]);
    nn_close(&host), nn_close(&gpu);
}

TEST(whole_norms_agree) {
    static const whole_case cases[] = {{130000, 64, 1, 1, 1, 0, 0},
                                       {130000, 64, 1, 0, 1, 0, 0},
                                       {20000, 512, 1, 0, 0, 0, 0},
                                       {9000, 1024, 1, 1, 1, 0, 0},
                                       {777, 2048, 0, 0, 0, 0, 0}};
    nn_device host = nn_open(cpu, 1), gpu = nn_open(cuda, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) compare_whole(&host, &gpu, &cases[i]);
    nn_close(&host), nn_close(&gpu);
}

/* cuda_norm [PATTERN]: only tests whose name fits it. */
TEST_NEEDS(no_cuda_device)

#else
TEST_SKIP("built without oneDNN, which the device is compared with")
#endif
