/* step.cu - how long a whole step takes through the public API on this GPU: loss, gradients, thresholds, moving averages.
 *
 *     build/bench/cuda/step [DIM [MATH]]       default: 128 auto
 *
 * SogCLR, two views, recorded as a graph and replayed; median, least and largest of the replays, and the workspace. "plain": the
 * same step queued call by call. `none` against `glofnd` is what the thresholds cost.
 */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "glofnd.h"

enum { ANCHORS = 1 << 20, RUNS = 15 };

static void must(int ok, const char *what, const char *why) {
    if (ok) return;
    fprintf(stderr, "step: %s: %s\n", what, why);
    exit(1);
}

#define CUDA(call) must((call) == cudaSuccess, #call, cudaGetErrorString(cudaGetLastError()))
#define LIBRARY(c, call) must((call) == GLOFND_OK, #call, (c) ? glofnd_ctx_error(c) : "no context")

struct bench {
    glofnd_ctx *c;
    glofnd_store *s;
    glofnd_batch q;
    float *a, *b, *grad_a, *grad_b;
    int64_t *id;
    cudaStream_t stream;
    size_t bytes;
};

/* 200 classes with common directions, so that there is something to find. */
static void fill(float *x, int64_t rows, int64_t dim, unsigned seed) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t d = 0; d < dim; d++) {
            const unsigned k = unsigned(i % 200) * 7919u + unsigned(d) * 104729u;
            seed = seed * 1664525u + 1013904223u;
            x[i * dim + d] = sinf(float(k)) + float(seed >> 8) / 8388608.0f - 1.0f;
        }
}

static void *upload(const void *host, size_t bytes) {
    void *p = NULL;
    CUDA(cudaMalloc(&p, bytes));
    CUDA(cudaMemcpy(p, host, bytes, cudaMemcpyHostToDevice));
    return p;
}

static void fill_batch(bench *x, int64_t batch, int64_t dim) {
    const size_t bytes = sizeof(float) * size_t(batch * dim);
    float *h = static_cast<float *>(malloc(bytes));
    int64_t *id = static_cast<int64_t *>(malloc(sizeof *id * size_t(batch)));
    for (int64_t i = 0; i < batch; i++) id[i] = i * 7 % ANCHORS;
    fill(h, batch, dim, 1);
    x->a = static_cast<float *>(upload(h, bytes));
    fill(h, batch, dim, 2);
    x->b = static_cast<float *>(upload(h, bytes));
    x->id = static_cast<int64_t *>(upload(id, sizeof *id * size_t(batch)));
    CUDA(cudaMalloc(&x->grad_a, bytes));
    CUDA(cudaMalloc(&x->grad_b, bytes));
    free(h);
    free(id);
}

static bench make(int64_t batch, int64_t dim, const char *math, const char *detector) {
    bench x = {};
    glofnd_options o;
    glofnd_options_init(&o, sizeof o);
    must(glofnd_options_set(&o, "math", math, NULL, 0) == GLOFND_OK, "math", math);
    must(glofnd_options_set(&o, "detector", detector, NULL, 0) == GLOFND_OK, "detector", detector);
    o.device = GLOFND_DEVICE_CUDA;
    char why[256];
    must(glofnd_device_check(o.device, why, sizeof why) == GLOFND_OK, "device", why);
    LIBRARY(x.c, glofnd_ctx_create(&o, &x.c));
    glofnd_store_spec spec = {};
    spec.size = sizeof spec, spec.n = ANCHORS, spec.modalities = 1;
    LIBRARY(x.c, glofnd_store_create(x.c, &spec, &x.s));
    fill_batch(&x, batch, dim);
    x.q.size = sizeof x.q, x.q.rows = x.q.cols = batch, x.q.dim = dim, x.q.a = x.a, x.q.b = x.b, x.q.id = x.id;
    CUDA(cudaStreamCreateWithFlags(&x.stream, cudaStreamNonBlocking));
    LIBRARY(x.c, glofnd_ctx_stream(x.c, x.stream));
    LIBRARY(x.c, glofnd_ctx_reserve(x.c, batch, batch, dim, &x.bytes));
    return x;
}

static void drop(bench *x) {
    glofnd_store_free(x->s);
    glofnd_ctx_free(x->c);
    cudaFree(x->a), cudaFree(x->b), cudaFree(x->id), cudaFree(x->grad_a), cudaFree(x->grad_b);
    cudaStreamDestroy(x->stream);
}

static void step(bench *x) { LIBRARY(x->c, glofnd_step(x->c, x->s, &x->q, x->grad_a, x->grad_b, NULL)); }

static cudaGraphExec_t record(bench *x) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CUDA(cudaStreamBeginCapture(x->stream, cudaStreamCaptureModeThreadLocal));
    step(x);
    CUDA(cudaStreamEndCapture(x->stream, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    return exec;
}

static int by_size(const void *a, const void *b) {
    const float x = *static_cast<const float *>(a), y = *static_cast<const float *>(b);
    return (x > y) - (x < y);
}

/* Milliseconds per step, RUNS times, sorted. */
static void measure(bench *x, cudaGraphExec_t exec, int each, float *ms) {
    cudaEvent_t from, to;
    CUDA(cudaEventCreate(&from));
    CUDA(cudaEventCreate(&to));
    for (int run = -2; run < RUNS; run++) {
        CUDA(cudaEventRecord(from, x->stream));
        for (int i = 0; i < each; i++) {
            if (exec) CUDA(cudaGraphLaunch(exec, x->stream));
            else step(x);
        }
        CUDA(cudaEventRecord(to, x->stream));
        CUDA(cudaEventSynchronize(to));
        if (run < 0) continue;
        CUDA(cudaEventElapsedTime(&ms[run], from, to));
        ms[run] /= float(each);
    }
    qsort(ms, RUNS, sizeof *ms, by_size);
    cudaEventDestroy(from);
    cudaEventDestroy(to);
}

static void row(int64_t batch, int64_t dim, const char *math, const char *detector) {
    bench x = make(batch, dim, math, detector);
    const int each = batch <= 1024 ? 200 : batch <= 16384 ? 5 : 1;
    float graph[RUNS], plain[RUNS];
    glofnd_stats stats;
    for (int i = 0; i < 20; i++) step(&x);          /* thresholds settle */
    LIBRARY(x.c, glofnd_ctx_stats(x.c, &stats));
    const cudaGraphExec_t exec = record(&x);
    measure(&x, exec, each, graph);
    measure(&x, NULL, each, plain);
    LIBRARY(x.c, glofnd_ctx_stats(x.c, &stats));
    printf("%7lld %5lld  %-5s %-7s %9.4f %9.4f %9.4f %9.4f %8.1f  %7.4f %5lld\n", (long long)batch, (long long)dim, math,
           detector, double(graph[RUNS / 2]), double(graph[0]), double(graph[RUNS - 1]), double(plain[RUNS / 2]),
           double(x.bytes) / 1e6, stats.kept_share, (long long)stats.repeats);
    fflush(stdout);
    CUDA(cudaGraphExecDestroy(exec));
    drop(&x);
}

int main(int argc, char **argv) {
    static const int64_t BATCH[] = {128, 256, 1024, 4096, 16384};
    const int64_t dim = argc > 1 ? atoll(argv[1]) : 128;
    const char *math = argc > 2 ? argv[2] : "auto";
    const int64_t largest = argc > 3 ? atoll(argv[3]) : 16384;
    printf("  batch   dim  math  detector  graph ms     least   largest     plain   MB work     kept repeats\n");
    for (size_t i = 0; i < sizeof BATCH / sizeof *BATCH; i++) {
        if (BATCH[i] > largest) break;
        row(BATCH[i], dim, math, "none");
        row(BATCH[i], dim, math, "glofnd");
    }
    return 0;
}
