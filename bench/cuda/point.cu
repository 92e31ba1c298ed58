/* point.cu - time of convolutions with a part of a batch norm in their epilogue on this GPU, beside cuDNN's and whole norms.
 *
 *     build/bench/cuda/point [NET [RUNS]]                                                default: resnet50 20
 *
 * NET: resnet50, shapes of ResNet-50 at 224 pixels with 256 views; resnet18, of ResNet-18 at 32 pixels with 512. forward:
 * convolution and batch norm, with the residual at the end of a block. inner, other, end, pair: gradient of the input of a
 * convolution, and backward of the batch norm before (gf_nn_before). Before: cuDNN's convolution + the norm; now: convolution
 * with sums + the rest of the norm. Median milliseconds, and TFLOP/s and TB/s of the bytes that the convolution with sums must
 * move. Results are compared in tests/cuda/nets.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "util/status.h"
}
#include "nn/cuda/cunn_kernels.h"

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

static void run_norm(bench *t, int kind, int rest) {
    t->n.summed = t->n.back_summed = rest;
    t->n.dy2 = kind > GF_NN_BEFORE_INNER && !rest ? t->a.dx : NULL;
    (kind ? gf_cunn_norm_backward : gf_cunn_norm_forward)(t->s, &t->n);
}

static void once(bench *t, int way, int kind) {
    gf_error err = {""};
    glofnd_status status = GLOFND_OK;
    if (way == NORM || way == REST) run_norm(t, kind, way == REST);
    else if (way == CONV) status = kind ? gf_cunn_conv_back_data(&err, t->op, &t->a) : t->b->op_forward(&err, t->op, &t->a);
    else if (kind) gf_cunn_conv_back_norm(t->op, &t->fused);
    else status = t->b->op_forward(&err, t->op, &t->fused);
    if (status != GLOFND_OK) die("convolution", err.text);
}

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

static float median(bench *t, int way, int kind) {
    cudaStream_t stream = (cudaStream_t)t->b->stream(t->s);
    cudaEvent_t from, to;
    float ms[64];
    gf_error err = {""};
    must(cudaEventCreate(&from)), must(cudaEventCreate(&to));
    for (int i = -3; i < t->runs; i++) {
        must(cudaEventRecord(from, stream));
        once(t, way, kind);
        must(cudaEventRecord(to, stream));
        must(cudaEventSynchronize(to));
        if (i >= 0) must(cudaEventElapsedTime(&ms[i], from, to));
    }
    must(cudaEventDestroy(from)), must(cudaEventDestroy(to));
    if (t->b->wait(&err, t->s) != GLOFND_OK) die("work", err.text);
    qsort(ms, (size_t)t->runs, sizeof *ms, by_value);
    return ms[t->runs / 2];
}

static void print_row(const char *what, const gf_nn_shape *s, const float ms[WAYS], double bytes) {
    const float before = ms[CONV] + ms[NORM], after = ms[FUSED] + ms[REST];
    const double flop = 2.0 * (double)(s->n * s->h * s->w) * (double)(s->in * s->out * s->kernel * s->kernel);
    printf("%-8s %3lld px k%d %4lld, %4lld  %.4f + %.4f = %.4f  now %.4f + %.4f = %.4f  saved %+.4f  %4.0f to %4.0f TFLOP/s  "
           "%.2f TB/s\n",
           what, (long long)s->h, s->kernel, (long long)s->in, (long long)s->out, ms[CONV], ms[NORM], before, ms[FUSED], ms[REST],
           after, before - after, flop / ms[CONV] * 1e-9, flop / ms[FUSED] * 1e-9, bytes / ms[FUSED] * 1e-9);
}

typedef struct row {
    int size, in, out, kernel, kind; /* kind: 0 forward, else gf_nn_before */
} row;

static int fits(gf_nn_engine *s, const gf_nn_shape *shape, int kind) {
    if (shape->kernel == 1) return kind ? gf_cunn_conv1x1_back_fits(s, shape) : gf_cunn_conv1x1_fits(s, shape);
    return kind ? gf_cunn_conv3x3_back_fits(s, shape, (gf_nn_before)kind) : gf_cunn_conv3x3_fits(s, shape);
}

static void set_back(bench *t, int kind, int64_t rows, int64_t c) {
    t->n.x = random_bytes(t, 2 * (size_t)(rows * c)), t->m.x = random_bytes(t, 2 * (size_t)(rows * c));
    t->n.dy = t->m.dx = random_bytes(t, 2 * (size_t)(rows * c)), t->n.dx = t->n.y;
    if (kind == GF_NN_BEFORE_PAIR) t->n.shortcut = &t->m;
    if (kind == GF_NN_BEFORE_END) t->n.residual = random_bytes(t, 2 * (size_t)(rows * c));
    if (kind == GF_NN_BEFORE_INNER) t->fused.dx = t->n.dy;
    else t->fused.dx = NULL;
    t->fused.before = &t->n;
}

static void time_shape(gf_nn_engine *engine, int64_t images, row r, int runs) {
    static const char *const names[] = {"forward", "inner", "other", "end", "pair"};
    static const double bytes[] = {2, 4, 6, 6.125, 8.125};
    gf_error err = {""};
    gf_nn_sizes sizes;
    bench t;
    float ms[WAYS];
    memset(&t, 0, sizeof t);
    t.b = &gf_nn_backend_cuda, t.s = engine, t.runs = runs;
    gf_nn_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.kind = GF_NN_CONV, shape.type = GF_TYPE_BF16, shape.n = images, shape.h = shape.w = r.size, shape.in = r.in;
    shape.out = r.out, shape.kernel = r.kernel, shape.pad = r.kernel / 2, shape.stride = shape.training = shape.input_grad = 1;
    if (!fits(engine, &shape, r.kind)) {
        printf("%-8s %d px, %d, %d: not of this shape\n", names[r.kind], r.size, r.in, r.out);
        return;
    }
    if (t.b->op_create(&err, t.s, &shape, &sizes, &t.op) != GLOFND_OK) die("convolution", err.text);
    const int64_t rows = images * r.size * r.size, c = r.kind ? r.in : r.out;
    t.a.x = random_bytes(&t, 2 * (size_t)(rows * r.in)), t.a.dx = random_bytes(&t, 2 * (size_t)(rows * r.in));
    t.a.y = random_bytes(&t, 2 * (size_t)(rows * r.out)), t.a.dy = random_bytes(&t, 2 * (size_t)(rows * r.out));
    t.a.packed = random_bytes(&t, sizes.packed), t.a.scratch = take(&t, sizes.scratch);
    t.n = norm_of(&t, rows, c), t.m = norm_of(&t, rows, c);
    t.fused = t.a;
    t.n.x = t.a.y, t.n.y = random_bytes(&t, 2 * (size_t)(rows * c));
    t.n.positive = (uint8_t *)random_bytes(&t, (size_t)(rows * c / 8));
    if (r.kind) {
        set_back(&t, r.kind, rows, c);
    } else {
        if (r.out > r.in) t.n.residual = random_bytes(&t, 2 * (size_t)(rows * c));
        t.fused.norm = &t.n;
    }
    for (int way = 0; way < WAYS; way++) ms[way] = median(&t, way, r.kind);
    print_row(names[r.kind], &shape, ms, 2.0 * (double)(rows * (r.kind ? r.out : r.in)) + (double)(rows * c) * bytes[r.kind]);
    for (int i = 0; i < t.count; i++) t.b->release(t.s, t.taken[i]);
}

static const row resnet50[] = {
    {56, 64, 64, 1, 0},    {56, 64, 256, 1, 0},  {56, 256, 64, 1, 0},   {56, 256, 128, 1, 0},  {28, 128, 512, 1, 0},
    {28, 512, 128, 1, 0},  {28, 512, 256, 1, 0}, {14, 256, 1024, 1, 0}, {14, 1024, 256, 1, 0}, {7, 512, 2048, 1, 0},
    {56, 256, 64, 1, 3},   {56, 256, 128, 1, 3}, {28, 512, 128, 1, 3},  {28, 512, 256, 1, 3},  {14, 1024, 256, 1, 3},
    {14, 1024, 512, 1, 3}, {7, 2048, 512, 1, 3}, {56, 256, 64, 1, 4},   {28, 512, 128, 1, 4},  {14, 1024, 256, 1, 4},
    {7, 2048, 512, 1, 4},  {56, 64, 64, 3, 0},   {56, 64, 64, 3, 1},
};
static const row resnet18[] = {
    {32, 64, 64, 3, 0},   {32, 64, 64, 3, 1},   {32, 64, 64, 3, 2},   {32, 64, 64, 3, 3},
    {16, 128, 128, 3, 0}, {16, 128, 128, 3, 1}, {16, 128, 128, 3, 3}, {16, 128, 128, 3, 4},
};

int main(int argc, char **argv) {
    const int small = argc > 1 && strcmp(argv[1], "resnet18") == 0;
    const int runs = argc > 2 ? atoi(argv[2]) : 20;
    if (runs < 1 || runs > 64 || (argc > 1 && !small && strcmp(argv[1], "resnet50") != 0))
        die("usage", "point [resnet50|resnet18 [RUNS]], RUNS up to 64");
    gf_error err = {""};
    gf_nn_engine *engine = NULL;
    gf_nn_mode mode;
    memset(&mode, 0, sizeof mode);
    mode.deterministic = 1;
    if (gf_nn_backend_cuda.open(&err, 0, &engine) != GLOFND_OK || gf_nn_backend_cuda.configure(&err, engine, &mode) != GLOFND_OK)
        die("device", err.text);
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("         window, channels in and out: convolution + batch norm, ms");
    const row *rows = small ? resnet18 : resnet50;
    const size_t count = small ? sizeof resnet18 / sizeof *resnet18 : sizeof resnet50 / sizeof *resnet50;
    for (size_t i = 0; i < count; i++) time_shape(engine, small ? 512 : 256, rows[i], runs);
    gf_nn_backend_cuda.close(engine);
    return 0;
}
