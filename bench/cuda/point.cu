/* point.cu - time of 1 x 1 convolutions with a part of a batch norm in their epilogue on this GPU, beside cuDNN's and whole
 * norms.
 *
 *     build/bench/cuda/point [IMAGES [RUNS]]                                                         default: 256 20
 *
 * The shapes of ResNet-50 at 224 pixels. forward: convolution and batch norm, with the residual at the end of a block. back:
 * gradient of the input of a block's first convolution, and backward of the batch norm before, which ends a block; pair: one
 * with a shortcut. Before: cuDNN's convolution + the norm; now: convolution with sums + the rest of the norm. Median
 * milliseconds, and TB/s of the bytes that the convolution with sums must move. Results are compared in
 * tests/cuda/nets/cuda_point.c.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "util/status.h"
}
#include "cuda/nn/cunn.h"

static void die(const char *what, const char *why) {
    fprintf(stderr, "point: %s: %s\n", what, why);
    exit(1);
}

static void must(cudaError_t e) {
    if (e != cudaSuccess) die("CUDA", cudaGetErrorString(e));
}

typedef struct bench {
    const gf_nn_backend *b;
    gf_nn_engine *s;
    gf_nn_op *op;
    gf_nn_args a, fused;
    gf_nn_norm n, m;
    int runs;
    void *taken[64];
    int count;
} bench;

static void *take(bench *t, size_t bytes) {
    void *p = t->b->alloc(t->s, bytes);
    if (!p) die("memory", "none left");
    return t->taken[t->count++] = p;
}

static void *random_bytes(bench *t, size_t bytes) {
    void *p = take(t, bytes);
    gf_cunn_noise(t->s, p, bytes);
    return p;
}

static float *ones(bench *t, int64_t c) {
    float *p = (float *)take(t, 4 * (size_t)c), *x = (float *)malloc(4 * (size_t)c);
    for (int64_t i = 0; i < c; i++) x[i] = 1.0f;
    must(cudaDeviceSynchronize());
    must(cudaMemcpy(p, x, 4 * (size_t)c, cudaMemcpyHostToDevice));
    free(x);
    return p;
}

static gf_nn_norm norm_of(bench *t, int64_t rows, int64_t c) {
    gf_nn_norm n;
    memset(&n, 0, sizeof n);
    n.type = GF_TYPE_BF16, n.rows = rows, n.c = c, n.relu = 1;
    n.gamma = ones(t, c), n.beta = ones(t, c), n.running_mean = ones(t, c), n.running_var = ones(t, c);
    n.mean = ones(t, c), n.istd = ones(t, c), n.scale = ones(t, c), n.shift = ones(t, c);
    n.sums = (double *)take(t, 16 * (size_t)c), n.coef = (float *)take(t, 8 * (size_t)c);
    n.dgamma = ones(t, c), n.dbeta = ones(t, c);
    n.scratch = take(t, t->b->norm_scratch(rows, c));
    return n;
}

enum { CONV, NORM, FUSED, REST, WAYS };

static void run_norm(bench *t, int back, int rest) {
    t->n.summed = t->n.back_summed = rest;
    t->n.dy2 = back && !rest ? t->a.dx : NULL;
    (back ? gf_cunn_norm_backward : gf_cunn_norm_forward)(t->s, &t->n);
}

static void once(bench *t, int way, int back) {
    gf_error err = {""};
    glofnd_status status = GLOFND_OK;
    if (way == NORM || way == REST) run_norm(t, back, way == REST);
    else if (way == FUSED) (back ? gf_cunn_point_back : gf_cunn_point_forward)(t->s, &t->op->shape, &t->fused);
    else status = back ? gf_cunn_conv_back_data(&err, t->op, &t->a) : t->b->op_forward(&err, t->op, &t->a);
    if (status != GLOFND_OK) die("convolution", err.text);
}

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

static float median(bench *t, int way, int back) {
    cudaStream_t stream = (cudaStream_t)t->b->stream(t->s);
    cudaEvent_t from, to;
    float ms[64];
    gf_error err = {""};
    must(cudaEventCreate(&from)), must(cudaEventCreate(&to));
    for (int i = -3; i < t->runs; i++) {
        must(cudaEventRecord(from, stream));
        once(t, way, back);
        must(cudaEventRecord(to, stream));
        must(cudaEventSynchronize(to));
        if (i >= 0) must(cudaEventElapsedTime(&ms[i], from, to));
    }
    must(cudaEventDestroy(from)), must(cudaEventDestroy(to));
    if (t->b->wait(&err, t->s) != GLOFND_OK) die("work", err.text);
    qsort(ms, (size_t)t->runs, sizeof *ms, by_value);
    return ms[t->runs / 2];
}

static void print_row(const char *what, int64_t rows, int64_t in, int64_t out, const float ms[WAYS], double bytes) {
    const float before = ms[CONV] + ms[NORM], after = ms[FUSED] + ms[REST];
    printf("%-8s %7lld x %4lld -> %4lld  %.4f + %.4f = %.4f  now %.4f + %.4f = %.4f  saved %+.4f  %.2f TB/s\n", what,
           (long long)rows, (long long)in, (long long)out, ms[CONV], ms[NORM], before, ms[FUSED], ms[REST], after, before - after,
           bytes / ms[FUSED] * 1e-9);
}

/* kind: 0 forward, 1 back, 2 back with a shortcut. */
static void time_shape(gf_nn_engine *engine, int64_t images, int size, int64_t in, int64_t out, int kind, int runs) {
    static const char *const names[] = {"forward", "back", "pair"};
    gf_error err = {""};
    gf_nn_sizes sizes;
    bench t;
    float ms[WAYS];
    memset(&t, 0, sizeof t);
    t.b = &gf_nn_backend_cuda, t.s = engine, t.runs = runs;
    gf_nn_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.kind = GF_NN_CONV, shape.type = GF_TYPE_BF16, shape.n = images, shape.h = shape.w = size, shape.in = in,
    shape.out = out;
    shape.kernel = shape.stride = 1, shape.training = shape.input_grad = 1;
    if (!(kind ? gf_cunn_point_back_fits : gf_cunn_point_fits)(engine, &shape)) {
        printf("%-8s %d x %d, %lld -> %lld: not of this shape\n", names[kind], size, size, (long long)in, (long long)out);
        return;
    }
    if (t.b->op_create(&err, t.s, &shape, &sizes, &t.op) != GLOFND_OK) die("convolution", err.text);
    const int64_t rows = images * size * size, c = kind ? in : out;
    t.a.x = random_bytes(&t, 2 * (size_t)(rows * in)), t.a.dx = random_bytes(&t, 2 * (size_t)(rows * in));
    t.a.y = random_bytes(&t, 2 * (size_t)(rows * out)), t.a.dy = random_bytes(&t, 2 * (size_t)(rows * out));
    t.a.packed = random_bytes(&t, sizes.packed), t.a.scratch = take(&t, sizes.scratch);
    t.n = norm_of(&t, rows, c), t.m = norm_of(&t, rows, c);
    t.fused = t.a;
    t.n.x = t.a.y, t.n.y = random_bytes(&t, 2 * (size_t)(rows * c));
    t.n.positive = (uint8_t *)random_bytes(&t, (size_t)(rows * c / 8));
    if (kind || out > in) t.n.residual = random_bytes(&t, 2 * (size_t)(rows * c));
    if (kind) {
        t.n.x = random_bytes(&t, 2 * (size_t)(rows * c)), t.m.x = random_bytes(&t, 2 * (size_t)(rows * c));
        t.n.dy = t.m.dx = random_bytes(&t, 2 * (size_t)(rows * c)), t.n.dx = t.n.y;
        if (kind == 2) t.n.shortcut = &t.m, t.n.residual = NULL;
        t.fused.before = &t.n;
    } else {
        t.fused.norm = &t.n;
    }
    for (int way = 0; way < WAYS; way++) ms[way] = median(&t, way, kind > 0);
    const double numbers = (double)(rows * c), other = (double)(rows * (kind ? out : in));
    print_row(names[kind], rows, kind ? out : in, c, ms, 2 * other + numbers * (kind == 0 ? 2 : kind == 1 ? 6.125 : 8.125));
    for (int i = 0; i < t.count; i++) t.b->release(t.s, t.taken[i]);
}

int main(int argc, char **argv) {
    static const int shapes[][4] = {/* size, in, out, kind */
                                    {56, 64, 64, 0},    {56, 64, 256, 0},  {56, 256, 64, 0},   {56, 256, 128, 0},
                                    {28, 128, 512, 0},  {28, 512, 128, 0}, {28, 512, 256, 0},  {14, 256, 1024, 0},
                                    {14, 1024, 256, 0}, {7, 512, 2048, 0}, {56, 256, 64, 1},   {56, 256, 128, 1},
                                    {28, 512, 128, 1},  {28, 512, 256, 1}, {14, 1024, 256, 1}, {14, 1024, 512, 1},
                                    {7, 2048, 512, 1},  {56, 256, 64, 2},  {28, 512, 128, 2},  {14, 1024, 256, 2},
                                    {7, 2048, 512, 2}};
    const int64_t images = argc > 1 ? atoll(argv[1]) : 256;
    const int runs = argc > 2 ? atoi(argv[2]) : 20;
    if (images < 1 || runs < 1 || runs > 64) die("usage", "point [IMAGES [RUNS]], RUNS up to 64");
    gf_error err = {""};
    gf_nn_engine *engine = NULL;
    gf_nn_mode mode;
    memset(&mode, 0, sizeof mode);
    mode.deterministic = 1;
    if (gf_nn_backend_cuda.open(&err, 0, &engine) != GLOFND_OK || gf_nn_backend_cuda.configure(&err, engine, &mode) != GLOFND_OK)
        die("device", err.text);
    puts("         rows x numbers summed -> columns: convolution + batch norm, ms");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        time_shape(engine, images, shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3], runs);
    gf_nn_backend_cuda.close(engine);
    return 0;
}
