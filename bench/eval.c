/* eval.c - times the two long computations of evaluation on features from files: logistic regression and nearest neighbours.
 * tools/bench_eval.py makes the features, calls this program and the others on them, and compares; docs/benchmarks.md says what
 * came out.
 *
 *     eval logistic X.npy Y.npy L2 TOLERANCE OUT.npy     weights and biases [classes][dim + 1] to OUT
 *     eval knn X.npy Y.npy QUERIES.npy K OUT.npy         predicted classes int32 [queries] to OUT
 * X float32 [n][dim], Y int32 [n]. Prints one JSON object; only the computation is timed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/knn.h"
#include "eval/linear.h"
#include "io/npy.h"
#include "support/die.h"
#include "util/machine.h"
#include "util/parallel.h"

static gf_error err;

static void must(glofnd_status status) {
    if (status != GLOFND_OK) die("eval: %s", err.text);
}

static gf_features read_features(const char *x_path, const char *y_path) {
    gf_features f = {0};
    gf_npy x = {0}, y = {0};
    must(gf_npy_read(&err, x_path, &x));
    if (x.type != GF_NPY_F4 || x.rank != 2) die("eval: %s is not float32 [n][dim]", x_path);
    must(gf_features_alloc(&err, &f, x.shape[0], x.shape[1]));
    memcpy(f.x, x.data, (size_t)(f.n * f.dim) * sizeof *f.x);
    for (int64_t i = 0; i < f.n; i++) f.label[i] = 0;
    if (y_path) {
        must(gf_npy_read(&err, y_path, &y));
        if (y.type != GF_NPY_I4 || y.rank != 1 || y.shape[0] != f.n) die("eval: %s is not int32 [n]", y_path);
        memcpy(f.label, y.data, (size_t)f.n * sizeof *f.label);
        gf_npy_free(&y);
    }
    gf_npy_free(&x);
    return f;
}

static void write_weights(const char *path, const gf_linear *m) {
    float *w = malloc((size_t)(m->classes * (m->dim + 1)) * sizeof *w);
    if (!w) die("eval: no memory");
    for (int64_t c = 0; c < m->classes; c++) {
        memcpy(w + c * (m->dim + 1), m->weight + c * m->ld, (size_t)m->dim * sizeof *w);
        w[c * (m->dim + 1) + m->dim] = m->bias[c];
    }
    must(gf_npy_write(&err, path, &(gf_npy){.type = GF_NPY_F4, .rank = 2, .shape = {m->classes, m->dim + 1}, .data = w}));
    free(w);
}

static int time_logistic(char **argv) {
    gf_features f = read_features(argv[0], argv[1]);
    gf_logistic o = {.l2 = strtod(argv[2], NULL), .tolerance = strtod(argv[3], NULL), .iterations = 10000};
    gf_linear *m;
    const double start = gf_clock(), cpu = gf_cpu_clock();
    must(gf_linear_create(&err, f.dim, gf_features_classes(&f), 0, &m));
    must(gf_logistic_fit(&err, &o, &f, m));
    printf("{\"seconds\": %.6f, \"cpu_seconds\": %.6f, \"iterations\": %lld, \"evaluations\": %lld, \"objective\": %.9g, "
           "\"threads\": %d}\n",
           gf_clock() - start, gf_cpu_clock() - cpu, (long long)o.done, (long long)o.evaluations, o.objective,
           gf_parallel_default());
    write_weights(argv[4], m);
    gf_linear_free(m);
    gf_features_free(&f);
    return 0;
}

static int time_knn(char **argv) {
    gf_features train = read_features(argv[0], argv[1]), test = read_features(argv[2], NULL);
    const gf_knn o = {.k = strtoll(argv[3], NULL, 10), .temperature = 0.07};
    int32_t *predicted = malloc((size_t)test.n * sizeof *predicted);
    if (!predicted) die("eval: no memory");
    const double start = gf_clock(), cpu = gf_cpu_clock();
    must(gf_knn_classify(&err, &o, &train, &test, predicted));
    printf("{\"seconds\": %.6f, \"cpu_seconds\": %.6f, \"threads\": %d}\n", gf_clock() - start, gf_cpu_clock() - cpu,
           gf_parallel_default());
    must(gf_npy_write(&err, argv[4], &(gf_npy){.type = GF_NPY_I4, .rank = 1, .shape = {test.n}, .data = predicted}));
    free(predicted);
    gf_features_free(&train);
    gf_features_free(&test);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 7 && strcmp(argv[1], "logistic") == 0) return time_logistic(argv + 2);
    if (argc == 7 && strcmp(argv[1], "knn") == 0) return time_knn(argv + 2);
    fprintf(stderr, "usage: eval logistic X.npy Y.npy L2 TOLERANCE OUT.npy\n       eval knn X.npy Y.npy QUERIES.npy K OUT.npy\n");
    return 2;
}
