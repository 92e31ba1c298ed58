/* discover.c - exact thresholds and neighbours of embeddings against FAISS's flat index: the same rows, the same k, one run.
 *
 *     discover [--json] [--n 20000] [--dim 512] [--k 20] [--alpha A] [--repeat 3] [--queries Q] [--threads T] [--device cuda]
 *              [--no-faiss]
 *     discover --n 1000000 --dim 768 --save x.npy          only writes the embeddings, for `glofnd discover`
 * Ours gives the threshold of every row besides its k most similar others, mutual pairs, connected parts and duplicates; theirs
 * the k + 1 most similar, which has the row itself. The neighbours are compared before the times are: rows must agree up to
 * similarities that differ by rounding only. With --alpha the threshold is of that rank, and k only says how many are kept;
 * theirs searches as many as that rank, and the thresholds are compared, too. FAISS is called by tools/bench_faiss.py. Both take
 * turns, and the least of their times counts, so that other work on the machine weighs little; seconds of the processors are
 * counted besides. --queries: FAISS searches for the first Q rows only, and its seconds are multiplied by n / Q.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "io/npy.h"
#include "pairs/pairs_search.h"
#include "support/clock.h"
#include "support/clusters.h"
#include "support/die.h"
#include "support/machine.h"
#include "support/python.h"
#include "util/array.h"
#include "util/parallel.h"
#include "util/rng.h"

static gf_error err;

typedef struct bench {
    int64_t n, dim, k, repeat, queries, threads, rank;
    double alpha; /* 0: rank is k + 1 */
    int json, no_faiss;
    const char *device, *save;
    const gf_pairs_search *pass;
    float *x; /* [n][dim] unit */
    gf_pairs_found found;
    clock_times ours, search, theirs; /* search: with the embeddings where they are needed */
    clock_times ours_cpu, theirs_cpu; /* of all processors */
    python_partner faiss;
    char version[32], folder[64];
    double agree; /* share of the neighbours that are the same rows; NaN: not compared */
    double worst; /* largest difference of similarities where they are not, and of thresholds */
} bench;

static void must(glofnd_status status) {
    if (status != GLOFND_OK) die("discover: %s", err.text);
}

static void write_rows(const bench *b, const char *path) {
    must(gf_npy_write(&err, path, &(gf_npy){.type = GF_NPY_F4, .rank = 2, .shape = {b->n, b->dim}, .data = b->x}));
}

static double cpu_seconds(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void time_ours(bench *b) {
    const gf_vectors rows = {.x = b->x, .n = b->n, .dim = b->dim};
    const gf_pairs_task t = {.rank = b->rank, .top = b->k, .dup = 0.98f, .memory = (size_t)16 << 30, .threads = (int)b->threads};
    void *state = NULL;
    gf_pairs_found_free(&b->found);
    const double start = seconds(), spent = cpu_seconds();
    must(b->pass->open(&err, &rows, t.threads, &state));
    must(gf_pairs_found_alloc(&err, &b->found, b->n, b->k));
    const double opened = seconds();
    must(b->pass->find(&err, state, &t, &b->found));
    clock_add(&b->search, 1e3 * (seconds() - opened));
    b->pass->close(state);
    clock_add(&b->ours, 1e3 * (seconds() - start));
    clock_add(&b->ours_cpu, 1e3 * (cpu_seconds() - spent));
}

/* Rows that FAISS searches for. */
static int64_t searched(const bench *b) { return b->queries ? b->queries : b->n; }

static void take_row(bench *b, const char *line) {
    python_text(line, "faiss", b->version, sizeof b->version);
    clock_add(&b->theirs, 1e3 * python_number(line, "seconds"));
    clock_add(&b->theirs_cpu, 1e3 * python_number(line, "cpu_seconds"));
}

static double similarity(const bench *b, int64_t i, int64_t j) {
    double sum = 0.0;
    for (int64_t d = 0; d < b->dim; d++) sum += (double)b->x[i * b->dim + d] * (double)b->x[j * b->dim + d];
    return sum;
}

/* Neighbour m of row i, the row itself passed over. */
static void compare(bench *b, const int32_t *theirs) {
    int64_t same = 0;
    for (int64_t i = 0; i < searched(b); i++)
        for (int64_t m = 0, at = 0; m < b->k; m++, at++) {
            const int32_t *row = theirs + i * (b->k + 1);
            if (row[at] == i) at++;
            const int32_t mine = b->found.other[i * b->k + m];
            if (mine == row[at]) same++;
            else b->worst = fmax(b->worst, fabs(similarity(b, i, mine) - similarity(b, i, row[at])));
        }
    b->agree = (double)same / (double)(searched(b) * b->k);
    if (b->worst > 1e-6) die("discover: neighbours differ by %g in similarity", b->worst);
}

static void compare_thresholds(bench *b, const float *theirs) {
    for (int64_t i = 0; i < searched(b); i++) b->worst = fmax(b->worst, fabs((double)theirs[i] - (double)b->found.lambda[i]));
    if (b->worst > 1e-6) die("discover: thresholds differ by %g", b->worst);
}

/* Takes turns with FAISS; its first search is compared with the last one of ours. */
static void take_turns(bench *b) {
    char x_path[96], out_path[96], lambda_path[120], k[24], rank[24], queries[24], threads[24], line[1024];
    snprintf(x_path, sizeof x_path, "%s/x.npy", b->folder);
    snprintf(out_path, sizeof out_path, "%s/out.npy", b->folder);
    snprintf(lambda_path, sizeof lambda_path, "%s.lambda.npy", out_path);
    snprintf(k, sizeof k, "%lld", (long long)b->k);
    snprintf(rank, sizeof rank, "%lld", b->alpha > 0.0 ? (long long)b->rank : 0);
    snprintf(queries, sizeof queries, "%lld", (long long)searched(b));
    snprintf(threads, sizeof threads, "%lld", (long long)b->threads);
    char *const args[] = {x_path, out_path, "--k", k, "--rank", rank, "--queries", queries, "--threads", threads, NULL};
    if (!b->no_faiss) write_rows(b, x_path);
    int there =
        !b->no_faiss && python_meet(&b->faiss, "bench_faiss.py", args, "faiss (pip install faiss-cpu)", line, sizeof line);
    for (int64_t i = 0; i < b->repeat; i++) {
        if (there) take_row(b, line);
        time_ours(b);
        if (there && i + 1 < b->repeat) there = python_ask(&b->faiss, line, sizeof line);
    }
    python_leave(&b->faiss);
    gf_npy out = {0};
    if (b->theirs.count > 0) {
        must(gf_npy_read(&err, out_path, &out));
        if (out.type != GF_NPY_I4 || out.count != searched(b) * (b->k + 1)) die("discover: FAISS gave something else");
        compare(b, out.data);
        gf_npy_free(&out);
    }
    if (b->theirs.count > 0 && b->alpha > 0.0) {
        must(gf_npy_read(&err, lambda_path, &out));
        if (out.type != GF_NPY_F4 || out.count != searched(b)) die("discover: FAISS gave other thresholds");
        compare_thresholds(b, out.data);
        gf_npy_free(&out);
    }
    unlink(x_path);
    unlink(out_path);
    unlink(lambda_path);
}

static double least(const clock_times *t) {
    double x = NAN;
    for (int i = 0; i < t->count; i++) x = fmin(x, t->ms[i]);
    return x;
}

static void number(double x) {
    if (isnan(x)) printf("null");
    else printf("%.6g", x);
}

static void report(bench *b) {
    const double ours = least(&b->ours), theirs = least(&b->theirs), spent = least(&b->ours_cpu);
    const double gflops = 2.0 * (double)b->n * (double)b->n * (double)b->dim / (ours * 1e6);
    if (!b->json) {
        printf("%lld x %lld, k %lld, rank %lld, %s, %lld threads: ours %.3f s (%.3f s without the copy of the embeddings)",
               (long long)b->n, (long long)b->dim, (long long)b->k, (long long)b->rank, b->pass->name, (long long)b->threads,
               ours / 1e3, least(&b->search) / 1e3);
        printf(", %.3f s of processors", spent / 1e3);
        if (theirs > 0.0)
            printf(", FAISS %s %.3f s, of processors %.3f s, ratio %.2f, of processors %.2f, same neighbours %.4f %%, %lld rows "
                   "searched for",
                   b->version, theirs / 1e3, least(&b->theirs_cpu) / 1e3, theirs / ours, least(&b->theirs_cpu) / spent,
                   100.0 * b->agree, (long long)searched(b));
        printf("\n");
        return;
    }
    printf("{\"bench\": \"discover\", \"n\": %lld, \"dim\": %lld, \"k\": %lld, \"rank\": %lld, \"device\": \"%s\", "
           "\"threads\": %lld, \"seconds\": ",
           (long long)b->n, (long long)b->dim, (long long)b->k, (long long)b->rank, b->pass->name, (long long)b->threads);
    number(ours / 1e3);
    printf(", \"search_seconds\": ");
    number(least(&b->search) / 1e3);
    printf(", \"cpu_seconds\": ");
    number(spent / 1e3);
    printf(", \"spread\": ");
    number(clock_spread(&b->ours));
    printf(", \"gflops_of_all_pairs\": ");
    number(gflops);
    printf(", \"faiss\": \"%s\", \"faiss_queries\": %lld, \"faiss_seconds\": ", b->version, (long long)searched(b));
    number(theirs / 1e3);
    printf(", \"faiss_cpu_seconds\": ");
    number(least(&b->theirs_cpu) / 1e3);
    printf(", \"faiss_spread\": ");
    number(clock_spread(&b->theirs));
    printf(", \"ratio\": ");
    number(theirs / ours);
    printf(", \"same_neighbours\": ");
    number(b->agree);
    printf("}\n");
}

static int take_number(bench *b, const char *name, const char *text) {
    const struct {
        const char *name;
        int64_t *value;
    } numbers[] = {{"--n", &b->n},           {"--dim", &b->dim},         {"--k", &b->k},
                   {"--repeat", &b->repeat}, {"--queries", &b->queries}, {"--threads", &b->threads}};
    char *end;
    if (strcmp(name, "--alpha") == 0) {
        b->alpha = strtod(text, &end);
        return !*end && b->alpha > 0.0 && b->alpha < 1.0;
    }
    for (size_t m = 0; m < sizeof numbers / sizeof *numbers; m++) {
        if (strcmp(name, numbers[m].name) != 0) continue;
        *numbers[m].value = strtoll(text, &end, 10);
        return !*end && *numbers[m].value > 0;
    }
    return 0;
}

static void parse(int argc, char **argv, bench *b) {
    for (int i = 1; i < argc; i++) {
        const char *const value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--json") == 0) b->json = 1;
        else if (strcmp(argv[i], "--no-faiss") == 0) b->no_faiss = 1;
        else if (value && strcmp(argv[i], "--device") == 0) b->device = argv[++i];
        else if (value && strcmp(argv[i], "--save") == 0) b->save = argv[++i];
        else if (value && take_number(b, argv[i], value)) i++;
        else
            die("usage: discover [--json] [--n N] [--dim D] [--k K] [--alpha A] [--repeat R] [--queries Q] [--threads T] "
                "[--device cuda] [--no-faiss] [--save X.npy]");
    }
    if (b->k + 2 > b->n || b->dim > 1 << 16 || b->n > 1 << 24 || b->threads > 1024 || b->queries > b->n)
        die("discover: sizes out of range");
    b->rank = b->alpha > 0.0 ? gf_top_count(b->n - 1, b->alpha) : b->k + 1;
    b->pass = gf_pairs_search_find(&err, b->device);
    if (!b->pass) die("discover: %s", err.text);
}

int main(int argc, char **argv) {
    bench b = {.n = 20000, .dim = 512, .k = 20, .repeat = 3, .threads = gf_parallel_default(), .agree = NAN, .device = "cpu"};
    parse(argc, argv, &b);
    b.x = draw_clusters(b.n, b.dim, (int)b.threads);
    if (b.save) {
        write_rows(&b, b.save);
        free(b.x);
        return 0;
    }
    snprintf(b.folder, sizeof b.folder, "glofnd-bench-XXXXXX");
    if (!mkdtemp(b.folder)) die("discover: no folder can be made here");
    take_turns(&b);
    rmdir(b.folder);
    report(&b);
    gf_pairs_found_free(&b.found);
    free(b.x);
    return 0;
}
