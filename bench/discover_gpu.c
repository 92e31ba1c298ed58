/* discover_gpu.c - thresholds and neighbours of embeddings on a GPU beside other exact searches there: the same rows, one run.
 *
 *     discover_gpu [--n 100000] [--dim 768] [--k 20] [--alpha A] [--repeat 3] [--memory 64] [--queries Q] [--alone]
 * Ours gives the threshold of every row (of rank k + 1, or ceil(alpha (n - 1))), its k most similar others, mutual pairs,
 * connected parts and duplicates; theirs the k + 1 most similar of each row, which has the row itself: torch a tile at a time,
 * and FAISS and cuVS where they can be imported (tools/bench_topk.py). The neighbours of torch's float32 are compared with ours
 * before the table is printed: they must agree up to similarities that differ by rounding. With --alpha theirs are as many as
 * the threshold's rank, and the thresholds of torch's float32 are compared, too. --queries: they search for the first
 * Q rows only, and their seconds are multiplied by n / Q. --memory: GB that lists of candidates may take. --alone: ours only.
 * The last column is the share of their neighbours that are those of torch's float32, place by place, in the first rows.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

enum { PEERS = 12 };

static gf_error err;

typedef struct peer {
    char name[32], version[32];
    clock_times times;
    double same; /* share of neighbours that are those of torch's float32, place by place; NaN: not compared */
} peer;

typedef struct bench {
    int64_t n, dim, k, repeat, queries, rank;
    double alpha; /* 0: rank is k + 1 */
    double memory;
    int alone;
    float *x; /* [n][dim] unit */
    gf_pairs_found found;
    clock_times all, search; /* with the copy of the embeddings to the GPU; without */
    peer peers[PEERS];
    int peer_count;
    double same, worst; /* share of equal neighbours, NaN: not compared; largest difference of similarities where they differ */
    double threshold;   /* largest difference of thresholds */
} bench;

static void must(glofnd_status status) {
    if (status != GLOFND_OK) die("discover_gpu: %s", err.text);
}

/* ----- ours ----- */

static void time_ours(bench *b) {
    const gf_vectors rows = {.x = b->x, .n = b->n, .dim = b->dim};
    const gf_pairs_task t = {.rank = b->rank, .top = b->k, .dup = 0.98f, .memory = (size_t)(1e9 * b->memory), .threads = 1};
    const gf_pairs_search *pass = gf_pairs_search_find(&err, "cuda");
    if (!pass) die("discover_gpu: %s", err.text);
    for (int64_t i = 0; i < b->repeat; i++) {
        void *state = NULL;
        gf_pairs_found_free(&b->found);
        const double start = seconds();
        must(pass->open(&err, &rows, t.threads, &state));
        must(gf_pairs_found_alloc(&err, &b->found, b->n, b->k));
        const double opened = seconds();
        must(pass->find(&err, state, &t, &b->found));
        clock_add(&b->search, 1e3 * (seconds() - opened));
        pass->close(state);
        clock_add(&b->all, 1e3 * (seconds() - start));
    }
}

/* ----- theirs ----- */

static int64_t searched(const bench *b) { return b->queries ? b->queries : b->n; }

static double similarity(const bench *b, int64_t i, int64_t j) {
    double sum = 0.0;
    for (int64_t d = 0; d < b->dim; d++) sum += (double)b->x[i * b->dim + d] * (double)b->x[j * b->dim + d];
    return sum;
}

/* Neighbours that they look for, beside the row itself. */
static int64_t width(const bench *b) { return b->alpha > 0.0 && b->rank > b->k ? b->rank : b->k; }

/* theirs [searched][width + 1]: neighbour m of row i, the row itself passed over. */
static void compare(bench *b, const int32_t *theirs) {
    int64_t same = 0;
    for (int64_t i = 0; i < searched(b); i++) {
        const int32_t *row = theirs + i * (width(b) + 1);
        for (int64_t m = 0, at = 0; m < b->k; m++, at++) {
            const int32_t mine = b->found.other[i * b->k + m];
            if (row[at] == i) at++;
            if (mine == row[at]) same++;
            else b->worst = fmax(b->worst, fabs(similarity(b, i, mine) - similarity(b, i, row[at])));
        }
        if (width(b) == b->rank) b->threshold = fmax(b->threshold, fabs(similarity(b, i, row[b->rank]) - b->found.lambda[i]));
    }
    b->same = (double)same / (double)(searched(b) * b->k);
    if (fmax(b->worst, b->threshold) > 1e-5)
        die("discover_gpu: neighbours differ by %g in similarity, thresholds by %g", b->worst, b->threshold);
}

static void take_row(void *user, const char *line) {
    bench *b = user;
    char name[32];
    python_text(line, "peer", name, sizeof name);
    if (b->peer_count == 0 || strcmp(b->peers[b->peer_count - 1].name, name) != 0) {
        if (b->peer_count == PEERS) return;
        peer *p = &b->peers[b->peer_count++];
        memcpy(p->name, name, sizeof name);
        python_text(line, "version", p->version, sizeof p->version);
    }
    clock_add(&b->peers[b->peer_count - 1].times, 1e3 * python_number(line, "seconds"));
    b->peers[b->peer_count - 1].same = python_number(line, "same");
}

static void time_theirs(bench *b, const char *folder) {
    char x_path[96], out_path[96], k[24], repeat[24], queries[24];
    gf_npy out = {0};
    snprintf(x_path, sizeof x_path, "%s/x.npy", folder);
    snprintf(out_path, sizeof out_path, "%s/out.npy", folder);
    snprintf(k, sizeof k, "%lld", (long long)width(b));
    snprintf(repeat, sizeof repeat, "%lld", (long long)b->repeat);
    snprintf(queries, sizeof queries, "%lld", (long long)b->queries);
    must(gf_npy_write(&err, x_path, &(gf_npy){.type = GF_NPY_F4, .rank = 2, .shape = {b->n, b->dim}, .data = b->x}));
    char *const args[] = {x_path, out_path, "--k", k, "--repeat", repeat, "--queries", queries, NULL};
    if (python_rows("bench_topk.py", args, "torch, with a GPU", take_row, b) && access(out_path, F_OK) == 0) {
        must(gf_npy_read(&err, out_path, &out));
        if (out.type != GF_NPY_I4 || out.count != searched(b) * (width(b) + 1)) die("discover_gpu: torch gave something else");
        compare(b, out.data);
        gf_npy_free(&out);
    }
    unlink(x_path);
    unlink(out_path);
}

/* ----- the table ----- */

static void report(bench *b) {
    const double ours = clock_median(&b->search) / 1e3;
    printf("%lld x %lld, k %lld, rank %lld: search %.3f s, with the copy of the embeddings %.3f s\n", (long long)b->n,
           (long long)b->dim, (long long)b->k, (long long)b->rank, ours, clock_median(&b->all) / 1e3);
    if (!b->peer_count) return;
    if (!isnan(b->same))
        printf("same neighbours as torch fp32: %.4f %%, others differ by at most %.2g\n", 100.0 * b->same, b->worst);
    if (!isnan(b->same) && width(b) == b->rank) printf("thresholds differ by at most %.2g\n", b->threshold);
    printf("%-22s %-16s %10s %10s %8s %10s %8s\n", "top k by", "version", "ours, s", "theirs, s", "ratio", "queries", "same, %");
    for (int i = 0; i < b->peer_count; i++) {
        const double theirs = clock_median(&b->peers[i].times) / 1e3;
        printf("%-22s %-16s %10.3f %10.3f %8.2f %10lld %8.3f\n", b->peers[i].name, b->peers[i].version, ours, theirs,
               theirs / ours, (long long)searched(b), 100.0 * b->peers[i].same);
    }
}

static int take_number(bench *b, const char *name, const char *text) {
    const struct {
        const char *name;
        int64_t *value;
    } numbers[] = {{"--n", &b->n}, {"--dim", &b->dim}, {"--k", &b->k}, {"--repeat", &b->repeat}, {"--queries", &b->queries}};
    char *end;
    double *const real = strcmp(name, "--alpha") == 0 ? &b->alpha : strcmp(name, "--memory") == 0 ? &b->memory : NULL;
    if (real) {
        *real = strtod(text, &end);
        return !*end && *real > 0.0;
    }
    for (size_t m = 0; m < sizeof numbers / sizeof *numbers; m++) {
        if (strcmp(name, numbers[m].name) != 0) continue;
        *numbers[m].value = strtoll(text, &end, 10);
        return !*end && *numbers[m].value > 0;
    }
    return 0;
}

int main(int argc, char **argv) {
    char folder[] = "glofnd-bench-XXXXXX";
    bench b = {.n = 100000, .dim = 768, .k = 20, .repeat = 3, .memory = 64.0, .same = NAN};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--alone") == 0) b.alone = 1;
        else if (i + 1 < argc && take_number(&b, argv[i], argv[i + 1])) i++;
        else die("usage: discover_gpu [--n N] [--dim D] [--k K] [--alpha A] [--repeat R] [--memory GB] [--queries Q] [--alone]");
    }
    if (b.k + 2 > b.n || b.dim > 1 << 16 || b.n > 1 << 24 || b.queries > b.n || b.alpha >= 1.0)
        die("discover_gpu: sizes out of range");
    b.rank = b.alpha > 0.0 ? gf_top_count(b.n - 1, b.alpha) : b.k + 1;
    b.x = draw_clusters(b.n, b.dim, gf_parallel_default());
    time_ours(&b);
    if (!b.alone) {
        if (!mkdtemp(folder)) die("discover_gpu: no folder can be made here");
        time_theirs(&b, folder);
        rmdir(folder);
    }
    report(&b);
    gf_pairs_found_free(&b.found);
    free(b.x);
    return 0;
}
