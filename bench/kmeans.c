/* kmeans.c - k-means of embeddings, on the CPU and on a GPU. Compares first, times second.
 *
 *     build/bench/kmeans cpu|cuda [ITERATIONS] [NxDxK ...]      default: 20, and the sizes of docs/benchmarks.md
 *
 * cuda: the groups of a small set must first be those of the CPU. Then every size: seconds of a whole call with at most so many
 * iterations, the best of three, with the copy of the embeddings to the GPU and the confidences; and TFLOP/s of the products of
 * all iterations, float32 without tensor cores. Embeddings are noise: in clusters iterations would end early.
 * tools/bench_torch_kmeans.py is the same in PyTorch.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kmeans/kmeans_cuda.h"
#include "support/die.h"
#include "util/array.h"
#include "util/machine.h"
#include "util/rng.h"

#define TURNS 3

typedef struct problem {
    gf_kmeans k;
    gf_vectors v;
    float *x, *confidence;
    int32_t *of;
} problem;

static void *array(int64_t count, size_t size) {
    void *p = malloc((size_t)count * size);
    if (!p) die("no memory for %lld numbers", (long long)count);
    return p;
}

static problem draw(int64_t n, int64_t dim, int64_t groups, int iterations) {
    problem p = {.k = {.groups = groups, .iterations = iterations, .seed = 1, .tau = 0.1}};
    gf_rng r = gf_rng_at(1, GF_RNG_INIT, 0, 0, 0);
    p.x = array(n * dim, sizeof *p.x), p.of = array(n, sizeof *p.of), p.confidence = array(n, sizeof *p.confidence);
    for (int64_t i = 0; i < n * dim; i++) p.x[i] = (float)gf_rng_uniform(&r) - 0.5f;
    p.v = (gf_vectors){.x = p.x, .n = n, .dim = dim};
    return p;
}

static void drop(problem *p) {
    free(p->x);
    free(p->of);
    free(p->confidence);
}

static void run(const problem *p, int cuda) {
    const gf_sweep_job job = {.threads = 0};
    gf_error err = {""};
    const glofnd_status status = cuda ? gf_kmeans_cuda(&err, &p->k, &p->v, p->of, p->confidence)
                                      : gf_kmeans_run(&err, &p->k, &p->v, &job, p->of, p->confidence);
    if (status != GLOFND_OK) die("%s", err.text);
}

static void compare(void) {
    problem gpu = draw(4000, 100, 150, 10), cpu = draw(4000, 100, 150, 10);
    run(&gpu, 1);
    run(&cpu, 0);
    if (memcmp(gpu.of, cpu.of, 4000 * sizeof *cpu.of) != 0) die("the groups differ from those of the CPU");
    drop(&gpu);
    drop(&cpu);
}

static void measure(int64_t n, int64_t dim, int64_t groups, int iterations, int cuda) {
    problem p = draw(n, dim, groups, iterations);
    double best = INFINITY;
    for (int turn = 0; turn < TURNS; turn++) {
        const double start = gf_clock();
        run(&p, cuda);
        best = GF_MIN(best, gf_clock() - start);
    }
    const double products = 2.0 * (double)n * (double)dim * (double)groups * (iterations + 2);
    printf("n %lld, d %lld, K %lld, %d iterations, %s: %.3f s, %.2f TFLOP/s\n", (long long)n, (long long)dim, (long long)groups,
           iterations, cuda ? "cuda" : "cpu", best, products / best / 1e12);
    fflush(stdout);
    drop(&p);
}

int main(int argc, char **argv) {
    static const char *const SIZES[] = {"50000x128x100", "50000x128x1000", "1281167x128x1000", "1281167x128x25000"};
    const int cuda = argc > 1 && strcmp(argv[1], "cuda") == 0, iterations = argc > 2 ? atoi(argv[2]) : 20;
    if (argc < 2 || (!cuda && strcmp(argv[1], "cpu") != 0) || iterations < 1) {
        fprintf(stderr, "usage: %s cpu|cuda [ITERATIONS] [NxDxK ...]\n", argv[0]);
        return 2;
    }
    if (cuda) compare();
    const int given = argc > 3 ? argc - 3 : 0, count = given ? given : (int)(sizeof SIZES / sizeof *SIZES);
    for (int i = 0; i < count; i++) {
        long long n = 0, dim = 0, groups = 0;
        const char *size = given ? argv[3 + i] : SIZES[i];
        if (sscanf(size, "%lldx%lldx%lld", &n, &dim, &groups) != 3) die("%s: a size is NxDxK, such as 50000x128x1000", size);
        measure(n, dim, groups, iterations, cuda);
    }
    return 0;
}
