/* stream_rows.c - usable rows of embeddings that pass by once, and copies among them; see unit_run.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "discover/unit_run.h"
#include "io/crc32c.h"
#include "util/array.h"
#include "util/parallel.h"

enum { PIECE = 4096, ROWS = 64 }; /* rows: read at once, of a task */

typedef struct row_hash {
    uint64_t a, b;
    int32_t position;
} row_hash;

typedef struct inspection {
    const gf_row_source *source;
    gf_discover_data *d;
    float *x; /* [PIECE][dim] */
    int64_t first, rows;
    row_hash *hash; /* [n] by row */
} inspection;

static uint8_t inspect_row(const float *x, int64_t dim, row_hash *h) {
    double sum = 0.0;
    int finite = 1;
    *h = (row_hash){.a = 0x9e3779b97f4a7c15u, .b = 0xc2b2ae3d27d4eb4fu};
    for (int64_t i = 0; i < dim; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        h->a = (h->a ^ bits) * 0xff51afd7ed558ccdu;
        h->a ^= h->a >> 32;
        h->b = (h->b + bits) * 0x165667b19e3779f9u;
        h->b ^= h->b >> 29;
        finite &= isfinite(x[i]) != 0;
        sum += (double)x[i] * (double)x[i];
    }
    return !finite ? GF_ROW_NOT_FINITE : sum > 0.0 ? GF_ROW_GOOD : GF_ROW_ZERO;
}

static void inspect_rows(void *arg, int64_t task, int thread) {
    const inspection *x = arg;
    (void)thread;
    for (int64_t i = task * ROWS; i < GF_MIN((task + 1) * ROWS, x->rows); i++)
        x->d->kind[x->first + i] = inspect_row(x->x + i * x->source->dim, x->source->dim, &x->hash[x->first + i]);
}

static int by_hash(const void *x, const void *y) {
    const row_hash *p = x, *q = y;
    if (p->a != q->a) return p->a < q->a ? -1 : 1;
    if (p->b != q->b) return p->b < q->b ? -1 : 1;
    return (p->position > q->position) - (p->position < q->position);
}

/* Hashes by their first byte, which is as good as random: each of 256 parts is sorted by itself, on all cores. */
enum { PARTS = 256 };

typedef struct hash_parts {
    row_hash *hash;
    int64_t start[PARTS + 1];
} hash_parts;

static void sort_part(void *arg, int64_t part, int thread) {
    const hash_parts *p = arg;
    const int64_t count = p->start[part + 1] - p->start[part];
    (void)thread;
    if (count) qsort(p->hash + p->start[part], (size_t)count, sizeof *p->hash, by_hash);
}

/* Puts each hash into its part, in place: the next free place of a part is its start[part] until all are full. */
static void deal_out(hash_parts *p, int64_t n) {
    int64_t end[PARTS] = {0}, next[PARTS];
    for (int64_t i = 0; i < n; i++) end[p->hash[i].a >> 56]++;
    for (int64_t k = 0, at = 0; k < PARTS; k++) next[k] = p->start[k] = at, at += end[k], end[k] = at;
    p->start[PARTS] = n;
    for (int64_t k = 0; k < PARTS; k++)
        while (next[k] < end[k]) {
            row_hash h = p->hash[next[k]];
            while ((int64_t)(h.a >> 56) != k) {
                row_hash *to = &p->hash[next[h.a >> 56]++];
                const row_hash other = *to;
                *to = h, h = other;
            }
            p->hash[next[k]++] = h;
        }
}

/* hash [good_n] by position. */
static void find_copies(gf_discover_data *d, row_hash *hash) {
    hash_parts parts = {.hash = hash};
    deal_out(&parts, d->good_n);
    gf_parallel(gf_parallel_default(), PARTS, sort_part, &parts);
    d->distinct = 0;
    for (int64_t i = 0, first = 0; i < d->good_n; i++) {
        if (hash[i].a != hash[first].a || hash[i].b != hash[first].b) first = i;
        d->distinct += i == first;
        d->copy_of[hash[i].position] = hash[first].position;
    }
}

static glofnd_status inspect_all(gf_error *err, inspection *x) {
    const gf_row_source *s = x->source;
    gf_discover_data *d = x->d;
    d->crc = 0;
    for (x->first = 0; x->first < s->n; x->first += x->rows) {
        x->rows = GF_MIN(PIECE, s->n - x->first);
        TRY(s->read(err, s->user, x->first, x->rows, x->x));
        gf_parallel(gf_parallel_default(), (x->rows + ROWS - 1) / ROWS, inspect_rows, x);
        d->crc = gf_crc32c(d->crc, x->x, (size_t)(x->rows * s->dim) * sizeof *x->x);
    }
    d->good_n = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (d->kind[i] != GF_ROW_GOOD) continue;
        x->hash[d->good_n] = x->hash[i];
        x->hash[d->good_n].position = (int32_t)d->good_n;
        d->good[d->good_n++] = (int32_t)i;
    }
    find_copies(d, x->hash);
    return GLOFND_OK;
}

glofnd_status gf_discover_classify_stream(gf_error *err, const gf_row_source *source, gf_discover_data *d) {
    const size_t n = (size_t)source->n;
    inspection x = {.source = source, .d = d};
    d->n = source->n, d->dim = source->dim;
    d->kind = malloc(n * sizeof *d->kind);
    d->good = malloc(n * sizeof *d->good);
    d->copy_of = malloc(n * sizeof *d->copy_of);
    x.hash = malloc(n * sizeof *x.hash);
    x.x = malloc((size_t)GF_MIN(PIECE, source->n) * (size_t)source->dim * sizeof *x.x);
    const int there = d->kind && d->good && d->copy_of && x.hash && x.x;
    const glofnd_status status =
        there ? inspect_all(err, &x) : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)source->n);
    free(x.hash);
    free(x.x);
    return status;
}
