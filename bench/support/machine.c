/* machine.c - see machine.h. */
#include "support/machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/kernels/cpu_kernels.h"
#include "support/die.h"
#include "support/product.h"
#include "util/machine.h"
#include "util/parallel.h"

double seconds(void) { return gf_clock(); }

/* ---- the kernel, the whole product ---- */

#define TILE 128
#define TILES 64 /* per task */

static void kernel_task(void *arg, int64_t task, int thread) {
    float *at = (float *)arg + task * 3 * TILE * TILE;
    (void)thread;
    for (int i = 0; i < TILES; i++)
        gf_cpu_kernels_get()->tile->product(at, TILE, at + TILE * TILE, TILE, 1, at + 2 * TILE * TILE, GF_PANEL,
                                            (size_t)TILE * GF_PANEL, TILE, TILE, TILE, 0);
}

typedef struct whole {
    memory_pool *memory;
    float *z, *s;
    int threads;
} whole;

enum { WHOLE_M = 4096, WHOLE_N = 8192, WHOLE_K = 128 };

static void whole_product(void *arg) {
    whole *x = arg;
    const matrix rows = {x->z, WHOLE_K, 0}, cols = {x->z, WHOLE_K, 1};
    product(x->memory, x->s, WHOLE_N, rows, cols, WHOLE_M, WHOLE_N, WHOLE_K, x->threads);
}

/* ---- rates ---- */

#define LOOK 0.4 /* seconds for each */

/* The best of many: the question is what the machine can do, not what others leave of it. */
static double shortest_time(void (*run)(void *arg), void *arg) {
    const double begin = seconds();
    double shortest = INFINITY;
    run(arg);
    do {
        const double start = seconds();
        run(arg);
        shortest = fmin(shortest, seconds() - start);
    } while (seconds() - begin < LOOK);
    return shortest;
}

typedef struct tiles {
    float *at; /* [threads][3][TILE][TILE] */
    int threads;
} tiles;

static void run_kernel(void *arg) {
    const tiles *x = arg;
    gf_parallel(x->threads, x->threads, kernel_task, x->at);
}

static double kernel_rate(int threads) {
    const size_t bytes = sizeof(float) * 3 * TILE * TILE * (size_t)threads;
    tiles x = {aligned_alloc(64, bytes), threads};
    if (!x.at) die("no memory");
    memset(x.at, 0, bytes);
    const double shortest = shortest_time(run_kernel, &x);
    free(x.at);
    return 2.0 * TILE * TILE * TILE * TILES * threads / shortest * 1e-9;
}

static double product_rate(int threads) {
    whole x = {.memory = pool_create(), .threads = threads};
    x.z = pool_take(x.memory, sizeof(float) * WHOLE_N * WHOLE_K);
    x.s = pool_take(x.memory, sizeof(float) * WHOLE_M * (size_t)WHOLE_N);
    for (int64_t i = 0; i < (int64_t)WHOLE_N * WHOLE_K; i++) x.z[i] = (float)(i % 7) - 3.0f;
    const double shortest = shortest_time(whole_product, &x);
    pool_free(x.memory);
    return 2.0 * WHOLE_M * WHOLE_N * WHOLE_K / shortest * 1e-9;
}

/* ---- the machine ---- */

static void cpu_name(char *out, size_t capacity) {
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    snprintf(out, capacity, "unknown CPU");
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        snprintf(out, capacity, "%s", colon + 2);
        out[strcspn(out, "\n")] = '\0';
        break;
    }
    if (f) fclose(f);
}

machine machine_probe(int threads) {
    machine m = {.cores = (int)sysconf(_SC_NPROCESSORS_ONLN), .threads = threads, .isa = gf_cpu_kernels_get()->isa};
    cpu_name(m.cpu, sizeof m.cpu);
    if (getloadavg(&m.load, 1) != 1) m.load = 0.0;
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
