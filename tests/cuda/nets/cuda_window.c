/* cuda_window.c - 3 x 3 convolutions with a batch norm in their epilogue (cunn_window.cu), and the gradient of their weights,
 * against plain loops in double. Limits as in nn_device.h. */
#include "support/test.h"

#include "nn/cuda/cunn_kernels.h"
#include "support/cuda_main.h"
#include "support/nn_device.h"
#include "support/nn_norm.h"
#include "support/nn_reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct sizes {
    int64_t n, h, w, in, out;
    int64_t every; /* of the results, one in `every` pixels is compared; statistics are of all */
} sizes;

static gf_nn_shape shape_of(sizes k) {
    gf_nn_shape s = ref_shape(GF_NN_CONV, GF_TYPE_BF16, k.n, k.h, k.in, k.out, 3, 1, 1);
    s.w = k.w;
    return s;
}

/* One pixel of x [n][h][w][in] convolved with w [out][3][3][in], or, turned, of x [n][h][w][out] with w turned around. */
static void convolve_pixel(double *y, const float *x, const float *w, sizes k, int64_t pixel, int turned) {
    const int64_t image = pixel / (k.h * k.w), row = pixel / k.w % k.h, column = pixel % k.w;
    const int64_t sum = turned ? k.out : k.in, columns = turned ? k.in : k.out;
    for (int64_t c = 0; c < columns; c++) y[c] = 0;
    for (int64_t tap = 0; tap < 9; tap++) {
        const int64_t r = row + tap / 3 - 1, q = column + tap % 3 - 1, as = turned ? 8 - tap : tap;
        if (r < 0 || r >= k.h || q < 0 || q >= k.w) continue;
        const float *from = x + ((image * k.h + r) * k.w + q) * sum;
        for (int64_t j = 0; j < sum; j++)
            for (int64_t c = 0; c < columns; c++)
                y[c] += (double)from[j] * w[turned ? (j * 9 + as) * k.in + c : (c * 9 + as) * k.in + j];
    }
}

/* ----- forward ----------------------------------------------------------------------------------------------------- */

static void compare_forward(const float *have, const float *x, const float *w, sizes k) {
    const int64_t pixels = k.n * k.h * k.w, some = (pixels + k.every - 1) / k.every;
    float *a = malloc(sizeof *a * (size_t)(some * k.out)), *b = malloc(sizeof *b * (size_t)(some * k.out));
    double *y = malloc(sizeof *y * (size_t)k.out);
    for (int64_t i = 0; i < some; i++) {
        convolve_pixel(y, x, w, k, i * k.every, 0);
        for (int64_t c = 0; c < k.out; c++) a[i * k.out + c] = have[i * k.every * k.out + c], b[i * k.out + c] = (float)y[c];
    }
    nn_within("y", a, b, some * k.out, NN_BF16_LIMIT);
    free(a), free(b), free(y);
}

static void check_forward(nn_device *d, sizes k) {
    rng g = {(uint64_t)(k.n + k.in + 3 * k.out)};
    const gf_nn_shape s = shape_of(k);
    const int64_t rows = k.n * k.h * k.w, count = rows * k.out, weights = k.out * 9 * k.in;
    float *x = norm_numbers(&g, rows * k.in, k.in, 0.5f), *w = norm_numbers(&g, weights, k.in, 0.125f);
    gf_nn_norm n = norm_on_device(d, &g, rows, k.out);
    gf_nn_args a = {.x = nn_numbers(d, x, rows * k.in, s.type), .packed = nn_numbers(d, w, weights, s.type), .norm = &n};
    void *first = a.y = nn_take(d, 2 * (size_t)count);
    assert_int_equal(gf_cunn_conv3x3_fits(d->s, &s), 1);
    gf_cunn_conv3x3_forward(d->s, &s, &a);
    float *y = nn_floats(d, a.y, count, s.type);
    compare_forward(y, x, w, k);
    norm_check_statistics(d, &n, y);
    gf_nn_norm again = norm_on_device(d, &g, rows, k.out);
    a.norm = &again, a.y = nn_take(d, 2 * (size_t)count);
    gf_cunn_conv3x3_forward(d->s, &s, &a);
    norm_same_bits(d, first, a.y, 2 * (size_t)count);
    norm_same_bits(d, n.mean, again.mean, 8 * (size_t)k.out); /* and the deviations */
    free(x), free(w), free(y);
    nn_drop(d);
}

/* ----- backward ---------------------------------------------------------------------------------------------------- */

typedef struct back_case {
    sizes k;
    gf_nn_before kind;
    int64_t rows, count;
    float *dy, *w, *other, *x[2], *mean[2], *scale, *shift;
    uint8_t *bits;
} back_case;

static back_case draw_back(rng *g, sizes k, gf_nn_before kind) {
    const int64_t rows = k.n * k.h * k.w, count = rows * k.in;
    back_case b = {.k = k, .kind = kind, .rows = rows, .count = count};
    b.dy = norm_numbers(g, rows * k.out, k.out, 0.25f);
    b.w = nn_draw(g, k.out * 9 * k.in);
    b.other = nn_draw(g, count);
    b.bits = malloc((size_t)(count / 8));
    for (int64_t i = 0; i < count / 8; i++) b.bits[i] = (uint8_t)(rng_next(g) >> 13);
    for (int i = 0; i < 2; i++) b.x[i] = norm_numbers(g, count, k.in, 2.0f), b.mean[i] = nn_draw(g, k.in);
    return b;
}

static void drop_back(back_case *b) {
    free(b->dy), free(b->w), free(b->other), free(b->bits), free(b->scale), free(b->shift);
    for (int i = 0; i < 2; i++) free(b->x[i]), free(b->mean[i]);
}

static int passes(const back_case *b, int64_t i) {
    if (b->kind >= GF_NN_BEFORE_END) return b->bits[i / 8] >> (i % 8) & 1;
    return fmaf(b->scale[i % b->k.in], b->x[0][i], b->shift[i % b->k.in]) > 0.0f;
}

static void compare_g(const back_case *b, const float *have) {
    const sizes k = b->k;
    const int64_t some = (b->rows + k.every - 1) / k.every;
    float *u = malloc(sizeof *u * (size_t)(some * k.in)), *v = malloc(sizeof *v * (size_t)(some * k.in));
    double *y = malloc(sizeof *y * (size_t)k.in);
    for (int64_t i = 0; i < some; i++) {
        convolve_pixel(y, b->dy, b->w, k, i * k.every, 1);
        for (int64_t c = 0; c < k.in; c++) {
            const int64_t at = i * k.every * k.in + c;
            u[i * k.in + c] = have[at];
            v[i * k.in + c] = passes(b, at) ? (float)(y[c] + (b->kind != GF_NN_BEFORE_INNER ? b->other[at] : 0)) : 0.0f;
        }
    }
    nn_within("g", u, v, some * k.in, NN_BF16_LIMIT);
    for (int64_t i = 0; i < b->count; i++)
        if (!passes(b, i)) assert_true(have[i] == 0.0f);
    free(u), free(v), free(y);
}

static void check_backward(nn_device *d, sizes k, gf_nn_before kind) {
    rng g = {(uint64_t)(k.n + 5 * k.in + k.out)};
    const gf_nn_shape s = shape_of(k);
    back_case b = draw_back(&g, k, kind);
    gf_nn_norm n = norm_left(d, &g, b.x[0], b.mean[0], b.rows, k.in), m = norm_left(d, &g, b.x[1], b.mean[1], b.rows, k.in);
    b.scale = nn_floats(d, n.scale, k.in, GF_TYPE_F32), b.shift = nn_floats(d, n.shift, k.in, GF_TYPE_F32);
    n.positive = nn_take(d, (size_t)(b.count / 8));
    nn_send(d, n.positive, b.bits, (size_t)(b.count / 8));
    n.shortcut = kind == GF_NN_BEFORE_PAIR ? &m : NULL;
    n.residual = kind == GF_NN_BEFORE_END ? n.x : NULL; /* not read */
    n.dy = nn_numbers(d, b.other, b.count, s.type);
    gf_nn_args a = {.dy = nn_numbers(d, b.dy, b.rows * k.out, s.type),
                    .packed = nn_numbers(d, b.w, k.out * 9 * k.in, s.type),
                    .before = &n};
    if (kind == GF_NN_BEFORE_INNER) a.dx = n.dy;
    assert_int_equal(gf_cunn_conv3x3_back_fits(d->s, &s, kind), 1);
    gf_cunn_conv3x3_back(d->s, &s, &a);
    float *have = nn_floats(d, n.dy, b.count, s.type);
    compare_g(&b, have);
    norm_check_lines(d, "norm", &n, have, b.x[0], b.mean[0]);
    if (kind == GF_NN_BEFORE_PAIR) norm_check_lines(d, "shortcut", &m, have, b.x[1], b.mean[1]);
    void *first = n.dy;
    float *first_dgamma = n.dgamma;
    n.dy = nn_numbers(d, b.other, b.count, s.type), n.dgamma = nn_take(d, 4 * (size_t)k.in);
    if (kind == GF_NN_BEFORE_INNER) a.dx = n.dy;
    gf_cunn_conv3x3_back(d->s, &s, &a);
    norm_same_bits(d, first, n.dy, 2 * (size_t)b.count);
    norm_same_bits(d, first_dgamma, n.dgamma, 4 * (size_t)k.in);
    free(have);
    drop_back(&b);
    nn_drop(d);
}

/* ----- the gradient of the weights --------------------------------------------------------------------------------- */

static void add_pixel(double *dw, const float *x, const float *dy, sizes k, int64_t pixel) {
    const int64_t image = pixel / (k.h * k.w), row = pixel / k.w % k.h, column = pixel % k.w;
    for (int64_t tap = 0; tap < 9; tap++) {
        const int64_t r = row + tap / 3 - 1, q = column + tap % 3 - 1;
        if (r < 0 || r >= k.h || q < 0 || q >= k.w) continue;
        const float *from = x + ((image * k.h + r) * k.w + q) * k.in;
        for (int64_t o = 0; o < k.out; o++)
            for (int64_t c = 0; c < k.in; c++) dw[(o * 9 + tap) * k.in + c] += (double)dy[pixel * k.out + o] * from[c];
    }
}

static void check_weights(nn_device *d, sizes k) {
    rng g = {(uint64_t)(7 * k.n + k.in + k.h)};
    const gf_nn_shape s = shape_of(k);
    const int64_t rows = k.n * k.h * k.w, count = k.out * 9 * k.in;
    float *x = norm_numbers(&g, rows * k.in, k.in, 0.25f), *dy = norm_numbers(&g, rows * k.out, k.out, 0.125f);
    const size_t scratch = gf_cunn_conv3x3_weights_scratch(d->s, &s);
    assert_true(scratch > 0);
    const gf_nn_args a = {.x = nn_numbers(d, x, rows * k.in, s.type),
                          .dy = nn_numbers(d, dy, rows * k.out, s.type),
                          .scratch = nn_take(d, scratch)};
    void *dw = nn_take(d, 2 * (size_t)count), *again = nn_take(d, 2 * (size_t)count);
    gf_cunn_conv3x3_weights(d->s, &s, &a, dw);
    gf_cunn_conv3x3_weights(d->s, &s, &a, again);
    norm_same_bits(d, dw, again, 2 * (size_t)count);
    double *want = calloc((size_t)count, sizeof *want);
    float *have = nn_floats(d, dw, count, s.type), *as = malloc(sizeof *as * (size_t)count);
    for (int64_t i = 0; i < rows; i++) add_pixel(want, x, dy, k, i);
    for (int64_t i = 0; i < count; i++) as[i] = (float)want[i];
    nn_within("dw", have, as, count, NN_BF16_LIMIT);
    free(x), free(dy), free(want), free(have), free(as);
    nn_drop(d);
}

static void open_device(nn_device *d);

TEST(small_weights) {
    nn_device d;
    open_device(&d);
    check_weights(&d, (sizes){1, 16, 8, 64, 64, 1});
    check_weights(&d, (sizes){2, 28, 16, 64, 64, 1});
    nn_close(&d);
}

TEST(weights_agree) {
    nn_device d;
    open_device(&d);
    check_weights(&d, (sizes){1, 16, 16, 64, 64, 1});
    check_weights(&d, (sizes){3, 48, 40, 64, 64, 1});
    check_weights(&d, (sizes){6, 56, 56, 64, 64, 1});
    check_weights(&d, (sizes){20, 32, 32, 64, 64, 1}); /* more patches than blocks */
    nn_close(&d);
}

/* ----- tests ------------------------------------------------------------------------------------------------------- */

static void open_device(nn_device *d) {
    nn_open_for(d, &gf_nn_backend_cuda, gf_cunn_conv3x3_fits, shape_of((sizes){1, 32, 32, 64, 64, 1}));
}

TEST(small_forward) {
    nn_device d;
    open_device(&d);
    check_forward(&d, (sizes){2, 32, 32, 64, 64, 1});
    check_forward(&d, (sizes){3, 16, 16, 128, 128, 1});
    nn_close(&d);
}

TEST(small_backward) {
    nn_device d;
    open_device(&d);
    check_backward(&d, (sizes){2, 32, 32, 64, 64, 1}, GF_NN_BEFORE_INNER);
    check_backward(&d, (sizes){1, 32, 32, 64, 64, 1}, GF_NN_BEFORE_END);
    check_backward(&d, (sizes){3, 16, 16, 128, 128, 1}, GF_NN_BEFORE_PAIR);
    nn_close(&d);
}

/* Patches of each form, warpgroups without one, rows and columns of several, more patches than blocks, several strips. */
static const sizes shapes[] = {{1, 16, 16, 64, 64, 1},   {3, 32, 8, 64, 64, 1},      {2, 64, 40, 64, 64, 7},
                               {1, 28, 8, 64, 64, 1},    {3, 56, 56, 64, 64, 13},    {80, 32, 32, 64, 64, 59},
                               {1, 16, 16, 128, 128, 1}, {2, 32, 16, 128, 128, 1},   {5, 16, 32, 256, 128, 7},
                               {3, 16, 16, 128, 256, 3}, {150, 16, 16, 128, 128, 61}};

TEST(forward_agrees) {
    nn_device d;
    open_device(&d);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) check_forward(&d, shapes[i]);
    check_forward(&d, (sizes){3, 16, 16, 128, 128, 1});
    nn_close(&d);
}

TEST(backward_agrees) {
    nn_device d;
    open_device(&d);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int kind = GF_NN_BEFORE_INNER; kind <= GF_NN_BEFORE_PAIR; kind++) {
            if (kind == GF_NN_BEFORE_PAIR && shapes[i].in == 64) continue;
            if (kind != GF_NN_BEFORE_INNER && shapes[i].h % 28 == 0) continue;
            check_backward(&d, shapes[i], (gf_nn_before)kind);
        }
    check_backward(&d, (sizes){3, 16, 16, 128, 128, 1}, GF_NN_BEFORE_END);
    nn_close(&d);
}

TEST(other_shapes_are_refused) {
    nn_device d;
    open_device(&d);
    const sizes right = {2, 32, 32, 64, 64, 1};
    const sizes wrong[] = {{2, 32, 32, 32, 64, 1}, {2, 32, 32, 64, 192, 1}, {2, 32, 32, 128, 64, 1},  {2, 32, 32, 64, 32, 1},
                           {2, 28, 28, 64, 64, 1}, {2, 8, 8, 64, 64, 1},    {2, 56, 56, 128, 128, 1}, {2, 32, 12, 64, 64, 1}};
    gf_nn_shape s = shape_of(right);
    assert_int_equal(gf_cunn_conv3x3_back_fits(d.s, &s, GF_NN_BEFORE_END), 1);
    assert_int_equal(gf_cunn_conv3x3_back_fits(d.s, &s, GF_NN_BEFORE_NONE), 0);
    assert_int_equal(gf_cunn_conv3x3_back_fits(d.s, &s, GF_NN_BEFORE_PAIR), 0); /* of 64 columns */
    s.stride = 2;
    assert_int_equal(gf_cunn_conv3x3_fits(d.s, &s), 0);
    s = shape_of(right), s.type = GF_TYPE_F32;
    assert_int_equal(gf_cunn_conv3x3_fits(d.s, &s), 0);
    s = shape_of(right), s.kernel = 1, s.pad = 0;
    assert_int_equal(gf_cunn_conv3x3_fits(d.s, &s), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        s = shape_of(wrong[i]);
        assert_int_equal(gf_cunn_conv3x3_fits(d.s, &s), 0);
    }
    nn_close(&d);
}

TEST_NEEDS(no_cuda_device)
