/* discover.c - exact thresholds and neighbours of embeddings against FAISS's flat index: the same rows, the same k, one run.
 *
 *     discover [--json] [--n 20000] [--dim 512] [--k 20] [--repeat 3] [--threads T] [--no-faiss]
 * Ours gives the threshold of every row besides its k most similar others, mutual pairs, connected parts and duplicates; theirs
 * the k + 1 most similar, which has the row itself. The neighbours are compared before the times are: rows must agree up to
 * similarities that differ by rounding only. FAISS is called by tools/bench_faiss.py.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/parallel.h"
#include "base/rng.h"
#include "eval/discover_pass.h"
#include "io/npy.h"
#include "support/clock.h"
#include "support/die.h"
#include "support/machine.h"
#include "support/python.h"

static gf_error err;

typedef struct bench {
    int64_t n, dim, k, repeat, threads;
    int json, no_faiss;
    float *x;                   /* [n][dim] unit */
    gf_discover_found found;
    clock_times ours, theirs;
    char version[32], folder[64];
    double agree;               /* share of the neighbours that are the same rows; NaN: not compared */
    double worst;               /* largest difference of similarities where they are not */
} bench;

static void must(glofnd_status status) {
    if (status != GLOFND_OK) die("discover: %s", err.text);
}

/* Clusters, as embeddings have them: a centre per 100 rows, and noise. */
static void draw(bench *b) {
    const int64_t centres = b->n / 100 + 1;
    float *centre = malloc((size_t)(centres * b->dim) * sizeof *centre);
    b->x = malloc((size_t)(b->n * b->dim) * sizeof *b->x);
    if (!centre || !b->x) die("discover: no memory for %lld x %lld", (long long)b->n, (long long)b->dim);
    gf_rng g = gf_rng_at(1, GF_RNG_INIT, 0, 0, 0);
    for (int64_t i = 0; i < centres * b->dim; i++) centre[i] = (float)gf_rng_normal(&g);
    for (int64_t i = 0; i < b->n; i++) {
        double sum = 0.0;
        float *x = b->x + i * b->dim;
        for (int64_t d = 0; d < b->dim; d++) {
            x[d] = 0.5f * centre[i % centres * b->dim + d] + (float)gf_rng_normal(&g);
            sum += (double)x[d] * (double)x[d];
        }
        for (int64_t d = 0; d < b->dim; d++) x[d] = (float)((double)x[d] / sqrt(sum));
    }
    free(centre);
}

static void time_ours(bench *b) {
    const gf_discover_rows rows = {.x = b->x, .n = b->n, .dim = b->dim};
    const gf_discover_task t = {.rank = b->k + 1, .top = b->k, .dup = 0.98f, .memory = (size_t)8 << 30,
                                .threads = (int)b->threads};
    for (int64_t i = 0; i < b->repeat; i++) {
        void *state = NULL;
        gf_discover_found_free(&b->found);
        const double start = seconds();
        must(gf_discover_pass_cpu.open(&err, &rows, t.threads, &state));
        must(gf_discover_found_alloc(&err, &b->found, b->n, b->k));
        must(gf_discover_pass_cpu.find(&err, state, &t, &b->found));
        gf_discover_pass_cpu.close(state);
        clock_add(&b->ours, 1e3 * (seconds() - start));
    }
}

static void take_row(void *user, const char *line) {
    bench *b = user;
    python_text(line, "faiss", b->version, sizeof b->version);
    clock_add(&b->theirs, 1e3 * python_number(line, "seconds"));
}

static double similarity(const bench *b, int64_t i, int64_t j) {
    double sum = 0.0;
    for (int64_t d = 0; d < b->dim; d++) sum += (double)b->x[i * b->dim + d] * (double)b->x[j * b->dim + d];
    return sum;
}

/* Neighbour m of row i, the row itself passed over. */
static void compare(bench *b, const int32_t *theirs) {
    int64_t same = 0;
    for (int64_t i = 0; i < b->n; i++)
        for (int64_t m = 0, at = 0; m < b->k; m++, at++) {
            const int32_t *row = theirs + i * (b->k + 1);
            if (row[at] == i) at++;
            const int32_t mine = b->found.other[i * b->k + m];
            if (mine == row[at]) same++;
            else b->worst = fmax(b->worst, fabs(similarity(b, i, mine) - similarity(b, i, row[at])));
        }
    b->agree = (double)same / (double)(b->n * b->k);
    if (b->worst > 1e-6) die("discover: neighbours differ by %g in similarity", b->worst);
}

static void time_theirs(bench *b) {
    char x_path[96], out_path[96], k[24], threads[24], repeat[24];
    snprintf(x_path, sizeof x_path, "%s/x.npy", b->folder);
    snprintf(out_path, sizeof out_path, "%s/out.npy", b->folder);
    snprintf(k, sizeof k, "%lld", (long long)b->k);
    snprintf(threads, sizeof threads, "%lld", (long long)b->threads);
    snprintf(repeat, sizeof repeat, "%lld", (long long)b->repeat);
    must(gf_npy_write(&err, x_path, &(gf_npy){.type = GF_NPY_F4, .rank = 2, .shape = {b->n, b->dim}, .data = b->x}));
    char *const args[] = {x_path, out_path, "--k", k, "--threads", threads, "--repeat", repeat, NULL};
    gf_npy out = {0};
    if (python_rows("bench_faiss.py", args, "faiss (pip install faiss-cpu)", take_row, b) && b->theirs.count > 0) {
        must(gf_npy_read(&err, out_path, &out));
        if (out.type != GF_NPY_I4 || out.count != b->n * (b->k + 1)) die("discover: FAISS gave something else");
        compare(b, out.data);
        gf_npy_free(&out);
    }
    unlink(x_path);
    unlink(out_path);
}

static void number(double x) {
    if (isnan(x)) printf("null");
    else printf("%.6g", x);
}

static void report(bench *b) {
    const double ours = clock_median(&b->ours), theirs = clock_median(&b->theirs);
    const double gflops = 2.0 * (double)b->n * (double)b->n * (double)b->dim / (ours * 1e6);
    if (!b->json) {
        printf("%lld x %lld, k %lld, %lld threads: ours %.3f s, FAISS %s %.3f s, ratio %.2f, same neighbours %.4f %%\n",
               (long long)b->n, (long long)b->dim, (long long)b->k, (long long)b->threads, ours / 1e3, b->version, theirs / 1e3,
               theirs / ours, 100.0 * b->agree);
        return;
    }
    printf("{\"bench\": \"discover\", \"n\": %lld, \"dim\": %lld, \"k\": %lld, \"threads\": %lld, \"seconds\": ", (long long)b->n,
           (long long)b->dim, (long long)b->k, (long long)b->threads);
    number(ours / 1e3);
    printf(", \"spread\": ");
    number(clock_spread(&b->ours));
    printf(", \"gflops_of_all_pairs\": ");
    number(gflops);
    printf(", \"faiss\": \"%s\", \"faiss_seconds\": ", b->version);
    number(theirs / 1e3);
    printf(", \"faiss_spread\": ");
    number(clock_spread(&b->theirs));
    printf(", \"ratio\": ");
    number(theirs / ours);
    printf(", \"same_neighbours\": ");
    number(b->agree);
    printf("}\n");
}

static void parse(int argc, char **argv, bench *b) {
    const struct { const char *name; int64_t *value; } numbers[] = {
        {"--n", &b->n}, {"--dim", &b->dim}, {"--k", &b->k}, {"--repeat", &b->repeat}, {"--threads", &b->threads}};
    for (int i = 1; i < argc; i++) {
        int known = strcmp(argv[i], "--json") == 0 ? b->json = 1 : strcmp(argv[i], "--no-faiss") == 0 ? b->no_faiss = 1 : 0;
        for (size_t m = 0; m < sizeof numbers / sizeof *numbers && !known && i + 1 < argc; m++) {
            char *end;
            if (strcmp(argv[i], numbers[m].name) != 0) continue;
            *numbers[m].value = strtoll(argv[++i], &end, 10);
            known = !*end && *numbers[m].value > 0;
        }
        if (!known) die("usage: discover [--json] [--n N] [--dim D] [--k K] [--repeat R] [--threads T] [--no-faiss]");
    }
    if (b->k + 2 > b->n || b->dim > 1 << 16 || b->n > 1 << 24 || b->threads > 1024) die("discover: sizes out of range");
}

int main(int argc, char **argv) {
    bench b = {.n = 20000, .dim = 512, .k = 20, .repeat = 3, .threads = gf_parallel_default(), .agree = NAN};
    parse(argc, argv, &b);
    snprintf(b.folder, sizeof b.folder, "glofnd-bench-XXXXXX");
    if (!mkdtemp(b.folder)) die("discover: no folder can be made here");
    draw(&b);
    time_ours(&b);
    if (!b.no_faiss) time_theirs(&b);
    rmdir(b.folder);
    report(&b);
    gf_discover_found_free(&b.found);
    free(b.x);
    return 0;
}
