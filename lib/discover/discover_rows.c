/* discover_rows.c - usable rows of embeddings, and copies among them; see discover.h. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "discover/discover.h"
#include "discover/units.h"
#include "io/blockfile.h"
#include "util/array.h"
#include "util/parallel.h"

static uint8_t kind_of(const float *x, int64_t dim) {
    double sum = 0.0;
    for (int64_t i = 0; i < dim; i++) {
        if (!isfinite(x[i])) return GF_ROW_NOT_FINITE;
        sum += (double)x[i] * (double)x[i];
    }
    return sum > 0.0 ? GF_ROW_GOOD : GF_ROW_ZERO;
}

typedef struct fingerprint {
    uint64_t hash;
    int32_t position;
} fingerprint;

/* Equal rows have equal hashes. */
static uint64_t hash_of(const float *x, int64_t dim) {
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (int64_t i = 0; i < dim; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        h = (h ^ bits) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return h;
}

static int by_hash(const void *x, const void *y) {
    const fingerprint *a = x, *b = y;
    if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
    return (a->position > b->position) - (a->position < b->position);
}

static const float *row_at(const gf_discover_data *d, int64_t position) { return d->x + (int64_t)d->good[position] * d->dim; }

static int same_bytes(const float *a, const float *b, int64_t dim) { return memcmp(a, b, (size_t)dim * sizeof *a) == 0; }

enum { BUCKETS = 4096 }; /* by the upper bits of a hash: equal rows share one */

typedef struct copies_job {
    const gf_discover_data *d;
    fingerprint *f;             /* [good_n] by bucket */
    int64_t start[BUCKETS + 1]; /* of a bucket */
    _Atomic int64_t distinct;
} copies_job;

static int64_t bucket_of(uint64_t hash) { return (int64_t)(hash / (UINT64_MAX / BUCKETS + 1)); }

static void match_bucket(void *arg, int64_t bucket, int thread) {
    copies_job *x = arg;
    fingerprint *f = x->f + x->start[bucket];
    const int64_t n = x->start[bucket + 1] - x->start[bucket];
    int64_t distinct = 0;
    (void)thread;
    if (n) qsort(f, (size_t)n, sizeof *f, by_hash);
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && f[end].hash == f[i].hash; end++) continue;
        /* Rows with equal hashes: compares each one with the first row of every different content, which move to the front. Returns the
 * number of different ones. */
        const gf_discover_data *d = x->d;
        fingerprint *run = f + i;
        const int64_t count = end - i;
        int64_t kinds = 0;
        for (int64_t j = 0; j < count; j++) {
            const int32_t p = run[j].position;
            int64_t k = 0;
            while (k < kinds && !same_bytes(row_at(d, p), row_at(d, run[k].position), d->dim)) k++;
            d->copy_of[p] = k < kinds ? run[k].position : p;
            if (k == kinds) run[kinds++].position = p;
        }
        distinct += kinds;
    }
    atomic_fetch_add(&x->distinct, distinct);
}

/* hash [n] of the rows. */
static glofnd_status find_copies(gf_error *err, gf_discover_data *d, const uint64_t *hash) {
    copies_job *x = calloc(1, sizeof *x);
    if (x) x->d = d, x->f = malloc((size_t)(d->good_n + 1) * sizeof *x->f);
    if (!x || !x->f) {
        free(x);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory to find copies");
    }
    /* start[k + 1] counts up to the end of bucket k while rows are put there; at last it is the end. */
    const gf_discover_data *data = x->d;
    int64_t at = 0;
    for (int64_t i = 0; i < data->good_n; i++) x->start[bucket_of(hash[data->good[i]]) + 1]++;
    for (int64_t k = 0; k < BUCKETS; k++) {
        const int64_t here = x->start[k + 1];
        x->start[k + 1] = at;
        at += here;
    }
    for (int64_t i = 0; i < data->good_n; i++) {
        const uint64_t h = hash[data->good[i]];
        x->f[x->start[bucket_of(h) + 1]++] = (fingerprint){h, (int32_t)i};
    }
    gf_parallel(gf_parallel_default(), BUCKETS, match_bucket, x);
    d->distinct = x->distinct;
    free(x->f);
    free(x);
    return GLOFND_OK;
}

typedef struct inspection {
    gf_discover_data *d;
    uint64_t *hash;
} inspection;

enum { TASK_ROWS = 256 }; /* of a task */

static void inspect_rows(void *arg, int64_t task, int thread) {
    const inspection *x = arg;
    gf_discover_data *d = x->d;
    (void)thread;
    for (int64_t i = task * TASK_ROWS; i < (task + 1) * TASK_ROWS && i < d->n; i++) {
        d->kind[i] = kind_of(d->x + i * d->dim, d->dim);
        x->hash[i] = hash_of(d->x + i * d->dim, d->dim);
    }
}

glofnd_status gf_discover_classify(gf_error *err, gf_discover_data *d) {
    d->kind = malloc((size_t)d->n * sizeof *d->kind);
    d->good = malloc((size_t)d->n * sizeof *d->good);
    d->copy_of = malloc((size_t)d->n * sizeof *d->copy_of);
    inspection x = {.d = d, .hash = malloc((size_t)d->n * sizeof *x.hash)};
    if (!d->kind || !d->good || !d->copy_of || !x.hash) {
        free(x.hash);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)d->n);
    }
    gf_parallel(gf_parallel_default(), (d->n + TASK_ROWS - 1) / TASK_ROWS, inspect_rows, &x);
    d->good_n = 0;
    for (int64_t i = 0; i < d->n; i++)
        if (d->kind[i] == GF_ROW_GOOD) d->good[d->good_n++] = (int32_t)i;
    d->crc = gf_crc32c(0, d->x, (size_t)d->n * (size_t)d->dim * sizeof *d->x);
    const glofnd_status status = find_copies(err, d, x.hash);
    free(x.hash);
    return status;
}

/* ----- rows of one set in the other ----- */

typedef struct matching {
    const gf_discover_data *d, *q;
    fingerprint *known; /* [d->distinct] of the distinct rows of d */
    int64_t *first;     /* [d->distinct] their positions */
    int32_t *same;
} matching;

static void fingerprint_rows(void *arg, int64_t task, int thread) {
    const matching *x = arg;
    (void)thread;
    for (int64_t k = task * TASK_ROWS; k < (task + 1) * TASK_ROWS && k < x->d->distinct; k++)
        x->known[k] = (fingerprint){hash_of(row_at(x->d, x->first[k]), x->d->dim), (int32_t)x->first[k]};
}

/* Index of the first of x->known whose hash is not smaller. */
static int64_t find_hash(const matching *x, uint64_t hash) {
    int64_t low = 0, high = x->d->distinct;
    while (low < high) {
        const int64_t mid = low + (high - low) / 2;
        if (x->known[mid].hash < hash) low = mid + 1;
        else high = mid;
    }
    return low;
}

static void match_rows(void *arg, int64_t task, int thread) {
    const matching *x = arg;
    const int64_t dim = x->d->dim;
    (void)thread;
    for (int64_t i = task * TASK_ROWS; i < (task + 1) * TASK_ROWS && i < x->q->good_n; i++) {
        const float *row = row_at(x->q, i);
        const uint64_t hash = hash_of(row, dim);
        x->same[i] = -1;
        for (int64_t k = find_hash(x, hash); k < x->d->distinct && x->known[k].hash == hash && x->same[i] < 0; k++)
            if (same_bytes(row, row_at(x->d, x->known[k].position), dim)) x->same[i] = x->known[k].position;
    }
}

glofnd_status gf_discover_match_rows(gf_error *err, const gf_discover_data *d, const gf_discover_data *q, int32_t *same) {
    const int64_t n = d->distinct;
    matching x = {.d = d, .q = q, .same = same};
    int64_t k = 0;
    x.known = malloc((size_t)(n + 1) * sizeof *x.known);
    x.first = malloc((size_t)(n + 1) * sizeof *x.first);
    for (int64_t i = 0; x.first && i < d->good_n; i++)
        if (d->copy_of[i] == i) x.first[k++] = i;
    if (x.known && x.first) {
        gf_parallel(gf_parallel_default(), (n + TASK_ROWS - 1) / TASK_ROWS, fingerprint_rows, &x);
        qsort(x.known, (size_t)n, sizeof *x.known, by_hash);
        gf_parallel(gf_parallel_default(), (q->good_n + TASK_ROWS - 1) / TASK_ROWS, match_rows, &x);
    }
    const int failed = !x.known || !x.first;
    free(x.known);
    free(x.first);
    FAIL_IF(err, failed, GLOFND_E_MEMORY, "no memory to find copies");
    return GLOFND_OK;
}

/* ----- rows that pass by once ----- */

/* Usable rows of embeddings that pass by once, and copies among them; see units.h. */

enum { STREAM_ROWS = 4096, STREAM_TASK = 64 }; /* rows: read at once, of a task */

typedef struct row_hash {
    uint64_t a, b;
    int32_t position;
} row_hash;

typedef struct stream_inspection {
    const gf_row_source *source;
    const gf_job_progress *watch;
    gf_discover_data *d;
    float *x; /* [STREAM_ROWS][dim] */
    int64_t first, rows;
    row_hash *hash; /* [n] by row */
} stream_inspection;

static void inspect_stream_rows(void *arg, int64_t task, int thread) {
    const stream_inspection *x = arg;
    (void)thread;
    for (int64_t i = task * STREAM_TASK; i < GF_MIN((task + 1) * STREAM_TASK, x->rows); i++) {
        const float *row_x = x->x + i * x->source->dim;
        const int64_t dim = x->source->dim;
        row_hash *h = &x->hash[x->first + i];
        double sum = 0.0;
        int finite = 1;
        *h = (row_hash){.a = 0x9e3779b97f4a7c15u, .b = 0xc2b2ae3d27d4eb4fu};
        for (int64_t j = 0; j < dim; j++) {
            uint32_t bits;
            memcpy(&bits, &row_x[j], sizeof bits);
            h->a = (h->a ^ bits) * 0xff51afd7ed558ccdu;
            h->a ^= h->a >> 32;
            h->b = (h->b + bits) * 0x165667b19e3779f9u;
            h->b ^= h->b >> 29;
            finite &= isfinite(row_x[j]) != 0;
            sum += (double)row_x[j] * (double)row_x[j];
        }
        x->d->kind[x->first + i] = !finite ? GF_ROW_NOT_FINITE : sum > 0.0 ? GF_ROW_GOOD : GF_ROW_ZERO;
    }
}

static int by_row_hash(const void *x, const void *y) {
    const row_hash *p = x, *q = y;
    if (p->a != q->a) return p->a < q->a ? -1 : 1;
    if (p->b != q->b) return p->b < q->b ? -1 : 1;
    return (p->position > q->position) - (p->position < q->position);
}

/* Hashes by their first byte, which is as good as random: each of 256 parts is sorted by itself, on all cores. */
enum { HASH_PARTS = 256 };

typedef struct hash_parts {
    row_hash *hash;
    int64_t start[HASH_PARTS + 1];
} hash_parts;

static void sort_part(void *arg, int64_t part, int thread) {
    const hash_parts *p = arg;
    const int64_t count = p->start[part + 1] - p->start[part];
    (void)thread;
    if (count) qsort(p->hash + p->start[part], (size_t)count, sizeof *p->hash, by_row_hash);
}

static glofnd_status inspect_stream(gf_error *err, stream_inspection *x) {
    const gf_row_source *s = x->source;
    gf_discover_data *d = x->d;
    d->crc = 0;
    for (x->first = 0; x->first < s->n; x->first += x->rows) {
        x->rows = GF_MIN(STREAM_ROWS, s->n - x->first);
        TRY(s->read(err, s->user, x->first, x->rows, x->x));
        gf_parallel(gf_parallel_default(), (x->rows + STREAM_TASK - 1) / STREAM_TASK, inspect_stream_rows, x);
        d->crc = gf_crc32c(d->crc, x->x, (size_t)(x->rows * s->dim) * sizeof *x->x);
        gf_job_report(x->watch, (double)(x->first + x->rows) / (double)s->n);
        FAIL_IF(err, gf_job_stopped(x->watch), GLOFND_E_CANCELLED, "cancelled");
    }
    d->good_n = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (d->kind[i] != GF_ROW_GOOD) continue;
        x->hash[d->good_n] = x->hash[i];
        x->hash[d->good_n].position = (int32_t)d->good_n;
        d->good[d->good_n++] = (int32_t)i;
    }
    /* hash [good_n] by position. */
    row_hash *hash = x->hash;
    hash_parts parts = {.hash = hash};
    /* Puts each hash into its part, in place: the next free place of a part is its start[part] until all are full. */
    const int64_t n = d->good_n;
    int64_t end[HASH_PARTS] = {0}, next[HASH_PARTS];
    for (int64_t i = 0; i < n; i++) end[parts.hash[i].a >> 56]++;
    for (int64_t k = 0, at = 0; k < HASH_PARTS; k++) next[k] = parts.start[k] = at, at += end[k], end[k] = at;
    parts.start[HASH_PARTS] = n;
    for (int64_t k = 0; k < HASH_PARTS; k++)
        while (next[k] < end[k]) {
            row_hash h = parts.hash[next[k]];
            while ((int64_t)(h.a >> 56) != k) {
                row_hash *to = &parts.hash[next[h.a >> 56]++];
                const row_hash other = *to;
                *to = h, h = other;
            }
            parts.hash[next[k]++] = h;
        }
    gf_parallel(gf_parallel_default(), HASH_PARTS, sort_part, &parts);
    d->distinct = 0;
    for (int64_t i = 0, first = 0; i < d->good_n; i++) {
        if (hash[i].a != hash[first].a || hash[i].b != hash[first].b) first = i;
        d->distinct += i == first;
        d->copy_of[hash[i].position] = hash[first].position;
    }
    return GLOFND_OK;
}

glofnd_status gf_discover_classify_stream(gf_error *err, const gf_row_source *source, const gf_job_progress *watch,
                                          gf_discover_data *d) {
    const size_t n = (size_t)source->n;
    stream_inspection x = {.source = source, .watch = watch, .d = d};
    d->n = source->n, d->dim = source->dim;
    d->kind = malloc(n * sizeof *d->kind);
    d->good = malloc(n * sizeof *d->good);
    d->copy_of = malloc(n * sizeof *d->copy_of);
    x.hash = malloc(n * sizeof *x.hash);
    x.x = malloc((size_t)GF_MIN(STREAM_ROWS, source->n) * (size_t)source->dim * sizeof *x.x);
    const int there = d->kind && d->good && d->copy_of && x.hash && x.x;
    const glofnd_status status =
        there ? inspect_stream(err, &x) : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)source->n);
    free(x.hash);
    free(x.x);
    return status;
}

/* ----- centring ----- */

/* The mean of the usable rows, as mean [d->dim]. */
static glofnd_status mean_of_rows(gf_error *err, const gf_discover_data *d, double **mean) {
    *mean = calloc((size_t)d->dim, sizeof **mean);
    FAIL_IF(err, !*mean, GLOFND_E_MEMORY, "no memory for a mean");
    for (int64_t i = 0; i < d->good_n; i++)
        for (int64_t k = 0; k < d->dim; k++) (*mean)[k] += (double)d->x[d->good[i] * d->dim + k];
    for (int64_t k = 0; k < d->dim && d->good_n; k++) (*mean)[k] /= (double)d->good_n;
    return GLOFND_OK;
}

/* d is classified, and is so again: a row may be the mean itself. */
static glofnd_status subtract_mean(gf_error *err, const double *mean, gf_discover_data *d) {
    for (int64_t i = 0; i < d->good_n; i++)
        for (int64_t k = 0; k < d->dim; k++) {
            float *x = &d->x[d->good[i] * d->dim + k];
            *x = (float)((double)*x - mean[k]);
        }
    free(d->kind);
    free(d->good);
    free(d->copy_of);
    d->kind = NULL, d->good = NULL, d->copy_of = NULL, d->good_n = d->distinct = 0;
    return gf_discover_classify(err, d);
}

glofnd_status gf_discover_center(gf_error *err, gf_discover_data *d, gf_discover_data *new) {
    double *mean = NULL;
    glofnd_status status = mean_of_rows(err, d, &mean);
    if (status == GLOFND_OK) status = subtract_mean(err, mean, d);
    if (status == GLOFND_OK && new) status = subtract_mean(err, mean, new);
    free(mean);
    return status;
}
