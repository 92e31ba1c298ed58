/* step.cu - time of a complete step through the public API on this GPU: loss, gradients, thresholds, moving averages.
 *
 *     build/bench/cuda/step [batch=128,1024,...] [dim=128,...] [samples=N] [detector=none,glofnd] [labels] [new]
 *                           [extra=plain,negatives,ids,repeats,keys] [any option=value ...]
 *
 * Two views, or image and text where the loss asks for it. Captured as a graph and replayed; median, minimum and maximum of
 * the replays, and the workspace beside the caller's arrays. "plain": the same step queued call by call. The difference between
 * `none` and `glofnd` is the cost of the thresholds. labels: also measures precision and recall. new: every step is the first
 * visit of its anchors (GLOFND_WANT_NO_UPDATE), which with lambda_init=quantile selects their thresholds. similarity=bank: all
 * samples have an average before, so that `neighbours` have something to search. extra: as many candidates as samples with their gradients;
 * the same with ids; every eighth sample a copy of the one before it; a store of keys. ns: per similarity, each counted once.
 */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "method/options.h"
}

enum { RUNS = 11, CLASSES = 200 };
static const int64_t PORTION = 4096; /* averages at a time */

static int64_t samples = 1 << 20;

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
    float *a, *b, *grad_a, *grad_b, *more, *grad_more; /* more: candidates; NULL: none */
    int64_t *id, *more_id;
    int32_t *label; /* NULL: none */
    cudaStream_t stream;
    size_t bytes;
};

/* Classes with common directions, so that there are false negatives. */
static void fill(float *x, int64_t rows, int64_t dim, unsigned seed) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t d = 0; d < dim; d++) {
            const unsigned k = unsigned(i % CLASSES) * 7919u + unsigned(d) * 104729u;
            seed = seed * 1664525u + 1013904223u;
            x[i * dim + d] = sinf(float(k)) + float(seed >> 8) / 8388608.0f - 1.0f;
        }
}

static void *upload(const void *host, size_t bytes) {
    void *p = NULL;
    CUDA(cudaMalloc(&p, bytes));
    CUDA(cudaMemcpy(p, host, bytes, cudaMemcpyHostToDevice));
    CUDA(cudaDeviceSynchronize());
    return p;
}

static void fill_batch(bench *x, int64_t batch, int64_t dim) {
    const size_t bytes = sizeof(float) * size_t(batch * dim);
    float *h = static_cast<float *>(malloc(bytes));
    int64_t *id = static_cast<int64_t *>(malloc(sizeof *id * size_t(batch)));
    for (int64_t i = 0; i < batch; i++) id[i] = i * 7 % samples;
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

/* Candidates, with ids, or samples that are copies. */
static void add_extra(bench *x, int64_t batch, int64_t dim, const char *extra) {
    const bool ids = strcmp(extra, "ids") == 0, repeats = strcmp(extra, "repeats") == 0;
    const size_t bytes = sizeof(float) * size_t(batch * dim);
    int64_t *id = static_cast<int64_t *>(malloc(sizeof *id * size_t(batch)));
    for (int64_t i = 0; i < batch; i++) id[i] = repeats ? (i % 8 == 7 ? i - 1 : i) * 7 % samples : i % 8 ? -1 : i * 7 % samples;
    if (repeats) CUDA(cudaMemcpy(x->id, id, sizeof *id * size_t(batch), cudaMemcpyHostToDevice));
    if (ids || strcmp(extra, "negatives") == 0) {
        float *h = static_cast<float *>(malloc(bytes));
        fill(h, batch, dim, 4);
        x->more = static_cast<float *>(upload(h, bytes));
        CUDA(cudaMalloc(&x->grad_more, bytes));
        x->q.negatives_a = x->more, x->q.negatives_a_n = batch, x->q.grad_negatives_a = x->grad_more;
        free(h);
    }
    if (ids) x->q.negatives_a_id = x->more_id = static_cast<int64_t *>(upload(id, sizeof *id * size_t(batch)));
    CUDA(cudaDeviceSynchronize());
    free(id);
}

static void add_labels(bench *x, int64_t batch) {
    int32_t *label = static_cast<int32_t *>(malloc(sizeof *label * size_t(batch)));
    for (int64_t i = 0; i < batch; i++) label[i] = int32_t(i % CLASSES);
    x->label = static_cast<int32_t *>(upload(label, sizeof *label * size_t(batch)));
    x->q.label = x->label, x->q.want = GLOFND_WANT_QUALITY;
    free(label);
}

static void fill_averages(bench *x, int64_t dim) {
    float *h = static_cast<float *>(malloc(sizeof *h * size_t(PORTION * dim)));
    __half *rows = static_cast<__half *>(malloc(sizeof *rows * size_t(PORTION * dim)));
    int64_t id[PORTION];
    for (int64_t at = 0; at < samples; at += PORTION) {
        const int64_t n = samples - at < PORTION ? samples - at : PORTION;
        fill(h, n, dim, unsigned(at) + 3);
        for (int64_t i = 0; i < n; i++) {
            double length = 0.0;
            for (int64_t d = 0; d < dim; d++) length += double(h[i * dim + d]) * h[i * dim + d];
            for (int64_t d = 0; d < dim; d++) rows[i * dim + d] = __float2half(float(h[i * dim + d] / sqrt(length)));
            id[i] = at + i;
        }
        LIBRARY(x->c, glofnd_bank_put(x->c, x->s, 0, id, n, rows));
    }
    free(rows);
    free(h);
}

static void set(glofnd_options *o, const char *key, const char *value) {
    char why[256];
    must(glofnd_options_set(o, key, value, why, sizeof why) == GLOFND_OK, key, why);
}

static bench make(glofnd_options o, int64_t batch, int64_t dim, const char *detector, const char *extra, bool labels, bool anew) {
    bench x = {};
    set(&o, "detector", detector);
    o.device = GLOFND_DEVICE_CUDA;
    if (strcmp(extra, "repeats") == 0) set(&o, "repeats", "1");
    char why[256];
    must(glofnd_device_check(o.device, why, sizeof why) == GLOFND_OK, "device", why);
    LIBRARY(x.c, glofnd_ctx_create(&o, &x.c, NULL, 0));
    glofnd_store_spec spec = {};
    spec.size = sizeof spec, spec.n = samples, spec.dim = dim, spec.keyed = strcmp(extra, "keys") == 0;
    LIBRARY(x.c, glofnd_store_create(x.c, &spec, &x.s));
    if (o.similarity == GLOFND_SIMILARITY_BANK) fill_averages(&x, dim);
    fill_batch(&x, batch, dim);
    x.q.size = sizeof x.q, x.q.n = batch, x.q.dim = dim, x.q.a = x.a, x.q.b = x.b, x.q.id = x.id;
    if (labels) add_labels(&x, batch);
    add_extra(&x, batch, dim, extra);
    if (anew) x.q.want |= GLOFND_WANT_NO_UPDATE;
    CUDA(cudaStreamCreateWithFlags(&x.stream, cudaStreamNonBlocking));
    LIBRARY(x.c, glofnd_ctx_stream(x.c, x.stream));
    LIBRARY(x.c, glofnd_ctx_reserve(x.c, batch, batch, dim, &x.bytes));
    return x;
}

static void drop(bench *x) {
    glofnd_store_free(x->s);
    glofnd_ctx_free(x->c);
    cudaFree(x->a), cudaFree(x->b), cudaFree(x->id), cudaFree(x->label), cudaFree(x->grad_a), cudaFree(x->grad_b);
    cudaFree(x->more), cudaFree(x->grad_more), cudaFree(x->more_id);
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

/* Milliseconds per step, `runs` times, sorted. */
static void measure(bench *x, cudaGraphExec_t exec, int runs, int each, float *ms) {
    cudaEvent_t from, to;
    CUDA(cudaEventCreate(&from));
    CUDA(cudaEventCreate(&to));
    for (int run = -2; run < runs; run++) {
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
    qsort(ms, size_t(runs), sizeof *ms, by_size);
    cudaEventDestroy(from);
    cudaEventDestroy(to);
}

static void row(const glofnd_options *o, int64_t batch, int64_t dim, const char *detector, const char *extra, bool labels,
                bool anew) {
    bench x = make(*o, batch, dim, detector, extra, labels, anew);
    const int each = batch <= 1024 ? 100 : batch <= 4096 ? 5 : 1, runs = batch <= 16384 ? RUNS : 3;
    float graph[RUNS], plain[RUNS];
    glofnd_stats stats = {};
    stats.size = sizeof stats;
    for (int i = 0; i < 2 * runs; i++) step(&x); /* thresholds converge */
    LIBRARY(x.c, glofnd_ctx_stats(x.c, &stats));
    const cudaGraphExec_t exec = record(&x);
    measure(&x, exec, runs, each, graph);
    measure(&x, NULL, runs, each, plain);
    LIBRARY(x.c, glofnd_ctx_stats(x.c, &stats));
    glofnd_counters counters = {};
    counters.size = sizeof counters;
    LIBRARY(x.c, glofnd_ctx_counters(x.c, &counters));
    const double b = double(batch), similarities = 2.0 * b * (b - 1.0 + double(x.q.negatives_a_n));
    printf("%7lld %5lld  %-8s %-9s %9.4f %9.4f %9.4f %9.4f %8.1f  %7.4f %5lld %8.4f\n", (long long)batch, (long long)dim,
           detector, extra, double(graph[runs / 2]), double(graph[0]), double(graph[runs - 1]), double(plain[runs / 2]),
           double(x.bytes) / 1e6, stats.kept_share, (long long)counters.repeats, 1e6 * double(graph[runs / 2]) / similarities);
    fflush(stdout);
    CUDA(cudaGraphExecDestroy(exec));
    drop(&x);
}

/* ----- choice of the runs ----- */

enum { ITEMS_MAX = 16 };

struct list { /* words with commas between them */
    char text[256];
    char *word[ITEMS_MAX];
    int count;
};

static void split(list *l, const char *text) {
    snprintf(l->text, sizeof l->text, "%s", text);
    l->count = 0;
    for (char *w = strtok(l->text, ","); w && l->count < ITEMS_MAX; w = strtok(NULL, ",")) l->word[l->count++] = w;
}

static int take(list *l, const char *argument, const char *key) {
    const size_t n = strlen(key);
    if (strncmp(argument, key, n) != 0 || argument[n] != '=') return 0;
    split(l, argument + n + 1);
    return 1;
}

static void take_option(glofnd_options *o, const char *argument) {
    char key[64];
    const char *value = strchr(argument, '=');
    must(value && value - argument < (long)sizeof key, argument, "arguments are key=value; see the head of bench/cuda/step.cu");
    snprintf(key, sizeof key, "%.*s", int(value - argument), argument);
    set(o, key, value + 1);
}

int main(int argc, char **argv) {
    list batch, dim, detector, extra;
    bool labels = false, anew = false;
    glofnd_options o;
    split(&batch, "128,256,1024,4096,16384"), split(&dim, "128"), split(&detector, "none,glofnd"), split(&extra, "plain");
    gf_method_options_init(&o);
    o.lambda_init = GLOFND_INIT_ONE;
    for (int i = 1; i < argc; i++) {
        if (take(&batch, argv[i], "batch") || take(&dim, argv[i], "dim") || take(&detector, argv[i], "detector") ||
            take(&extra, argv[i], "extra"))
            continue;
        if (strncmp(argv[i], "samples=", 8) == 0) samples = atoll(argv[i] + 8);
        else if (strcmp(argv[i], "labels") == 0) labels = true;
        else if (strcmp(argv[i], "new") == 0) anew = true;
        else take_option(&o, argv[i]);
    }
    must(samples > 0, "samples", "expected a number");
    printf("  batch   dim  detector extra      graph ms     least   largest     plain   MB work     kept repeats       ns\n");
    for (int d = 0; d < dim.count; d++)
        for (int b = 0; b < batch.count; b++)
            for (int i = 0; i < detector.count; i++)
                for (int e = 0; e < extra.count; e++)
                    row(&o, atoll(batch.word[b]), atoll(dim.word[d]), detector.word[i], extra.word[e], labels, anew);
    return 0;
}
