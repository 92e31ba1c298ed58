/* planted.c - embeddings of any number of rows in clusters, with planted duplicates, as float16 shards; and the check of what
 * `glofnd discover` made of them. For n beyond memory: rows are drawn by their number alone, on all cores.
 *
 *     build/bench/planted make FOLDER ROWS DIM [SHARDS]        emb_000.npy ... (10), 2 bytes per number
 *     build/bench/planted check FOLDER ROWS DIM RESULT [N]     N (256) random rows are compared with all others
 *
 * Rows lie around ROWS / 100 random directions: 0.9 of the direction and 0.25 of noise per dimension. Every 1000th row is a
 * planted duplicate of a random one: in turn a copy, byte for byte, and a near one (cosine similarity 0.99998). check: of
 * the planted rows, those in the group of their original (anchors.npy); and of the listed neighbours of N rows
 * (neighbours.npy), those that are the nearest by plain sums.
 */
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/npy.h"
#include "support/die.h"
#include "util/array.h"
#include "util/dtype.h"
#include "util/machine.h"
#include "util/parallel.h"

enum { CLUSTER = 100, EACH = 1000, PIECE = 1 << 18, TASK = 1024, DIM_MAX = 1024, TOP_MAX = 64 };

typedef struct planted {
    int64_t rows, dim;
} planted;

/* ----- rows by their number ----- */

static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Sum of four uniform numbers, of variance 1: near enough to a normal one. */
static float normal(uint64_t seed, int64_t k) {
    const uint64_t x = mix(seed + (uint64_t)k * 0xd1342543de82ef95u);
    const uint32_t sum =
        (uint32_t)(x & 0xffff) + (uint32_t)(x >> 16 & 0xffff) + (uint32_t)(x >> 32 & 0xffff) + (uint32_t)(x >> 48);
    return ((float)sum - 131070.0f) * (1.0f / 37837.23f);
}

static int is_planted(int64_t row) { return row % EACH == EACH - 1; }

/* The row that a planted one is a duplicate of. */
static int64_t original(const planted *p, int64_t row) {
    const int64_t other = (int64_t)(mix((uint64_t)row ^ 0x5851f42d4c957f2du) % (uint64_t)p->rows);
    return is_planted(other) ? other - 1 : other;
}

static void plain_row(const planted *p, int64_t row, float *x) {
    const uint64_t own = mix((uint64_t)row), centre = mix(~(uint64_t)(row % (p->rows / CLUSTER + 1)));
    float square = 0.0f;
    for (int64_t k = 0; k < p->dim; k++) {
        x[k] = 0.9f * normal(centre, k) + 0.25f * normal(own, k);
        square += x[k] * x[k];
    }
    const float scale = 1.0f / sqrtf(square);
    for (int64_t k = 0; k < p->dim; k++) x[k] *= scale;
}

static void draw_row(const planted *p, int64_t row, uint16_t *to) {
    float x[DIM_MAX];
    plain_row(p, is_planted(row) ? original(p, row) : row, x);
    const float noise = is_planted(row) && row / EACH % 2 ? 0.006f / sqrtf((float)p->dim) : 0.0f;
    for (int64_t k = 0; k < p->dim; k++) to[k] = gf_f16_from_float(x[k] + noise * normal(mix((uint64_t)row), k));
}

/* ----- files ----- */

typedef struct piece {
    const planted *p;
    int64_t first, count;
    uint16_t *x;
} piece;

static void draw_rows(void *arg, int64_t task, int thread) {
    const piece *c = arg;
    (void)thread;
    for (int64_t i = task * TASK; i < GF_MIN((task + 1) * TASK, c->count); i++)
        draw_row(c->p, c->first + i, c->x + i * c->p->dim);
}

static void write_shard(const planted *p, const char *path, int64_t first, int64_t end, uint16_t *x) {
    char head[128];
    const int used = snprintf(head + 10, sizeof head - 10, "{'descr': '<f2', 'fortran_order': False, 'shape': (%lld, %lld), }",
                              (long long)(end - first), (long long)p->dim);
    memset(head + 10 + used, ' ', sizeof head - 10 - (size_t)used);
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    head[sizeof head - 1] = '\n';
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(head, 1, sizeof head, f) != sizeof head) die("'%s' cannot be written", path);
    for (int64_t at = first; at < end; at += PIECE) {
        piece c = {p, at, GF_MIN(PIECE, end - at), x};
        gf_parallel(gf_parallel_default(), (c.count + TASK - 1) / TASK, draw_rows, &c);
        if (fwrite(x, 2 * (size_t)p->dim, (size_t)c.count, f) != (size_t)c.count) die("'%s' cannot be written", path);
    }
    if (fclose(f) != 0) die("'%s' cannot be written", path);
}

static void make(const planted *p, const char *folder, int64_t shards) {
    uint16_t *x = malloc((size_t)PIECE * (size_t)p->dim * sizeof *x);
    char path[PATH_MAX];
    if (!x) die("no memory");
    mkdir(folder, 0777);
    for (int64_t s = 0; s < shards; s++) {
        snprintf(path, sizeof path, "%s/emb_%03lld.npy", folder, (long long)s);
        write_shard(p, path, p->rows * s / shards, p->rows * (s + 1) / shards, x);
    }
    printf("%lld x %lld in %lld shards, %lld planted duplicates\n", (long long)p->rows, (long long)p->dim, (long long)shards,
           (long long)(p->rows / EACH));
    free(x);
}

/* ----- check ----- */

typedef struct table {
    int fd;
    gf_npy a;
} table;

static table open_table(const char *folder, const char *name, int64_t rows) {
    char path[PATH_MAX];
    gf_error err = {""};
    table t = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (gf_npy_read_header(&err, path, &t.a) != GLOFND_OK) die("%s", err.text);
    if (t.a.rank != 2 || t.a.shape[0] != rows) die("'%s' has other rows", path);
    t.fd = open(path, O_RDONLY);
    if (t.fd < 0) die("'%s' cannot be opened", path);
    return t;
}

static void read_row(const table *t, int64_t row, void *to) {
    const size_t bytes = (size_t)t->a.shape[1] * gf_npy_type_bytes(t->a.type);
    if (pread(t->fd, to, bytes, (off_t)(t->a.at + (uint64_t)row * bytes)) != (ssize_t)bytes) die("a table cannot be read");
}

static void check_groups(const planted *p, const char *result) {
    const table t = open_table(result, "anchors.npy", p->rows);
    int64_t count[2] = {0}, found[2] = {0};
    double a[8], b[8];
    if (t.a.shape[1] != 8 || t.a.type != GF_NPY_F8) die("anchors.npy has other columns");
    for (int64_t row = EACH - 1; row < p->rows; row += EACH) {
        const int near = row / EACH % 2;
        read_row(&t, row, a);
        read_row(&t, original(p, row), b);
        count[near]++, found[near] += a[7] >= 0.0 && a[7] == b[7];
    }
    close(t.fd);
    printf("planted duplicates in the group of their original: %lld of %lld copies, %lld of %lld near ones\n",
           (long long)found[0], (long long)count[0], (long long)found[1], (long long)count[1]);
}

typedef struct asking {
    const planted *p;
    int64_t n, top;
    float *x;       /* [n][dim] unit rows */
    int64_t *row;   /* [n] */
    float *value;   /* [threads][n][top] largest first */
    int32_t *other; /* [threads][n][top] */
} asking;

static void unit_row(const planted *p, int64_t row, float *x) {
    uint16_t half[DIM_MAX];
    double square = 0.0;
    draw_row(p, row, half);
    for (int64_t k = 0; k < p->dim; k++) x[k] = gf_f16_to_float(half[k]), square += (double)x[k] * (double)x[k];
    for (int64_t k = 0; k < p->dim; k++) x[k] = (float)(x[k] / sqrt(square));
}

static void insert(float *value, int32_t *other, int64_t top, float v, int64_t row) {
    int64_t at = top;
    while (at > 0 && v > value[at - 1]) at--;
    if (at == top) return;
    memmove(value + at + 1, value + at, (size_t)(top - 1 - at) * sizeof *value);
    memmove(other + at + 1, other + at, (size_t)(top - 1 - at) * sizeof *other);
    value[at] = v, other[at] = (int32_t)row;
}

static void compare_rows(void *arg, int64_t task, int thread) {
    const asking *q = arg;
    const planted *p = q->p;
    float x[DIM_MAX];
    for (int64_t row = task * TASK; row < GF_MIN((task + 1) * TASK, p->rows); row++) {
        unit_row(p, row, x);
        for (int64_t i = 0; i < q->n; i++) {
            const float *a = q->x + i * p->dim;
            const int64_t list = ((int64_t)thread * q->n + i) * q->top;
            float v = 0.0f;
            for (int64_t k = 0; k < p->dim; k++) v += a[k] * x[k];
            if (v > q->value[list + q->top - 1] && row != q->row[i]) insert(q->value + list, q->other + list, q->top, v, row);
        }
    }
}

static void check_neighbours(const planted *p, const char *result, int64_t n) {
    const table t = open_table(result, "neighbours.npy", p->rows);
    const int threads = gf_parallel_default();
    asking q = {.p = p, .n = n, .top = t.a.shape[1]};
    const size_t cells = (size_t)threads * (size_t)n * (size_t)q.top;
    q.x = malloc((size_t)(n * p->dim) * sizeof *q.x), q.row = malloc((size_t)n * sizeof *q.row);
    q.value = malloc(cells * sizeof *q.value), q.other = malloc(cells * sizeof *q.other);
    if (q.top > TOP_MAX || !q.x || !q.row || !q.value || !q.other) die("no memory, or lists of more than %d", TOP_MAX);
    for (size_t i = 0; i < cells; i++) q.value[i] = -4.0f, q.other[i] = -1;
    for (int64_t i = 0; i < n; i++) {
        q.row[i] = (int64_t)(mix((uint64_t)i ^ 0x2545f4914f6cdd1du) % (uint64_t)p->rows);
        unit_row(p, q.row[i], q.x + i * p->dim);
    }
    gf_parallel(threads, (p->rows + TASK - 1) / TASK, compare_rows, &q);
    int64_t found = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t listed[TOP_MAX];
        for (int s = 1; s < threads; s++)
            for (int64_t k = 0; k < q.top; k++)
                insert(q.value + i * q.top, q.other + i * q.top, q.top, q.value[((int64_t)s * n + i) * q.top + k],
                       q.other[((int64_t)s * n + i) * q.top + k]);
        read_row(&t, q.row[i], listed);
        for (int64_t k = 0; k < q.top; k++)
            for (int64_t m = 0; m < q.top; m++) found += q.other[i * q.top + k] == listed[m];
    }
    printf("%lld random rows against all: %.2f %% of their %lld nearest are listed\n", (long long)n,
           100.0 * (double)found / (double)(n * q.top), (long long)q.top);
    close(t.fd);
    free(q.x), free(q.row), free(q.value), free(q.other);
}

int main(int argc, char **argv) {
    const int is_make = argc >= 5 && argc <= 6 && strcmp(argv[1], "make") == 0;
    const int is_check = argc >= 6 && argc <= 7 && strcmp(argv[1], "check") == 0;
    if (!is_make && !is_check) die("usage: planted make FOLDER ROWS DIM [SHARDS] | planted check FOLDER ROWS DIM RESULT [N]");
    const planted p = {(int64_t)strtod(argv[3], NULL), (int64_t)strtod(argv[4], NULL)};
    if (p.rows < 2 * EACH || p.rows > INT32_MAX - 1 || p.dim < 1 || p.dim > DIM_MAX)
        die("ROWS is 2000 to 2^31 - 2, DIM 1 to %d", DIM_MAX);
    const double begun = gf_clock();
    if (is_make) make(&p, argv[2], argc > 5 ? (int64_t)strtod(argv[5], NULL) : 10);
    if (is_check) check_groups(&p, argv[5]);
    if (is_check) check_neighbours(&p, argv[5], argc > 6 ? (int64_t)strtod(argv[6], NULL) : 256);
    printf("%.1f s\n", gf_clock() - begun);
    return 0;
}
