/* machine.c - see machine.h. */
#include "support/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/parallel.h"
#include "cpu/tile/tile.h"
#include "support/die.h"
#include "support/product.h"

double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- multiply-adds in registers ---- */

#define CHAINS 16               /* independent sums: latency times units, and then some */
#define STEPS 200000

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx512f"))) static float fma_512(void) {
    __m512 sum[CHAINS];
    const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(1e-3f);
    for (int c = 0; c < CHAINS; c++) sum[c] = _mm512_set1_ps((float)c);
    for (int i = 0; i < STEPS; i++) {
#pragma GCC unroll 16
        for (int c = 0; c < CHAINS; c++) sum[c] = _mm512_fmadd_ps(sum[c], a, b);
    }
    for (int c = 1; c < CHAINS; c++) sum[0] = _mm512_add_ps(sum[0], sum[c]);
    return _mm512_reduce_add_ps(sum[0]);
}

__attribute__((target("avx2,fma"))) static float fma_256(void) {
    __m256 sum[CHAINS - 2];     /* two registers hold the factors */
    const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(1e-3f);
    for (int c = 0; c < CHAINS - 2; c++) sum[c] = _mm256_set1_ps((float)c);
    for (int i = 0; i < STEPS; i++) {
#pragma GCC unroll 16
        for (int c = 0; c < CHAINS - 2; c++) sum[c] = _mm256_fmadd_ps(sum[c], a, b);
    }
    for (int c = 1; c < CHAINS - 2; c++) sum[0] = _mm256_add_ps(sum[0], sum[c]);
    float lane[8];
    _mm256_storeu_ps(lane, sum[0]);
    return lane[0];
}

static double fma_flops(const char *isa) {
    if (strcmp(isa, "avx512") == 0) return 2.0 * 16 * CHAINS * STEPS;
    return strcmp(isa, "avx2") == 0 ? 2.0 * 8 * (CHAINS - 2) * STEPS : 0.0;
}

static float fma_run(const char *isa) { return strcmp(isa, "avx512") == 0 ? fma_512() : fma_256(); }
#else
static double fma_flops(const char *isa) { return (void)isa, 0.0; }
static float fma_run(const char *isa) { return (void)isa, 0.0f; }
#endif

static void fma_task(void *arg, int64_t task, int thread) {
    volatile float sink = fma_run(gf_tile_ops_get()->isa);
    (void)arg, (void)task, (void)thread, (void)sink;
}

/* ---- the kernel, the whole product ---- */

#define TILE 128
#define TILES 64                /* per task */

static void kernel_task(void *arg, int64_t task, int thread) {
    float *at = (float *)arg + task * 3 * TILE * TILE;
    (void)thread;
    for (int i = 0; i < TILES; i++)
        gf_tile_ops_get()->product(at, TILE, at + TILE * TILE, TILE, 1, at + 2 * TILE * TILE, GF_PANEL, (size_t)TILE * GF_PANEL,
                                   TILE, TILE, TILE, 0);
}

typedef struct whole {
    pool *memory;
    float *z, *s;
    int threads;
} whole;

enum { WHOLE_M = 4096, WHOLE_N = 8192, WHOLE_K = 128 };

static void whole_product(whole *x) {
    const matrix rows = {x->z, WHOLE_K, 0}, cols = {x->z, WHOLE_K, 1};
    product(x->memory, x->s, WHOLE_N, rows, cols, WHOLE_M, WHOLE_N, WHOLE_K, x->threads);
}

/* ---- rates: best of several, the question is what the machine can do ---- */

#define TRIES 7

static double best_of(double least, double start) {
    const double spent = seconds() - start;
    return least == 0.0 || spent < least ? spent : least;
}

static double peak_rate(int threads) {
    const double flops = fma_flops(gf_tile_ops_get()->isa);
    double least = 0.0;
    for (int i = 0; flops > 0.0 && i < TRIES; i++) {
        const double start = seconds();
        gf_parallel(threads, threads, fma_task, NULL);
        least = best_of(least, start);
    }
    return flops > 0.0 ? flops * threads / least * 1e-9 : 0.0;
}

static double kernel_rate(int threads) {
    const size_t bytes = sizeof(float) * 3 * TILE * TILE * (size_t)threads;
    float *at = aligned_alloc(64, bytes);
    double least = 0.0;
    if (!at) die("no memory");
    memset(at, 0, bytes);
    for (int i = 0; i < TRIES; i++) {
        const double start = seconds();
        gf_parallel(threads, threads, kernel_task, at);
        least = best_of(least, start);
    }
    free(at);
    return 2.0 * TILE * TILE * TILE * TILES * threads / least * 1e-9;
}

static double product_rate(int threads) {
    whole x = {.memory = pool_create(), .threads = threads};
    double least = 0.0;
    x.z = pool_take(x.memory, sizeof(float) * WHOLE_N * WHOLE_K);
    x.s = pool_take(x.memory, sizeof(float) * WHOLE_M * (size_t)WHOLE_N);
    for (int64_t i = 0; i < (int64_t)WHOLE_N * WHOLE_K; i++) x.z[i] = (float)(i % 7) - 3.0f;
    whole_product(&x);
    for (int i = 0; i < TRIES; i++) {
        const double start = seconds();
        whole_product(&x);
        least = best_of(least, start);
    }
    pool_free(x.memory);
    return 2.0 * WHOLE_M * WHOLE_N * WHOLE_K / least * 1e-9;
}

/* ---- the machine ---- */

static void cpu_name(char *out, size_t room) {
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    snprintf(out, room, "unknown CPU");
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        snprintf(out, room, "%s", colon + 2);
        out[strcspn(out, "\n")] = '\0';
        break;
    }
    if (f) fclose(f);
}

machine machine_look(int threads) {
    machine m = {.cores = (int)sysconf(_SC_NPROCESSORS_ONLN), .threads = threads, .isa = gf_tile_ops_get()->isa};
    cpu_name(m.cpu, sizeof m.cpu);
    if (getloadavg(&m.load, 1) != 1) m.load = 0.0;
    m.peak_gflops = peak_rate(threads);
    m.kernel_gflops = kernel_rate(threads);
    m.product_gflops = product_rate(threads);
    return m;
}

/* ---- resident memory ---- */

static size_t status_kb(const char *key) {
    char line[256];
    unsigned long long kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0) kb = strtoull(line + strlen(key), NULL, 10);
    if (f) fclose(f);
    return (size_t)kb << 10;
}

size_t resident_now(void) { return status_kb("VmRSS:"); }

size_t resident_peak(void) { return status_kb("VmHWM:"); }

void resident_reset(void) {
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f) return;
    fputs("5\n", f);
    fclose(f);
}
